/* check_loop.c - turns, timers, readiness, signals, ends. */
#include <check.h>
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/clock.h"
#include "proto/log.h"
#include "proto/loop.h"

static struct loop *loop;
static char trail[64]; /* what ran, a letter each */

static void note(const char *letter)
{
	strncat(trail, letter, sizeof(trail) - strlen(trail) - 1);
}

static void note_it(void *arg)
{
	note(arg);
}

static void note_and_stop(void *arg)
{
	note(arg);
	loop_stop(loop);
}

static void setup(void)
{
	loop = loop_create(NULL);
	ck_assert_ptr_nonnull(loop);
	trail[0] = '\0';
}

static void teardown(void)
{
	loop_destroy(loop);
}

START_TEST(timers_fire_once_in_the_order_of_their_times)
{
	static const struct {
		const char *letter;
		double after_s;
	} rows[] = { { "c", 0.03 }, { "a", 0 }, { "b", 0.01 }, { "d", 0.04 } };
	struct loop_timer *timers[5];

	for (int i = 0; i < 4; i++) {
		timers[i] = loop_timer_create(
			loop, note_it, (void *)(size_t)rows[i].letter);
		loop_timer_start(timers[i], rows[i].after_s);
		ck_assert(loop_timer_pending(timers[i]));
	}
	timers[4] = loop_timer_create(loop, note_and_stop, (void *)(size_t) "e");
	loop_timer_start(timers[4], 0.06);
	ck_assert_int_eq(loop_run(loop), 0);
	ck_assert_str_eq(trail, "abcde");
	for (int i = 0; i < 5; i++) {
		ck_assert(!loop_timer_pending(timers[i]));
		loop_timer_destroy(timers[i]);
	}
}
END_TEST

static double before_s, fired_s;

static void note_time(void *arg)
{
	fired_s = clock_mono_s();
}

START_TEST(a_timer_never_fires_before_its_time)
{
	static const double after[] = { 0, 0.0001, 0.0013, 0.0205 };

	for (size_t i = 0; i < 4; i++) {
		struct loop_timer *timer = loop_timer_create(loop, note_time, NULL);

		before_s = clock_mono_s();
		loop_timer_start(timer, after[i]);
		ck_assert_int_eq(loop_run(loop), 0); /* nothing is left: it returns */
		ck_assert_double_ge(fired_s - before_s, after[i]);
		loop_timer_destroy(timer);
	}
}
END_TEST

START_TEST(starting_a_running_timer_moves_it_and_stopping_ends_it)
{
	struct loop_timer *a = loop_timer_create(loop, note_it, (void *)(size_t) "a");
	struct loop_timer *b = loop_timer_create(loop, note_it, (void *)(size_t) "b");
	struct loop_timer *c = loop_timer_create(loop, note_it, (void *)(size_t) "c");

	loop_timer_start(a, 0.001);
	loop_timer_start(b, 0.01);
	loop_timer_start(c, 0.005);
	loop_timer_start(a, 0.02);
	loop_timer_stop(c);
	ck_assert_int_eq(loop_run(loop), 0);
	ck_assert_str_eq(trail, "ba");
	loop_timer_destroy(a);
	loop_timer_destroy(b);
	loop_timer_destroy(c);
	loop_timer_destroy(NULL);
}
END_TEST

START_TEST(strange_times_are_no_trouble)
{
	static const double times[] = { -1, NAN, INFINITY, 1e300 };

	for (int i = 0; i < 4; i++) {
		struct loop_timer *timer =
			loop_timer_create(loop, note_it, (void *)(size_t) "x");

		loop_timer_start(timer, times[i]);
		ck_assert(loop_timer_pending(timer));
		loop_timer_destroy(timer);
	}
}
END_TEST

static int pipe_fds[2];
static struct loop_io *io;
static int readies;

static void readable(int fd, unsigned ready, void *arg)
{
	char byte;

	ck_assert_int_eq(fd, pipe_fds[0]);
	ck_assert_uint_eq(ready, LOOP_READ);
	ck_assert_int_eq(read(fd, &byte, 1), 1);
	note("r");
	if (loop_defer(loop, note_it, (void *)(size_t) "d") < 0)
		ck_abort();
	if (++readies == 3) {
		loop_io_destroy(io); /* in its own callback */
		io = NULL;
		loop_stop(loop);
	}
}

