/*
 * cycle.c - the heart: facts -> problem -> plan -> rescales.
 *
 * Whoever has news pokes.  Pokes within the settle delay make one cycle: a
 * problem is frozen from the pool, the jobs and their curves (snapshot.c), a
 * child solves it, and the plan, once checked, becomes rescales.  Each cycle
 * has an epoch; a poke that comes while a child is busy makes the next one, and a
 * plan is only carried out where its world is still as it was: a job that has
 * begun something else meanwhile is passed over and seen by the next cycle.
 *
 * Jobs that give nodes are told first.  A job that is to get a node which
 * somebody still has is passed over too: when the node has become free, that is
 * news, and the next plan says the same.  So no plan has to wait for another,
 * and a node never has two owners.
 *
 * Shrinking because a node is wanted back does not come here: life.c does it at
 * once.
 */
#include "daemon/cycle.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/life.h"
#include "daemon/rescale.h"
#include "daemon/snapshot.h"
#include "daemon/solver.h"
#include "proto/log.h"

#define PROBE_WINDOWS 9
#define CURVE_S 10.0 /* between two records of a moving curve */

struct cycle {
	struct ctld *ctld;
	struct loop_timer *settle;
	struct loop_timer *later; /* a job may be rescaled again, or tried again */
	struct solver_run *run;
	struct snapshot *snapshot; /* that is being solved */
	unsigned long epoch;
	int again; /* poked while a child was busy */
	char why[48];
};

static void begin(void *arg);

static void poke_later(void *arg)
{
	struct cycle *cycle = arg;

	cycle_poke(cycle, "time");
}

struct cycle *cycle_create(struct ctld *ctld, struct err *err)
{
	struct cycle *cycle = calloc(1, sizeof(*cycle));

	if (cycle) {
		cycle->ctld = ctld;
		cycle->settle = loop_timer_create(ctld->loop, begin, cycle);
		cycle->later = loop_timer_create(ctld->loop, poke_later, cycle);
	}
	if (!cycle || !cycle->settle || !cycle->later) {
		cycle_destroy(cycle);
		err_set(err, ENOMEM, "starting the cycle: out of memory");
		return NULL;
	}
	return cycle;
}

void cycle_destroy(struct cycle *cycle)
{
	if (!cycle)
		return;
	solver_cancel(cycle->run);
	snapshot_destroy(cycle->snapshot);
	loop_timer_destroy(cycle->later);
	loop_timer_destroy(cycle->settle);
	free(cycle);
}

void cycle_poke(struct cycle *cycle, const char *why)
{
	if (!cycle || cycle->ctld->stopping || cycle->ctld->adopt_until_s > 0)
		return;
	if (cycle->run) {
		cycle->again = 1;
		return;
	}
	if (loop_timer_pending(cycle->settle))
		return;
	snprintf(cycle->why, sizeof(cycle->why), "%s", why);
	loop_timer_start(cycle->settle, cycle->ctld->config.settle_s);
}

/* --- a plan is carried out --------------------------------------------------------- */

/* Kept members in their order of ranks, then the new nodes by name. */
static size_t target_nodes(struct ctld *ctld, const struct snapshot *snapshot,
	const struct plan *plan, size_t j, struct job *job, struct node **nodes)
{
	const struct problem *problem = snapshot->problem;
	const struct world *world = job->current;
	size_t n = 0, kept;

	for (size_t m = 0; world && m < world->n_members; m++)
		for (size_t i = 0; i < problem->n_nodes; i++)
			if (plan->owners[i] == (int)j &&
				!strcmp(problem->nodes[i].name, world->members[m].node->name))
				nodes[n++] = world->members[m].node;
	kept = n;
	for (size_t i = 0; i < problem->n_nodes; i++) {
		struct node *node = pool_find(ctld->pool, problem->nodes[i].name);
		size_t k = 0;

		if (plan->owners[i] != (int)j || !node)
			continue;
		while (k < kept && nodes[k] != node)
			k++;
		if (k == kept)
			nodes[n++] = node;
	}
	return n;
}

static int all_are_there(const struct job *job, struct node *const *nodes, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct world *world = job->current;
		int own = world && world_member(world, nodes[i]) &&
			node_is_usable(nodes[i]);

		if (!own && !node_is_free(nodes[i]))
			return 0;
	}
	return 1;
}

static enum rescale_kind kind_of(const struct job *job, size_t n)
{
	size_t now = job->current ? job->current->n_members : 0;

	if (now == 0)
		return RESCALE_START;
	if (n == 0)
		return RESCALE_PAUSE;
	return n > now ? RESCALE_GROW : n < now ? RESCALE_SHRINK : RESCALE_MOVE;
}

static void carry_out(struct cycle *cycle, const struct plan *plan, const struct change *change)
{
	struct ctld *ctld = cycle->ctld;
	const struct problem_job *planned = &cycle->snapshot->problem->jobs[change->job];
	struct job *job = jobs_find(ctld->jobs, planned->id);
	size_t now = job && job->current ? job->current->n_members : 0;
	struct node **nodes;
	size_t n;

	if (!job || !job_wants_nodes(job) || job->rescale || (int)now != change->from_nodes)
		return;
	nodes = calloc(pool_count(ctld->pool) + 1, sizeof(*nodes));
	if (!nodes)
		return;
	n = target_nodes(ctld, cycle->snapshot, plan, change->job, job, nodes);
	if ((int)n == change->to_nodes && all_are_there(job, nodes, n) && (n > 0 || now > 0))
		rescale_begin(ctld, job, kind_of(job, n), 0, nodes, n,
			snapshot_why(cycle->snapshot, job));
	free(nodes);
}

