/*
 * solve_dp.c - exact by dynamic programming, for one kind of node.
 *
 * best[j][n] is the most that the first j jobs make of at most n nodes; a job's
 * options are its allowed sizes less the dominated ones (a larger size that is
 * worth no more).  With per-user limits the jobs of a limited user form one
 * group: the same table inside it, cut off at the limit, gives the group's
 * value for each number of nodes, and the group takes part in the outer table
 * like a job.  Jobs without a limit are groups of one.
 *
 * Among solutions of equal value (to 1e-9 of the horizon's scale) the one that
 * moves fewer nodes wins: a move counts as a second, much smaller objective
 * that is carried along.
 */
#include "allocator/solve.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct cell {
	double value;
	int moved; /* nodes that change hands */
};

/* A job, or all jobs of a user with a limit. */
struct group {
	size_t *jobs;
	size_t n_jobs;
	int cap;
	struct cell *table; /* (n_jobs + 1) rows of cap + 1 */
	int *chosen;        /* n_jobs rows of cap + 1: size of that job */
};

struct option {
	int nodes;
	struct cell cell;
};

static int better(struct cell a, struct cell b)
{
	double eps = 1e-9 * (1 + fabs(b.value));

	if (a.value > b.value + eps)
		return 1;
	return a.value >= b.value - eps && a.moved < b.moved;
}

static struct cell sum(struct cell a, struct cell b)
{
	return (struct cell){ a.value + b.value, a.moved + b.moved };
}

/* Ascending sizes, each worth more than all below it or being the present one. */
static size_t list_options(const struct problem *problem, size_t j, int cap,
	struct option *options)
{
	const struct problem_job *job = &problem->jobs[j];
	double best = -INFINITY;
	size_t n = 0;

	for (int k = 0; k <= cap; k++) {
		double value;

		if (!problem_allows(problem, j, 0, k))
			continue;
		value = problem_value(problem, j, 0, k);
		if (value <= best && k != job->present)
			continue;
		best = fmax(best, value);
		options[n++] = (struct option){ k, { value, abs(k - job->present) } };
	}
	return n;
}

static void fill_row(const struct option *options, size_t n, int cap,
	const struct cell *before, struct cell *after, int *chosen)
{
	for (int m = 0; m <= cap; m++) {
		struct cell best = { -INFINITY, 0 };

		chosen[m] = 0;
		for (size_t i = 0; i < n && options[i].nodes <= m; i++) {
			struct cell cell = sum(before[m - options[i].nodes], options[i].cell);

			if (i == 0 || better(cell, best)) {
				best = cell;
				chosen[m] = options[i].nodes;
			}
		}
		after[m] = best;
	}
}

static int fill_group(const struct problem *problem, struct group *group)
{
	size_t width = (size_t)group->cap + 1;
	struct option *options = calloc(width, sizeof(*options));

	group->table = calloc((group->n_jobs + 1) * width, sizeof(*group->table));
	group->chosen = calloc(group->n_jobs * width, sizeof(*group->chosen));
	if (!options || !group->table || !group->chosen) {
		free(options);
		return -1;
	}
	for (size_t i = 0; i < group->n_jobs; i++) {
		int top = problem_top(problem, group->jobs[i], 0);
		size_t n = list_options(problem, group->jobs[i],
			top < group->cap ? top : group->cap, options);

		fill_row(options, n, group->cap, group->table + i * width,
			group->table + (i + 1) * width, group->chosen + i * width);
	}
	free(options);
	return 0;
}

static void trace_group(const struct group *group, int nodes, struct share *shares)
{
	size_t width = (size_t)group->cap + 1;

	for (size_t i = group->n_jobs; i-- > 0;) {
		int k = group->chosen[i * width + (size_t)nodes];

		shares[group->jobs[i]] = (struct share){ 0, k };
		nodes -= k;
	}
}

static void free_groups(struct group *groups, size_t n)
{
	for (size_t i = 0; groups && i < n; i++) {
		free(groups[i].jobs);
		free(groups[i].table);
		free(groups[i].chosen);
	}
	free(groups);
}

static int add_to_group(struct group *group, size_t j)
{
	size_t *grown = realloc(group->jobs, (group->n_jobs + 1) * sizeof(*grown));

	if (!grown)
		return -1;
	group->jobs = grown;
	grown[group->n_jobs++] = j;
	return 0;
}

/* Groups of limited users first, then all others as one group without a cap. */
static struct group *make_groups(const struct problem *problem, size_t *n)
{
	int all = problem->kind_nodes[0];
	struct group *groups = calloc(problem->n_limits + 1, sizeof(*groups));

	*n = problem->n_limits + 1;
	if (!groups)
		return NULL;
	for (size_t i = 0; i < problem->n_limits; i++)
		groups[i].cap = problem->limits[i].max_nodes < all
			? problem->limits[i].max_nodes : all;
	groups[problem->n_limits].cap = all;
	for (size_t j = 0; j < problem->n_jobs; j++) {
		int limit = problem_limit_of(problem, j);
		struct group *group =
			&groups[limit >= 0 ? (size_t)limit : problem->n_limits];

		if (add_to_group(group, j) != 0) {
			free_groups(groups, *n);
			return NULL;
		}
	}
	return groups;
}

/* The outer table: groups like jobs whose value at m nodes is their last row. */
static int combine(const struct problem *problem, struct group *groups, size_t n,
	struct solution *out)
{
	int all = problem->kind_nodes[0], left = all;
	size_t width = (size_t)all + 1;
	struct cell *table = calloc((n + 1) * width, sizeof(*table));
	int *chosen = calloc(n * width, sizeof(*chosen));

	if (!table || !chosen) {
		free(table);
		free(chosen);
		return -1;
	}
	for (size_t i = 0; i < n; i++) {
		const struct cell *values =
			groups[i].table + groups[i].n_jobs * ((size_t)groups[i].cap + 1);

		for (int m = 0; m <= all; m++) {
			struct cell best = { -INFINITY, 0 };

			for (int k = 0; k <= groups[i].cap && k <= m; k++) {
				struct cell cell =
					sum(table[i * width + (size_t)(m - k)], values[k]);

				if (k == 0 || better(cell, best)) {
					best = cell;
					chosen[i * width + (size_t)m] = k;
				}
			}
			table[(i + 1) * width + (size_t)m] = best;
		}
	}
	for (size_t i = n; i-- > 0;) {
		int k = chosen[i * width + (size_t)left];

		trace_group(&groups[i], k, out->shares);
		left -= k;
	}
	free(table);
	free(chosen);
	return 0;
}

int solve_dp(const struct problem *problem, struct solution *out, struct err *err)
{
	struct group *groups;
	size_t n;
	int rc = 0;

	if (!solve_dp_fits(problem))
		return err_set(err, EINVAL, "dp is exact for one kind of node only, here are %zu",
			problem->n_kinds);
	groups = make_groups(problem, &n);
	if (!groups)
		return err_set(err, ENOMEM, "solving by dp: out of memory");
	for (size_t i = 0; i < n && rc == 0; i++)
		rc = fill_group(problem, &groups[i]);
	if (rc == 0 && n == 1)
		trace_group(&groups[0], groups[0].cap, out->shares);
	else if (rc == 0)
		rc = combine(problem, groups, n, out);
	free_groups(groups, n);
	if (rc != 0)
		return err_set(err, ENOMEM, "solving by dp: out of memory");
	out->objective = solution_value(problem, out->shares);
	out->bound = out->objective;
	out->status = SOLVE_OPTIMAL;
	out->solver = SOLVER_DP;
	return 0;
}
