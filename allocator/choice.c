/*
 * choice.c - the sizes of each job that are worth looking at.
 *
 * All solvers choose one entry a job from these lists, so that dropping a size
 * is decided in one place.  A larger size of the same kind that is worth no more
 * than a smaller one is dominated: whoever has it could give nodes back for
 * nothing.  That holds for sums with rows (capacity, user limits) that only count
 * nodes.  The present size stays in even then, for the sake of ties: a job whose
 * nodes nobody else wants should not have to give them up.
 *
 * The roof that bounds all plans is the linear relaxation of the problem with
 * kinds pooled: pieces of each job's upper concave hull, steepest first, as long
 * as there are nodes.
 */
#include "allocator/choice.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

struct list {
	struct choice *at;
	size_t n, room;
};

static int push(struct list *list, struct choice choice)
{
	if (list->n == list->room) {
		size_t room = list->room ? 2 * list->room : 1024;
		struct choice *grown = realloc(list->at, room * sizeof(*grown));

		if (!grown)
			return -1;
		list->at = grown;
		list->room = room;
	}
	list->at[list->n++] = choice;
	return 0;
}

/* Beyond this size the curve is flat: nothing larger can be worth more. */
static int last_size(const struct problem *problem, size_t j, int kind)
{
	const struct problem_job *job = &problem->jobs[j];
	const struct curve *curve = &job->curves[kind];
	int top = problem_top(problem, j, kind), last = job->min_nodes;

	if (top == 0)
		return 0;
	if (curve->points[curve->n_points - 1].nodes > last)
		last = curve->points[curve->n_points - 1].nodes;
	if (job->present_kind == kind && job->present > last)
		last = job->present;
	return last < top ? last : top;
}

static int moved(const struct problem_job *job, int kind, int nodes)
{
	if (kind != job->present_kind)
		return job->present + nodes;
	return abs(nodes - job->present);
}

static int list_kind(struct list *list, const struct problem *problem, size_t j,
	int kind, double nothing)
{
	const struct problem_job *job = &problem->jobs[j];
	int last = last_size(problem, j, kind);
	double best = nothing;

	for (int k = job->min_nodes; k <= last; k++) {
		double value = problem_value(problem, j, kind, k);
		int stays = kind == job->present_kind && k == job->present;
		struct choice choice = {kind, k, value, moved(job, kind, k)};

		if (value <= best && !stays)
			continue;
		best = fmax(best, value);
		if (push(list, choice) != 0)
			return -1;
	}
	return 0;
}

static int list_job(struct list *list, const struct problem *problem, size_t j)
{
	const struct problem_job *job = &problem->jobs[j];
	double nothing = problem_value(problem, j, job->present_kind, 0);

	if (push(list, (struct choice){job->present_kind, 0, nothing, job->present}) !=
		0)
		return -1;
	for (size_t t = 0; t < problem->n_kinds; t++)
		if (list_kind(list, problem, j, (int)t, nothing) != 0)
			return -1;
	return 0;
}

static double largest(const struct choice *choices, size_t n)
{
	double most = 0;

	for (size_t i = 0; i < n; i++)
		most = fmax(most, fabs(choices[i].value));
	return most;
}

int choices_init(struct choices *choices, const struct problem *problem)
{
	struct list list = {NULL, 0, 0};

	choices->list = NULL;
	choices->scale = 0;
	choices->first = calloc(problem->n_jobs + 1, sizeof(*choices->first));
	if (!choices->first)
		goto no_memory;
	for (size_t j = 0; j < problem->n_jobs; j++) {
		size_t first = list.n;

		if (list_job(&list, problem, j) != 0)
			goto no_memory;
		choices->first[j + 1] = list.n;
		choices->scale += largest(list.at + first, list.n - first);
	}
	choices->list = list.at;
	return 0;
no_memory:
	free(list.at);
	choices_fini(choices);
	errno = ENOMEM;
	return -1;
}

void choices_fini(struct choices *choices)
{
	free(choices->list);
	free(choices->first);
	choices->list = NULL;
	choices->first = NULL;
}

/* --- the roof ------------------------------------------------------------------ */

struct piece {
	int nodes;
	double gain;
};

static int by_size(const void *a, const void *b)
{
	const struct choice *x = a, *y = b;

	if (x->nodes != y->nodes)
		return x->nodes < y->nodes ? -1 : 1;
	return (x->value < y->value) - (x->value > y->value);
}

static int steepest_first(const void *a, const void *b)
{
	const struct piece *x = a, *y = b;
	double left = x->gain * y->nodes, right = y->gain * x->nodes;

	return (left < right) - (left > right);
}

/* c is on or above the line through a and b: b is under the roof. */
static int hides(const struct choice *a, const struct choice *b, const struct choice *c)
{
	return (c->value - a->value) * (b->nodes - a->nodes) >=
	       (b->value - a->value) * (c->nodes - a->nodes);
}

/* Sorts `at` and keeps its upper hull in its first entries; returns how many. */
static size_t make_roof(struct choice *at, size_t n)
{
	size_t length = 0;

	qsort(at, n, sizeof(*at), by_size);
	for (size_t i = 0; i < n; i++) {
		if (length > 0 && at[i].value <= at[length - 1].value)
			continue;
		while (length > 1 && hides(&at[length - 2], &at[length - 1], &at[i]))
			length--;
		at[length++] = at[i];
	}
	return length;
}

static double fill_up(struct piece *pieces, size_t n, double left)
{
	double sum = 0;

	qsort(pieces, n, sizeof(*pieces), steepest_first);
	for (size_t i = 0; i < n && left > 0; i++) {
		double part = fmin(1, left / pieces[i].nodes);

		sum += part * pieces[i].gain;
		left -= pieces[i].nodes;
	}
	return sum;
}

double choices_bound(const struct choices *choices, const struct problem *problem)
{
	size_t all = choices->first[problem->n_jobs], n = 0;
	struct choice *roof = calloc(all + 1, sizeof(*roof));
	struct piece *pieces = calloc(all + 1, sizeof(*pieces));
	double sum = INFINITY;

	if (!roof || !pieces)
		goto out;
	sum = 0;
	for (size_t j = 0; j < problem->n_jobs; j++) {
		size_t first = choices->first[j],
		       length = choices->first[j + 1] - first;

		for (size_t i = 0; i < length; i++)
			roof[i] = choices->list[first + i];
		length = make_roof(roof, length);
		sum += roof[0].value;
		for (size_t i = 1; i < length; i++)
			pieces[n++] = (struct piece){roof[i].nodes - roof[i - 1].nodes,
				roof[i].value - roof[i - 1].value};
	}
	sum += fill_up(pieces, n, (double)problem->n_nodes);
out:
	free(roof);
	free(pieces);
	return sum;
}
