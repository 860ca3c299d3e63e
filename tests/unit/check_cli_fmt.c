/* check_cli_fmt.c - what people are shown. */
#include <check.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/fmt.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct {
	double value;
	const char *text;
} counts[] = {
	{ NAN, "-" },
	{ INFINITY, "-" },
	{ 0, "0" },
	{ 0.25, "0.2" },
	{ 7, "7" },
	{ 9.96, "10.0" },
	{ 42.4, "42" },
	{ 999, "999" },
	{ 999.4, "999" },
	{ 999.5, "1.00k" },
	{ 1000, "1.00k" },
	{ 9994, "9.99k" },
	{ 9996, "10.0k" },
	{ 12345.6, "12.3k" },
	{ 99960, "100k" },
	{ 999400, "999k" },
	{ 999600, "1.00M" },
	{ 98765432, "98.8M" },
	{ 1e15, "1.00P" },
	{ 9007199254740991.0, "9.01P" },
	{ -1500, "-1.50k" },
};

START_TEST(numbers_take_five_columns_at_most)
{
	char buf[FMT_SIZE];

	ck_assert_str_eq(fmt_count(counts[_i].value, buf), counts[_i].text);
}
END_TEST

static const struct {
	double seconds;
	const char *text;
} times[] = {
	{ NAN, "-" },
	{ INFINITY, "-" },
	{ -1, "0s" },
	{ 0, "0s" },
	{ 0.0004, "0.4ms" },
	{ 0.0099, "9.9ms" },
	{ 0.00996, "10ms" },
	{ 0.21, "210ms" },
	{ 0.9996, "1.0s" },
	{ 3.46, "3.5s" },
	{ 9.96, "10s" },
	{ 59.4, "59s" },
	{ 59.6, "1m00s" },
	{ 65, "1m05s" },
	{ 3599.7, "1h00m" },
	{ 3725, "1h02m" },
	{ 86399.9, "1d00h" },
	{ 123456, "1d10h" },
};

START_TEST(times_are_rounded_not_cut)
{
	char buf[FMT_SIZE];

	ck_assert_str_eq(fmt_time(times[_i].seconds, buf), times[_i].text);
}
END_TEST

/* fmt_text of JSON text into memory of the caller. */
static char *shown(enum fmt_what what, const char *json, int width)
{
	json_t *data = json_loads(json, 0, NULL);
	struct style style = { .width = width };
	size_t size;
	char *text;

	ck_assert_ptr_nonnull(data);
	style.out = open_memstream(&text, &size);
	ck_assert_int_eq(fmt_text(what, data, &style), 0);
	fclose(style.out);
	json_decref(data);
	return text;
}

#define JOB(id, name, user, state, probe)                                              \
	"{\"id\":\"" id "\",\"name\":\"" name "\",\"user\":\"" user                    \
	"\",\"state\":\"" state "\",\"n_nodes\":4,\"max_nodes\":8,\"generation\":14,"  \
	"\"rate_per_s\":12345.6,\"cursor\":98765432,\"rescales\":{\"grow\":7,"         \
	"\"shrink\":6,\"forced\":3,\"moved\":1,\"failed\":0},\"pause_s\":"             \
	"{\"p50\":0.25},\"probe\":{\"state\":\"" probe "\",\"size\":0}}"
#define X16 "xxxxxxxxxxxxxxxx"
#define X64 X16 X16 X16 X16

START_TEST(a_table_of_jobs_is_aligned)
{
	char *text = shown(FMT_JOBS,
		"{\"jobs\":[" JOB("3", "train", "ada", "running", "off") "," JOB(
			"12", "resnet", "grace", "waiting", "known") "]}",
		80);

	ck_assert_str_eq(text,
		"ID NAME   USER  STATE   NODES GEN RATE/s SAMPLES RESCALES PAUSE "
		"PROBE\n"
		" 3 train  ada   running   4/8  14  12.3k   98.8M       14 250ms off\n"
		"12 resnet grace waiting   4/8  14  12.3k   98.8M       14 250ms "
		"known\n");
	free(text);
}
END_TEST

