/*
 * check_life.c - jobs come to an end whatever their worlds do.
 *
 * The daemon's core without scheduler, peers or agents: nodes have no link, so
 * orders go nowhere, and the tests say what agents would have reported.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/cycle.h"
#include "daemon/life.h"
#include "daemon/rescale.h"
#include "proto/log.h"

static char dir[] = "/tmp/check_life.XXXXXX";
static struct ctld ctld;

static void setup(void)
{
	struct err err = { "" };
	char path[64];

	snprintf(path, sizeof(path), "%s/journal.jsonl", dir);
	remove(path);
	memset(&ctld, 0, sizeof(ctld));
	ck_assert_int_eq(config_init(&ctld.config, &err), 0);
	ctld.config.probe = 0;
	ctld.loop = loop_create(&err);
	ctld.journal = journal_open(dir, ctld.loop, &err);
	ctld.pool = pool_create();
	ctld.jobs = jobs_create();
	ctld.cycle = cycle_create(&ctld, &err);
	ck_assert_ptr_nonnull(ctld.cycle);
	for (int i = 1; i <= 4; i++) {
		snprintf(path, sizeof(path), "n%d", i);
		ck_assert_ptr_nonnull(pool_node(ctld.pool, path));
	}
}

static void free_buried(void)
{
	while (ctld.buried) {
		struct world *world = ctld.buried;

		ctld.buried = world->next;
		world_destroy(world);
	}
}

static void teardown(void)
{
	for (size_t i = 0; i < jobs_count(ctld.jobs); i++)
		rescale_abandon(jobs_at(ctld.jobs, i));
	free_buried();
	cycle_destroy(ctld.cycle);
	jobs_destroy(ctld.jobs);
	pool_destroy(ctld.pool);
	journal_close(ctld.journal);
	loop_destroy(ctld.loop);
	config_fini(&ctld.config);
}

static struct job *new_job(void)
{
	struct err err = { "" };
	struct job_request request;
	json_t *fields = json_pack(
		"{s:s, s:[s], s:[], s:s, s:i, s:i, s:i, s:s, s:s, s:s}", "name", "test", "argv",
		"train", "env", "cwd", "/tmp", "min_nodes", 1, "max_nodes", 4, "nproc", 1,
		"mode", "swap", "launcher", "mpi", "spool", "/tmp");
	struct job *job;

	ck_assert_int_eq(job_request_read(&request, fields, 0, 0, &err), 0);
	json_decref(fields);
	job = jobs_add(ctld.jobs, &request, NULL);
	ck_assert_ptr_nonnull(job);
	ck_assert_int_eq(cycle_adopt_job(ctld.cycle, job, &err), 0);
	return job;
}

/* Begin a world on the first n nodes. */
static struct world *begin_world(struct job *job, enum rescale_kind kind, size_t n)
{
	struct node *nodes[4];

	for (size_t i = 0; i < n; i++)
		nodes[i] = pool_at(ctld.pool, i);
	ck_assert_int_eq(rescale_begin(&ctld, job, kind, 0, nodes, n, "test"), 0);
	return job->rescale->to;
}

static void all_ready(struct world *world)
{
	for (size_t i = 0; i < world->n_members; i++)
		world->members[i].ready = 1;
	life_world_changed(&ctld, world);
}

/* A world that trains, its transaction closed. */
static struct world *running_world(struct job *job, size_t n)
{
	struct world *world = begin_world(job, RESCALE_START, n);

	all_ready(world);
	ck_assert_ptr_eq(job->current, world);
	rescale_progress(world, 1, 1.0);
	ck_assert_ptr_null(job->rescale);
	return world;
}

static void exits(struct world *world, size_t i, int launcher, int code)
{
	if (launcher) {
		world->launcher_exited = 1;
		world->code = code;
	}
	world_member_exited(&world->members[i]);
	life_world_changed(&ctld, world);
}

/* As h_agent.c takes the first world.left that says finished. */
static void finishes(struct world *world, size_t n_left)
{
	for (size_t i = 0; i < n_left; i++)
		world->members[i].left = 1;
	world->job->finished = world->finished = 1;
	if (world_all_left(world))
		world->phase = WORLD_LEFT;
	rescale_drop(world->job, "the training is complete");
	life_world_changed(&ctld, world);
}

START_TEST(a_job_ends_when_its_finished_world_is_gone)
{
	struct job *job = new_job();
	struct world *world = running_world(job, 2);

	finishes(world, 2);
	exits(world, 1, 0, 0);
	ck_assert_int_ne(job->state, JOB_ENDED);
	exits(world, 0, 1, 0);
	ck_assert_int_eq(job->state, JOB_ENDED);
	ck_assert_int_eq(job->exit_code, 0);
}
END_TEST

START_TEST(a_job_that_finishes_while_it_grows_ends_with_its_last_world)
{
	struct job *job = new_job();
	struct world *world = running_world(job, 1);
	struct world *next = begin_world(job, RESCALE_GROW, 2);

	finishes(world, 1);
	exits(world, 0, 1, 0);
	ck_assert_int_ne(job->state, JOB_ENDED);
	exits(next, 0, 1, 143);
	exits(next, 1, 0, 0);
	ck_assert_int_eq(job->state, JOB_ENDED);
	ck_assert_int_eq(job->exit_code, 0);
	ck_assert_str_eq(job->reason, "done");
}
END_TEST

