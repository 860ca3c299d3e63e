/*
 * check_hostlist.c - lists of node names, expanded and compressed.
 *
 * The tables are what Slurm's own tools answer, or follow from the syntax by
 * counting on paper; the captured answers of `scontrol show hostnames` and
 * `show hostlist` are run where they are at hand.
 */
#include <check.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <unistd.h>

#include "proto/err.h"
#include "proto/hostlist.h"
#include "tests/unit/failing_malloc.h"

/* The names of a list with blanks between them, or NULL.  Free it. */
static char *joined(const char *const *names, size_t count)
{
	size_t bytes = 1;
	char *text, *to;

	for (size_t i = 0; i < count; i++)
		bytes += strlen(names[i]) + 1;
	text = to = calloc(1, bytes);
	for (size_t i = 0; text && i < count; i++)
		to += sprintf(to, "%s%s", i ? " " : "", names[i]);
	return text;
}

static char *joined_list(const struct hostlist *list)
{
	return joined((const char *const *)list->names, list->count);
}

/* --- expanding ------------------------------------------------------------ */

static const struct {
	const char *expr, *names;
} good[] = {
	{ "", "" },
	{ " ,\t,\n ", "" },
	{ "login", "login" },
	{ "a,b", "a b" },
	{ ",a,, b\t\tc ,", "a b c" },
	{ "b,a,b", "b a b" },
	/* numbers and padding */
	{ "n[5]", "n5" },
	{ "n[8-11]", "n8 n9 n10 n11" },
	{ "n[08-11]", "n08 n09 n10 n11" },
	{ "n[98-101]", "n98 n99 n100 n101" },
	{ "n[098-101]", "n098 n099 n100 n101" },
	{ "n[9-010]", "n9 n10" },
	{ "n[00-01]", "n00 n01" },
	{ "n[000]", "n000" },
	{ "n[3,1,2,1]", "n3 n1 n2 n1" },
	{ "n[1-3,2-4]", "n1 n2 n3 n2 n3 n4" },
	{ "n[18446744073709551614-18446744073709551615]",
	  "n18446744073709551614 n18446744073709551615" },
	{ "n[00018446744073709551615]", "n00018446744073709551615" },
	/* text around groups */
	{ "[7-9]", "7 8 9" },
	{ "[1-2]x", "1x 2x" },
	{ "n[1-2]-ib0", "n1-ib0 n2-ib0" },
	{ "n[1-2].rack[03-04].site", "n1.rack03.site n1.rack04.site "
				     "n2.rack03.site n2.rack04.site" },
	{ "dgx8-[0-1]", "dgx8-0 dgx8-1" },
	{ "192.168.1.[9-10]", "192.168.1.9 192.168.1.10" },
	{ "n%s$x{1}", "n%s$x{1}" },
	{ "kn\xc3\xb6ten[1-2]", "kn\xc3\xb6ten1 kn\xc3\xb6ten2" },
	/* commas nested */
	{ "a,n[1,3],c", "a n1 n3 c" },
	{ "a[1,2],b[3,4-5] c", "a1 a2 b3 b4 b5 c" },
	/* groups multiply: the last fastest, then those before it from the left */
	{ "r[0-1]n[0-1]", "r0n0 r0n1 r1n0 r1n1" },
	{ "[0-1][0-2]", "00 01 02 10 11 12" },
	{ "a[1-2]b[3-4]c[5-6]", "a1b3c5 a1b3c6 a2b3c5 a2b3c6 "
				"a1b4c5 a1b4c6 a2b4c5 a2b4c6" },
	{ "[0-1][0-1][0-1][0-1]", "0000 0001 1000 1001 0100 0101 1100 1101 "
				  "0010 0011 1010 1011 0110 0111 1110 1111" },
	{ "r[0,2]n[08-09,1]", "r0n08 r0n09 r0n1 r2n08 r2n09 r2n1" },
};

START_TEST(an_expression_expands_to_its_names_in_order)
{
	struct hostlist list;
	struct err err;
	char *names;

	hostlist_init(&list);
	ck_assert_int_eq(hostlist_expand(&list, good[_i].expr, 0, &err), 0);
	names = joined_list(&list);
	ck_assert_str_eq(names, good[_i].names);
	free(names);
	hostlist_fini(&list);
}
END_TEST

