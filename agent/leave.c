/*
 * leave.c - how the agent gives its node back.
 *
 *	stay     nothing is wanted
 *	noticed  the scheduler told us (SIGTERM) and we told the daemon, which moves
 *	         its jobs off the node and then orders the release.  The notice has
 *	         a deadline; near it, or without a daemon, we go by ourselves
 *	ending   worlds are ended by their ladders, states are spooled
 *	sweeping no world is left; whatever of ours still runs is killed, until a
 *	         look finds nothing
 *	done     the daemon is told, then the agent exits
 *
 * The ladder ends before the deadline does: with a deadline in d seconds,
 * SIGTERM to what is left at d - 2, SIGKILL at d - 1 (short ones are divided: at
 * d/2 and 3d/4).  On the daemon's order it has nothing more to wait for: SIGTERM
 * now, SIGKILL after the half of what there is, at most two seconds.
 *
 * A state that is being spooled holds the end up until a quarter second before
 * the deadline: it may be hours of training.
 *
 * "Clean" is the result of a look at all processes, the last thing that is
 * done, and not a belief.  If something cannot be killed the deadline ends the
 * waiting and the daemon is told what is left.
 */
#include "agent/leave.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/ending.h"
#include "agent/exec.h"
#include "agent/output.h"
#include "agent/spooler.h"
#include "agent/store.h"
#include "agent/uplink.h"
#include "proto/log.h"

enum state { STAY = 0, NOTICED, ENDING, SWEEPING, DONE };
enum { REMEMBERED = 64 };

static const double look_s = 0.02;
static const double last_margin_s = 0.25;
static const double without_daemon_s = 1.5; /* it may just be restarting */
static const double orphan_grace_s = 5;
static const double flush_limit_s = 1;

struct leave {
	struct agent *agent;
	enum state state;
	int ordered, exit_code;
	double began_s, deadline_s, kill_at_s;
	double alone_at_s; /* noticed: then we go by ourselves */
	int killed;
	struct {
		pid_t pid;
		unsigned long long start;
	} seen[REMEMBERED]; /* of those killed, the newest */
	char left[200];     /* what the last look found */
	struct loop_signal *term, *intr;
	struct loop_timer *timer;
};

static void step(void *arg);

static double now(const struct leave *leave)
{
	return loop_now_s(leave->agent->loop);
}

/* --- looking ---------------------------------------------------------------- */

void leave_count_killed(struct leave *leave, const struct health_proc *proc)
{
	int n = leave->killed < REMEMBERED ? leave->killed : REMEMBERED;

	for (int i = 0; i < n; i++)
		if (leave->seen[i].pid == proc->pid &&
			leave->seen[i].start == proc->start)
			return;
	leave->seen[leave->killed % REMEMBERED].pid = proc->pid;
	leave->seen[leave->killed % REMEMBERED].start = proc->start;
	leave->killed++;
}

/* Kill whatever of ours there is.  How many there were; -1: not known. */
static int sweep(struct leave *leave)
{
	const struct agent_config *config = leave->agent->config;
	struct health_who who = { getpid(), config->claim, config->cgroup };
	struct health_set set;
	struct err err;
	int n;

	if (health_scan(&who, &set, &err) < 0) {
		snprintf(leave->left, sizeof(leave->left), "not known: %.180s",
			err.text);
		return -1;
	}
	for (size_t i = 0; i < set.n; i++) {
		log_info("leave", "kill %s[%d]", set.procs[i].name,
			(int)set.procs[i].pid);
		if (health_signal(&set.procs[i], SIGKILL) > 0)
			leave_count_killed(leave, &set.procs[i]);
	}
	health_describe(&set, leave->left, sizeof(leave->left));
	n = (int)set.n;
	health_fini(&set);
	return n;
}

/* --- going ------------------------------------------------------------------ */

static void finish(void *arg)
{
	struct leave *leave = arg;

	agent_stop(leave->agent, leave->exit_code);
}

