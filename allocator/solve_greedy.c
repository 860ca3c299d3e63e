/*
 * solve_greedy.c - best value per node, one step after the other.
 *
 * From nobody having anything, again and again the job is raised for which
 * the gain per added node is largest, over all sizes that still fit (so a job whose curve is
 * flat at first can jump).  Not exact for curves that are not concave, but
 * never infeasible and quick: the fallback when a solver fails, and the floor
 * below which no plan may be.  Leaving everything as it is, where that is
 * allowed, is tried as well.
 */
#include "allocator/solve.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

struct room {
	int *kinds;  /* free nodes of each kind */
	int *limits; /* of each user that are not used up */
};

struct step {
	size_t job;
	struct share to;
	double gain, per_node;
};

static int room_init(struct room *room, const struct problem *problem)
{
	room->kinds = calloc(problem->n_kinds, sizeof(int));
	room->limits = calloc(problem->n_limits + 1, sizeof(int));
	if (!room->kinds || !room->limits)
		return -1;
	for (size_t t = 0; t < problem->n_kinds; t++)
		room->kinds[t] = problem->kind_nodes[t];
	for (size_t i = 0; i < problem->n_limits; i++)
		room->limits[i] = problem->limits[i].max_nodes;
	return 0;
}

static void room_fini(struct room *room)
{
	free(room->kinds);
	free(room->limits);
}

/* Nodes that the job could have of this kind, its own share included. */
static int reach(const struct problem *problem, const struct room *room, size_t j,
	struct share own, int kind)
{
	int limit = problem_limit_of(problem, j);
	int most = room->kinds[kind] + (own.kind == kind ? own.nodes : 0);

	if (limit >= 0 && room->limits[limit] + own.nodes < most)
		most = room->limits[limit] + own.nodes;
	return most;
}

static void consider(const struct problem *problem, const struct room *room, size_t j,
	struct share own, struct step *best)
{
	double now = problem_value(problem, j, own.kind, own.nodes);

	for (size_t t = 0; t < problem->n_kinds; t++) {
		int most = reach(problem, room, j, own, (int)t);
		int top = problem_top(problem, j, (int)t);

		if (own.nodes > 0 && own.kind != (int)t)
			continue;
		for (int k = own.nodes + 1; k <= most && k <= top; k++) {
			double gain, per_node;

			if (!problem_allows(problem, j, (int)t, k))
				continue;
			gain = problem_value(problem, j, (int)t, k) - now;
			per_node = gain / (k - own.nodes);
			if (gain > 0 && per_node > best->per_node * (1 + 1e-12))
				*best = (struct step){ j, { (int)t, k }, gain, per_node };
		}
	}
}

static void take(const struct problem *problem, struct room *room, struct share *share,
	const struct step *step)
{
	int limit = problem_limit_of(problem, step->job);
	int more = step->to.nodes - share->nodes;

	room->kinds[step->to.kind] -= more;
	if (limit >= 0)
		room->limits[limit] -= more;
	*share = step->to;
}

/* The present assignment, if it is a legal plan. */
static int keep_present(const struct problem *problem, struct room *room, struct share *shares)
{
	for (size_t j = 0; j < problem->n_jobs; j++) {
		const struct problem_job *job = &problem->jobs[j];
		int limit = problem_limit_of(problem, j);

		shares[j] = (struct share){ job->present_kind, job->present };
		if (!problem_allows(problem, j, job->present_kind, job->present))
			return -1;
		room->kinds[job->present_kind] -= job->present;
		if (limit >= 0)
			room->limits[limit] -= job->present;
		if (limit >= 0 && room->limits[limit] < 0)
			return -1;
	}
	return 0;
}

static void climb(const struct problem *problem, struct room *room, struct share *shares)
{
	for (;;) {
		struct step best = { .per_node = 0 };

		for (size_t j = 0; j < problem->n_jobs; j++)
			consider(problem, room, j, shares[j], &best);
		if (best.gain <= 0)
			return;
		take(problem, room, &shares[best.job], &best);
	}
}

static int from_start(const struct problem *problem, int keep, struct share *shares)
{
	struct room room = { NULL, NULL };
	int rc = room_init(&room, problem);

	if (rc == 0 && keep)
		rc = keep_present(problem, &room, shares) == 0 ? 0 : 1;
	if (rc == 0)
		climb(problem, &room, shares);
	room_fini(&room);
	return rc;
}

int solve_greedy(const struct problem *problem, struct solution *out, struct err *err)
{
	struct solution kept;
	int rc;

	for (size_t j = 0; j < problem->n_jobs; j++)
		out->shares[j] = (struct share){ 0, 0 };
	if (solution_init(&kept, problem->n_jobs) != 0 ||
		from_start(problem, 0, out->shares) < 0)
		goto no_memory;
	rc = from_start(problem, 1, kept.shares);
	if (rc < 0)
		goto no_memory;
	out->objective = solution_value(problem, out->shares);
	if (rc == 0 && solution_value(problem, kept.shares) >= out->objective - 1e-9) {
		kept.objective = solution_value(problem, kept.shares);
		solution_copy(out, &kept);
	}
	solution_fini(&kept);
	out->status = SOLVE_FEASIBLE;
	out->solver = SOLVER_GREEDY;
	out->bound = INFINITY;
	return 0;
no_memory:
	solution_fini(&kept);
	return err_set(err, ENOMEM, "solving by greedy: out of memory");
}
