/*
 * life.c - what becomes of jobs and worlds.
 *
 * A world ends in one of four ways.  It left at an agreed step (rescale.c); it
 * was ended because nobody wants it; it finished the training; or it broke.
 * Only the last is a failure, and only when no node was lost with it: exits
 * that we asked for never count, whatever their code.
 *
 * A job that lost its world waits, holding nothing, and is started again by the
 * cycle from the newest state that any node (or the spool) has.  After
 * max_restarts failures without a single step in between it ends, with the
 * code of its launcher.  A program that fails before any worker was ever ready
 * is not restarted: it would only fail again.
 *
 * When a node is wanted back, life_job_give_back shrinks the job at once,
 * without asking the solver: to the members that stay, topped up with free
 * nodes where those would be fewer than the job's minimum, or to none.
 */
#include "daemon/life.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/cycle.h"
#include "daemon/order.h"
#include "daemon/peer.h"
#include "daemon/rescale.h"
#include "proto/log.h"

#define KILL_GRACE_S 2.0
#define EXIT_LIMIT_S 5.0 /* for a world to be gone after it has left */
#define LAST_WORDS_S 300.0 /* the same, after the end of the training: it evaluates */
#define RETRY_S 0.5      /* doubled with each failure in a row, to a minute */

static double now(const struct ctld *ctld)
{
	return loop_now_s(ctld->loop);
}

/* --- worlds ---------------------------------------------------------------- */

void life_world_end(struct ctld *ctld, struct world *world, const char *why)
{
	if (!world || world->killed || world->buried)
		return;
	log_info("world", "job %s generation %lld is ended: %s", world->job->id,
		world->generation, why);
	world->killed = 1;
	world->phase = WORLD_EXITING;
	world->ended_at_s = now(ctld);
	order_world_kill(world, KILL_GRACE_S);
	if (world->job->current == world)
		world->job->current = NULL;
	rescale_forget_world(world);
	if (world->job->rescale)
		rescale_advance(world->job->rescale);
}

static void count_failure(struct ctld *ctld, struct job *job, const struct world *world)
{
	double wait_s = RETRY_S * (1 << (job->restarts < 7 ? job->restarts : 7));

	job->failures++;
	job->restarts++;
	job->retry_at_s = now(ctld) + fmin(wait_s, 60);
	if (job->restarts > ctld->config.max_restarts)
		life_job_end(ctld, job, world->launcher_exited && world->code ? world->code : 1,
			"it failed too often without progress");
}

/* Without this world the job has none that trains: it is not only rolled back. */
static int job_depends_on(const struct world *world)
{
	const struct job *job = world->job;

	if (job->current == world)
		return 1;
	return job->rescale && job->rescale->to == world &&
	       (!job->current || job->current->phase == WORLD_LEFT);
}

void life_world_lost(struct ctld *ctld, struct world *world, const char *why, int by_node)
{
	struct job *job;
	int depends;

	if (!world || world->killed == 2 || world->buried)
		return;
	job = world->job;
	log_notice("world", "job %s generation %lld is lost: %s", job->id, world->generation,
		why);
	journal_write(ctld->journal, "lost",
		json_pack("{s:s, s:I, s:s, s:b}", "job", job->id, "generation",
			(json_int_t)world->generation, "reason", why, "by_node", by_node));
	ctld_account(ctld);
	world->killed = 2;
	world->phase = WORLD_EXITING;
	world->ended_at_s = now(ctld);
	order_world_kill(world, 0);
	depends = job_depends_on(world);
	if (job->current == world) {
		job->current = NULL;
		life_job_runs(ctld, job, why);
	}
	if (depends && !by_node)
		count_failure(ctld, job, world);
	else if (depends)
		job->failures++;
	rescale_forget_world(world);
	if (job->rescale)
		rescale_advance(job->rescale);
	life_world_changed(ctld, world);
	cycle_poke(ctld->cycle, "world lost");
}

static int any_left(const struct world *world)
{
	for (size_t i = 0; i < world->n_members; i++)
		if (world->members[i].left)
			return 1;
	return 0;
}

/*
 * Some members have left, others have not said so yet.  Agents are heard in any
 * order: that the launcher has ended says nothing before the last of them.
 */
static int is_leaving(const struct world *world)
{
	for (size_t i = 0; i < world->n_members; i++)
		if (!world->members[i].left && !world->members[i].exited)
			return any_left(world);
	return 0;
}

