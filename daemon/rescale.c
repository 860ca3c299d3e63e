/*
 * rescale.c - the transaction that moves a job from one world to the next.
 *
 * Two things happen at the same time and are looked at together.  The world
 * that trains (`from`) is running, is being asked to leave at a step, has
 * agreed to, has left, or is gone.  The world that is to follow (`to`) is not
 * wanted, is coming up, is ready, or has failed.  `actions` says what to do in
 * each of the combinations; rescale_advance does it until there is nothing to do.
 *
 *                   to: not wanted  coming up   ready      failed
 *   from: running       propose     wait (1)    propose    roll back (2)
 *         asked         wait        wait        wait       withdraw (2)
 *         agreed        wait        wait        wait       wait
 *         left, gone    finish      wait        go         abandon
 *
 *   (1) propose, when a node must be given back before the next world is up
 *   (2) go on instead, when a node must be given back: the job has to leave anyway
 *
 * So survivors train until the joiners are ready, and a joiner that fails or is
 * late costs them nothing; a node that is wanted back is left in time, at the
 * price of a pause.  The step is agreed in two rounds (propose, commit): a
 * worker that said yes and reaches the step before the commit waits there, and
 * a newer proposal replaces an older one.  That makes all ranks leave at one
 * step without a collective of ours in their loop.
 *
 * Every wait has an end: joiners by prepare_limit_s, an agreement by a newer
 * proposal each second or so and in the end by a kill, leaving by a kill.
 * A kill costs the steps since the newest saved state, never a sample.
 */
#include "daemon/rescale.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/cycle.h"
#include "daemon/life.h"
#include "daemon/order.h"
#include "proto/log.h"

#define TICK_S 0.1
#define AGREE_TRIES 8
#define LEAVE_LIMIT_S 10.0
#define HANDOVER_LIMIT_S 30.0
#define PAUSE_MAX_S 3600.0 /* the clocks of nodes may say anything */

enum from_state { FROM_RUNNING, FROM_ASKED, FROM_AGREED, FROM_LEFT, FROM_GONE };
enum to_state { TO_NONE, TO_COMING, TO_READY, TO_FAILED };
enum action { WAIT, PROPOSE, ROLL_BACK, WITHDRAW, FINISH, GO, ABANDON };

static const enum action actions[5][4] = {
	/*                 not wanted  coming up  ready    failed */
	[FROM_RUNNING] = { PROPOSE,    WAIT,      PROPOSE, ROLL_BACK },
	[FROM_ASKED] =   { WAIT,       WAIT,      WAIT,    WITHDRAW },
	[FROM_AGREED] =  { WAIT,       WAIT,      WAIT,    WAIT },
	[FROM_LEFT] =    { FINISH,     WAIT,      GO,      ABANDON },
	[FROM_GONE] =    { FINISH,     WAIT,      GO,      ABANDON },
};

static const char *const kind_names[] = {
	[RESCALE_UNSET] = "unset",
	[RESCALE_START] = "start",
	[RESCALE_GROW] = "grow",
	[RESCALE_SHRINK] = "shrink",
	[RESCALE_MOVE] = "move",
	[RESCALE_PAUSE] = "pause",
	[RESCALE_STOP] = "stop",
};

static const char *const phase_names[] = {
	[PHASE_UNSET] = "unset",
	[PHASE_PREPARE] = "prepare",
	[PHASE_AGREE] = "agree",
	[PHASE_COMMIT] = "commit",
	[PHASE_HANDOVER] = "handover",
};

const char *rescale_kind_name(enum rescale_kind kind)
{
	return kind_names[kind];
}

static double now(const struct rescale *rescale)
{
	return loop_now_s(rescale->ctld->loop);
}

static enum from_state from_state(const struct rescale *rescale)
{
	if (!rescale->from)
		return FROM_GONE;
	if (rescale->from->phase == WORLD_LEFT)
		return FROM_LEFT;
	if (rescale->phase == PHASE_COMMIT)
		return FROM_AGREED;
	return rescale->proposal ? FROM_ASKED : FROM_RUNNING;
}

static enum to_state to_state(const struct rescale *rescale)
{
	if (!rescale->wants_world)
		return TO_NONE;
	if (!rescale->to)
		return TO_FAILED;
	return rescale->to->phase == WORLD_READY ? TO_READY : TO_COMING;
}