/* A plan that changes nothing is no decision: it is not recorded. */
static void record(struct cycle *cycle, const struct plan *plan)
{
	journal_write(cycle->ctld->journal, "plan",
		json_pack("{s:I, s:s, s:O, s:o}", "epoch", (json_int_t)cycle->epoch, "why",
			cycle->why, "problem", cycle->snapshot->json, "plan",
			plan_json(cycle->snapshot->problem, plan)));
}

static void carry_out_all(struct cycle *cycle, const struct plan *plan)
{
	struct change *changes = NULL;
	ssize_t n = plan_diff(cycle->snapshot->problem, plan, &changes);

	if (n > 0)
		record(cycle, plan);
	for (ssize_t i = 0; i < n; i++)
		carry_out(cycle, plan, &changes[i]);
	free(changes);
}

static void on_plan(struct plan *plan_take, void *arg)
{
	struct cycle *cycle = arg;
	struct err err = { "" };

	cycle->run = NULL;
	if (plan_take && plan_verify(cycle->snapshot->problem, plan_take, &err) != 0) {
		log_err("cycle", "plan is refused: %s", err.text);
		plan_destroy(plan_take);
		plan_take = NULL;
	}
	if (plan_take) {
		log_debug("cycle", "epoch %lu: objective=%.3f solve_ms=%.1f", cycle->epoch,
			plan_take->objective, plan_take->solve_ms);
		carry_out_all(cycle, plan_take);
	}
	plan_destroy(plan_take);
	snapshot_destroy(cycle->snapshot);
	cycle->snapshot = NULL;
	if (cycle->again) {
		cycle->again = 0;
		cycle_poke(cycle, "news while solving");
	}
}

static void begin(void *arg)
{
	struct cycle *cycle = arg;
	struct ctld *ctld = cycle->ctld;
	struct err err = { "" };
	double next_s;

	if (cycle->run || ctld->stopping)
		return;
	cycle->epoch++;
	cycle->snapshot = snapshot_take(ctld, &next_s, &err);
	if (isfinite(next_s))
		loop_timer_start(cycle->later, next_s);
	if (cycle->snapshot)
		cycle->run = solver_start(ctld->loop, cycle->snapshot->problem,
			solver_parse(ctld->config.solver), ctld->config.solver_limit_s,
			on_plan, cycle, &err);
	if (cycle->run)
		return;
	if (err.text[0])
		log_err("cycle", "%s", err.text);
	snapshot_destroy(cycle->snapshot);
	cycle->snapshot = NULL;
}

/* --- what is learnt of jobs ---------------------------------------------------------- */

int cycle_adopt_job(struct cycle *cycle, struct job *job, struct err *err)
{
	struct prober_params params = prober_defaults;

	params.budget = cycle->ctld->config.probe_budget;
	/* On a shared machine rates wander over seconds: more windows than a quiet one needs. */
	params.min_windows = PROBE_WINDOWS;
	job->sampler = sampler_create(NULL);
	job->prober = prober_create(&params, job->request.min_nodes, job->request.max_nodes);
	if (!job->sampler || !job->prober)
		return err_set(err, ENOMEM, "taking job %s: out of memory", job->id);
	return 0;
}

static void record_curve(struct cycle *cycle, struct job *job)
{
	json_t *points = json_array();

	for (size_t i = 0; i < job->curve.n_points; i++)
		json_array_append_new(points,
			json_pack("[i, f, f]", job->curve.points[i].nodes,
				job->curve.points[i].rate_per_s,
				job->curve.points[i].ci_per_s));
	journal_write(cycle->ctld->journal, "curve",
		json_pack("{s:s, s:o}", "job", job->id, "points", points));
	job->curve_recorded_s = loop_now_s(cycle->ctld->loop);
}

void cycle_observe(struct cycle *cycle, struct job *job, const struct sample *sample)
{
	struct ctld *ctld = cycle->ctld;
	double now = loop_now_s(ctld->loop);
	size_t points = job->curve.n_points;
	struct probe_status before, after;

	if (job->rescale) /* the next world warms up beside it */
		sampler_disturbed(job->sampler, job->rescale->began_s, now);
	if (sampler_add(job->sampler, sample) <= 0)
		return;
	if (sampler_to_curve(job->sampler, &job->curve) != 0)
		return;
	if (job->curve.n_points != points || now - job->curve_recorded_s > CURVE_S)
		record_curve(cycle, job);
	if (!ctld->config.probe || job->rescale)
		return;
	prober_status(job->prober, &before);
	snapshot_wish(ctld, job, now);
	prober_status(job->prober, &after);
	if (after.size != before.size || after.state != before.state)
		cycle_poke(cycle, "probe");
}

double cycle_rate(const struct cycle *cycle, const struct job *job)
{
	return job->current && job->current->phase == WORLD_RUNNING
		? sampler_rate_now(job->sampler) : 0;
}

json_t *cycle_probe_json(const struct cycle *cycle, const struct job *job)
{
	struct probe_status status;
	int watched = cycle->ctld->config.probe && job->state != JOB_ENDED;

	prober_status(job->prober, &status);
	return json_pack("{s:s, s:i, s:I, s:I, s:f, s:f, s:f}", "state",
		watched ? probe_state_name(status.state) : "off", "size",
		watched ? status.size : 0, "points", (json_int_t)status.points, "ladder",
		(json_int_t)status.ladder, "ci", status.worst_rel, "spent_node_s",
		status.spent_node_s, "total_node_s", status.total_node_s);
}

int cycle_is_probing(const struct cycle *cycle, const struct job *job)
{
	return cycle->ctld->config.probe && job->probed_nodes > 0 && job->current &&
	       (int)job->current->n_members == job->probed_nodes &&
	       job->planned_nodes != job->probed_nodes;
}
