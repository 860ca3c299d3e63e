/*
 * check_alloc.c - solvers against an oracle that shares nothing with them.
 *
 * Random problems are made as plain arrays, written out as JSON, and solved
 * twice: by the allocator, and here, by trying every combination of sizes (or,
 * with one kind of node, by a table over counts).  The value of a size is
 * written down again from its definition,
 *
 *   f(k) = T v(k) - cost(k),  v = weight * rate(k) [/ rate(1)]
 *
 * so that a wrong term in the allocator cannot agree with itself.
 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allocator/plan.h"
#include "allocator/problem.h"
#include "allocator/solve.h"

#define JOBS   8
#define NODES  41
#define KINDS  3
#define POINTS 6

struct line {
	int n;
	int nodes[POINTS];
	double rate[POINTS];
};

struct some_job {
	int min, max, present, home; /* home: kind of its present nodes */
	int user;		     /* index of its limit; -1: none */
	double weight, grow_s, shrink_s, start_s;
	struct line lines[KINDS];
};

struct some_problem {
	int throughput, n_jobs, n_nodes, n_kinds, n_limits;
	double horizon_s;
	struct some_job jobs[JOBS];
	int owner[NODES], kind[NODES]; /* of each node */
	int limits[2];
};

static unsigned long long state;

static unsigned below(unsigned n)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (unsigned)(state >> 33) % n;
}

static double between(double low, double high)
{
	return low + (high - low) * below(1000001) / 1e6;
}

static void seed(int number)
{
	state = 88172645463325252ull + 2654435761ull * (unsigned)number;
	for (int i = 0; i < 8; i++)
		below(2);
}

/* --- random problems ------------------------------------------------------- */

/* Not concave, not even monotone: each rate is anything up to linear. */
static struct line a_line(int n_nodes)
{
	struct line line = {.n = 1 + (int)below(POINTS)};
	int at = 1 + (int)below(3);

	for (int i = 0; i < line.n; i++) {
		line.nodes[i] = at;
		line.rate[i] = between(0.3, 1.2) * pow(at, between(0.3, 1.1)) * 100;
		at += 1 + (int)below((unsigned)n_nodes / 3 + 1);
	}
	return line;
}

static struct some_job a_job(const struct some_problem *p, int with_costs)
{
	struct some_job job = {
		.min = 1 + (int)below(4),
		.user = p->n_limits ? (int)below(3) - 1 : -1,
		.weight = below(2) ? 1 : between(0.1, 5),
		.home = (int)below((unsigned)p->n_kinds),
	};

	job.max = job.min + (int)below((unsigned)p->n_nodes + 4);
	if (with_costs) {
		job.grow_s = below(3) ? between(0, 40) : 0;
		job.shrink_s = below(3) ? between(0, 40) : 0;
		job.start_s = below(3) ? between(0, 60) : 0;
	}
	for (int t = 0; t < p->n_kinds; t++)
		if (t == job.home || below(4))
			job.lines[t] = a_line(p->n_nodes);
	return job;
}

static void give_nodes(struct some_problem *p)
{
	unsigned idle = below(3) * (unsigned)p->n_jobs;

	for (int i = 0; i < p->n_nodes; i++) {
		int j = (int)below((unsigned)p->n_jobs + idle);

		p->kind[i] = (int)below((unsigned)p->n_kinds);
		p->owner[i] = -1;
		if (j < p->n_jobs && p->jobs[j].home == p->kind[i]) {
			p->owner[i] = j;
			p->jobs[j].present++;
		}
	}
}

static struct some_problem a_problem(
	int jobs, int nodes, int n_kinds, int n_limits, int with_costs)
{
	struct some_problem p = {
		.throughput = (int)below(2),
		.n_jobs = 1 + (int)below((unsigned)jobs),
		.n_nodes = 1 + (int)below((unsigned)nodes),
		.n_kinds = n_kinds,
		.n_limits = n_limits,
		.horizon_s = below(2) ? 120 : between(5, 500),
	};

	for (int i = 0; i < n_limits; i++)
		p.limits[i] = (int)below((unsigned)p.n_nodes + 1);
	for (int j = 0; j < p.n_jobs; j++)
		p.jobs[j] = a_job(&p, with_costs);
	give_nodes(&p);
	return p;
}

/* --- as JSON, in any order ------------------------------------------------- */

static void shuffle(int *order, int n, int really)
{
	for (int i = 0; i < n; i++)
		order[i] = i;
	for (int i = n - 1; really && i > 0; i--) {
		int k = (int)below((unsigned)i + 1), swapped = order[i];

		order[i] = order[k];
		order[k] = swapped;
	}
}

