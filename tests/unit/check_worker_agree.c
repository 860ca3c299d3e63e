/*
 * check_worker_agree.c - worlds of forked ranks, and a fake agent that times them.
 *
 * The ranks train a model of one number: each step adds up the ids of all ranks.
 * Their collective is a barrier in shared memory with a limit, so a rank that
 * leaves alone is seen as what it is, a hang of the others.  A gate holds the
 * ranks before a step until the test lets them, so nothing depends on speed.
 */
#include <errno.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#include "tests/unit/fake_agent.h"
#include "worker/agree.h"
#include "worker/malle.h"
#include "worker/pace.h"

#define SAMPLES 50
#define BATCH	7
#define EPOCHS	4
#define STEPS	(EPOCHS * 8) /* 7 batches of 7 and one of 1 an epoch */
#define SUM	(EPOCHS * (SAMPLES * (SAMPLES - 1) / 2))

enum { CODE_HANG = 98, CODE_BROKEN = 97 };

struct outcome {
	int verdict, finished, batch; /* of the last calls */
	int error;
	uint64_t step, cursor;
	double model;
	char text[256];
};

static struct shared {
	atomic_int gate;		/* steps that may begin */
	atomic_int in_step[FAKE_RANKS]; /* steps whose malle_step was entered */
	atomic_int arrived[FAKE_RANKS]; /* at the barrier */
	double values[2][FAKE_RANKS];
	char broadcast[4096];
	struct outcome out[FAKE_RANKS];
} * shared;

static struct fake_agent agent;
static pid_t pids[FAKE_RANKS];
static int ranks;

static void nap(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = 100000 }, NULL);
}

/* --- a rank ------------------------------------------------------------------ */

static void wait_until(atomic_int *value, int at_least)
{
	for (int i = 0; i < 100000 && atomic_load(value) < at_least; i++)
		nap();
	if (atomic_load(value) < at_least)
		_exit(CODE_HANG);
}

static void barrier(int rank)
{
	int mine = atomic_fetch_add(&shared->arrived[rank], 1) + 1;

	for (int i = 0; i < ranks; i++)
		wait_until(&shared->arrived[i], mine);
}

static int share_bytes(void *arg, void *buffer, size_t n)
{
	int rank = *(int *)arg;

	if (rank == 0)
		memcpy(shared->broadcast, buffer, n);
	barrier(rank);
	memcpy(buffer, shared->broadcast, n);
	barrier(rank);
	return 0;
}

static double add_up(int rank, uint64_t step, double value)
{
	double sum = 0;

	shared->values[step % 2][rank] = value;
	barrier(rank);
	for (int i = 0; i < ranks; i++)
		sum += shared->values[step % 2][i];
	return sum;
}

static void train(struct malle *m, int rank, double *model, struct outcome *out)
{
	struct malle_batch b;

	while ((out->batch = malle_batch(m, &b)) > 0) {
		double sum = 0;

		wait_until(&shared->gate, (int)b.step + 1);
		for (size_t i = 0; i < b.n; i++)
			sum += b.ids[i];
		*model += add_up(rank, b.step, sum);
		atomic_store(&shared->in_step[rank], (int)b.step + 1);
		out->verdict = malle_step(m);
		if (out->verdict != MALLE_GO)
			break;
	}
	out->error = errno;
}

static void environment(int rank, int generation)
{
	char text[32];

	setenv("MALLE_SOCKET", agent.path, 1);
	setenv("MALLE_JOB_ID", "j1", 1);
	snprintf(text, sizeof(text), "%d", rank);
	setenv("RANK", text, 1);
	setenv("LOCAL_RANK", text, 1);
	snprintf(text, sizeof(text), "%d", ranks);
	setenv("WORLD_SIZE", text, 1);
	snprintf(text, sizeof(text), "%d", generation);
	setenv("MALLE_GENERATION", text, 1);
	setenv("MALLE_RESTART_COUNT", "2", 1);
}

