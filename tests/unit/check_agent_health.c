/* check_agent_health.c - which processes are an agent's, and which are not. */
#include <check.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/health.h"

/* --- the pure part ----------------------------------------------------------- */

/* One tree: 1 init, 40 the agent's parent, 50 the agent. */
static const struct {
	pid_t pid, parent;
	int in_cgroup, marked;
	const char *job;
	int ours;
	const char *job_in_the_end;
} tree[] = {
	{ 1, 0, 0, 0, "", 0, "" },
	{ 40, 1, 1, 1, "", 0, "" },      /* what has started the agent */
	{ 50, 40, 1, 0, "", 0, "" },     /* the agent is not its own victim */
	{ 60, 50, 0, 1, "j1", 1, "j1" }, /* a worker */
	{ 61, 60, 0, 0, "", 1, "j1" },   /* its child, without an environment */
	{ 62, 61, 0, 0, "", 1, "j1" },
	{ 63, 50, 0, 0, "", 1, "" }, /* an orphan that has shed everything */
	{ 64, 60, 0, 1, "j2", 1, "j2" },
	{ 70, 1, 0, 1, "j1", 1, "j1" }, /* adopted by init */
	{ 71, 70, 0, 0, "", 0, "j1" },  /* its child: found once that is gone */
	{ 80, 1, 1, 0, "", 1, "" },     /* in the cgroup */
	{ 90, 1, 0, 0, "", 0, "" },     /* somebody else's */
	{ 91, 40, 0, 0, "", 0, "" },    /* a sibling of the agent */
	{ 95, 94, 0, 0, "", 0, "" },    /* its parent was not seen */
};

START_TEST(ours_are_descendants_members_of_the_cgroup_and_the_marked)
{
	enum { N = sizeof(tree) / sizeof(tree[0]) };
	struct health_proc procs[N] = { 0 };

	for (int i = 0; i < N; i++) {
		/* in no order */
		struct health_proc *proc = &procs[(i * 5) % N];

		proc->pid = tree[i].pid;
		proc->parent = tree[i].parent;
		proc->in_cgroup = tree[i].in_cgroup;
		proc->marked = tree[i].marked;
		strcpy(proc->job, tree[i].job);
	}
	health_judge(procs, N, 50);
	for (int i = 0; i < N; i++) {
		ck_assert_int_eq(procs[i].pid, tree[i].pid);
		ck_assert_msg(procs[i].ours == tree[i].ours, "pid %d", tree[i].pid);
		ck_assert_str_eq(procs[i].job, tree[i].job_in_the_end);
	}
}
END_TEST

/* --- with processes ---------------------------------------------------------- */

static char mine[64], other[64]; /* claims */

static void become_sleeper(const char *claim)
{
	char marker[96];
	char *env[] = { marker, (char *)"MALLE_JOB_ID=j1", (char *)"MALLE_GENERATION=3",
		NULL };
	char *bare[] = { NULL };

	snprintf(marker, sizeof(marker), "MALLE_CLAIM=%s", claim ? claim : "");
	signal(SIGTERM, SIG_IGN);
	execle("/bin/sleep", "sleep", "60", (char *)NULL, claim ? env : bare);
	_exit(1);
}

static pid_t start_sleeper(const char *claim)
{
	pid_t pid = fork();

	if (pid == 0)
		become_sleeper(claim);
	return pid;
}