START_TEST(a_job_whose_finishing_world_breaks_is_started_again)
{
	struct job *job = new_job();
	struct world *world = running_world(job, 2);

	finishes(world, 1);
	life_world_lost(&ctld, world, "a node was lost", 1);
	exits(world, 0, 0, 0);
	exits(world, 1, 0, 0);
	ck_assert_int_eq(job->state, JOB_WAITING);
	ck_assert(job_wants_nodes(job));
}
END_TEST

START_TEST(a_cancelled_job_whose_world_breaks_has_ended)
{
	struct err err = { "" };
	struct job *job = new_job();
	struct world *world = running_world(job, 2);

	ck_assert_int_eq(life_job_cancel(&ctld, job, 0, &err), 0);
	ck_assert_int_eq(job->state, JOB_STOPPING);
	life_world_lost(&ctld, world, "its workers do not answer", 0);
	exits(world, 0, 0, 0);
	exits(world, 1, 0, 0);
	ck_assert_int_eq(job->state, JOB_ENDED);
	ck_assert_int_eq(job->exit_code, EXIT_PREEMPTED);
}
END_TEST

START_TEST(an_ended_job_holds_no_world_once_its_processes_are_gone)
{
	struct job *job = new_job();
	struct world *world = running_world(job, 2);

	exits(world, 0, 1, 0);
	ck_assert_int_eq(job->state, JOB_ENDED);
	exits(world, 1, 0, 0);
	ck_assert_ptr_null(job->worlds);
	ck_assert_ptr_null(job->current);
}
END_TEST

START_TEST(starts_that_fail_are_counted_and_end_the_job)
{
	struct job *job = new_job();
	struct world *world = running_world(job, 1);
	int starts = 0;

	life_world_lost(&ctld, world, "a node was lost", 1);
	exits(world, 0, 0, 0);
	job->restarts = 0;
	job_copy_add(job, "n1", 1, 10);
	while (job->state != JOB_ENDED && starts < 100) {
		world = begin_world(job, RESCALE_START, 1);
		exits(world, 0, 1, 9);
		starts++;
	}
	ck_assert_int_eq(starts, ctld.config.max_restarts + 1);
	ck_assert_int_eq(job->exit_code, 9);
}
END_TEST

START_TEST(starts_lost_with_their_node_are_nobodys_fault)
{
	struct job *job = new_job();

	for (int i = 0; i < 20; i++) {
		struct world *world = begin_world(job, RESCALE_START, 1);

		life_world_lost(&ctld, world, "a node was lost", 1);
		exits(world, 0, 0, 0);
	}
	ck_assert_int_eq(job->state, JOB_WAITING);
	ck_assert_int_eq(job->restarts, 0);
}
END_TEST

START_TEST(a_grow_that_fails_is_not_counted_against_the_job)
{
	struct job *job = new_job();
	struct world *world = running_world(job, 1);

	for (int i = 0; i < 20; i++) {
		struct world *next = begin_world(job, RESCALE_GROW, 2);

		exits(next, 1, 0, 0);
		exits(next, 0, 1, 1);
	}
	ck_assert_ptr_eq(job->current, world);
	ck_assert_int_eq(job->restarts, 0);
	ck_assert_int_eq(job->counts[COUNT_FAILED], 20);
}
END_TEST

START_TEST(a_worker_that_always_says_no_is_not_asked_without_end)
{
	struct job *job = new_job();
	struct world *world = running_world(job, 1);
	int asked;

	ck_assert_int_eq(rescale_begin(&ctld, job, RESCALE_PAUSE, 0, NULL, 0, "test"), 0);
	for (asked = 1; asked < 1000; asked++) {
		int before = world->proposals;

		rescale_answered(world, &world->members[0], before, 0, job->step);
		if (world->proposals == before)
			break;
	}
	ck_assert_int_lt(asked, 20);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("life");
	TCase *tc = tcase_create("ends");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, a_job_ends_when_its_finished_world_is_gone);
	tcase_add_test(tc, a_job_that_finishes_while_it_grows_ends_with_its_last_world);
	tcase_add_test(tc, a_job_whose_finishing_world_breaks_is_started_again);
	tcase_add_test(tc, a_cancelled_job_whose_world_breaks_has_ended);
	tcase_add_test(tc, an_ended_job_holds_no_world_once_its_processes_are_gone);
	tcase_add_test(tc, starts_that_fail_are_counted_and_end_the_job);
	tcase_add_test(tc, starts_lost_with_their_node_are_nobodys_fault);
	tcase_add_test(tc, a_grow_that_fails_is_not_counted_against_the_job);
	tcase_add_test(tc, a_worker_that_always_says_no_is_not_asked_without_end);
	suite_add_tcase(s, tc);
	return s;
}

int main(void)
{
	SRunner *runner;
	char cmd[64];
	int failed;

	if (!mkdtemp(dir))
		return 1;
	log_open("check_life", log_level_parse("err"), "/dev/null");
	runner = srunner_create(suite());
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	snprintf(cmd, sizeof(cmd), "%s/journal.jsonl", dir);
	remove(cmd);
	remove(dir);
	return failed != 0;
}
