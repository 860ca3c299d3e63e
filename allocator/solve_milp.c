/*
 * solve_milp.c - the count-level integer program, on GLPK.
 *
 * One column per class of like jobs and size: nodes of a kind are
 * interchangeable, so nodes themselves need no columns, and merging like jobs
 * into one integer column takes away the symmetry that makes the plain model
 * slow.  One row per class (each job has at most one size), one per kind of node,
 * one per user limit.  Values are relative to having nothing.
 *
 *   1. incumbent: the DP where it is exact, else greedy
 *   2. linear relaxation over the sizes on each class's upper hull: no other
 *      can be in its optimum.  Its value is the bound, its duals price
 *      everything else
 *   3. a column whose reduced cost is worse than bound less incumbent cannot be
 *      in any better solution: what is left is the core, usually a few dozen
 *      columns.  Where the incumbent is poor (greedy's, with several kinds), the
 *      core is guessed smaller and widened until it proves itself
 *   4. glp_intopt on the core, with Gomory cuts, told of the incumbent
 *
 * GLPK's errors abort the process and its time limit is approximate, so
 * this runs in a child (child.c) wherever there is something to lose.  Every
 * answer of GLPK has its meaning here; "the incumbent" is what was there before,
 * optimal if it is the DP's, with the bound that was there before:
 *
 *   simplex 0, OPT          -> its duals are used
 *   simplex 0, UNDEF, FEAS, INFEAS, NOFEAS, UNBND, or EBADB, ESING, ECOND,
 *   EBOUND, EFAIL, EOBJLL, EOBJUL, EITLIM, ETMLIM, ENOPFS, ENODFS
 *                           -> the incumbent
 *   intopt 0, OPT           -> the better of it and the incumbent, optimal
 *   intopt 0, FEAS, or ETMLIM, EMIPGAP, ESTOP with OPT or FEAS
 *                           -> the better of both, not proven, bound of the tree
 *   intopt UNDEF, NOFEAS, or EBOUND, EROOT, ENOPFS, ENODFS, EFAIL
 *                           -> the incumbent (it is a column of the core, so
 *                              "infeasible" can only be numerical)
 *
 * With the DP's optimum to start from, the search is a check of it, which rough
 * curves can make long: it ends after CHECK_NODES nodes of the tree, a number and
 * not a time, so that the same problem has the same answer.
 *
 * The bound is worked out from the duals by weak duality, not read off: it holds
 * even where simplex was a little wrong about its optimum.
 */
#include "allocator/solve.h"

#include <errno.h>
#include <glpk.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "allocator/milp_model.h"

#define GAIN_MAX    1000.0 /* largest coefficient: GLPK's tolerances are absolute */
#define GUESS       1e-4   /* first guess of optimum to bound, of all gain */
#define WIDEN       8
#define CHECK_NODES 300 /* of the tree, where the DP has proven it already */

struct search {
	const struct problem *problem;
	struct milp_model model;
	struct solution *best;
	incumbent_f follow;
	void *arg;
	double limit_s;
	glp_prob *core;
	int *core_columns;          /* the model's column of each core column, from 1 */
	double factor;              /* from gains to GLPK's objective */
	double tie;                 /* no better than this is no better */
	double tree_bound;          /* in GLPK's objective */
	long nodes_seen, nodes_max; /* of the tree */
};

/* --- GLPK ------------------------------------------------------------------------ */

static int row_of_kind(const struct search *search, int kind)
{
	return (int)search->model.n_classes + 1 + kind;
}

static int row_of_limit(const struct search *search, int limit)
{
	return (int)(search->model.n_classes + search->problem->n_kinds) + 1 + limit;
}

static void add_rows(const struct search *search, glp_prob *lp)
{
	const struct problem *problem = search->problem;

	glp_add_rows(lp,
		(int)(search->model.n_classes + problem->n_kinds + problem->n_limits));
	for (size_t c = 0; c < search->model.n_classes; c++)
		glp_set_row_bnds(lp, (int)c + 1, GLP_UP, 0,
			(double)search->model.classes[c].n_jobs);
	for (size_t t = 0; t < problem->n_kinds; t++)
		glp_set_row_bnds(lp, row_of_kind(search, (int)t), GLP_UP, 0,
			problem->kind_nodes[t]);
	for (size_t i = 0; i < problem->n_limits; i++)
		glp_set_row_bnds(lp, row_of_limit(search, (int)i), GLP_UP, 0,
			problem->limits[i].max_nodes);
}

