/*
 * place.c - counts into nodes.
 *
 * All nodes of a kind are worth the same to the solver, so here is where movement
 * is kept small.  A shrinking job keeps its nodes from the groups of which it has most and
 * gives the rest back; a growing one keeps all and takes free nodes, whole groups
 * first where they fit.  Nodes that came together tend to leave together (on
 * the Summit trace with probability 0.84): a job that sits in few groups is
 * forced to shrink less often, and by more at a time.
 *
 * Shrinking jobs go first, so that what they give can be taken.  Everything is in
 * order of ids and names: the same problem gives the same plan.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "allocator/plan.h"

struct pick {
	size_t node;
	int in_group; /* candidates that share its group */
};

static int more_alone_last(const void *a, const void *b)
{
	const struct pick *x = a, *y = b;

	if (x->in_group != y->in_group)
		return y->in_group - x->in_group;
	return x->node < y->node ? -1 : x->node > y->node;
}

static int by_group(const void *a, const void *b)
{
	const struct problem_node *x = *(const struct problem_node *const *)a;
	const struct problem_node *y = *(const struct problem_node *const *)b;

	return (x->group > y->group) - (x->group < y->group);
}

/* How many of the picks share each pick's group; 0 is nobody's group. */
static int count_groups(const struct problem *problem, struct pick *picks, size_t n)
{
	const struct problem_node **sorted = calloc(n ? n : 1, sizeof(*sorted));

	if (!sorted)
		return -1;
	for (size_t i = 0; i < n; i++)
		sorted[i] = &problem->nodes[picks[i].node];
	qsort(sorted, n, sizeof(*sorted), by_group);
	for (size_t i = 0; i < n; i++) {
		int group = problem->nodes[picks[i].node].group;
		size_t lo = 0, hi = n, end;

		while (lo < hi) {
			size_t mid = (lo + hi) / 2;

			if (sorted[mid]->group < group)
				lo = mid + 1;
			else
				hi = mid;
		}
		for (end = lo; group != 0 && end < n && sorted[end]->group == group;)
			end++;
		picks[i].in_group = group ? (int)(end - lo) : 1;
	}
	free(sorted);
	return 0;
}

/* Nodes that `who` (-1: nobody) has now, of this kind. */
static size_t list(const struct problem *problem, const int *owners, int who, int kind,
	struct pick *picks)
{
	size_t n = 0;

	for (size_t i = 0; i < problem->n_nodes; i++)
		if (owners[i] == who && problem->nodes[i].kind == kind)
			picks[n++] = (struct pick){ i, 0 };
	return n;
}

static int shrink(const struct problem *problem, int job, int keep, int *owners,
	struct pick *picks)
{
	size_t n = list(problem, owners, job, problem->jobs[job].present_kind, picks);

	if (count_groups(problem, picks, n) != 0)
		return -1;
	qsort(picks, n, sizeof(*picks), more_alone_last);
	for (size_t i = (size_t)keep; i < n; i++)
		owners[picks[i].node] = -1;
	return 0;
}

/* The group to take from: the one it is in already, else the best fit. */
static void prefer(const struct problem *problem, const int *owners, int job, int want,
	struct pick *picks, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		int group = problem->nodes[picks[i].node].group, mine = 0;

		for (size_t k = 0; group && !mine && k < problem->n_nodes; k++)
			mine = owners[k] == job && problem->nodes[k].group == group;
		if (mine)
			picks[i].in_group += 2 << 20;
		else if (picks[i].in_group <= want)
			picks[i].in_group += 1 << 20;
		else
			picks[i].in_group = (1 << 20) - picks[i].in_group;
	}
}

static int grow(const struct problem *problem, int job, int kind, int more, int *owners,
	struct pick *picks)
{
	size_t n = list(problem, owners, -1, kind, picks);

	if ((size_t)more > n) {
		errno = EINVAL;
		return -1;
	}
	if (count_groups(problem, picks, n) != 0)
		return -1;
	prefer(problem, owners, job, more, picks, n);
	qsort(picks, n, sizeof(*picks), more_alone_last);
	for (int i = 0; i < more; i++)
		owners[picks[i].node] = job;
	return 0;
}

static int place(const struct problem *problem, const struct share *shares, int *owners,
	struct pick *picks)
{
	for (size_t i = 0; i < problem->n_nodes; i++)
		owners[i] = problem->nodes[i].job;
	for (size_t j = 0; j < problem->n_jobs; j++) {
		const struct problem_job *job = &problem->jobs[j];
		int keep = shares[j].kind == job->present_kind ? shares[j].nodes : 0;

		if (keep < job->present && shrink(problem, (int)j, keep, owners, picks) != 0)
			return -1;
	}
	for (size_t j = 0; j < problem->n_jobs; j++) {
		const struct problem_job *job = &problem->jobs[j];
		int had = shares[j].kind == job->present_kind ? job->present : 0;

		if (shares[j].nodes > had &&
			grow(problem, (int)j, shares[j].kind, shares[j].nodes - had, owners,
				picks) != 0)
			return -1;
	}
	return 0;
}

struct plan *plan_place(const struct problem *problem, const struct solution *solution,
	struct err *err)
{
	struct plan *plan = calloc(1, sizeof(*plan));
	size_t n = problem->n_nodes ? problem->n_nodes : 1;
	struct pick *picks = calloc(n, sizeof(*picks));

	if (plan)
		plan->owners = calloc(n, sizeof(*plan->owners));
	if (!plan || !plan->owners || !picks) {
		err_set(err, ENOMEM, "placing: out of memory");
	} else if (place(problem, solution->shares, plan->owners, picks) != 0) {
		err_set(err, errno, "placing: more nodes are given than there are");
	} else {
		plan->n_owners = problem->n_nodes;
		plan->status = solution->status;
		plan->solver = solution->solver;
		plan->objective = solution->objective;
		plan->bound = solution->bound;
		free(picks);
		return plan;
	}
	free(picks);
	plan_destroy(plan);
	return NULL;
}
