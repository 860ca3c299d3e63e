/* solver.h - the allocator in a child process, on the loop. */
#ifndef DAEMON_SOLVER_H
#define DAEMON_SOLVER_H

#include "allocator/plan.h"
#include "allocator/problem.h"
#include "proto/loop.h"

struct solver_run;

/* The plan is owned by the callee; NULL: there is none (logged). */
typedef void (*solver_done_f)(struct plan *plan_take, void *arg);

/*
 * Solve on the side.  The problem is borrowed until the end.  `done` is called
 * once, at the latest limit_s from now, never from inside this call.
 * NULL with ENOMEM, EAGAIN.
 */
struct solver_run *solver_start(struct loop *loop, const struct problem *problem,
	enum solver solver, double limit_s, solver_done_f done, void *arg, struct err *err);

/* Drop it: the answer is not wanted any more. */
void solver_cancel(struct solver_run *run);

#endif
