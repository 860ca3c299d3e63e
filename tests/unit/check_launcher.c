/* check_launcher.c - agents as real processes: begun, ended, swept, adopted. */
#include <check.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/sched/launcher.h"
#include "daemon/sched/sweep.h"
#include "proto/clock.h"

static char dir[64], agent[96], run_dir[96];
/* Unlike in any other test that runs now: marks go through the whole machine. */
static char id[32], mark[48], longer_mark[48], shorter_mark[48], prefixed_mark[48];
static struct loop *loop;
static struct loop_timer *limit, *looker;
static struct launcher *launcher;

static struct {
	int started, failed, notices, ended, status;
	unsigned killed;
	pid_t pid;
	unsigned long long ticks;
	double deadline_s;
	char why[200], order[16];
} seen;

static int (*wanted)(void);

static void too_long(void *arg)
{
	ck_abort_msg("the condition did not come true in time; order %s", seen.order);
}

static void look(void *arg)
{
	if (wanted())
		loop_stop(loop);
	else
		loop_timer_start(looker, 0.005);
}

static void turn_until(int (*condition)(void))
{
	wanted = condition;
	loop_timer_start(limit, 20);
	loop_timer_start(looker, 0);
	ck_assert_int_eq(loop_run(loop), 0);
	loop_timer_stop(limit);
}

static void on_event(const struct sched_claim *claim, void *arg)
{
	static const char letters[] = "-SFNE";

	strncat(seen.order, &letters[claim->event], 1);
	seen.pid = claim->pid;
	seen.ticks = claim->start_ticks;
	switch (claim->event) {
	case SCHED_STARTED:
		seen.started++;
		break;
	case SCHED_FAILED:
		seen.failed++;
		snprintf(seen.why, sizeof(seen.why), "%s", claim->why);
		break;
	case SCHED_NOTICE:
		seen.notices++;
		seen.deadline_s = claim->deadline_s;
		break;
	case SCHED_ENDED:
		seen.ended++;
		seen.status = claim->status;
		seen.killed = claim->killed;
		break;
	case SCHED_EVENT_NONE:
		ck_abort();
	}
}

static int is_started(void)
{
	return seen.started > 0;
}

static int is_failed(void)
{
	return seen.failed > 0;
}

static int is_ended(void)
{
	return seen.ended > 0;
}

static int is_noticed(void)
{
	return seen.notices > 0;
}

/* The agent of a test is a script; it says when it is ready by a file. */
static void write_agent(const char *script)
{
	FILE *file = fopen(agent, "w");

	ck_assert_ptr_nonnull(file);
	fprintf(file, "#!/bin/sh\n%s\n", script);
	fclose(file);
	ck_assert_int_eq(chmod(agent, 0755), 0);
}

static const char *run_file(const char *name)
{
	static char path[200];

	snprintf(path, sizeof(path), "%s/n1/%s", run_dir, name);
	return path;
}

static int is_ready(void)
{
	return seen.started && access(run_file("ready"), F_OK) == 0;
}

/* What a script wrote to a file of its runtime directory. */
static const char *read_run_file(const char *name)
{
	static char text[8192];
	FILE *file = fopen(run_file(name), "r");
	size_t n;

	ck_assert_msg(file != NULL, "%s", run_file(name));
	n = fread(text, 1, sizeof(text) - 1, file);
	text[n] = '\0';
	fclose(file);
	return text;
}

static struct launcher *make_launcher(double grace_s, double cpus)
{
	static const char *const env[] = { "MALLE_ORPHAN_S=9", NULL };
	struct sched_config config = {
		.grace_s = grace_s,
		.node_cpus = cpus,
		.agent = agent,
		.run_dir = run_dir,
		.socket = "/nowhere/ctld.sock",
		.env = env,
	};
	struct err err;
	struct launcher *made = launcher_create(&config, loop, on_event, NULL, &err);

	ck_assert_msg(made != NULL, "%s", err.text);
	return made;
}

