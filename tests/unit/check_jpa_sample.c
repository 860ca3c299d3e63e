/* check_jpa_sample.c - reports of progress into rates, and their statistics. */
#include <check.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "jpa/sample.h"
#include "jpa/stats.h"

/* --- statistics: values from printed tables or worked by hand ---------------- */

static const struct {
	double freedom, t;
} quantiles[] = {
	{ 1, 12.706 }, { 2, 4.303 }, { 5, 2.571 }, { 10, 2.228 }, { 29, 2.045 },
	{ 30, 2.042 }, { 40, 2.021 }, { 60, 2.000 }, { 120, 1.980 }, { 1e6, 1.960 },
	{ 0.5, 12.706 }, { 2.5, (4.303 + 3.182) / 2 },
};

START_TEST(student_is_as_printed)
{
	ck_assert_double_eq_tol(stats_student_95(quantiles[_i].freedom),
		quantiles[_i].t, 0.0015);
}
END_TEST

START_TEST(the_median_is_the_middle)
{
	double odd[] = { 5, 1, 3 }, even[] = { 4, 1, 3, 2 }, one[] = { 7 };

	ck_assert_double_eq(stats_median(odd, 3), 3);
	ck_assert_double_eq(stats_median(even, 4), 2.5);
	ck_assert_double_eq(stats_median(one, 1), 7);
}
END_TEST

static const struct {
	const char *what;
	double values[8];
	size_t n;
	double half;
} intervals[] = {
	/* 2.776 sqrt(2.5 / 5) */
	{ "neighbours that do not agree are 5 values",
		{ 10, 12, 11, 13, 9 }, 5, 1.9629 },
	/* r = 0.625 + 1/8, effective 2, 12.706 sqrt(2/7 / 2) */
	{ "neighbours that do are two", { 1, 1, 1, 1, 2, 2, 2, 2 }, 8, 4.8024 },
	{ "equal values have no width", { 3, 3, 3 }, 3, 0 },
	{ "one value says nothing", { 3 }, 1, INFINITY },
	{ "none neither", { 0 }, 0, INFINITY },
};

START_TEST(half_widths_are_as_worked_by_hand)
{
	double half = stats_half_width(intervals[_i].values, intervals[_i].n);
	double truth = intervals[_i].half;

	ck_assert_msg(half == truth || fabs(half - truth) < 1e-3, "%s: %g",
		intervals[_i].what, half);
}
END_TEST

/* --- reports ----------------------------------------------------------------- */

#define BATCH 10
#define WALL_S 1.7e9

struct feed {
	struct sampler *sampler;
	struct sample at; /* the last report */
	double step_s;
	double every_s;   /* reports; 0: one a step */
	double reported_s;
};

static void feed_init(struct feed *feed, double step_s)
{
	*feed = (struct feed){ .sampler = sampler_create(NULL), .step_s = step_s };
	ck_assert_ptr_nonnull(feed->sampler);
	feed->at = (struct sample){ .t_s = WALL_S, .nodes = 2, .generation = 1 };
}

static void feed_fini(struct feed *feed)
{
	sampler_destroy(feed->sampler);
}

/* Steps until this much time has passed.  Returns how often an estimate moved. */
static int feed_for(struct feed *feed, double spent_s)
{
	double end_s = feed->at.arrived_s + spent_s;
	int moved = 0;

	while (feed->at.arrived_s + feed->step_s <= end_s + 1e-9) {
		feed->at.t_s += feed->step_s;
		feed->at.arrived_s += feed->step_s;
		feed->at.step++;
		feed->at.cursor += BATCH;
		if (feed->at.arrived_s - feed->reported_s < feed->every_s)
			continue;
		feed->reported_s = feed->at.arrived_s;
		moved += sampler_add(feed->sampler, &feed->at);
	}
	return moved;
}

static void begin_world(struct feed *feed, int nodes, double step_s)
{
	feed->at.generation++;
	feed->at.nodes = nodes;
	feed->step_s = step_s;
}

static struct estimate estimate_of(const struct feed *feed, int nodes)
{
	struct estimate estimate;

