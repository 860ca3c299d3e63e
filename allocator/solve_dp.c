/*
 * solve_dp.c - exact by dynamic programming, for one kind of node.
 *
 * best[i][m] is the most that the first i items make of at most m nodes; an item
 * is a job, with its choices as options.  With per-user limits the jobs of a
 * limited user are a chain of their own, cut off at the limit, and its last row,
 * the user's value for each number of nodes, makes the options of one item of
 * the outer chain: still exact, since users share nothing but nodes.
 *
 * The table holds values and nothing else, so that its inner loop is one addition
 * and one maximum.  Of the many ways to the optimum that like jobs and flat
 * curves give, the one that moves fewest nodes is found afterwards, as the
 * shortest path over those cells that lie on any best way: usually a handful a
 * row.  Values are compared with a tolerance there (1e-12 of all there is
 * to win), as sums in another order differ in their last bits.  What is still
 * equal goes by id, so the same problem has the same plan.
 *
 * Time is items x nodes x options, memory items x nodes x 8 bytes; a table over
 * TABLE_BYTES is refused, and `auto` goes to the integer program then.
 */
#include "allocator/solve.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "allocator/choice.h"

#define TABLE_BYTES ((size_t)1 << 30)
#define TIE	    1e-12

/* The loop that everything waits for; -O2 alone would not vectorise it. */
#if defined(__GNUC__) && !defined(__clang__)
#define FAST __attribute__((optimize("O3", "finite-math-only", "no-signed-zeros")))
#else
#define FAST
#endif

struct option {
	int nodes;
	int moved;
	double value;
};

struct chain;

/* One job, or (chain set) all jobs of a user with a limit. */
struct item {
	size_t job;
	struct chain *chain;
	struct option *options;
	size_t n_options;
};

struct chain {
	struct item *items;
	size_t n_items;
	int cap;
	double *best; /* n_items + 1 rows of cap + 1 */
};

struct dp {
	const struct problem *problem;
	struct choices choices;
	struct chain outer;
	struct chain *users; /* one a limit */
	double tie;
};

static const double *row_of(const struct chain *chain, size_t i)
{
	return chain->best + i * ((size_t)chain->cap + 1);
}

/* --- values -------------------------------------------------------------------- */

FAST static void raise_row(
	double *restrict after, const double *restrict before, size_t n, double value)
{
	for (size_t m = 0; m < n; m++) {
		double sum = before[m] + value;

		after[m] = sum > after[m] ? sum : after[m];
	}
}

static void fill_row(
	const struct item *item, int cap, const double *before, double *after)
{
	for (int m = 0; m <= cap; m++)
		after[m] = before[m] + item->options[0].value;
	for (size_t o = 1; o < item->n_options; o++) {
		int nodes = item->options[o].nodes;

		if (nodes <= cap)
			raise_row(after + nodes, before, (size_t)(cap - nodes) + 1,
				item->options[o].value);
	}
}

static int fill_chain(struct chain *chain)
{
	size_t width = (size_t)chain->cap + 1, rows = chain->n_items + 1;

	if (rows > TABLE_BYTES / sizeof(double) / width)
		return -1;
	chain->best = calloc(rows * width, sizeof(double));
	if (!chain->best)
		return -1;
	for (size_t i = 0; i < chain->n_items; i++)
		fill_row(&chain->items[i], chain->cap, row_of(chain, i),
			chain->best + (i + 1) * width);
	return 0;
}

/* --- fewest moves among equals -------------------------------------------------- */

/* The least that is moved on a best way to each cell of the last row. */
static void fill_moves(const struct chain *chain, double tie, int *moves, int *spare)
{
	for (int m = 0; m <= chain->cap; m++)
		moves[m] = 0;
	for (size_t i = 0; i < chain->n_items; i++) {
		const struct item *item = &chain->items[i];
		const double *before = row_of(chain, i), *after = row_of(chain, i + 1);

		for (int m = 0; m <= chain->cap; m++)
			spare[m] = INT_MAX;
		for (size_t o = 0; o < item->n_options; o++) {
			struct option option = item->options[o];

			for (int m = option.nodes; m <= chain->cap; m++) {
				int from = m - option.nodes;

				if (before[from] + option.value >= after[m] - tie &&
					moves[from] + option.moved < spare[m])
					spare[m] = moves[from] + option.moved;
			}
		}
		memcpy(moves, spare, ((size_t)chain->cap + 1) * sizeof(*moves));
	}
}

