/*
 * check_problem.c - problems that are refused, with the sentence, and what the
 * accepted ones mean.
 *
 * JSON is written with ' for " in the tables.
 */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allocator/problem.h"

static struct problem *parse(const char *quoted, struct err *err)
{
	char *text = strdup(quoted);
	struct problem *problem;

	for (char *p = text; *p; p++)
		if (*p == '\'')
			*p = '"';
	problem = problem_parse(text, strlen(text), err);
	free(text);
	return problem;
}

#define NODES	  "'nodes':[{'name':'n1','job':'a'},{'name':'n2'}]"
#define JOB(more) "{'id':'a','min_nodes':1,'max_nodes':2" more "}"
#define CURVE	  ",'curve':[[1,10],[2,15]]"
#define HEAD	  "{'version':1," NODES ",'jobs':["
#define ONE(more) HEAD JOB(more) "]}"
#define POINTS(p) ONE(",'curve':" p)

static const struct {
	const char *text, *sentence;
} bad[] = {
	/* not a JSON object, or more than one */
	{"", "line 1 column 0: '[' or '{' expected near end of file"},
	{"nothing", "line 1 column 7: '[' or '{' expected near 'nothing'"},
	{"[]", "the problem is not a JSON object"},
	{"{'version':1", "line 1 column 12: '}' expected near end of file"},
	{ONE(CURVE) "x", "line 1 column 134: end of file expected near 'x'"},
	{ONE(CURVE) "\n{}", "line 2 column 1: end of file expected near '{'"},
	{"{'version':1,'version':1}",
		"line 1 column 22: duplicate object key near '\"version\"'"},
	/* the top */
	{"{'nodes':[],'jobs':[]}", "version: is missing"},
	{"{'version':2,'nodes':[],'jobs':[]}", "version: 2 is not between 1 and 1"},
	{"{'version':1.0,'nodes':[],'jobs':[]}", "version: is not a whole number"},
	{"{'version':'1','nodes':[],'jobs':[]}", "version: is not a number"},
	{"{'version':null,'nodes':[],'jobs':[]}", "version: is not a number"},
	{"{'version':1,'jobs':[]}", "nodes: is missing"},
	{"{'version':1,'nodes':[]}", "jobs: is missing"},
	{"{'version':1,'nodes':{},'jobs':[]}", "nodes: is not an array"},
	{"{'version':1,'nodes':[],'jobs':7}", "jobs: is not an array"},
	{"{'version':1,'nodes':[],'jobs':[],'limits':1}", "limits: is not an array"},
	{"{'version':1,'nodes':[],'jobs':[],'colour':1}", "colour: unknown key"},
	{"{'version':1,'nodes':[],'jobs':[],'objective':'fast'}",
		"objective: is not speedup or throughput"},
	{"{'version':1,'nodes':[],'jobs':[],'objective':null}",
		"objective: is not speedup or throughput"},
	{"{'version':1,'nodes':[],'jobs':[],'horizon_s':0}",
		"horizon_s: 0 is not between 0.001 and 1e+09"},
	{"{'version':1,'nodes':[],'jobs':[],'horizon_s':1e10}",
		"horizon_s: 10000000000 is not between 0.001 and 1e+09"},
	{"{'version':1,'nodes':[],'jobs':[],'horizon_s':NaN}",
		"line 1 column 49: invalid token near 'NaN'"},
	{"{'version':1,'nodes':[],'jobs':[],'horizon_s':1e999}",
		"line 1 column 51: real number overflow near '1e999'"},
	{"{'version':1,'nodes':[],'jobs':[],'horizon_s':99999999999999999999}",
		"line 1 column 66: too big integer near '99999999999999999999'"},
	/* jobs */
	{HEAD "1]}", "jobs[0]: is not an object"},
	{HEAD "null]}", "jobs[0]: is not an object"},
	{HEAD "{'min_nodes':1,'max_nodes':2" CURVE "}]}", "jobs[0].id: is missing"},
	{HEAD "{'id':7,'min_nodes':1,'max_nodes':2" CURVE "}]}",
		"jobs[0].id: is not a string"},
	{HEAD "{'id':'','min_nodes':1,'max_nodes':2" CURVE "}]}",
		"jobs[0].id: is no name of 1 to 255 bytes"},
	{HEAD "{'id':'a\\u0000b','min_nodes':1,'max_nodes':2" CURVE "}]}",
		"line 1 column 85: \\u0000 is not allowed without JSON_ALLOW_NUL near "
		"'\"a\\u0000b\"'"},
	{HEAD JOB(CURVE) "," JOB(CURVE) "]}", "jobs[1].id: is a duplicate of jobs[0]"},
	{HEAD "{'id':'a','max_nodes':2" CURVE "}]}", "jobs[0].min_nodes: is missing"},
	{HEAD "{'id':'a','min_nodes':1" CURVE "}]}", "jobs[0].max_nodes: is missing"},
	{HEAD "{'id':'a','min_nodes':0,'max_nodes':2" CURVE "}]}",
		"jobs[0].min_nodes: 0 is not between 1 and 100000"},
	{HEAD "{'id':'a','min_nodes':3,'max_nodes':2" CURVE "}]}",
		"jobs[0].min_nodes: is more than max_nodes"},
	{HEAD "{'id':'a','min_nodes':1,'max_nodes':100001" CURVE "}]}",
		"jobs[0].max_nodes: 100001 is not between 1 and 100000"},
	{HEAD "{'id':'a','min_nodes':1,'max_nodes':9223372036854775807" CURVE "}]}",
		"jobs[0].max_nodes: 9.22337203685478e+18 is not between 1 and 100000"},
	{HEAD "{'id':'a','min_nodes':1.5,'max_nodes':2" CURVE "}]}",
		"jobs[0].min_nodes: is not a whole number"},
	{ONE(CURVE ",'weight':-1"), "jobs[0].weight: -1 is not between 0 and 1e+09"},
	{ONE(CURVE ",'grow_s':-0.5"),
		"jobs[0].grow_s: -0.5 is not between 0 and 1e+09"},
	{ONE(CURVE ",'shrink_s':true"), "jobs[0].shrink_s: is not a number"},
	{ONE(CURVE ",'start_s':'2'"), "jobs[0].start_s: is not a number"},
	{ONE(CURVE ",'user':[]"), "jobs[0].user: is not a string"},
	{ONE(CURVE ",'name':'x'"), "jobs[0].name: unknown key"},
	{ONE(CURVE ",'a\\nb':'x'"), "jobs[0].a?b: unknown key"},
	/* curves */
	{ONE(""), "jobs[0].curve: is missing"},
	{POINTS("[]"), "jobs[0].curve: is empty"},
	{POINTS("7"), "jobs[0].curve: is not an array of [nodes, rate]"},
	{POINTS("[1,10]"), "jobs[0].curve[0]: is not [nodes, rate]"},
	{POINTS("[[1,10,3]]"), "jobs[0].curve[0]: is not [nodes, rate]"},
	{POINTS("[[1]]"), "jobs[0].curve[0]: is not [nodes, rate]"},
	{POINTS("[['1',10]]"), "jobs[0].curve[0]: is not [nodes, rate]"},
	{POINTS("[[1,null]]"), "jobs[0].curve[0]: is not [nodes, rate]"},
	{POINTS("[[1.0,10]]"), "jobs[0].curve[0]: is not [nodes, rate]"},
	{POINTS("[[1,10],[2,-1]]"), "jobs[0].curve[1]: rate is negative"},
	{POINTS("[[1,10],[2,1e300]]"), "jobs[0].curve[1]: rate is over 1e15"},
	{POINTS("[[1,10],[3,20],[2,15]]"), "jobs[0].curve[2]: nodes do not ascend"},
	{POINTS("[[1,10],[1,10]]"), "jobs[0].curve[1]: nodes do not ascend"},
	{POINTS("[[0,10]]"), "jobs[0].curve[0]: nodes are not between 1 and 100000"},
	{POINTS("[[-1,10]]"), "jobs[0].curve[0]: nodes are not between 1 and 100000"},
	{POINTS("[[1,0],[2,10]]"),
		"jobs[0].curve: rate of one node is 0, there is no speed-up over it"},
	{POINTS("[[1,1e-300],[2,10]]"),
		"jobs[0].curve: speed-up over one node is over 1e12"},
	{ONE(",'curves':{}"), "jobs[0].curves: is not an object of curves"},
	{ONE(",'curves':[]"), "jobs[0].curves: is not an object of curves"},
	{ONE(",'curves':{'':[[1,10],[2,-1]]}"), "jobs[0].curves.[1]: rate is negative"},
	{ONE(",'curves':{'':[[1,1]],'gpu':[]}"), "jobs[0].curves.gpu: is empty"},
	{ONE(",'curves':{'gpu':[[1,1]]}"),
		"nodes[0].kind: its job has no curve for it"},
	/* nodes */
	{"{'version':1,'jobs':[],'nodes':[1]}", "nodes[0]: is not an object"},
	{"{'version':1,'jobs':[],'nodes':[{}]}", "nodes[0].name: is missing"},
	{"{'version':1,'jobs':[],'nodes':[{'name':1}]}",
		"nodes[0].name: is not a string"},
	{"{'version':1,'jobs':[],'nodes':[{'name':'n','rack':1}]}",
		"nodes[0].rack: unknown key"},
	{"{'version':1,'jobs':[],'nodes':[{'name':'x'},{'name':'n'},{'name':'x'}]}",
		"nodes[2].name: is a duplicate of nodes[0]"},
	{"{'version':1,'jobs':[],'nodes':[{'name':'n','job':'a'}]}",
		"nodes[0].job: is an unknown id"},
	{"{'version':1,'jobs':[],'nodes':[{'name':'n','job':1}]}",
		"nodes[0].job: is neither an id nor null"},
	{"{'version':1,'jobs':[],'nodes':[{'name':'n','group':-1}]}",
		"nodes[0].group: -1 is not between 0 and 1.07374e+09"},
	{"{'version':1,'jobs':[],'nodes':[{'name':'n','kind':1}]}",
		"nodes[0].kind: is not a string"},
	{"{'version':1,'jobs':[" JOB(
		 CURVE) "],'nodes':[{'name':'n','kind':'x','job':'a'},"
			"{'name':'m','kind':'y','job':'a'}]}",
		"nodes[1].kind: its job runs on another kind"},
	/* limits */
	{"{'version':1,'nodes':[],'jobs':[],'limits':[7]}",
		"limits[0]: is not an object"},
	{"{'version':1,'nodes':[],'jobs':[],'limits':[{'user':'u'}]}",
		"limits[0].max_nodes: is missing"},
	{"{'version':1,'nodes':[],'jobs':[],'limits':[{'max_nodes':1}]}",
		"limits[0].user: is missing"},
	{"{'version':1,'nodes':[],'jobs':[],'limits':[{'user':'u','max_nodes':-1}]}",
		"limits[0].max_nodes: -1 is not between 0 and 100000"},
	{"{'version':1,'nodes':[],'jobs':[],'limits':[{'user':'u','max_nodes':1},"
	 "{'user':'u','max_nodes':2}]}",
		"limits[1].user: is a duplicate of limits[0]"},
};