	ck_assert_int_eq(sampler_estimate(feed->sampler, nodes, &estimate), 0);
	return estimate;
}

START_TEST(a_steady_job_has_the_rate_of_its_steps)
{
	struct feed feed;
	struct estimate estimate;

	feed_init(&feed, 0.1);
	feed_for(&feed, 10);
	estimate = estimate_of(&feed, 2);
	ck_assert_double_eq_tol(estimate.rate_per_s, 100, 1e-3);
	ck_assert_double_lt(estimate.ci_per_s, 0.01);
	ck_assert_int_eq(estimate.nodes, 2);
	ck_assert_uint_ge(estimate.windows, 15);
	ck_assert_double_ge(estimate.last_arrived_s, 9.3);
	ck_assert_double_eq_tol(sampler_rate_now(feed.sampler), 100, 1e-3);
	feed_fini(&feed);
}
END_TEST

START_TEST(reports_of_the_same_step_are_no_news)
{
	struct feed feed;

	feed_init(&feed, 3); /* a report every 0.25 s repeats the last step */
	for (int step = 0; step < 20; step++) {
		feed_for(&feed, 3);
		for (int again = 1; again < 12; again++) {
			struct sample same = feed.at;

			same.arrived_s += 0.25 * again;
			ck_assert_int_eq(sampler_add(feed.sampler, &same), 0);
		}
	}
	ck_assert_double_eq_tol(estimate_of(&feed, 2).rate_per_s, BATCH / 3.0, 1e-6);
	ck_assert_double_eq(sampler_moved_s(feed.sampler), 60);
	feed_fini(&feed);
}
END_TEST

START_TEST(windows_reach_over_several_short_reports)
{
	struct feed feed;

	feed_init(&feed, 0.01);
	feed.every_s = 0.2;
	feed_for(&feed, 10);
	ck_assert_double_eq_tol(estimate_of(&feed, 2).rate_per_s, 1000, 0.5);
	ck_assert_uint_le(estimate_of(&feed, 2).windows, 16); /* of 0.6 s */
	feed_fini(&feed);
}
END_TEST

static const struct {
	const char *what;
	double slow_s, slow_step_s, step_s;
} warm_ups[] = {
	{ "short steps: the first 0.7 s", 0.7, 0.2, 0.1 },
	{ "long steps: the first three", 4.0, 1.0, 0.5 },
};

START_TEST(a_new_world_is_not_counted_before_it_is_warm)
{
	struct feed feed;
	double rate;

	feed_init(&feed, warm_ups[_i].slow_step_s);
	ck_assert_int_eq(feed_for(&feed, warm_ups[_i].slow_s), 0);
	feed.step_s = warm_ups[_i].step_s;
	feed_for(&feed, 10);
	rate = estimate_of(&feed, 2).rate_per_s;
	ck_assert_msg(fabs(rate - BATCH / feed.step_s) < 1e-3, "%s: %g",
		warm_ups[_i].what, rate);
	begin_world(&feed, 4, warm_ups[_i].slow_step_s);
	ck_assert_int_eq(feed_for(&feed, warm_ups[_i].slow_s), 0);
	feed.step_s = warm_ups[_i].step_s / 2;
	feed_for(&feed, 10);
	rate = estimate_of(&feed, 4).rate_per_s;
	ck_assert_double_eq_tol(rate, BATCH / feed.step_s, 1e-3);
	feed_fini(&feed);
}
END_TEST

START_TEST(sizes_are_kept_apart_and_ascending)
{
	struct feed feed;
	int sizes[3] = { 0 };

	feed_init(&feed, 0.1);
	feed_for(&feed, 5);
	begin_world(&feed, 8, 0.02);
	feed_for(&feed, 5);
	begin_world(&feed, 1, 0.2);
	feed_for(&feed, 5);
	ck_assert_uint_eq(sampler_sizes(feed.sampler, sizes, 2), 3);
	ck_assert_int_eq(sizes[2], 0);
	ck_assert_uint_eq(sampler_sizes(feed.sampler, sizes, 3), 3);
	ck_assert_int_eq(sizes[0], 1);
	ck_assert_int_eq(sizes[1], 2);
	ck_assert_int_eq(sizes[2], 8);
	ck_assert_double_eq_tol(estimate_of(&feed, 1).rate_per_s, 50, 1e-3);
	ck_assert_double_eq_tol(estimate_of(&feed, 2).rate_per_s, 100, 1e-3);
	ck_assert_double_eq_tol(estimate_of(&feed, 8).rate_per_s, 500, 1e-3);
	feed_fini(&feed);
}
END_TEST

