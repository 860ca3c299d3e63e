/* child.h - a solve in a process of its own, killed by the wall clock. */
#ifndef ALLOCATOR_CHILD_H
#define ALLOCATOR_CHILD_H

#include "allocator/plan.h"
#include "allocator/problem.h"
#include "allocator/solve.h"
#include "proto/err.h"

struct child;

/*
 * Fork a child that solves the problem and writes every better solution to a
 * pipe as it finds it.  The problem is borrowed until child_finish.  limit_s is
 * passed on to the solver; keeping it is the caller's business: at the limit,
 * child_finish.  NULL: EAGAIN, ENOMEM, EMFILE.
 */
struct child *child_start(const struct problem *problem, enum solver solver,
	double limit_s, struct err *err);

/* Readable when something has come.  Stays the child's. */
int child_fd(const struct child *child);

/* Take what has come, without waiting: 1 the end, 0 not yet. */
int child_read(struct child *child);

/*
 * Kill the child if it still runs, reap it, and place the best solution that
 * came; greedy's, as a fallback, when none did.  Frees the child.  NULL: ENOMEM.
 */
struct plan *child_finish(struct child *child, struct err *err);

/* All of it, waiting at most limit_s (INFINITY: as long as it takes). */
struct plan *child_solve(const struct problem *problem, enum solver solver,
	double limit_s, struct err *err);

#endif
