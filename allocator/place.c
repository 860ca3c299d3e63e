/*
 * place.c - counts into nodes.
 *
 * All nodes of a kind are worth the same to the solver, so here is where movement
 * is kept small: a job that shrinks keeps nodes that it has, one that grows keeps
 * all of them, and one that stays is not touched.
 *
 * Nodes that came together tend to leave together (on the Summit trace with
 * probability 0.84): a job that sits in few groups is forced to shrink less
 * often.  So a shrinking job gives up its smallest groups first, and a growing one
 * prefers groups that it is in already, then the smallest group that has all it
 * wants, then the largest ones.  Nodes that nobody has come before nodes that
 * another job has to give first: they can be had at once.
 *
 * Shrinking jobs go first, so that what they give can be taken; growing ones by
 * what they want, most first, since few gaps are large.  Everything else is in
 * order of ids and names: the same problem gives the same plan.
 */
#include <errno.h>
#include <stdlib.h>

#include "allocator/plan.h"

/* Candidates of one group: nodes of one kind, by name. */
struct bunch {
	int group; /* 0: nodes that came alone, or nobody knows */
	size_t first, n; /* in picks */
	int mine;  /* the job is in this group already */
};

struct place {
	const struct problem *problem;
	int *owners;
	size_t *picks; /* room for all nodes, as have: */
	struct bunch *bunches;
	int *mine; /* groups of one job, sorted */
};

static int by_group_then_name(const void *a, const void *b, void *arg)
{
	const struct problem_node *nodes = ((const struct problem *)arg)->nodes;
	size_t x = *(const size_t *)a, y = *(const size_t *)b;

	if (nodes[x].group != nodes[y].group)
		return nodes[x].group < nodes[y].group ? -1 : 1;
	return x < y ? -1 : x > y;
}

/* Nodes of a kind with this owner that had, or (idle) had not, an owner before. */
static size_t list(struct place *place, int owner, int kind, int idle)
{
	const struct problem *problem = place->problem;
	size_t n = 0;

	for (size_t i = 0; i < problem->n_nodes; i++)
		if (place->owners[i] == owner && problem->nodes[i].kind == kind &&
			(problem->nodes[i].job < 0) == idle)
			place->picks[n++] = i;
	qsort_r(place->picks, n, sizeof(*place->picks), by_group_then_name,
		(void *)problem);
	return n;
}

/* Cut the sorted picks into bunches; nodes without a group are one each. */
static size_t bunch_up(struct place *place, size_t n)
{
	size_t n_bunches = 0;

	for (size_t i = 0; i < n; i++) {
		int group = place->problem->nodes[place->picks[i]].group;
		struct bunch *last = n_bunches ? &place->bunches[n_bunches - 1] : NULL;

		if (last && group != 0 && last->group == group)
			last->n++;
		else
			place->bunches[n_bunches++] = (struct bunch){ group, i, 1, 0 };
	}
	return n_bunches;
}

static void give_up(struct place *place, const struct bunch *bunch, size_t from)
{
	for (size_t i = from; i < bunch->n; i++)
		place->owners[place->picks[bunch->first + i]] = -1;
}

static int smallest_first(const void *a, const void *b)
{
	const struct bunch *x = a, *y = b;

	if (x->n != y->n)
		return x->n < y->n ? -1 : 1;
	return (x->first > y->first) - (x->first < y->first);
}

/* One that is exactly what is to go spares all the others. */
static const struct bunch *exact_fit(const struct bunch *bunches, size_t n, size_t want)
{
	for (size_t i = 0; i < n; i++)
		if (bunches[i].n == want)
			return &bunches[i];
	return NULL;
}

static void shrink(struct place *place, int job, int keep)
{
	const struct problem_job *had = &place->problem->jobs[job];
	size_t n = list(place, job, had->present_kind, 0);
	size_t n_bunches = bunch_up(place, n), left = n - (size_t)keep;
	const struct bunch *fit = exact_fit(place->bunches, n_bunches, left);

	if (fit) {
		give_up(place, fit, 0);
		return;
	}
	qsort(place->bunches, n_bunches, sizeof(*place->bunches), smallest_first);
	for (size_t i = 0; i < n_bunches && left > 0; i++) {
		const struct bunch *bunch = &place->bunches[i];
		size_t part = bunch->n < left ? bunch->n : left;

		give_up(place, bunch, bunch->n - part);
		left -= part;
	}
}

static int by_number(const void *a, const void *b)
{
	int x = *(const int *)a, y = *(const int *)b;

	return (x > y) - (x < y);
}

static void mark_mine(struct place *place, int job, size_t n_bunches)
{
	const struct problem *problem = place->problem;
	size_t n = 0;

	for (size_t i = 0; i < problem->n_nodes; i++)
		if (place->owners[i] == job && problem->nodes[i].group != 0)
			place->mine[n++] = problem->nodes[i].group;
	qsort(place->mine, n, sizeof(*place->mine), by_number);
	for (size_t i = 0; i < n_bunches; i++)
		place->bunches[i].mine = bsearch(&place->bunches[i].group, place->mine, n,
						 sizeof(int), by_number) != NULL;
}

