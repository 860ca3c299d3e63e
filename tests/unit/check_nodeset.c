/*
 * check_nodeset.c - sorted sets of node names.
 *
 * Tables by hand; the set operations are held against a model with one bit a
 * name on random sets.
 */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "proto/err.h"
#include "proto/nodeset.h"
#include "tests/unit/failing_malloc.h"

/* A small generator of its own, so that a failure can be repeated. */
static unsigned int seed;

static unsigned int draw(unsigned int below)
{
	seed = seed * 1664525u + 1013904223u;
	return (seed >> 8) % below;
}

/* --- the order ------------------------------------------------------------ */

/* Each name is before all names to its right. */
static const char *const ordered[] = {
	"-", "000", "00", "0", "00a", "0a", "1", "2", "010", "10", "99999999999999999999",
	"100000000000000000000", "A", "a", "a-1", "a0", "a1", "a01b2", "a1b2", "a1b10",
	"a01c", "a2b1", "n9", "n10", "n10.x", "n10x", "n100", "n\xc3\xb6",
};

START_TEST(the_order_is_natural_and_total)
{
	size_t n = sizeof(ordered) / sizeof(*ordered);

	for (size_t i = 0; i < n; i++) {
		for (size_t k = 0; k < n; k++) {
			int order = nodeset_compare(ordered[i], ordered[k]);

			ck_assert_msg((i < k && order < 0) || (i > k && order > 0) ||
				      (i == k && !order), "%s and %s: %d", ordered[i],
				      ordered[k], order);
		}
	}
}
END_TEST

/* --- sets ----------------------------------------------------------------- */

static struct nodeset *set_of(const char *expr)
{
	struct err err = { "" };
	struct nodeset *set = nodeset_parse(expr, &err);

	ck_assert_msg(set != NULL, "%s: %s", expr, err.text);
	return set;
}

/* Check what a set folds to, and let it go. */
static void check_take(struct nodeset *set, const char *expr)
{
	char *text = nodeset_fold(set);

	ck_assert_ptr_nonnull(set);
	ck_assert_str_eq(text, expr);
	free(text);
	nodeset_destroy(set);
}

static const struct {
	const char *expr, *fold;
	size_t count;
} sets[] = {
	{ "", "", 0 },
	{ "n10,n9,n9,n11", "n[9-11]", 3 },
	{ "b[2,1],a", "a,b[1-2]", 3 },
	{ "r[0-1]n[0-1]", "r0n[0-1],r1n[0-1]", 4 },
	{ "n[1-3],n[2-5]", "n[1-5]", 5 },
	{ "n[1-2,01-02]", "n[01,1,02,2]", 4 },
	{ "x,n3.s,n1", "n1,n3.s,x", 3 },
};

START_TEST(a_set_is_sorted_has_each_name_once_and_folds)
{
	struct nodeset *set = set_of(sets[_i].expr);

	ck_assert_uint_eq(nodeset_count(set), sets[_i].count);
	for (size_t i = 0; i < nodeset_count(set); i++) {
		const char *name = nodeset_at(set, i);

		ck_assert_int_eq(nodeset_index(set, name), i);
		ck_assert(nodeset_contains(set, name));
		if (i)
			ck_assert_int_lt(nodeset_compare(nodeset_at(set, i - 1), name), 0);
	}
	ck_assert_ptr_null(nodeset_at(set, nodeset_count(set)));
	check_take(set, sets[_i].fold);
}
END_TEST

START_TEST(a_set_of_a_bad_expression_is_null_with_its_column)
{
	struct err err;

	errno = 0;
	ck_assert_ptr_null(nodeset_parse("n[1-3],m[4", &err));
	ck_assert_int_eq(errno, EINVAL);
	ck_assert_str_eq(err.text, "column 11: missing ]");
	ck_assert_ptr_null(nodeset_parse("n[0-18446744073709551615]", NULL));
	ck_assert_int_eq(errno, E2BIG);
}
END_TEST

START_TEST(names_come_and_go_one_by_one)
{
	struct nodeset *set = nodeset_create();

	ck_assert_int_eq(nodeset_add(set, "n10"), 1);
	ck_assert_int_eq(nodeset_add(set, "n9"), 1);
	ck_assert_int_eq(nodeset_add(set, "n10"), 0);
	ck_assert_int_eq(nodeset_add(set, "n09"), 1);
	ck_assert_str_eq(nodeset_at(set, 0), "n09");
	ck_assert_str_eq(nodeset_at(set, 2), "n10");
	ck_assert_int_eq(nodeset_remove(set, "n9"), 1);
	ck_assert_int_eq(nodeset_remove(set, "n9"), 0);
	ck_assert(!nodeset_contains(set, "n9"));
	ck_assert_int_eq(nodeset_index(set, "n9"), -1);
	ck_assert_int_eq(nodeset_add(set, "n[1-2]"), -1);
	ck_assert_int_eq(errno, EINVAL);
	ck_assert_int_eq(nodeset_add(set, ""), -1);
	check_take(set, "n[09-10]");
}
END_TEST

