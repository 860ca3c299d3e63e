/*
 * check_plan.c - plans: placing, checking, differences, and solves in a child.
 *
 * Nodes are written as one letter each, the job that has it ('.': nobody), and
 * their groups as digits below; what the plan makes of it is a third line of
 * letters.  Names are n00, n01 ... in that order.
 */
#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "allocator/child.h"
#include "proto/clock.h"

/* Jobs a, b ... of linear curves and without costs, as many as are given. */
static struct problem *make(
	const char *owners, const char *groups, int n_jobs, const char *more)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	struct err err = {""};
	struct problem *problem;

	fprintf(out, "{\"version\":1,\"objective\":\"throughput\",\"nodes\":[");
	for (int i = 0; owners[i]; i++) {
		fprintf(out, "%s{\"name\":\"n%02d\"", i ? "," : "", i);
		if (owners[i] != '.')
			fprintf(out, ",\"job\":\"%c\"", owners[i]);
		fprintf(out, ",\"group\":%c}", groups ? groups[i] : '0');
	}
	fprintf(out, "],\"jobs\":[");
	for (int j = 0; j < n_jobs; j++)
		fprintf(out,
			"%s{\"id\":\"%c\",\"min_nodes\":1,\"max_nodes\":9,"
			"\"curve\":[[1,10],[9,90]]%s}",
			j ? "," : "", 'a' + j, more);
	fprintf(out, "],\"limits\":[{\"user\":\"u\",\"max_nodes\":4}]}");
	fclose(out);
	problem = problem_parse(text, strlen(text), &err);
	ck_assert_msg(problem, "%s", err.text);
	free(text);
	return problem;
}

static struct plan *place(const struct problem *problem, const int *counts)
{
	struct solution solution;
	struct err err = {""};
	struct plan *plan;

	solution_init(&solution, problem->n_jobs);
	for (size_t j = 0; j < problem->n_jobs; j++)
		solution.shares[j].nodes = counts[j];
	solution.objective = solution_value(problem, solution.shares);
	solution.bound = INFINITY;
	solution.status = SOLVE_FEASIBLE;
	solution.solver = SOLVER_GREEDY;
	plan = plan_place(problem, &solution, &err);
	ck_assert_msg(plan, "%s", err.text);
	solution_fini(&solution);
	return plan;
}

static void letters(const struct plan *plan, char *out)
{
	for (size_t i = 0; i < plan->n_owners; i++)
		out[i] = plan->owners[i] < 0 ? '.' : (char)('a' + plan->owners[i]);
	out[plan->n_owners] = 0;
}

/* --- placing ------------------------------------------------------------------ */

static const struct {
	const char *owners, *groups;
	int counts[3];
	const char *placed;
} places[] = {
	/* nothing to do: nothing moves */
	{"aabbcc..", "11223344", {2, 2, 2}, "aabbcc.."},
	{"abcabc", "123123", {2, 2, 2}, "abcabc"},
	/* a start takes a group that is as large */
	{"......", "112222", {2, 0, 0}, "aa...."},
	{"......", "111122", {2, 0, 0}, "....aa"},
	{"......", "112222", {4, 0, 0}, "..aaaa"},
	/* where no group has all of it: the largest, then what fits the rest */
	{".......", "1122223", {5, 0, 0}, "..aaaaa"},
	/* two starts do not share a group where they need not */
	{"....", "1212", {2, 2, 0}, "abab"},
	/* growing: from its own group, all that it had stays */
	{"a....", "12211", {3, 0, 0}, "a..aa"},
	{"a....", "32211", {3, 0, 0}, "a..aa"},
	{".a.", "111", {3, 0, 0}, "aaa"},
	/* shrinking: whole groups stay, single nodes go */
	{"aaaaa", "12221", {3, 0, 0}, ".aaa."},
	{"aaaaa", "12222", {4, 0, 0}, ".aaaa"},
	{"aaaa", "1122", {2, 0, 0}, "..aa"},
	{"aaaaaa", "112333", {5, 0, 0}, "aa.aaa"},
	{"aaaaaa", "112333", {4, 0, 0}, "..aaaa"},
	{"aaa", "123", {0, 0, 0}, "..."},
	/* what one gives another takes, in one step */
	{"aaaa", "1122", {2, 2, 0}, "bbaa"},
	{"aaab", "1222", {2, 2, 0}, "baab"},
	/* idle nodes before those that another has to give first */
	{"aa..", "1122", {0, 2, 0}, "..bb"},
	/* whoever wants most chooses first */
	{"......", "111122", {2, 4, 0}, "bbbbaa"},
	/* nodes of no group are each alone */
	{"aaa", "011", {2, 0, 0}, ".aa"},
	{"...", "011", {2, 0, 0}, ".aa"},
};

