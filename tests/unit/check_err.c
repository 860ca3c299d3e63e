/* check_err.c - the sentence that goes with a failure. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/err.h"

START_TEST(setting_an_err_returns_minus_one_and_sets_errno)
{
	struct err err;

	errno = 0;
	ck_assert_int_eq(err_set(&err, EINVAL, "%s: size %d", "x", 7), -1);
	ck_assert_int_eq(errno, EINVAL);
	ck_assert_str_eq(err.text, "x: size 7");
	ck_assert_int_eq(err_set(NULL, ENOENT, "nobody wants it"), -1);
	ck_assert_int_eq(errno, ENOENT);
}
END_TEST

static const struct {
	size_t size;
	int cut;
} lengths[] = { { 0, 0 }, { 1, 0 }, { 254, 0 }, { 255, 0 }, { 256, 1 }, { 5000, 1 } };

START_TEST(a_text_that_is_too_long_ends_in_dots)
{
	char *word = calloc(1, lengths[_i].size + 1);
	struct err err;
	size_t got;

	memset(word, 'x', lengths[_i].size);
	err_set(&err, EINVAL, "%s", word);
	got = strlen(err.text);
	ck_assert_uint_eq(
		got, lengths[_i].cut ? sizeof(err.text) - 1 : lengths[_i].size);
	if (lengths[_i].cut)
		ck_assert_str_eq(err.text + got - 3, "...");
	free(word);
}
END_TEST

START_TEST(a_prefix_goes_in_front_and_keeps_errno)
{
	struct err err;

	err_set(&err, EPROTO, "it is short");
	ck_assert_int_eq(err_prefix(&err, "%s:%d", "file", 3), -1);
	ck_assert_int_eq(errno, EPROTO);
	ck_assert_str_eq(err.text, "file:3: it is short");
	errno = EIO;
	ck_assert_int_eq(err_prefix(NULL, "x"), -1);
	ck_assert_int_eq(errno, EIO);
}
END_TEST

START_TEST(a_prefix_that_fills_the_text_ends_in_dots)
{
	char word[300];
	struct err err;

	memset(word, 'p', sizeof(word) - 1);
	word[sizeof(word) - 1] = '\0';
	for (size_t size = 240; size < sizeof(word); size++) {
		err_set(&err, EPROTO, "tail");
		err_prefix(&err, "%s", word + sizeof(word) - 1 - size);
		ck_assert_uint_le(strlen(err.text), sizeof(err.text) - 1);
		if (size + strlen(": tail") > sizeof(err.text) - 1)
			ck_assert_str_eq(err.text + sizeof(err.text) - 4, "...");
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("err");
	TCase *tc = tcase_create("err");
	SRunner *runner;
	int failed;

	tcase_add_test(tc, setting_an_err_returns_minus_one_and_sets_errno);
	tcase_add_loop_test(tc, a_text_that_is_too_long_ends_in_dots, 0,
		sizeof(lengths) / sizeof(lengths[0]));
	tcase_add_test(tc, a_prefix_goes_in_front_and_keeps_errno);
	tcase_add_test(tc, a_prefix_that_fills_the_text_ends_in_dots);
	suite_add_tcase(suite, tc);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}
