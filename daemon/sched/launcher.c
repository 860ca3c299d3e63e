/*
 * launcher.c - agents on this machine, one for each claimed node.
 *
 * The life of a claim:
 *
 *   starting  forked; what it says on its pipe decides: end of file means that
 *             the agent runs, a failure that it never will.
 *   running   STARTED was told.
 *   sweeping  the agent has ended; what it left behind is killed until a look
 *             finds nothing.
 *   over      ENDED or FAILED is about to be told.
 *
 * Someone may want the node back in any of these: then the agent gets SIGTERM,
 * and a deadline runs at whose end everything of the claim is killed, the agent
 * too.  A node counts as free only after a sweep found nothing and its control
 * group could be removed; processes that do not die (disk waits) are looked at
 * for ever, after a while once a second, and the log says so once.
 *
 * Agents are watched through pidfds, so a reused pid cannot be meant, and an
 * agent that an earlier daemon started is watched like our own.  Such a one is
 * recognised by pid and start time together; its exit code stays unknown,
 * because only a parent may ask.
 *
 * Events are told from a timer of the next turn, never from inside a call.
 */
#include "daemon/sched/launcher.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/queue.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/sched/cgroup.h"
#include "daemon/sched/spawn.h"
#include "daemon/sched/sweep.h"
#include "proto/log.h"

enum {
	ID_MAX = 64,
	EVENT_STARTED = 1 << SCHED_STARTED,
	EVENT_FAILED = 1 << SCHED_FAILED,
	EVENT_NOTICE = 1 << SCHED_NOTICE,
	EVENT_ENDED = 1 << SCHED_ENDED,
};

static const double sweep_every_s = 0.01;
static const double sweep_patience_s = 5; /* then it is worth a line */
static const double sweep_slowly_s = 1;

enum launch_state {
	LAUNCH_STARTING = 0,
	LAUNCH_RUNNING,
	LAUNCH_SWEEPING,
	LAUNCH_OVER,
};

struct launch {
	TAILQ_ENTRY(launch) entry;
	struct launcher *launcher;
	char id[ID_MAX + 1], node[ID_MAX + 1];
	uid_t uid;
	enum launch_state state;
	pid_t pid;
	unsigned long long start_ticks;
	int pidfd; /* -1: no agent any more */
	struct loop_io *exit_io;
	int report; /* of a child that has not become the agent yet; -1 */
	struct loop_io *report_io;
	int failed;  /* it will not become one; why says it */
	int told;    /* it was sent SIGTERM, the deadline runs */
	int noticed; /* NOTICE was told or is about to be */
	double deadline_s;
	struct loop_timer *timer; /* the deadline, or the next sweep */
	struct sweep sweep;
	double sweeping_since_s;
	int complained;
	int status;
	unsigned events; /* to tell */
	char why[160];
};

struct launcher {
	struct loop *loop;
	launcher_f on_event;
	void *arg;
	double grace_s;
	char *agent, *run_dir, *socket;
	char **env; /* NULL at the end; one block */
	struct cgroups *cgroups;
	TAILQ_HEAD(, launch) launches;
	struct loop_timer *teller;
};

static void launch_timer(void *arg);

/* --- telling ---------------------------------------------------------------- */

static void launch_free(struct launch *launch)
{
	if (!launch)
		return;
	loop_io_destroy(launch->exit_io);
	loop_io_destroy(launch->report_io);
	loop_timer_destroy(launch->timer);
	if (launch->pidfd >= 0)
		close(launch->pidfd);
	if (launch->report >= 0)
		close(launch->report);
	sweep_fini(&launch->sweep);
	free(launch);
}

static void will_tell(struct launch *launch, unsigned event)
{
	launch->events |= event;
	loop_timer_start(launch->launcher->teller, 0);
}

static void tell(struct launch *launch, enum sched_event event)
{
	struct launcher *launcher = launch->launcher;
	struct sched_claim claim = {
		.id = launch->id,
		.node = launch->node,
		.event = event,
		.pid = launch->pid,
		.start_ticks = launch->start_ticks,
		.deadline_s = launch->deadline_s,
		.status = launch->status,
		.killed = launch->sweep.killed,
		.why = *launch->why ? launch->why : NULL,
	};

	launcher->on_event(&claim, launcher->arg);
}