START_TEST(nodes_that_came_together_stay_together)
{
	struct problem *problem = make(places[_i].owners, places[_i].groups, 3, "");
	struct plan *plan = place(problem, places[_i].counts);
	struct err err = {""};
	char placed[32];
	int counts[3] = {0};

	ck_assert_msg(plan_verify(problem, plan, &err) == 0, "%s", err.text);
	letters(plan, placed);
	for (const char *p = placed; *p; p++)
		if (*p != '.')
			counts[*p - 'a']++;
	for (int j = 0; j < 3; j++)
		ck_assert_int_eq(counts[j], places[_i].counts[j]);
	if (strcmp(placed, places[_i].placed) != 0)
		ck_abort_msg("%s in groups %s: %s, not %s", places[_i].owners,
			places[_i].groups, placed, places[_i].placed);
	plan_destroy(plan);
	problem_destroy(problem);
}
END_TEST

START_TEST(more_nodes_than_there_are_cannot_be_placed)
{
	struct problem *problem = make("a..", NULL, 1, "");
	struct solution solution;
	struct err err = {""};

	solution_init(&solution, 1);
	solution.shares[0].nodes = 4;
	ck_assert_ptr_null(plan_place(problem, &solution, &err));
	ck_assert_int_eq(errno, EINVAL);
	ck_assert_str_eq(err.text, "placing: more nodes are given than there are");
	solution_fini(&solution);
	problem_destroy(problem);
}
END_TEST

/* --- checking ----------------------------------------------------------------- */

/* Present "aab...", jobs a and b of 2 to 3 nodes, both of user u, 4 in all. */
static const struct {
	const char *plan; /* '!': a job that does not exist */
	double objective_off, bound_off;
	const char *sentence; /* NULL: passes */
} checks[] = {
	{"aa....", 0, 0, NULL},
	{"aabb..", 0, 0, NULL},
	{"aabb..", 0, 1, NULL},
	{"......", 0, 0, NULL},
	{"aa!...", 0, 0, "node n02: its job does not exist"},
	{"aa?...", 0, 0, "node n02: its job does not exist"},
	{"a.....", 0, 0, "job a: 1 nodes are not allowed"},
	{"aaaa..", 0, 0, "job a: 4 nodes are not allowed"},
	{"..aa..", 0, 0, "job a: it neither only grows nor only shrinks"},
	{"a..a..", 0, 0, "job a: it neither only grows nor only shrinks"},
	{"a..aa.", 0, 0, "job a: it neither only grows nor only shrinks"},
	{"aaabbb", 0, 0, "job b: it neither only grows nor only shrinks"},
	{"aabbba", 0, 0, "user u: 6 nodes, the limit is 4"},
	{"aabb..", 1, 1, "objective: 4801, the plan is worth 4800"},
	{"aabb..", -1, 0, "objective: 4799, the plan is worth 4800"},
	{"aabb..", 0, -1, "bound: 4799 is below the objective 4800"},
};

START_TEST(a_broken_plan_is_refused)
{
	struct problem *problem = make("aab...", NULL, 2, ",\"user\":\"u\"");
	struct plan plan = {.status = SOLVE_FEASIBLE, .solver = SOLVER_GREEDY};
	int owners[6], n = 0;
	struct err err = {""};

	for (int j = 0; j < 2; j++) {
		problem->jobs[j].min_nodes = 2;
		problem->jobs[j].max_nodes = 3;
	}
	for (int i = 0; i < 6; i++) {
		char letter = checks[_i].plan[i];

		owners[i] = letter == '.'   ? -1
			    : letter == '?' ? -2
			    : letter == '!' ? 2
					    : letter - 'a';
		n += letter != '.';
	}
	plan.owners = owners;
	plan.n_owners = 6;
	plan.objective = 120 * 10.0 * n + checks[_i].objective_off;
	plan.bound = 120 * 10.0 * n + checks[_i].bound_off;
	if (checks[_i].sentence) {
		ck_assert_int_eq(plan_verify(problem, &plan, &err), -1);
		ck_assert_int_eq(errno, EINVAL);
		ck_assert_str_eq(err.text, checks[_i].sentence);
	} else {
		ck_assert_msg(plan_verify(problem, &plan, &err) == 0, "%s", err.text);
	}
	problem_destroy(problem);
}
END_TEST

START_TEST(a_plan_for_other_nodes_is_refused)
{
	struct problem *problem = make("ab", NULL, 2, "");
	struct plan plan = {.owners = (int[]){0, 1, -1}, .n_owners = 3};
	struct err err = {""};

	ck_assert_int_eq(plan_verify(problem, &plan, &err), -1);
	ck_assert_str_eq(err.text, "the plan is for 3 nodes, not 2");
	problem_destroy(problem);
}
END_TEST