static const struct {
	const char *expr;
	int errnum;
	const char *text;
} bad[] = {
	{ "node[01", EINVAL, "column 8: missing ]" },
	{ "node[", EINVAL, "column 6: missing ]" },
	{ "node[1-", EINVAL, "column 8: missing ]" },
	{ "node[1,", EINVAL, "column 8: missing ]" },
	{ "ok[1-2],node[1-2", EINVAL, "column 17: missing ]" },
	{ "node[]", EINVAL, "column 6: empty brackets" },
	{ "node[01,]", EINVAL, "column 9: a number is wanted here" },
	{ "node[,1]", EINVAL, "column 6: a number is wanted here" },
	{ "node[-1]", EINVAL, "column 6: a number is wanted here" },
	{ "node[1-]", EINVAL, "column 8: a number is wanted here" },
	{ "node[a]", EINVAL, "column 6: a number is wanted here" },
	{ "node[[1]]", EINVAL, "column 6: a number is wanted here" },
	{ "node[ 1]", EINVAL, "column 6: a number is wanted here" },
	{ "node[+1]", EINVAL, "column 6: a number is wanted here" },
	{ "node[1 ]", EINVAL, "column 7: unexpected byte in brackets" },
	{ "node[1-2-3]", EINVAL, "column 9: unexpected byte in brackets" },
	{ "node[1-9:2]", EINVAL, "column 9: unexpected byte in brackets" },
	{ "node[1-a]", EINVAL, "column 8: a number is wanted here" },
	{ "node[0x1]", EINVAL, "column 7: unexpected byte in brackets" },
	{ "node[3-1]", EINVAL, "column 8: range runs backwards" },
	{ "a,node]", EINVAL, "column 7: ] without [" },
	{ "node[1]]", EINVAL, "column 8: ] without [" },
	{ "]", EINVAL, "column 1: ] without [" },
	{ "a\x01", EINVAL, "column 2: control character in a name" },
	{ "a \x7f", EINVAL, "column 3: control character in a name" },
	{ "n[18446744073709551616]", EINVAL, "column 3: number is over 2^64-1" },
	{ "n[1-99999999999999999999]", EINVAL, "column 5: number is over 2^64-1" },
	/* too much, found before a name is made */
	{ "n[1-65537]", E2BIG, "column 1: more than 65536 names in all" },
	{ "n[1-65536],x", E2BIG, "column 12: more than 65536 names in all" },
	{ "n[0-18446744073709551615]", E2BIG, "column 1: more than 65536 names in all" },
	{ "[0-18446744073709551615][0-18446744073709551615]", E2BIG,
	  "column 1: more than 65536 names in all" },
	{ "[0-18446744073709551615,0-18446744073709551615]", E2BIG,
	  "column 1: more than 65536 names in all" },
	/* 2^32 times 2^32, and 2^64 names in two ranges, are 0 in 64 bits */
	{ "[0-4294967295][0-4294967295]", E2BIG,
	  "column 1: more than 65536 names in all" },
	{ "[0-9223372036854775807,0-9223372036854775807]", E2BIG,
	  "column 1: more than 65536 names in all" },
	/* a fault behind the excess is not reached, one before it is */
	{ "n[], n[1-65537]", EINVAL, "column 3: empty brackets" },
};

START_TEST(a_bad_expression_is_refused_with_its_column)
{
	struct hostlist list;
	struct err err;

	hostlist_init(&list);
	errno = 0;
	ck_assert_int_eq(hostlist_expand(&list, bad[_i].expr, 0, &err), -1);
	ck_assert_int_eq(errno, bad[_i].errnum);
	ck_assert_str_eq(err.text, bad[_i].text);
	ck_assert_uint_eq(list.count, 0);
	hostlist_fini(&list);
}
END_TEST

START_TEST(a_bad_expression_leaves_the_list_as_it_was)
{
	struct hostlist list;
	char *names;

	hostlist_init(&list);
	ck_assert_int_eq(hostlist_expand(&list, "b,a", 0, NULL), 0);
	ck_assert_int_eq(hostlist_expand(&list, bad[_i].expr, 0, NULL), -1);
	names = joined_list(&list);
	ck_assert_str_eq(names, "b a");
	free(names);
	hostlist_fini(&list);
}
END_TEST