/* One event of the first launch that has some.  0: there was none. */
static int tell_one(struct launcher *launcher)
{
	static const enum sched_event order[] = { SCHED_STARTED, SCHED_NOTICE,
		SCHED_FAILED, SCHED_ENDED };
	struct launch *launch;

	TAILQ_FOREACH (launch, &launcher->launches, entry)
		if (launch->events)
			break;
	if (!launch)
		return 0;
	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
		if (!(launch->events & (1u << order[i])))
			continue;
		launch->events &= ~(1u << order[i]);
		if (launch->state == LAUNCH_OVER && !launch->events) {
			/* Whoever hears of the end may claim the node at once. */
			TAILQ_REMOVE(&launcher->launches, launch, entry);
			tell(launch, order[i]);
			launch_free(launch);
		} else {
			tell(launch, order[i]);
		}
		return 1;
	}
	return 0;
}

static void tell_all(void *arg)
{
	while (tell_one(arg))
		;
}

/* --- ending ----------------------------------------------------------------- */

static const char *run_path(const struct launch *launch, const char *suffix, char *buf)
{
	snprintf(buf, PATH_MAX, "%s/%s%s", launch->launcher->run_dir, launch->node,
		suffix);
	return buf;
}

static void launch_over(struct launch *launch)
{
	char path[PATH_MAX];

	launch->state = LAUNCH_OVER;
	loop_timer_stop(launch->timer);
	if (spawn_remove_dir(run_path(launch, "", path)) < 0)
		log_warning("launcher", "%s: not removed: %m", path);
	will_tell(launch, launch->failed ? EVENT_FAILED : EVENT_ENDED);
}

static void sweep_on(struct launch *launch)
{
	struct launcher *launcher = launch->launcher;
	int left = sweep_once(&launch->sweep, launcher->cgroups, launch->node,
		launch->id, launch->uid);
	double for_s = loop_now_s(launcher->loop) - launch->sweeping_since_s;

	if (left == 0 && cgroups_remove(launcher->cgroups, launch->node)) {
		launch_over(launch);
		return;
	}
	if (for_s > sweep_patience_s && !launch->complained) {
		launch->complained = 1;
		log_warning("launcher", "%s: processes of claim %s do not die left=%d",
			launch->node, launch->id, left);
	}
	loop_timer_start(launch->timer,
		for_s > sweep_patience_s ? sweep_slowly_s : sweep_every_s);
}

static void begin_sweeping(struct launch *launch)
{
	launch->state = LAUNCH_SWEEPING;
	launch->sweeping_since_s = loop_now_s(launch->launcher->loop);
	sweep_on(launch);
}

/* The exit code of a child of ours, as a shell has it; -1 of anybody else's. */
static int reap(int pidfd)
{
	siginfo_t info = { .si_pid = 0 };

	if (waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED | WNOHANG) < 0 || !info.si_pid)
		return -1;
	return info.si_code == CLD_EXITED ? info.si_status : 128 + info.si_status;
}

static void read_report(struct launch *launch)
{
	struct spawn_failure failure;
	ssize_t n;

	if (launch->report < 0)
		return;
	n = read(launch->report, &failure, sizeof(failure));
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	loop_io_destroy(launch->report_io);
	launch->report_io = NULL;
	close(launch->report);
	launch->report = -1;
	if (n == (ssize_t)sizeof(failure)) {
		launch->failed = 1;
		snprintf(launch->why, sizeof(launch->why), "%s: %s", failure.what,
			strerror(failure.errnum));
		return; /* its exit follows */
	}
	launch->state = LAUNCH_RUNNING;
	will_tell(launch, EVENT_STARTED);
}

static void report_ready(int fd, unsigned ready, void *arg)
{
	read_report(arg);
}

