/* choice.h - the sizes of each job that are worth looking at. */
#ifndef ALLOCATOR_CHOICE_H
#define ALLOCATOR_CHOICE_H

#include <stddef.h>

#include "allocator/problem.h"

struct choice {
	int kind;
	int nodes;
	double value; /* f_j, of problem_value */
	int moved;    /* nodes that it takes or gives to get there */
};

/* Of job j: list[first[j]] (no nodes at all) up to, not including, first[j + 1]. */
struct choices {
	struct choice *list;
	size_t *first;
	double scale; /* no plan is worth more than this, or less than minus this */
};

/*
 * Within a job by kind, then by size.  A size that is worth no more than a smaller
 * one of its kind is left out, unless the job has exactly it.  -1: ENOMEM.
 */
int choices_init(struct choices *choices, const struct problem *problem);
void choices_fini(struct choices *choices);

/*
 * What no plan can exceed: each job's values under a concave roof, all kinds in
 * one pool, no user limits, the last roof piece cut off where the nodes end.
 * INFINITY when there is no memory to work it out.
 */
double choices_bound(const struct choices *choices, const struct problem *problem);

#endif