/* --- disturbed times --------------------------------------------------------- */

START_TEST(windows_that_overlap_a_disturbed_time_go_also_afterwards)
{
	struct feed feed;
	double from_s;
	size_t before;

	feed_init(&feed, 0.1);
	feed_for(&feed, 6);
	from_s = feed.at.arrived_s;
	before = estimate_of(&feed, 2).windows;
	feed.step_s = 0.3; /* joiners warm up on the same nodes */
	feed_for(&feed, 4);
	ck_assert_uint_gt(estimate_of(&feed, 2).windows, before + 3);
	sampler_disturbed(feed.sampler, from_s, feed.at.arrived_s);
	ck_assert_double_eq_tol(estimate_of(&feed, 2).rate_per_s, 100, 1e-3);
	ck_assert_uint_le(estimate_of(&feed, 2).windows, before);
	ck_assert_uint_ge(estimate_of(&feed, 2).windows, before - 1);
	feed.step_s = 0.1;
	feed_for(&feed, 4); /* it was rolled back and goes on */
	ck_assert_double_eq_tol(estimate_of(&feed, 2).rate_per_s, 100, 1e-3);
	ck_assert_uint_ge(estimate_of(&feed, 2).windows, before + 5);
	feed_fini(&feed);
}
END_TEST

START_TEST(a_disturbance_without_an_end_lasts_until_it_is_told)
{
	struct feed feed;
	double from_s;

	feed_init(&feed, 0.1);
	feed_for(&feed, 6);
	from_s = feed.at.arrived_s;
	sampler_disturbed(feed.sampler, from_s, INFINITY);
	feed.step_s = 0.3;
	ck_assert_int_eq(feed_for(&feed, 6), 0);
	ck_assert_double_eq_tol(sampler_rate_now(feed.sampler), 33.3, 0.1);
	sampler_disturbed(feed.sampler, from_s, feed.at.arrived_s);
	feed.step_s = 0.1;
	ck_assert_int_gt(feed_for(&feed, 6), 8);
	ck_assert_double_eq_tol(estimate_of(&feed, 2).rate_per_s, 100, 1e-3);
	feed_fini(&feed);
}
END_TEST

START_TEST(telling_at_every_report_is_the_same)
{
	struct feed feed;
	double from_s;

	feed_init(&feed, 0.1);
	feed_for(&feed, 6);
	from_s = feed.at.arrived_s;
	feed.step_s = 0.3;
	for (int i = 0; i < 20; i++) {
		sampler_disturbed(feed.sampler, from_s, feed.at.arrived_s + 0.3);
		ck_assert_int_eq(feed_for(&feed, 0.3), 0);
	}
	ck_assert_double_eq_tol(estimate_of(&feed, 2).rate_per_s, 100, 1e-3);
	feed_fini(&feed);
}
END_TEST

/* --- what is not to be believed ---------------------------------------------- */

START_TEST(a_stall_now_and_then_is_an_outlier)
{
	struct feed feed;

	feed_init(&feed, 0.1);
	for (int i = 0; i < 10; i++) {
		feed.step_s = 0.1 + 0.001 * (i % 3);
		feed_for(&feed, 3);
		feed.step_s = 1.5;
		feed_for(&feed, 1.5);
	}
	ck_assert_double_eq_tol(estimate_of(&feed, 2).rate_per_s, 99, 1);
	feed_fini(&feed);
}
END_TEST