static void agent_exited(int fd, unsigned ready, void *arg)
{
	struct launch *launch = arg;

	read_report(launch); /* its last word, if that comes in the same turn */
	launch->status = reap(launch->pidfd);
	loop_io_destroy(launch->exit_io);
	launch->exit_io = NULL;
	close(launch->pidfd);
	launch->pidfd = -1;
	begin_sweeping(launch);
}

/* The grace is over: kill all.  The agent's exit brings the sweeping. */
static void deadline_reached(struct launch *launch)
{
	struct launcher *launcher = launch->launcher;

	log_notice("launcher", "%s: claim %s is killed: its grace is over",
		launch->node, launch->id);
	sweep_once(&launch->sweep, launcher->cgroups, launch->node, launch->id,
		launch->uid);
	if (launch->pidfd >= 0)
		pidfd_send_signal(launch->pidfd, SIGKILL, NULL, 0);
	loop_timer_start(launch->timer, sweep_slowly_s); /* until it is dead */
}

static void launch_timer(void *arg)
{
	struct launch *launch = arg;

	if (launch->state == LAUNCH_SWEEPING)
		sweep_on(launch);
	else if (launch->state != LAUNCH_OVER)
		deadline_reached(launch);
}

/* --- beginning -------------------------------------------------------------- */

static struct launch *find_node(const struct launcher *launcher, const char *node)
{
	struct launch *launch;

	TAILQ_FOREACH (launch, &launcher->launches, entry)
		if (!strcmp(launch->node, node))
			return launch;
	return NULL;
}

static struct launch *find_id(const struct launcher *launcher, const char *id)
{
	struct launch *launch;

	TAILQ_FOREACH (launch, &launcher->launches, entry)
		if (!strcmp(launch->id, id))
			return launch;
	return NULL;
}

static int id_ok(const char *id)
{
	size_t size = strlen(id);

	if (size < 1 || size > ID_MAX)
		return 0;
	for (; *id; id++)
		if (!isalnum((unsigned char)*id) && !strchr("._-", *id))
			return 0;
	return 1;
}

/* A launch of nothing yet; NULL with the sentence. */
static struct launch *launch_create(struct launcher *launcher, const char *node,
	const char *id, uid_t uid, struct err *err)
{
	const struct launch *there = find_node(launcher, node);
	struct launch *launch;

	if (!id_ok(id) || strlen(node) > ID_MAX) {
		err_set(err, EINVAL, "claim \"%.70s\" on %.70s: bad id or node", id,
			node);
		return NULL;
	}
	if (there || find_id(launcher, id)) {
		err_set(err, EBUSY, "claim %s on %s: %s", id, node,
			there ? "the node is claimed" : "the id is in use");
		return NULL;
	}
	launch = calloc(1, sizeof(*launch));
	if (!launch || !(launch->timer = loop_timer_create(
				 launcher->loop, launch_timer, launch))) {
		free(launch);
		err_set(err, ENOMEM, "claim %s on %s: out of memory", id, node);
		return NULL;
	}
	launch->launcher = launcher;
	launch->uid = uid;
	launch->pidfd = launch->report = -1;
	launch->deadline_s = INFINITY;
	launch->status = -1;
	snprintf(launch->id, sizeof(launch->id), "%s", id);
	snprintf(launch->node, sizeof(launch->node), "%s", node);
	return launch;
}

static int fork_agent(struct launch *launch, struct err *err)
{
	struct launcher *launcher = launch->launcher;
	char dir[PATH_MAX], log[PATH_MAX], cgroup[PATH_MAX];
	struct spawn spawn = {
		.agent = launcher->agent,
		.node = launch->node,
		.claim = launch->id,
		.socket = launcher->socket,
		.dir = run_path(launch, "", dir),
		.log = run_path(launch, ".log", log),
		.cgroup = cgroups_path(
			launcher->cgroups, launch->node, cgroup, sizeof(cgroup)),
		.grace_s = launcher->grace_s,
		.uid = launch->uid,
		.env = (const char *const *)launcher->env,
	};

	if (cgroups_make(launcher->cgroups, launch->node, err) < 0)
		return -1;
	launch->pid = spawn_agent(&spawn, &launch->report, err);
	if (launch->pid < 0)
		return -1;
	launch->start_ticks = sweep_start_ticks(launch->pid);
	return 0;
}