START_TEST(the_bound_counts_the_whole_list)
{
	struct hostlist list;
	struct err err;

	hostlist_init(&list);
	ck_assert_int_eq(hostlist_expand(&list, "n[1-3]", 5, &err), 0);
	ck_assert_int_eq(hostlist_expand(&list, "a,b,c", 5, &err), -1);
	ck_assert_str_eq(err.text, "column 5: more than 5 names in all");
	ck_assert_int_eq(hostlist_expand(&list, "a,b", 5, &err), 0);
	ck_assert_int_eq(hostlist_expand(&list, "", 2, &err), 0);
	ck_assert_uint_eq(list.count, 5);
	ck_assert_int_eq(hostlist_expand(&list, NULL, 5, &err), 0);
	hostlist_fini(&list);
	ck_assert_int_eq(hostlist_expand(&list, "n[1-65536]", 0, &err), 0);
	ck_assert_uint_eq(list.count, 65536);
	ck_assert_str_eq(list.names[65535], "n65536");
	hostlist_fini(&list);
}
END_TEST

START_TEST(a_name_has_at_most_255_bytes)
{
	char expr[300], name[257];
	struct hostlist list;
	struct err err;

	hostlist_init(&list);
	memset(name, 'x', sizeof(name));
	name[255] = '\0';
	ck_assert_int_eq(hostlist_expand(&list, name, 0, &err), 0);
	name[255] = 'x';
	name[256] = '\0';
	ck_assert_int_eq(hostlist_expand(&list, name, 0, &err), -1);
	ck_assert_str_eq(err.text, "column 1: name is over 255 bytes");

	/* 253 bytes and the longest number of a group, which is two digits */
	name[253] = '\0';
	snprintf(expr, sizeof(expr), "a,%s[8-99]", name);
	ck_assert_int_eq(hostlist_expand(&list, expr, 0, &err), 0);
	snprintf(expr, sizeof(expr), "a,%s[8-100]", name);
	ck_assert_int_eq(hostlist_expand(&list, expr, 0, &err), -1);
	ck_assert_str_eq(err.text, "column 3: name is over 255 bytes");
	snprintf(expr, sizeof(expr), "a,%s[001]", name);
	ck_assert_int_eq(hostlist_expand(&list, expr, 0, &err), -1);
	ck_assert_uint_eq(list.count, 1 + 1 + 92);
	hostlist_fini(&list);
}
END_TEST

static const struct {
	const char *name;
	bool ok;
} names_to_judge[] = {
	{ "n1", true }, { "192.168.0.1", true }, { "a-b_c%", true },
	{ "kn\xc3\xb6ten", true }, { "", false }, { "a,b", false },
	{ "a b", false }, { "n[1]", false }, { "n]", false }, { "a\tb", false },
	{ "a\n", false }, { "\x01", false }, { "a\x7f", false },
};

START_TEST(a_name_is_text_without_separators)
{
	ck_assert_int_eq(hostlist_name_ok(names_to_judge[_i].name),
			 names_to_judge[_i].ok);
}
END_TEST

/* --- compressing ---------------------------------------------------------- */

static const struct {
	const char *names, *expr;
} folded[] = {
	{ "", "" },
	{ "login", "login" },
	{ "n7", "n7" },
	{ "b a", "b,a" },
	{ "n1 n2 n3", "n[1-3]" },
	{ "n1 n2 n4", "n[1-2,4]" },
	{ "n3 n2 n1", "n[3,2,1]" },
	{ "n1 n1", "n[1,1]" },
	{ "n1 n1 n2 n2 n3", "n[1,1-2,2-3]" },
	{ "a a b", "a,a,b" },
	{ "n8 n9 n10 n11", "n[8-11]" },
	{ "n08 n09 n10 n11", "n[08-11]" },
	{ "n99 n100", "n[99-100]" },
	{ "n099 n100", "n[099-100]" },
	{ "n9 n010", "n[9,010]" },
	{ "n09 n010", "n[09,010]" },
	{ "n9 n10 n011", "n[9-10,011]" },
	{ "n00 n01 n1 n2", "n[00-01,1-2]" },
	{ "n0 n00 n000", "n[0,00,000]" },
	{ "1 2 3", "[1-3]" },
	{ "1 x 2", "1,x,2" },
	{ "r1n1 r1n2 r2n1 r2n2", "r1n[1-2],r2n[1-2]" },
	{ "n1.x n2.x", "n1.x,n2.x" },
	{ "n n1 n2 n", "n,n[1-2],n" },
	{ "na1 nab2 n3 n4", "na1,nab2,n[3-4]" },
	{ "n18446744073709551614 n18446744073709551615 n0",
	  "n[18446744073709551614-18446744073709551615,0]" },
	/* the number after the last one is not 0 */
	{ "n18446744073709551615 n00000000000000000000",
	  "n[18446744073709551615,00000000000000000000]" },
	{ "n18446744073709551616 n18446744073709551617",
	  "n18446744073709551616,n18446744073709551617" },
	{ "n1 n99999999999999999999 n2", "n1,n99999999999999999999,n2" },
};