START_TEST(nodes_of_two_kinds_are_refused)
{
	static const char text[] =
		"{\"version\":1,\"nodes\":[{\"name\":\"1\",\"kind\":\"x\"},"
		"{\"name\":\"2\",\"kind\":\"y\"}],\"jobs\":[{\"id\":\"a\",\"min_"
		"nodes\":1,"
		"\"max_nodes\":2,\"curve\":[[1,1],[2,2]]}]}";
	struct plan plan = {.owners = (int[]){0, 0}, .n_owners = 2};
	struct err err = {""};
	struct problem *problem = problem_parse(text, strlen(text), &err);

	ck_assert_int_eq(plan_verify(problem, &plan, &err), -1);
	ck_assert_str_eq(err.text, "job a: nodes of two kinds");
	problem_destroy(problem);
}
END_TEST

/* --- differences and JSON ----------------------------------------------------- */

static const struct {
	const char *owners, *plan, *changes;
} diffs[] = {
	{"aabbcc", "aabbcc", ""},
	{"aabbcc", "aabb..", "c 2->0, "},
	{"aabbcc", "aaabcc", "b 2->1, a 2->3, "},
	{"aa..cc", "aabbc.", "c 2->1, b 0->2, "},
	{"abc", "cab", "a 1->1, b 1->1, c 1->1, "},
	{"aabbcc", "......", "a 2->0, b 2->0, c 2->0, "},
	{"..bbbb", "aac.bb", "b 4->2, a 0->2, c 0->1, "},
};

START_TEST(releases_come_before_grants)
{
	struct problem *problem = make(diffs[_i].owners, NULL, 3, "");
	struct plan plan = {.n_owners = 6};
	int owners[6];
	struct change *changes;
	char text[128] = "";
	ssize_t n;

	for (int i = 0; diffs[_i].plan[i]; i++)
		owners[i] = diffs[_i].plan[i] == '.' ? -1 : diffs[_i].plan[i] - 'a';
	plan.owners = owners;
	n = plan_diff(problem, &plan, &changes);
	for (ssize_t i = 0; i < n; i++)
		sprintf(text + strlen(text), "%c %d->%d, ",
			(char)('a' + changes[i].job), changes[i].from_nodes,
			changes[i].to_nodes);
	ck_assert_str_eq(text, diffs[_i].changes);
	free(changes);
	problem_destroy(problem);
}
END_TEST

START_TEST(a_plan_is_printed_by_id_and_name)
{
	struct problem *problem = make("ba.", NULL, 2, "");
	struct plan plan = {.status = SOLVE_OPTIMAL,
		.solver = SOLVER_DP,
		.objective = 2400,
		.bound = 2400,
		.solve_ms = 1.5,
		.owners = (int[]){1, 0, -1},
		.n_owners = 3};
	json_t *json = plan_json(problem, &plan);
	char *text = json_dumps(json, JSON_COMPACT);

	ck_assert_str_eq(text,
		"{\"version\":1,\"status\":\"optimal\",\"solver\":\"dp\",\"objective\":"
		"2400.0,"
		"\"bound\":2400.0,\"solve_ms\":1.5,\"jobs\":[{\"id\":\"a\",\"nodes\":"
		"[\"n01\"]},{\"id\":\"b\",\"nodes\":[\"n00\"]}],\"idle\":[\"n02\"]}");
	free(text);
	json_decref(json);
	plan.bound = INFINITY;
	json = plan_json(problem, &plan);
	ck_assert(json_is_null(json_object_get(json, "bound")));
	json_decref(json);
	problem_destroy(problem);
}
END_TEST

/* --- in a child --------------------------------------------------------------- */

static int count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

START_TEST(two_hundred_solves_leak_no_descriptor_and_no_zombie)
{
	struct problem *problem = make("aab..c.....", "11223344556", 3, "");
	int before = count_fds();

	for (int i = 0; i < 200; i++) {
		struct err err = {""};
		struct plan *plan = child_solve(problem,
			i % 2 ? SOLVER_MILP : SOLVER_AUTO, i % 3 ? INFINITY : 10, &err);

		ck_assert_msg(
			plan && plan_verify(problem, plan, &err) == 0, "%s", err.text);
		plan_destroy(plan);
	}
	ck_assert_int_eq(count_fds(), before);
	ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1);
	ck_assert_int_eq(errno, ECHILD);
	problem_destroy(problem);
}
END_TEST