START_TEST(late_reports_of_an_older_world_are_ignored)
{
	struct feed feed;
	struct sample late;

	feed_init(&feed, 0.1);
	feed_for(&feed, 5);
	late = feed.at;
	begin_world(&feed, 4, 0.05);
	for (int i = 0; i < 100; i++) {
		feed_for(&feed, 0.1);
		late.arrived_s = feed.at.arrived_s;
		late.t_s += 0.1;
		late.cursor += 1000;
		ck_assert_int_eq(sampler_add(feed.sampler, &late), 0);
	}
	ck_assert_double_eq_tol(estimate_of(&feed, 4).rate_per_s, 200, 1e-3);
	ck_assert_double_eq_tol(estimate_of(&feed, 2).rate_per_s, 100, 1e-3);
	feed_fini(&feed);
}
END_TEST

static const double clock_sets[] = { 3600, 3, -3, -3600 };

START_TEST(a_clock_that_is_set_makes_no_rate)
{
	struct feed feed;
	size_t windows;

	feed_init(&feed, 0.1);
	feed_for(&feed, 3);
	windows = estimate_of(&feed, 2).windows;
	feed.at.t_s += clock_sets[_i];
	feed_for(&feed, 3);
	ck_assert_double_eq_tol(estimate_of(&feed, 2).rate_per_s, 100, 1e-3);
	ck_assert_double_eq_tol(sampler_rate_now(feed.sampler), 100, 1e-3);
	ck_assert_uint_ge(estimate_of(&feed, 2).windows, windows + 4);
	feed_fini(&feed);
}
END_TEST

START_TEST(a_cursor_that_goes_back_begins_anew)
{
	struct feed feed;

	feed_init(&feed, 0.1);
	feed_for(&feed, 5);
	feed.at.cursor -= 20 * BATCH; /* restored from an older state */
	feed.at.step -= 20;
	feed_for(&feed, 5);
	ck_assert_double_eq_tol(estimate_of(&feed, 2).rate_per_s, 100, 1e-3);
	feed_fini(&feed);
}
END_TEST

static unsigned next(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(*seed >> 40);
}

static struct sample any_sample(uint64_t *seed, double now_s, int i)
{
	int set_s = next(seed) % 16 ? 0 : (int)(next(seed) % 999) - 500;

	return (struct sample){
		.t_s = now_s + set_s,
		.arrived_s = now_s,
		.nodes = next(seed) % 32 ? 2 : (int)(next(seed) % 5),
		.generation = i / 50 + (next(seed) % 64 == 0),
		.step = i + next(seed) % 3,
		.cursor = 100LL * i + next(seed) % 200,
	};
}

static void makes_sense(const struct sampler *sampler)
{
	struct estimate estimate;
	int sizes[8];
	size_t n = sampler_sizes(sampler, sizes, 8);

	for (size_t i = 0; i < n; i++)
		if (sampler_estimate(sampler, sizes[i], &estimate) != 0 ||
			!(estimate.rate_per_s > 0) || !isfinite(estimate.rate_per_s) ||
			!(estimate.ci_per_s >= 0))
			ck_abort_msg("size %d: rate %g", sizes[i], estimate.rate_per_s);
}

START_TEST(reports_of_any_kind_make_no_nonsense)
{
	uint64_t seed = 1;

	for (int run = 0; run < 200; run++) {
		struct sampler *sampler = sampler_create(NULL);
		double now_s = 0;

		for (int i = 0; i < 400; i++) {
			struct sample sample;

			now_s += next(&seed) % 100 / 100.0;
			sample = any_sample(&seed, now_s, i);
			if (sampler_add(sampler, &sample) < 0)
				ck_abort_msg("out of memory");
			if (next(&seed) % 50 == 0)
				sampler_disturbed(sampler,
					now_s - next(&seed) % 7, now_s);
			makes_sense(sampler);
		}
		sampler_destroy(sampler);
	}
}
END_TEST

/* --- forgetting and drift ---------------------------------------------------- */

START_TEST(old_windows_are_pushed_out)
{
	struct feed feed;

	feed_init(&feed, 0.1);
	feed_for(&feed, 20);
	feed.step_s = 0.109; /* too little to be drift */
	feed_for(&feed, 2 * SAMPLER_KEEP * 0.6);
	ck_assert_uint_eq(estimate_of(&feed, 2).windows, SAMPLER_KEEP);
	ck_assert_double_eq_tol(estimate_of(&feed, 2).rate_per_s, BATCH / 0.109, 1e-3);
	feed_fini(&feed);
}
END_TEST