static void setup(void)
{
	snprintf(id, sizeof(id), "c%d.x", (int)getpid());
	snprintf(mark, sizeof(mark), "MALLE_CLAIM=%s", id);
	snprintf(longer_mark, sizeof(longer_mark), "MALLE_CLAIM=%s1", id);
	snprintf(shorter_mark, sizeof(shorter_mark), "MALLE_CLAIM=c%d",
		(int)getpid() / 10);
	snprintf(prefixed_mark, sizeof(prefixed_mark), "XMALLE_CLAIM=%s", id);
	snprintf(dir, sizeof(dir), "/tmp/check_launcher.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	ck_assert_int_eq(chmod(dir, 0755), 0);
	snprintf(agent, sizeof(agent), "%s/agent", dir);
	snprintf(run_dir, sizeof(run_dir), "%s/run", dir);
	ck_assert_int_eq(mkdir(run_dir, 0755), 0);
	memset(&seen, 0, sizeof(seen));
	loop = loop_create(NULL);
	limit = loop_timer_create(loop, too_long, NULL);
	looker = loop_timer_create(loop, look, NULL);
	launcher = make_launcher(0.3, 0);
}

static void teardown(void)
{
	char command[128];

	launcher_destroy(launcher);
	loop_timer_destroy(limit);
	loop_timer_destroy(looker);
	loop_destroy(loop);
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	ck_assert_int_eq(system(command), 0);
}

static void start(uid_t uid)
{
	struct err err;

	ck_assert_msg(
		launcher_start(launcher, "n1", id, uid, &err) == 0, "%s", err.text);
	ck_assert_str_eq(launcher_claim(launcher, "n1"), id);
	ck_assert_str_eq(seen.order, ""); /* nothing is told inside a call */
}

static void end_all(void)
{
	if (!launcher_claim(launcher, "n1"))
		return;
	launcher_end(launcher, id, 0, NULL);
	turn_until(is_ended);
}

/* --- tests ------------------------------------------------------------------ */

START_TEST(an_agent_starts_and_its_end_is_told_with_its_code)
{
	write_agent("exit 7");
	start(getuid());
	turn_until(is_ended);
	ck_assert_str_eq(seen.order, "SE");
	ck_assert_int_eq(seen.status, 7);
	ck_assert_uint_eq(seen.killed, 0);
	ck_assert_ptr_null(launcher_claim(launcher, "n1"));
	ck_assert_int_eq(access(run_file(""), F_OK), -1);
	ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1); /* it was reaped */
	ck_assert_int_eq(errno, ECHILD);
}
END_TEST

START_TEST(an_agent_that_cannot_be_run_is_a_failure_with_its_reason)
{
	ck_assert_int_eq(unlink(agent), -1); /* there is none */
	start(getuid());
	turn_until(is_failed);
	ck_assert_str_eq(seen.order, "F");
	ck_assert_str_eq(seen.why, "run the agent: No such file or directory");
	ck_assert_ptr_null(launcher_claim(launcher, "n1"));
}
END_TEST

/* The daemon's own environment is not handed on. */
START_TEST(the_environment_is_made_from_scratch)
{
	static const char *const names[] = { "MALLE_CLAIM=c", "MALLE_NODE=n1\n",
		"MALLE_CTLD=/nowhere/ctld.sock\n", "MALLE_GRACE_S=0.300\n",
		"MALLE_ORPHAN_S=9\n",
		"HOME=", "USER=", "LOGNAME=", "SHELL=", "PATH=", "MALLE_RUNDIR=" };
	const char *env;

	setenv("SLURM_JOB_ID", "7", 1);
	setenv("LD_PRELOAD_OF_SOMEBODY", "x", 1);
	write_agent("env >$MALLE_RUNDIR/env; pwd >$MALLE_RUNDIR/pwd; "
		    "ls -l /proc/self/fd >$MALLE_RUNDIR/fds; "
		    "cut -d' ' -f6 /proc/self/stat >$MALLE_RUNDIR/sid; echo $$ "
		    ">$MALLE_RUNDIR/pid; : >$MALLE_RUNDIR/ready; exec sleep 1000");
	start(getuid());
	turn_until(is_ready);
	env = read_run_file("env");
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		ck_assert_msg(
			strstr(env, names[i]) != NULL, "%s not in %s", names[i], env);
	ck_assert_ptr_null(strstr(env, "SLURM"));
	ck_assert_ptr_null(strstr(env, "SOMEBODY"));
	ck_assert_str_eq(read_run_file("pwd"), "/\n");
	ck_assert_int_eq(atoi(read_run_file("pid")), seen.pid);
	ck_assert_int_eq(atoi(read_run_file("sid")), seen.pid); /* its own session */
	ck_assert_ptr_null(strstr(read_run_file("fds"), "socket:"));
	ck_assert_ptr_null(strstr(read_run_file("fds"), "eventpoll"));
	end_all();
	ck_assert_int_eq(seen.status, 128 + SIGTERM);
}
END_TEST

