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
 * The bound is worked out from the duals by weak duality, not read off: it holds
 * even where simplex was a little wrong about its optimum.
 */
#include "allocator/solve.h"

#include <errno.h>
#include <glpk.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "allocator/choice.h"

#define GAIN_MAX 1000.0 /* largest coefficient: GLPK's tolerances are absolute */
#define GUESS    1e-4   /* first guess of optimum to bound, of all gain */
#define WIDEN    8

struct column {
	int class;
	struct share share;
	double gain; /* value over having nothing */
	int hull;
};

struct class {
	size_t first;    /* column */
	size_t n_columns;
	size_t *jobs;
	size_t n_jobs;
	int limit;
};

struct model {
	const struct problem *problem;
	struct choices choices;
	struct class *classes;
	size_t n_classes;
	struct column *columns;
	size_t n_columns;
	struct solution *best;
	incumbent_f follow;
	void *arg;
	double limit_s;
	glp_prob *core;
	int *core_columns; /* model's column of each core column, from 1 */
	double nothing;    /* value of nobody having anything */
	double factor;     /* from gains to GLPK's objective */
	double tie;        /* no better than this is no better */
	double tree_bound; /* in GLPK's objective */
};

/* --- columns and classes ------------------------------------------------------- */

/* The job's sizes of one kind, ascending.  Returns how many. */
static size_t add_sizes(struct model *model, size_t j, int kind)
{
	size_t from = model->n_columns, first = model->choices.first[j];

	for (size_t i = first + 1; i < model->choices.first[j + 1]; i++) {
		const struct choice *choice = &model->choices.list[i];

		if (choice->kind == kind)
			model->columns[model->n_columns++] = (struct column){
				(int)model->n_classes, { kind, choice->nodes },
				choice->value - model->choices.list[first].value, 0
			};
	}
	return model->n_columns - from;
}

/* c is on or above the line through a and b, as near as a double can tell. */
static int hides(const struct column *a, const struct column *b, const struct column *c)
{
	double up = (b->gain - a->gain) * (c->share.nodes - a->share.nodes);
	double line = (c->gain - a->gain) * (b->share.nodes - a->share.nodes);

	return up <= line + 1e-12 * fabs(line);
}

/*
 * Upper hull of (nodes, gain) from the origin, without the points within its
 * edges: between measured points a curve is a line, so that those are many, and
 * mixtures of the ends make them up.
 */
static int mark_hull(struct column *columns, size_t n)
{
	static const struct column origin = { 0, { 0, 0 }, 0, 0 };
	const struct column **chain = calloc(n + 1, sizeof(*chain));
	size_t length = 1;

	if (!chain)
		return -1;
	chain[0] = &origin;
	for (size_t i = 0; i < n; i++) {
		const struct column *next = &columns[i];

		if (next->gain <= chain[length - 1]->gain)
			continue;
		while (length > 1 && hides(chain[length - 2], chain[length - 1], next))
			length--;
		chain[length++] = next;
	}
	for (size_t i = 1; i < length; i++)
		columns[chain[i] - columns].hull = 1;
	free(chain);
	return 0;
}

static int same_columns(const struct model *model, const struct class *class, size_t first)
{
	size_t n = model->n_columns - first;

	if (class->n_columns != n)
		return 0;
	for (size_t i = 0; i < n; i++) {
		const struct column *a = &model->columns[class->first + i];
		const struct column *b = &model->columns[first + i];

		if (a->share.kind != b->share.kind || a->share.nodes != b->share.nodes ||
			a->gain != b->gain)
			return 0;
	}
	return 1;
}

static int join_class(struct class *class, size_t j)
{
	size_t *grown = realloc(class->jobs, (class->n_jobs + 1) * sizeof(*grown));

	if (!grown)
		return -1;
	class->jobs = grown;
	grown[class->n_jobs++] = j;
	return 0;
}

/* Put the job into the class that has its columns, or make one. */
static int classify(struct model *model, size_t j)
{
	const struct problem *problem = model->problem;
	const struct problem_job *job = &problem->jobs[j];
	size_t first = model->n_columns;
	int limit = job->limit;
	struct class *fresh;

	for (size_t t = 0; t < problem->n_kinds; t++) {
		size_t from = model->n_columns, n = add_sizes(model, j, (int)t);

		if (mark_hull(model->columns + from, n) != 0)
			return -1;
	}
	for (size_t c = 0; c < model->n_classes; c++) {
		struct class *class = &model->classes[c];
		const struct problem_job *like = &problem->jobs[class->jobs[0]];

		if (class->limit == limit && like->present == job->present &&
			like->present_kind == job->present_kind &&
			same_columns(model, class, first)) {
			model->n_columns = first;
			return join_class(class, j);
		}
	}
	fresh = &model->classes[model->n_classes++];
	*fresh = (struct class){ first, model->n_columns - first, NULL, 0, limit };
	return join_class(fresh, j);
}