START_TEST(a_large_change_is_believed_within_drift_s)
{
	struct feed feed;

	feed_init(&feed, 0.1);
	feed_for(&feed, 30);
	feed.step_s = 0.2;
	feed_for(&feed, 3);
	/* a spell, perhaps */
	ck_assert_double_gt(estimate_of(&feed, 2).rate_per_s, 90);
	feed_for(&feed, 4);
	ck_assert_double_eq_tol(estimate_of(&feed, 2).rate_per_s, 50, 1);
	feed_fini(&feed);
}
END_TEST

static const struct {
	const char *what;
	double known_per_s;
	double for_s;
	int drifts;
} drifts[] = {
	{ "the same rate", 100, 10, 0 },
	{ "a tenth off", 111, 10, 0 },
	{ "a quarter less", 134, 10, 1 },
	{ "a quarter more", 79, 10, 1 },
	{ "but not within five seconds", 134, 5, 0 },
	{ "nothing known is no drift", 0, 10, 0 },
};

START_TEST(drift_is_a_clear_contradiction)
{
	struct feed feed;

	feed_init(&feed, 0.1);
	feed_for(&feed, drifts[_i].for_s);
	ck_assert_msg(sampler_drift(feed.sampler, 2, drifts[_i].known_per_s) ==
			drifts[_i].drifts, "%s", drifts[_i].what);
	ck_assert_int_eq(sampler_drift(feed.sampler, 3, 100), 0);
	feed_fini(&feed);
}
END_TEST

START_TEST(windows_on_both_sides_of_a_rate_do_not_contradict_it)
{
	struct feed feed;

	feed_init(&feed, 0.1);
	feed_for(&feed, 2);
	for (int i = 0; i < 20; i++) { /* 70 or 150 samples a second, 102 known */
		feed.step_s = i % 2 ? BATCH / 70.0 : BATCH / 150.0;
		feed_for(&feed, 1);
	}
	ck_assert_int_eq(sampler_drift(feed.sampler, 2, 102), 0);
	feed_fini(&feed);
}
END_TEST

START_TEST(what_is_forgotten_does_not_count)
{
	struct feed feed;
	struct estimate estimate;

	feed_init(&feed, 0.1);
	feed_for(&feed, 10);
	begin_world(&feed, 4, 0.05);
	feed_for(&feed, 10);
	ck_assert_int_eq(sampler_estimate_since(feed.sampler, 2, 10, &estimate), -1);
	ck_assert_int_eq(sampler_estimate_since(feed.sampler, 4, 15, &estimate), 0);
	ck_assert_uint_lt(estimate.windows, estimate_of(&feed, 4).windows);
	sampler_forget(feed.sampler, 15);
	ck_assert_int_eq(sampler_estimate(feed.sampler, 2, &estimate), -1);
	ck_assert_uint_ge(estimate_of(&feed, 4).windows, 8);
	ck_assert_uint_le(estimate_of(&feed, 4).windows, 9);
	ck_assert_uint_eq(sampler_sizes(feed.sampler, NULL, 0), 1);
	feed_fini(&feed);
}
END_TEST

/* --- the curve --------------------------------------------------------------- */

START_TEST(sizes_with_enough_windows_become_points_of_the_curve)
{
	struct feed feed;
	struct curve curve;

	curve_init(&curve);
	curve_set(&curve, (struct curve_point){ 2, 77, 0 });
	curve_set(&curve, (struct curve_point){ 6, 600, 0 });
	feed_init(&feed, 0.1);
	feed_for(&feed, 10);
	begin_world(&feed, 4, 0.05);
	feed_for(&feed, 2.4); /* two or three windows */
	ck_assert_int_eq(sampler_to_curve(feed.sampler, &curve), 0);
	ck_assert_uint_eq(curve.n_points, 2);
	ck_assert_double_eq_tol(curve_at(&curve, 2)->rate_per_s, 100, 1e-3);
	ck_assert_double_gt(curve_at(&curve, 2)->ci_per_s, 0); /* 0 would be "given" */
	ck_assert_double_eq(curve_at(&curve, 6)->rate_per_s, 600);
	feed_for(&feed, 2);
	ck_assert_int_eq(sampler_to_curve(feed.sampler, &curve), 0);
	ck_assert_double_eq_tol(curve_at(&curve, 4)->rate_per_s, 200, 1e-3);
	feed_fini(&feed);
	curve_fini(&curve);
}
END_TEST