static void write_line(FILE *out, const struct line *line)
{
	fputc('[', out);
	for (int i = 0; i < line->n; i++)
		fprintf(out, "%s[%d,%.17g]", i ? "," : "", line->nodes[i],
			line->rate[i]);
	fputc(']', out);
}

static void write_job(FILE *out, const struct some_problem *p, int j)
{
	const struct some_job *job = &p->jobs[j];
	const char *comma = "";

	fprintf(out,
		"{\"id\":\"j%d\",\"weight\":%.17g,\"min_nodes\":%d,\"max_nodes\":%d,"
		"\"grow_s\":%.17g,\"shrink_s\":%.17g,\"start_s\":%.17g,",
		j, job->weight, job->min, job->max, job->grow_s, job->shrink_s,
		job->start_s);
	if (job->user >= 0)
		fprintf(out, "\"user\":\"u%d\",", job->user);
	if (p->n_kinds == 1) {
		fprintf(out, "\"curve\":");
		write_line(out, &job->lines[0]);
		fputc('}', out);
		return;
	}
	fprintf(out, "\"curves\":{");
	for (int t = 0; t < p->n_kinds; t++)
		if (job->lines[t].n > 0) {
			fprintf(out, "%s\"k%d\":", comma, t);
			write_line(out, &job->lines[t]);
			comma = ",";
		}
	fprintf(out, "}}");
}

static void write_node(FILE *out, const struct some_problem *p, int i)
{
	fprintf(out, "{\"name\":\"n%d\"", i);
	if (p->n_kinds > 1)
		fprintf(out, ",\"kind\":\"k%d\"", p->kind[i]);
	if (p->owner[i] >= 0)
		fprintf(out, ",\"job\":\"j%d\"", p->owner[i]);
	fprintf(out, ",\"group\":%d}", i % 5);
}

static char *write_problem(const struct some_problem *p, int shuffled)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	int order[NODES];

	fprintf(out,
		"{\"version\":1,\"objective\":\"%s\",\"horizon_s\":%.17g,\"nodes\":[",
		p->throughput ? "throughput" : "speedup", p->horizon_s);
	shuffle(order, p->n_nodes, shuffled);
	for (int i = 0; i < p->n_nodes; i++) {
		fputs(i ? "," : "", out);
		write_node(out, p, order[i]);
	}
	fprintf(out, "],\"jobs\":[");
	shuffle(order, p->n_jobs, shuffled);
	for (int j = 0; j < p->n_jobs; j++) {
		fputs(j ? "," : "", out);
		write_job(out, p, order[j]);
	}
	fprintf(out, "],\"limits\":[");
	shuffle(order, p->n_limits, shuffled);
	for (int i = 0; i < p->n_limits; i++)
		fprintf(out, "%s{\"user\":\"u%d\",\"max_nodes\":%d}", i ? "," : "",
			order[i], p->limits[order[i]]);
	fprintf(out, "]}");
	fclose(out);
	return text;
}

static struct problem *read_problem(const struct some_problem *p, int shuffled)
{
	char *text = write_problem(p, shuffled);
	struct err err = {""};
	struct problem *problem = problem_parse(text, strlen(text), &err);

	ck_assert_msg(problem, "%s in %s", err.text, text);
	free(text);
	return problem;
}

/* --- the oracle ------------------------------------------------------------ */

static double rate(const struct line *line, int nodes)
{
	int i = 0;
	double part;

	if (nodes == 0 || line->n == 0)
		return 0;
	if (nodes <= line->nodes[0])
		return line->rate[0] / line->nodes[0] * nodes;
	while (i < line->n && line->nodes[i] < nodes)
		i++;
	if (i == line->n)
		return line->rate[i - 1];
	part = (double)(nodes - line->nodes[i - 1]) /
	       (line->nodes[i] - line->nodes[i - 1]);
	return (1 - part) * line->rate[i - 1] + part * line->rate[i];
}

static double speed_of(const struct some_problem *p, int j, int kind, int nodes)
{
	const struct some_job *job = &p->jobs[j];
	double one = 0;

	for (int t = 0; t < p->n_kinds; t++)
		one = fmax(one, rate(&job->lines[t], 1));
	return job->weight * rate(&job->lines[kind], nodes) / (p->throughput ? 1 : one);
}