/* Watch the process `pid`, which is our child, or whose pidfd we have. */
static int watch(struct launch *launch, struct err *err)
{
	struct loop *loop = launch->launcher->loop;

	if (launch->pidfd < 0)
		launch->pidfd = pidfd_open(launch->pid, 0);
	if (launch->pidfd >= 0)
		launch->exit_io = loop_io_create(
			loop, launch->pidfd, LOOP_READ, agent_exited, launch);
	if (launch->report >= 0)
		launch->report_io = loop_io_create(
			loop, launch->report, LOOP_READ, report_ready, launch);
	if (launch->exit_io && (launch->report < 0 || launch->report_io))
		return 0;
	return err_set(err, errno ? errno : ENOMEM, "claim %s: watch its agent: %s",
		launch->id, strerror(errno));
}

int launcher_start(struct launcher *launcher, const char *node, const char *id,
	uid_t uid, struct err *err)
{
	struct launch *launch = launch_create(launcher, node, id, uid, err);

	if (!launch)
		return -1;
	if (fork_agent(launch, err) < 0) {
		int saved = errno;

		cgroups_remove(launcher->cgroups, node);
		launch_free(launch);
		errno = saved;
		return -1;
	}
	if (watch(launch, err) < 0) {
		int saved = errno;

		/* Our child, and not waited for: the pid is surely its. */
		kill(launch->pid, SIGKILL);
		waitpid(launch->pid, NULL, 0);
		launch_free(launch);
		errno = saved;
		return -1;
	}
	TAILQ_INSERT_TAIL(&launcher->launches, launch, entry);
	return 0;
}

/* The pidfd of that very process, or -1. */
static int open_agent(const struct sched_adoption *claim)
{
	int pidfd = claim->pid > 0 ? pidfd_open(claim->pid, 0) : -1;

	if (pidfd >= 0 && (claim->start_ticks == 0 || sweep_start_ticks(claim->pid) !=
							      claim->start_ticks)) {
		close(pidfd);
		pidfd = -1;
	}
	return pidfd;
}

int launcher_adopt(
	struct launcher *launcher, const struct sched_adoption *claim, struct err *err)
{
	struct launch *launch =
		launch_create(launcher, claim->node, claim->id, claim->uid, err);

	if (!launch)
		return -1;
	launch->pid = claim->pid;
	launch->start_ticks = claim->start_ticks;
	launch->pidfd = open_agent(claim);
	if (launch->pidfd < 0) {
		launch->state = LAUNCH_SWEEPING;
		launch->sweeping_since_s = loop_now_s(launcher->loop);
		loop_timer_start(launch->timer, 0);
	} else if (watch(launch, err) < 0) {
		int saved = errno;

		launch_free(launch);
		errno = saved;
		return -1;
	} else {
		launch->state = LAUNCH_RUNNING;
		will_tell(launch, EVENT_STARTED);
	}
	TAILQ_INSERT_TAIL(&launcher->launches, launch, entry);
	return 0;
}

int launcher_end(struct launcher *launcher, const char *id, int notice, struct err *err)
{
	struct launch *launch = find_id(launcher, id);

	if (!launch)
		return err_set(err, ENOENT, "claim %s: there is none", id);
	if (launch->state == LAUNCH_SWEEPING || launch->state == LAUNCH_OVER)
		return 0;
	if (!launch->told) {
		launch->told = 1;
		launch->deadline_s = loop_now_s(launcher->loop) + launcher->grace_s;
		pidfd_send_signal(launch->pidfd, SIGTERM, NULL, 0);
		loop_timer_start(launch->timer, launcher->grace_s);
	}
	if (notice && !launch->noticed) {
		launch->noticed = 1;
		will_tell(launch, EVENT_NOTICE);
	}
	return 0;
}

const char *launcher_claim(const struct launcher *launcher, const char *node)
{
	const struct launch *launch = find_node(launcher, node);

	return launch ? launch->id : NULL;
}

