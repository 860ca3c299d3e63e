/* check_agent_part.c - what an agent makes of what its workers say. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/part.h"

static struct link *const somebody = (struct link *)"a link that nobody uses";

static struct msg message(enum msg_type type, json_t *body)
{
	return (struct msg){ .type = type, .body = body };
}

static struct part *make(const char *self, int nproc)
{
	struct msg start = message(MSG_WORLD_START,
		json_pack("{s:s, s:I, s:[sss], s:i, s:i, s:s, s:s, s:[s], s:[], s:s, "
			  "s:i, s:i, "
			  "s:s}",
			"job", "j1", "generation", (json_int_t)3, "world_nodes", "n1",
			"n2", "n3", "nproc", nproc, "restarts", 0, "launcher", "env",
			"mode", "swap", "argv", "true", "env", "cwd", "/", "min_nodes",
			1, "max_nodes", 4, "spool", "/spool"));
	struct err err;
	struct part *part = part_create(&start, self, &err);

	json_decref(start.body);
	return part;
}

static struct part_worker *join(struct part *part, int local_rank)
{
	struct err err;
	struct part_worker *worker =
		part_join(part, (long long)part->index * part->nproc + local_rank,
			local_rank, 100, &err);

	ck_assert_ptr_nonnull(worker);
	worker->link = somebody;
	return worker;
}

START_TEST(a_part_knows_its_place_in_the_world)
{
	struct part *part = make("n2", 4);

	ck_assert_uint_eq(part->index, 1);
	ck_assert_uint_eq(part->n_nodes, 3);
	ck_assert_int_eq(part_world_size(part), 12);
	ck_assert_int_eq(part_is_head(part), 0);
	ck_assert_int_eq(part->phase, PART_STARTING);
	part_destroy(part);
	ck_assert_ptr_null(make("n9", 4));
	ck_assert_int_eq(errno, EINVAL);
}
END_TEST

/* Where each event leads from each phase; PART_UNSET: it changes nothing. */
static const struct {
	enum part_phase from;
	enum part_event event;
	enum part_phase to;
} moves[] = {
	{ PART_STARTING, PART_ALL_READY, PART_READY },
	{ PART_STARTING, PART_GO, PART_RUNNING },
	{ PART_STARTING, PART_ENDS, PART_EXITING },
	{ PART_STARTING, PART_GONE, PART_EXITED },
	{ PART_READY, PART_ALL_READY, PART_UNSET },
	{ PART_READY, PART_GO, PART_RUNNING },
	{ PART_READY, PART_ENDS, PART_EXITING },
	{ PART_RUNNING, PART_GO, PART_UNSET },
	{ PART_RUNNING, PART_ALL_READY, PART_UNSET },
	{ PART_RUNNING, PART_ALL_LEFT, PART_LEFT },
	{ PART_RUNNING, PART_ENDS, PART_EXITING },
	{ PART_LEFT, PART_ENDS, PART_UNSET },
	{ PART_LEFT, PART_GO, PART_UNSET },
	{ PART_LEFT, PART_GONE, PART_EXITED },
	{ PART_EXITING, PART_GO, PART_UNSET },
	{ PART_EXITING, PART_ALL_LEFT, PART_UNSET },
	{ PART_EXITING, PART_GONE, PART_EXITED },
	{ PART_EXITED, PART_GO, PART_UNSET },
	{ PART_EXITED, PART_ENDS, PART_UNSET },
	{ PART_EXITED, PART_GONE, PART_UNSET },
};

START_TEST(phases_only_go_forward)
{
	struct part *part = make("n1", 1);
	enum part_phase to = moves[_i].to;

	part->phase = moves[_i].from;
	ck_assert_int_eq(part_event(part, moves[_i].event), to != PART_UNSET);
	ck_assert_int_eq(part->phase, to == PART_UNSET ? moves[_i].from : to);
	part_destroy(part);
}
END_TEST

static const struct {
	long long rank;
	int local_rank, errnum;
} joins[] = {
	{ 2, 0, 0 }, { 3, 1, EEXIST },      /* the test has let it in before */
	{ 4, 2, EINVAL },                   /* more than there are on a node */
	{ 2, 1, EINVAL }, { 0, 0, EINVAL }, /* another node's */
};

