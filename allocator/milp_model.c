/*
 * milp_model.c - the columns and rows of the count-level program, without GLPK.
 *
 * Nodes of a kind are interchangeable, so a column is a size, not a node.  Jobs
 * that cannot be told apart are one class with one integer column a size: merging
 * them takes away the symmetry that makes the plain model slow, a search that
 * tries every order of ten equal jobs.
 *
 * The corners of each class's upper hull are marked, one hull a kind: the optimum
 * of the linear relaxation needs no other size, as every row counts nodes, and
 * what lies under the hull is worth less than a mixture of corners.
 */
#include "allocator/milp_model.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The job's sizes of one kind, ascending.  Returns how many. */
static size_t add_sizes(struct milp_model *model, size_t j, int kind)
{
	size_t from = model->n_columns, first = model->choices.first[j];

	for (size_t i = first + 1; i < model->choices.first[j + 1]; i++) {
		const struct choice *choice = &model->choices.list[i];

		if (choice->kind == kind)
			model->columns[model->n_columns++] = (struct column){
				(int)model->n_classes, {kind, choice->nodes},
				choice->value - model->choices.list[first].value, 0};
	}
	return model->n_columns - from;
}

/* c is on or above the line through a and b, as near as a double can tell. */
static int hides(const struct column *a, const struct column *b, const struct column *c)
{
	double up = (b->gain - a->gain) * (c->share.nodes - a->share.nodes);
	double line = (c->gain - a->gain) * (b->share.nodes - a->share.nodes);

	return up <= line + 1e-12 * fabs(line);
}

/*
 * Upper hull of (nodes, gain) from the origin, without the points within its
 * edges: between measured points a curve is a line, so that those are many, and
 * mixtures of the ends make them up.
 */
static int mark_hull(struct column *columns, size_t n)
{
	static const struct column origin = {0, {0, 0}, 0, 0};
	const struct column **chain = calloc(n + 1, sizeof(*chain));
	size_t length = 1;

	if (!chain)
		return -1;
	chain[0] = &origin;
	for (size_t i = 0; i < n; i++) {
		const struct column *next = &columns[i];

		if (next->gain <= chain[length - 1]->gain)
			continue;
		while (length > 1 && hides(chain[length - 2], chain[length - 1], next))
			length--;
		chain[length++] = next;
	}
	for (size_t i = 1; i < length; i++)
		columns[chain[i] - columns].hull = 1;
	free(chain);
	return 0;
}

static int same_columns(
	const struct milp_model *model, const struct class *class, size_t first)
{
	size_t n = model->n_columns - first;

	if (class->n_columns != n)
		return 0;
	for (size_t i = 0; i < n; i++) {
		const struct column *a = &model->columns[class->first + i];
		const struct column *b = &model->columns[first + i];

		if (a->share.kind != b->share.kind ||
			a->share.nodes != b->share.nodes || a->gain != b->gain)
			return 0;
	}
	return 1;
}

static int join_class(struct class *class, size_t j)
{
	size_t *grown = realloc(class->jobs, (class->n_jobs + 1) * sizeof(*grown));

	if (!grown)
		return -1;
	class->jobs = grown;
	grown[class->n_jobs++] = j;
	return 0;
}

/* Put the job into the class that has its columns, or make one. */
static int classify(struct milp_model *model, size_t j)
{
	const struct problem *problem = model->problem;
	const struct problem_job *job = &problem->jobs[j];
	size_t first = model->n_columns;
	int limit = job->limit;
	struct class *fresh;

	for (size_t t = 0; t < problem->n_kinds; t++) {
		size_t from = model->n_columns, n = add_sizes(model, j, (int)t);

		if (mark_hull(model->columns + from, n) != 0)
			return -1;
	}
	for (size_t c = 0; c < model->n_classes; c++) {
		struct class *class = &model->classes[c];
		const struct problem_job *like = &problem->jobs[class->jobs[0]];

		if (class->limit == limit && like->present == job->present &&
			like->present_kind == job->present_kind &&
			same_columns(model, class, first)) {
			model->n_columns = first;
			return join_class(class, j);
		}
	}
	fresh = &model->classes[model->n_classes++];
	*fresh = (struct class){first, model->n_columns - first, NULL, 0, limit};
	return join_class(fresh, j);
}

static int build(struct milp_model *model)
{
	size_t n = model->problem->n_jobs;

	if (choices_init(&model->choices, model->problem) != 0)
		return -1;
	model->classes = calloc(n + 1, sizeof(*model->classes));
	model->columns = calloc(model->choices.first[n] + 1, sizeof(*model->columns));
	if (!model->classes || !model->columns)
		return -1;
	for (size_t j = 0; j < n; j++) {
		model->nothing += model->choices.list[model->choices.first[j]].value;
		if (classify(model, j) != 0)
			return -1;
	}
	for (size_t i = 0; i < model->n_columns; i++)
		model->most_gain = fmax(model->most_gain, model->columns[i].gain);
	return 0;
}

int milp_model_init(struct milp_model *model, const struct problem *problem)
{
	memset(model, 0, sizeof(*model));
	model->problem = problem;
	if (build(model) == 0)
		return 0;
	milp_model_fini(model);
	errno = ENOMEM;
	return -1;
}

void milp_model_fini(struct milp_model *model)
{
	for (size_t c = 0; c < model->n_classes; c++)
		free(model->classes[c].jobs);
	free(model->classes);
	free(model->columns);
	choices_fini(&model->choices);
}