static int rank_main(int rank, int generation, int has_broadcast)
{
	struct malle_data data = {
		.n_samples = SAMPLES, .global_batch = BATCH, .epochs = EPOCHS, .seed = 5
	};
	struct outcome *out = &shared->out[rank];
	double model = rank == 0 ? 0 : 1e6; /* only rank 0 begins right */
	struct malle_err err;
	struct malle *m;

	environment(rank, generation);
	m = malle_join(&err);
	if (!m || malle_data(m, &data) < 0 ||
		malle_state(m, "model", &model, sizeof(model)) < 0)
		return CODE_BROKEN;
	if (malle_rank(m) != rank || malle_world_size(m) != ranks ||
		malle_generation(m) != (uint64_t)generation || malle_restarts(m) != 2)
		return CODE_BROKEN;
	if (has_broadcast)
		malle_set_broadcast(m, share_bytes, &rank);
	train(m, rank, &model, out);
	out->finished = malle_finished(m);
	out->step = malle_steps(m);
	out->cursor = malle_cursor(m);
	out->model = model;
	strcpy(out->text, malle_error(m));
	malle_leave(m);
	return 0;
}

/* --- the test's side ----------------------------------------------------------- */

static void start(int n, int generation, int has_broadcast)
{
	ranks = n;
	memset(shared, 0, sizeof(*shared));
	for (int i = 0; i < n; i++) {
		pids[i] = fork();
		if (pids[i] == 0) {
			close(agent.listener);
			_exit(rank_main(i, generation, has_broadcast));
		}
	}
	fake_world(&agent, n);
}

static void allow(int steps)
{
	atomic_store(&shared->gate, steps);
}

/* All ranks are in malle_step, with this many steps done. */
static void all_in_step(int step)
{
	for (int i = 0; i < ranks; i++)
		wait_until(&shared->in_step[i], step);
}

static void join_all(void)
{
	for (int i = 0; i < ranks; i++) {
		int status;

		ck_assert_int_eq(waitpid(pids[i], &status, 0), pids[i]);
		ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) != CODE_HANG,
			"rank %d hangs", i);
		ck_assert_int_eq(WEXITSTATUS(status), 0);
	}
}

static void all_left(int verdict, int step)
{
	join_all();
	for (int i = 0; i < ranks; i++) {
		ck_assert_int_eq(shared->out[i].verdict, verdict);
		ck_assert_uint_eq(shared->out[i].step, (unsigned)step);
		ck_assert_uint_eq(shared->out[i].cursor, shared->out[0].cursor);
		ck_assert(shared->out[i].model == shared->out[0].model);
		ck_assert_int_eq(shared->out[i].finished, 0);
	}
}

static void all_finished(void)
{
	join_all();
	for (int i = 0; i < ranks; i++) {
		ck_assert_msg(shared->out[i].batch == 0, "%s", shared->out[i].text);
		ck_assert_int_eq(shared->out[i].verdict, MALLE_GO);
		ck_assert_int_eq(shared->out[i].finished, 1);
		ck_assert_uint_eq(shared->out[i].step, STEPS);
		ck_assert_uint_eq(shared->out[i].cursor, SAMPLES * EPOCHS);
		ck_assert(shared->out[i].model == SUM);
	}
}

static void all_leave_messages(int step, int finished)
{
	struct msg msg;

	for (int i = 0; i < ranks; i++) {
		fake_expect(agent.fds[i], MSG_WORKER_LEAVE, &msg);
		ck_assert_int_eq(msg_int(&msg, "step"), step);
		ck_assert_int_eq(msg_bool(&msg, "finished"), finished);
		msg_fini(&msg);
	}
}

static void setup(void)
{
	fake_agent_init(&agent);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(shared, MAP_FAILED);
}

static void teardown(void)
{
	fake_agent_fini(&agent);
	munmap(shared, sizeof(*shared));
}

/* --- tests ---------------------------------------------------------------------- */