START_TEST(nothing_is_known_of_a_job_that_said_nothing)
{
	struct sampler *sampler = sampler_create(NULL);
	struct estimate estimate;
	struct curve curve;

	curve_init(&curve);
	ck_assert_int_eq(sampler_estimate(sampler, 1, &estimate), -1);
	ck_assert_double_eq(sampler_rate_now(sampler), 0);
	ck_assert(isinf(sampler_moved_s(sampler)));
	ck_assert_int_eq(sampler_to_curve(sampler, &curve), 0);
	ck_assert_uint_eq(curve.n_points, 0);
	sampler_disturbed(sampler, 1, 2);
	sampler_disturbed(NULL, 1, 2);
	sampler_destroy(sampler);
	sampler_destroy(NULL);
}
END_TEST

#define N_OF(array) ((int)(sizeof(array) / sizeof(*(array))))

static Suite *sample_suite(void)
{
	Suite *suite = suite_create("jpa_sample");
	TCase *stats = tcase_create("stats"), *rates = tcase_create("rates");
	TCase *doubt = tcase_create("doubt"), *drift = tcase_create("drift");

	tcase_add_loop_test(stats, student_is_as_printed, 0, N_OF(quantiles));
	tcase_add_test(stats, the_median_is_the_middle);
	tcase_add_loop_test(stats, half_widths_are_as_worked_by_hand, 0,
		N_OF(intervals));
	tcase_add_test(rates, a_steady_job_has_the_rate_of_its_steps);
	tcase_add_test(rates, reports_of_the_same_step_are_no_news);
	tcase_add_test(rates, windows_reach_over_several_short_reports);
	tcase_add_loop_test(rates, a_new_world_is_not_counted_before_it_is_warm, 0,
		N_OF(warm_ups));
	tcase_add_test(rates, sizes_are_kept_apart_and_ascending);
	tcase_add_test(doubt, windows_that_overlap_a_disturbed_time_go_also_afterwards);
	tcase_add_test(doubt, a_disturbance_without_an_end_lasts_until_it_is_told);
	tcase_add_test(doubt, telling_at_every_report_is_the_same);
	tcase_add_test(doubt, a_stall_now_and_then_is_an_outlier);
	tcase_add_test(doubt, late_reports_of_an_older_world_are_ignored);
	tcase_add_loop_test(doubt, a_clock_that_is_set_makes_no_rate, 0,
		N_OF(clock_sets));
	tcase_add_test(doubt, a_cursor_that_goes_back_begins_anew);
	tcase_add_test(doubt, reports_of_any_kind_make_no_nonsense);
	tcase_add_test(drift, old_windows_are_pushed_out);
	tcase_add_test(drift, a_large_change_is_believed_within_drift_s);
	tcase_add_loop_test(drift, drift_is_a_clear_contradiction, 0, N_OF(drifts));
	tcase_add_test(drift, windows_on_both_sides_of_a_rate_do_not_contradict_it);
	tcase_add_test(drift, what_is_forgotten_does_not_count);
	tcase_add_test(drift, sizes_with_enough_windows_become_points_of_the_curve);
	tcase_add_test(drift, nothing_is_known_of_a_job_that_said_nothing);
	suite_add_tcase(suite, stats);
	suite_add_tcase(suite, rates);
	suite_add_tcase(suite, doubt);
	suite_add_tcase(suite, drift);
	return suite;
}

int main(void)
{
	SRunner *runner = srunner_create(sample_suite());
	int failed;

	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed != 0;
}