static int build(struct model *model)
{
	size_t n = model->problem->n_jobs;
	double most = 0;

	if (choices_init(&model->choices, model->problem) != 0)
		return -1;
	model->tie = 1e-12 * model->choices.scale;
	model->classes = calloc(n + 1, sizeof(*model->classes));
	model->columns = calloc(model->choices.first[n] + 1, sizeof(*model->columns));
	if (!model->classes || !model->columns)
		return -1;
	for (size_t j = 0; j < n; j++) {
		model->nothing += model->choices.list[model->choices.first[j]].value;
		if (classify(model, j) != 0)
			return -1;
	}
	for (size_t i = 0; i < model->n_columns; i++)
		most = fmax(most, model->columns[i].gain);
	model->factor = most > 0 ? GAIN_MAX / most : 1;
	return 0;
}

static void model_fini(struct model *model)
{
	for (size_t c = 0; c < model->n_classes; c++)
		free(model->classes[c].jobs);
	free(model->classes);
	free(model->columns);
	free(model->core_columns);
	choices_fini(&model->choices);
}

/* --- GLPK ------------------------------------------------------------------------ */

static int row_of_kind(const struct model *model, int kind)
{
	return (int)model->n_classes + 1 + kind;
}

static int row_of_limit(const struct model *model, int limit)
{
	return (int)(model->n_classes + model->problem->n_kinds) + 1 + limit;
}

static void add_rows(const struct model *model, glp_prob *lp)
{
	const struct problem *problem = model->problem;

	glp_add_rows(lp, (int)(model->n_classes + problem->n_kinds + problem->n_limits));
	for (size_t c = 0; c < model->n_classes; c++)
		glp_set_row_bnds(
			lp, (int)c + 1, GLP_UP, 0, (double)model->classes[c].n_jobs);
	for (size_t t = 0; t < problem->n_kinds; t++)
		glp_set_row_bnds(lp, row_of_kind(model, (int)t), GLP_UP, 0,
			problem->kind_nodes[t]);
	for (size_t i = 0; i < problem->n_limits; i++)
		glp_set_row_bnds(lp, row_of_limit(model, (int)i), GLP_UP, 0,
			problem->limits[i].max_nodes);
}

static void add_to_glpk(const struct model *model, glp_prob *lp, const struct column *column)
{
	const struct class *class = &model->classes[column->class];
	int at = glp_add_cols(lp, 1), n = 2;
	int rows[4] = { 0, column->class + 1, row_of_kind(model, column->share.kind), 0 };
	double values[4] = { 0, 1, column->share.nodes, column->share.nodes };

	if (class->limit >= 0)
		rows[++n] = row_of_limit(model, class->limit);
	/* No upper bound: the class's row is one, and dual_bound reads its price. */
	glp_set_obj_coef(lp, at, column->gain * model->factor);
	glp_set_col_bnds(lp, at, GLP_LO, 0, 0);
	glp_set_mat_col(lp, at, n, rows, values);
}

static glp_prob *create_glpk(const struct model *model)
{
	glp_prob *lp = glp_create_prob();

	glp_set_obj_dir(lp, GLP_MAX);
	add_rows(model, lp);
	return lp;
}

static int run_simplex(const struct model *model, glp_prob *lp)
{
	glp_smcp params;

	glp_init_smcp(&params);
	params.msg_lev = GLP_MSG_OFF;
	if (isfinite(model->limit_s))
		params.tm_lim = (int)fmin(fmax(1000 * model->limit_s, 1), 1e9);
	return glp_simplex(lp, &params) == 0 && glp_get_status(lp) == GLP_OPT ? 0 : -1;
}

static int relax(const struct model *model, glp_prob *lp)
{
	for (size_t i = 0; i < model->n_columns; i++)
		if (model->columns[i].hull)
			add_to_glpk(model, lp, &model->columns[i]);
	return run_simplex(model, lp);
}

/* Duals of a maximum with rows of <= are not negative, but for rounding. */
static double price_of(const struct model *model, glp_prob *lp, int row)
{
	return fmax(glp_get_row_dual(lp, row), 0) / model->factor;
}