static void add_to_glpk(
	const struct search *search, glp_prob *lp, const struct column *column)
{
	const struct class *class = &search->model.classes[column->class];
	int at = glp_add_cols(lp, 1), n = 2;
	int rows[4] = { 0, column->class + 1, row_of_kind(search, column->share.kind),
		0 };
	double values[4] = { 0, 1, column->share.nodes, column->share.nodes };

	if (class->limit >= 0)
		rows[++n] = row_of_limit(search, class->limit);
	/* No upper bound: the class's row is one, and dual_bound reads its price. */
	glp_set_obj_coef(lp, at, column->gain * search->factor);
	glp_set_col_bnds(lp, at, GLP_LO, 0, 0);
	glp_set_mat_col(lp, at, n, rows, values);
}

static glp_prob *create_glpk(const struct search *search)
{
	glp_prob *lp = glp_create_prob();

	glp_set_obj_dir(lp, GLP_MAX);
	add_rows(search, lp);
	return lp;
}

static int run_simplex(const struct search *search, glp_prob *lp)
{
	glp_smcp params;

	glp_init_smcp(&params);
	params.msg_lev = GLP_MSG_OFF;
	if (isfinite(search->limit_s))
		params.tm_lim = (int)fmin(fmax(1000 * search->limit_s, 1), 1e9);
	return glp_simplex(lp, &params) == 0 && glp_get_status(lp) == GLP_OPT ? 0 : -1;
}

static int relax(const struct search *search, glp_prob *lp)
{
	for (size_t i = 0; i < search->model.n_columns; i++)
		if (search->model.columns[i].hull)
			add_to_glpk(search, lp, &search->model.columns[i]);
	return run_simplex(search, lp);
}

/* Duals of a maximum with rows of <= are not negative, but for rounding. */
static double price_of(const struct search *search, glp_prob *lp, int row)
{
	return fmax(glp_get_row_dual(lp, row), 0) / search->factor;
}

static double reduced_cost(
	const struct search *search, glp_prob *lp, const struct column *column)
{
	const struct class *class = &search->model.classes[column->class];
	double price = price_of(search, lp, row_of_kind(search, column->share.kind));

	if (class->limit >= 0)
		price += price_of(search, lp, row_of_limit(search, class->limit));
	return column->gain - price * column->share.nodes -
	       price_of(search, lp, column->class + 1);
}

/* Weak duality: what is left of reduced costs above 0 raises its class's price. */
static double dual_bound(const struct search *search, glp_prob *lp, double *over)
{
	const struct problem *problem = search->problem;
	double sum = search->model.nothing;

	for (size_t i = 0; i < search->model.n_columns; i++) {
		double cost = reduced_cost(search, lp, &search->model.columns[i]);

		over[search->model.columns[i].class] =
			fmax(over[search->model.columns[i].class], cost);
	}
	for (size_t t = 0; t < problem->n_kinds; t++)
		sum += price_of(search, lp, row_of_kind(search, (int)t)) *
		       problem->kind_nodes[t];
	for (size_t i = 0; i < problem->n_limits; i++)
		sum += price_of(search, lp, row_of_limit(search, (int)i)) *
		       problem->limits[i].max_nodes;
	for (size_t c = 0; c < search->model.n_classes; c++)
		sum += (price_of(search, lp, (int)c + 1) + over[c]) *
		       (double)search->model.classes[c].n_jobs;
	return sum;
}

/* How many jobs of the column's class have its size in the incumbent. */
static int uses(const struct search *search, const struct column *column)
{
	const struct class *class = &search->model.classes[column->class];
	int n = 0;

	for (size_t i = 0; i < class->n_jobs; i++) {
		struct share share = search->best->shares[class->jobs[i]];

		n += share.nodes == column->share.nodes &&
		     share.kind == column->share.kind;
	}
	return n;
}

