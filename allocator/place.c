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
#include <string.h>

#include "allocator/plan.h"

/* Some nodes, in the order of kind, group and name. */
struct list {
	size_t *at;
	size_t n;
};

/* Nodes of a list that came together. */
struct bunch {
	int group; /* 0: one node that came alone, or nobody knows */
	size_t first, n;
	int mine; /* the job is in this group already */
};

struct place {
	const struct problem *problem;
	int *owners;
	struct list order;	 /* all nodes */
	struct list had;	 /* those that jobs have now, job after job */
	size_t *first;		 /* of each job in `had`; one more for the end */
	struct list idle, given; /* free: since ever, by shrinking jobs */
	struct list picks;	 /* that one step looks at */
	struct bunch *bunches;
};

static int in_order(const void *a, const void *b, void *arg)
{
	const struct problem_node *nodes = ((const struct problem *)arg)->nodes;
	size_t x = *(const size_t *)a, y = *(const size_t *)b;

	if (nodes[x].kind != nodes[y].kind)
		return nodes[x].kind < nodes[y].kind ? -1 : 1;
	if (nodes[x].group != nodes[y].group)
		return nodes[x].group < nodes[y].group ? -1 : 1;
	return x < y ? -1 : x > y;
}

static void sort_nodes(struct place *place)
{
	const struct problem *problem = place->problem;

	for (size_t i = 0; i < problem->n_nodes; i++) {
		place->owners[i] = problem->nodes[i].job;
		place->order.at[place->order.n++] = i;
	}
	qsort_r(place->order.at, place->order.n, sizeof(size_t), in_order,
		(void *)problem);
	for (size_t i = 0; i < place->order.n; i++)
		if (problem->nodes[place->order.at[i]].job < 0)
			place->idle.at[place->idle.n++] = place->order.at[i];
}

/* Counting sort by job: each job's nodes stay in order. */
static void sort_had(struct place *place)
{
	const struct problem *problem = place->problem;

	for (size_t j = 0; j < problem->n_jobs; j++)
		place->first[j + 1] =
			place->first[j] + (size_t)problem->jobs[j].present;
	place->had.n = place->first[problem->n_jobs];
	for (size_t i = 0; i < place->order.n; i++) {
		int job = problem->nodes[place->order.at[i]].job;

		if (job >= 0)
			place->had.at[place->first[job]++] = place->order.at[i];
	}
	/* Each start has moved on to the next one's. */
	memmove(place->first + 1, place->first, problem->n_jobs * sizeof(size_t));
	place->first[0] = 0;
}

/* Cut the picks, which are in order, into bunches. */
static size_t bunch_up(struct place *place)
{
	size_t n = 0;

	for (size_t i = 0; i < place->picks.n; i++) {
		int group = place->problem->nodes[place->picks.at[i]].group;
		struct bunch *last = n ? &place->bunches[n - 1] : NULL;

		if (last && group != 0 && last->group == group)
			last->n++;
		else
			place->bunches[n++] = (struct bunch){group, i, 1, 0};
	}
	return n;
}

/* --- shrinking -------------------------------------------------------------------- */

