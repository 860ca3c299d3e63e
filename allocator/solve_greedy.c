/*
 * solve_greedy.c - best value per node, one step after the other.
 *
 * Again and again the job is raised for which the gain per added node is largest,
 * over all sizes that still fit: so a job whose curve is flat at first jumps over
 * that part.  Not exact for curves that are not concave, but never infeasible and
 * quick: the fallback when a solver fails, and the floor below which no plan may
 * be.
 *
 * It climbs twice: from nobody having anything, and from what is there now, where
 * that is allowed.  Costs make the present worth more than its values alone, so
 * the second start is often the better one, and of equals it wins.
 *
 * A job's best step changes when the job is raised, and when the step does not
 * fit any more; nothing else makes it worth more.  So each is kept, and only the
 * one that was about to be taken is looked at again.
 */
#include "allocator/solve.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "allocator/choice.h"

struct step {
	size_t to;	 /* index of a choice */
	int more;	 /* nodes */
	double per_node; /* 0: there is none */
};

struct climb {
	const struct problem *problem;
	const struct choices *choices;
	int *kinds;  /* free nodes of each kind */
	int *limits; /* of each user that are not used up */
	size_t *at;  /* each job's choice */
	struct step *steps;
};

static int climb_init(struct climb *climb, const struct problem *problem,
	const struct choices *choices)
{
	climb->problem = problem;
	climb->choices = choices;
	climb->kinds = calloc(problem->n_kinds, sizeof(int));
	climb->limits = calloc(problem->n_limits + 1, sizeof(int));
	climb->at = calloc(problem->n_jobs + 1, sizeof(*climb->at));
	climb->steps = calloc(problem->n_jobs + 1, sizeof(*climb->steps));
	return climb->kinds && climb->limits && climb->at && climb->steps ? 0 : -1;
}

static void climb_fini(struct climb *climb)
{
	free(climb->kinds);
	free(climb->limits);
	free(climb->at);
	free(climb->steps);
}

static int fits(const struct climb *climb, size_t j, int kind, int more)
{
	int limit = climb->problem->jobs[j].limit;

	return more <= climb->kinds[kind] &&
	       (limit < 0 || more <= climb->limits[limit]);
}

static void put(struct climb *climb, size_t j, size_t choice, int more)
{
	int limit = climb->problem->jobs[j].limit;

	climb->kinds[climb->choices->list[choice].kind] -= more;
	if (limit >= 0)
		climb->limits[limit] -= more;
	climb->at[j] = choice;
}

/* Nobody has anything. */
static void start_empty(struct climb *climb)
{
	const struct problem *problem = climb->problem;

	for (size_t t = 0; t < problem->n_kinds; t++)
		climb->kinds[t] = problem->kind_nodes[t];
	for (size_t i = 0; i < problem->n_limits; i++)
		climb->limits[i] = problem->limits[i].max_nodes;
	for (size_t j = 0; j < problem->n_jobs; j++)
		climb->at[j] = climb->choices->first[j];
}

/* Each job that may keep what it has does. */
static void start_present(struct climb *climb)
{
	const struct choices *choices = climb->choices;

	start_empty(climb);
	for (size_t j = 0; j < climb->problem->n_jobs; j++)
		for (size_t i = choices->first[j]; i < choices->first[j + 1]; i++) {
			const struct choice *choice = &choices->list[i];

			if (choice->moved == 0 && choice->nodes > 0 &&
				fits(climb, j, choice->kind, choice->nodes))
				put(climb, j, i, choice->nodes);
		}
}

static void find_step(struct climb *climb, size_t j)
{
	const struct choices *choices = climb->choices;
	const struct choice *now = &choices->list[climb->at[j]];
	struct step best = {0, 0, 0};

	for (size_t i = choices->first[j]; i < choices->first[j + 1]; i++) {
		const struct choice *to = &choices->list[i];
		int more = to->nodes - now->nodes;
		double per_node;

		if (more <= 0 || (now->nodes > 0 && to->kind != now->kind))
			continue;
		per_node = (to->value - now->value) / more;
		if (per_node > best.per_node && fits(climb, j, to->kind, more))
			best = (struct step){i, more, per_node};
	}
	climb->steps[j] = best;
}

static size_t best_job(const struct climb *climb)
{
	size_t best = 0;

	for (size_t j = 1; j < climb->problem->n_jobs; j++)
		if (climb->steps[j].per_node > climb->steps[best].per_node)
			best = j;
	return best;
}

static void climb_up(struct climb *climb)
{
	if (climb->problem->n_jobs == 0)
		return;
	for (size_t j = 0; j < climb->problem->n_jobs; j++)
		find_step(climb, j);
	for (;;) {
		size_t j = best_job(climb);
		const struct step step = climb->steps[j];

		if (step.per_node <= 0)
			return;
		if (fits(climb, j, climb->choices->list[step.to].kind, step.more))
			put(climb, j, step.to, step.more);
		find_step(climb, j);
	}
}

static double value_of(const struct climb *climb)
{
	double sum = 0;

	for (size_t j = 0; j < climb->problem->n_jobs; j++)
		sum += climb->choices->list[climb->at[j]].value;
	return sum;
}

static void write_out(const struct climb *climb, struct share *shares)
{
	for (size_t j = 0; j < climb->problem->n_jobs; j++) {
		const struct choice *choice = &climb->choices->list[climb->at[j]];

		shares[j] = (struct share){choice->kind, choice->nodes};
	}
}

static void climb_twice(struct climb *climb, struct share *shares)
{
	double from_empty;

	start_empty(climb);
	climb_up(climb);
	from_empty = value_of(climb);
	write_out(climb, shares);
	start_present(climb);
	climb_up(climb);
	if (value_of(climb) >= from_empty - 1e-12 * climb->choices->scale)
		write_out(climb, shares);
}

int solve_greedy(const struct problem *problem, struct solution *out, struct err *err)
{
	struct choices choices = {NULL, NULL, 0};
	struct climb climb = { .choices = NULL };
	int rc = choices_init(&choices, problem);

	if (rc == 0)
		rc = climb_init(&climb, problem, &choices);
	if (rc == 0) {
		climb_twice(&climb, out->shares);
		out->objective = solution_value(problem, out->shares);
		out->bound = fmax(choices_bound(&choices, problem), out->objective);
		out->status = SOLVE_FEASIBLE;
		out->solver = SOLVER_GREEDY;
	}
	climb_fini(&climb);
	choices_fini(&choices);
	return rc == 0 ? 0 : err_set(err, ENOMEM, "solving by greedy: out of memory");
}
