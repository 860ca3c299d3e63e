/* check_agent_mpi.c - mpirun's command line, and what mpirun hands to malle-rsh. */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/launch_mpi.h"
#include "agent/output.h"

enum { WORDS_MAX = 16 };

/* As Open MPI 4.1.4 calls its remote-start program; NULL: it is refused. */
static const struct {
	const char *args[WORDS_MAX];
	const char *argv; /* joined by "|" */
} cases[] = {
	{ { " orted", "--daemonize", "-mca", "ess", "\"env\"", "-mca", "ess_base_vpid",
		  "2" },
		"orted|-mca|ess|env|-mca|ess_base_vpid|2" },
	{ { "orted", "-mca", "orte_node_regex",
		  "\"vm,[3:240].0.0.1,[3:240].0.0.2@0(3)\"" },
		"orted|-mca|orte_node_regex|vm,[3:240].0.0.1,[3:240].0.0.2@0(3)" },
	{ { "orted", "-mca", "orte_hnp_uri", "\"2081226752.0;tcp://127.0.0.1:42013\"" },
		"orted|-mca|orte_hnp_uri|2081226752.0;tcp://127.0.0.1:42013" },
	{ { "(", "test", "!", "-r", "./.profile", "||", ".", "./.profile;", " orted",
		  "-mca", "ess", "\"env\"", ")" },
		"orted|-mca|ess|env" },
	{ { "/opt/ompi/bin/orted", "-np", "1" }, "orted|-np|1" },
	{ { "orted", "\"\"", "x" }, "orted||x" },
	{ { "orted", "\"two words\"" }, "orted|two words" },
	{ { " orted --daemonize -mca ess \"env\" -x \"a b\"  end" },
		"orted|-mca|ess|env|-x|a b|end" },
	{ { "orted" }, "orted" },
	{ { "orted", "$(id)" }, NULL },
	{ { "orted", "`id`" }, NULL },
	{ { "orted", "a;b" }, NULL },
	{ { "orted", ">file" }, NULL },
	{ { "orted", "\"$HOME\"" }, NULL },
	{ { "orted", "\"a\\\"b\"" }, NULL },
	{ { "orted", "it's" }, NULL },
	{ { "orted", "\"half" }, NULL },
	{ { "orted \"half open" }, NULL },
	{ { "$(id)/orted", "x" }, NULL },
	{ { "rm", "-rf", "/" }, NULL },
	{ { "torted" }, NULL },
	{ { "" }, NULL },
};

static const char *join(char **argv, char *buf, size_t size)
{
	buf[0] = '\0';
	for (size_t i = 0; argv[i]; i++)
		snprintf(buf + strlen(buf), size - strlen(buf), "%s%s", i ? "|" : "",
			argv[i]);
	return buf;
}

START_TEST(what_mpirun_hands_over_is_taken_apart)
{
	struct err err = { "" };
	char buf[512], **argv;
	size_t n = 0;

	while (n < WORDS_MAX && cases[_i].args[n])
		n++;
	argv = launch_mpi_orted((char *const *)cases[_i].args, n, &err);
	if (cases[_i].argv) {
		ck_assert_msg(argv != NULL, "%s", err.text);
		ck_assert_str_eq(join(argv, buf, sizeof(buf)), cases[_i].argv);
	} else {
		ck_assert_ptr_null(argv);
		ck_assert_int_eq(errno, EINVAL);
		ck_assert_str_ne(err.text, "");
		ck_assert_ptr_null(strchr(err.text, '\n'));
	}
	free(argv);
}
END_TEST

static int index_of(char **argv, const char *word)
{
	for (int i = 0; argv[i]; i++)
		if (strcmp(argv[i], word) == 0)
			return i;
	return -1;
}

