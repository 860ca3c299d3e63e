/*
 * snapshot.c - a problem, frozen from what the daemon knows now.
 *
 * The problem is made as the JSON that malle-alloc reads, and read by the same
 * reader: what the daemon decided can be taken out of the journal and solved
 * again by hand.
 *
 * In it are jobs that want nodes and are free to change, their present nodes, and the
 * free nodes.  Out of it are jobs with an open transaction, jobs that were
 * rescaled just now (min_interval_s) or failed just now, and jobs whose size is
 * being measured; their nodes stay out with them.
 *
 * A probe's wish is put in as a job that may have exactly that size and weighs
 * more than everything else; `available` has seen to it that nobody loses
 * their last node for it.  One job at a time is moved for a probe.  What the
 * plan would have given without the wish is found by greedy, so that only
 * node-seconds which the plan had not chosen count as the probe's.
 *
 * A job of which nothing is known yet is taken to scale as nodes^0.9 until its
 * first point: between hope and caution, and replaced within seconds.
 */
#include "daemon/snapshot.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "allocator/solve.h"
#include "daemon/rescale.h"
#include "proto/log.h"

#define UNKNOWN_POWER 0.9
#define PROBE_WEIGHT 1000.0
#define COST_UNKNOWN_S 1.0 /* of a rescale that was never measured */
#define START_COST_S 2.0
/* What workers claim beyond these is nonsense, and would have the problem refused. */
#define RATE_MIN 1e-6
#define RATE_MAX 1e9

/* --- who takes part ---------------------------------------------------------------- */

/* Seconds until the job may be changed; 0: now; INFINITY: some event will tell. */
static double wait_of(struct ctld *ctld, const struct job *job, double now)
{
	double until = job->retry_at_s;

	if (!job_wants_nodes(job) || job->rescale)
		return INFINITY;
	if (job->current && job->current->phase != WORLD_RUNNING)
		return INFINITY;
	if (job->current && job->rescaled_at_s > 0 && job->probed_nodes == 0)
		until = fmax(until, job->rescaled_at_s + ctld->config.min_interval_s);
	return until > now ? until - now : 0;
}

static int size_of(const struct job *job)
{
	return job->current ? (int)job->current->n_members : 0;
}

static int is_measured_in_place(const struct job *job)
{
	return job->probed_nodes > 0 && job->probed_nodes == size_of(job);
}

/*
 * Nodes that it could be given now: its own, free ones, and what others can spare
 * who take part themselves (all but their minimum, at least one each).  Jobs
 * that wait come first.
 */
static int available_to(struct ctld *ctld, const struct job *job, double now)
{
	int available = size_of(job);

	for (size_t i = 0; i < pool_count(ctld->pool); i++)
		available += node_is_free(pool_at(ctld->pool, i));
	for (size_t i = 0; i < jobs_count(ctld->jobs); i++) {
		const struct job *other = jobs_at(ctld->jobs, i);

		if (other == job)
			continue;
		if (other->current && wait_of(ctld, other, now) == 0 &&
			!is_measured_in_place(other))
			available += size_of(other) - other->request.min_nodes;
		else if (!other->current && job_wants_nodes(other))
			available -= other->request.min_nodes; /* it waits for them */
	}
	return available;
}

void snapshot_wish(struct ctld *ctld, struct job *job, double now_s)
{
	struct probe_wish wish;

	prober_wish(job->prober, now_s, size_of(job), available_to(ctld, job, now_s), job->sampler,
		&wish);
	job->probed_nodes = wish.nodes;
	job->probe_again_s = wish.again_s;
}

/* --- the JSON ----------------------------------------------------------------------- */

static json_t *curve_of(const struct job *job)
{
	json_t *points = json_array();

	for (size_t i = 0; i < job->curve.n_points; i++)
		if (job->curve.points[i].rate_per_s > 0)
			json_array_append_new(points,
				json_pack("[i, f]", job->curve.points[i].nodes,
					fmin(fmax(job->curve.points[i].rate_per_s, RATE_MIN),
						RATE_MAX)));
	if (json_array_size(points) > 0)
		return points;
	for (int k = 1;; k = 2 * k < job->request.max_nodes ? 2 * k : job->request.max_nodes) {
		json_array_append_new(points, json_pack("[i, f]", k, pow(k, UNKNOWN_POWER)));
		if (k >= job->request.max_nodes)
			return points;
	}
}

static json_t *job_of(const struct job *job, int pin)
{
	const struct job_request *request = &job->request;

	return json_pack("{s:s, s:f, s:i, s:i, s:o, s:f, s:f, s:f}", "id", job->id, "weight",
		request->priority * (pin ? PROBE_WEIGHT : 1), "min_nodes",
		pin ? pin : request->min_nodes, "max_nodes", pin ? pin : request->max_nodes,
		"curve", curve_of(job), "grow_s",
		job->grow_cost_s > 0 ? job->grow_cost_s : COST_UNKNOWN_S, "shrink_s",
		job->shrink_cost_s > 0 ? job->shrink_cost_s : COST_UNKNOWN_S, "start_s",
		START_COST_S);
}

