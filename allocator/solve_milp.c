/*
 * solve_milp.c - the count-level integer program, on GLPK.
 *
 * One column per class of like jobs and size (nodes of a kind are
 * interchangeable, so nodes themselves need no columns, and merging like jobs
 * into one integer column takes away the symmetry that makes the plain model
 * slow); one row per class (each job gets at most one size), one per kind of
 * node, one per user limit.  Values are relative to having nothing.
 *
 *   1. incumbent: the DP where it is exact, else greedy
 *   2. linear relaxation over the sizes on each class's upper hull: no other
 *      can be in its optimum.  Its value is the bound, its duals price
 *      everything else
 *   3. a column whose reduced cost is worse than bound less incumbent cannot be
 *      in any better solution: what is left is the core, usually a few dozen
 *      columns (none: the incumbent is proven)
 *   4. glp_intopt on the core, with Gomory cuts
 *
 * GLPK's errors abort the process and its time limit is approximate, so
 * this runs in a child (child.c) wherever there is something to lose.  Every
 * answer of GLPK has its meaning here:
 *
 *   simplex 0, OPT           -> duals are used
 *   simplex anything else    -> incumbent, feasible, no bound
 *   intopt 0, OPT            -> the better of it and the incumbent, optimal
 *   intopt 0, FEAS, or ETMLIM, EMIPGAP, ESTOP -> the better of both, feasible
 *   intopt 0, NOFEAS, UNDEF, or EBOUND, EROOT, ENOPFS, ENODFS, EFAIL, EINVAL
 *                            -> incumbent, feasible (its own columns are in the
 *                               core: "infeasible" can only be numerical)
 */
#include "allocator/solve.h"

#include <errno.h>
#include <glpk.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

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
	struct class *classes;
	size_t n_classes;
	struct column *columns;
	size_t n_columns, room;
	struct solution *best;
	incumbent_f follow;
	void *arg;
	glp_prob *core;
	int *core_columns; /* model's column of each core column, from 1 */
	double bound;      /* of the linear relaxation, over all jobs */
	double nothing;    /* value of nobody having anything */
};

/* --- columns and classes --------------------------------------------------------- */

static int add_column(struct model *model, struct column column)
{
	if (model->n_columns == model->room) {
		size_t room = model->room ? 2 * model->room : 1024;
		struct column *grown = realloc(model->columns, room * sizeof(*grown));

		if (!grown)
			return -1;
		model->columns = grown;
		model->room = room;
	}
	model->columns[model->n_columns++] = column;
	return 0;
}

/* Sizes of one kind, ascending, each worth more than every smaller one. */
static int add_sizes(struct model *model, size_t j, int class, int kind)
{
	const struct problem *problem = model->problem;
	double nothing = problem_value(problem, j, 0, 0), best = 0;
	int top = problem_top(problem, j, kind);

	for (int k = 1; k <= top; k++) {
		double gain;

		if (!problem_allows(problem, j, kind, k))
			continue;
		gain = problem_value(problem, j, kind, k) - nothing;
		if (gain <= best)
			continue;
		best = gain;
		if (add_column(model, (struct column){ class, { kind, k }, gain, 0 }) != 0)
			return -1;
	}
	return 0;
}