/* Many jobs that almost alike want almost all, on three kinds, under limits. */
static struct problem *make_hard(int n_jobs, int n_nodes)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	struct err err = {""};
	struct problem *problem;

	fprintf(out, "{\"version\":1,\"nodes\":[");
	for (int i = 0; i < n_nodes; i++)
		fprintf(out, "%s{\"name\":\"n%d\",\"kind\":\"%c\"}", i ? "," : "", i,
			'x' + i % 3);
	fprintf(out, "],\"jobs\":[");
	for (int j = 0; j < n_jobs; j++) {
		fprintf(out,
			"%s{\"id\":\"j%d\",\"min_nodes\":3,\"max_nodes\":90,\"user\":"
			"\"u%d\","
			"\"start_s\":%d,\"curves\":{",
			j ? "," : "", j, j % 7, j % 11);
		for (int t = 0; t < 3; t++) {
			fprintf(out, "%s\"%c\":[", t ? "," : "", 'x' + t);
			for (int k = 1; k <= 90; k += 1 + (j + t) % 4)
				fprintf(out, "%s[%d,%d]", k > 1 ? "," : "", k,
					100 + 37 * k +
						(k * k * 7919 + j * 104729 + t) % 401);
			fputc(']', out);
		}
		fprintf(out, "}}");
	}
	fprintf(out, "],\"limits\":[");
	for (int i = 0; i < 7; i++)
		fprintf(out, "%s{\"user\":\"u%d\",\"max_nodes\":%d}", i ? "," : "", i,
			31 + i);
	fprintf(out, "]}");
	fclose(out);
	problem = problem_parse(text, strlen(text), &err);
	ck_assert_msg(problem, "%s", err.text);
	free(text);
	return problem;
}

static const double limits_s[] = {0, 1e-6, 0.001, 0.01, 0.1};

START_TEST(a_solve_that_is_cut_off_still_gives_a_plan)
{
	struct problem *problem = make_hard(60, 200);
	struct err err = {""};
	double began_s = clock_mono_s(), spent_s;
	struct plan *plan = child_solve(problem, SOLVER_MILP, limits_s[_i], &err);

	spent_s = clock_mono_s() - began_s;
	ck_assert_msg(plan, "%s", err.text);
	ck_assert_msg(plan_verify(problem, plan, &err) == 0, "%s", err.text);
	ck_assert_double_lt(spent_s, limits_s[_i] + 2); /* sanitizers are slow */
	ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1);
	plan_destroy(plan);
	problem_destroy(problem);
}
END_TEST

START_TEST(a_cut_off_plan_is_not_below_greedy)
{
	struct problem *problem = make_hard(40, 120);
	struct solution greedy;
	struct err err = {""};
	struct plan *plan = child_solve(problem, SOLVER_MILP, 0.001, &err);

	solution_init(&greedy, problem->n_jobs);
	ck_assert_int_eq(solve_greedy(problem, &greedy, &err), 0);
	ck_assert_double_ge(plan->objective, greedy.objective - 1e-6);
	ck_assert(plan->status != SOLVE_UNSET);
	solution_fini(&greedy);
	plan_destroy(plan);
	problem_destroy(problem);
}
END_TEST

/* As an abort of GLPK would: the child is killed before it says anything. */
START_TEST(a_solver_that_dies_leaves_greedys_plan)
{
	struct problem *problem = make_hard(60, 200);
	struct err err = {""};
	struct child *child = child_start(problem, SOLVER_UNSET, INFINITY, &err);
	struct plan *plan;

	ck_assert_msg(child, "%s", err.text);
	while (!child_read(child))
		ck_assert_int_ge(child_fd(child), 0);
	plan = child_finish(child, &err);
	ck_assert_msg(plan, "%s", err.text);
	ck_assert_int_eq(plan->status, SOLVE_FALLBACK);
	ck_assert_int_eq(plan->solver, SOLVER_GREEDY);
	ck_assert_int_eq(plan_verify(problem, plan, &err), 0);
	plan_destroy(plan);
	problem_destroy(problem);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("plan");
	TCase *tc = tcase_create("plan");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_add_loop_test(tc, nodes_that_came_together_stay_together, 0,
		sizeof(places) / sizeof(places[0]));
	tcase_add_test(tc, more_nodes_than_there_are_cannot_be_placed);
	tcase_add_loop_test(
		tc, a_broken_plan_is_refused, 0, sizeof(checks) / sizeof(checks[0]));
	tcase_add_test(tc, a_plan_for_other_nodes_is_refused);
	tcase_add_test(tc, nodes_of_two_kinds_are_refused);
	tcase_add_loop_test(
		tc, releases_come_before_grants, 0, sizeof(diffs) / sizeof(diffs[0]));
	tcase_add_test(tc, a_plan_is_printed_by_id_and_name);
	tcase_add_test(tc, two_hundred_solves_leak_no_descriptor_and_no_zombie);
	tcase_add_loop_test(tc, a_solve_that_is_cut_off_still_gives_a_plan, 0,
		sizeof(limits_s) / sizeof(limits_s[0]));
	tcase_add_test(tc, a_cut_off_plan_is_not_below_greedy);
	tcase_add_test(tc, a_solver_that_dies_leaves_greedys_plan);
	suite_add_tcase(suite, tc);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}
