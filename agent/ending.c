/*
 * ending.c - the processes of a world on this node, from running to none.
 *
 *	no    nothing has ended yet
 *	wait  the launcher (or all workers, or all remote starts) ended by itself;
 *	      the rest is ending too, and has patience_s for it
 *	term  SIGTERM was sent to all, once; SIGKILL follows at kill_at_s
 *	kill  SIGKILL is sent to all, at each look, until none is there
 *	done  none is there: the daemon is told
 *
 * mpirun ends its world on all nodes when it is told to, ranks first.  So where it
 * runs only it gets SIGTERM, and the other nodes, which are told at the same
 * time, wait for that a moment; else it would report our signals as a disaster
 * where users read.
 *
 * "All" are processes that carry the world's markers, and their descendants:
 * health.c.  A stray that has shed its markers belongs to nobody we could
 * name; if this is the only world on the node it is this one's, else it
 * stays until the node is given back.
 *
 * The world is gone when no such process and no child of ours is left.  Then what
 * the pipes still hold is taken, directories are removed and the daemon is told.
 * If it is away the part waits with that; and it stays a while after, because a
 * daemon that is killed right then has no record of it.
 */
#include "agent/ending.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "agent/exec.h"
#include "agent/fetch.h"
#include "agent/health.h"
#include "agent/launch.h"
#include "agent/leave.h"
#include "agent/output.h"
#include "agent/report.h"
#include "agent/rsh.h"
#include "agent/store.h"
#include "agent/uplink.h"
#include "agent/worker_sock.h"
#include "proto/log.h"

static const double patience_s = 0.3;
static const double mpirun_ends_s = 0.5; /* its worlds, when it is told to */
static const double kill_after_s = 1;
static const double first_look_s = 0.01;
static const double last_look_s = 0.1;
static const double remember_s = 10;

enum { LOOKS_FOR_WORDS = 20, LOOKS_FOR_OUTPUT = 50 };

/* --- which processes -------------------------------------------------------- */

static int is_of_part(
	const struct part *part, const struct health_proc *proc, int alone)
{
	if (proc->job[0])
		return proc->generation == part->generation &&
		       strcmp(proc->job, part->job) == 0;
	return alone && !exec_knows(part->agent->exec, proc->pid);
}

/* Open MPI's own: told to end by each other, and loud when told by us. */
static int is_mpi_daemon(const struct health_proc *proc)
{
	return !strcmp(proc->name, "orted") || !strcmp(proc->name, "malle-rsh");
}

/* Signal each process of the part (0: only count).  How many there are. */
static int signal_all(struct part *part, int signo)
{
	struct agent *agent = part->agent;
	struct health_who who = { getpid(), agent->config->claim,
		agent->config->cgroup };
	struct health_set set;
	struct err err;
	int n = 0, alone = !agent_holds(agent, part);

	if (health_scan(&who, &set, &err) < 0) {
		log_warning("ending", "%s", err.text);
		return 1; /* not proven to be none */
	}
	for (size_t i = 0; i < set.n; i++) {
		if (!is_of_part(part, &set.procs[i], alone))
			continue;
		n++;
		if (!signo || (signo == SIGTERM && is_mpi_daemon(&set.procs[i])))
			continue;
		log_debug("ending", "signal %d to %s[%d]", signo, set.procs[i].name,
			(int)set.procs[i].pid);
		if (health_signal(&set.procs[i], signo) > 0 && signo == SIGKILL)
			leave_count_killed(agent->leave, &set.procs[i]);
	}
	health_fini(&set);
	return n;
}

static int has_children(const struct part *part)
{
	return part->mpirun || part->n_locals > 0 || part->n_sessions > 0;
}

/* --- done ------------------------------------------------------------------- */

static void done(struct part *part)
{
	struct agent *agent = part->agent;

	part->ending = ENDING_DONE;
	part_event(part, PART_GONE);
	fetch_cancel(part->fetch);
	part->fetch = NULL;
	worker_sock_forget(agent->sock, part);
	launch_clean(part);
	store_sweep(agent->store, part->job);
	log_info("ending", "job %s generation %lld is gone code=%d", part->job,
		part->generation, part->code);
	part->reported = report_exited(part) == 0;
	loop_timer_start(part->timer, remember_s);
	leave_part_gone(agent->leave);
}