START_TEST(a_worker_joins_at_its_own_rank_only)
{
	struct part *part = make("n2", 2);
	struct part_worker *worker;
	struct err err;

	join(part, 1);
	worker = part_join(part, joins[_i].rank, joins[_i].local_rank, 7, &err);
	if (joins[_i].errnum == 0) {
		ck_assert_ptr_nonnull(worker);
		ck_assert_ptr_eq(part->workers, worker); /* in order of local ranks */
	} else {
		ck_assert_ptr_null(worker);
		ck_assert_int_eq(errno, joins[_i].errnum);
	}
	part_destroy(part);
}
END_TEST

START_TEST(nobody_joins_a_world_that_ends)
{
	struct part *part = make("n1", 1);
	struct err err;

	part_event(part, PART_ENDS);
	ck_assert_ptr_null(part_join(part, 0, 0, 7, &err));
	ck_assert_int_eq(errno, EBUSY);
	part_destroy(part);
}
END_TEST

START_TEST(a_part_is_ready_when_all_its_workers_are)
{
	struct part *part = make("n1", 2);
	struct part_worker *a = join(part, 0), *b = join(part, 1);

	ck_assert_int_eq(part_worker_ready(b), 0);
	ck_assert_int_eq(part_count_ready(part), 1);
	ck_assert_int_eq(part_worker_ready(a), 1);
	ck_assert_int_eq(part->phase, PART_READY);
	b->link = NULL;
	ck_assert_int_eq(part_count_ready(part), 1);
	part_destroy(part);
}
END_TEST

enum said { NOTHING, YES, NO, GONE, LEFT, ABSENT };

/* What two workers say to a proposal; steps are 11 and 14. */
static const struct {
	enum said a, b;
	int complete, agreed;
	long long step;
} tallies[] = {
	{ NOTHING, NOTHING, 0, 1, 10 },
	{ YES, NOTHING, 0, 1, 11 },
	{ NOTHING, YES, 0, 1, 14 },
	{ YES, YES, 1, 1, 14 },
	{ YES, NO, 1, 0, 14 },
	{ NO, NOTHING, 0, 0, 11 }, /* the other one may be further */
	{ NO, NO, 1, 0, 14 },
	{ YES, GONE, 1, 0, 11 },
	{ GONE, NOTHING, 0, 0, 10 },
	{ GONE, GONE, 1, 0, 10 },
	{ YES, LEFT, 1, 0, 11 },
	{ YES, ABSENT, 1, 0, 11 },
	{ NOTHING, ABSENT, 0, 0, 10 },
};

static void say(struct part *part, int local_rank, enum said said, long long step)
{
	struct part_worker *worker;

	if (said == ABSENT)
		return;
	worker = join(part, local_rank);
	if (said == GONE)
		worker->link = NULL;
	worker->left = said == LEFT;
	if (said == YES || said == NO)
		part_worker_answer(worker, part->proposal.local, said == YES, step);
}

START_TEST(an_answer_is_given_for_all_workers_together)
{
	struct part *part = make("n1", 2);
	struct part_tally tally;

	part_event(part, PART_GO);
	part->step = 10;
	part_propose(part, 1, 20, "rescale");
	say(part, 0, tallies[_i].a, 11);
	say(part, 1, tallies[_i].b, 14);
	tally = part_tally(part);
	ck_assert_int_eq(tally.complete, tallies[_i].complete);
	if (tally.complete)
		ck_assert_int_eq(tally.agreed, tallies[_i].agreed);
	ck_assert_int_eq(tally.step, tallies[_i].step);
	part_destroy(part);
}
END_TEST

START_TEST(a_part_that_does_not_train_says_no_at_once)
{
	struct part *part = make("n1", 1);
	struct part_tally tally;

	join(part, 0);
	ck_assert_int_eq(part_propose(part, 1, 20, "stop"), 1);
	tally = part_tally(part);
	ck_assert_int_eq(tally.complete, 1);
	ck_assert_int_eq(tally.agreed, 0);
	part_destroy(part);
}
END_TEST

