/* milp_model.h - the columns and rows of the count-level program, without GLPK. */
#ifndef ALLOCATOR_MILP_MODEL_H
#define ALLOCATOR_MILP_MODEL_H

#include <stddef.h>

#include "allocator/choice.h"
#include "allocator/problem.h"
#include "allocator/solve.h"

/* A size that jobs of a class can have. */
struct column {
	int class;
	struct share share;
	double gain; /* value over having nothing */
	int hull;    /* a corner of the upper hull of its class and kind */
};

/* Jobs that are worth the same at every size, have the same now, share a limit. */
struct class
{
	size_t first; /* of its columns */
	size_t n_columns;
	size_t *jobs; /* by id */
	size_t n_jobs;
	int limit; /* -1: none */
};

struct milp_model {
	const struct problem *problem; /* borrowed */
	struct choices choices;
	struct class *classes;
	size_t n_classes;
	struct column *columns;
	size_t n_columns;
	double nothing;	  /* value of nobody having anything */
	double most_gain; /* of any column; 0 without */
};

/* Fills *model, whatever was in it.  -1: ENOMEM, and nothing is left to free. */
int milp_model_init(struct milp_model *model, const struct problem *problem);
void milp_model_fini(struct milp_model *model);

#endif