START_TEST(an_agent_runs_as_its_user_in_a_directory_of_its_own)
{
	struct stat st;

	if (getuid() != 0) {
		printf("skip: needs root\n");
		return;
	}
	write_agent("id -u >$MALLE_RUNDIR/uid; id -G >$MALLE_RUNDIR/groups; "
		    ": >$MALLE_RUNDIR/ready; exec sleep 1000");
	start(65534);
	turn_until(is_ready);
	ck_assert_str_eq(read_run_file("uid"), "65534\n");
	ck_assert_ptr_null(strstr(read_run_file("groups"), " 0"));
	ck_assert_int_eq(stat(run_file(""), &st), 0);
	ck_assert_uint_eq(st.st_uid, 65534);
	ck_assert_uint_eq(st.st_mode & 0777, 0700);
	end_all();
}
END_TEST

START_TEST(a_user_that_is_not_known_is_refused)
{
	struct err err;

	write_agent("exit 0");
	ck_assert_int_eq(launcher_start(launcher, "n1", id, 3999999, &err), -1);
	ck_assert_int_eq(errno, EPERM);
	ck_assert_ptr_null(launcher_claim(launcher, "n1"));
}
END_TEST

START_TEST(a_notice_reaches_the_agent_and_a_polite_one_ends_in_time)
{
	double from;

	launcher_destroy(launcher);
	launcher = make_launcher(10, 0);
	write_agent("trap 'exit 0' TERM; : >$MALLE_RUNDIR/ready; "
		    "while :; do sleep 0.02; done");
	start(getuid());
	turn_until(is_ready);
	from = clock_mono_s();
	ck_assert_int_eq(launcher_end(launcher, id, 1, NULL), 0);
	ck_assert_double_eq_tol(launcher_deadline_s(launcher, "n1"), from + 10, 1);
	turn_until(is_ended);
	ck_assert_str_eq(seen.order, "SNE");
	ck_assert_int_eq(seen.status, 0);
	ck_assert_double_lt(clock_mono_s() - from, 8);
}
END_TEST

START_TEST(an_agent_that_does_not_go_is_killed_when_its_grace_is_over)
{
	double from;

	write_agent(
		"trap '' TERM; : >$MALLE_RUNDIR/ready; while :; do sleep 0.02; done");
	start(getuid());
	turn_until(is_ready);
	from = clock_mono_s();
	launcher_end(launcher, id, 1, NULL);
	turn_until(is_noticed);
	turn_until(is_ended);
	ck_assert_int_eq(seen.status, 128 + SIGKILL);
	ck_assert_uint_ge(seen.killed, 1);
	ck_assert_double_ge(clock_mono_s() - from, 0.3);
	ck_assert_double_lt(clock_mono_s() - from, 8);
}
END_TEST

START_TEST(a_release_gives_no_notice)
{
	write_agent(": >$MALLE_RUNDIR/ready; exec sleep 1000");
	start(getuid());
	turn_until(is_ready);
	launcher_end(launcher, id, 0, NULL);
	turn_until(is_ended);
	ck_assert_str_eq(seen.order, "SE");
}
END_TEST

/* A process of ours that is none of the claim's, although like one. */
static pid_t fork_bystander(char *variable)
{
	pid_t pid = fork();

	if (pid == 0) {
		if (variable)
			putenv(variable);
		execl("/bin/sleep", "sleep", "1000", (char *)NULL);
		_exit(127);
	}
	/* It has its new environment once it is sleep. */
	for (int i = 0; i < 1000; i++) {
		char path[64], name[64] = "";
		FILE *file;

		snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
		file = fopen(path, "r");
		if (file && fgets(name, sizeof(name), file) && !strcmp(name, "sleep\n"))
			i = 1000;
		if (file)
			fclose(file);
		poll(NULL, 0, 1);
	}
	return pid;
}

static int is_alive(pid_t pid)
{
	return sweep_start_ticks(pid) != 0;
}

static pid_t end_bystander(pid_t pid)
{
	kill(pid, SIGKILL);
	return waitpid(pid, NULL, 0);
}

static const struct {
	const char *what;
	const char *script; /* writes its pid to $R/pid, then makes $R/ready */
} orphans[] = {
	{ "a background child", "sleep 1000 & echo $! >$R/pid; : >$R/ready" },
	{ "a double fork in a session of its own",
		"setsid sh -c 'sleep 1000 & echo $! >$R/pid; : >$R/ready'" },
	{ "one that ignores signals", "setsid sh -c 'trap \"\" TERM HUP INT; echo $$ "
				      ">$R/pid; : >$R/ready; while :; "
				      "do sleep 0.05; done' &" },
	{ "one whose parent is long gone and which left its directory",
		"(setsid sh -c 'cd /; (sleep 1000 & echo $! >$R/pid; : >$R/ready)' "
		"&)" },
	{ "one that forks on and on", "setsid sh -c 'echo $$ >$R/pid; : >$R/ready; "
				      "while :; do sleep 1000 & sleep "
				      "0.01; done' &" },
};