START_TEST(a_long_name_is_cut_before_a_user_or_a_state)
{
	char *text = shown(FMT_JOBS,
		"{\"jobs\":[" JOB("3", X64, "augusta.ada", "running", "probing") "]}",
		80);

	ck_assert_str_eq(text, "ID NAME      USER        STATE   NODES GEN RATE/s "
			       "SAMPLES RESCALES PAUSE "
			       "PROBE\n"
			       " 3 xxxxxxxxx augusta.ada running   4/8  14  12.3k   "
			       "98.8M       14 250ms "
			       "probing\n");
	free(text);
}
END_TEST

/* Columns that a terminal shows, in UTF-8 without wide characters. */
static size_t columns_of(const char *line, size_t size)
{
	size_t n = 0;

	for (size_t i = 0; i < size; i++)
		n += ((unsigned char)line[i] & 0xc0) != 0x80;
	return n;
}

static const char *const wide[] = {
	"{\"jobs\":[" JOB(X64, X64, X64, "starting", X16) "]}",
	"{\"jobs\":[" JOB("1",
		"\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4"
		"\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4",
		X64, "starting", X16) "]}",
	"{\"jobs\":[" JOB("\\u001b[2J", "a\\nb\\rc", "d\\te", "f\\u0007", "g") "]}",
};

START_TEST(no_line_is_wider_than_asked_for)
{
	for (int width = 40; width <= 160; width += 20) {
		char *text = shown(FMT_JOBS, wide[_i], width);
		char *line = text;
		int lines = 0;

		for (char *end; (end = strchr(line, '\n')); line = end + 1, lines++)
			ck_assert_msg(columns_of(line, end - line) <= (size_t)width,
				"%d columns: %s", width, text);
		ck_assert_int_eq(lines, 2);
		ck_assert_ptr_null(strpbrk(text, "\033\r\007\t"));
		free(text);
	}
}
END_TEST

START_TEST(an_empty_list_says_so)
{
	char *text = shown(FMT_NODES, "{\"nodes\":[]}", 80);

	ck_assert_str_eq(text, "no nodes\n");
	free(text);
}
END_TEST

START_TEST(node_names_are_folded_and_strange_ones_left_out)
{
	json_t *list =
		json_loads("[\"n1\", \"n2\", \"n3\", 7, \"a b\", \"login\"]", 0, NULL);
	char *text = fmt_nodes(list);

	ck_assert_str_eq(text, "n[1-3],login");
	free(text);
	json_decref(list);
	ck_assert_ptr_null(fmt_nodes(NULL));
}
END_TEST

START_TEST(json_is_what_the_daemon_said)
{
	json_t *data = json_loads("{\"b\":[1,2.5],\"a\":null}", 0, NULL);
	char *text;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	ck_assert_int_eq(fmt_json(data, 1, out), 0);
	fclose(out);
	ck_assert_str_eq(text, "{\"b\":[1,2.5],\"a\":null}\n");
	free(text);
	json_decref(data);
}
END_TEST

static void use_utf8(void)
{
	setlocale(LC_CTYPE, "C.UTF-8");
	unsetenv("COLUMNS");
}

int main(void)
{
	Suite *suite = suite_create("cli_fmt");
	TCase *tc = tcase_create("cli_fmt");
	SRunner *runner;
	int failed;

	tcase_add_checked_fixture(tc, use_utf8, NULL);
	tcase_add_loop_test(tc, numbers_take_five_columns_at_most, 0, COUNT(counts));
	tcase_add_loop_test(tc, times_are_rounded_not_cut, 0, COUNT(times));
	tcase_add_test(tc, a_table_of_jobs_is_aligned);
	tcase_add_test(tc, a_long_name_is_cut_before_a_user_or_a_state);
	tcase_add_loop_test(tc, no_line_is_wider_than_asked_for, 0, COUNT(wide));
	tcase_add_test(tc, an_empty_list_says_so);
	tcase_add_test(tc, node_names_are_folded_and_strange_ones_left_out);
	tcase_add_test(tc, json_is_what_the_daemon_said);
	suite_add_tcase(suite, tc);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}