/* When a forced transaction must have asked, to leave before the deadline. */
static double propose_by(const struct rescale *rescale)
{
	double due_s = INFINITY, reserve_s;

	if (!rescale->forced)
		return INFINITY;
	for (size_t i = 0; rescale->from && i < rescale->from->n_members; i++)
		due_s = fmin(due_s, rescale->from->members[i].node->due_s);
	reserve_s = 1.5 + 4 * rescale->job->step_s;
	return due_s - reserve_s;
}

static enum action choose(const struct rescale *rescale)
{
	enum from_state from = from_state(rescale);
	enum to_state to = to_state(rescale);
	int must_leave = now(rescale) >= propose_by(rescale);

	if (rescale->forced && to == TO_FAILED && from == FROM_RUNNING)
		return PROPOSE;
	if (rescale->forced && to == TO_FAILED && from == FROM_ASKED)
		return WAIT;
	if (must_leave && from == FROM_RUNNING && to == TO_COMING)
		return PROPOSE;
	return actions[from][to];
}

/*
 * Where the world will be when the proposal has reached everybody, and a little
 * more after each try that came too late.
 */
static long long step_ahead(const struct rescale *rescale)
{
	const struct job *job = rescale->job;
	double step_s = job->step_s > 0 ? job->step_s : 0.05;
	double since = now(rescale) - job->progress_at_s;
	double margin_s = 0.06 * (1 << (rescale->tries < 6 ? rescale->tries : 6));

	if (since > 4 * step_s + 0.5)
		since = 4 * step_s + 0.5;
	return job->step + 1 + (long long)ceil(since / step_s) +
		(long long)ceil(margin_s / step_s);
}

static void propose(struct rescale *rescale)
{
	struct world *from = rescale->from;
	long long step = step_ahead(rescale);

	if (rescale->proposal && step <= rescale->step)
		step = rescale->step + 1;
	rescale->step = step;
	rescale->proposal = ++from->proposals;
	rescale->asked_at_s = now(rescale);
	if (rescale->agree_s == 0)
		rescale->agree_s = now(rescale);
	rescale->phase = PHASE_AGREE;
	for (size_t i = 0; i < from->n_members; i++)
		from->members[i].answered = 0;
	order_world_propose(from, rescale->proposal, step, rescale->verdict);
}

static void commit(struct rescale *rescale)
{
	rescale->phase = PHASE_COMMIT;
	rescale->asked_at_s = now(rescale);
	journal_write(rescale->ctld->journal, "commit",
		json_pack("{s:s, s:I, s:I}", "job", rescale->job->id, "generation",
			(json_int_t)rescale->from->generation, "step",
			(json_int_t)rescale->step));
	order_world_commit(rescale->from, rescale->proposal);
}

void rescale_answered(struct world *world, struct member *member, int proposal, int agreed,
	long long step)
{
	struct rescale *rescale = world->job->rescale;

	if (step > world->job->step)
		world->job->step = step;
	if (!rescale || rescale->from != world || rescale->phase != PHASE_AGREE ||
		proposal != rescale->proposal)
		return; /* of an older proposal, or nobody waits for it */
	if (!agreed) {
		/* Too often: a worker that is no more says no at once, for ever. */
		if (++rescale->tries <= AGREE_TRIES)
			propose(rescale);
		return;
	}
	member->answered = proposal;
	for (size_t i = 0; i < world->n_members; i++)
		if (world->members[i].answered != proposal)
			return;
	commit(rescale);
}

static void record(struct rescale *rescale, const char *result, double pause_s)
{
	journal_write(rescale->ctld->journal, "rescale",
		json_pack("{s:s, s:s, s:s, s:b, s:i, s:i, s:f, s:f, s:f, s:f, s:f}", "job",
			rescale->job->id, "kind", rescale_kind_name(rescale->kind), "result",
			result, "forced", rescale->forced, "from", rescale->from_n, "to",
			rescale->to_n, "pause_s", pause_s, "prepare_s",
			rescale->ready_s > 0 ? rescale->ready_s - rescale->began_s : 0.0,
			"agree_s",
			rescale->left_s > 0 && rescale->agree_s > 0
				? rescale->left_s - rescale->agree_s
				: 0.0,
			"handover_s",
			rescale->go_s > 0 && rescale->left_s > 0
				? rescale->go_s - rescale->left_s
				: 0.0,
			"first_step_s",
			rescale->go_s > 0 ? now(rescale) - rescale->go_s : 0.0));
}