static double reduced_cost(
	const struct model *model, glp_prob *lp, const struct column *column)
{
	const struct class *class = &model->classes[column->class];
	double price = price_of(model, lp, row_of_kind(model, column->share.kind));

	if (class->limit >= 0)
		price += price_of(model, lp, row_of_limit(model, class->limit));
	return column->gain - price * column->share.nodes -
	       price_of(model, lp, column->class + 1);
}

/* Weak duality: what is left of reduced costs above 0 raises its class's price. */
static double dual_bound(const struct model *model, glp_prob *lp, double *over)
{
	const struct problem *problem = model->problem;
	double sum = model->nothing;

	for (size_t i = 0; i < model->n_columns; i++) {
		double cost = reduced_cost(model, lp, &model->columns[i]);

		over[model->columns[i].class] = fmax(over[model->columns[i].class], cost);
	}
	for (size_t t = 0; t < problem->n_kinds; t++)
		sum += price_of(model, lp, row_of_kind(model, (int)t)) *
		       problem->kind_nodes[t];
	for (size_t i = 0; i < problem->n_limits; i++)
		sum += price_of(model, lp, row_of_limit(model, (int)i)) *
		       problem->limits[i].max_nodes;
	for (size_t c = 0; c < model->n_classes; c++)
		sum += (price_of(model, lp, (int)c + 1) + over[c]) *
		       (double)model->classes[c].n_jobs;
	return sum;
}

/* How many jobs of the column's class have its size in the incumbent. */
static int uses(const struct model *model, const struct column *column)
{
	const struct class *class = &model->classes[column->class];
	int n = 0;

	for (size_t i = 0; i < class->n_jobs; i++) {
		struct share share = model->best->shares[class->jobs[i]];

		n += share.nodes == column->share.nodes &&
		     share.kind == column->share.kind;
	}
	return n;
}

/*
 * All columns that a solution within `slack` of the bound can have, and those of
 * the incumbent, so that GLPK can be told of it.
 */
static void build_core(struct model *model, glp_prob *lp, double slack)
{
	int n = 0;

	model->core = create_glpk(model);
	model->tree_bound = INFINITY;
	for (size_t i = 0; i < model->n_columns; i++) {
		const struct column *column = &model->columns[i];

		if (reduced_cost(model, lp, column) < -slack && uses(model, column) == 0)
			continue;
		add_to_glpk(model, model->core, column);
		glp_set_col_kind(model->core, ++n, GLP_IV);
		model->core_columns[n] = (int)i;
	}
}

/* --- solutions in and out of GLPK ------------------------------------------------ */

/*
 * Counts per class and size into a share for each job: larger sizes to lower ids.
 * `value` reads a column of lp, whose first columns are the core's.
 */
static int read_counts(const struct model *model, glp_prob *lp,
	double (*value)(glp_prob *, int), struct share *shares)
{
	size_t *next = calloc(model->n_classes + 1, sizeof(*next));

	if (!next)
		return -1;
	for (size_t j = 0; j < model->problem->n_jobs; j++)
		shares[j] = (struct share){ 0, 0 };
	for (int at = glp_get_num_cols(model->core); at >= 1; at--) {
		const struct column *column = &model->columns[model->core_columns[at]];
		const struct class *class = &model->classes[column->class];
		long count = lround(value(lp, at));

		for (; count > 0 && next[column->class] < class->n_jobs; count--)
			shares[class->jobs[next[column->class]++]] = column->share;
	}
	free(next);
	return 0;
}

static void improve(struct model *model, glp_prob *lp, double (*value)(glp_prob *, int))
{
	struct solution found;

	if (solution_init(&found, model->problem->n_jobs) != 0 ||
		read_counts(model, lp, value, found.shares) != 0)
		goto out;
	found.objective = solution_value(model->problem, found.shares);
	if (found.objective > model->best->objective + model->tie) {
		found.status = SOLVE_FEASIBLE;
		found.solver = SOLVER_MILP;
		found.bound = fmax(model->best->bound, found.objective);
		solution_copy(model->best, &found);
		if (model->follow)
			model->follow(model->best, model->arg);
	}
out:
	solution_fini(&found);
}

static void tell_incumbent(const struct model *model, glp_tree *tree)
{
	/* Cuts add rows, never columns: the tree's columns are the core's. */
	int n = glp_get_num_cols(model->core);
	double *counts = calloc((size_t)n + 1, sizeof(*counts));

	if (!counts)
		return;
	for (int at = 1; at <= n; at++)
		counts[at] = uses(model, &model->columns[model->core_columns[at]]);
	glp_ios_heur_sol(tree, counts);
	free(counts);
}