START_TEST(a_bad_problem_is_refused_with_the_path_of_the_fault)
{
	struct err err = {""};

	errno = 0;
	ck_assert_ptr_null(parse(bad[_i].text, &err));
	ck_assert_str_eq(err.text, bad[_i].sentence);
	ck_assert_int_eq(errno, EINVAL);
	ck_assert_ptr_null(parse(bad[_i].text, NULL));
}
END_TEST

START_TEST(one_of_many_ids_twice_is_refused_by_its_place)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	struct err err;

	fprintf(out, "{'version':1,'nodes':[],'jobs':[");
	for (int i = 0; i < 100; i++)
		fprintf(out, "%s{'id':'j%d','min_nodes':1,'max_nodes':2" CURVE "}",
			i ? "," : "", i == 80 ? 3 : i);
	fprintf(out, "]}");
	fclose(out);
	ck_assert_ptr_null(parse(text, &err));
	ck_assert_str_eq(err.text, "jobs[80].id: is a duplicate of jobs[3]");
	free(text);
}
END_TEST

START_TEST(what_is_absent_has_its_default)
{
	struct err err;
	struct problem *p = parse(ONE(CURVE), &err);

	ck_assert_ptr_nonnull(p);
	ck_assert_int_eq(p->objective, OBJECTIVE_SPEEDUP);
	ck_assert_double_eq(p->horizon_s, 120);
	ck_assert_double_eq(p->jobs[0].weight, 1);
	ck_assert_double_eq(
		p->jobs[0].grow_s + p->jobs[0].shrink_s + p->jobs[0].start_s, 0);
	ck_assert_int_eq(p->n_kinds, 1);
	ck_assert_int_eq(p->jobs[0].present, 1);
	ck_assert_int_eq(p->nodes[1].job, -1);
	problem_destroy(p);
}
END_TEST