static json_t *node_of(const struct node *node, const struct job *owner)
{
	json_t *object = json_pack("{s:s, s:o, s:i}", "name", node->name, "job",
		owner ? json_string(owner->id) : json_null(), "group",
		node->group > 0 ? node->group : 0);

	return object;
}

/* The node takes part as free, as its owner's, or (0) not at all. */
static int takes_part(struct ctld *ctld, const struct node *node, double now,
	int with_probes, const struct job **owner)
{
	*owner = NULL;
	if (!node_is_usable(node))
		return 0;
	if (!node->job)
		return 1;
	*owner = node->job;
	return wait_of(ctld, node->job, now) == 0 &&
	       !(with_probes && is_measured_in_place(node->job)) && node->job->current && world_member(node->job->current, node);
}

static json_t *nodes_json(struct ctld *ctld, double now, int with_probes)
{
	json_t *nodes = json_array();
	const struct job *owner;

	for (size_t i = 0; i < pool_count(ctld->pool); i++) {
		const struct node *node = pool_at(ctld->pool, i);

		if (takes_part(ctld, node, now, with_probes, &owner))
			json_array_append_new(nodes, node_of(node, owner));
	}
	return nodes;
}

/* with_probes: pin at most one job that is to be moved for a probe. */
static json_t *jobs_json(struct ctld *ctld, double now, int with_probes, double *next_s)
{
	json_t *jobs = json_array();
	int pinned = 0;

	for (size_t i = 0; i < jobs_count(ctld->jobs); i++) {
		struct job *job = jobs_at(ctld->jobs, i);
		double wait_s = wait_of(ctld, job, now);
		int pin = 0;

		if (wait_s > 0) {
			*next_s = fmin(*next_s, wait_s);
			continue;
		}
		if (with_probes && is_measured_in_place(job))
			continue;
		if (with_probes && !pinned && job->probed_nodes > 0)
			pinned = pin = job->probed_nodes;
		json_array_append_new(jobs, job_of(job, pin));
	}
	return jobs;
}

static json_t *problem_json(struct ctld *ctld, double now, int with_probes, double *next_s)
{
	return json_pack("{s:i, s:s, s:f, s:o, s:o}", "version", 1, "objective",
		ctld->config.objective, "horizon_s", ctld->config.horizon_s, "nodes",
		nodes_json(ctld, now, with_probes), "jobs", jobs_json(ctld, now, with_probes, next_s));
}

/* --- what the plan would have done --------------------------------------------------- */

static void remember_planned(struct ctld *ctld, const struct problem *problem)
{
	struct solution solution;

	if (solution_init(&solution, problem->n_jobs) != 0)
		return;
	if (solve_greedy(problem, &solution, NULL) == 0)
		for (size_t j = 0; j < problem->n_jobs; j++) {
			struct job *job = jobs_find(ctld->jobs, problem->jobs[j].id);

			if (job)
				job->planned_nodes = solution.shares[j].nodes;
		}
	solution_fini(&solution);
}

static int ask_probers(struct ctld *ctld, double now, double *next_s)
{
	int any = 0;

	for (size_t i = 0; i < jobs_count(ctld->jobs); i++) {
		struct job *job = jobs_at(ctld->jobs, i);

		job->probed_nodes = 0;
		if (!ctld->config.probe || !job_wants_nodes(job) || job->rescale)
			continue;
		snapshot_wish(ctld, job, now);
		*next_s = fmin(*next_s, fmax(job->probe_again_s - now, 0.1));
		any |= job->probed_nodes > 0;
	}
	return any;
}

static void plan_without_probes(struct ctld *ctld, double now)
{
	double next_s = INFINITY;
	json_t *json = problem_json(ctld, now, 0, &next_s);
	struct problem *problem = json ? problem_read(json, NULL) : NULL;

	if (problem)
		remember_planned(ctld, problem);
	problem_destroy(problem);
	json_decref(json);
}

struct snapshot *snapshot_take(struct ctld *ctld, double *next_s, struct err *err)
{
	double now = loop_now_s(ctld->loop);
	struct snapshot *snapshot = calloc(1, sizeof(*snapshot));

	*next_s = INFINITY;
	if (!snapshot) {
		err_set(err, ENOMEM, "making a problem: out of memory");
		return NULL;
	}
	if (ask_probers(ctld, now, next_s))
		plan_without_probes(ctld, now);
	snapshot->json = problem_json(ctld, now, 1, next_s);
	if (json_array_size(json_object_get(snapshot->json, "jobs")) > 0)
		snapshot->problem = problem_read(snapshot->json, err);
	if (snapshot->problem)
		return snapshot;
	snapshot_destroy(snapshot);
	return NULL;
}

void snapshot_destroy(struct snapshot *snapshot)
{
	if (!snapshot)
		return;
	problem_destroy(snapshot->problem);
	json_decref(snapshot->json);
	free(snapshot);
}

const char *snapshot_why(const struct snapshot *snapshot, const struct job *job)
{
	(void)snapshot;
	return job->probed_nodes > 0 ? "probe" : "plan";
}