START_TEST(mpirun_is_called_by_numbers_and_ends_with_the_command)
{
	char *worker[] = { (char *)"prog", (char *)"a b", (char *)"$HOME", NULL };
	struct launch_mpi what = {
		.agent = "/bin/malle-agent",
		.rsh = "/bin/malle-rsh",
		.interface = "lo",
		.n_nodes = 3,
		.nproc = 2,
		.argv = worker,
	};
	struct err err;
	char **argv = launch_mpi_argv(&what, &err);
	int n = 0;

	ck_assert_ptr_nonnull(argv);
	while (argv[n])
		n++;
	ck_assert_str_eq(argv[0], "mpirun"); /* with a path it would use a shell */
	ck_assert_str_eq(argv[index_of(argv, "--host") + 1],
		"240.0.0.1:2,240.0.0.2:2,240.0.0.3:2");
	ck_assert_str_eq(argv[index_of(argv, "-np") + 1], "6");
	ck_assert_str_eq(argv[index_of(argv, "plm_rsh_agent") + 1], "/bin/malle-rsh");
	ck_assert_str_eq(argv[n - 6], "/bin/malle-agent");
	ck_assert_str_eq(argv[n - 5], "--exec");
	ck_assert_str_eq(argv[n - 4], "--");
	ck_assert_str_eq(argv[n - 2], "a b");
	ck_assert_str_eq(argv[n - 1], "$HOME");
	/* Each parameter once: twice is fatal for mpirun. */
	for (int i = 0; i < n; i++)
		for (int k = i + 1; k < n; k++)
			ck_assert(strcmp(argv[i], "--mca") ||
				  strcmp(argv[k], "--mca") ||
				  strcmp(argv[i + 1], argv[k + 1]));
	free(argv);
	what.rsh = "/my programs/malle-rsh";
	ck_assert_ptr_null(launch_mpi_argv(&what, &err));
	ck_assert_int_eq(errno, EINVAL);
	what.n_nodes = 0;
	ck_assert_ptr_null(launch_mpi_argv(&what, &err));
}
END_TEST

static const struct {
	const char *host;
	long index; /* -1: it is none */
} hosts[] = {
	{ "240.0.0.1", 0 },
	{ "240.0.0.255", 254 },
	{ "240.0.1.0", 255 },
	{ "240.0.255.255", 65534 },
	{ "240.0.0.0", -1 },
	{ "240.0.0.256", -1 },
	{ "240.0.0.1x", -1 },
	{ "241.0.0.1", -1 },
	{ "n1", -1 },
	{ "", -1 },
};

START_TEST(nodes_have_numbers_that_lead_back_to_them)
{
	size_t index = 0;
	char buf[16];

	if (hosts[_i].index < 0) {
		ck_assert_int_eq(launch_mpi_index(hosts[_i].host, &index), -1);
		return;
	}
	ck_assert_int_eq(launch_mpi_index(hosts[_i].host, &index), 0);
	ck_assert_int_eq((long)index, hosts[_i].index);
	ck_assert_str_eq(launch_mpi_host(index, buf), hosts[_i].host);
}
END_TEST

/* What stays of mpirun's standard error; what is held back for more. */
static const struct {
	const char *bytes, *stays, *held;
} outputs[] = {
	{ "one\ntwo\n", "one\ntwo\n", "" },
	{ "no end", "no end", "" },
	{ "[vm:12] plm:rsh: Warning: setpgid(5,5) failed in parent with errno=x\nrest",
		"rest", "" },
	{ "a\n[vm:12] plm:rsh: Warning: setpgid(5,5) failed\nb\n", "a\nb\n", "" },
	{ "WARNING: local probe returned unhandled shell:unknown assuming bash\n", "",
		"" },
	{ "WARNING: your own\n", "WARNING: your own\n", "" },
	{ "[1/100] loss 3\n", "[1/100] loss 3\n", "" },
	{ "[1/100] lo", "", "[1/100] lo" },
	{ "WARN", "", "WARN" },
	{ "WARP", "WARP", "" },
	{ "x\n[", "x\n", "[" },
};

START_TEST(two_lines_of_mpiruns_are_left_out)
{
	const char *bytes = outputs[_i].bytes;
	size_t size = strlen(bytes), done = 0, used;
	char stays[256] = "";
	int keep;

	while (done < size &&
		(used = output_judge(bytes + done, size - done, &keep)) > 0) {
		if (keep)
			strncat(stays, bytes + done, used);
		done += used;
	}
	ck_assert_str_eq(stays, outputs[_i].stays);
	ck_assert_str_eq(bytes + done, outputs[_i].held);
}
END_TEST

#define N(table) (int)(sizeof(table) / sizeof((table)[0]))

int main(void)
{
	Suite *suite = suite_create("agent mpi");
	TCase *tcase = tcase_create("all");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_add_loop_test(tcase, what_mpirun_hands_over_is_taken_apart, 0, N(cases));
	tcase_add_test(tcase, mpirun_is_called_by_numbers_and_ends_with_the_command);
	tcase_add_loop_test(
		tcase, nodes_have_numbers_that_lead_back_to_them, 0, N(hosts));
	tcase_add_loop_test(tcase, two_lines_of_mpiruns_are_left_out, 0, N(outputs));
	suite_add_tcase(suite, tcase);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
