/* check_sched.c - the backends: views, claims, reclaims, restarts. */
#include <check.h>
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/sched/sched.h"
#include "proto/clock.h"

enum { NODES = 4 };

static char dir[64], agent[96], run_dir[96], trace_file[96];
static char id[32], second_id[32];
static struct loop *loop;
static struct loop_timer *limit, *looker;
static struct sched *sched;

static struct {
	int n_views;
	size_t n_nodes;
	enum sched_quality quality;
	char names[NODES][65], reasons[NODES][65];
	int eligible[NODES], groups[NODES];
	double until_s[NODES], deadline_s[NODES], opened_s[NODES], closed_s[NODES];
	char order[32];
	pid_t pid;
	unsigned long long ticks;
	double deadline_told_s;
} seen;

static void on_view(const struct sched_view *view, void *arg)
{
	seen.n_views++;
	seen.n_nodes = view->n_nodes;
	seen.quality = view->quality;
	for (size_t i = 0; i < view->n_nodes && i < NODES; i++) {
		const struct sched_node *node = &view->nodes[i];

		if (node->eligible && !seen.eligible[i])
			seen.opened_s[i] = loop_now_s(loop);
		if (!node->eligible && seen.eligible[i])
			seen.closed_s[i] = loop_now_s(loop);
		snprintf(seen.names[i], sizeof(seen.names[i]), "%s", node->name);
		snprintf(seen.reasons[i], sizeof(seen.reasons[i]), "%s", node->reason);
		seen.eligible[i] = node->eligible;
		seen.groups[i] = node->group;
		seen.until_s[i] = node->until_s;
		seen.deadline_s[i] = node->deadline_s;
		ck_assert_int_eq(node->eligible, node->reason[0] == '\0');
	}
}

static void on_claim(const struct sched_claim *claim, void *arg)
{
	static const char letters[] = "-SFNE";

	strncat(seen.order, &letters[claim->event], 1);
	seen.pid = claim->pid;
	seen.ticks = claim->start_ticks;
	if (claim->event == SCHED_NOTICE)
		seen.deadline_told_s = claim->deadline_s;
}

static const struct sched_handlers handlers = { on_view, on_claim };

static int (*wanted)(void);

static void too_long(void *arg)
{
	ck_abort_msg("the condition did not come true in time; order %s, views %d",
		seen.order, seen.n_views);
}

static void look(void *arg)
{
	if (wanted())
		loop_stop(loop);
	else
		loop_timer_start(looker, 0.002);
}

static void turn_until(int (*condition)(void))
{
	wanted = condition;
	loop_timer_start(limit, 20);
	loop_timer_start(looker, 0);
	ck_assert_int_eq(loop_run(loop), 0);
	loop_timer_stop(limit);
}

static void write_file(const char *path, const char *text, mode_t mode)
{
	FILE *file = fopen(path, "w");

	ck_assert_ptr_nonnull(file);
	fputs(text, file);
	fclose(file);
	ck_assert_int_eq(chmod(path, mode), 0);
}

