/* check_worker_join.c - from an environment to a worker; the calls of malle.h. */
#include "tests/unit/failing_malloc.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>

#include "tests/unit/fake_agent.h"
#include "worker/conn.h"
#include "worker/malle.h"

static struct fake_agent agent;

static const char *const names[] = { "RANK", "WORLD_SIZE", "LOCAL_RANK",
	"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
	"MALLE_SOCKET", "MALLE_JOB_ID", "MALLE_GENERATION", "MALLE_RESTART_COUNT",
	"MALLE_LEDGER" };

static void no_environment(void)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		unsetenv(names[i]);
}

/* "A=1 B=2" */
static void environment(const char *words)
{
	char copy[400], *word, *rest;

	no_environment();
	snprintf(copy, sizeof(copy), "%s", words);
	for (word = strtok_r(copy, " ", &rest); word;
		word = strtok_r(NULL, " ", &rest)) {
		char *value = strchr(word, '=');

		*value++ = 0;
		setenv(word, strcmp(value, "AGENT") ? value : agent.path, 1);
	}
}

#define MALLE "MALLE_SOCKET=AGENT MALLE_JOB_ID=j1 "
#define GOOD  MALLE "MALLE_GENERATION=3 RANK=0 WORLD_SIZE=1 LOCAL_RANK=0"

/* why: NULL where it is a plain run with these numbers */
static const struct {
	const char *words, *why;
	int rank, size;
} places[] = {
	{ "", NULL, 0, 1 },
	{ "RANK=2 WORLD_SIZE=4", NULL, 2, 4 },
	{ "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2", NULL, 1, 2 },
	{ "RANK=3 WORLD_SIZE=4 OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2", NULL, 3,
		4 },
	{ "RANK= WORLD_SIZE=", NULL, 0, 1 },
	{ "MALLE_SOCKET=", NULL, 0, 1 },
	{ "RANK=0", "RANK is set and WORLD_SIZE is not", 0, 0 },
	{ "WORLD_SIZE=2", "WORLD_SIZE is set and RANK is not", 0, 0 },
	{ "RANK=2 WORLD_SIZE=2", "RANK=2 is outside WORLD_SIZE=2", 0, 0 },
	{ "RANK=0 WORLD_SIZE=0", "outside", 0, 0 },
	{ "RANK=-1 WORLD_SIZE=2", "RANK=-1: not a number", 0, 0 },
	{ "RANK=1x WORLD_SIZE=2", "RANK=1x: not a number", 0, 0 },
	{ "RANK=0 WORLD_SIZE=99999999999999999999", "not a number", 0, 0 },
	{ "RANK=0 WORLD_SIZE=1 LOCAL_RANK=x", "LOCAL_RANK=x", 0, 0 },
	{ MALLE "MALLE_GENERATION=1", "RANK is not", 0, 0 },
	{ MALLE "MALLE_GENERATION=1 RANK=0 WORLD_SIZE=1", "LOCAL_RANK is not", 0, 0 },
	{ MALLE "RANK=0 WORLD_SIZE=1 LOCAL_RANK=0", "MALLE_GENERATION is not", 0, 0 },
	{ MALLE "MALLE_GENERATION=0 RANK=0 WORLD_SIZE=1 LOCAL_RANK=0",
		"MALLE_GENERATION", 0, 0 },
	{ MALLE "MALLE_GENERATION=1 MALLE_RESTART_COUNT=x RANK=0 WORLD_SIZE=1 "
		"LOCAL_RANK=0",
		"MALLE_RESTART_COUNT=x", 0, 0 },
	{ "MALLE_SOCKET=AGENT MALLE_GENERATION=1 RANK=0 WORLD_SIZE=1 LOCAL_RANK=0",
		"MALLE_JOB_ID", 0, 0 },
	{ "MALLE_SOCKET=/nonexistent MALLE_JOB_ID=j1 MALLE_GENERATION=1 RANK=0 "
	  "WORLD_SIZE=1"
	  " LOCAL_RANK=0",
		"connect to the agent at /nonexistent: No such file", 0, 0 },
};