START_TEST(null_is_the_empty_set)
{
	struct nodeset *set = set_of("n1"), *empty = nodeset_create();

	nodeset_destroy(NULL);
	ck_assert_uint_eq(nodeset_count(NULL), 0);
	ck_assert_ptr_null(nodeset_at(NULL, 0));
	ck_assert(!nodeset_contains(NULL, "n1"));
	ck_assert(nodeset_equal(NULL, empty));
	ck_assert(nodeset_equal(NULL, NULL));
	ck_assert(!nodeset_equal(set, NULL));
	check_take(nodeset_copy(NULL), "");
	check_take(nodeset_union(NULL, set), "n1");
	check_take(nodeset_minus(set, NULL), "n1");
	check_take(nodeset_minus(NULL, set), "");
	check_take(nodeset_intersect(set, NULL), "");
	check_take(set_of(NULL), "");
	nodeset_destroy(set);
	nodeset_destroy(empty);
}
END_TEST

static const struct {
	const char *a, *b, *either, *only_a, *only_b, *both;
} pairs[] = {
	{ "", "", "", "", "", "" },
	{ "n[1-4]", "", "n[1-4]", "n[1-4]", "", "" },
	{ "n[1-4]", "n[1-4]", "n[1-4]", "", "", "n[1-4]" },
	{ "n[1-4]", "n[3-6]", "n[1-6]", "n[1-2]", "n[5-6]", "n[3-4]" },
	{ "a,c", "b,d", "a,b,c,d", "a,c", "b,d", "" },
	{ "n[1-2]", "n[01-02]", "n[01,1,02,2]", "n[1-2]", "n[01-02]", "" },
	{ "n[8-12]", "n[9,11]", "n[8-12]", "n[8,10,12]", "", "n[9,11]" },
};

START_TEST(two_sets_unite_subtract_and_intersect)
{
	struct nodeset *a = set_of(pairs[_i].a), *b = set_of(pairs[_i].b);
	struct nodeset *gained, *lost, *copy = nodeset_copy(a);

	check_take(nodeset_union(a, b), pairs[_i].either);
	check_take(nodeset_union(b, a), pairs[_i].either);
	check_take(nodeset_minus(a, b), pairs[_i].only_a);
	check_take(nodeset_intersect(a, b), pairs[_i].both);
	check_take(nodeset_intersect(b, a), pairs[_i].both);
	ck_assert_int_eq(nodeset_diff(a, b, &gained, &lost), 0);
	check_take(gained, pairs[_i].only_b);
	check_take(lost, pairs[_i].only_a);
	ck_assert(nodeset_equal(a, copy));
	ck_assert_int_eq(nodeset_equal(a, b), !strcmp(pairs[_i].a, pairs[_i].b));
	nodeset_destroy(a);
	nodeset_destroy(b);
	nodeset_destroy(copy);
}
END_TEST

/* The model: one bit for each of 24 names. */
static struct nodeset *set_of_bits(unsigned int bits)
{
	struct nodeset *set = nodeset_create();
	char name[16];

	/* in an order that is not the sorted one */
	for (unsigned int i = 0; i < 24; i++) {
		unsigned int bit = i * 7 % 24;

		snprintf(name, sizeof(name), bit % 2 ? "n%u" : "n%03u", bit);
		if (bits >> bit & 1)
			ck_assert_int_eq(nodeset_add(set, name), 1);
	}
	return set;
}

static void check_bits_take(struct nodeset *set, unsigned int bits)
{
	struct nodeset *want = set_of_bits(bits);

	ck_assert(nodeset_equal(set, want));
	nodeset_destroy(set);
	nodeset_destroy(want);
}

START_TEST(random_sets_agree_with_bits)
{
	seed = 7;
	for (int round = 0; round < 2000; round++) {
		unsigned int x = draw(1 << 24), y = draw(1 << 24);
		struct nodeset *a = set_of_bits(x), *b = set_of_bits(y), *back;
		char *text = nodeset_fold(a);

		check_bits_take(nodeset_union(a, b), x | y);
		check_bits_take(nodeset_minus(a, b), x & ~y);
		check_bits_take(nodeset_intersect(a, b), x & y);
		ck_assert_uint_eq(nodeset_count(a), __builtin_popcount(x));
		back = set_of(text);
		ck_assert(nodeset_equal(a, back));
		for (size_t i = nodeset_count(back); i-- > 0;)
			if (draw(2))
				nodeset_remove(back, nodeset_at(back, i));
		check_take(nodeset_minus(back, a), "");
		nodeset_destroy(back);
		nodeset_destroy(a);
		nodeset_destroy(b);
		free(text);
	}
}
END_TEST

static double cpu_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return ts.tv_sec + ts.tv_nsec / 1e9;
}