/* The launcher ended by itself: a normal end, or a failure. */
static void world_ended_itself(struct ctld *ctld, struct world *world)
{
	struct job *job = world->job;
	char why[96];

	if (job->cancelled) {
		life_job_end(ctld, job, world->code ? world->code : EXIT_PREEMPTED,
			"cancelled");
	} else if (job->current && job->current != world) {
		life_world_lost(ctld, world, "its launcher exited before it was ready", 0);
	} else if (world->code == 0 && (world->finished || !any_left(world))) {
		life_job_end(ctld, job, 0, "done");
	} else if (!world_any_ready(world) && job->n_copies == 0 && job->start_s == 0) {
		life_job_end(ctld, job, world->code, "it failed at its start");
	} else {
		snprintf(why, sizeof(why), "its launcher exited with %d", world->code);
		life_world_lost(ctld, world, why, 0);
	}
}

static int wanted_world(const struct world *world)
{
	const struct job *job = world->job;

	return !world->killed && world->phase != WORLD_LEFT &&
	       (job->current == world || (job->rescale && job->rescale->to == world));
}

/* A node that is wanted back has ended its part: the others wait for it in vain. */
static int was_cut(const struct world *world)
{
	for (size_t i = 0; i < world->n_members; i++)
		if (world->members[i].exited && !world->members[i].left &&
			isfinite(world->members[i].node->due_s))
			return 1;
	return 0;
}

static void put_away(struct ctld *ctld, struct world *world)
{
	struct job *job = world->job;
	struct node **nodes = calloc(world->n_members, sizeof(*nodes));
	size_t n = nodes ? world->n_members : 0;

	for (size_t i = 0; i < n; i++)
		nodes[i] = world->members[i].node;
	journal_write(ctld->journal, "gone",
		json_pack("{s:s, s:I, s:i}", "job", job->id, "generation",
			(json_int_t)world->generation, "code", world->code));
	rescale_forget_world(world);
	world_unlink(world);
	world->next = ctld->buried;
	ctld->buried = world;
	for (size_t i = 0; i < n; i++)
		ctld_node_changed(ctld, nodes[i]);
	free(nodes);
}

/*
 * The training was complete, but a node was taken before the workers had said
 * their last word (an evaluation): a world that starts from the last state says
 * it again.
 */
static int cut_short(const struct world *world)
{
	if (!world->finished || (world->launcher_exited && world->code == 0))
		return 0;
	if (!world->launcher_exited)
		return 1;
	for (size_t i = 0; i < world->n_members; i++)
		if (isfinite(world->members[i].node->due_s) || !world->members[i].node->link)
			return 1;
	return 0;
}

/*
 * The last process of a world is gone.  The job ends with its last world, which
 * need not be the one that finished: another may have been coming up meanwhile.
 */
static void bury(struct ctld *ctld, struct world *world)
{
	struct job *job = world->job;
	int code = world->killed ? 0 : world->code;

	if (world->finished && job->state != JOB_ENDED) {
		job->finished = world_all_left(world) && !cut_short(world);
		job->exit_code = code;
	}
	if (job->current == world)
		job->current = NULL;
	put_away(ctld, world);
	cycle_poke(ctld->cycle, "world gone");
	if (job->state == JOB_ENDED || job->worlds)
		return;
	if (job->finished)
		life_job_end(ctld, job, job->exit_code, "done");
	else if (job->cancelled)
		life_job_end(ctld, job, code ? code : EXIT_PREEMPTED, "cancelled");
}

void life_world_changed(struct ctld *ctld, struct world *world)
{
	struct job *job = world->job;

	if (world->buried)
		return;
	/* Not before all agents are back: what it means is said by restore.c. */
	if (ctld->adopt_until_s > 0 && world != job->current)
		return;
	if (world->phase == WORLD_STARTING && world_all_ready(world, job->request.nproc))
		world->phase = WORLD_READY;
	if ((world->phase == WORLD_RUNNING || world->phase == WORLD_STARTING ||
		    world->phase == WORLD_READY) &&
		world_all_left(world)) {
		world->phase = WORLD_LEFT;
		world->ended_at_s = now(ctld);
		ctld_account(ctld);
	}
	if (world->launcher_exited && world->ended_at_s == 0)
		world->ended_at_s = now(ctld);
	if (wanted_world(world) && was_cut(world)) {
		life_world_lost(ctld, world, "a node was given back before it had left", 1);
		return; /* that has followed it to its end */
	}
	if (world->launcher_exited && wanted_world(world) && !is_leaving(world)) {
		world_ended_itself(ctld, world);
		if (world->buried)
			return;
	}
	if (world_all_exited(world)) {
		bury(ctld, world);
		if (job->state == JOB_ENDED)
			return;
	}
	if (job->rescale)
		rescale_advance(job->rescale);
	else
		life_job_runs(ctld, job, NULL);
}