START_TEST(orphans_of_a_dead_agent_die_and_bystanders_live)
{
	char script[600];
	static char *const marks[] = { NULL, longer_mark, shorter_mark, prefixed_mark };
	pid_t orphan, bystanders[4];

	snprintf(script, sizeof(script),
		"R=$MALLE_RUNDIR; export R\n%s\nexec sleep 1000", orphans[_i].script);
	write_agent(script);
	for (int i = 0; i < 4; i++)
		bystanders[i] = fork_bystander(marks[i]);
	start(getuid());
	turn_until(is_ready);
	orphan = (pid_t)atoi(read_run_file("pid"));
	ck_assert_msg(is_alive(orphan), "%s", orphans[_i].what);
	ck_assert_int_eq(kill(seen.pid, SIGKILL), 0);
	turn_until(is_ended);
	ck_assert_int_eq(seen.status, 128 + SIGKILL);
	ck_assert_msg(!is_alive(orphan), "%s", orphans[_i].what);
	ck_assert_uint_ge(seen.killed, 1);
	for (int i = 0; i < 4; i++) {
		ck_assert_msg(is_alive(bystanders[i]), "%s", marks[i]);
		ck_assert_int_eq(end_bystander(bystanders[i]), bystanders[i]);
	}
}
END_TEST

START_TEST(the_same_mark_in_another_users_process_is_not_ours)
{
	pid_t theirs;

	if (getuid() != 0) {
		printf("skip: needs root\n");
		return;
	}
	write_agent("exit 0");
	theirs = fork_bystander(mark); /* root's; the claim is nobody's */
	start(65534);
	turn_until(is_ended);
	ck_assert(is_alive(theirs));
	end_bystander(theirs);
}
END_TEST

START_TEST(an_agent_outlives_its_launcher_and_is_adopted_by_the_next)
{
	struct sched_adoption adoption = { .id = id, .node = "n1", .uid = getuid() };
	struct err err;

	write_agent(": >$MALLE_RUNDIR/ready; exec sleep 1000");
	start(getuid());
	turn_until(is_ready);
	adoption.pid = seen.pid;
	adoption.start_ticks = seen.ticks;
	ck_assert_uint_ne(seen.ticks, 0);
	launcher_destroy(launcher);
	ck_assert(is_alive(adoption.pid));
	memset(&seen, 0, sizeof(seen));
	launcher = make_launcher(0.3, 0);
	ck_assert_msg(launcher_adopt(launcher, &adoption, &err) == 0, "%s", err.text);
	ck_assert_int_eq(launcher_start(launcher, "n1", "c2", getuid(), &err), -1);
	ck_assert_int_eq(errno, EBUSY);
	turn_until(is_started);
	ck_assert_int_eq(seen.pid, adoption.pid);
	launcher_end(launcher, id, 1, NULL);
	turn_until(is_ended);
	ck_assert_str_eq(seen.order, "SNE");
	ck_assert(!is_alive(adoption.pid));
}
END_TEST

START_TEST(a_claim_whose_agent_died_meanwhile_is_swept_and_ends)
{
	struct sched_adoption adoption = { .id = id, .node = "n1", .uid = getuid() };
	pid_t orphan = fork_bystander(mark);
	pid_t reused = fork_bystander(NULL);

	adoption.pid = reused; /* now somebody else's: the start time differs */
	adoption.start_ticks = sweep_start_ticks(reused) - 1;
	ck_assert_int_eq(launcher_adopt(launcher, &adoption, NULL), 0);
	/* A zombie is no process any more; as its parent we only reap it. */
	turn_until(is_ended);
	ck_assert_str_eq(seen.order, "E");
	ck_assert_int_eq(seen.status, -1);
	ck_assert_uint_eq(seen.killed, 1);
	ck_assert(!is_alive(orphan));
	ck_assert(is_alive(reused));
	end_bystander(orphan);
	end_bystander(reused);
}
END_TEST