/*
 * From the cells of row i + 1 that lie on a best way (cost: what was moved so far;
 * INT_MAX: not on one) to those of row i, and which option led from there.
 */
static void step_down(const struct chain *chain, size_t i, double tie, const int *cost,
	int *next, int *option)
{
	const struct item *item = &chain->items[i];
	const double *before = row_of(chain, i), *after = row_of(chain, i + 1);

	for (int m = 0; m <= chain->cap; m++)
		next[m] = INT_MAX;
	for (int m = chain->cap; m >= 0; m--) {
		if (cost[m] == INT_MAX)
			continue;
		for (size_t o = 0; o < item->n_options; o++) {
			int to = m - item->options[o].nodes;
			int sum = cost[m] + item->options[o].moved;

			if (to < 0 || sum >= next[to] ||
				before[to] + item->options[o].value < after[m] - tie)
				continue;
			next[to] = sum;
			option[to] = (int)o;
		}
	}
}

static int cheapest(const int *cost, int cap)
{
	int best = cap;

	for (int m = cap; m >= 0; m--)
		if (cost[m] < cost[best])
			best = m;
	return best;
}

static int follow(const struct dp *dp, const struct chain *chain, int nodes,
	struct share *shares);

/* Walk back up from the best end, giving each item what it took. */
static int give(const struct dp *dp, const struct chain *chain, const int *options,
	int at, struct share *shares)
{
	size_t width = (size_t)chain->cap + 1;
	int kind = problem_only_kind(dp->problem);

	for (size_t i = 0; i < chain->n_items; i++) {
		const struct item *item = &chain->items[i];
		int nodes = item->options[options[i * width + (size_t)at]].nodes;

		at += nodes;
		if (!item->chain)
			shares[item->job] = (struct share){kind, nodes};
		else if (follow(dp, item->chain, nodes, shares) != 0)
			return -1;
	}
	return 0;
}

/* Give the chain's items their part of at most `nodes` nodes. */
static int follow(
	const struct dp *dp, const struct chain *chain, int nodes, struct share *shares)
{
	size_t width = (size_t)chain->cap + 1;
	int *cost = calloc(width, sizeof(*cost)), *next = calloc(width, sizeof(*next));
	int *options = calloc(chain->n_items * width + 1, sizeof(*options));
	int rc = -1;

	if (!cost || !next || !options)
		goto out;
	for (size_t m = 0; m < width; m++)
		cost[m] = m == (size_t)nodes ? 0 : INT_MAX;
	for (size_t i = chain->n_items; i-- > 0;) {
		int *above = next;

		step_down(chain, i, dp->tie, cost, above, options + i * width);
		next = cost;
		cost = above;
	}
	rc = give(dp, chain, options, cheapest(cost, chain->cap), shares);
out:
	free(cost);
	free(next);
	free(options);
	return rc;
}

/* --- items --------------------------------------------------------------------- */

/* A fresh item at the end of the chain, or NULL. */
static struct item *add_item(struct chain *chain)
{
	size_t n = chain->n_items;

	if ((n & (n - 1)) == 0) {
		struct item *grown =
			realloc(chain->items, (n ? 2 * n : 1) * sizeof(*grown));

		if (!grown)
			return NULL;
		chain->items = grown;
	}
	memset(&chain->items[n], 0, sizeof(*chain->items));
	chain->n_items++;
	return &chain->items[n];
}