START_TEST(readiness_is_told_again_until_it_is_taken)
{
	ck_assert_int_eq(pipe(pipe_fds), 0);
	readies = 0;
	io = loop_io_create(loop, pipe_fds[0], LOOP_READ, readable, NULL);
	ck_assert_int_eq(write(pipe_fds[1], "123", 3), 3);
	ck_assert_int_eq(loop_run(loop), 0);
	ck_assert_str_eq(trail, "rdrdrd"); /* deferred: at the end of each turn */
	close(pipe_fds[0]);
	close(pipe_fds[1]);
}
END_TEST

static void writable(int fd, unsigned ready, void *arg)
{
	ck_assert_uint_eq(ready, LOOP_WRITE);
	note("w");
	ck_assert_int_eq(loop_io_set(io, LOOP_NONE), 0);
}

START_TEST(an_interest_can_change)
{
	struct loop_timer *end =
		loop_timer_create(loop, note_and_stop, (void *)(size_t) "e");

	ck_assert_int_eq(pipe(pipe_fds), 0);
	io = loop_io_create(loop, pipe_fds[1], LOOP_NONE, writable, NULL);
	ck_assert_ptr_nonnull(io);
	loop_timer_start(end, 0.01);
	ck_assert_int_eq(loop_run(loop), 0);
	ck_assert_str_eq(trail, "e");
	ck_assert_int_eq(loop_io_set(io, LOOP_WRITE), 0);
	loop_timer_start(end, 0.01);
	ck_assert_int_eq(loop_run(loop), 0);
	ck_assert_str_eq(trail, "ewe");
	loop_io_destroy(io);
	loop_timer_destroy(end);
	close(pipe_fds[0]);
	close(pipe_fds[1]);
}
END_TEST

static void defer_more(void *arg)
{
	note("1");
	ck_assert_int_eq(loop_defer(loop, note_and_stop, (void *)(size_t) "4"), 0);
	loop_undefer(loop, note_it, (void *)(size_t) "x");
}

START_TEST(deferred_calls_keep_their_order_and_new_ones_wait_a_turn)
{
	static char x[] = "x", two[] = "2", three[] = "3";

	ck_assert_int_eq(loop_defer(loop, defer_more, NULL), 0);
	ck_assert_int_eq(loop_defer(loop, note_it, two), 0);
	ck_assert_int_eq(loop_defer(loop, note_it, x), 0);
	ck_assert_int_eq(loop_defer(loop, note_it, three), 0);
	ck_assert_int_eq(loop_defer(loop, note_it, x), 0);
	loop_undefer(loop, note_it, x);
	ck_assert_int_eq(loop_run(loop), 0);
	ck_assert_str_eq(trail, "1234");
}
END_TEST

static int times_seen;
static double first_seen_s;

static void see_time(void *arg)
{
	double real;

	if (times_seen++ == 0) {
		first_seen_s = loop_now_s(loop);
		/* Long enough that a fresh reading would differ. */
		for (real = clock_mono_s(); clock_mono_s() < real + 0.002;)
			;
		return;
	}
	ck_assert_double_eq(loop_now_s(loop), first_seen_s);
}

START_TEST(all_of_one_turn_happens_at_one_time)
{
	struct loop_timer *a = loop_timer_create(loop, see_time, NULL);
	struct loop_timer *b = loop_timer_create(loop, see_time, NULL);

	times_seen = 0;
	loop_timer_start(a, 0);
	loop_timer_start(b, 0);
	for (double from = clock_mono_s(); clock_mono_s() < from + 0.001;)
		; /* both are due in one turn */
	ck_assert_int_eq(loop_defer(loop, see_time, NULL), 0);
	ck_assert_int_eq(loop_run(loop), 0);
	ck_assert_int_eq(times_seen, 3);
	loop_timer_destroy(a);
	loop_timer_destroy(b);
}
END_TEST

START_TEST(outside_of_a_run_the_time_is_the_present)
{
	double from = clock_mono_s();

	ck_assert_double_ge(loop_now_s(loop), from);
	ck_assert_double_le(fabs(loop_wall_s(loop) - clock_wall_s()), 1);
}
END_TEST

static void signalled(int signo, void *arg)
{
	ck_assert_int_eq(signo, SIGUSR1);
	note("s");
	loop_stop(loop);
}

