/*
 * plan.c - a plan as JSON, as the contract has it: jobs by id, nodes by name.
 *
 * A plan speaks in indices of the problem that it answers, where both are sorted
 * already, so one pass over the nodes fills every list in order.
 */
#include "allocator/plan.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

void plan_destroy(struct plan *plan)
{
	int saved = errno;

	if (!plan)
		return;
	free(plan->owners);
	free(plan);
	errno = saved;
}

/* Node names into the list of their owner; lists[0] is nobody's. */
static void hand_out(
	const struct problem *problem, const struct plan *plan, json_t **lists)
{
	for (size_t i = 0; i < problem->n_nodes; i++)
		json_array_append_new(lists[plan->owners[i] + 1],
			json_string(problem->nodes[i].name));
}

static json_t *list_jobs(const struct problem *problem, json_t **lists_take)
{
	json_t *jobs = json_array();

	for (size_t j = 0; j < problem->n_jobs; j++)
		json_array_append_new(
			jobs, json_pack("{s:s, s:o}", "id", problem->jobs[j].id,
				      "nodes", lists_take[j]));
	return jobs;
}

json_t *plan_json(const struct problem *problem, const struct plan *plan)
{
	json_t **lists = calloc(problem->n_jobs + 1, sizeof(*lists)), *json;

	if (!lists)
		return NULL;
	for (size_t i = 0; i <= problem->n_jobs; i++)
		lists[i] = json_array();
	hand_out(problem, plan, lists);
	/* + 0.0: a sum of nothing may be -0. */
	json = json_pack("{s:i, s:s, s:s, s:f, s:o, s:f, s:o, s:o}", "version", 1,
		"status", solve_status_name(plan->status), "solver",
		solver_name(plan->solver), "objective", plan->objective + 0.0, "bound",
		isfinite(plan->bound) ? json_real(plan->bound + 0.0) : json_null(),
		"solve_ms", plan->solve_ms, "jobs", list_jobs(problem, lists + 1),
		"idle", lists[0]);
	free(lists);
	return json;
}