START_TEST(an_empty_problem_is_a_problem)
{
	struct err err;
	struct problem *p = parse("{'version':1,'nodes':[],'jobs':[]}", &err);

	ck_assert_ptr_nonnull(p);
	ck_assert_uint_eq(p->n_nodes + p->n_jobs + p->n_limits, 0);
	ck_assert_uint_eq(p->n_kinds, 1);
	problem_destroy(p);
}
END_TEST

/*
 * A job on 2 nodes of "x", weight 2, horizon 100, grow 5, shrink 7, start 11.
 * x: 10/s on one, 18 on two, 24 on four.  y: 40/s on two.  By hand.
 */
static const struct {
	const char *kind;
	int nodes;
	double throughput, speedup; /* speed-up is over one node of y, 20/s */
} values[] = {
	{"x", 0, -252, -12.6}, /* -7 * 36 */
	{"x", 1, 2000 - 252, 100 - 12.6},
	{"x", 2, 3600, 180},
	{"x", 3, 4200 - 180, 210 - 9}, /* 21/s; -5 * 36 */
	{"x", 4, 4800 - 180, 240 - 9},
	{"x", 9, 4800 - 180, 240 - 9},		     /* flat beyond the last */
	{"y", 1, 4000 - 252 - 440, 200 - 12.6 - 22}, /* below the first: 20/s */
	{"y", 2, 8000 - 252 - 880, 400 - 12.6 - 44},
};

