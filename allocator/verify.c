/*
 * verify.c - is that a plan?
 *
 * The last thing between a solver and real nodes, so it shares no code with any
 * of them but the value of a size: it counts what each job would have, from the
 * owners of single nodes, and compares with the rules of the problem.  Whether
 * there is a better plan it cannot know; that the plan's own claims (objective,
 * bound, optimal) fit each other, it can.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "allocator/plan.h"

#define TOLERANCE 1e-6 /* of the objective */

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

/* Of what each job has in the plan, how many nodes it has already. */
static void count_kept(
	const struct problem *problem, const struct plan *plan, int *kept)
{
	for (size_t i = 0; i < problem->n_nodes; i++)
		if (plan->owners[i] >= 0 && problem->nodes[i].job == plan->owners[i])
			kept[plan->owners[i]]++;
}

static int check_job(const struct problem *problem, size_t j, struct share share,
	int kept, struct err *err)
{
	const struct problem_job *job = &problem->jobs[j];
	int most = share.nodes < job->present ? share.nodes : job->present;

	if (!problem_allows(problem, j, share.kind, share.nodes))
		return err_set(err, EINVAL, "job %s: %d nodes are not allowed", job->id,
			share.nodes);
	if (share.nodes > 0 && share.kind == job->present_kind && kept != most)
		return err_set(err, EINVAL,
			"job %s: it neither only grows nor only shrinks", job->id);
	return 0;
}

static int check_jobs(const struct problem *problem, const struct plan *plan,
	const struct share *shares, struct err *err)
{
	int *kept = calloc(problem->n_jobs + 1, sizeof(*kept));
	int rc = 0;

	if (!kept)
		return err_set(err, ENOMEM, "checking the plan: out of memory");
	count_kept(problem, plan, kept);
	for (size_t j = 0; rc == 0 && j < problem->n_jobs; j++)
		rc = check_job(problem, j, shares[j], kept[j], err);
	free(kept);
	return rc;
}

static int check_limits(
	const struct problem *problem, const struct share *shares, struct err *err)
{
	for (size_t i = 0; i < problem->n_limits; i++) {
		int nodes = 0;

		for (size_t j = 0; j < problem->n_jobs; j++)
			if (problem->jobs[j].limit == (int)i)
				nodes += shares[j].nodes;
		if (nodes > problem->limits[i].max_nodes)
			return err_set(err, EINVAL,
				"user %s: %d nodes, the limit is %d",
				problem->limits[i].user, nodes,
				problem->limits[i].max_nodes);
	}
	return 0;
}

static int check_objective(const struct problem *problem, const struct plan *plan,
	const struct share *shares, struct err *err)
{
	double value = solution_value(problem, shares);
	double eps = TOLERANCE * (1 + fabs(value));

	if (!(fabs(value - plan->objective) <= eps))
		return err_set(err, EINVAL, "objective: %.9g, the plan is worth %.9g",
			plan->objective, value);
	if (!(value <= plan->bound + eps))
		return err_set(err, EINVAL, "bound: %.9g is below the objective %.9g",
			plan->bound, value);
	if (plan->status == SOLVE_OPTIMAL && plan->bound > value + eps)
		return err_set(err, EINVAL,
			"status: optimal at %.9g, the bound is %.9g", value,
			plan->bound);
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
	if (rc == 0)
		rc = check_jobs(problem, plan, shares, err);
	if (rc == 0)
		rc = check_limits(problem, shares, err);
	if (rc == 0)
		rc = check_objective(problem, plan, shares, err);
	free(shares);
	return rc;
}