START_TEST(an_environment_says_who_a_process_is_or_is_refused)
{
	struct malle_err err = { "" };
	struct malle *m;

	environment(places[_i].words);
	m = malle_join(&err);
	if (places[_i].why) {
		ck_assert_ptr_null(m);
		ck_assert_msg(strstr(err.text, places[_i].why) != NULL, "%s: %s",
			places[_i].words, err.text);
		return;
	}
	ck_assert_msg(m != NULL, "%s: %s", places[_i].words, err.text);
	ck_assert_int_eq(malle_rank(m), places[_i].rank);
	ck_assert_int_eq(malle_world_size(m), places[_i].size);
	ck_assert_uint_eq(malle_generation(m), 0);
	malle_leave(m);
}
END_TEST

/* In a child: join with GOOD; exit 0 if it fails with this errno and text. */
static pid_t join_in_child(int errnum, const char *why)
{
	pid_t pid = fork();

	if (pid == 0) {
		struct malle_err err = { "" };
		struct malle *m;

		environment(GOOD);
		m = malle_join(&err);
		if (!m && errno == errnum && strstr(err.text, why))
			_exit(0);
		fprintf(stderr, "%s\n", err.text);
		_exit(1);
	}
	return pid;
}

static void ended_well(pid_t pid)
{
	int status;

	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
}

START_TEST(a_refusal_is_told_in_the_agents_words)
{
	pid_t pid = join_in_child(EPROTO, "refuses: job j1 has ended");
	int fd = fake_greet(&agent);

	fake_send(fd, MSG_REFUSE,
		json_pack("{s:i,s:s}", "code", 65, "text", "job j1 has ended"));
	ended_well(pid);
	close(fd);
}
END_TEST

START_TEST(another_version_is_told_with_both_versions)
{
	pid_t pid = join_in_child(EPROTO, "speaks protocol 7, libmalle speaks 1");
	struct frame_header header = { FRAME_MAGIC, 7, MSG_WELCOME, 2, 1 };
	uint8_t frame[FRAME_HEADER_SIZE + 2];
	int fd = accept(agent.listener, NULL, NULL);

	frame_encode(&header, frame);
	memcpy(frame + FRAME_HEADER_SIZE, "{}", 2);
	ck_assert_int_eq(send(fd, frame, sizeof(frame), 0), (ssize_t)sizeof(frame));
	ended_well(pid);
	close(fd);
}
END_TEST

START_TEST(an_agent_of_another_world_is_refused)
{
	pid_t pid = join_in_child(EPROTO, "world has 4 workers, WORLD_SIZE is 1");
	int fd = fake_greet(&agent);

	fake_send(fd, MSG_WORKER_WORLD,
		json_pack("{s:i,s:s,s:f}", "world_size", 4, "state_dir", "/tmp",
			"replica_s", 1.0));
	ended_well(pid);
	close(fd);
}
END_TEST

START_TEST(an_agent_that_hangs_up_is_told)
{
	pid_t pid = join_in_child(ECONNRESET, "the agent is gone");

	close(fake_greet(&agent));
	ended_well(pid);
}
END_TEST