START_TEST(names_compress_to_an_expression_that_keeps_order_and_duplicates)
{
	struct hostlist list, back;
	struct err err;
	char *expr, *names;

	hostlist_init(&list);
	hostlist_init(&back);
	ck_assert_int_eq(hostlist_expand(&list, folded[_i].names, 0, &err), 0);
	expr = hostlist_compress((const char *const *)list.names, list.count, &err);
	ck_assert_str_eq(expr, folded[_i].expr);
	ck_assert_int_eq(hostlist_expand(&back, expr, 0, &err), 0);
	names = joined_list(&back);
	ck_assert_str_eq(names, folded[_i].names);
	free(names);
	free(expr);
	hostlist_fini(&list);
	hostlist_fini(&back);
}
END_TEST

START_TEST(what_is_no_name_is_not_compressed)
{
	const char *const names[] = { "n1", "n[2" };
	struct err err;

	errno = 0;
	ck_assert_ptr_null(hostlist_compress(names, 2, &err));
	ck_assert_int_eq(errno, EINVAL);
	ck_assert_str_eq(err.text, "name 2 of 2 is empty, too long or has a byte that "
				   "no node name has");
}
END_TEST

/* A small generator of its own, so that a failure can be repeated. */
static unsigned int seed;

static unsigned int draw(unsigned int below)
{
	seed = seed * 1664525u + 1013904223u;
	return (seed >> 8) % below;
}

static void random_name(char *name, size_t size)
{
	static const char *const prefixes[] = { "n", "n0", "", "rack1n", "x-", "9" };

	snprintf(name, size, "%s%0*u", prefixes[draw(6)], (int)draw(4), draw(30));
	if (!draw(12))
		strcat(name, ".site");
}

START_TEST(compressed_random_lists_expand_to_themselves)
{
	seed = 20211104;
	for (int round = 0; round < 3000; round++) {
		char names[40][32];
		const char *list[40];
		struct hostlist back;
		size_t count = draw(41);
		char *expr, *a, *b;

		for (size_t i = 0; i < count; i++) {
			random_name(names[i], sizeof(names[i]));
			list[i] = names[i];
		}
		expr = hostlist_compress(list, count, NULL);
		hostlist_init(&back);
		ck_assert_int_eq(hostlist_expand(&back, expr, 0, NULL), 0);
		a = joined(list, count);
		b = joined_list(&back);
		ck_assert_str_eq(a, b);
		free(a);
		free(b);
		free(expr);
		hostlist_fini(&back);
	}
}
END_TEST

/* --- memory --------------------------------------------------------------- */

START_TEST(expanding_survives_the_failure_of_each_allocation)
{
	for (long n = 1, failed = 1; failed; n++) {
		struct hostlist list;
		struct err err;
		int rc;

		hostlist_init(&list);
		ck_assert_int_eq(hostlist_expand(&list, "a", 0, &err), 0);
		failing_malloc_arm(n);
		rc = hostlist_expand(&list, "b,r[1-9,1-9,1-9,1-9,1-9]n[1-2].x,c", 0, &err);
		failed = failing_malloc_disarm();
		ck_assert_int_eq(rc, failed ? -1 : 0);
		if (failed)
			ck_assert_int_eq(errno, ENOMEM);
		ck_assert_uint_eq(list.count, failed ? 1 : 93);
		ck_assert(!failed || !strcmp(err.text, "out of memory for node names"));
		hostlist_fini(&list);
		ck_assert_int_lt(n, 1000);
	}
}
END_TEST

START_TEST(compressing_survives_the_failure_of_each_allocation)
{
	const char *const names[] = { "n1", "n2", "x" };

	for (long n = 1, failed = 1; failed; n++) {
		char *expr;

		failing_malloc_arm(n);
		errno = 0;
		expr = hostlist_compress(names, 3, NULL);
		failed = failing_malloc_disarm();
		ck_assert_int_eq(!expr, failed);
		ck_assert_int_eq(errno, failed ? ENOMEM : 0);
		free(expr);
	}
}
END_TEST