/* --- jobs ------------------------------------------------------------------- */

static enum job_state derive(const struct job *job)
{
	const struct rescale *rescale = job->rescale;

	if (job->state == JOB_ENDED)
		return JOB_ENDED;
	if (job->cancelled)
		return JOB_STOPPING;
	if (job->held)
		return job->worlds ? JOB_PAUSING : JOB_PAUSED;
	if (rescale && rescale->kind == RESCALE_PAUSE)
		return JOB_PAUSING;
	if (job->current)
		return JOB_RUNNING;
	return rescale && rescale->to ? JOB_STARTING : JOB_WAITING;
}

void life_job_runs(struct ctld *ctld, struct job *job, const char *reason)
{
	enum job_state state = derive(job);
	int changed = state != job->state;

	if (reason && strcmp(reason, job->reason)) {
		snprintf(job->reason, sizeof(job->reason), "%s", reason);
		changed = 1;
	} else if (!reason && job->reason[0] &&
		(state == JOB_RUNNING || (changed && state == JOB_STARTING))) {
		job->reason[0] = '\0';
	}
	if (state == JOB_RUNNING && job->start_s == 0)
		job->start_s = loop_wall_s(ctld->loop);
	if (!changed && !(job->rescale && job->rescale->go_s > 0))
		return;
	job->state = state;
	journal_write(ctld->journal, "state",
		json_pack("{s:s, s:s, s:s, s:b}", "job", job->id, "state",
			job_state_name(state), "reason", job->reason, "held", job->held));
	peers_tell_state(ctld->peers, job);
}

void life_job_settled(struct ctld *ctld, struct job *job, int failed)
{
	if (job->state == JOB_ENDED)
		return;
	life_job_runs(ctld, job, failed && !job->current ? "its start failed" : NULL);
	if (failed && !job->current && job->worlds == NULL)
		job->restarts++;
	if (job->restarts > ctld->config.max_restarts && !job->current) {
		life_job_end(ctld, job, 1, "it could not be started");
		return;
	}
	life_job_give_back(ctld, job);
	cycle_poke(ctld->cycle, "transaction closed");
}

void life_job_end(struct ctld *ctld, struct job *job, int exit_code, const char *reason)
{
	if (job->state == JOB_ENDED)
		return;
	ctld_account(ctld);
	job->state = JOB_ENDED;
	job->exit_code = exit_code;
	job->end_s = loop_wall_s(ctld->loop);
	snprintf(job->reason, sizeof(job->reason), "%s", reason);
	log_info("job", "job %s ended code=%d why=\"%s\" cursor=%lld", job->id, exit_code,
		reason, job->cursor);
	journal_commit(ctld->journal, "end",
		json_pack("{s:s, s:i, s:s, s:I}", "job", job->id, "code", exit_code, "reason",
			reason, "cursor", (json_int_t)job->cursor));
	rescale_drop(job, reason);
	for (struct world *world = job->worlds; world; world = world->next)
		if (!world->launcher_exited)
			life_world_end(ctld, world, reason);
	order_state_drop(ctld->pool, job);
	peers_tell_state(ctld->peers, job);
	cycle_poke(ctld->cycle, "job ended");
}

static int leave_world(struct ctld *ctld, struct job *job, enum rescale_kind kind,
	int forced, const char *why)
{
	if (job->rescale && job->rescale->kind == kind)
		return 0;
	if (job->rescale && (job->rescale->phase == PHASE_PREPARE ||
				    job->rescale->phase == PHASE_AGREE))
		rescale_drop(job, why);
	if (job->rescale || !job->current)
		return 0; /* taken up again when that transaction is closed */
	return rescale_begin(ctld, job, kind, forced, NULL, 0, why);
}

int life_job_cancel(struct ctld *ctld, struct job *job, int force, struct err *err)
{
	if (job->state == JOB_ENDED)
		return err_set(err, EINVAL, "job %s has ended already", job->id);
	job->cancelled = force ? 2 : 1;
	journal_commit(ctld->journal, "cancel",
		json_pack("{s:s, s:b}", "job", job->id, "force", force));
	if (force || (!job->current && !job->rescale)) {
		life_job_end(ctld, job, EXIT_PREEMPTED, force ? "cancelled by force" : "cancelled");
		return 0;
	}
	if (!job->current || !world_any_ready(job->current)) {
		/* It never joined: nothing to agree on, SIGTERM is the way. */
		life_job_end(ctld, job, EXIT_PREEMPTED, "cancelled");
		return 0;
	}
	life_job_runs(ctld, job, "cancelled");
	leave_world(ctld, job, RESCALE_STOP, 0, "cancelled");
	return 0;
}