/* n ranks at steps 5, with proposal 1 for step 8 answered by all */
static void agree_at_8(int n, const char *verdict)
{
	long long step;

	start(n, 1, 1);
	fake_go(&agent, n, NULL);
	allow(5);
	all_in_step(5);
	fake_propose(&agent, n, 1, 8, verdict);
	allow(7);
	ck_assert_int_eq(fake_answers(&agent, n, 1, &step), n);
	ck_assert_int_lt(step, 8);
}

START_TEST(ranks_leave_at_the_agreed_step_and_another_world_goes_on)
{
	char file[400];
	struct msg msg;

	agree_at_8(3, "rescale");
	fake_last_word(&agent, 3, MSG_WORKER_COMMIT, 1);
	allow(STEPS);
	fake_expect(agent.fds[0], MSG_WORKER_SAVED, &msg);
	ck_assert_int_eq(msg_int(&msg, "step"), 8);
	ck_assert_int_eq(msg_int(&msg, "cursor"), SAMPLES);
	snprintf(file, sizeof(file), "%s/%s", agent.dir, msg_str(&msg, "file"));
	ck_assert_int_eq(access(file, R_OK), 0);
	msg_fini(&msg);
	all_leave_messages(8, 0);
	all_left(MALLE_RESCALE, 8);
	fake_agent_hang_up(&agent);

	start(5, 2, 1);
	fake_go(&agent, 5, file);
	allow(STEPS);
	all_leave_messages(STEPS, 1);
	all_finished();
}
END_TEST

START_TEST(stop_is_told_apart_from_rescale)
{
	agree_at_8(2, "stop");
	fake_last_word(&agent, 2, MSG_WORKER_COMMIT, 1);
	allow(STEPS);
	all_left(MALLE_STOP, 8);
}
END_TEST

START_TEST(a_proposal_that_comes_too_late_is_refused)
{
	long long step;

	start(2, 1, 1);
	fake_go(&agent, 2, NULL);
	allow(6);
	all_in_step(6);
	fake_propose(&agent, 2, 1, 6, "rescale");
	allow(7);
	ck_assert_int_eq(fake_answers(&agent, 2, 1, &step), 0);
	ck_assert_int_ge(step, 6);
	fake_last_word(&agent, 2, MSG_WORKER_COMMIT, 1); /* of no effect */
	fake_propose(&agent, 2, 2, 10, "rescale");
	allow(8);
	ck_assert_int_eq(fake_answers(&agent, 2, 2, &step), 2);
	fake_last_word(&agent, 2, MSG_WORKER_COMMIT, 2);
	allow(STEPS);
	all_left(MALLE_RESCALE, 10);
}
END_TEST

START_TEST(an_unknown_verdict_is_refused)
{
	long long step;

	start(2, 1, 1);
	fake_go(&agent, 2, NULL);
	fake_propose(&agent, 2, 1, 10, "dance");
	allow(1);
	ck_assert_int_eq(fake_answers(&agent, 2, 1, &step), 0);
	allow(STEPS);
	all_finished();
}
END_TEST

START_TEST(a_rank_that_agreed_waits_at_the_step_for_a_newer_proposal)
{
	long long step;

	agree_at_8(3, "rescale");
	allow(STEPS);
	all_in_step(8);
	fake_propose(&agent, 3, 2, 20, "stop");
	ck_assert_int_eq(fake_answers(&agent, 3, 2, &step), 3);
	ck_assert_int_eq(step, 8);			 /* nobody had gone past it */
	fake_last_word(&agent, 3, MSG_WORKER_COMMIT, 1); /* an old one: of no effect */
	fake_last_word(&agent, 3, MSG_WORKER_COMMIT, 2);
	all_left(MALLE_STOP, 20);
}
END_TEST

START_TEST(a_rank_that_waits_is_released_by_withdrawal)
{
	agree_at_8(3, "rescale");
	allow(STEPS);
	all_in_step(8);
	fake_last_word(&agent, 3, MSG_WORKER_WITHDRAW, 1);
	all_finished();
}
END_TEST