static void tell_released(struct leave *leave, int clean)
{
	json_t *body = json_pack("{s:b, s:i, s:f}", "clean", clean, "killed",
		leave->killed, "took_s", now(leave) - leave->began_s);

	if (body && !clean)
		json_object_set_new(body, "left", json_string(leave->left));
	uplink_send(leave->agent->uplink, MSG_NODE_RELEASED, body);
}

static void go(struct leave *leave, int clean)
{
	leave->state = DONE;
	if (!clean) {
		log_err("leave", "node %s is not clean: %s", leave->agent->config->node,
			leave->left);
		if (leave->exit_code == EXIT_OK)
			leave->exit_code = EXIT_INTERNAL;
	}
	log_info("leave", "node %s is left clean=%d killed=%d took_s=%.3f",
		leave->agent->config->node, clean, leave->killed,
		now(leave) - leave->began_s);
	tell_released(leave, clean);
	leave->deadline_s = now(leave) + flush_limit_s;
	step(leave);
}

static void begin_ending(struct leave *leave, double grace_s, double kill_after_s)
{
	struct part *next;

	leave->state = ENDING;
	leave->deadline_s = now(leave) + grace_s;
	leave->kill_at_s = now(leave) + kill_after_s;
	for (struct part *part = leave->agent->parts; part; part = next) {
		next = part->next;
		ending_ordered(part, kill_after_s);
	}
	step(leave);
}

/* --- the steps -------------------------------------------------------------- */

static int may_sweep(const struct leave *leave)
{
	if (now(leave) >= leave->deadline_s - last_margin_s)
		return 1;
	return !agent_holds(leave->agent, NULL) &&
	       !spooler_is_busy(leave->agent->spooler);
}

static void step_sweeping(struct leave *leave)
{
	int n = sweep(leave);

	if (n == 0)
		go(leave, 1);
	else if (now(leave) >= leave->deadline_s)
		go(leave, 0);
	else
		loop_timer_start(leave->timer, look_s);
}

/* The last words of workers, and ours, are with the daemon. */
static int is_flushed(const struct leave *leave)
{
	int flushed = 1;

	if (!uplink_link(leave->agent->uplink))
		return 1;
	for (struct part *part = leave->agent->parts; part; part = part->next)
		flushed &= output_flush(part->output);
	return flushed && uplink_queued(leave->agent->uplink) == 0;
}

static void step(void *arg)
{
	struct leave *leave = arg;

	switch (leave->state) {
	case STAY:
		break;
	case NOTICED:
		if (now(leave) >= leave->alone_at_s)
			leave_alone(leave, EXIT_PREEMPTED);
		else
			loop_timer_start(leave->timer, leave->alone_at_s - now(leave));
		break;
	case ENDING:
		if (may_sweep(leave)) {
			leave->state = SWEEPING;
			step_sweeping(leave);
		} else {
			loop_timer_start(leave->timer, look_s);
		}
		break;
	case SWEEPING:
		step_sweeping(leave);
		break;
	case DONE:
		if (is_flushed(leave) || now(leave) >= leave->deadline_s)
			finish(leave);
		else
			loop_timer_start(leave->timer, look_s);
		break;
	}
}

/* --- what makes it leave ---------------------------------------------------- */

static void spool_jobs(struct leave *leave, const json_t *jobs)
{
	size_t i;
	json_t *job;

	json_array_foreach (jobs, i, job)
		spooler_save(leave->agent->spooler, json_string_value(job), 1);
}

void leave_ordered(struct leave *leave, const struct msg *release)
{
	double grace_s = msg_real(release, "grace_s");

	if (leave->ordered || leave->state >= SWEEPING)
		return;
	log_info("leave", "node %s is to be left grace_s=%.1f%s%s",
		leave->agent->config->node, grace_s,
		msg_has(release, "reason") ? ": " : "",
		msg_has(release, "reason") ? msg_str(release, "reason") : "");
	leave->ordered = 1;
	leave->exit_code = EXIT_OK;
	leave->began_s = now(leave);
	leave->killed = 0;
	spool_jobs(leave, msg_json(release, "spool"));
	/* No time at all is still time for a look. */
	begin_ending(leave, fmax(grace_s, 2 * last_margin_s), fmin(grace_s / 2, 2));
}