static double value_of(const struct some_problem *p, int j, int kind, int nodes)
{
	const struct some_job *job = &p->jobs[j];
	double before = speed_of(p, j, job->home, job->present);
	double after = speed_of(p, j, kind, nodes), value = p->horizon_s * after;

	if (job->present == 0)
		return value - job->start_s * after;
	if (nodes > 0 && kind != job->home)
		return value - job->shrink_s * before - job->start_s * after;
	if (nodes > job->present)
		return value - job->grow_s * before;
	if (nodes < job->present)
		return value - job->shrink_s * before;
	return value;
}

static int allowed(const struct some_problem *p, int j, int kind, int nodes)
{
	return nodes == 0 || (nodes >= p->jobs[j].min && nodes <= p->jobs[j].max &&
				     p->jobs[j].lines[kind].n > 0);
}

/* Every combination; room: free nodes of each kind, then what limits leave. */
static double try_all(const struct some_problem *p, int j, int *room)
{
	double best;
	int *limit;

	if (j == p->n_jobs)
		return 0;
	limit = p->jobs[j].user >= 0 ? &room[KINDS + p->jobs[j].user] : NULL;
	best = value_of(p, j, p->jobs[j].home, 0) + try_all(p, j + 1, room);
	for (int t = 0; t < p->n_kinds; t++)
		for (int k = 1, most = room[t]; k <= most; k++) {
			if (!allowed(p, j, t, k) || (limit && k > *limit))
				continue;
			room[t] -= k;
			if (limit)
				*limit -= k;
			best = fmax(
				best, value_of(p, j, t, k) + try_all(p, j + 1, room));
			room[t] += k;
			if (limit)
				*limit += k;
		}
	return best;
}

static double by_trying(const struct some_problem *p)
{
	int room[KINDS + 2] = {0, 0, 0, p->limits[0], p->limits[1]};

	for (int i = 0; i < p->n_nodes; i++)
		room[p->kind[i]]++;
	return try_all(p, 0, room);
}

/* One kind, no limits: best of the first jobs with at most n nodes. */
static double by_table(const struct some_problem *p)
{
	double best[NODES + 1] = {0}, next[NODES + 1];
	int total = 0;

	for (int i = 0; i < p->n_nodes; i++)
		total += p->kind[i] == 0;
	for (int j = 0; j < p->n_jobs; j++) {
		for (int n = 0; n <= total; n++) {
			next[n] = -INFINITY;
			for (int k = 0; k <= n; k++)
				if (allowed(p, j, 0, k))
					next[n] = fmax(next[n],
						value_of(p, j, 0, k) + best[n - k]);
		}
		memcpy(best, next, sizeof(best));
	}
	return best[total];
}

/* --- checking one solver's answer -------------------------------------------- */

static int same(double a, double b)
{
	return fabs(a - b) <= 1e-6 * fmax(1, fabs(b));
}

static struct solution solved(const struct problem *problem, enum solver solver)
{
	struct solution solution;
	struct err err = {""};

	ck_assert_int_eq(solution_init(&solution, problem->n_jobs), 0);
	ck_assert_msg(
		solve(problem, solver, INFINITY, NULL, NULL, &solution, &err) == 0,
		"%s: %s", solver_name(solver), err.text);
	return solution;
}

static struct plan *placed(
	const struct problem *problem, const struct solution *solution)
{
	struct err err = {""};
	struct plan *plan = plan_place(problem, solution, &err);

	ck_assert_msg(plan, "%s", err.text);
	ck_assert_msg(plan_verify(problem, plan, &err) == 0, "%s", err.text);
	return plan;
}

/* What the oracle makes of a plan; node n7 of the input is found by its name. */
static double worth(const struct some_problem *p, const struct problem *problem,
	const struct plan *plan)
{
	int nodes[JOBS] = {0}, kinds[JOBS] = {0};
	double sum = 0;

	for (size_t i = 0; i < problem->n_nodes; i++) {
		int node = atoi(problem->nodes[i].name + 1);

		if (plan->owners[i] < 0)
			continue;
		nodes[plan->owners[i]]++; /* j0 to j7 sort like their indices */
		kinds[plan->owners[i]] = p->kind[node];
	}
	for (int j = 0; j < p->n_jobs; j++)
		sum += value_of(p, j, nodes[j] ? kinds[j] : p->jobs[j].home, nodes[j]);
	return sum;
}

/* Not below floor, and, with a target, exactly there and proven. */
static double check_solver(const struct some_problem *p, const struct problem *problem,
	enum solver solver, double target)
{
	struct solution solution = solved(problem, solver);
	struct plan *plan = placed(problem, &solution);
	double objective = solution.objective;

