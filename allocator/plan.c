/*
 * plan.c - plans: their check, their JSON, their difference from what is.
 */
#include "allocator/plan.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void plan_destroy(struct plan *plan)
{
	int saved = errno;

	if (!plan)
		return;
	free(plan->owners);
	free(plan);
	errno = saved;
}

/* How many nodes of which kind each job has in the plan. */
static int count(const struct problem *problem, const struct plan *plan,
	struct share *shares, struct err *err)
{
	for (size_t i = 0; i < problem->n_nodes; i++) {
		const struct problem_node *node = &problem->nodes[i];
		struct share *share;

		if (plan->owners[i] < -1 || plan->owners[i] >= (int)problem->n_jobs)
			return err_set(err, EINVAL, "node %s: its job does not exist",
				node->name);
		if (plan->owners[i] < 0)
			continue;
		share = &shares[plan->owners[i]];
		if (share->nodes > 0 && share->kind != node->kind)
			return err_set(err, EINVAL, "job %s: nodes of two kinds",
				problem->jobs[plan->owners[i]].id);
		share->kind = node->kind;
		share->nodes++;
	}
	return 0;
}

static int check_job(const struct problem *problem, const struct plan *plan, size_t j,
	struct share share, struct err *err)
{
	const struct problem_job *job = &problem->jobs[j];
	int kept = 0;

	if (!problem_allows(problem, j, share.kind, share.nodes))
		return err_set(err, EINVAL, "job %s: %d nodes are not allowed", job->id,
			share.nodes);
	for (size_t i = 0; i < problem->n_nodes; i++)
		kept += problem->nodes[i].job == (int)j && plan->owners[i] == (int)j;
	if (share.nodes > 0 && share.kind == job->present_kind &&
		kept != (share.nodes < job->present ? share.nodes : job->present))
		return err_set(err, EINVAL, "job %s: it neither only grows nor only shrinks",
			job->id);
	return 0;
}

static int check_limits(const struct problem *problem, const struct share *shares,
	struct err *err)
{
	for (size_t i = 0; i < problem->n_limits; i++) {
		int nodes = 0;

		for (size_t j = 0; j < problem->n_jobs; j++)
			if (problem_limit_of(problem, j) == (int)i)
				nodes += shares[j].nodes;
		if (nodes > problem->limits[i].max_nodes)
			return err_set(err, EINVAL, "user %s: %d nodes, the limit is %d",
				problem->limits[i].user, nodes, problem->limits[i].max_nodes);
	}
	return 0;
}

static int check_objective(const struct problem *problem, const struct plan *plan,
	const struct share *shares, struct err *err)
{
	double value = solution_value(problem, shares);
	double eps = 1e-6 * (1 + fabs(value));

	if (fabs(value - plan->objective) > eps)
		return err_set(err, EINVAL, "objective: %.9g, the plan is worth %.9g",
			plan->objective, value);
	if (value > plan->bound + eps)
		return err_set(err, EINVAL, "bound: %.9g is below the objective %.9g",
			plan->bound, value);
	return 0;
}

int plan_verify(const struct problem *problem, const struct plan *plan, struct err *err)
{
	struct share *shares;
	int rc;

	if (plan->n_owners != problem->n_nodes)
		return err_set(err, EINVAL, "the plan is for %zu nodes, not %zu",
			plan->n_owners, problem->n_nodes);
	shares = calloc(problem->n_jobs + 1, sizeof(*shares));
	if (!shares)
		return err_set(err, ENOMEM, "checking the plan: out of memory");
	rc = count(problem, plan, shares, err);
	for (size_t j = 0; rc == 0 && j < problem->n_jobs; j++)
		rc = check_job(problem, plan, j, shares[j], err);
	if (rc == 0)
		rc = check_limits(problem, shares, err);
	if (rc == 0)
		rc = check_objective(problem, plan, shares, err);
	free(shares);
	return rc;
}

static json_t *names_of(const struct problem *problem, const struct plan *plan, int owner)
{
	json_t *names = json_array();

	for (size_t i = 0; i < problem->n_nodes; i++)
		if (plan->owners[i] == owner)
			json_array_append_new(names, json_string(problem->nodes[i].name));
	return names;
}

json_t *plan_json(const struct problem *problem, const struct plan *plan)
{
	json_t *jobs = json_array();

	for (size_t j = 0; j < problem->n_jobs; j++)
		json_array_append_new(jobs,
			json_pack("{s:s, s:o}", "id", problem->jobs[j].id, "nodes",
				names_of(problem, plan, (int)j)));
	return json_pack("{s:i, s:s, s:s, s:f, s:o, s:f, s:o, s:o}", "version", 1, "status",
		solve_status_name(plan->status), "solver", solver_name(plan->solver),
		"objective", plan->objective, "bound",
		isfinite(plan->bound) ? json_real(plan->bound) : json_null(), "solve_ms",
		plan->solve_ms, "jobs", jobs, "idle", names_of(problem, plan, -1));
}

static int changed(const struct problem *problem, const struct plan *plan, size_t j,
	struct change *change)
{
	int differs = 0;

	*change = (struct change){ j, problem->jobs[j].present, 0 };
	for (size_t i = 0; i < problem->n_nodes; i++) {
		int had = problem->nodes[i].job == (int)j, has = plan->owners[i] == (int)j;

		differs |= had != has;
		change->to_nodes += has;
	}
	return differs;
}

static int releases_first(const void *a, const void *b)
{
	const struct change *x = a, *y = b;
	int gives_x = x->to_nodes < x->from_nodes, gives_y = y->to_nodes < y->from_nodes;

	if (gives_x != gives_y)
		return gives_y - gives_x;
	return x->job < y->job ? -1 : x->job > y->job;
}

ssize_t plan_diff(const struct problem *problem, const struct plan *plan,
	struct change **changes)
{
	struct change *list = calloc(problem->n_jobs + 1, sizeof(*list));
	size_t n = 0;

	if (!list)
		return -1;
	for (size_t j = 0; j < problem->n_jobs; j++)
		n += (size_t)changed(problem, plan, j, &list[n]);
	qsort(list, n, sizeof(*list), releases_first);
	*changes = list;
	return (ssize_t)n;
}