/* Groups that it is in first, then the largest. */
static int best_first(const void *a, const void *b)
{
	const struct bunch *x = a, *y = b;

	if (x->mine != y->mine)
		return y->mine - x->mine;
	if (x->n != y->n)
		return x->n > y->n ? -1 : 1;
	return (x->first > y->first) - (x->first < y->first);
}

static size_t take(struct place *place, int job, const struct bunch *bunch, size_t want)
{
	size_t part = bunch->n < want ? bunch->n : want;

	for (size_t i = 0; i < part; i++)
		place->owners[place->picks[bunch->first + i]] = job;
	return part;
}

/* The smallest bunch that has all of it, of those sorted largest first. */
static const struct bunch *tight_fit(const struct bunch *bunches, size_t n, size_t want)
{
	const struct bunch *fit = NULL;

	for (size_t i = 0; i < n; i++)
		if (bunches[i].n >= want && (!fit || bunches[i].n < fit->n))
			fit = &bunches[i];
	return fit;
}

/* Take what is there of `want` nodes; returns how many are still missing. */
static size_t take_best(struct place *place, int job, int kind, int idle, size_t want)
{
	size_t n_bunches = bunch_up(place, list(place, -1, kind, idle)), i;

	mark_mine(place, job, n_bunches);
	qsort(place->bunches, n_bunches, sizeof(*place->bunches), best_first);
	for (i = 0; i < n_bunches && want > 0; i++) {
		const struct bunch *fit =
			tight_fit(place->bunches + i, n_bunches - i, want);

		if (!place->bunches[i].mine && fit)
			return want - take(place, job, fit, want);
		want -= take(place, job, &place->bunches[i], want);
	}
	return want;
}

static int grow(struct place *place, int job, int kind, int more)
{
	size_t want = take_best(place, job, kind, 1, (size_t)more);

	if (want > 0)
		want = take_best(place, job, kind, 0, want);
	if (want == 0)
		return 0;
	errno = EINVAL;
	return -1;
}

struct growth {
	int job, more;
};

static int most_first(const void *a, const void *b)
{
	const struct growth *x = a, *y = b;

	return x->more != y->more ? y->more - x->more : x->job - y->job;
}

static int place_all(
	struct place *place, const struct share *shares, struct growth *growths)
{
	const struct problem *problem = place->problem;
	size_t n = 0;

	for (size_t i = 0; i < problem->n_nodes; i++)
		place->owners[i] = problem->nodes[i].job;
	for (size_t j = 0; j < problem->n_jobs; j++) {
		const struct problem_job *job = &problem->jobs[j];
		int stays = shares[j].kind == job->present_kind;
		int keep = stays ? shares[j].nodes : 0;
		int more = shares[j].nodes - (stays ? job->present : 0);

		if (keep < job->present)
			shrink(place, (int)j, keep);
		if (more > 0)
			growths[n++] = (struct growth){ (int)j, more };
	}
	qsort(growths, n, sizeof(*growths), most_first);
	for (size_t i = 0; i < n; i++)
		if (grow(place, growths[i].job, shares[growths[i].job].kind,
			    growths[i].more) != 0)
			return -1;
	return 0;
}

static struct plan *plan_create(const struct solution *solution, size_t n_nodes)
{
	struct plan *plan = calloc(1, sizeof(*plan));

	if (!plan)
		return NULL;
	plan->owners = calloc(n_nodes + 1, sizeof(*plan->owners));
	plan->n_owners = n_nodes;
	plan->status = solution->status;
	plan->solver = solution->solver;
	plan->objective = solution->objective;
	plan->bound = solution->bound;
	return plan;
}

struct plan *plan_place(
	const struct problem *problem, const struct solution *solution, struct err *err)
{
	size_t n = problem->n_nodes + 1;
	struct growth *growths = calloc(problem->n_jobs + 1, sizeof(*growths));
	struct plan *plan = plan_create(solution, problem->n_nodes);
	struct place place = {
		.problem = problem,
		.owners = plan ? plan->owners : NULL,
		.picks = calloc(n, sizeof(*place.picks)),
		.bunches = calloc(n, sizeof(*place.bunches)),
		.mine = calloc(n, sizeof(*place.mine)),
	};
	int rc = -1;

	if (!growths || !place.owners || !place.picks || !place.bunches || !place.mine)
		err_set(err, ENOMEM, "placing: out of memory");
	else if (place_all(&place, solution->shares, growths) != 0)
		err_set(err, EINVAL, "placing: more nodes are given than there are");
	else
		rc = 0;
	free(place.picks);
	free(place.bunches);
	free(place.mine);
	free(growths);
	if (rc == 0)
		return plan;
	plan_destroy(plan);
	return NULL;
}
