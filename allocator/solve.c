/*
 * solve.c - what the solvers share, and `auto`.
 *
 * A solution is one share a job.  The solvers differ in what they promise, never
 * in what they mean: values come from problem_value, bounds of sizes from
 * problem_allows, and plan_verify checks the result of each.
 */
#include "allocator/solve.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char *const solver_names[] = {
	[SOLVER_UNSET] = "unset",
	[SOLVER_AUTO] = "auto",
	[SOLVER_MILP] = "milp",
	[SOLVER_DP] = "dp",
	[SOLVER_GREEDY] = "greedy",
};

static const char *const status_names[] = {
	[SOLVE_UNSET] = "unset",
	[SOLVE_OPTIMAL] = "optimal",
	[SOLVE_FEASIBLE] = "feasible",
	[SOLVE_FALLBACK] = "fallback",
};

enum solver solver_parse(const char *word)
{
	for (int i = SOLVER_AUTO; i <= SOLVER_GREEDY; i++)
		if (!strcmp(word, solver_names[i]))
			return i;
	return SOLVER_UNSET;
}

const char *solver_name(enum solver solver)
{
	return solver_names[solver];
}

const char *solve_status_name(enum solve_status status)
{
	return status_names[status];
}

int solution_init(struct solution *solution, size_t n_jobs)
{
	memset(solution, 0, sizeof(*solution));
	solution->shares = calloc(n_jobs ? n_jobs : 1, sizeof(*solution->shares));
	solution->n_shares = n_jobs;
	return solution->shares ? 0 : -1;
}

void solution_fini(struct solution *solution)
{
	free(solution->shares);
	memset(solution, 0, sizeof(*solution));
}

int solution_copy(struct solution *to, const struct solution *from)
{
	struct share *shares = to->shares;

	if (to->n_shares != from->n_shares) {
		errno = EINVAL;
		return -1;
	}
	memcpy(shares, from->shares, from->n_shares * sizeof(*shares));
	*to = *from;
	to->shares = shares;
	return 0;
}

double solution_value(const struct problem *problem, const struct share *shares)
{
	double sum = 0;

	for (size_t j = 0; j < problem->n_jobs; j++)
		sum += problem_value(problem, j, shares[j].kind, shares[j].nodes);
	return sum;
}

int solve(const struct problem *problem, enum solver solver, double limit_s,
	incumbent_f follow, void *arg, struct solution *out, struct err *err)
{
	if (solver == SOLVER_AUTO)
		solver = solve_dp_fits(problem) ? SOLVER_DP : SOLVER_MILP;
	switch (solver) {
	case SOLVER_DP:
		return solve_dp(problem, out, err);
	case SOLVER_GREEDY:
		return solve_greedy(problem, out, err);
	case SOLVER_MILP:
		return solve_milp(problem,
			solve_dp_fits(problem) ? SOLVER_DP : SOLVER_GREEDY, limit_s,
			follow, arg, out, err);
	default:
		return err_set(err, EINVAL, "solving: no such solver");
	}
}
