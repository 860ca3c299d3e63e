/* check_worker_cursor.c - each sample once an epoch, whatever the worlds were. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "worker/cursor.h"

static uint64_t draw_state = 88172645463325252ULL;

static uint64_t draw(uint64_t below)
{
	draw_state ^= draw_state << 13;
	draw_state ^= draw_state >> 7;
	draw_state ^= draw_state << 17;
	return draw_state % below;
}

START_TEST(an_order_is_a_permutation_for_every_small_size)
{
	uint8_t seen[600];

	for (uint64_t n = 1; n < sizeof(seen); n++) {
		struct cursor_order order;

		cursor_order_init(&order, n, n * 7, n % 5);
		memset(seen, 0, sizeof(seen));
		for (uint64_t i = 0; i < n; i++) {
			uint32_t id = cursor_order_at(&order, i);

			ck_assert_uint_lt(id, n);
			ck_assert_msg(!seen[id], "n %lu: id %u twice", n, id);
			seen[id] = 1;
		}
	}
}
END_TEST

START_TEST(the_largest_set_has_ids_of_32_bits)
{
	struct cursor_order order;

	cursor_order_init(&order, UINT32_MAX, 1, 0);
	for (uint64_t i = UINT32_MAX - 1000ULL; i < UINT32_MAX; i++)
		ck_assert_uint_lt(cursor_order_at(&order, i), UINT32_MAX);
}
END_TEST

/* Chi-square of ids over places; 99.99 % quantiles lie well below the bound. */
static const struct {
	uint64_t n;
	int epochs;
} even[] = { { 2, 4000 }, { 3, 6000 }, { 5, 10000 }, { 10, 20000 }, { 64, 64000 } };

START_TEST(every_id_comes_at_every_place_equally_often)
{
	uint64_t n = even[_i].n;
	int epochs = even[_i].epochs;
	double expected = (double)epochs / (double)n, chi = 0;
	double df = (double)((n - 1) * (n - 1));
	unsigned *count = calloc(n * n, sizeof(*count));

	for (int e = 0; e < epochs; e++) {
		struct cursor_order order;

		cursor_order_init(&order, n, 42, (uint64_t)e);
		for (uint64_t i = 0; i < n; i++)
			count[i * n + cursor_order_at(&order, i)]++;
	}
	for (uint64_t i = 0; i < n * n; i++)
		chi += (count[i] - expected) * (count[i] - expected) / expected;
	free(count);
	/* mean df, deviation sqrt(2 df) */
	ck_assert_msg((chi - df) * (chi - df) < 25 * 2 * df + 100,
		"n %lu: chi %g of %g", n, chi, df);
}
END_TEST

START_TEST(neighbours_in_the_set_are_not_neighbours_in_the_order)
{
	struct cursor_order order;
	int close = 0;

	cursor_order_init(&order, 60000, 1, 0);
	for (uint64_t i = 0; i + 1 < 60000; i++) {
		int64_t d = (int64_t)cursor_order_at(&order, i + 1) -
			    (int64_t)cursor_order_at(&order, i);

		close += d > -2 && d < 2;
	}
	ck_assert_int_lt(close, 12); /* 2 are expected */
}
END_TEST

START_TEST(orders_differ_by_seed_and_epoch_and_by_nothing_else)
{
	struct cursor_order a, b;
	int same[2] = { 0, 0 };

	for (int k = 0; k < 2; k++) {
		cursor_order_init(&a, 1000, 1, 1);
		cursor_order_init(&b, 1000, k ? 1 : 2, k ? 2 : 1);
		for (uint64_t i = 0; i < 1000; i++)
			same[k] += cursor_order_at(&a, i) == cursor_order_at(&b, i);
		ck_assert_int_lt(same[k], 12); /* 1 is expected */
	}
}
END_TEST

START_TEST(this_order_is_part_of_what_state_files_mean)
{
	/* written down at version 1 of the state file */
	static const uint32_t wanted[] = { 7, 0, 8, 2, 5, 3, 1, 6, 4, 9 };
	struct cursor_order order;

	cursor_order_init(&order, 10, 3, 0);
	for (uint64_t i = 0; i < 10; i++)
		ck_assert_uint_eq(cursor_order_at(&order, i), wanted[i]);
}
END_TEST