START_TEST(a_signal_is_taken_in_a_turn)
{
	struct loop_signal *sig = loop_signal_create(loop, SIGUSR1, signalled, NULL);

	ck_assert_ptr_nonnull(sig);
	kill(getpid(), SIGUSR1);
	ck_assert_str_eq(trail, "");
	ck_assert_int_eq(loop_run(loop), 0);
	ck_assert_str_eq(trail, "s");
	loop_signal_destroy(sig);
}
END_TEST

START_TEST(a_loop_with_nothing_to_wait_for_returns)
{
	ck_assert_int_eq(loop_run(loop), 0);
}
END_TEST

START_TEST(what_is_left_is_ended_with_the_loop)
{
	struct loop *other = loop_create(NULL);
	struct loop_end *gone = loop_end_create(other, note_it, (void *)(size_t) "x");

	ck_assert_ptr_nonnull(loop_end_create(other, note_it, (void *)(size_t) "e"));
	loop_end_destroy(gone);
	ck_assert_int_eq(loop_defer(other, note_it, (void *)(size_t) "d"), 0);
	loop_destroy(other);
	ck_assert_str_eq(trail, "de");
	loop_destroy(NULL);
}
END_TEST

START_TEST(a_time_is_written_in_iso_form)
{
	static const struct {
		double wall_s;
		const char *text;
	} rows[] = {
		{ 0, "1970-01-01T00:00:00.000Z" },
		{ 951782400.5, "2000-02-29T00:00:00.500Z" },
		{ 1769860800.25, "2026-01-31T12:00:00.250Z" },
		{ -0.25, "1969-12-31T23:59:59.750Z" },
	};
	char buf[CLOCK_ISO_SIZE];

	for (int i = 0; i < 4; i++)
		ck_assert_str_eq(
			clock_iso(rows[i].wall_s, buf, sizeof(buf)), rows[i].text);
}
END_TEST

START_TEST(a_log_line_is_one_line_of_its_level)
{
	char path[] = "/tmp/check_loop.XXXXXX", got[3000];
	int fd = mkstemp(path);
	ssize_t n;

	ck_assert_int_eq(log_open("prog", LOG_LEVEL_INFO, path), 0);
	log_info("pool", "n1 is\na hole \x1b[31m group=%d", 7);
	log_debug("pool", "this is not wanted");
	n = read(fd, got, sizeof(got) - 1);
	ck_assert_int_gt(n, 0);
	got[n] = '\0';
	ck_assert_ptr_nonnull(strstr(got, "info pool: n1 is?a hole ?[31m group=7\n"));
	ck_assert_ptr_eq(strchr(got, '\n'), got + n - 1);
	ck_assert_int_eq(log_open("prog", LOG_LEVEL_NOTICE, NULL), 0);
	ck_assert_int_eq(log_open("prog", LOG_LEVEL_NOTICE, "/nonexistent/x"), -1);
	for (int i = LOG_LEVEL_ERR; i <= LOG_LEVEL_DEBUG; i++)
		ck_assert_int_eq((int)log_level_parse(log_level_name(i)), i);
	ck_assert_int_eq(log_level_parse("loud"), LOG_UNSET);
	close(fd);
	unlink(path);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("loop");
	TCase *tc = tcase_create("loop");
	SRunner *runner;
	int failed;

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, timers_fire_once_in_the_order_of_their_times);
	tcase_add_test(tc, a_timer_never_fires_before_its_time);
	tcase_add_test(tc, starting_a_running_timer_moves_it_and_stopping_ends_it);
	tcase_add_test(tc, strange_times_are_no_trouble);
	tcase_add_test(tc, readiness_is_told_again_until_it_is_taken);
	tcase_add_test(tc, an_interest_can_change);
	tcase_add_test(tc, deferred_calls_keep_their_order_and_new_ones_wait_a_turn);
	tcase_add_test(tc, all_of_one_turn_happens_at_one_time);
	tcase_add_test(tc, outside_of_a_run_the_time_is_the_present);
	tcase_add_test(tc, a_signal_is_taken_in_a_turn);
	tcase_add_test(tc, a_loop_with_nothing_to_wait_for_returns);
	tcase_add_test(tc, what_is_left_is_ended_with_the_loop);
	tcase_add_test(tc, a_time_is_written_in_iso_form);
	tcase_add_test(tc, a_log_line_is_one_line_of_its_level);
	suite_add_tcase(suite, tc);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}