START_TEST(only_the_newest_proposal_is_alive)
{
	struct part *part = make("n1", 1);
	struct part_worker *worker = join(part, 0);
	long long old;

	part_event(part, PART_GO);
	ck_assert_int_eq(part_propose(part, 2, 20, "rescale"), 1);
	old = part->proposal.local;
	ck_assert_int_eq(part_propose(part, 1, 30, "rescale"), 0);
	ck_assert_int_eq(part_propose(part, 2, 30, "rescale"), 0);
	ck_assert_int_eq(part_propose(part, 3, 30, "stop"), 1);
	ck_assert_str_eq(part->proposal.verdict, "stop");
	part_worker_answer(worker, old, 1, 5);
	ck_assert_int_eq(part_tally(part).complete, 0);
	part->proposal.committed = 1;
	ck_assert_int_eq(part_propose(part, 4, 40, "stop"), 0);
	part_destroy(part);
}
END_TEST

START_TEST(another_daemon_may_count_from_one_again)
{
	struct part *part = make("n1", 1);
	long long before;

	part_propose(part, 5, 20, "rescale");
	before = part->proposal.local;
	part_unpropose(part);
	ck_assert_int_eq(part_propose(part, 1, 30, "rescale"), 1);
	ck_assert_int_gt(part->proposal.local, before);
	part_destroy(part);
}
END_TEST

static int leaves(struct part_worker *worker, long long step, double t_s, int finished)
{
	struct msg leave = message(MSG_WORKER_LEAVE,
		json_pack("{s:I, s:I, s:f, s:b}", "step", (json_int_t)step, "cursor",
			(json_int_t)(step * 8), "t_s", t_s, "finished", finished));
	int all = part_worker_left(worker, &leave);

	json_decref(leave.body);
	return all;
}

START_TEST(a_part_has_left_when_all_its_workers_have)
{
	struct part *part = make("n1", 2);
	struct part_worker *a = join(part, 0), *b = join(part, 1);

	part_event(part, PART_GO);
	ck_assert_int_eq(leaves(a, 40, 7.5, 1), 0);
	ck_assert_int_eq(part->left, 0);
	ck_assert_int_eq(leaves(b, 40, 7.25, 0), 1);
	ck_assert_int_eq(part->phase, PART_LEFT);
	ck_assert_int_eq(part->step, 40);
	ck_assert_int_eq(part->cursor, 320);
	ck_assert_double_eq(part->left_t_s, 7.5);
	ck_assert_int_eq(part->left_finished, 0);
	ck_assert_int_eq(leaves(b, 40, 8, 0), 0); /* told once */
	part_destroy(part);
}
END_TEST

START_TEST(progress_is_that_of_rank_zero)
{
	struct part *head = make("n1", 2), *other = make("n2", 2);

	ck_assert_int_eq(part_worker_stepped(join(head, 0), 5, 40, 1), 1);
	ck_assert_int_eq(part_worker_stepped(join(head, 1), 4, 32, 1), 0);
	ck_assert_int_eq(head->step, 5);
	ck_assert_int_eq(head->cursor, 40);
	ck_assert_int_eq(part_worker_stepped(join(other, 0), 6, 48, 1), 0);
	ck_assert_ptr_nonnull(part_rank_zero(head));
	ck_assert_ptr_null(part_rank_zero(other));
	part_destroy(head);
	part_destroy(other);
}
END_TEST

#define N(table) (int)(sizeof(table) / sizeof((table)[0]))

int main(void)
{
	Suite *suite = suite_create("agent part");
	TCase *tcase = tcase_create("all");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_add_test(tcase, a_part_knows_its_place_in_the_world);
	tcase_add_loop_test(tcase, phases_only_go_forward, 0, N(moves));
	tcase_add_loop_test(tcase, a_worker_joins_at_its_own_rank_only, 0, N(joins));
	tcase_add_test(tcase, nobody_joins_a_world_that_ends);
	tcase_add_test(tcase, a_part_is_ready_when_all_its_workers_are);
	tcase_add_loop_test(
		tcase, an_answer_is_given_for_all_workers_together, 0, N(tallies));
	tcase_add_test(tcase, a_part_that_does_not_train_says_no_at_once);
	tcase_add_test(tcase, only_the_newest_proposal_is_alive);
	tcase_add_test(tcase, another_daemon_may_count_from_one_again);
	tcase_add_test(tcase, a_part_has_left_when_all_its_workers_have);
	tcase_add_test(tcase, progress_is_that_of_rank_zero);
	suite_add_tcase(suite, tcase);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
