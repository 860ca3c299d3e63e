/*
 * check_config.c - the configuration: every option, every kind of mistake.
 */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/config.h"

static char path[] = "/tmp/check_config.XXXXXX";

static void write_file(const char *text)
{
	FILE *out = fopen(path, "w");

	ck_assert_ptr_nonnull(out);
	fputs(text, out);
	fclose(out);
}

static const struct {
	const char *text;
	int line, column;
	const char *part; /* of the sentence */
} bad[] = {
	{ "backend = \"slurm\"\n", 1, 12, "\"slurm\" is not one of trace|static" },
	{ "\n\n  grace_s = -3\n", 3, 13, "grace_s: -3 is not between" },
	{ "nodes = \"a\"\nnonsense = 1\n", 2, 1, "nonsense" },
	{ "horizon_s = \"long\"\n", 1, 13, "'horizon_s'" },
	{ "probe = perhaps\n", 1, 9, "'probe'" },
	{ "max_restarts = 1.5\n", 1, 16, "'max_restarts'" },
	{ "backend =\n", 0, 0, "" },
	{ "backend \"trace\"\n", 0, 0, "" },
	{ "nodes = \"n[1-4]\n", 0, 0, "" },
	{ "{}\n", 0, 0, "" },
	/* libconfuse 3.3 counts the line of a comment twice */
	{ "# a\n# b\n\nnonsense = 1\n", 4, 1, "nonsense" },
	{ "/* a\n b */ nonsense = 1\n", 2, 7, "nonsense" },
	{ "log_file = \"/a # b\" // c\n  nonsense = 1\n", 2, 3, "nonsense" },
	{ "probe = true\n /* for ever\n", 2, 2, "comment without its end" },
	{ "nodes = \"n[1-\"\n", 1, 10, "column 5: missing ]" },
	{ "probe = true\nstate_dir = \"\"\n", 2, 1, "does not begin with /" },
	{ "socket = \"ctld.sock\"\n", 1, 11, "does not begin with /" },
};

START_TEST(a_mistake_is_refused_with_line_and_column)
{
	struct config config;
	struct err err = { "" };
	char place[64];

	ck_assert_int_eq(config_init(&config, NULL), 0);
	write_file(bad[_i].text);
	ck_assert_int_eq(config_read(&config, path, &err), -1);
	ck_assert_int_eq(errno, EINVAL);
	if (bad[_i].line)
		snprintf(place, sizeof(place), "%s:%d:%d: ", path, bad[_i].line, bad[_i].column);
	else
		snprintf(place, sizeof(place), "%s:", path);
	ck_assert_msg(!strncmp(err.text, place, strlen(place)), "%s", err.text);
	ck_assert_msg(strstr(err.text, bad[_i].part) != NULL, "%s", err.text);
	ck_assert_str_eq(config.backend, "trace"); /* the old one is untouched */
	config_fini(&config);
}
END_TEST

START_TEST(values_are_taken_and_the_rest_keeps_its_default)
{
	struct config config;
	struct err err = { "" };

	ck_assert_int_eq(config_init(&config, NULL), 0);
	write_file("# a comment\nbackend = \"static\"\nnodes = \"a[1-3],b\"\n"
		   "node_cpus = 2\nprobe = false\nmax_restarts = 7\n");
	ck_assert_msg(config_read(&config, path, &err) == 0, "%s", err.text);
	ck_assert_str_eq(config.backend, "static");
	ck_assert_str_eq(config.nodes, "a[1-3],b");
	ck_assert_double_eq(config.node_cpus, 2);
	ck_assert_int_eq(config.probe, 0);
	ck_assert_int_eq(config.max_restarts, 7);
	ck_assert_double_eq(config.horizon_s, 120); /* DESIGN: T is 120 s by default */
	config_fini(&config);
}
END_TEST

START_TEST(the_example_parses_and_changes_nothing)
{
	struct config config, plain;
	struct err err = { "" };
	FILE *out = fopen(path, "w");
	json_t *a, *b;

	ck_assert_int_eq(config_write_example(out), 0);
	fclose(out);
	ck_assert_int_eq(config_init(&config, NULL), 0);
	ck_assert_int_eq(config_init(&plain, NULL), 0);
	ck_assert_msg(config_read(&config, path, &err) == 0, "%s", err.text);
	a = config_json(&config);
	b = config_json(&plain);
	ck_assert_int_gt((int)json_array_size(a), 20);
	ck_assert(json_equal(a, b));
	json_decref(a);
	json_decref(b);
	config_fini(&config);
	config_fini(&plain);
}
END_TEST

START_TEST(a_file_that_is_not_there_says_so)
{
	struct config config;
	struct err err = { "" };

	ck_assert_int_eq(config_init(&config, NULL), 0);
	ck_assert_int_eq(config_read(&config, "/nowhere/malle.conf", &err), -1);
	ck_assert_int_eq(errno, ENOENT);
	ck_assert_str_eq(err.text, "/nowhere/malle.conf: No such file or directory");
	config_fini(&config);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("config");
	TCase *tc = tcase_create("config");
	SRunner *runner = srunner_create(suite);
	int fd = mkstemp(path), failed;

	close(fd);
	tcase_add_loop_test(tc, a_mistake_is_refused_with_line_and_column, 0,
		sizeof(bad) / sizeof(bad[0]));
	tcase_add_test(tc, values_are_taken_and_the_rest_keeps_its_default);
	tcase_add_test(tc, the_example_parses_and_changes_nothing);
	tcase_add_test(tc, a_file_that_is_not_there_says_so);
	suite_add_tcase(suite, tc);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	unlink(path);
	return failed != 0;
}