/* The end of every transaction, whatever became of it. */
static void close_transaction(struct rescale *rescale, const char *result, double pause_s)
{
	struct ctld *ctld = rescale->ctld;
	struct job *job = rescale->job;
	int failed = !strcmp(result, "failed");

	record(rescale, result, pause_s);
	log_info("rescale", "job %s: %s %s nodes=%d->%d forced=%d pause_s=%.3f", job->id,
		rescale_kind_name(rescale->kind), result, rescale->from_n, rescale->to_n,
		rescale->forced, pause_s);
	if (failed) {
		job->counts[COUNT_FAILED]++;
		job->retry_at_s = fmax(job->retry_at_s, now(rescale) + 2);
		if (rescale->to_n == job->probed_nodes)
			prober_rescale_failed(job->prober, rescale->to_n, now(rescale));
	}
	job->rescale = NULL;
	job->rescaled_at_s = now(rescale);
	sampler_disturbed(job->sampler, rescale->began_s, now(rescale));
	loop_timer_destroy(rescale->timer);
	free(rescale);
	life_job_settled(ctld, job, failed);
}

static void count_done(struct rescale *rescale)
{
	struct job *job = rescale->job;

	if (rescale->forced)
		job->counts[COUNT_FORCED]++;
	if (rescale->kind == RESCALE_GROW)
		job->counts[COUNT_GROW]++;
	else if (rescale->kind == RESCALE_SHRINK ||
		(rescale->kind == RESCALE_PAUSE && rescale->from_n > 0))
		job->counts[COUNT_SHRINK]++;
	else if (rescale->kind == RESCALE_MOVE)
		job->counts[COUNT_MOVED]++;
}

/* A running mean, slow enough that one bad rescale does not stop growth. */
static void learn_cost(double *cost_s, double pause_s)
{
	*cost_s = *cost_s > 0 ? 0.7 * *cost_s + 0.3 * pause_s : pause_s;
}

/* What the world is to start from; NULL: from nothing. */
static const struct job_copy *newest_state(
	struct ctld *ctld, const struct world *world, const char **address)
{
	const char *head = world->members[0].node->name;
	const struct job_copy *copy = job_copy_newest(world->job, head);
	const struct node *holder = copy ? pool_find(ctld->pool, copy->node) : NULL;

	*address = holder ? holder->address : NULL;
	return copy;
}

void rescale_tell_again(struct ctld *ctld, struct world *world, struct member *member)
{
	struct rescale *rescale = world->job->rescale;

	if (rescale && rescale->from == world && rescale->phase == PHASE_COMMIT &&
		!member->left)
		order_member_commit(world, member, rescale->proposal);
	if (world->phase == WORLD_RUNNING && member->lacks_go) {
		const char *address;
		const struct job_copy *copy = newest_state(ctld, world, &address);

		order_member_go(world, member, copy, address);
	}
	member->lacks_go = 0;
}

static void go(struct rescale *rescale)
{
	struct job *job = rescale->job;
	struct world *to = rescale->to;
	const char *address;
	const struct job_copy *copy = newest_state(rescale->ctld, to, &address);

	ctld_account(rescale->ctld);
	journal_write(rescale->ctld->journal, "go",
		json_pack("{s:s, s:I, s:I, s:I}", "job", job->id, "generation",
			(json_int_t)to->generation, "step", (json_int_t)(copy ? copy->step : 0),
			"cursor", (json_int_t)(copy ? copy->cursor : 0)));
	if (copy && copy->step < job->step && !rescale->left_s)
		log_notice("rescale", "job %s: continues from step %lld, %lld steps are redone",
			job->id, copy->step, job->step - copy->step);
	job->step = copy ? copy->step : 0;
	job->cursor = copy ? copy->cursor : 0;
	order_world_go(to, copy, address);
	to->phase = WORLD_RUNNING;
	job->current = to;
	job->progress_at_s = now(rescale);
	rescale->go_s = now(rescale);
	rescale->phase = PHASE_HANDOVER;
	life_job_runs(rescale->ctld, job, NULL);
}

void rescale_progress(struct world *world, long long step, double t_wall_s)
{
	struct rescale *rescale = world->job->rescale;
	double pause_s = 0;

	if (!rescale || rescale->phase != PHASE_HANDOVER || rescale->to != world)
		return;
	if (rescale->left_wall_s > 0) {
		/* The gap between the last step and the first, less a step. */
		double steps = (double)(step - rescale->step);

		pause_s = t_wall_s - rescale->left_wall_s -
			(steps > 1 ? steps : 1) * world->job->step_s;
		pause_s = fmin(fmax(pause_s, 0), PAUSE_MAX_S);
		pauses_add(&world->job->pauses, pause_s);
		learn_cost(rescale->to_n > rescale->from_n ? &world->job->grow_cost_s
							   : &world->job->shrink_cost_s,
			pause_s);
	}
	count_done(rescale);
	close_transaction(rescale, "done", pause_s);
}