/* Nobody says which states matter: all that have a spool. */
static void spool_one(const char *job, const struct store_entry *entry, void *arg)
{
	struct leave *leave = arg;

	spooler_save(leave->agent->spooler, job, 1);
}

void leave_alone(struct leave *leave, int exit_code)
{
	double left_s = orphan_grace_s;

	if (leave->state >= ENDING)
		return;
	if (leave->state == NOTICED)
		left_s = fmax(leave->deadline_s - now(leave), 2 * last_margin_s);
	else
		leave->began_s = now(leave);
	log_notice("leave", "node %s is left without an order",
		leave->agent->config->node);
	leave->exit_code = exit_code;
	store_each(leave->agent->store, spool_one, leave);
	begin_ending(leave, left_s, left_s / 2);
}

static double alone_after(const struct leave *leave)
{
	double grace_s = leave->agent->config->grace_s;

	return grace_s > 4 ? grace_s - 2 : grace_s / 2;
}

static void send_notice(struct leave *leave)
{
	double left_s = leave->deadline_s - now(leave);

	uplink_send(leave->agent->uplink, MSG_NODE_NOTICE,
		json_pack(
			"{s:f, s:s}", "grace_s", fmax(left_s, 0), "reason", "SIGTERM"));
}

static void noticed(int signo, void *arg)
{
	struct leave *leave = arg;

	if (leave->state != STAY)
		return;
	log_notice("leave", "signal %d: node %s is wanted back grace_s=%.1f", signo,
		leave->agent->config->node, leave->agent->config->grace_s);
	leave->state = NOTICED;
	leave->began_s = now(leave);
	leave->deadline_s = now(leave) + leave->agent->config->grace_s;
	leave->alone_at_s = now(leave) + alone_after(leave);
	if (uplink_link(leave->agent->uplink))
		send_notice(leave);
	else
		leave_daemon_gone(leave);
	step(leave);
}

void leave_daemon_there(struct leave *leave)
{
	if (leave->state != NOTICED)
		return;
	leave->alone_at_s = leave->began_s + alone_after(leave);
	send_notice(leave);
	step(leave);
}

void leave_daemon_gone(struct leave *leave)
{
	if (leave->state != NOTICED)
		return;
	leave->alone_at_s = fmin(leave->alone_at_s, now(leave) + without_daemon_s);
	if (!leave->agent->parts)
		leave->alone_at_s = now(leave);
	step(leave);
}

void leave_part_gone(struct leave *leave)
{
	if (leave->state == ENDING)
		loop_timer_start(leave->timer, 0);
}

void leave_spooled(struct leave *leave, const char *job, int ok)
{
	leave_part_gone(leave);
}

int leave_is_on(const struct leave *leave)
{
	return leave->state >= ENDING;
}

struct leave *leave_create(struct agent *agent, struct err *err)
{
	struct leave *leave = calloc(1, sizeof(*leave));

	if (!leave)
		goto fail;
	leave->agent = agent;
	leave->timer = loop_timer_create(agent->loop, step, leave);
	leave->term = loop_signal_create(agent->loop, SIGTERM, noticed, leave);
	leave->intr = loop_signal_create(agent->loop, SIGINT, noticed, leave);
	if (leave->timer && leave->term && leave->intr)
		return leave;
fail:
	leave_destroy(leave);
	err_set(err, ENOMEM, "giving the node back: out of memory");
	return NULL;
}

void leave_destroy(struct leave *leave)
{
	if (!leave)
		return;
	loop_signal_destroy(leave->term);
	loop_signal_destroy(leave->intr);
	loop_timer_destroy(leave->timer);
	free(leave);
}