START_TEST(a_rank_that_waits_is_released_by_commit)
{
	agree_at_8(3, "rescale");
	allow(STEPS);
	all_in_step(8);
	fake_last_word(&agent, 3, MSG_WORKER_COMMIT, 1);
	all_left(MALLE_RESCALE, 8);
}
END_TEST

START_TEST(a_rank_that_waits_is_released_by_the_end_of_its_agent)
{
	agree_at_8(3, "rescale");
	allow(STEPS);
	all_in_step(8);
	fake_agent_hang_up(&agent);
	all_finished();
}
END_TEST

START_TEST(what_was_committed_holds_when_the_agent_ends)
{
	agree_at_8(3, "rescale");
	fake_last_word(&agent, 3, MSG_WORKER_COMMIT, 1);
	fake_agent_hang_up(&agent);
	allow(STEPS);
	all_left(MALLE_RESCALE, 8);
}
END_TEST

START_TEST(an_agent_that_talks_nonsense_is_taken_for_gone)
{
	start(2, 1, 1);
	fake_go(&agent, 2, NULL);
	allow(3);
	all_in_step(3);
	ck_assert_int_eq(send(agent.fds[0], "HTTP/1.1 400 Bad Request", 24, 0), 24);
	allow(STEPS);
	all_finished();
	ck_assert_ptr_nonnull(
		strstr(shared->out[0].text, "frame begins with 48545450"));
}
END_TEST

START_TEST(without_go_no_rank_trains)
{
	long long step;

	start(2, 1, 1);
	fake_propose(&agent, 2, 1, 10, "rescale");
	ck_assert_int_eq(fake_answers(&agent, 2, 1, &step), 0);
	fake_agent_hang_up(&agent);
	join_all();
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(shared->out[i].batch, -1);
		ck_assert_int_eq(shared->out[i].error, ECONNRESET);
		ck_assert_uint_eq(shared->out[i].step, 0);
	}
}
END_TEST

START_TEST(a_damaged_state_fails_all_ranks_in_the_same_words)
{
	char file[100];
	FILE *f;

	snprintf(file, sizeof(file), "%s/bad", agent.dir);
	f = fopen(file, "w");
	fprintf(f, "%0100d", 0);
	fclose(f);
	start(3, 2, 1);
	fake_go(&agent, 3, file);
	join_all();
	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(shared->out[i].batch, -1);
		ck_assert_int_eq(shared->out[i].error, EBADMSG);
		ck_assert_ptr_nonnull(strstr(shared->out[i].text, "it is not a state"));
	}
}
END_TEST

START_TEST(ranks_cannot_resume_without_a_broadcast)
{
	start(2, 2, 0);
	fake_go(&agent, 2, "/nonexistent");
	join_all();
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(shared->out[i].batch, -1);
		ck_assert_int_eq(shared->out[i].error, ENOTSUP);
	}
}
END_TEST

/* A replica is due once in each of these. */
static long replica_slot(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (long)ts.tv_sec * 20 + ts.tv_nsec / 50000000;
}

START_TEST(replicas_are_whole_and_told_with_progress)
{
	char file[400];
	struct msg msg;

	agent.replica_s = 0.05;
	start(1, 1, 1);
	fake_go(&agent, 1, NULL);
	for (int step = 1, seen = 0; seen < 2; step++) {
		struct pollfd said = { .fd = agent.fds[0], .events = POLLIN };
		long slot = replica_slot();

		while (replica_slot() == slot)
			nap();
		allow(step);
		ck_assert_int_lt(step, STEPS);
		/* A step may have nothing to tell: states take their share of the time. */
		if (poll(&said, 1, 200) != 1)
			continue;
		fake_next(agent.fds[0], &msg);
		if (msg.type == MSG_WORKER_SAVED) {
			snprintf(file, sizeof(file), "%s/%s", agent.dir,
				msg_str(&msg, "file"));
			ck_assert_int_eq(access(file, R_OK), 0);
			seen++;
		} else {
			ck_assert_uint_eq(msg.type, MSG_WORKER_PROGRESS);
			ck_assert(msg_real(&msg, "step_s") > 0);
		}
		msg_fini(&msg);
	}
	allow(STEPS);
	all_finished();
	fake_agent_hang_up(&agent);
	start(2, 2, 1);
	fake_go(&agent, 2, file);
	allow(STEPS);
	all_finished();
}
END_TEST