START_TEST(the_socket_does_not_go_to_programs_that_are_started)
{
	struct conn *conn = malloc(sizeof(*conn));

	ck_assert_int_eq(conn_open(conn, agent.path, 1000, NULL), 0);
	ck_assert_int_eq(fcntl(conn->fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	conn_close(conn);
	free(conn);
}
END_TEST

/* --- calls in the wrong order or with wrong values ---------------------------- */

static const struct malle_data good = {
	.n_samples = 10, .global_batch = 4, .epochs = 2
};

static const struct malle_data bad[] = {
	{ .n_samples = 0, .global_batch = 4, .epochs = 1 },
	{ .n_samples = 1ULL << 32, .global_batch = 4, .epochs = 1 },
	{ .n_samples = 10, .global_batch = 0, .epochs = 1 },
	{ .n_samples = 10, .global_batch = 1ULL << 32, .epochs = 1 },
	{ .n_samples = 10, .global_batch = 4 },
	{ .n_samples = 10, .global_batch = 4, .epochs = UINT64_MAX / 10 },
	{ .n_samples = 10, .global_batch = 4, .max_samples = UINT64_MAX },
};

START_TEST(data_that_make_no_sense_are_refused)
{
	struct malle_batch b;
	struct malle *m;

	no_environment();
	m = malle_join(NULL);
	ck_assert_int_eq(malle_data(m, &bad[_i]), -1);
	ck_assert_int_eq(errno, EINVAL);
	ck_assert_int_eq(malle_batch(m, &b), -1);
	ck_assert_int_eq(errno, EINVAL);
	ck_assert_int_eq(malle_data(m, &good), 0);
	ck_assert_int_eq(malle_batch(m, &b), 1);
	malle_leave(m);
}
END_TEST

START_TEST(calls_out_of_order_are_refused_and_change_nothing)
{
	struct malle_batch b;
	float x = 0;
	struct malle *m;

	no_environment();
	m = malle_join(NULL);
	ck_assert_int_eq(malle_step(m), MALLE_FAILED);
	ck_assert_int_eq(malle_finish(m), -1);
	ck_assert_int_eq(malle_batch(m, &b), -1);
	ck_assert_int_eq(malle_data(m, &good), 0);
	ck_assert_int_eq(malle_data(m, &good), -1);
	ck_assert_int_eq(errno, EBUSY);
	ck_assert_int_eq(malle_batch(m, &b), 1);
	ck_assert_int_eq(malle_batch(m, &b), -1);
	ck_assert_int_eq(errno, EINVAL);
	ck_assert_str_eq(
		malle_error(m), "malle_batch: the batch before was not stepped");
	ck_assert_int_eq(malle_state(m, "x", &x, 4), -1);
	ck_assert_int_eq(errno, EBUSY);
	ck_assert_int_eq(malle_set_broadcast(m, NULL, NULL), -1);
	ck_assert_int_eq(malle_finish(m), -1);
	ck_assert_int_eq(malle_step(m), MALLE_GO);
	ck_assert_int_eq(malle_step(m), MALLE_FAILED);
	ck_assert_uint_eq(malle_steps(m), 1);
	ck_assert_uint_eq(malle_cursor(m), 4);
	ck_assert_int_eq(malle_finish(m), 0);
	ck_assert_int_eq(malle_finished(m), 1);
	ck_assert_int_eq(malle_batch(m, &b), 0);
	ck_assert_int_eq(malle_step(m), MALLE_FAILED);
	malle_leave(m);
}
END_TEST

START_TEST(a_communicator_of_another_world_is_refused)
{
	struct malle *m;

	environment("RANK=2 WORLD_SIZE=4");
	m = malle_join(NULL);
	ck_assert_int_eq(malle_expect_world(m, 2, 4), 0);
	ck_assert_int_eq(malle_expect_world(m, 2, 3), -1);
	ck_assert_int_eq(malle_expect_world(m, 1, 4), -1);
	ck_assert_int_eq(errno, EINVAL);
	ck_assert_str_eq(malle_error(m), "communicator: rank 1 of 4, where the "
					 "environment says 2 of 4");
	malle_leave(m);
	ck_assert_int_eq(malle_expect_world(NULL, 0, 1), -1);
}
END_TEST

START_TEST(a_missing_malle_is_a_mistake_and_no_crash)
{
	struct malle_batch b;

	ck_assert_int_eq(malle_data(NULL, &good), -1);
	ck_assert_int_eq(malle_state(NULL, "x", NULL, 0), -1);
	ck_assert_int_eq(malle_set_broadcast(NULL, NULL, NULL), -1);
	ck_assert_int_eq(malle_batch(NULL, &b), -1);
	ck_assert_int_eq(errno, EINVAL);
	ck_assert_int_eq(malle_step(NULL), MALLE_FAILED);
	ck_assert_int_eq(malle_finish(NULL), -1);
	ck_assert_int_eq(malle_rank(NULL), -1);
	ck_assert_int_eq(malle_finished(NULL), 0);
	ck_assert_str_ne(malle_error(NULL), "");
	malle_leave(NULL);
}
END_TEST

START_TEST(a_rank_without_samples_still_has_a_batch)
{
	struct malle_data data = { .n_samples = 3, .global_batch = 2, .epochs = 1 };
	struct malle_batch b;
	struct malle *m;
	size_t sizes[2];

	environment("RANK=0 WORLD_SIZE=4");
	m = malle_join(NULL);
	ck_assert_int_eq(malle_data(m, &data), 0);
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(malle_batch(m, &b), 1);
		sizes[i] = b.global_n;
		ck_assert_uint_eq(b.n, 0);
		ck_assert_int_eq(malle_step(m), MALLE_GO);
	}
	ck_assert_uint_eq(sizes[0], 2);
	ck_assert_uint_eq(sizes[1], 1);
	ck_assert_int_eq(malle_batch(m, &b), 0);
	malle_leave(m);
}
END_TEST

/* --- memory, slow readers ------------------------------------------------------- */

static int plain_run(void)
{
	struct malle *m = malle_join(NULL);
	struct malle_batch b;
	float x;
	int got = -1;

	if (m && malle_data(m, &good) == 0 && malle_state(m, "x", &x, 4) == 0)
		while ((got = malle_batch(m, &b)) > 0)
			malle_step(m);
	malle_leave(m);
	return got;
}

START_TEST(each_allocation_of_a_run_may_fail)
{
	char book[100];

	environment("");
	setenv("MALLE_LEDGER", agent.dir, 1);
	snprintf(book, sizeof(book), "%s/g000000-r00000.ledger", agent.dir);
	for (long n = 1, failed = 1; failed; n++) {
		int got;

		failing_malloc_arm(n);
		got = plain_run();
		failed = failing_malloc_disarm();
		ck_assert(got == 0 || (got == -1 && failed && errno == ENOMEM));
		unlink(book);
	}
}
END_TEST

START_TEST(each_allocation_while_joining_may_fail)
{
	for (long n = 1, failed = 1; failed; n++) {
		pid_t pid = fork();
		int status;

		if (pid == 0) {
			struct malle *m;

			environment(GOOD);
			failing_malloc_arm(n);
			m = malle_join(NULL);
			failed = failing_malloc_disarm();
			if (!m && errno != ENOMEM)
				_exit(2);
			malle_leave(m);
			_exit(m ? 0 : 1);
		}
		if (n > 1) { /* the first one fails before it connects */
			int fd = fake_greet(&agent);

			fake_send(fd, MSG_WORKER_WORLD,
				json_pack("{s:i,s:s,s:f}", "world_size", 1, "state_dir",
					"/tmp", "replica_s", 0.0));
			waitpid(pid, &status, 0);
			close(fd);
		} else {
			waitpid(pid, &status, 0);
		}
		ck_assert(WIFEXITED(status) && WEXITSTATUS(status) < 2);
		failed = WEXITSTATUS(status);
#ifdef FAILING_MALLOC_OFF
		failed = 0;
#endif
	}
}
END_TEST

static void progress(struct wire_out *out)
{
	wire_begin(out, WIRE_PROGRESS, 0);
	wire_put_int(out, "step", 1);
	wire_put_int(out, "cursor", 1);
	wire_put_seconds(out, "t_s", 1);
}

START_TEST(a_reader_that_sleeps_holds_nobody_up_and_loses_no_answer)
{
	struct conn *conn = malloc(sizeof(*conn));
	struct wire_out out;
	struct msg msg;
	int pair[2], small = 4096;
	pid_t pid;

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
	conn_init(conn, pair[0]);
	for (int i = 0; i < 5000; i++) {
		progress(&out);
		ck_assert_int_eq(conn_send_droppable(conn, &out, NULL), 0);
	}
	ck_assert_int_ge(conn->fd, 0);
	pid = fork();
	if (pid == 0) {
		int n = 0;

		do {
			fake_next(pair[1], &msg);
			n++;
		} while (msg.type == MSG_WORKER_PROGRESS);
		_exit(msg.type != MSG_WORKER_LEAVE || n < 10 || n > 4000);
	}
	wire_begin(&out, WIRE_LEAVE, 0);
	wire_put_int(&out, "step", 1);
	wire_put_int(&out, "cursor", 1);
	wire_put_seconds(&out, "t_s", 1);
	wire_put_bool(&out, "finished", 1);
	ck_assert_int_eq(conn_send(conn, &out, NULL), 0);
	ended_well(pid);
	conn_close(conn);
	close(pair[1]);
	free(conn);
}
END_TEST

START_TEST(a_message_may_come_byte_by_byte)
{
	struct conn *conn = malloc(sizeof(*conn));
	struct wire_msg *got = malloc(sizeof(*got));
	int pair[2], n = 0;
	size_t size;
	json_t *body = json_pack("{s:i}", "proposal", 7);
	uint8_t *frame = msg_encode(MSG_WORKER_COMMIT, 0, body, NULL, 0, &size, NULL);

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	conn_init(conn, pair[0]);
	for (size_t i = 0; i < 3 * size; i++) {
		ck_assert_int_eq(send(pair[1], frame + i % size, 1, 0), 1);
		n += conn_recv(conn, got, CONN_NOW, NULL);
		ck_assert_int_eq(n, (int)((i + 1) / size));
	}
	ck_assert_uint_eq(got->proposal, 7);
	close(pair[1]);
	ck_assert_int_eq(conn_recv(conn, got, 1000, NULL), -1);
	ck_assert_int_eq(conn->fd, -1);
	conn_close(conn);
	free(conn);
	free(got);
	free(frame);
	json_decref(body);
}
END_TEST

static void setup(void)
{
	fake_agent_init(&agent);
}

static void teardown(void)
{
	fake_agent_fini(&agent);
}

int main(void)
{
	Suite *s = suite_create("worker_join");
	TCase *t = tcase_create("join");
	SRunner *runner;
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_loop_test(t, an_environment_says_who_a_process_is_or_is_refused, 0,
		sizeof(places) / sizeof(places[0]));
	tcase_add_test(t, a_refusal_is_told_in_the_agents_words);
	tcase_add_test(t, another_version_is_told_with_both_versions);
	tcase_add_test(t, an_agent_of_another_world_is_refused);
	tcase_add_test(t, an_agent_that_hangs_up_is_told);
	tcase_add_test(t, the_socket_does_not_go_to_programs_that_are_started);
	tcase_add_loop_test(t, data_that_make_no_sense_are_refused, 0,
		sizeof(bad) / sizeof(bad[0]));
	tcase_add_test(t, calls_out_of_order_are_refused_and_change_nothing);
	tcase_add_test(t, a_communicator_of_another_world_is_refused);
	tcase_add_test(t, a_missing_malle_is_a_mistake_and_no_crash);
	tcase_add_test(t, a_rank_without_samples_still_has_a_batch);
	tcase_add_test(t, each_allocation_of_a_run_may_fail);
	tcase_add_test(t, each_allocation_while_joining_may_fail);
	tcase_add_test(t, a_reader_that_sleeps_holds_nobody_up_and_loses_no_answer);
	tcase_add_test(t, a_message_may_come_byte_by_byte);
	suite_add_tcase(s, t);
	runner = srunner_create(s);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed != 0;
}