double launcher_deadline_s(const struct launcher *launcher, const char *node)
{
	const struct launch *launch = find_node(launcher, node);

	return launch ? launch->deadline_s : INFINITY;
}

const char *launcher_isolation(const struct launcher *launcher)
{
	return cgroups_describe(launcher->cgroups);
}

/* --- the whole -------------------------------------------------------------- */

static char **copy_env(const char *const *env)
{
	size_t count = 0, size = 0;
	char **copy, *to;

	for (; env && env[count]; count++)
		size += strlen(env[count]) + 1;
	copy = malloc((count + 1) * sizeof(*copy) + size);
	if (!copy)
		return NULL;
	to = (char *)(copy + count + 1);
	for (size_t i = 0; i < count; i++) {
		copy[i] = to;
		to = stpcpy(to, env[i]) + 1;
	}
	copy[count] = NULL;
	return copy;
}

/* The same for the same run_dir, also after a restart. */
static const char *make_instance(const char *run_dir, char *buf, size_t size)
{
	unsigned long long hash = 14695981039346656037u; /* FNV-1a */

	for (; *run_dir; run_dir++)
		hash = (hash ^ (unsigned char)*run_dir) * 1099511628211u;
	snprintf(buf, size, "%08llx", hash & 0xffffffff);
	return buf;
}

static int check_config(const struct sched_config *config, struct err *err)
{
	if (!config->agent || !config->run_dir || !config->socket)
		return err_set(err, EINVAL,
			"agents: their program, run_dir or socket is not "
			"set");
	if (*config->agent != '/' || *config->run_dir != '/' || *config->socket != '/')
		return err_set(err, EINVAL, "agents: %s, %s, %s: not all begin with /",
			config->agent, config->run_dir, config->socket);
	if (!(config->grace_s >= 0) || !(config->node_cpus >= 0))
		return err_set(err, EINVAL,
			"agents: grace of %g s, %g CPUs: not in range", config->grace_s,
			config->node_cpus);
	if (config->instance && !id_ok(config->instance))
		return err_set(err, EINVAL,
			"agents: instance \"%.70s\": letters, digits, "
			"., _ and - only",
			config->instance);
	return 0;
}

struct launcher *launcher_create(const struct sched_config *config, struct loop *loop,
	launcher_f on_event, void *arg, struct err *err)
{
	struct launcher *launcher;
	char made[16];

	if (check_config(config, err) < 0)
		return NULL;
	launcher = calloc(1, sizeof(*launcher));
	if (!launcher) {
		err_set(err, ENOMEM, "agents: out of memory");
		return NULL;
	}
	launcher->loop = loop;
	launcher->on_event = on_event;
	launcher->arg = arg;
	launcher->grace_s = config->grace_s;
	TAILQ_INIT(&launcher->launches);
	launcher->agent = strdup(config->agent);
	launcher->run_dir = strdup(config->run_dir);
	launcher->socket = strdup(config->socket);
	launcher->env = copy_env(config->env);
	launcher->teller = loop_timer_create(loop, tell_all, launcher);
	launcher->cgroups = cgroups_create(
		config->instance ? config->instance
				 : make_instance(config->run_dir, made, sizeof(made)),
		config->node_cpus, err);
	if (launcher->agent && launcher->run_dir && launcher->socket && launcher->env &&
		launcher->teller && launcher->cgroups)
		return launcher;
	launcher_destroy(launcher);
	err_set(err, ENOMEM, "agents: out of memory");
	return NULL;
}

void launcher_destroy(struct launcher *launcher)
{
	int saved = errno;
	struct launch *launch;

	if (!launcher)
		return;
	while ((launch = TAILQ_FIRST(&launcher->launches))) {
		TAILQ_REMOVE(&launcher->launches, launch, entry);
		launch_free(launch);
	}
	loop_timer_destroy(launcher->teller);
	cgroups_destroy(launcher->cgroups);
	free(launcher->agent);
	free(launcher->run_dir);
	free(launcher->socket);
	free(launcher->env);
	free(launcher);
	errno = saved;
}
