/*
 * agent.c - the agent of a node: what it is made of.
 *
 * An agent holds one node for one claim.  It is told by the daemon (uplink.c,
 * h_daemon.c) which worlds its node is part of, starts their processes here
 * (launch.c, rsh.c), talks with the workers (worker_sock.c, h_worker.c), keeps
 * their states (store.c, fetch.c, serve.c, spooler.c), ends what is to end
 * (ending.c), and gives the node back (leave.c).
 *
 *	mallectld --- uplink - part - worker_sock --- workers, malle-rsh, peers
 *	                        |
 *	                launch, ending - exec, health --- processes
 *
 * It decides nothing about jobs.  The one thing it decides alone is to end
 * everything here: when its node's time is up, or when nobody has been
 * there to say so for too long.
 *
 * Built in order, undone in reverse.  One thread, nothing waits.
 */
#include "agent/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/ending.h"
#include "agent/exec.h"
#include "agent/fetch.h"
#include "agent/launch.h"
#include "agent/leave.h"
#include "agent/output.h"
#include "agent/report.h"
#include "agent/rsh.h"
#include "agent/spooler.h"
#include "agent/store.h"
#include "agent/uplink.h"
#include "agent/worker_sock.h"
#include "proto/log.h"

/* --- worlds ----------------------------------------------------------------- */

int agent_holds(const struct agent *agent, const struct part *but)
{
	for (const struct part *part = agent->parts; part; part = part->next)
		if (part != but && part->ending != ENDING_DONE)
			return 1;
	return 0;
}

static void link_part(struct agent *agent, struct part *part)
{
	part->agent = agent;
	part->next = agent->parts;
	agent->parts = part;
}

void agent_let_go(struct part *part)
{
	struct agent *agent = part->agent;
	struct part **at = &agent->parts;

	while (*at != part)
		at = &(*at)->next;
	*at = part->next;
	rsh_forget_part(agent->rsh, part);
	worker_sock_forget(agent->sock, part);
	fetch_cancel(part->fetch);
	exec_forget(part->mpirun);
	for (int i = 0; part->locals && i < part->nproc; i++)
		exec_forget(part->locals[i]);
	output_destroy(part->output);
	launch_clean(part);
	loop_timer_destroy(part->timer);
	part_destroy(part);
}

int agent_hold(struct agent *agent, const struct msg *start, struct err *err)
{
	struct part *part = part_find(
		agent->parts, msg_str(start, "job"), msg_int(start, "generation"));
	pid_t pid = 0;

	if (part) {
		report_started(part, part->mpirun ? exec_pid(part->mpirun) : 0);
		return 0;
	}
	part = part_create(start, agent->config->node, err);
	if (!part)
		return -1;
	link_part(agent, part);
	if (ending_init(part) < 0) {
		agent_let_go(part);
		return err_set(err, ENOMEM, "world: out of memory");
	}
	log_info("world", "job %s generation %lld: node %zu of %zu", part->job,
		part->generation, part->index, part->n_nodes);
	if (store_set_spool(agent->store, part->job, part->spool, err) < 0 ||
		launch_start(part, &pid, err) < 0)
		ending_broken(part, EXIT_INTERNAL, err->text);
	else
		report_started(part, pid);
	return 0;
}

/* --- the end ---------------------------------------------------------------- */

void agent_stop(struct agent *agent, int exit_code)
{
	agent->exit_code = exit_code;
	loop_stop(agent->loop);
}

void agent_fail(struct agent *agent, int exit_code, const char *fmt, ...)
{
	va_list ap;

	if (!agent->why.text[0]) {
		va_start(ap, fmt);
		vsnprintf(agent->why.text, sizeof(agent->why.text), fmt, ap);
		va_end(ap);
	}
	leave_alone(agent->leave, exit_code);
}

/* --- made of ---------------------------------------------------------------- */

static int find_programs(struct agent *agent, struct err *err)
{
	char path[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

	if (n < 0)
		return err_set(err, errno, "/proc/self/exe: %s", strerror(errno));
	path[n] = '\0';
	agent->self = strdup(path);
	if (!agent->self ||
		asprintf(&agent->rsh_path, "%s/malle-rsh", dirname(path)) < 0) {
		agent->rsh_path = NULL;
		return err_set(err, ENOMEM, "malle-rsh: out of memory");
	}
	return 0;
}

static int make_rundir(struct agent *agent, struct err *err)
{
	const char *dir = agent->config->rundir;
	struct stat st;

	if (mkdir(dir, 0700) < 0 && errno != EEXIST)
		return err_set(err, errno, "%s: mkdir: %s", dir, strerror(errno));
	if (stat(dir, &st) < 0)
		return err_set(err, errno, "%s: %s", dir, strerror(errno));
	if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 022))
		return err_set(
			err, EPERM, "%s: it is not a directory of ours alone", dir);
	if (asprintf(&agent->socket, "%s/agent.sock", dir) < 0) {
		agent->socket = NULL;
		return err_set(err, ENOMEM, "%s: out of memory", dir);
	}
	return 0;
}

static int build(struct agent *agent, struct err *err)
{
	const struct agent_config *config = agent->config;

	if (find_programs(agent, err) < 0 || make_rundir(agent, err) < 0)
		return -1;
	agent->loop = loop_create(err);
	if (!agent->loop)
		return -1;
	agent->began_s = loop_now_s(agent->loop);
	if (!(agent->exec = exec_create(agent->loop, err)) ||
		!(agent->store = store_create(config->shm, config->claim, err)) ||
		!(agent->spooler = spooler_create(agent, err)) ||
		!(agent->rsh = rsh_create(agent, err)) ||
		!(agent->sock = worker_sock_create(agent, err)) ||
		!(agent->uplink = uplink_create(agent, err)) ||
		!(agent->leave = leave_create(agent, err)))
		return -1;
	return 0;
}

static void undo(struct agent *agent)
{
	while (agent->parts)
		agent_let_go(agent->parts);
	leave_destroy(agent->leave);
	uplink_destroy(agent->uplink);
	worker_sock_destroy(agent->sock);
	rsh_destroy(agent->rsh);
	spooler_destroy(agent->spooler);
	store_destroy(agent->store);
	exec_destroy(agent->exec);
	loop_destroy(agent->loop);
	free(agent->self);
	free(agent->rsh_path);
	if (agent->socket)
		rmdir(agent->config->rundir); /* what is not ours keeps it */
	free(agent->socket);
}

static int code_of(int errnum)
{
	switch (errnum) {
	case EINVAL:
	case ENAMETOOLONG:
		return EXIT_BAD_CONFIG;
	case EPERM:
	case EACCES:
		return EXIT_NOT_ALLOWED;
	case EADDRINUSE:
		return EXIT_TRY_AGAIN;
	default:
		return EXIT_INTERNAL;
	}
}

static int loop_failed(struct err *err)
{
	err_set(err, errno, "event loop: %s", strerror(errno));
	return EXIT_INTERNAL;
}

int agent_run(const struct agent_config *config, struct err *err)
{
	struct agent agent = { .config = config };

	if (build(&agent, err) < 0)
		agent.exit_code = code_of(errno);
	else if (loop_run(agent.loop) < 0)
		agent.exit_code = loop_failed(err);
	else
		*err = agent.why;
	undo(&agent);
	return agent.exit_code;
}
