/*
 * check_peer.c - connections that the daemon closes, on real sockets.
 *
 * Daemon and peers share one loop.  What is looked for is what a sanitizer
 * sees: a peer or a link that is used after it is gone.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/cycle.h"
#include "daemon/life.h"
#include "daemon/peer.h"
#include "proto/log.h"

static char dir[] = "/tmp/check_peer.XXXXXX";
static struct ctld ctld;
static int n_ok, n_refused, n_gone;

static void setup(void)
{
	struct err err = { "" };
	char path[64];

	n_ok = n_refused = n_gone = 0;
	memset(&ctld, 0, sizeof(ctld));
	ck_assert_int_eq(config_init(&ctld.config, &err), 0);
	free(ctld.config.socket);
	snprintf(path, sizeof(path), "%s/ctld.sock", dir);
	ctld.config.socket = strdup(path);
	ctld.loop = loop_create(&err);
	ctld.journal = journal_open(dir, ctld.loop, &err);
	ctld.pool = pool_create();
	ctld.jobs = jobs_create();
	ctld.cycle = cycle_create(&ctld, &err);
	ctld.peers = peers_create(&ctld, &err);
	ck_assert_msg(ctld.peers != NULL, "%s", err.text);
}

static void teardown(void)
{
	peers_destroy(ctld.peers);
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

	ck_assert_int_eq(job_request_read(&request, fields, geteuid(), getegid(), &err), 0);
	json_decref(fields);
	job = jobs_add(ctld.jobs, &request, NULL);
	ck_assert_int_eq(cycle_adopt_job(ctld.cycle, job, &err), 0);
	return job;
}

static struct node *claimed_node(const char *name, const char *claim)
{
	struct node *node = pool_node(ctld.pool, name);

	snprintf(node->claim, sizeof(node->claim), "%s", claim);
	return node;
}

static void on_msg(struct link *link, const struct msg *msg, void *arg)
{
	n_ok += msg->type == MSG_OK;
	n_refused += msg->type == MSG_REFUSE;
}

static void on_gone(struct link *link, const char *why, void *arg)
{
	n_gone++;
}

static struct link *connect_as(const char *role)
{
	static const struct link_handlers handlers = { on_msg, on_gone };
	struct err err = { "" };
	struct link *link = link_connect(ctld.loop, ctld.config.socket, role, &handlers, NULL, &err);

	ck_assert_msg(link != NULL, "%s", err.text);
	return link;
}

static void stop(void *arg)
{
	loop_stop(arg);
}

/* Until *what is at least n, at most some seconds. */
static void wait_for(const int *what, int n)
{
	struct loop_timer *timer = loop_timer_create(ctld.loop, stop, ctld.loop);

	for (int i = 0; i < 500 && *what < n; i++) {
		loop_timer_start(timer, 0.01);
		loop_run(ctld.loop);
	}
	loop_timer_destroy(timer);
	ck_assert_int_ge(*what, n);
}

static void say_hello(struct link *link, const char *node, const char *claim)
{
	link_send(link, MSG_AGENT_HELLO, link_next_id(link),
		json_pack("{s:s, s:s, s:i, s:s}", "node", node, "claim", claim, "pid",
			(int)getpid(), "address", "/tmp/nobody"));
}

START_TEST(a_client_that_does_not_read_is_let_go_in_the_middle_of_its_request)
{
	struct job *job = new_job();
	struct link *link = connect_as("client");
	char *flood = calloc(1, 3 << 20);

	link_send(link, MSG_JOB_ATTACH, 1, json_pack("{s:s}", "job", job->id));
	link_send(link, MSG_PING, 2, NULL);
	link_send(link, MSG_JOB_RESUME, 3, json_pack("{s:s}", "job", job->id));
	wait_for(&n_refused, 1); /* it is not paused: all before that was done */
	link_pause(link);
	for (int i = 0; i < 3; i++) /* over the limit, and nobody has looked yet */
		peers_tell_output(ctld.peers, job, 1, flood, 3 << 20);
	link_send(link, MSG_JOB_PAUSE, 4, json_pack("{s:s}", "job", job->id));
	wait_for(&job->held, 1);
	peers_tell_output(ctld.peers, job, 1, flood, 1);
	link_resume(link);
	wait_for(&n_gone, 1);
	ck_assert_int_eq(n_ok, 0);
	free(flood);
}
END_TEST

