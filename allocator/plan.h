/* plan.h - which job gets which nodes.
 *
 * A plan speaks in indices of the problem that it answers, and means nothing
 * without it.
 */
#ifndef ALLOCATOR_PLAN_H
#define ALLOCATOR_PLAN_H

#include <jansson.h>
#include <stddef.h>
#include <sys/types.h>

#include "allocator/problem.h"
#include "allocator/solve.h"
#include "proto/err.h"

struct plan {
	enum solve_status status;
	enum solver solver;
	double objective;
	double bound; /* INFINITY: not known */
	double solve_ms;
	int *owners; /* for each node of the problem: index of its job, or -1 */
	size_t n_owners;
};

/*
 * Counts into nodes with least movement: a job only grows or only shrinks, what
 * it keeps it had; of what it gives and takes, nodes that came together stay
 * together.  NULL with ENOMEM.
 */
struct plan *plan_place(const struct problem *problem, const struct solution *solution,
	struct err *err);
void plan_destroy(struct plan *plan);

/*
 * Check a plan, whoever made it: each node one owner that exists, sizes allowed,
 * one kind a job, limits kept, a job only grows or only shrinks, the objective is
 * what the plan is worth and not above the bound, nor under it if the plan calls
 * itself optimal (all to 1e-6).  EINVAL says what is wrong; ENOMEM.
 */
int plan_verify(
	const struct problem *problem, const struct plan *plan, struct err *err);

/*
 * The JSON of the contract: jobs by id, nodes by name, both in byte order.  An
 * unknown bound is null.  Owned by the caller; NULL: ENOMEM.
 */
json_t *plan_json(const struct problem *problem, const struct plan *plan);

/* One job that is to change: to_nodes = from_nodes - gives + takes. */
struct change {
	size_t job;
	int from_nodes, to_nodes;
	int gives, takes; /* nodes; both: it moves, to another kind of node */
};

/*
 * What has to happen, in this order: jobs that give nodes before jobs that take;
 * within each by id.  *changes is malloc'd; returns how many, -1: ENOMEM.
 */
ssize_t plan_diff(const struct problem *problem, const struct plan *plan,
	struct change **changes);

#endif
