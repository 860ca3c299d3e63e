/*
 * solver.c - the allocator in a child process, on the loop.
 *
 * The loop watches the child's pipe and a timer.  Whichever comes first ends it:
 * the end of the pipe, or the wall limit, at which the child is killed and
 * the best solution that it had found counts.
 */
#include "daemon/solver.h"

#include <errno.h>
#include <stdlib.h>

#include "allocator/child.h"
#include "proto/log.h"

struct solver_run {
	struct child *child;
	struct loop_io *io;
	struct loop_timer *limit;
	solver_done_f done;
	void *arg;
};

static struct plan *take_down(struct solver_run *run)
{
	struct err err = { "" };
	struct plan *plan;

	loop_io_destroy(run->io);
	loop_timer_destroy(run->limit);
	plan = child_finish(run->child, &err);
	if (!plan)
		log_err("solver", "%s", err.text);
	free(run);
	return plan;
}

static void finish(struct solver_run *run)
{
	solver_done_f done = run->done;
	void *arg = run->arg;

	done(take_down(run), arg);
}

static void on_ready(int fd, unsigned ready, void *arg)
{
	struct solver_run *run = arg;

	if (child_read(run->child))
		finish(run);
}

static void on_limit(void *arg)
{
	log_notice("solver", "stopped at its wall limit");
	finish(arg);
}

struct solver_run *solver_start(struct loop *loop, const struct problem *problem,
	enum solver solver, double limit_s, solver_done_f done, void *arg, struct err *err)
{
	struct solver_run *run = calloc(1, sizeof(*run));

	if (!run) {
		err_set(err, ENOMEM, "starting a solver: out of memory");
		return NULL;
	}
	run->done = done;
	run->arg = arg;
	run->child = child_start(problem, solver, limit_s, err);
	if (!run->child) {
		free(run);
		return NULL;
	}
	run->io = loop_io_create(loop, child_fd(run->child), LOOP_READ, on_ready, run);
	run->limit = loop_timer_create(loop, on_limit, run);
	if (!run->io || !run->limit) {
		plan_destroy(take_down(run));
		err_set(err, ENOMEM, "starting a solver: out of memory");
		return NULL;
	}
	loop_timer_start(run->limit, limit_s);
	return run;
}

void solver_cancel(struct solver_run *run)
{
	if (run)
		plan_destroy(take_down(run));
}
