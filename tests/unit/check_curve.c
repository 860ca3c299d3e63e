/* check_curve.c - how a rate depends on the number of nodes. */
#include <check.h>
#include <errno.h>
#include <math.h>

#include "jpa/curve.h"

static const struct {
	struct curve_point points[4];
	size_t n;
	int nodes;
	double rate_per_s;
} rates[] = {
	{{{0, 0, 0}}, 0, 1, 0},
	{{{0, 0, 0}}, 0, 7, 0},
	/* nothing on no nodes */
	{{{1, 10, 0}}, 1, 0, 0},
	{{{1, 10, 0}}, 1, -1, 0},
	/* at points, between, beyond */
	{{{1, 10, 0}, {2, 18, 0}, {6, 30, 0}}, 3, 1, 10},
	{{{1, 10, 0}, {2, 18, 0}, {6, 30, 0}}, 3, 2, 18},
	{{{1, 10, 0}, {2, 18, 0}, {6, 30, 0}}, 3, 3, 21},
	{{{1, 10, 0}, {2, 18, 0}, {6, 30, 0}}, 3, 5, 27},
	{{{1, 10, 0}, {2, 18, 0}, {6, 30, 0}}, 3, 6, 30},
	{{{1, 10, 0}, {2, 18, 0}, {6, 30, 0}}, 3, 7, 30},
	{{{1, 10, 0}, {2, 18, 0}, {6, 30, 0}}, 3, 1000000, 30},
	/* below the first in proportion */
	{{{4, 20, 0}, {8, 30, 0}}, 2, 1, 5},
	{{{4, 20, 0}, {8, 30, 0}}, 2, 3, 15},
	/* down is a way, too */
	{{{1, 10, 0}, {3, 4, 0}}, 2, 2, 7},
	{{{1, 10, 0}, {3, 4, 0}}, 2, 9, 4},
	{{{1, 0, 0}, {3, 4, 0}}, 2, 2, 2},
};

START_TEST(a_rate_is_linear_between_points_and_flat_beyond)
{
	struct curve curve;

	curve_init(&curve);
	for (size_t i = rates[_i].n; i-- > 0;) /* in any order */
		ck_assert_int_eq(curve_set(&curve, rates[_i].points[i]), 0);
	ck_assert_double_eq_tol(
		curve_rate(&curve, rates[_i].nodes), rates[_i].rate_per_s, 1e-12);
	curve_fini(&curve);
}
END_TEST

START_TEST(points_are_sorted_and_replaced)
{
	struct curve curve, copy;
	static const int order[] = {5, 1, 9, 5, 3, 1};
	static const int sorted[] = {1, 3, 5, 9};

	curve_init(&curve);
	curve_init(&copy);
	for (int i = 0; i < 6; i++)
		ck_assert_int_eq(
			curve_set(&curve, (struct curve_point){order[i], i, 0}), 0);
	ck_assert_uint_eq(curve.n_points, 4);
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(curve.points[i].nodes, sorted[i]);
	ck_assert_double_eq(curve_at(&curve, 5)->rate_per_s, 3);
	ck_assert_double_eq(curve_at(&curve, 1)->rate_per_s, 5);
	ck_assert_ptr_null(curve_at(&curve, 2));
	ck_assert_int_eq(curve_copy(&copy, &curve), 0);
	curve_fini(&curve);
	ck_assert_uint_eq(copy.n_points, 4);
	ck_assert_double_eq(curve_at(&copy, 9)->rate_per_s, 2);
	ck_assert_int_eq(curve_copy(&copy, &curve), 0);
	ck_assert_uint_eq(copy.n_points, 0);
	curve_fini(&copy);
}
END_TEST

static const struct curve_point bad_points[] = {
	{0, 1, 0},
	{-1, 1, 0},
	{1, -1, 0},
	{1, NAN, 0},
	{1, INFINITY, 0},
};

START_TEST(a_point_that_makes_no_sense_is_refused)
{
	struct curve curve;

	curve_init(&curve);
	errno = 0;
	ck_assert_int_eq(curve_set(&curve, bad_points[_i]), -1);
	ck_assert_int_eq(errno, EINVAL);
	ck_assert_uint_eq(curve.n_points, 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("curve");
	TCase *tc = tcase_create("curve");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_add_loop_test(tc, a_rate_is_linear_between_points_and_flat_beyond, 0,
		sizeof(rates) / sizeof(rates[0]));
	tcase_add_test(tc, points_are_sorted_and_replaced);
	tcase_add_loop_test(tc, a_point_that_makes_no_sense_is_refused, 0,
		sizeof(bad_points) / sizeof(bad_points[0]));
	suite_add_tcase(suite, tc);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}