START_TEST(an_agent_that_comes_again_replaces_its_old_connection)
{
	struct node *node = claimed_node("n1", "c1");
	struct link *old = connect_as("agent"), *link, *before;

	say_hello(old, "n1", "c1");
	wait_for(&n_ok, 1);
	before = node->link;
	node->releasing = 1; /* sent, and lost with the connection */
	link = connect_as("agent");
	say_hello(link, "n1", "c1");
	wait_for(&n_ok, 2);
	wait_for(&n_gone, 1);
	ck_assert_ptr_nonnull(node->link);
	ck_assert_ptr_ne(node->link, before);
	ck_assert_int_eq(node->releasing, 0);
	link_close(link);
}
END_TEST

START_TEST(a_node_is_given_up_while_its_agent_is_connected)
{
	struct node *node = claimed_node("n1", "c1");

	say_hello(connect_as("agent"), "n1", "c1");
	wait_for(&n_ok, 1);
	agent_close(&ctld, node);
	ck_assert_ptr_null(node->link);
	wait_for(&n_gone, 1);
}
END_TEST

START_TEST(an_agent_has_one_node)
{
	struct node *first = claimed_node("n1", "c1"), *second = claimed_node("n2", "c2");
	struct link *link = connect_as("agent");

	say_hello(link, "n1", "c1");
	wait_for(&n_ok, 1);
	say_hello(link, "n2", "c2");
	wait_for(&n_refused, 1);
	ck_assert_ptr_nonnull(first->link);
	ck_assert_ptr_null(second->link);
	link_close(link);
}
END_TEST

START_TEST(numbers_of_remote_starts_go_on_after_a_restart)
{
	struct err err = { "" };
	long long before = peers_next_session(ctld.peers);

	ck_assert_int_gt(peers_next_session(ctld.peers), before);
	usleep(3000); /* a start takes longer than one number a millisecond */
	peers_destroy(ctld.peers);
	ctld.peers = peers_create(&ctld, &err);
	ck_assert_int_gt(peers_next_session(ctld.peers), before + 1);
}
END_TEST

START_TEST(a_job_that_cannot_be_recorded_is_refused_as_often_as_it_is_sent)
{
	char full[64], file[96];
	struct err err = { "" };
	struct link *link = connect_as("client");

	snprintf(full, sizeof(full), "%s/full", dir);
	snprintf(file, sizeof(file), "%s/journal.jsonl", full);
	ck_assert_int_eq(mkdir(full, 0700), 0);
	ck_assert_int_eq(symlink("/dev/full", file), 0);
	journal_close(ctld.journal);
	ctld.journal = journal_open(full, ctld.loop, &err);
	ck_assert_msg(ctld.journal != NULL, "%s", err.text);
	for (int i = 1; i <= 2; i++) {
		link_send(link, MSG_JOB_SUBMIT, i,
			json_pack("{s:s, s:[s], s:[], s:s, s:i, s:i, s:i, s:s, s:s, s:s, s:s}",
				"name", "test", "argv", "train", "env", "cwd", "/tmp",
				"min_nodes", 1, "max_nodes", 4, "nproc", 1, "mode", "swap",
				"launcher", "mpi", "spool", "/tmp", "token", "once"));
		wait_for(&n_refused, i);
	}
	ck_assert_uint_eq(jobs_count(ctld.jobs), 0);
	link_close(link);
	unlink(file);
	rmdir(full);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("peer");
	TCase *tc = tcase_create("closing");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, a_client_that_does_not_read_is_let_go_in_the_middle_of_its_request);
	tcase_add_test(tc, an_agent_that_comes_again_replaces_its_old_connection);
	tcase_add_test(tc, a_node_is_given_up_while_its_agent_is_connected);
	tcase_add_test(tc, an_agent_has_one_node);
	tcase_add_test(tc, numbers_of_remote_starts_go_on_after_a_restart);
	tcase_add_test(tc, a_job_that_cannot_be_recorded_is_refused_as_often_as_it_is_sent);
	suite_add_tcase(s, tc);
	return s;
}

int main(void)
{
	SRunner *runner;
	char path[64];
	int failed;

	if (!mkdtemp(dir))
		return 1;
	log_open("check_peer", log_level_parse("err"), "/dev/null");
	runner = srunner_create(suite());
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	snprintf(path, sizeof(path), "%s/journal.jsonl", dir);
	remove(path);
	remove(dir);
	return failed != 0;
}