/* Of a parent that is gone, in a session of its own. */
static void start_orphan(const char *claim)
{
	pid_t pid = fork();

	if (pid == 0) {
		setsid();
		if (fork() == 0)
			become_sleeper(claim);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
}

static int count(const struct health_who *who, const char *name)
{
	struct health_set set;
	struct err err;
	int n = 0;

	ck_assert_int_eq(health_scan(who, &set, &err), 0);
	for (size_t i = 0; i < set.n; i++)
		n += strcmp(set.procs[i].name, name) == 0;
	health_fini(&set);
	return n;
}

static int wait_for(const struct health_who *who, const char *name, int n)
{
	for (int tries = 0; tries < 500; tries++) {
		if (count(who, name) == n)
			return 1;
		poll(NULL, 0, 10);
	}
	return 0;
}

static void kill_all(const struct health_who *who)
{
	struct health_set set;
	struct err err;

	ck_assert_int_eq(health_scan(who, &set, &err), 0);
	for (size_t i = 0; i < set.n; i++)
		ck_assert_int_ge(health_signal(&set.procs[i], SIGKILL), 0);
	health_fini(&set);
}

/* What an agent does, in a process of its own: it adopts, finds, kills. */
static int play_agent(int ready)
{
	struct health_who who = { getpid(), mine, NULL };
	struct health_set set;
	struct err err;
	int found;

	prctl(PR_SET_CHILD_SUBREAPER, 1);
	start_orphan(mine);
	start_orphan(NULL);
	/* These two, and one with our claim that is not below us. */
	found = wait_for(&who, "sleep", 3);
	kill_all(&who);
	while (waitpid(-1, NULL, WNOHANG) > 0 || count(&who, "sleep") > 0)
		poll(NULL, 0, 5);
	ck_assert_int_eq(health_scan(&who, &set, &err), 0);
	found = found && set.n == 0;
	health_fini(&set);
	return write(ready, found ? "1" : "0", 1) == 1 ? 0 : 1;
}

START_TEST(orphans_are_found_and_killed_and_another_claims_process_is_not)
{
	pid_t foreign, marked, agent;
	struct health_who others = { 0, other, NULL };
	int fds[2], status;
	char answer;

	snprintf(mine, sizeof(mine), "claim-%d", (int)getpid());
	snprintf(
		other, sizeof(other), "claim-%d0", (int)getpid()); /* begins the same */
	others.agent = getpid();
	foreign = start_sleeper(other);
	marked = start_sleeper(mine);
	ck_assert(wait_for(&others, "sleep", 2));
	ck_assert_int_eq(pipe(fds), 0);
	agent = fork();
	if (agent == 0)
		_exit(play_agent(fds[1]));
	close(fds[1]);
	/* Zombies are not found: no need to reap for the agent to see the end. */
	ck_assert_int_eq(read(fds[0], &answer, 1), 1);
	ck_assert_int_eq(answer, '1');
	ck_assert_int_eq(waitpid(agent, &status, 0), agent);
	ck_assert_int_eq(waitpid(marked, &status, 0), marked);
	ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	ck_assert_int_eq(waitpid(foreign, &status, WNOHANG), 0); /* it lives */
	kill(foreign, SIGKILL);
	waitpid(foreign, &status, 0);
	close(fds[0]);
}
END_TEST

START_TEST(a_pid_that_is_used_again_is_not_signalled)
{
	struct health_who who = { getpid(), "no-claim", NULL };
	struct health_set set;
	struct err err;
	pid_t pid = start_sleeper(NULL);
	int status;

	ck_assert(wait_for(&who, "sleep", 1));
	ck_assert_int_eq(health_scan(&who, &set, &err), 0);
	ck_assert_uint_eq(set.n, 1);
	set.procs[0].start--;
	ck_assert_int_eq(health_signal(&set.procs[0], SIGKILL), 0);
	ck_assert_int_eq(waitpid(pid, &status, WNOHANG), 0);
	set.procs[0].start++;
	ck_assert_int_eq(health_signal(&set.procs[0], SIGKILL), 1);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(health_signal(&set.procs[0], SIGKILL), 0);
	health_fini(&set);
}
END_TEST

START_TEST(markers_are_read_with_job_and_generation)
{
	struct health_who who = { getpid(), mine, NULL };
	struct health_set set;
	struct err err;
	pid_t pid;
	char text[200];

	snprintf(mine, sizeof(mine), "claim-%d", (int)getpid());
	pid = start_sleeper(mine);
	ck_assert(wait_for(&who, "sleep", 1));
	ck_assert_int_eq(health_scan(&who, &set, &err), 0);
	ck_assert_uint_eq(set.n, 1);
	ck_assert_str_eq(set.procs[0].job, "j1");
	ck_assert_int_eq(set.procs[0].generation, 3);
	ck_assert_ptr_nonnull(
		strstr(health_describe(&set, text, sizeof(text)), "sleep["));
	ck_assert_int_eq(health_signal(&set.procs[0], SIGKILL), 1);
	waitpid(pid, NULL, 0);
	health_fini(&set);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("agent health");
	TCase *tcase = tcase_create("all");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_add_test(
		tcase, ours_are_descendants_members_of_the_cgroup_and_the_marked);
	tcase_add_test(
		tcase, orphans_are_found_and_killed_and_another_claims_process_is_not);
	tcase_add_test(tcase, a_pid_that_is_used_again_is_not_signalled);
	tcase_add_test(tcase, markers_are_read_with_job_and_generation);
	suite_add_tcase(suite, tcase);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