static void on_tree(glp_tree *tree, void *arg)
{
	struct model *model = arg;
	int best;

	switch (glp_ios_reason(tree)) {
	case GLP_ISELECT:
		best = glp_ios_best_node(tree);
		if (best != 0)
			model->tree_bound = glp_ios_node_bound(tree, best);
		break;
	case GLP_IHEUR:
		if (glp_ios_node_level(tree, glp_ios_curr_node(tree)) == 0)
			tell_incumbent(model, tree);
		break;
	case GLP_IBINGO:
		improve(model, glp_ios_get_prob(tree), glp_get_col_prim);
		break;
	}
}

/* --- the search ------------------------------------------------------------------ */

static void prove(struct model *model, double bound)
{
	model->best->bound = fmin(model->best->bound, fmax(bound, model->best->objective));
	if (model->best->bound - model->best->objective <= 1e-9 * model->choices.scale)
		model->best->status = SOLVE_OPTIMAL;
}

/* Search the core.  0: the best of it is known; -1: not proven, see tree_bound. */
static int search(struct model *model)
{
	glp_iocp params;
	int rc, status;

	if (run_simplex(model, model->core) != 0)
		return -1;
	glp_init_iocp(&params);
	params.msg_lev = GLP_MSG_OFF;
	params.gmi_cuts = GLP_ON;
	params.tol_int = 1e-7;
	params.tol_obj = 1e-11;
	params.cb_func = on_tree;
	params.cb_info = model;
	if (isfinite(model->limit_s))
		params.tm_lim = (int)fmin(fmax(1000 * model->limit_s, 1), 1e9);
	rc = glp_intopt(model->core, &params);
	status = glp_mip_status(model->core);
	if (rc != 0 && rc != GLP_ETMLIM && rc != GLP_EMIPGAP && rc != GLP_ESTOP)
		return -1;
	if (status != GLP_OPT && status != GLP_FEAS)
		return -1;
	improve(model, model->core, glp_mip_col_val);
	return rc == 0 && status == GLP_OPT ? 0 : -1;
}

/*
 * Guess how near the optimum is to the bound, and search the core that the guess
 * leaves.  What it finds is the optimum if it is as near as was guessed.
 */
static void search_cores(
	struct model *model, glp_prob *lp, double bound, enum solver first)
{
	/* The DP's incumbent needs no guess. */
	double guess = first == SOLVER_DP ? INFINITY : GUESS * (bound - model->nothing);
	double margin = 1e-9 * model->choices.scale;
	int rc = 0;

	while (rc == 0 && model->best->status != SOLVE_OPTIMAL) {
		double slack = fmin(guess, bound - model->best->objective) + margin;
		double inside = -INFINITY;

		build_core(model, lp, slack);
		rc = search(model);
		if (rc != 0)
			inside = model->nothing + model->tree_bound / model->factor;
		prove(model, fmax(inside, bound - slack));
		glp_delete_prob(model->core);
		model->core = NULL;
		guess *= WIDEN;
	}
}

static int run(struct model *model, enum solver first)
{
	double *over = calloc(model->n_classes + 1, sizeof(*over));
	glp_prob *lp;

	model->core_columns = calloc(model->n_columns + 1, sizeof(int));
	if (!over || !model->core_columns) {
		free(over);
		return -1;
	}
	if (model->n_columns == 0) {
		prove(model, model->nothing);
		free(over);
		return 0;
	}
	glp_term_out(GLP_OFF);
	lp = create_glpk(model);
	if (relax(model, lp) == 0) {
		double bound = dual_bound(model, lp, over);

		prove(model, bound);
		if (bound - model->best->objective > model->tie)
			search_cores(model, lp, bound, first);
	}
	glp_delete_prob(lp);
	free(over);
	return 0;
}

int solve_milp(const struct problem *problem, enum solver first, double limit_s,
	incumbent_f follow, void *arg, struct solution *out, struct err *err)
{
	struct model model = {
		.problem = problem, .best = out, .follow = follow, .arg = arg,
		.limit_s = limit_s
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
	rc = build(&model);
	if (rc == 0)
		rc = run(&model, first);
	model_fini(&model);
	if (rc != 0)
		return err_set(err, ENOMEM, "solving by milp: out of memory");
	if (first == SOLVER_DP && out->objective <= dp_optimum) {
		out->status = SOLVE_OPTIMAL;
		out->bound = out->objective;
	}
	return 0;
}