static void finish(struct rescale *rescale)
{
	if (rescale->from && rescale->job->current == rescale->from)
		rescale->job->current = NULL;
	count_done(rescale);
	close_transaction(rescale, "done", 0);
}

static void roll_back(struct rescale *rescale)
{
	rescale->job->current = rescale->from;
	close_transaction(rescale, "failed", 0);
}

static void act(struct rescale *rescale, enum action action)
{
	switch (action) {
	case PROPOSE:
		propose(rescale);
		break;
	case WITHDRAW:
		order_world_withdraw(rescale->from, rescale->proposal);
		roll_back(rescale);
		break;
	case ROLL_BACK:
		roll_back(rescale);
		break;
	case FINISH:
		finish(rescale);
		break;
	case GO:
		go(rescale);
		break;
	case ABANDON:
		rescale->job->current = NULL;
		close_transaction(rescale, "failed", 0);
		break;
	case WAIT:
		break;
	}
}

void rescale_advance(struct rescale *rescale)
{
	struct rescale *before;
	struct job *job;

	if (!rescale || rescale->phase == PHASE_HANDOVER)
		return;
	job = rescale->job;
	before = rescale;
	if (rescale->to && rescale->to->phase == WORLD_READY && rescale->ready_s == 0)
		rescale->ready_s = now(rescale);
	if (rescale->from && rescale->from->phase == WORLD_LEFT && rescale->left_s == 0) {
		rescale->left_s = now(rescale);
		rescale->left_wall_s = rescale->from->left_at_wall_s;
		rescale->step = rescale->from->left_step;
	}
	act(rescale, choose(rescale));
	if (job->rescale == before)
		loop_timer_start(before->timer, TICK_S);
}

void rescale_forget_world(struct world *world)
{
	struct rescale *rescale = world->job->rescale;

	if (!rescale)
		return;
	if (rescale->from == world)
		rescale->from = NULL;
	if (rescale->to != world)
		return;
	rescale->to = NULL;
	if (rescale->phase == PHASE_HANDOVER)
		close_transaction(rescale, "failed", 0);
}

void rescale_drop(struct job *job, const char *why)
{
	struct rescale *rescale = job->rescale;
	struct ctld *ctld;
	struct world *to;

	if (!rescale)
		return;
	ctld = rescale->ctld;
	log_info("rescale", "job %s: %s is dropped: %s", job->id,
		rescale_kind_name(rescale->kind), why);
	if (rescale->from && rescale->phase == PHASE_AGREE)
		order_world_withdraw(rescale->from, rescale->proposal);
	to = rescale->to == job->current ? NULL : rescale->to;
	rescale->to = NULL;
	close_transaction(rescale, "dropped", 0);
	life_world_end(ctld, to, why);
}

void rescale_abandon(struct job *job)
{
	if (!job->rescale)
		return;
	loop_timer_destroy(job->rescale->timer);
	free(job->rescale);
	job->rescale = NULL;
}

/* Waits that no message ends. */
static void expire(struct rescale *rescale)
{
	struct ctld *ctld = rescale->ctld;
	double limit_s = ctld->config.prepare_limit_s;
	double t = now(rescale);

	if (rescale->phase == PHASE_AGREE && rescale->from &&
		t - rescale->asked_at_s > 1 + 3 * rescale->job->step_s) {
		/* Somebody passed the step unheard, or does not listen. */
		if (++rescale->tries > AGREE_TRIES)
			life_world_lost(ctld, rescale->from, "its workers do not answer", 0);
		else
			propose(rescale);
	} else if (rescale->phase == PHASE_COMMIT && rescale->from &&
		rescale->from->phase != WORLD_LEFT &&
		t - rescale->asked_at_s > LEAVE_LIMIT_S + 8 * rescale->job->step_s) {
		life_world_lost(ctld, rescale->from, "it did not leave at the agreed step", 0);
	} else if (rescale->to && rescale->to->phase == WORLD_STARTING) {
		double since = rescale->from ? rescale->began_s
					     : rescale->to->first_ready_at_s;

		/* Without an old world a program that never joins may take its time. */
		if (since <= 0 || t - since <= limit_s)
			return;
		if (rescale->from)
			life_world_end(ctld, rescale->to, "it was not ready in time");
		else
			life_world_lost(ctld, rescale->to, "it was not ready in time", 0);
	} else if (rescale->phase == PHASE_HANDOVER &&
		t - rescale->go_s > HANDOVER_LIMIT_S + 4 * rescale->job->step_s) {
		life_world_lost(ctld, rescale->to, "it made no step", 0);
	}
}

