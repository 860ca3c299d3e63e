/* solve.h - a problem in, the best numbers of nodes out. */
#ifndef ALLOCATOR_SOLVE_H
#define ALLOCATOR_SOLVE_H

#include "allocator/problem.h"
#include "proto/err.h"

enum solver {
	SOLVER_UNSET = 0,
	SOLVER_AUTO,   /* dp where it is exact, else milp */
	SOLVER_MILP,   /* GLPK: exact; in a child process only (GLPK may abort) */
	SOLVER_DP,     /* exact, for one kind of node */
	SOLVER_GREEDY, /* never fails, not exact */
};

/* "auto" ...; SOLVER_UNSET for another word. */
enum solver solver_parse(const char *word);
const char *solver_name(enum solver solver);

enum solve_status {
	SOLVE_UNSET = 0,
	SOLVE_OPTIMAL,
	SOLVE_FEASIBLE, /* stopped early, or without proof: see bound */
	SOLVE_FALLBACK, /* the solver failed: greedy's */
};
const char *solve_status_name(enum solve_status status);

/* How many nodes of which kind one job gets. */
struct share {
	int kind;
	int nodes;
};

/* One share a job, in the problem's order.  Owned by the solution. */
struct solution {
	enum solve_status status;
	enum solver solver; /* that found it */
	struct share *shares;
	size_t n_shares;
	double objective;
	double bound; /* nothing better than this exists; INFINITY: not known */
};

int solution_init(struct solution *solution, size_t n_jobs); /* -1: ENOMEM */
void solution_fini(struct solution *solution);
int solution_copy(struct solution *to, const struct solution *from);

/* Sum of the values of the shares. */
double solution_value(const struct problem *problem, const struct share *shares);

/* Whoever follows a long solve: called with each better solution. */
typedef void (*incumbent_f)(const struct solution *better, void *arg);

/*
 * Each fills an initialised *out, whose objective is the sum of the values of its
 * shares.  limit_s: wall seconds, INFINITY for none (milp alone looks at it, and
 * may overrun: a caller with a deadline uses child.h).  Same problem, same
 * solution, whatever order it came in; of equal solutions the dp, and milp where
 * the dp fits, take one that moves fewest nodes; none moves anything when the
 * present assignment is as good as any.  -1 with ENOMEM, or EINVAL where the
 * solver does not fit the problem.
 */
int solve(const struct problem *problem, enum solver solver, double limit_s,
	incumbent_f follow, void *arg, struct solution *out, struct err *err);
int solve_dp(const struct problem *problem, struct solution *out, struct err *err);
int solve_greedy(const struct problem *problem, struct solution *out, struct err *err);

/* first: whose solution it starts from, SOLVER_DP (where it fits) or SOLVER_GREEDY. */
int solve_milp(const struct problem *problem, enum solver first, double limit_s,
	incumbent_f follow, void *arg, struct solution *out, struct err *err);

/* The DP is exact for it (one kind of node), and its table not too large. */
int solve_dp_fits(const struct problem *problem);

#endif
