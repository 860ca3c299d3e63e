/*
 * diff.c - what has to happen to get from what is to the plan.
 *
 * One change a job, those that only give nodes first, then those that give and
 * take (a change of kind, a swap of nodes), then those that only take: in this
 * order nobody waits for a node that a later change gives, but where two jobs
 * trade kinds.  A node is still granted only when its release is acknowledged;
 * the order only says what to begin with.
 */
#include <errno.h>
#include <stdlib.h>

#include "allocator/plan.h"

static int rank_of(const struct change *change)
{
	return change->takes == 0 ? 0 : change->gives > 0 ? 1 : 2;
}

static int givers_first(const void *a, const void *b)
{
	const struct change *x = a, *y = b;

	if (rank_of(x) != rank_of(y))
		return rank_of(x) - rank_of(y);
	return x->job < y->job ? -1 : x->job > y->job;
}

ssize_t plan_diff(
	const struct problem *problem, const struct plan *plan, struct change **changes)
{
	struct change *list = calloc(problem->n_jobs + 1, sizeof(*list));
	size_t n = 0;

	if (!list) {
		errno = ENOMEM;
		return -1;
	}
	for (size_t j = 0; j < problem->n_jobs; j++)
		list[j] = (struct change){.job = j,
			.from_nodes = problem->jobs[j].present,
			.to_nodes = problem->jobs[j].present};
	for (size_t i = 0; i < problem->n_nodes; i++) {
		int had = problem->nodes[i].job, has = plan->owners[i];

		if (had == has)
			continue;
		if (had >= 0)
			list[had].gives++;
		if (has >= 0)
			list[has].takes++;
	}
	for (size_t j = 0; j < problem->n_jobs; j++) {
		list[j].to_nodes += list[j].takes - list[j].gives;
		if (list[j].takes > 0 || list[j].gives > 0)
			list[n++] = list[j];
	}
	qsort(list, n, sizeof(*list), givers_first);
	*changes = list;
	return (ssize_t)n;
}