START_TEST(slices_cover_a_batch_in_rank_order)
{
	for (uint64_t n = 0; n < 40; n++)
		for (uint64_t world = 1; world < 40; world++) {
			uint64_t at = 0, offset, size;

			for (uint64_t rank = 0; rank < world; rank++) {
				size = cursor_slice(n, rank, world, &offset);
				ck_assert_uint_eq(offset, at);
				ck_assert(size == n / world || size == n / world + 1);
				at += size;
			}
			ck_assert_uint_eq(at, n);
		}
}
END_TEST

/*
 * Train to the end in worlds of random sizes, each of which begins with a new
 * cursor at a point that the one before had reached, at times an older one (a
 * replica after a loss).  What was trained on, loss taken back, must be the
 * order of a single rank.
 */
static void train_in_worlds(uint64_t n, uint64_t batch, uint64_t total, uint64_t seed)
{
	uint32_t *got = malloc(total * sizeof(*got)),
		 *ids = malloc(batch * sizeof(*ids));
	uint64_t step = 0, consumed = 0;

	while (consumed < total) {
		uint64_t world = 1 + draw(9), steps = draw(8);
		uint64_t back_step = step, back = consumed;
		struct cursor c;

		cursor_init(&c, n, batch, total, seed);
		ck_assert_int_eq(cursor_seek(&c, step, consumed), 0);
		while (steps--) {
			struct cursor_batch b = cursor_next(&c);
			uint64_t at = c.consumed;

			if (!b.n)
				break;
			ck_assert_uint_le(b.n, batch);
			ck_assert_uint_le(b.place + b.n, n);
			ck_assert(b.n == batch || b.place + b.n == n ||
				  c.consumed + b.n == total);
			for (uint64_t rank = 0; rank < world; rank++) {
				uint64_t offset;
				uint64_t m = cursor_slice(b.n, rank, world, &offset);

				cursor_ids(&c, &b, offset, m, ids);
				memcpy(got + at + offset, ids, m * sizeof(*ids));
			}
			cursor_step(&c, &b);
			if (draw(3) == 0) { /* a replica is saved */
				back_step = c.step;
				back = c.consumed;
			}
		}
		step = draw(4) ? c.step : back_step;
		consumed = step == c.step ? c.consumed : back;
	}
	for (uint64_t at = 0; at < total; at++) {
		struct cursor_order order;

		if (at % n == 0)
			cursor_order_init(&order, n, seed, at / n);
		ck_assert_uint_eq(got[at], cursor_order_at(&order, at % n));
	}
	free(got);
	free(ids);
}

START_TEST(the_samples_are_those_of_one_rank_whatever_the_worlds_were)
{
	for (int i = 0; i < 300; i++) {
		uint64_t n = 1 + draw(200), batch = 1 + draw(250);

		train_in_worlds(n, batch, 1 + draw(5 * n), draw(1000));
	}
}
END_TEST

START_TEST(training_ends_at_its_total_in_the_middle_of_a_batch)
{
	struct cursor c;
	struct cursor_batch b;

	cursor_init(&c, 10, 4, 13, 1);
	ck_assert_int_eq(cursor_seek(&c, 3, 10), 0);
	b = cursor_next(&c);
	ck_assert_uint_eq(b.epoch, 1);
	ck_assert_uint_eq(b.n, 3);
	cursor_step(&c, &b);
	ck_assert_uint_eq(cursor_next(&c).n, 0);
	ck_assert_int_eq(cursor_seek(&c, 4, 14), -1);
	ck_assert_int_eq(errno, EINVAL);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("worker_cursor");
	TCase *t = tcase_create("cursor");
	SRunner *runner;
	int failed;

	tcase_add_test(t, an_order_is_a_permutation_for_every_small_size);
	tcase_add_test(t, the_largest_set_has_ids_of_32_bits);
	tcase_add_loop_test(t, every_id_comes_at_every_place_equally_often, 0,
		sizeof(even) / sizeof(even[0]));
	tcase_add_test(t, neighbours_in_the_set_are_not_neighbours_in_the_order);
	tcase_add_test(t, orders_differ_by_seed_and_epoch_and_by_nothing_else);
	tcase_add_test(t, this_order_is_part_of_what_state_files_mean);
	tcase_add_test(t, slices_cover_a_batch_in_rank_order);
	tcase_add_test(t, the_samples_are_those_of_one_rank_whatever_the_worlds_were);
	tcase_add_test(t, training_ends_at_its_total_in_the_middle_of_a_batch);
	suite_add_tcase(s, t);
	runner = srunner_create(s);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed != 0;
}