/* --- the rule alone ------------------------------------------------------------- */

static uint64_t draw_state = 88172645463325252ULL;

static unsigned draw(unsigned below)
{
	draw_state ^= draw_state << 13;
	draw_state ^= draw_state >> 7;
	draw_state ^= draw_state << 17;
	return (unsigned)(draw_state % below);
}

/*
 * A daemon and four workers whose messages take any time: it proposes until all
 * agree, and then commits.  Words to one worker stay in order; workers are at
 * most one step apart, as a collective keeps them.
 */
static void play(void)
{
	struct {
		enum msg_type type;
		uint64_t proposal, step;
	} queue[4][64];
	unsigned head[4] = { 0 }, tail[4] = { 0 }, yes = 0, no = 0;
	struct agree w[4] = { 0 };
	uint64_t step[4] = { 0 }, proposal = 0, at = 0, left = 0;

	for (int turn = 0; turn < 20000 && left < 4; turn++) {
		unsigned i = draw(4), slowest = 0;

		for (unsigned k = 0; k < 4; k++)
			if (step[k] < step[slowest])
				slowest = k;
		if ((yes + no == 4 && no) || !proposal) {
			at = step[slowest] + draw(4);
			proposal++;
			yes = no = 0;
			for (unsigned k = 0; k < 4; k++, tail[k - 1]++) {
				queue[k][tail[k] % 64].type = MSG_WORKER_PROPOSE;
				queue[k][tail[k] % 64].proposal = proposal;
				queue[k][tail[k] % 64].step = at;
			}
		} else if (yes == 4) {
			yes = 0;
			for (unsigned k = 0; k < 4; k++, tail[k - 1]++) {
				queue[k][tail[k] % 64].type = MSG_WORKER_COMMIT;
				queue[k][tail[k] % 64].proposal = proposal;
			}
		}
		if (draw(2) && head[i] < tail[i]) {
			unsigned q = head[i]++ % 64;

			if (queue[i][q].type == MSG_WORKER_COMMIT)
				agree_commit(&w[i], queue[i][q].proposal);
			else if (agree_propose(&w[i], queue[i][q].proposal,
					 queue[i][q].step, MALLE_RESCALE,
					 step[i]) == AGREE_YES)
				yes++;
			else
				no++;
		}
		switch (agree_at(&w[i], step[i])) {
		case AGREE_LEAVE:
			ck_assert_uint_eq(step[i], at);
			left += !(w[i].newest >> 63);
			w[i].newest |= 1ULL << 63; /* counted */
			break;
		case AGREE_TRAIN:
			step[i] += step[i] == step[slowest] && draw(2);
			break;
		case AGREE_WAIT:
			ck_assert_uint_eq(step[i], w[i].step);
			break;
		}
	}
	ck_assert_uint_eq(left, 4);
}

START_TEST(in_any_order_of_messages_all_leave_at_one_step)
{
	for (int i = 0; i < 2000; i++)
		play();
}
END_TEST

START_TEST(a_worker_agrees_only_before_the_step)
{
	for (uint64_t now = 0; now < 10; now++) {
		struct agree a = { 0 };

		ck_assert_int_eq(agree_propose(&a, 1, 5, MALLE_STOP, now),
			now < 5 ? AGREE_YES : AGREE_NO);
		agree_commit(&a, 1);
		ck_assert_int_eq(agree_at(&a, 5), now < 5 ? AGREE_LEAVE : AGREE_TRAIN);
	}
}
END_TEST