	ck_assert_msg(same(worth(p, problem, plan), objective),
		"%s says %.9g, its plan is worth %.9g", solver_name(solver), objective,
		worth(p, problem, plan));
	if (solver == SOLVER_GREEDY) {
		ck_assert_double_le(objective, target + 1e-6 * fmax(1, fabs(target)));
	} else {
		ck_assert_msg(same(objective, target), "%s: %.9g, the best is %.9g",
			solver_name(solver), objective, target);
		ck_assert_int_eq(solution.status, SOLVE_OPTIMAL);
		ck_assert(same(solution.bound, objective));
	}
	plan_destroy(plan);
	solution_fini(&solution);
	return objective;
}

static void check_all(const struct some_problem *p, double best, int with_dp)
{
	struct problem *problem = read_problem(p, 0);
	double greedy = check_solver(p, problem, SOLVER_GREEDY, best);

	ck_assert_double_ge(best, greedy - 1e-6 * fmax(1, fabs(best)));
	check_solver(p, problem, SOLVER_MILP, best);
	check_solver(p, problem, SOLVER_AUTO, best);
	ck_assert_int_eq(solve_dp_fits(problem), with_dp);
	if (with_dp)
		check_solver(p, problem, SOLVER_DP, best);
	problem_destroy(problem);
}

/* --- tests ------------------------------------------------------------------- */

/* 20 times 50. */
START_TEST(every_exact_solver_finds_the_optimum_of_1000_problems)
{
	for (int i = 0; i < 50; i++) {
		struct some_problem p;

		seed(_i * 50 + i);
		p = a_problem(8, 40, 1, 0, 1);
		check_all(&p, by_table(&p), 1);
	}
}
END_TEST

/* A node that nobody can use is of another kind: now the DP cannot help. */
START_TEST(the_milp_finds_the_optimum_without_the_dp)
{
	for (int i = 0; i < 50; i++) {
		struct some_problem p;

		seed(10000 + _i * 50 + i);
		p = a_problem(8, 40, 1, 0, 1);
		p.n_kinds = 2;
		p.kind[p.n_nodes] = 1;
		p.owner[p.n_nodes++] = -1;
		check_all(&p, by_table(&p), 0);
	}
}
END_TEST

START_TEST(limits_of_users_are_kept_and_used_up)
{
	for (int i = 0; i < 60; i++) {
		struct some_problem p;

		seed(20000 + _i * 60 + i);
		p = a_problem(4, 12, 1, 2, 1);
		check_all(&p, by_trying(&p), 1);
	}
}
END_TEST

START_TEST(with_several_kinds_the_milp_finds_the_optimum)
{
	for (int i = 0; i < 100; i++) {
		struct some_problem p;

		seed(30000 + _i * 100 + i);
		p = a_problem(4, 8, 3, 2 * (i % 2), 1);
		if (p.n_nodes < 3)
			continue;
		p.kind[0] = p.kind[1] = p.kind[2] = -1;
		for (int t = 0, n = 0; t < 3; t++, n++) {
			int j = p.owner[n];

			if (j >= 0)
				p.jobs[j].present--;
			p.owner[n] = -1;
			p.kind[n] = t;
		}
		check_all(&p, by_trying(&p), 0);
	}
}
END_TEST

static char *plan_text(const struct some_problem *p, int shuffled, enum solver solver)
{
	struct problem *problem = read_problem(p, shuffled);
	struct solution solution = solved(problem, solver);
	struct plan *plan = placed(problem, &solution);
	json_t *json;
	char *text;

	plan->solve_ms = 0;
	json = plan_json(problem, plan);
	text = json_dumps(json, 0);
	json_decref(json);
	plan_destroy(plan);
	solution_fini(&solution);
	problem_destroy(problem);
	return text;
}

START_TEST(the_order_of_the_input_changes_nothing)
{
	static const enum solver solvers[] = {SOLVER_AUTO, SOLVER_MILP, SOLVER_GREEDY};

	for (int i = 0; i < 100; i++) {
		struct some_problem p;

		seed(40000 + _i * 100 + i);
		p = a_problem(8, 40, 1 + i % 3, 2 * (i % 2), 1);
		for (size_t s = 0; s < 3; s++) {
			char *one = plan_text(&p, 0, solvers[s]);
			char *other = plan_text(&p, 1, solvers[s]);

			ck_assert_str_eq(one, other);
			free(one);
			free(other);
		}
	}
}
END_TEST