int life_job_pause(struct ctld *ctld, struct job *job, struct err *err)
{
	if (job->state == JOB_ENDED || job->cancelled)
		return err_set(err, EINVAL, "job %s has ended or is ending", job->id);
	if (job->held)
		return err_set(err, EINVAL, "job %s is paused already", job->id);
	job->held = 1;
	life_job_runs(ctld, job, "paused by request");
	leave_world(ctld, job, RESCALE_PAUSE, 0, "paused by request");
	return 0;
}

int life_job_resume(struct ctld *ctld, struct job *job, struct err *err)
{
	if (!job->held || job->state == JOB_ENDED)
		return err_set(err, EINVAL, "job %s is not paused", job->id);
	job->held = 0;
	life_job_runs(ctld, job, "resumed");
	cycle_poke(ctld->cycle, "resumed");
	return 0;
}

/* Members of the current world that stay, then free nodes up to the minimum. */
static size_t who_stays(struct ctld *ctld, struct job *job, struct node **stay)
{
	struct world *world = job->current;
	size_t n = 0, min = (size_t)job->request.min_nodes;

	for (size_t i = 0; i < world->n_members; i++)
		if (node_is_usable(world->members[i].node))
			stay[n++] = world->members[i].node;
	for (size_t i = 0; n < min && i < pool_count(ctld->pool); i++)
		if (node_is_free(pool_at(ctld->pool, i)))
			stay[n++] = pool_at(ctld->pool, i);
	return n < min ? 0 : n;
}

static int world_is_due(const struct world *world)
{
	for (size_t i = 0; world && i < world->n_members; i++)
		if (isfinite(world->members[i].node->due_s) && !world->members[i].exited)
			return 1;
	return 0;
}

void life_job_give_back(struct ctld *ctld, struct job *job)
{
	struct rescale *rescale = job->rescale;
	struct node **stay;
	size_t n;

	if (rescale && rescale->to && rescale->phase == PHASE_PREPARE &&
		world_is_due(rescale->to))
		rescale_drop(job, "a node of the next world is wanted back");
	if (job->state == JOB_ENDED || !world_is_due(job->current))
		return;
	if (job->cancelled || job->held) {
		leave_world(ctld, job, job->cancelled ? RESCALE_STOP : RESCALE_PAUSE, 1,
			"a node is wanted back");
		return;
	}
	if (job->rescale && job->rescale->phase == PHASE_PREPARE && !job->rescale->forced)
		rescale_drop(job, "a node is wanted back");
	if (job->rescale)
		return; /* it leaves its nodes anyway; then this is called again */
	stay = calloc(pool_count(ctld->pool) + 1, sizeof(*stay));
	if (!stay)
		return;
	n = who_stays(ctld, job, stay);
	if (rescale_begin(ctld, job, n ? RESCALE_SHRINK : RESCALE_PAUSE, 1, stay, n,
		    "a node is wanted back") == 0 &&
		n == 0)
		life_job_runs(ctld, job, "too few nodes were left");
	free(stay);
}

void life_job_tick(struct ctld *ctld, struct job *job)
{
	struct world *next;
	double t = now(ctld);

	for (struct world *world = job->worlds; world; world = next) {
		int by_itself = world->finished || job->cancelled ||
			(world->launcher_exited && world->code == 0);
		double limit_s = by_itself ? LAST_WORDS_S : EXIT_LIMIT_S;

		next = world->next;
		if (world->ended_at_s > 0 && !world->killed &&
			t - world->ended_at_s > limit_s)
			life_world_end(ctld, world, "it lingered after it had left");
	}
	if (job->state == JOB_ENDED || !job->current || job->rescale)
		return;
	if (job->cancelled)
		leave_world(ctld, job, RESCALE_STOP, 0, "cancelled");
	else if (job->held)
		leave_world(ctld, job, RESCALE_PAUSE, 0, "paused by request");
	else if (job->current->phase == WORLD_RUNNING && world_any_ready(job->current) &&
		t - job->progress_at_s > ctld->config.stall_s + 20 * job->step_s)
		life_world_lost(ctld, job->current, "it makes no steps", 0);
}