START_TEST(after_commit_a_newer_proposal_changes_nothing)
{
	struct agree a = { 0 };

	ck_assert_int_eq(agree_propose(&a, 1, 10, MALLE_STOP, 3), AGREE_YES);
	agree_commit(&a, 1);
	ck_assert_int_eq(agree_propose(&a, 2, 5, MALLE_RESCALE, 3), AGREE_NO);
	agree_withdraw(&a, 1);
	agree_withdraw(&a, 2);
	agree_gone(&a);
	ck_assert_int_eq(agree_at(&a, 9), AGREE_TRAIN);
	ck_assert_int_eq(agree_at(&a, 10), AGREE_LEAVE);
	ck_assert_int_eq(a.verdict, MALLE_STOP);
	ck_assert_int_eq(agree_propose(&a, 1, 50, MALLE_RESCALE, 3), AGREE_SILENT);
}
END_TEST

START_TEST(replicas_take_at_most_a_twentieth_of_the_time)
{
	static const double costs[] = { 0.001, 0.05, 1, 10 };
	double now = 1000, begun = now, spent = 0;
	struct pace pace;

	pace_init(&pace, 1, now, now);
	while (now < begun + 5000) {
		now += 0.1;
		if (!pace_replica_due(&pace, now, now))
			continue;
		pace_replica_done(&pace, now, now + costs[_i], now);
		now += costs[_i];
		spent += costs[_i];
	}
	ck_assert(spent > 0);
	ck_assert_msg(spent <= (now - begun) / PACE_REPLICA_SHARE + 2 * costs[_i],
		"%g of %g", spent, now - begun);
}
END_TEST

START_TEST(progress_is_told_five_times_a_second_with_the_median)
{
	struct pace pace;
	double now = 0;
	int told = 0;

	pace_init(&pace, 0, now, now);
	ck_assert(pace_median(&pace) == 0);
	for (int i = 0; i < 1000; i++) {
		double step = i % 10 ? 0.01 : 0.5;

		pace_resume(&pace, now);
		now += step;
		pace_step(&pace, now);
		told += pace_tell(&pace, now);
		ck_assert_int_eq(pace_replica_due(&pace, now, now), 0);
	}
	ck_assert_int_le(told, (int)(now / PACE_PROGRESS_S) + 1);
	ck_assert(pace_median(&pace) > 0.0099 && pace_median(&pace) < 0.0101);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("worker_agree");
	TCase *t = tcase_create("worlds"), *rule = tcase_create("rule");
	SRunner *runner;
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, ranks_leave_at_the_agreed_step_and_another_world_goes_on);
	tcase_add_test(t, stop_is_told_apart_from_rescale);
	tcase_add_test(t, a_proposal_that_comes_too_late_is_refused);
	tcase_add_test(t, an_unknown_verdict_is_refused);
	tcase_add_test(t, a_rank_that_agreed_waits_at_the_step_for_a_newer_proposal);
	tcase_add_test(t, a_rank_that_waits_is_released_by_withdrawal);
	tcase_add_test(t, a_rank_that_waits_is_released_by_commit);
	tcase_add_test(t, a_rank_that_waits_is_released_by_the_end_of_its_agent);
	tcase_add_test(t, what_was_committed_holds_when_the_agent_ends);
	tcase_add_test(t, an_agent_that_talks_nonsense_is_taken_for_gone);
	tcase_add_test(t, without_go_no_rank_trains);
	tcase_add_test(t, a_damaged_state_fails_all_ranks_in_the_same_words);
	tcase_add_test(t, ranks_cannot_resume_without_a_broadcast);
	tcase_add_test(t, replicas_are_whole_and_told_with_progress);
	tcase_add_test(rule, in_any_order_of_messages_all_leave_at_one_step);
	tcase_add_test(rule, a_worker_agrees_only_before_the_step);
	tcase_add_test(rule, after_commit_a_newer_proposal_changes_nothing);
	tcase_add_loop_test(rule, replicas_take_at_most_a_twentieth_of_the_time, 0, 4);
	tcase_add_test(rule, progress_is_told_five_times_a_second_with_the_median);
	suite_add_tcase(s, t);
	suite_add_tcase(s, rule);
	runner = srunner_create(s);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed != 0;
}