/* Without costs the optimum stays the optimum once it is the present. */
static void check_stays(struct some_problem *p, enum solver solver)
{
	struct problem *problem = read_problem(p, 0);
	struct solution solution = solved(problem, solver);
	struct plan *plan = placed(problem, &solution);

	for (int j = 0; j < p->n_jobs; j++)
		p->jobs[j].present = 0;
	for (size_t i = 0; i < problem->n_nodes; i++) {
		int node = atoi(problem->nodes[i].name + 1), j = plan->owners[i];

		p->owner[node] = j;
		if (j >= 0) {
			p->jobs[j].present++;
			p->jobs[j].home = p->kind[node];
		}
	}
	plan_destroy(plan);
	solution_fini(&solution);
	problem_destroy(problem);
	problem = read_problem(p, 1);
	solution = solved(problem, solver);
	plan = placed(problem, &solution);
	for (size_t i = 0; i < problem->n_nodes; i++)
		ck_assert_int_eq(plan->owners[i], problem->nodes[i].job);
	plan_destroy(plan);
	solution_fini(&solution);
	problem_destroy(problem);
}

START_TEST(a_plan_that_was_carried_out_stays)
{
	for (int i = 0; i < 100; i++) {
		struct some_problem p;

		seed(50000 + _i * 100 + i);
		p = a_problem(8, 40, 1 + i % 3, 2 * (i % 2), 0);
		/* Curves of round numbers have many ties. */
		for (int j = 0; i % 2 && j < p.n_jobs; j++)
			for (int t = 0; t < p.n_kinds; t++)
				for (int k = 0; k < p.jobs[j].lines[t].n; k++)
					p.jobs[j].lines[t].rate[k] =
						100.0 * p.jobs[j].lines[t].nodes[k];
		check_stays(&p, i % 4 < 2 ? SOLVER_AUTO : SOLVER_MILP);
	}
}
END_TEST

/* All that any assignment makes is the same; three jobs and who has what. */
static const struct {
	int nodes[3], idle, kinds;
} ties[] = {
	{{1, 2, 3}, 0, 1},
	{{6, 0, 0}, 0, 1},
	{{0, 0, 6}, 0, 1},
	{{2, 2, 2}, 0, 1},
	{{0, 5, 1}, 0, 1},
	{{1, 2, 3}, 0, 2},
	{{0, 0, 6}, 0, 2},
};

START_TEST(ties_keep_the_present_assignment)
{
	struct some_problem p = {.throughput = 1,
		.n_jobs = 3,
		.n_kinds = ties[_i].kinds,
		.horizon_s = 120};
	struct line linear = {2, {1, 10}, {7, 70}};
	static const enum solver solvers[] = {SOLVER_AUTO, SOLVER_MILP, SOLVER_GREEDY};

	for (int j = 0; j < 3; j++) {
		p.jobs[j] = (struct some_job){.min = 1,
			.max = 10,
			.weight = 1,
			.user = -1,
			.present = ties[_i].nodes[j]};
		p.jobs[j].lines[0] = p.jobs[j].lines[1] = linear;
		for (int k = 0; k < ties[_i].nodes[j]; k++)
			p.owner[p.n_nodes++] = j;
	}
	if (p.n_kinds == 2) { /* that another kind is there makes no difference */
		p.jobs[0].lines[1].n = p.jobs[1].lines[1].n = p.jobs[2].lines[1].n = 0;
		p.kind[p.n_nodes] = 1;
		p.owner[p.n_nodes++] = -1;
	}
	for (size_t s = 0; s < 3; s++) {
		struct problem *problem = read_problem(&p, 1);
		struct solution solution = solved(problem, solvers[s]);
		struct plan *plan = placed(problem, &solution);

		for (size_t i = 0; i < problem->n_nodes; i++)
			ck_assert_int_eq(plan->owners[i], problem->nodes[i].job);
		plan_destroy(plan);
		solution_fini(&solution);
		problem_destroy(problem);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("alloc");
	TCase *tc = tcase_create("alloc");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_add_loop_test(
		tc, every_exact_solver_finds_the_optimum_of_1000_problems, 0, 20);
	tcase_add_loop_test(tc, the_milp_finds_the_optimum_without_the_dp, 0, 10);
	tcase_add_loop_test(tc, limits_of_users_are_kept_and_used_up, 0, 5);
	tcase_add_loop_test(tc, with_several_kinds_the_milp_finds_the_optimum, 0, 4);
	tcase_add_loop_test(tc, the_order_of_the_input_changes_nothing, 0, 3);
	tcase_add_loop_test(tc, a_plan_that_was_carried_out_stays, 0, 4);
	tcase_add_loop_test(tc, ties_keep_the_present_assignment, 0,
		sizeof(ties) / sizeof(ties[0]));
	suite_add_tcase(suite, tc);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}
