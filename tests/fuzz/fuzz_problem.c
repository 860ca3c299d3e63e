/*
 * fuzz_problem.c - problems that came from anywhere.
 *
 * Whatever is accepted must have a greedy plan and, with few nodes of one kind, an
 * exact one that is no worse; both pass the check and print.  GLPK stays out: it
 * may abort by design, which is why it lives in a child.
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "allocator/plan.h"
#include "allocator/problem.h"
#include "allocator/solve.h"

#define WORK_MAX 20000 /* jobs x nodes; more is slow, not different */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static double decide(const struct problem *problem, enum solver solver)
{
	struct solution solution;
	struct plan *plan;
	double objective;
	json_t *json;

	if (solution_init(&solution, problem->n_jobs) != 0 ||
		solve(problem, solver, INFINITY, NULL, NULL, &solution, NULL) != 0)
		abort();
	plan = plan_place(problem, &solution, NULL);
	if (!plan || plan_verify(problem, plan, NULL) != 0)
		abort();
	json = plan_json(problem, plan);
	if (!json)
		abort();
	objective = solution.objective;
	json_decref(json);
	plan_destroy(plan);
	solution_fini(&solution);
	return objective;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct err err = {""};
	struct problem *problem = problem_parse((const char *)data, size, &err);
	double greedy;

	if (!problem) {
		if (!err.text[0] || strchr(err.text, '\n'))
			abort();
		return 0;
	}
	if (problem->n_jobs * problem->n_nodes <= WORK_MAX) {
		greedy = decide(problem, SOLVER_GREEDY);
		if (solve_dp_fits(problem) &&
			decide(problem, SOLVER_DP) < greedy - 1e-6 * (1 + fabs(greedy)))
			abort();
	}
	problem_destroy(problem);
	return 0;
}