/* Milliseconds in practice; the bound only notices a wrong order of growth. */
START_TEST(ten_thousand_names_are_quick)
{
	struct nodeset *all = set_of("n[00001-10000]"), *odd = nodeset_create();
	double start_s = cpu_s();
	char name[16];

	for (int i = 9999; i > 0; i -= 2) {
		snprintf(name, sizeof(name), "n%05d", i);
		ck_assert_int_eq(nodeset_add(odd, name), 1);
	}
	for (int i = 0; i < 100; i++) {
		struct nodeset *even = nodeset_minus(all, odd);

		ck_assert_uint_eq(nodeset_count(even), 5000);
		nodeset_destroy(even);
	}
	ck_assert_double_lt(cpu_s() - start_s, 5.0);
	check_take(all, "n[00001-10000]");
	nodeset_destroy(odd);
}
END_TEST

/* --- memory --------------------------------------------------------------- */

/* One line of what every operation made of n[1-9] and n[5-12], or NULL. */
static char *operate(const struct nodeset *a, const struct nodeset *b)
{
	struct nodeset *either = nodeset_union(a, b), *both = nodeset_intersect(a, b);
	struct nodeset *copy = nodeset_copy(a), *gained = NULL, *lost = NULL;
	char *text[4] = { NULL }, *line = NULL;

	if (!nodeset_diff(a, b, &gained, &lost) && either && both && copy &&
	    nodeset_add(copy, "n10") == 1 && nodeset_add(copy, "m") == 1) {
		text[0] = nodeset_fold(either);
		text[1] = nodeset_fold(both);
		text[2] = nodeset_fold(copy);
		text[3] = nodeset_fold(lost);
		if (text[0] && text[1] && text[2] && text[3] && (line = malloc(100)))
			snprintf(line, 100, "%s %s %s %s", text[0], text[1], text[2],
				 text[3]);
	}
	for (int i = 0; i < 4; i++)
		free(text[i]);
	nodeset_destroy(either);
	nodeset_destroy(both);
	nodeset_destroy(copy);
	nodeset_destroy(gained);
	nodeset_destroy(lost);
	return line;
}

START_TEST(sets_survive_the_failure_of_each_allocation)
{
	struct nodeset *a = set_of("n[1-9]"), *b = set_of("n[5-12]");

	for (long n = 1, failed = 1; failed; n++) {
		char *line;

		failing_malloc_arm(n);
		line = operate(a, b);
		failed = failing_malloc_disarm();
		ck_assert_int_eq(!line, failed);
		if (!failed)
			ck_assert_str_eq(line, "n[1-12] n[5-9] m,n[1-10] n[1-4]");
		free(line);
		ck_assert_int_lt(n, 1000);
	}
	check_take(a, "n[1-9]");
	check_take(b, "n[5-12]");
}
END_TEST

/* qsort() may ask for memory and do without it: then the set is right. */
START_TEST(parsing_and_adding_survive_the_failure_of_each_allocation)
{
	for (long n = 1, failed = 1; failed; n++) {
		struct nodeset *set;
		struct err err;
		int rc = 0;

		failing_malloc_arm(n);
		set = nodeset_parse("n[9,1-8]", &err);
		for (int i = 0; set && i < 20 && rc >= 0; i++) {
			char name[16];

			snprintf(name, sizeof(name), "x%02d", i);
			rc = nodeset_add(set, name);
		}
		failed = failing_malloc_disarm();
		ck_assert(failed || (set && rc == 1));
		if (rc < 0)
			ck_assert_int_eq(errno, ENOMEM);
		if (set) {
			for (size_t i = 1; i < nodeset_count(set); i++)
				ck_assert_int_lt(nodeset_compare(nodeset_at(set, i - 1),
								 nodeset_at(set, i)), 0);
			ck_assert(nodeset_contains(set, "n9"));
		}
		nodeset_destroy(set);
		ck_assert_int_lt(n, 1000);
	}
}
END_TEST

#define LOOP(tc, test, table) \
	tcase_add_loop_test(tc, test, 0, sizeof(table) / sizeof(*(table)))

static void add_sets(Suite *suite)
{
	TCase *tc = tcase_create("sets");

	tcase_add_test(tc, the_order_is_natural_and_total);
	LOOP(tc, a_set_is_sorted_has_each_name_once_and_folds, sets);
	tcase_add_test(tc, a_set_of_a_bad_expression_is_null_with_its_column);
	tcase_add_test(tc, names_come_and_go_one_by_one);
	tcase_add_test(tc, null_is_the_empty_set);
	LOOP(tc, two_sets_unite_subtract_and_intersect, pairs);
	tcase_add_test(tc, random_sets_agree_with_bits);
	tcase_add_test(tc, ten_thousand_names_are_quick);
	tcase_add_test(tc, sets_survive_the_failure_of_each_allocation);
	tcase_add_test(tc, parsing_and_adding_survive_the_failure_of_each_allocation);
	suite_add_tcase(suite, tc);
}

int main(void)
{
	Suite *suite = suite_create("nodeset");
	SRunner *runner;
	int failed;

	add_sets(suite);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