/* --- captured answers ----------------------------------------------------- */

/* The cases of a file, or NULL after saying that the test is skipped. */
static json_t *load_cases(const char *file)
{
	const char *dir = getenv("MALLE_DATA");
	char path[4096];
	json_error_t why;
	json_t *root;

	snprintf(path, sizeof(path), "%s/hostlist/%s", dir ? dir : "../shared/data", file);
	if (access(path, R_OK)) {
		printf("skip: %s: %s\n", path, strerror(errno));
		return NULL;
	}
	root = json_load_file(path, 0, &why);
	ck_assert_msg(root != NULL, "%s:%d: %s", path, why.line, why.text);
	ck_assert_uint_gt(json_array_size(json_object_get(root, "cases")), 0);
	return root;
}

/* "a b c" of an array of strings. */
static char *joined_json(const json_t *array)
{
	size_t count = json_array_size(array);
	const char **names = calloc(count + 1, sizeof(*names));
	char *text;

	for (size_t i = 0; i < count; i++)
		names[i] = json_string_value(json_array_get(array, i));
	text = joined(names, count);
	free(names);
	return text;
}

START_TEST(captured_expressions_expand_as_the_scheduler_does)
{
	json_t *root = load_cases("expand.json"), *item;
	size_t i;

	json_array_foreach(json_object_get(root, "cases"), i, item) {
		const char *expr = json_string_value(json_object_get(item, "expression"));
		bool invalid = json_is_true(json_object_get(item, "invalid"));
		char *want = joined_json(json_object_get(item, "hosts")), *got;
		struct err err = { "" };
		struct hostlist list;
		int rc;

		hostlist_init(&list);
		rc = hostlist_expand(&list, expr, 0, &err);
		ck_assert_msg(rc == (invalid ? -1 : 0), "%s: %d %s", expr, rc, err.text);
		got = joined_list(&list);
		ck_assert_msg(!strcmp(got, want), "%s: %s, not %s", expr, got, want);
		free(want);
		free(got);
		hostlist_fini(&list);
	}
	json_decref(root);
}
END_TEST

START_TEST(captured_names_compress_as_the_scheduler_does)
{
	json_t *root = load_cases("compress.json"), *item;
	size_t i;

	json_array_foreach(json_object_get(root, "cases"), i, item) {
		const char *want = json_string_value(json_object_get(item, "expression"));
		char *names = joined_json(json_object_get(item, "hosts")), *got;
		struct hostlist list;

		hostlist_init(&list);
		ck_assert_int_eq(hostlist_expand(&list, names, 0, NULL), 0);
		got = hostlist_compress((const char *const *)list.names, list.count, NULL);
		ck_assert_str_eq(got, want);
		free(names);
		free(got);
		hostlist_fini(&list);
	}
	json_decref(root);
}
END_TEST

#define LOOP(tc, test, table) \
	tcase_add_loop_test(tc, test, 0, sizeof(table) / sizeof(*(table)))

static void add_lists(Suite *suite)
{
	TCase *tc = tcase_create("lists");

	LOOP(tc, an_expression_expands_to_its_names_in_order, good);
	LOOP(tc, a_bad_expression_is_refused_with_its_column, bad);
	LOOP(tc, a_bad_expression_leaves_the_list_as_it_was, bad);
	tcase_add_test(tc, the_bound_counts_the_whole_list);
	tcase_add_test(tc, a_name_has_at_most_255_bytes);
	LOOP(tc, a_name_is_text_without_separators, names_to_judge);
	LOOP(tc, names_compress_to_an_expression_that_keeps_order_and_duplicates,
	     folded);
	tcase_add_test(tc, what_is_no_name_is_not_compressed);
	tcase_add_test(tc, compressed_random_lists_expand_to_themselves);
	tcase_add_test(tc, captured_expressions_expand_as_the_scheduler_does);
	tcase_add_test(tc, captured_names_compress_as_the_scheduler_does);
	tcase_add_test(tc, expanding_survives_the_failure_of_each_allocation);
	tcase_add_test(tc, compressing_survives_the_failure_of_each_allocation);
	suite_add_tcase(suite, tc);
}

int main(void)
{
	Suite *suite = suite_create("hostlist");
	SRunner *runner;
	int failed;

	add_lists(suite);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