static void setup(void)
{
	memset(&seen, 0, sizeof(seen));
	snprintf(id, sizeof(id), "s%d", (int)getpid());
	snprintf(second_id, sizeof(second_id), "s%d.2", (int)getpid());
	snprintf(dir, sizeof(dir), "/tmp/check_sched.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(agent, sizeof(agent), "%s/agent", dir);
	snprintf(run_dir, sizeof(run_dir), "%s/run", dir);
	snprintf(trace_file, sizeof(trace_file), "%s/trace.csv", dir);
	ck_assert_int_eq(mkdir(run_dir, 0755), 0);
	write_file(agent, "#!/bin/sh\nexec sleep 1000\n", 0755);
	loop = loop_create(NULL);
	limit = loop_timer_create(loop, too_long, NULL);
	looker = loop_timer_create(loop, look, NULL);
	sched = NULL;
}

static void teardown(void)
{
	char command[128];

	sched_destroy(sched);
	loop_timer_destroy(limit);
	loop_timer_destroy(looker);
	loop_destroy(loop);
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	ck_assert_int_eq(system(command), 0);
}

static struct sched_config a_config(const char *backend)
{
	return (struct sched_config){
		.backend = backend,
		.nodes = "n[1-4]",
		.speedup = 10,
		.seed = 1,
		.idle_share = 0.5,
		.hours = 1,
		.grace_s = 0.2,
		.agent = agent,
		.run_dir = run_dir,
		.socket = "/nowhere/ctld.sock",
	};
}

static void create(const struct sched_config *config)
{
	struct err err;

	sched = sched_create(config, loop, &handlers, NULL, &err);
	ck_assert_msg(sched != NULL, "%s", err.text);
	ck_assert_int_eq(seen.n_views, 0); /* not inside the call */
}

static void create_trace(const char *text, double speedup, int end)
{
	struct sched_config config = a_config("trace");

	write_file(trace_file, text, 0644);
	config.trace_file = trace_file;
	config.speedup = speedup;
	config.end = end;
	create(&config);
}

static int has_view(void)
{
	return seen.n_views > 0;
}

static int n1_is_open(void)
{
	return seen.eligible[0];
}

static int n1_is_closed(void)
{
	return seen.n_views > 0 && !seen.eligible[0];
}

static int n2_has_opened_and_closed(void)
{
	return seen.opened_s[1] > 0 && seen.closed_s[1] > 0;
}

static int agent_is_started(void)
{
	return strchr(seen.order, 'S') != NULL;
}

static int claim_is_over(void)
{
	return strchr(seen.order, 'E') != NULL;
}

static int trace_is_over(void)
{
	return !strcmp(seen.reasons[0], "trace_ended");
}

static void end_claim(void)
{
	ck_assert_int_eq(sched_release(sched, id, NULL), 0);
	turn_until(claim_is_over);
}

/* --- tests ------------------------------------------------------------------ */

START_TEST(static_nodes_are_all_eligible_for_ever)
{
	struct sched_config config = a_config("static");

	config.nodes = "n[10,2-3],login";
	create(&config);
	turn_until(has_view);
	ck_assert_uint_eq(seen.n_nodes, 4);
	ck_assert_int_eq(seen.quality, SCHED_FRESH);
	ck_assert_str_eq(seen.names[0], "login");
	ck_assert_str_eq(seen.names[1], "n2");
	ck_assert_str_eq(seen.names[3], "n10");
	for (int i = 0; i < 4; i++) {
		ck_assert(seen.eligible[i]);
		ck_assert(isinf(seen.until_s[i]));
		ck_assert(isinf(seen.deadline_s[i]));
	}
}
END_TEST

START_TEST(a_poll_is_answered_by_a_view)
{
	struct sched_config config = a_config("static");

	create(&config);
	turn_until(has_view);
	seen.n_views = 0;
	sched_poll(sched);
	ck_assert_int_eq(seen.n_views, 0);
	turn_until(has_view);
	ck_assert_int_eq(seen.n_views, 1);
}
END_TEST

START_TEST(a_claim_starts_and_its_release_ends_it)
{
	struct sched_config config = a_config("static");
	struct err err;

	create(&config);
	ck_assert_msg(
		sched_claim(sched, "n1", id, getuid(), &err) == 0, "%s", err.text);
	ck_assert_int_eq(sched_claim(sched, "n1", second_id, getuid(), &err), -1);
	ck_assert_int_eq(errno, EBUSY);
	ck_assert_int_eq(sched_claim(sched, "n9", second_id, getuid(), &err), -1);
	ck_assert_int_eq(errno, ENOENT);
	turn_until(agent_is_started);
	ck_assert_int_gt(seen.pid, 0);
	ck_assert_int_eq(sched_release(sched, id, &err), 0);
	turn_until(n1_is_closed);
	ck_assert_str_eq(seen.reasons[0], "claim_ending");
	turn_until(claim_is_over);
	ck_assert_str_eq(seen.order, "SE");
	turn_until(n1_is_open);
	ck_assert_int_eq(sched_release(sched, id, &err), -1);
	ck_assert_int_eq(errno, ENOENT);
}
END_TEST

/* Never early; late only as far as a busy machine makes it. */
static void assert_time(double got_s, double wanted_s)
{
	ck_assert_double_ge(got_s, wanted_s - 0.005);
	ck_assert_double_le(got_s, wanted_s + 2);
}

START_TEST(holes_open_and_close_at_their_own_times)
{
	double from = clock_mono_s(), offered[2];

	create_trace("0,0,\n3,1,\n6,,0\n9,,1\n99,,\n", 10, 1);
	ck_assert_double_eq_tol(sched_origin_s(sched), clock_wall_s(), 0.5);
	turn_until(n2_has_opened_and_closed);
	assert_time(seen.opened_s[0] - from, 0);
	assert_time(seen.opened_s[1] - from, 0.3);
	assert_time(seen.closed_s[0] - from, 0.6);
	assert_time(seen.closed_s[1] - from, 0.9);
	for (int i = 0; i < 2; i++) {
		offered[i] = sched_offered_s(sched, seen.names[i]);
		ck_assert_double_eq_tol(
			offered[i], seen.closed_s[i] - seen.opened_s[i], 0.1);
	}
	ck_assert_double_eq_tol(
		sched_offered_s(sched, NULL), offered[0] + offered[1], 1e-9);
	ck_assert_double_eq(sched_offered_s(sched, "n3"), 0);
	ck_assert_double_eq(sched_offered_s(sched, "unknown"), 0);
	ck_assert_str_eq(seen.reasons[2], "not_idle");
}
END_TEST

START_TEST(nodes_that_came_together_share_a_group)
{
	create_trace("0,0 1,\n0.1,2 3,\n100,,0\n", 10, 1);
	turn_until(has_view);
	while (!seen.eligible[3]) {
		seen.n_views = 0;
		turn_until(has_view);
	}
	ck_assert_int_eq(seen.groups[0], seen.groups[1]);
	ck_assert_int_eq(seen.groups[2], seen.groups[3]);
	ck_assert_int_ne(seen.groups[0], seen.groups[2]);
	ck_assert_int_gt(seen.groups[0], 0);
}
END_TEST

START_TEST(a_closing_hole_gives_notice_then_ends_its_claim)
{
	struct err err;

	write_file(
		agent, "#!/bin/sh\ntrap '' TERM\nwhile :; do sleep 0.02; done\n", 0755);
	create_trace("0,0,\n5,,0\n5.5,0,\n100,,0\n", 10, 1);
	turn_until(n1_is_open);
	ck_assert_msg(
		sched_claim(sched, "n1", id, getuid(), &err) == 0, "%s", err.text);
	turn_until(agent_is_started);
	turn_until(n1_is_closed);
	ck_assert_str_eq(seen.order, "SN");
	ck_assert_double_eq_tol(seen.deadline_told_s, seen.closed_s[0] + 0.2, 0.15);
	ck_assert_double_eq(seen.deadline_s[0], seen.deadline_told_s);
	turn_until(claim_is_over);
	/* The hole is open again since: now the node may be had again. */
	ck_assert_double_ge(loop_now_s(loop), seen.deadline_told_s);
	turn_until(n1_is_open);
	ck_assert(isinf(seen.deadline_s[0]));
	ck_assert_str_eq(seen.order, "SNE");
}
END_TEST

static int n1_is_ending(void)
{
	return !strcmp(seen.reasons[0], "claim_ending");
}

START_TEST(a_hole_that_opens_again_is_not_eligible_before_the_old_claim_ended)
{
	struct err err;

	write_file(
		agent, "#!/bin/sh\ntrap '' TERM\nwhile :; do sleep 0.02; done\n", 0755);
	create_trace("0,0,\n2,,0\n2.1,0,\n100,,0\n", 10, 1);
	turn_until(n1_is_open);
	ck_assert_int_eq(sched_claim(sched, "n1", id, getuid(), &err), 0);
	turn_until(n1_is_ending);
	ck_assert_int_eq(sched_claim(sched, "n1", second_id, getuid(), &err), -1);
	ck_assert_int_eq(errno, EBUSY);
	turn_until(n1_is_open);
	ck_assert_str_eq(seen.order, "SNE");
}
END_TEST

START_TEST(a_closed_hole_cannot_be_claimed)
{
	struct err err;

	create_trace("0,0,\n100,,0\n", 10, 1);
	ck_assert_int_eq(sched_claim(sched, "n2", id, getuid(), &err), -1);
	ck_assert_int_eq(errno, EAGAIN);
	ck_assert_ptr_nonnull(strstr(err.text, "not_idle"));
}
END_TEST

START_TEST(a_trace_that_ends_leaves_all_nodes_closed)
{
	create_trace("0,0,\n1,1,\n", 20, 1);
	turn_until(n1_is_open);
	turn_until(trace_is_over);
	ck_assert(!seen.eligible[1]);
	/* Open from when the loop got to it, so a busy machine makes it shorter too. */
	ck_assert_double_gt(sched_offered_s(sched, NULL), 0.01);
	ck_assert_double_lt(sched_offered_s(sched, NULL), 2);
}
END_TEST

static int n2_has_opened_twice(void)
{
	static int was_open, opened;

	if (!was_open && seen.eligible[1])
		opened++;
	was_open = seen.eligible[1];
	return opened == 2;
}

START_TEST(a_trace_that_goes_round_begins_again_and_its_seam_holds)
{
	/* n1 is idle at the end and at the beginning: no reclaim between. */
	create_trace("0,0,\n0.5,1,\n1,,1\n2,,\n", 10, 0);
	turn_until(n1_is_open);
	ck_assert_int_eq(sched_claim(sched, "n1", id, getuid(), NULL), 0);
	turn_until(n2_has_opened_twice);
	ck_assert_double_eq(seen.closed_s[0], 0);
	ck_assert(seen.eligible[0]);
	ck_assert_str_eq(seen.order, "S");
	end_claim();
}
END_TEST

START_TEST(a_restart_goes_on_where_the_trace_is)
{
	struct sched_config config = a_config("trace");

	/* A lap is 100 s; 2 laps and 50 s of trace time have gone by. */
	write_file(trace_file, "0,0,\n40,1 2,0\n60,3,1 2\n100,,3\n", 0644);
	config.trace_file = trace_file;
	config.speedup = 10;
	config.origin_s = clock_wall_s() - 25;
	create(&config);
	turn_until(has_view);
	ck_assert(!seen.eligible[0]);
	ck_assert(seen.eligible[1]);
	ck_assert(seen.eligible[2]);
	ck_assert(!seen.eligible[3]);
	ck_assert_int_eq(seen.groups[1], 2 * 4 + 1 + 1); /* lap 2, row 1, from 1 */
	ck_assert_double_eq(sched_origin_s(sched), config.origin_s);
	ck_assert_double_lt(sched_offered_s(sched, NULL), 1);
}
END_TEST

START_TEST(a_claim_is_adopted_after_a_restart_and_gets_its_notice)
{
	struct sched_adoption adoption = { .id = id, .node = "n1", .uid = getuid() };
	struct sched_config config = a_config("trace");
	struct err err;

	write_file(trace_file, "0,0,\n5,,0\n1000,,\n", 0644);
	config.trace_file = trace_file;
	create(&config);
	turn_until(n1_is_open);
	ck_assert_int_eq(sched_claim(sched, "n1", id, getuid(), &err), 0);
	turn_until(agent_is_started);
	adoption.pid = seen.pid;
	adoption.start_ticks = seen.ticks;
	config.origin_s = sched_origin_s(sched) - 60; /* down until the hole is gone */
	sched_destroy(sched);
	memset(&seen, 0, sizeof(seen));
	create(&config);
	ck_assert_int_eq(kill(adoption.pid, 0), 0);
	ck_assert_msg(sched_adopt(sched, &adoption, &err) == 0, "%s", err.text);
	turn_until(claim_is_over);
	ck_assert_str_eq(seen.order, "SNE");
}
END_TEST

START_TEST(the_generator_feeds_a_trace_too)
{
	struct sched_config config = a_config("trace");
	int open = 0;

	config.speedup = 3600;
	config.idle_share = 0.6;
	create(&config);
	turn_until(n2_has_opened_and_closed);
	for (int i = 0; i < NODES; i++)
		open += seen.opened_s[i] > 0;
	ck_assert_int_ge(open, 1);
	ck_assert_uint_eq(seen.n_nodes, 4);
}
END_TEST

START_TEST(a_trace_names_its_nodes_itself_when_nobody_else_does)
{
	struct sched_config config = a_config("trace");

	write_file(trace_file, "0,0 11,\n100,,0\n", 0644);
	config.trace_file = trace_file;
	config.nodes = NULL;
	create(&config);
	turn_until(has_view);
	ck_assert_uint_eq(seen.n_nodes, 12);
	ck_assert_str_eq(seen.names[0], "n1");
	ck_assert_str_eq(seen.names[2], "n3");
}
END_TEST

START_TEST(nodes_beyond_the_list_belong_to_others)
{
	create_trace("0,0 7 65535,\n1,,7\n100,,0\n", 100, 1);
	turn_until(n1_is_open);
	turn_until(trace_is_over);
	ck_assert_uint_eq(seen.n_nodes, 4);
}
END_TEST

static const struct {
	const char *what;
	const char *backend, *nodes, *trace;
	double grace_s;
	const char *agent;
	int errnum;
	const char *text;
} bad[] = {
	{ "no backend", "pbs", "n1", NULL, 1, "/x", EINVAL, "backend \"pbs\"" },
	{ "no nodes", "static", "", NULL, 1, "/x", EINVAL, "nodes: there are none" },
	{ "a bad list", "static", "n[1-", NULL, 1, "/x", EINVAL, "nodes: column" },
	{ "a path", "static", "n1,a/b", NULL, 1, "/x", EINVAL, "node \"a/b\"" },
	{ "dots", "static", "..", NULL, 1, "/x", EINVAL, "node \"..\"" },
	{ "no agent", "static", "n1", NULL, 1, NULL, EINVAL, "agents: their program" },
	{ "a relative agent", "static", "n1", NULL, 1, "x", EINVAL, "begin with /" },
	{ "grace", "static", "n1", NULL, -1, "/x", EINVAL, "grace of -1 s" },
	{ "no trace", "trace", "n1", "/nonexistent/t", 1, "/x", ENOENT,
		"/nonexistent/t" },
	{ "generator without nodes", "trace", "", NULL, 1, "/x", EINVAL, "0 nodes" },
};

START_TEST(a_configuration_that_cannot_work_is_refused_in_words)
{
	struct sched_config config = a_config(bad[_i].backend);
	struct err err;

	config.nodes = bad[_i].nodes;
	config.trace_file = bad[_i].trace;
	config.grace_s = bad[_i].grace_s;
	config.agent = bad[_i].agent;
	ck_assert_ptr_null(sched_create(&config, loop, &handlers, NULL, &err));
	ck_assert_int_eq(errno, bad[_i].errnum);
	ck_assert_msg(strstr(err.text, bad[_i].text) != NULL, "%s: %s", bad[_i].what,
		err.text);
}
END_TEST

START_TEST(a_pace_that_never_rests_is_refused)
{
	static const double speedups[] = { -1, 1e7, NAN, INFINITY, 5000 };
	struct sched_config config = a_config("trace");

	write_file(trace_file, "0,0,\n10,,0\n", 0644);
	config.trace_file = trace_file;
	for (size_t i = 0; i < sizeof(speedups) / sizeof(speedups[0]); i++) {
		config.speedup = speedups[i];
		ck_assert_ptr_null(sched_create(&config, loop, &handlers, NULL, NULL));
		ck_assert_int_eq(errno, EINVAL);
	}
}
END_TEST

START_TEST(an_agent_that_dies_by_itself_leaves_an_eligible_node)
{
	struct sched_config config = a_config("static");

	create(&config);
	ck_assert_int_eq(sched_claim(sched, "n2", id, getuid(), NULL), 0);
	turn_until(agent_is_started);
	ck_assert_int_eq(kill(seen.pid, SIGKILL), 0);
	turn_until(claim_is_over);
	ck_assert_str_eq(seen.order, "SE");
	seen.n_views = 0;
	sched_poll(sched);
	turn_until(has_view);
	ck_assert(seen.eligible[1]);
	seen.order[0] = '\0';
	ck_assert_int_eq(sched_claim(sched, "n2", id, getuid(), NULL), 0);
	turn_until(agent_is_started);
	end_claim();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("sched");
	TCase *tc = tcase_create("sched");
	SRunner *runner;
	int failed;

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, static_nodes_are_all_eligible_for_ever);
	tcase_add_test(tc, a_poll_is_answered_by_a_view);
	tcase_add_test(tc, a_claim_starts_and_its_release_ends_it);
	tcase_add_test(tc, holes_open_and_close_at_their_own_times);
	tcase_add_test(tc, nodes_that_came_together_share_a_group);
	tcase_add_test(tc, a_closing_hole_gives_notice_then_ends_its_claim);
	tcase_add_test(
		tc, a_hole_that_opens_again_is_not_eligible_before_the_old_claim_ended);
	tcase_add_test(tc, a_closed_hole_cannot_be_claimed);
	tcase_add_test(tc, a_trace_that_ends_leaves_all_nodes_closed);
	tcase_add_test(tc, a_trace_that_goes_round_begins_again_and_its_seam_holds);
	tcase_add_test(tc, a_restart_goes_on_where_the_trace_is);
	tcase_add_test(tc, a_claim_is_adopted_after_a_restart_and_gets_its_notice);
	tcase_add_test(tc, the_generator_feeds_a_trace_too);
	tcase_add_test(tc, a_trace_names_its_nodes_itself_when_nobody_else_does);
	tcase_add_test(tc, nodes_beyond_the_list_belong_to_others);
	tcase_add_loop_test(tc, a_configuration_that_cannot_work_is_refused_in_words, 0,
		sizeof(bad) / sizeof(bad[0]));
	tcase_add_test(tc, a_pace_that_never_rests_is_refused);
	tcase_add_test(tc, an_agent_that_dies_by_itself_leaves_an_eligible_node);
	suite_add_tcase(suite, tc);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}
