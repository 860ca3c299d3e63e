/* problem.h - who could have which nodes, and what each would make of them.
 *
 * A frozen snapshot: it owns all it points to.  Jobs are sorted by id, nodes by
 * name, kinds and limits by name, byte by byte, whatever order they were put in,
 * so that no solver can depend on the order of the input.
 */
#ifndef ALLOCATOR_PROBLEM_H
#define ALLOCATOR_PROBLEM_H

#include <jansson.h>
#include <stddef.h>

#include "jpa/curve.h"
#include "proto/err.h"

enum objective {
	OBJECTIVE_UNSET = 0,
	OBJECTIVE_SPEEDUP,    /* rate over the rate of one node (the default) */
	OBJECTIVE_THROUGHPUT, /* rate */
};

struct problem_node {
	char *name;
	int job;   /* index of the job that has it; -1: nobody */
	int kind;  /* index into kinds */
	int group; /* nodes that came together share it; 0: none */
};

struct problem_job {
	char *id;
	char *user; /* or NULL */
	double weight;
	int min_nodes, max_nodes;
	double grow_s, shrink_s, start_s;
	struct curve *curves; /* one a kind; without points: cannot run on it */
	int present;	      /* nodes it has now, counted from nodes */
	int present_kind;     /* of those; 0 without any */
	/* Worked out once, when all is read: */
	int limit;	      /* index into limits; -1: none */
	double unit_rate;     /* of one node, which speed-up is against */
	double present_speed; /* v_j of what it has now */
};

struct problem_limit {
	char *user;
	int max_nodes; /* of all jobs of the user together; 0 is legal */
};

struct problem {
	enum objective objective;
	double horizon_s;
	char **kinds; /* at least one; "" where the input names none */
	size_t n_kinds;
	int *kind_nodes; /* how many nodes of each kind */
	struct problem_node *nodes;
	size_t n_nodes;
	struct problem_job *jobs;
	size_t n_jobs;
	struct problem_limit *limits;
	size_t n_limits;
};

#define PROBLEM_NODES_MAX 100000
#define PROBLEM_JOBS_MAX  100000

/*
 * Read a problem.  Every fault of the contract is EINVAL with the path of the
 * place: "jobs[3].curve[1]: rate is negative".  NULL; ENOMEM.  Absent:
 * objective speedup, horizon_s 120, weight 1, costs 0, kind and user none.
 */
struct problem *problem_read(const json_t *root, struct err *err);

/* As problem_read, from text; what follows the object is a fault. */
struct problem *problem_parse(const char *text, size_t size, struct err *err);

void problem_destroy(struct problem *problem);

/*
 * f_j: what job `job` makes of `nodes` nodes of `kind` within the horizon, less
 * the cost of getting there from where it is.  0 nodes is always allowed.
 */
double problem_value(const struct problem *problem, size_t job, int kind, int nodes);

/* The job may have exactly so many nodes of this kind. */
int problem_allows(const struct problem *problem, size_t job, int kind, int nodes);

/* Largest size worth looking at on this kind: the curve is flat beyond. */
int problem_top(const struct problem *problem, size_t job, int kind);

/* The only kind that there are nodes of (any, without nodes); -1: several. */
int problem_only_kind(const struct problem *problem);

/*
 * Fill in what is worked out once, after everything else is there and sorted.
 * Whoever makes a problem by other means than problem_read calls it.
 */
void problem_finish(struct problem *problem);

#endif