/*
 * All columns that a solution within `slack` of the bound can have, and those of
 * the incumbent, so that GLPK can be told of it.
 */
static void build_core(struct search *search, glp_prob *lp, double slack)
{
	int n = 0;

	search->core = create_glpk(search);
	search->tree_bound = INFINITY;
	for (size_t i = 0; i < search->model.n_columns; i++) {
		const struct column *column = &search->model.columns[i];

		if (reduced_cost(search, lp, column) < -slack &&
			uses(search, column) == 0)
			continue;
		add_to_glpk(search, search->core, column);
		glp_set_col_kind(search->core, ++n, GLP_IV);
		search->core_columns[n] = (int)i;
	}
}

/* --- solutions in and out of GLPK ------------------------------------------------ */

/*
 * Counts per class and size into a share for each job: larger sizes to lower ids.
 * `value` reads a column of lp, whose first columns are the core's.
 */
static int read_counts(const struct search *search, glp_prob *lp,
	double (*value)(glp_prob *, int), struct share *shares)
{
	size_t *next = calloc(search->model.n_classes + 1, sizeof(*next));

	if (!next)
		return -1;
	for (size_t j = 0; j < search->problem->n_jobs; j++)
		shares[j] = (struct share){ 0, 0 };
	for (int at = glp_get_num_cols(search->core); at >= 1; at--) {
		const struct column *column =
			&search->model.columns[search->core_columns[at]];
		const struct class *class = &search->model.classes[column->class];
		long count = lround(value(lp, at));

		for (; count > 0 && next[column->class] < class->n_jobs; count--)
			shares[class->jobs[next[column->class]++]] = column->share;
	}
	free(next);
	return 0;
}

static void improve(
	struct search *search, glp_prob *lp, double (*value)(glp_prob *, int))
{
	struct solution found;

	if (solution_init(&found, search->problem->n_jobs) != 0 ||
		read_counts(search, lp, value, found.shares) != 0)
		goto out;
	found.objective = solution_value(search->problem, found.shares);
	if (found.objective > search->best->objective + search->tie) {
		found.status = SOLVE_FEASIBLE;
		found.solver = SOLVER_MILP;
		found.bound = fmax(search->best->bound, found.objective);
		solution_copy(search->best, &found);
		if (search->follow)
			search->follow(search->best, search->arg);
	}
out:
	solution_fini(&found);
}

static void tell_incumbent(const struct search *search, glp_tree *tree)
{
	/* Cuts add rows, never columns: the tree's columns are the core's. */
	int n = glp_get_num_cols(search->core);
	double *counts = calloc((size_t)n + 1, sizeof(*counts));

	if (!counts)
		return;
	for (int at = 1; at <= n; at++)
		counts[at] =
			uses(search, &search->model.columns[search->core_columns[at]]);
	glp_ios_heur_sol(tree, counts);
	free(counts);
}

static void on_tree(glp_tree *tree, void *arg)
{
	struct search *search = arg;
	int best;

	switch (glp_ios_reason(tree)) {
	case GLP_ISELECT:
		best = glp_ios_best_node(tree);
		if (best != 0)
			search->tree_bound = glp_ios_node_bound(tree, best);
		if (++search->nodes_seen > search->nodes_max)
			glp_ios_terminate(tree);
		break;
	case GLP_IHEUR:
		if (glp_ios_node_level(tree, glp_ios_curr_node(tree)) == 0)
			tell_incumbent(search, tree);
		break;
	case GLP_IBINGO:
		improve(search, glp_ios_get_prob(tree), glp_get_col_prim);
		break;
	}
}

/* --- the search ------------------------------------------------------------------ */

static void prove(struct search *search, double bound)
{
	search->best->bound =
		fmin(search->best->bound, fmax(bound, search->best->objective));
	if (search->best->bound - search->best->objective <=
		1e-9 * search->model.choices.scale)
		search->best->status = SOLVE_OPTIMAL;
}