/* Upper hull of (nodes, gain) from the origin: Andrew's monotone chain. */
static int mark_hull(struct column *columns, size_t n)
{
	size_t *chain = calloc(n + 1, sizeof(*chain)), length = 0;

	if (!chain)
		return -1;
	for (size_t i = 0; i < n; i++) {
		while (length > 0) {
			const struct column *top = &columns[chain[length - 1]];
			double x0 = length > 1 ? columns[chain[length - 2]].share.nodes : 0;
			double y0 = length > 1 ? columns[chain[length - 2]].gain : 0;

			if ((top->gain - y0) * (columns[i].share.nodes - x0) >
				(columns[i].gain - y0) * (top->share.nodes - x0))
				break;
			length--;
		}
		chain[length++] = i;
	}
	for (size_t i = 0; i < length; i++)
		columns[chain[i]].hull = 1;
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
	size_t first = model->n_columns;
	int limit = problem_limit_of(problem, j);
	struct class *fresh;

	for (size_t t = 0; t < problem->n_kinds; t++) {
		size_t from = model->n_columns;

		if (add_sizes(model, j, (int)model->n_classes, (int)t) != 0 ||
			mark_hull(model->columns + from, model->n_columns - from) != 0)
			return -1;
	}
	for (size_t c = 0; c < model->n_classes; c++) {
		struct class *class = &model->classes[c];
		int present = problem->jobs[class->jobs[0]].present;

		if (class->limit == limit && present == problem->jobs[j].present &&
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

	model->classes = calloc(n ? n : 1, sizeof(*model->classes));
	if (!model->classes)
		return -1;
	for (size_t j = 0; j < n; j++) {
		model->nothing += problem_value(model->problem, j, 0, 0);
		if (classify(model, j) != 0)
			return -1;
	}
	return 0;
}

static void model_fini(struct model *model)
{
	for (size_t c = 0; c < model->n_classes; c++)
		free(model->classes[c].jobs);
	free(model->classes);
	free(model->columns);
	free(model->core_columns);
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
	glp_set_obj_coef(lp, at, column->gain);
	/* No upper bound: the class's row is one, and dual_bound reads its price. */
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

static int relax(const struct model *model, glp_prob *lp)
{
	glp_smcp params;

	for (size_t i = 0; i < model->n_columns; i++)
		if (model->columns[i].hull)
			add_to_glpk(model, lp, &model->columns[i]);
	if (glp_get_num_cols(lp) == 0)
		return 0;
	glp_init_smcp(&params);
	params.msg_lev = GLP_MSG_OFF;
	if (glp_simplex(lp, &params) != 0 || glp_get_status(lp) != GLP_OPT)
		return -1;
	return 0;
}

static double reduced_cost(const struct model *model, glp_prob *lp, const struct column *column)
{
	const struct class *class = &model->classes[column->class];
	double price = glp_get_row_dual(lp, row_of_kind(model, column->share.kind));

	if (class->limit >= 0)
		price += glp_get_row_dual(lp, row_of_limit(model, class->limit));
	return column->gain - price * column->share.nodes -
	       glp_get_row_dual(lp, column->class + 1);
}

/* The bound that these duals prove, whatever simplex thinks of its own optimum. */
static double dual_bound(const struct model *model, glp_prob *lp)
{
	const struct problem *problem = model->problem;
	double sum = model->nothing;

	for (size_t t = 0; t < problem->n_kinds; t++)
		sum += fmax(glp_get_row_dual(lp, row_of_kind(model, (int)t)), 0) *
			problem->kind_nodes[t];
	for (size_t i = 0; i < problem->n_limits; i++)
		sum += fmax(glp_get_row_dual(lp, row_of_limit(model, (int)i)), 0) *
			problem->limits[i].max_nodes;
	for (size_t c = 0; c < model->n_classes; c++)
		sum += fmax(glp_get_row_dual(lp, (int)c + 1), 0) *
			(double)model->classes[c].n_jobs;
	return sum;
}

static int build_core(struct model *model, glp_prob *lp)
{
	double slack = model->bound - model->best->objective;
	double eps = 1e-9 * (1 + fabs(model->bound));

	model->core = create_glpk(model);
	model->core_columns = calloc(model->n_columns + 1, sizeof(int));
	if (!model->core_columns)
		return -1;
	for (size_t i = 0; i < model->n_columns; i++) {
		int at;

		if (reduced_cost(model, lp, &model->columns[i]) < -slack - eps)
			continue;
		add_to_glpk(model, model->core, &model->columns[i]);
		at = glp_get_num_cols(model->core);
		glp_set_col_kind(model->core, at, GLP_IV);
		model->core_columns[at] = (int)i;
	}
	return 0;
}

/* Counts per class and size -> a share for each job: larger ones to lower ids. */
static void read_counts(const struct model *model, double (*value)(glp_prob *, int),
	struct share *shares)
{
	size_t *next = calloc(model->n_classes + 1, sizeof(*next));

	for (size_t j = 0; j < model->problem->n_jobs; j++)
		shares[j] = (struct share){ 0, 0 };
	for (int at = glp_get_num_cols(model->core); next && at >= 1; at--) {
		const struct column *column = &model->columns[model->core_columns[at]];
		const struct class *class = &model->classes[column->class];
		long count = lround(value(model->core, at));

		for (; count > 0 && next[column->class] < class->n_jobs; count--)
			shares[class->jobs[next[column->class]++]] = column->share;
	}
	free(next);
}

static void improve(struct model *model, double (*value)(glp_prob *, int))
{
	struct solution found;

	if (solution_init(&found, model->problem->n_jobs) != 0)
		return;
	read_counts(model, value, found.shares);
	found.objective = solution_value(model->problem, found.shares);
	if (found.objective >
		model->best->objective + 1e-9 * (1 + fabs(model->best->objective))) {
		found.status = SOLVE_FEASIBLE;
		found.solver = SOLVER_MILP;
		found.bound = model->bound;
		solution_copy(model->best, &found);
		if (model->follow)
			model->follow(model->best, model->arg);
	}
	solution_fini(&found);
}

static double column_prim(glp_prob *lp, int at)
{
	return glp_get_col_prim(lp, at);
}

static double column_mip(glp_prob *lp, int at)
{
	return glp_mip_col_val(lp, at);
}

static void on_tree(glp_tree *tree, void *arg)
{
	struct model *model = arg;
	glp_prob *whole = model->core;

	if (glp_ios_reason(tree) != GLP_IBINGO)
		return;
	/* The tree's own problem has cuts, but the same columns. */
	model->core = glp_ios_get_prob(tree);
	improve(model, column_prim);
	model->core = whole;
}

static void search(struct model *model, double limit_s)
{
	glp_smcp simplex;
	glp_iocp params;
	int rc;

	glp_init_smcp(&simplex);
	simplex.msg_lev = GLP_MSG_OFF;
	if (glp_simplex(model->core, &simplex) != 0 ||
		glp_get_status(model->core) != GLP_OPT)
		return;
	glp_init_iocp(&params);
	params.msg_lev = GLP_MSG_OFF;
	params.gmi_cuts = GLP_ON;
	params.cb_func = on_tree;
	params.cb_info = model;
	if (isfinite(limit_s))
		params.tm_lim = (int)fmin(fmax(1000 * limit_s, 1), 1e9);
	rc = glp_intopt(model->core, &params);
	if (rc != 0 && rc != GLP_ETMLIM && rc != GLP_EMIPGAP && rc != GLP_ESTOP)
		return;
	if (glp_mip_status(model->core) != GLP_OPT && glp_mip_status(model->core) != GLP_FEAS)
		return;
	improve(model, column_mip);
	if (rc == 0 && glp_mip_status(model->core) == GLP_OPT) {
		model->best->status = SOLVE_OPTIMAL;
		model->best->bound = model->best->objective;
	}
}

static int run(struct model *model, double limit_s)
{
	glp_prob *lp;
	int rc = 0;

	glp_term_out(GLP_OFF);
	lp = create_glpk(model);
	if (relax(model, lp) == 0) {
		model->bound = dual_bound(model, lp);
		model->best->bound = fmax(model->bound, model->best->objective);
		if (model->bound - model->best->objective <=
			1e-9 * (1 + fabs(model->bound)))
			model->best->status = SOLVE_OPTIMAL;
		else if (build_core(model, lp) != 0)
			rc = -1;
		else
			search(model, limit_s);
	}
	if (model->core)
		glp_delete_prob(model->core);
	glp_delete_prob(lp);
	return rc;
}

int solve_milp(const struct problem *problem, double limit_s, incumbent_f follow, void *arg,
	struct solution *out, struct err *err)
{
	struct model model = { .problem = problem, .best = out, .follow = follow, .arg = arg };
	int rc = solve_dp_fits(problem) ? solve_dp(problem, out, err)
					: solve_greedy(problem, out, err);

	if (rc != 0)
		return -1;
	out->status = SOLVE_FEASIBLE;
	out->solver = SOLVER_MILP;
	out->bound = INFINITY;
	if (follow)
		follow(out, arg);
	rc = build(&model);
	if (rc == 0)
		rc = run(&model, limit_s);
	model_fini(&model);
	return rc == 0 ? 0 : err_set(err, ENOMEM, "solving by milp: out of memory");
}