START_TEST(an_adoption_without_a_pid_is_swept_too)
{
	struct sched_adoption adoption = { .id = id, .node = "n1", .uid = getuid() };
	pid_t orphan = fork_bystander(mark);

	ck_assert_int_eq(launcher_adopt(launcher, &adoption, NULL), 0);
	turn_until(is_ended);
	ck_assert(!is_alive(orphan));
	end_bystander(orphan);
}
END_TEST

static const struct {
	const char *node, *id;
	int errnum;
} refused[] = {
	{ "n1", "", EINVAL }, { "n1", "a/b", EINVAL }, { "n1", "a b", EINVAL },
	{ "n1", "0123456789012345678901234567890123456789012345678901234567890123x",
		EINVAL },
	{ "n1", "other", EBUSY }, { "n2", NULL, EBUSY }, /* NULL: the id in use */
};

START_TEST(claims_that_cannot_be_are_refused)
{
	struct err err;

	write_agent("exec sleep 1000");
	start(getuid());
	ck_assert_int_eq(launcher_start(launcher, refused[_i].node,
				 refused[_i].id ? refused[_i].id : id, getuid(), &err),
		-1);
	ck_assert_int_eq(errno, refused[_i].errnum);
	ck_assert_int_eq(launcher_end(launcher, "nobody", 0, &err), -1);
	ck_assert_int_eq(errno, ENOENT);
	end_all();
}
END_TEST

static double cpu_s_of(pid_t pid)
{
	char path[64], text[1024], *at;
	unsigned long user = 0, system_ = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	file = fopen(path, "r");
	if (!file)
		return 0;
	text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
	fclose(file);
	at = strrchr(text, ')');
	if (!at ||
		sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
			&user, &system_) != 2)
		return 0;
	return (double)(user + system_) / (double)sysconf(_SC_CLK_TCK);
}

static double until_s;

static int is_later(void)
{
	return clock_mono_s() >= until_s;
}

START_TEST(a_quota_holds_where_the_kernel_gives_control_groups)
{
	double used;

	launcher_destroy(launcher);
	launcher = make_launcher(0.3, 0.2);
	printf("isolation: %s\n", launcher_isolation(launcher));
	if (strstr(launcher_isolation(launcher), "no cgroups")) {
		printf("skip: no control groups here\n");
		return;
	}
	write_agent("cat $MALLE_CGROUP/cgroup.procs >$MALLE_RUNDIR/procs; "
		    ": >$MALLE_RUNDIR/ready; while :; do :; done");
	start(getuid());
	turn_until(is_ready);
	ck_assert_int_eq(atoi(read_run_file("procs")), seen.pid);
	used = cpu_s_of(seen.pid);
	until_s = clock_mono_s() + 1;
	turn_until(is_later);
	used = cpu_s_of(seen.pid) - used;
	ck_assert_double_le(used, 0.3); /* of a second: 0.2 and some slack */
	ck_assert_double_ge(used, 0.02);
	end_all();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("launcher");
	TCase *tc = tcase_create("launcher");
	SRunner *runner;
	int failed;

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, an_agent_starts_and_its_end_is_told_with_its_code);
	tcase_add_test(tc, an_agent_that_cannot_be_run_is_a_failure_with_its_reason);
	tcase_add_test(tc, the_environment_is_made_from_scratch);
	tcase_add_test(tc, an_agent_runs_as_its_user_in_a_directory_of_its_own);
	tcase_add_test(tc, a_user_that_is_not_known_is_refused);
	tcase_add_test(tc, a_notice_reaches_the_agent_and_a_polite_one_ends_in_time);
	tcase_add_test(tc, an_agent_that_does_not_go_is_killed_when_its_grace_is_over);
	tcase_add_test(tc, a_release_gives_no_notice);
	tcase_add_loop_test(tc, orphans_of_a_dead_agent_die_and_bystanders_live, 0,
		sizeof(orphans) / sizeof(orphans[0]));
	tcase_add_test(tc, the_same_mark_in_another_users_process_is_not_ours);
	tcase_add_test(tc, an_agent_outlives_its_launcher_and_is_adopted_by_the_next);
	tcase_add_test(tc, a_claim_whose_agent_died_meanwhile_is_swept_and_ends);
	tcase_add_test(tc, an_adoption_without_a_pid_is_swept_too);
	tcase_add_loop_test(tc, claims_that_cannot_be_are_refused, 0,
		sizeof(refused) / sizeof(refused[0]));
	tcase_add_test(tc, a_quota_holds_where_the_kernel_gives_control_groups);
	suite_add_tcase(suite, tc);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}