/* Search the core.  0: the best of it is known; -1: not proven, see tree_bound. */
static int search_core(struct search *search)
{
	glp_iocp params;
	int rc, status;

	if (run_simplex(search, search->core) != 0)
		return -1;
	glp_init_iocp(&params);
	params.msg_lev = GLP_MSG_OFF;
	params.gmi_cuts = GLP_ON;
	params.tol_int = 1e-7;
	params.tol_obj = 1e-11;
	params.cb_func = on_tree;
	params.cb_info = search;
	if (isfinite(search->limit_s))
		params.tm_lim = (int)fmin(fmax(1000 * search->limit_s, 1), 1e9);
	rc = glp_intopt(search->core, &params);
	status = glp_mip_status(search->core);
	if (rc != 0 && rc != GLP_ETMLIM && rc != GLP_EMIPGAP && rc != GLP_ESTOP)
		return -1;
	if (status != GLP_OPT && status != GLP_FEAS)
		return -1;
	improve(search, search->core, glp_mip_col_val);
	return rc == 0 && status == GLP_OPT ? 0 : -1;
}

/*
 * Guess how near the optimum is to the bound, and search the core that the guess
 * leaves.  What it finds is the optimum if it is as near as was guessed.
 */
static void search_cores(
	struct search *search, glp_prob *lp, double bound, enum solver first)
{
	/* The DP's incumbent needs no guess. */
	double guess =
		first == SOLVER_DP ? INFINITY : GUESS * (bound - search->model.nothing);
	double margin = 1e-9 * search->model.choices.scale;
	int rc = 0;

	while (rc == 0 && search->best->status != SOLVE_OPTIMAL) {
		double slack = fmin(guess, bound - search->best->objective) + margin;
		double inside = -INFINITY;

		build_core(search, lp, slack);
		rc = search_core(search);
		if (rc != 0)
			inside = search->model.nothing +
				 search->tree_bound / search->factor;
		prove(search, fmax(inside, bound - slack));
		glp_delete_prob(search->core);
		search->core = NULL;
		guess *= WIDEN;
	}
}

static int run(struct search *search, enum solver first)
{
	double *over = calloc(search->model.n_classes + 1, sizeof(*over));
	glp_prob *lp;

	search->core_columns = calloc(search->model.n_columns + 1, sizeof(int));
	if (!over || !search->core_columns) {
		free(over);
		return -1;
	}
	if (search->model.n_columns == 0) {
		prove(search, search->model.nothing);
		free(over);
		return 0;
	}
	glp_term_out(GLP_OFF);
	lp = create_glpk(search);
	if (relax(search, lp) == 0) {
		double bound = dual_bound(search, lp, over);

		prove(search, bound);
		if (bound - search->best->objective > search->tie)
			search_cores(search, lp, bound, first);
	}
	glp_delete_prob(lp);
	free(over);
	return 0;
}

int solve_milp(const struct problem *problem, enum solver first, double limit_s,
	incumbent_f follow, void *arg, struct solution *out, struct err *err)
{
	struct search search = {
		.problem = problem,
		.best = out,
		.follow = follow,
		.arg = arg,
		.limit_s = limit_s,
		.factor = 1,
		.nodes_max = first == SOLVER_DP ? CHECK_NODES : LONG_MAX,
	};
	int rc = first == SOLVER_DP ? solve_dp(problem, out, err)
				    : solve_greedy(problem, out, err);
	double dp_optimum = out->objective;

	if (rc != 0)
		return -1;
	/* Greedy's own is what a caller falls back to anyway: nothing to tell. */
	if (follow && first == SOLVER_DP)
		follow(out, arg);
	out->solver = SOLVER_MILP;
	if (first == SOLVER_DP) { /* as if it were not proven: this is its check */
		out->status = SOLVE_FEASIBLE;
		out->bound = INFINITY;
	}
	rc = milp_model_init(&search.model, problem);
	if (rc == 0) {
		search.tie = 1e-12 * search.model.choices.scale;
		if (search.model.most_gain > 0)
			search.factor = GAIN_MAX / search.model.most_gain;
		rc = run(&search, first);
		milp_model_fini(&search.model);
		free(search.core_columns);
	}
	if (rc != 0)
		return err_set(err, ENOMEM, "solving by milp: out of memory");
	if (first == SOLVER_DP && out->objective <= dp_optimum) {
		out->status = SOLVE_OPTIMAL;
		out->bound = out->objective;
	}
	return 0;
}