START_TEST(a_size_is_worth_its_rate_less_the_way_there)
{
	static const char text[] =
		"{'version':1,'objective':'%s','horizon_s':100,"
		"'nodes':[{'name':'1','kind':'x','job':'a'},{'name':'2','kind':'x','"
		"job':'a'},"
		"{'name':'3','kind':'y'}],"
		"'jobs':[{'id':'a','weight':2,'min_nodes':1,'max_nodes':16,'grow_s':5,"
		"'shrink_s':7,'start_s':11,"
		"'curves':{'y':[[2,40]],'x':[[1,10],[2,18],[4,24]]}}]}";
	struct err err;

	for (int speedup = 0; speedup < 2; speedup++) {
		char whole[sizeof(text) + 16];
		struct problem *p;
		int kind = values[_i].kind[0] - 'x';

		snprintf(
			whole, sizeof(whole), text, speedup ? "speedup" : "throughput");
		p = parse(whole, &err);
		ck_assert_msg(p, "%s", err.text);
		ck_assert_double_eq_tol(problem_value(p, 0, kind, values[_i].nodes),
			speedup ? values[_i].speedup : values[_i].throughput, 1e-9);
		problem_destroy(p);
	}
}
END_TEST

START_TEST(a_job_that_has_nothing_pays_its_start)
{
	struct err err;
	struct problem *p =
		parse("{'version':1,'objective':'throughput','horizon_s':100,"
		      "'nodes':[{'name':'1'}],'jobs':[{'id':'a','min_nodes':1,"
		      "'max_nodes':4,'start_s':30,'grow_s':9,'shrink_s':9,"
		      "'curve':[[1,10]]}]}",
			&err);

	ck_assert_double_eq_tol(problem_value(p, 0, 0, 0), 0, 1e-12);
	ck_assert_double_eq_tol(problem_value(p, 0, 0, 1), 1000 - 300, 1e-9);
	problem_destroy(p);
}
END_TEST

START_TEST(sizes_are_zero_or_within_bounds_and_nodes)
{
	struct err err;
	struct problem *p =
		parse("{'version':1,'nodes':[{'name':'1'},{'name':'2'},"
		      "{'name':'3'},{'name':'4','kind':'z'}],'jobs':[{'id':'a',"
		      "'min_nodes':2,'max_nodes':5,'curves':{'':[[1,10]]}}]}",
			&err);
	static const int allowed[] = {1, 0, 1, 1, 0, 0, 0};

	for (int k = 0; k < 7; k++)
		ck_assert_int_eq(problem_allows(p, 0, 0, k), allowed[k]);
	ck_assert(problem_allows(p, 0, 1, 0));
	ck_assert(!problem_allows(p, 0, 1, 1));
	ck_assert_int_eq(problem_top(p, 0, 0), 3);
	ck_assert_int_eq(problem_top(p, 0, 1), 0);
	problem_destroy(p);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("problem");
	TCase *tc = tcase_create("problem");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_add_loop_test(tc, a_bad_problem_is_refused_with_the_path_of_the_fault, 0,
		sizeof(bad) / sizeof(bad[0]));
	tcase_add_test(tc, one_of_many_ids_twice_is_refused_by_its_place);
	tcase_add_test(tc, what_is_absent_has_its_default);
	tcase_add_test(tc, an_empty_problem_is_a_problem);
	tcase_add_loop_test(tc, a_size_is_worth_its_rate_less_the_way_there, 0,
		sizeof(values) / sizeof(values[0]));
	tcase_add_test(tc, a_job_that_has_nothing_pays_its_start);
	tcase_add_test(tc, sizes_are_zero_or_within_bounds_and_nodes);
	suite_add_tcase(suite, tc);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}