static void give_up(struct place *place, const struct bunch *bunch, size_t from)
{
	for (size_t i = from; i < bunch->n; i++)
		place->owners[place->picks.at[bunch->first + i]] = -1;
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

static void shrink(struct place *place, size_t job, size_t keep)
{
	size_t n_bunches, left;
	const struct bunch *fit;

	place->picks.n = place->first[job + 1] - place->first[job];
	memcpy(place->picks.at, place->had.at + place->first[job],
		place->picks.n * sizeof(size_t));
	n_bunches = bunch_up(place);
	left = place->picks.n - keep;
	fit = exact_fit(place->bunches, n_bunches, left);
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

static void list_given(struct place *place)
{
	for (size_t i = 0; i < place->order.n; i++) {
		size_t node = place->order.at[i];

		if (place->owners[node] < 0 && place->problem->nodes[node].job >= 0)
			place->given.at[place->given.n++] = node;
	}
}

/* --- growing ------------------------------------------------------------------------
 */

/* Both are in order of groups. */
static void mark_mine(struct place *place, size_t job, size_t n_bunches)
{
	const struct problem_node *nodes = place->problem->nodes;
	size_t at = place->first[job], end = place->first[job + 1];

	for (size_t i = 0; i < n_bunches; i++) {
		struct bunch *bunch = &place->bunches[i];

		while (at < end && nodes[place->had.at[at]].group < bunch->group)
			at++;
		bunch->mine = bunch->group != 0 && at < end &&
			      nodes[place->had.at[at]].group == bunch->group;
	}
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
		place->owners[place->picks.at[bunch->first + i]] = job;
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

/* The free nodes of one kind, for picking. */
static void pick(struct place *place, const struct list *free_nodes, int kind)
{
	place->picks.n = 0;
	for (size_t i = 0; i < free_nodes->n; i++)
		if (place->problem->nodes[free_nodes->at[i]].kind == kind)
			place->picks.at[place->picks.n++] = free_nodes->at[i];
}

static void drop_taken(const struct place *place, struct list *free_nodes)
{
	size_t n = 0;

	for (size_t i = 0; i < free_nodes->n; i++)
		if (place->owners[free_nodes->at[i]] < 0)
			free_nodes->at[n++] = free_nodes->at[i];
	free_nodes->n = n;
}

/* Take what is there of `want` nodes; returns how many are still missing. */
static size_t take_best(
	struct place *place, int job, struct list *free_nodes, int kind, size_t want)
{
	size_t n_bunches, i;

	pick(place, free_nodes, kind);
	n_bunches = bunch_up(place);
	mark_mine(place, (size_t)job, n_bunches);
	qsort(place->bunches, n_bunches, sizeof(*place->bunches), best_first);
	for (i = 0; i < n_bunches && want > 0; i++) {
		const struct bunch *bunch = &place->bunches[i];
		const struct bunch *fit = tight_fit(bunch, n_bunches - i, want);

		want -= take(place, job, !bunch->mine && fit ? fit : bunch, want);
	}
	drop_taken(place, free_nodes);
	return want;
}

static int grow(struct place *place, int job, int kind, int more)
{
	size_t want = take_best(place, job, &place->idle, kind, (size_t)more);

	if (want > 0)
		want = take_best(place, job, &place->given, kind, want);
	return want == 0 ? 0 : -1;
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

	sort_nodes(place);
	sort_had(place);
	for (size_t j = 0; j < problem->n_jobs; j++) {
		const struct problem_job *job = &problem->jobs[j];
		int stays = shares[j].kind == job->present_kind;
		int keep = stays ? shares[j].nodes : 0;
		int more = shares[j].nodes - (stays ? job->present : 0);

		if (keep < job->present)
			shrink(place, j, (size_t)keep);
		if (more > 0)
			growths[n++] = (struct growth){(int)j, more};
	}
	list_given(place);
	qsort(growths, n, sizeof(*growths), most_first);
	for (size_t i = 0; i < n; i++)
		if (grow(place, growths[i].job, shares[growths[i].job].kind,
			    growths[i].more) != 0)
			return -1;
	return 0;
}

static int place_init(
	struct place *place, const struct problem *problem, struct plan *plan)
{
	struct list *lists[] = {
		&place->order, &place->had, &place->idle, &place->given, &place->picks};

	place->problem = problem;
	place->owners = plan ? plan->owners : NULL;
	place->first = calloc(problem->n_jobs + 2, sizeof(size_t));
	place->bunches = calloc(problem->n_nodes + 1, sizeof(*place->bunches));
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		lists[i]->at = calloc(problem->n_nodes + 1, sizeof(size_t));
		if (!lists[i]->at)
			return -1;
	}
	return place->owners && place->first && place->bunches ? 0 : -1;
}

static void place_fini(struct place *place)
{
	free(place->order.at);
	free(place->had.at);
	free(place->idle.at);
	free(place->given.at);
	free(place->picks.at);
	free(place->first);
	free(place->bunches);
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
	struct growth *growths = calloc(problem->n_jobs + 1, sizeof(*growths));
	struct plan *plan = plan_create(solution, problem->n_nodes);
	struct place place = {.problem = problem};
	int rc = -1;

	if (place_init(&place, problem, plan) != 0 || !growths)
		err_set(err, ENOMEM, "placing: out of memory");
	else if (place_all(&place, solution->shares, growths) != 0)
		err_set(err, EINVAL, "placing: more nodes are given than there are");
	else
		rc = 0;
	place_fini(&place);
	free(growths);
	if (rc == 0)
		return plan;
	plan_destroy(plan);
	return NULL;
}