/* Remembered long enough, unless the daemon does not know yet. */
static void forget(struct part *part)
{
	if (part->reported && output_flush(part->output))
		agent_let_go(part);
	else
		loop_timer_start(part->timer, remember_s);
}

/* --- the ladder ------------------------------------------------------------- */

static double now(const struct part *part)
{
	return loop_now_s(part->agent->loop);
}

static void to_term(struct part *part, double grace_s)
{
	part->ending = ENDING_TERM;
	part->kill_at_s = now(part) + grace_s;
	part_event(part, PART_ENDS);
	if (part->mpirun)
		exec_signal(part->mpirun, SIGTERM);
	else
		signal_all(part, SIGTERM);
}

static void to_wait(struct part *part, double wait_s)
{
	part->ending = ENDING_WAIT;
	part->kill_at_s = now(part) + wait_s;
	part_event(part, PART_ENDS);
}

static void climb(struct part *part)
{
	double t = now(part);

	if (part->ending == ENDING_WAIT && t >= part->kill_at_s)
		to_term(part, part->grace_s > 0 ? part->grace_s : kill_after_s);
	else if (part->ending == ENDING_TERM && t >= part->kill_at_s)
		part->ending = ENDING_KILL;
	if (part->ending == ENDING_KILL)
		signal_all(part, SIGKILL);
}

static void look_after(struct part *part, double after_s)
{
	part->next_poll_s = after_s;
	loop_timer_start(part->timer, after_s);
}

/* A worker that has ended may have said something that we have not read yet. */
static int has_last_words(struct part *part)
{
	for (const struct part_worker *w = part->workers; w; w = w->next)
		if (w->link)
			return part->n_looks++ < LOOKS_FOR_WORDS;
	return 0;
}

/* Nobody listens for output after the end: a daemon that is there gets it first. */
static int has_output(struct part *part)
{
	output_finish(part->output);
	return !output_flush(part->output) && uplink_link(part->agent->uplink) &&
	       part->n_looks++ < LOOKS_FOR_OUTPUT;
}

static void look(void *arg)
{
	struct part *part = arg;

	if (part->ending == ENDING_DONE) {
		forget(part);
		return;
	}
	if (part->ending == ENDING_NO)
		return;
	/* Counting after the last child: a fork is in its parent's time. */
	if (!has_children(part) && signal_all(part, 0) == 0 && !has_last_words(part) &&
		!has_output(part)) {
		done(part);
		return;
	}
	climb(part);
	look_after(part, part->next_poll_s * 1.5 < last_look_s ? part->next_poll_s * 1.5
							       : last_look_s);
}

int ending_init(struct part *part)
{
	part->timer = loop_timer_create(part->agent->loop, look, part);
	return part->timer ? 0 : -1;
}

void ending_by_itself(struct part *part)
{
	if (part->ending == ENDING_NO)
		to_wait(part, patience_s);
	if (part->ending != ENDING_DONE)
		look_after(part, 0); /* not in the middle of whatever calls us */
}

void ending_failed(struct part *part)
{
	if (part->ending != ENDING_NO)
		return;
	to_term(part, kill_after_s);
	look_after(part, first_look_s);
}

/* mpirun, on another node, has been told too, and ends what is here. */
static void wait_for_mpirun(struct part *part, double grace_s)
{
	part->grace_s = fmax(grace_s - mpirun_ends_s, grace_s / 2);
	to_wait(part, grace_s - part->grace_s);
}

void ending_ordered(struct part *part, double grace_s)
{
	double kill_at_s = now(part) + grace_s;

	if (part->ending == ENDING_DONE)
		return;
	part->asked = 1;
	if (part->ending == ENDING_NO && part->n_sessions > 0 && !part->mpirun &&
		grace_s > 0)
		wait_for_mpirun(part, grace_s);
	else if (part->ending == ENDING_NO)
		to_term(part, grace_s);
	else if (kill_at_s < part->kill_at_s && part->ending == ENDING_WAIT)
		to_term(part, grace_s);
	else
		part->kill_at_s = fmin(part->kill_at_s, kill_at_s);
	climb(part);
	look_after(part, first_look_s);
}

void ending_broken(struct part *part, int code, const char *reason)
{
	if (part->ending != ENDING_NO)
		return;
	log_warning("ending", "job %s generation %lld: %s", part->job, part->generation,
		reason);
	part->code = code;
	snprintf(part->reason, sizeof(part->reason), "%s", reason);
	to_term(part, kill_after_s);
	look_after(part, first_look_s);
}