static int item_of_job(const struct dp *dp, size_t j, struct item *item)
{
	size_t first = dp->choices.first[j], n = dp->choices.first[j + 1] - first;

	if (!item)
		return -1;
	item->job = j;
	item->options = calloc(n, sizeof(*item->options));
	if (!item->options)
		return -1;
	item->n_options = n;
	for (size_t o = 0; o < n; o++) {
		const struct choice *choice = &dp->choices.list[first + o];

		item->options[o] =
			(struct option){choice->nodes, choice->moved, choice->value};
	}
	return 0;
}

/* A user's options: every number of nodes that is worth more than fewer. */
static int item_of_user(const struct dp *dp, struct chain *chain, struct item *item)
{
	size_t width = (size_t)chain->cap + 1;
	const double *values;
	int *moves;

	if (!item)
		return -1;
	moves = calloc(2 * width, sizeof(*moves));
	item->chain = chain;
	item->options = calloc(width, sizeof(*item->options));
	if (!item->options || !moves || fill_chain(chain) != 0) {
		free(moves);
		return -1;
	}
	fill_moves(chain, dp->tie, moves, moves + width);
	values = row_of(chain, chain->n_items);
	for (int m = 0; m <= chain->cap; m++)
		if (m == 0 || values[m] > values[m - 1] || moves[m] < moves[m - 1])
			item->options[item->n_options++] =
				(struct option){m, moves[m], values[m]};
	free(moves);
	return 0;
}

static void free_items(struct chain *chain)
{
	for (size_t i = 0; chain->items && i < chain->n_items; i++)
		free(chain->items[i].options);
	free(chain->items);
	free(chain->best);
}

/* Jobs by id: those of limited users into their chains, all others outside. */
static int sort_jobs(struct dp *dp)
{
	const struct problem *problem = dp->problem;

	for (size_t j = 0; j < problem->n_jobs; j++) {
		int limit = problem->jobs[j].limit;
		struct chain *chain = limit >= 0 ? &dp->users[limit] : &dp->outer;

		if (item_of_job(dp, j, add_item(chain)) != 0)
			return -1;
	}
	return 0;
}

static int build(struct dp *dp)
{
	const struct problem *problem = dp->problem;
	struct chain *outer = &dp->outer;
	int all = problem->kind_nodes[problem_only_kind(problem)];

	outer->cap = all;
	dp->users = calloc(problem->n_limits + 1, sizeof(*dp->users));
	if (!dp->users || sort_jobs(dp) != 0)
		return -1;
	for (size_t i = 0; i < problem->n_limits; i++) {
		struct chain *user = &dp->users[i];
		int cap = problem->limits[i].max_nodes;

		user->cap = cap < all ? cap : all;
		if (user->n_items > 0 && item_of_user(dp, user, add_item(outer)) != 0)
			return -1;
	}
	return fill_chain(outer);
}

int solve_dp_fits(const struct problem *problem)
{
	int kind = problem_only_kind(problem);

	return kind >= 0 &&
	       ((size_t)problem->kind_nodes[kind] + 1) * (problem->n_jobs + 1) <=
		       TABLE_BYTES / sizeof(double);
}

int solve_dp(const struct problem *problem, struct solution *out, struct err *err)
{
	struct dp dp = {.problem = problem};
	int rc;

	if (!solve_dp_fits(problem))
		return err_set(err, EINVAL,
			"dp is exact for one kind of node only, and below a gigabyte");
	rc = choices_init(&dp.choices, problem);
	dp.tie = TIE * dp.choices.scale;
	if (rc == 0)
		rc = build(&dp);
	if (rc == 0)
		rc = follow(&dp, &dp.outer, dp.outer.cap, out->shares);
	for (size_t i = 0; dp.users && i < problem->n_limits; i++)
		free_items(&dp.users[i]);
	free_items(&dp.outer);
	free(dp.users);
	choices_fini(&dp.choices);
	if (rc != 0)
		return err_set(err, ENOMEM, "solving by dp: out of memory");
	out->objective = solution_value(problem, out->shares);
	out->bound = out->objective;
	out->status = SOLVE_OPTIMAL;
	out->solver = SOLVER_DP;
	return 0;
}