static void on_timer(void *arg)
{
	struct rescale *rescale = arg;
	struct job *job = rescale->job;

	expire(rescale);
	if (job->rescale != rescale)
		return;
	rescale_advance(rescale);
	if (job->rescale == rescale)
		loop_timer_start(rescale->timer, TICK_S);
}

static struct rescale *rescale_create(struct ctld *ctld, struct job *job)
{
	struct rescale *rescale = calloc(1, sizeof(*rescale));

	if (!rescale)
		return NULL;
	rescale->timer = loop_timer_create(ctld->loop, on_timer, rescale);
	if (!rescale->timer) {
		free(rescale);
		return NULL;
	}
	rescale->ctld = ctld;
	rescale->job = job;
	rescale->phase = PHASE_PREPARE;
	rescale->began_s = loop_now_s(ctld->loop);
	rescale->from = job->current;
	rescale->from_n = job->current ? (int)job->current->n_members : 0;
	return rescale;
}

static int start_world(struct rescale *rescale, struct node *const *nodes, size_t n_nodes)
{
	struct ctld *ctld = rescale->ctld;
	struct job *job = rescale->job;
	json_t *names = json_array();

	rescale->to = world_create(job, job->generation + 1, nodes, n_nodes);
	if (!rescale->to) {
		json_decref(names);
		return -1;
	}
	job->generation++;
	for (size_t i = 0; i < n_nodes; i++) {
		json_array_append_new(names, json_string(nodes[i]->name));
		pool_settle(ctld->pool, nodes[i]);
	}
	journal_write(ctld->journal, "world",
		json_pack("{s:s, s:I, s:o, s:s, s:b}", "job", job->id, "generation",
			(json_int_t)job->generation, "nodes", names, "kind",
			rescale_kind_name(rescale->kind), "forced", rescale->forced));
	order_world_start(rescale->to);
	return 0;
}

int rescale_begin(struct ctld *ctld, struct job *job, enum rescale_kind kind, int forced,
	struct node *const *nodes, size_t n_nodes, const char *reason)
{
	struct rescale *rescale = rescale_create(ctld, job);

	if (!rescale)
		return -1;
	ctld_account(ctld);
	rescale->kind = kind;
	rescale->forced = forced;
	rescale->verdict = kind == RESCALE_STOP ? "stop" : "rescale";
	rescale->wants_world = n_nodes > 0;
	rescale->to_n = (int)n_nodes;
	job->rescale = rescale;
	if (n_nodes > 0 && start_world(rescale, nodes, n_nodes) != 0) {
		job->rescale = NULL;
		loop_timer_destroy(rescale->timer);
		free(rescale);
		return -1;
	}
	log_info("rescale", "job %s: %s begins nodes=%d->%d forced=%d why=\"%s\"", job->id,
		rescale_kind_name(kind), rescale->from_n, rescale->to_n, forced, reason);
	loop_timer_start(rescale->timer, TICK_S);
	rescale_advance(rescale);
	if (job->rescale && job->rescale->to)
		life_job_runs(ctld, job, NULL);
	return 0;
}

const struct world *rescale_shown_world(const struct job *job)
{
	if (job->current)
		return job->current;
	return job->rescale ? job->rescale->to : NULL;
}

int rescale_adopt(struct ctld *ctld, struct job *job, struct world *from, struct world *to)
{
	struct rescale *rescale = rescale_create(ctld, job);

	if (!rescale)
		return -1;
	rescale->kind = RESCALE_START;
	rescale->verdict = "rescale";
	rescale->from = from;
	rescale->to = to;
	rescale->wants_world = 1;
	rescale->to_n = (int)to->n_members;
	job->rescale = rescale;
	loop_timer_start(rescale->timer, TICK_S);
	return 0;
}

json_t *rescale_json(const struct rescale *rescale)
{
	json_t *target = json_array();

	for (size_t i = 0; rescale->to && i < rescale->to->n_members; i++)
		json_array_append_new(
			target, json_string(rescale->to->members[i].node->name));
	return json_pack("{s:s, s:s, s:b, s:o, s:f}", "kind", rescale_kind_name(rescale->kind),
		"phase", phase_names[rescale->phase], "forced", rescale->forced, "target",
		target, "since_s", now(rescale) - rescale->began_s);
}
