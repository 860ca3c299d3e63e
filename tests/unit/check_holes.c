/* check_holes.c - traces read, and traces made. */
#include <check.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "daemon/sched/holes.h"

/* --- reading ---------------------------------------------------------------- */

static const struct {
	const char *text;
	const char *why; /* NULL: it is fine */
	size_t n_rows;
	uint32_t n_nodes;
	double span_s;
} cases[] = {
	{ "", NULL, 0, 0, 0 },
	{ "# nothing\n\nt_s,joins,leaves\n", NULL, 0, 0, 0 },
	{ "0,1,\n", NULL, 1, 2, 0 },
	{ "t_s,joins,leaves\n0,10 3,\n5.5,,3 10\n", NULL, 2, 11, 5.5 },
	{ "0,1,\r\n1,,1\r\n", NULL, 2, 2, 1 },
	{ "0,1 2,\n# between\n7,3,1", NULL, 2, 4, 7 },
	{ "0, 1  2 ,\n", NULL, 1, 3, 0 },
	{ "0,1,\n1,1,1\n", NULL, 2, 2, 1 }, /* it leaves, then comes again */
	{ "0,65535,\n", NULL, 1, 65536, 0 },
	{ "0,1,\n1,2,\n1,3,\n", NULL, 3, 4, 1 },
	{ "0,1\n", "x:1: 2 columns", 0, 0, 0 },
	{ "0\n", "x:1: 1 columns", 0, 0, 0 },
	{ "0,1,2,3\n", "x:1: more than three columns", 0, 0, 0 },
	{ "#\n0,1,\n1,1,\n", "x:3: node 1 joins and is there already", 0, 0, 0 },
	{ "0,1 1,\n", "x:1: node 1 joins and is there already", 0, 0, 0 },
	{ "0,,4\n", "x:1: node 4 leaves and is not there", 0, 0, 0 },
	{ "0,4,\n2,,4 4\n", "x:2: node 4 leaves and is not there", 0, 0, 0 },
	{ "5,1,\n4,2,\n", "x:2: time goes back from 5.000 to 4.000", 0, 0, 0 },
	{ "-1,1,\n", "x:1: -1 is no time", 0, 0, 0 },
	{ "nan,1,\n", "x:1: the time is no number", 0, 0, 0 },
	{ "1e999,1,\n", "is no time", 0, 0, 0 },
	{ "0x10,1,\n", "x:1: the time is no number", 0, 0, 0 },
	{ ",1,\n", "x:1: 0 bytes are no time", 0, 0, 0 },
	{ "1 ,1,\n", "x:1: the time is no number", 0, 0, 0 },
	{ "1e,1,\n", "x:1: \"1e\" is no time", 0, 0, 0 },
	{ "0,a,\n", "x:1: a list has something besides indices", 0, 0, 0 },
	{ "0,-1,\n", "x:1: a list has something besides indices", 0, 0, 0 },
	{ "0,1;2,\n", "x:1: a list has something besides indices", 0, 0, 0 },
	{ "0,65536,\n", "x:1: a node's index is over 65535", 0, 0, 0 },
	{ "0,99999999999999999999,\n", "x:1: a node's index is over 65535", 0, 0, 0 },
	{ "0,1,\nt_s,joins,leaves\n", "x:2: the time is no number", 0, 0, 0 },
	{ "hello\n", "x:1: 1 columns", 0, 0, 0 },
};

START_TEST(a_file_is_read_strictly_and_blamed_by_its_line)
{
	size_t size = strlen(cases[_i].text);
	char *copy = malloc(size ? size : 1); /* exact: no NUL at its end */
	struct holes *holes;
	struct err err;

	memcpy(copy, cases[_i].text, size);
	holes = holes_parse(copy, size, "x", &err);
	if (cases[_i].why) {
		ck_assert_msg(!holes, "taken: %s", cases[_i].text);
		ck_assert_msg(strstr(err.text, cases[_i].why) != NULL, "%s", err.text);
	} else {
		ck_assert_msg(holes != NULL, "%s", err.text);
		ck_assert_uint_eq(holes->n_rows, cases[_i].n_rows);
		ck_assert_uint_eq(holes->n_nodes, cases[_i].n_nodes);
		ck_assert_double_eq(holes->span_s, cases[_i].span_s);
	}
	holes_destroy(holes);
	free(copy);
}
END_TEST

START_TEST(a_row_has_what_its_line_has)
{
	static const char text[] = "0,10 28 33,\n51,543,10 28\n";
	struct holes *holes = holes_parse(text, sizeof(text) - 1, "x", NULL);

	ck_assert_ptr_nonnull(holes);
	ck_assert_uint_eq(holes->rows[0].n_joins, 3);
	ck_assert_uint_eq(holes->rows[0].joins[2], 33);
	ck_assert_uint_eq(holes->rows[0].n_leaves, 0);
	ck_assert_double_eq(holes->rows[1].t_s, 51);
	ck_assert_uint_eq(holes->rows[1].n_joins, 1);
	ck_assert_uint_eq(holes->rows[1].joins[0], 543);
	ck_assert_uint_eq(holes->rows[1].n_leaves, 2);
	ck_assert_uint_eq(holes->rows[1].leaves[1], 28);
	holes_destroy(holes);
}
END_TEST

static char path[] = "/tmp/check_holes.XXXXXX";

static void write_gz(const char *text, size_t cut)
{
	char packed[4096];
	gzFile gz;
	FILE *file;
	size_t size;
	int fd;

	strcpy(path, "/tmp/check_holes.XXXXXX");
	fd = mkstemp(path);
	ck_assert_int_ge(fd, 0);
	gz = gzdopen(fd, "wb");
	ck_assert_int_eq(gzwrite(gz, text, (unsigned)strlen(text)), (int)strlen(text));
	gzclose(gz);
	if (!cut)
		return;
	file = fopen(path, "r");
	size = fread(packed, 1, sizeof(packed), file);
	fclose(file);
	file = fopen(path, "w");
	fwrite(packed, 1, size - cut, file);
	fclose(file);
}

START_TEST(a_compressed_file_is_read_like_a_plain_one)
{
	struct holes *holes;
	struct err err;

	write_gz("# c\n0,1 2,\n9,,1\n", 0);
	holes = holes_read(path, &err);
	ck_assert_msg(holes != NULL, "%s", err.text);
	ck_assert_uint_eq(holes->n_rows, 2);
	holes_destroy(holes);
	unlink(path);
}
END_TEST

START_TEST(a_compressed_file_that_was_cut_off_is_refused)
{
	static const size_t cuts[] = { 1, 4, 8, 12 };
	struct err err;

	for (size_t i = 0; i < 4; i++) {
		write_gz("# c\n0,1 2,\n9,,1\n", cuts[i]);
		ck_assert_ptr_null(holes_read(path, &err));
		ck_assert_int_eq(errno, EPROTO);
		ck_assert_msg(strstr(err.text, "cut off") != NULL, "%s", err.text);
		unlink(path);
	}
}
END_TEST

START_TEST(a_file_that_is_not_there_is_told_with_its_errno)
{
	struct err err;

	ck_assert_ptr_null(holes_read("/nonexistent/trace.csv", &err));
	ck_assert_int_eq(errno, ENOENT);
	ck_assert_ptr_nonnull(strstr(err.text, "/nonexistent/trace.csv"));
}
END_TEST

/* --- statistics ------------------------------------------------------------- */

struct numbers {
	double share, median_s, p90_s, mean_s, short_count, short_time, together;
	size_t median_join;
	double mean_join;
	size_t n;
};

struct fragment {
	double from_s, to_s;
};

static int by_length(const void *va, const void *vb)
{
	const struct fragment *a = va, *b = vb;
	double la = a->to_s - a->from_s, lb = b->to_s - b->from_s;

	return la < lb ? -1 : la > lb;
}

static int by_times(const void *va, const void *vb)
{
	const struct fragment *a = va, *b = vb;

	if (a->from_s != b->from_s)
		return a->from_s < b->from_s ? -1 : 1;
	return a->to_s < b->to_s ? -1 : a->to_s > b->to_s;
}

static int by_size(const void *va, const void *vb)
{
	const size_t *a = va, *b = vb;

	return *a < *b ? -1 : *a > *b;
}

/* Pairs that came together, and how many of them left together. */
static double share_together(struct fragment *all, size_t n)
{
	double pairs = 0, same = 0;
	size_t from = 0;

	qsort(all, n, sizeof(*all), by_times);
	while (from < n) {
		size_t to = from, part;
		double group;

		while (to < n && all[to].from_s == all[from].from_s)
			to++;
		group = (double)(to - from);
		pairs += group * (group - 1);
		for (size_t at = from; at < to; at = part) {
			for (part = at; part < to && all[part].to_s == all[at].to_s;)
				part++;
			same += (double)(part - at) * (double)(part - at - 1);
		}
		from = to;
	}
	return same / pairs;
}

/* What FIELD says of a trace, from its rows alone. */
static struct numbers measure(const struct holes *holes)
{
	static double since[HOLES_NODES_MAX];
	size_t room = 0, n = 0, n_joins = 0;
	struct fragment *all;
	size_t *joins = calloc(holes->n_rows, sizeof(*joins));
	struct numbers out = { .share = 0 };
	double total = 0, open = 0;

	for (size_t r = 0; r < holes->n_rows; r++)
		room += holes->rows[r].n_leaves;
	all = calloc(room, sizeof(*all));
	for (size_t i = 0; i < HOLES_NODES_MAX; i++)
		since[i] = -1;
	for (size_t r = 0; r < holes->n_rows; r++) {
		const struct hole_row *row = &holes->rows[r];

		for (size_t i = 0; i < row->n_leaves; i++) {
			double from = since[row->leaves[i]];

			since[row->leaves[i]] = -1;
			total += row->t_s - from;
			if (from > 0) /* the first row's began before the trace */
				all[n++] = (struct fragment){ from, row->t_s };
		}
		for (size_t i = 0; i < row->n_joins; i++)
			since[row->joins[i]] = row->t_s;
		if (row->n_joins && row->t_s > 0) {
			joins[n_joins++] = row->n_joins;
			out.mean_join += (double)row->n_joins;
		}
	}
	for (size_t i = 0; i < HOLES_NODES_MAX; i++)
		if (since[i] >= 0)
			open += holes->span_s - since[i];
	out.share = (total + open) / holes->span_s / holes->n_nodes;
	out.together = share_together(all, n);
	qsort(all, n, sizeof(*all), by_length);
	total = 0;
	for (size_t i = 0; i < n; i++) {
		double length = all[i].to_s - all[i].from_s;

		total += length;
		if (length < 600) {
			out.short_count++;
			out.short_time += length;
		}
	}
	out.n = n;
	out.median_s = all[n / 2].to_s - all[n / 2].from_s;
	out.p90_s = all[n * 9 / 10].to_s - all[n * 9 / 10].from_s;
	out.mean_s = total / (double)n;
	out.short_count /= (double)n;
	out.short_time /= total;
	qsort(joins, n_joins, sizeof(*joins), by_size);
	out.median_join = joins[n_joins / 2];
	out.mean_join /= (double)n_joins;
	free(joins);
	free(all);
	return out;
}

static const unsigned seeds[] = { 1, 2, 3, 17 };

/* The machine of the publication: 4,734 nodes, 15 days, 8.3 % idle. */
START_TEST(generated_holes_have_the_published_statistics)
{
	struct holes_model model = {
		.nodes = 4734, .hours = 360, .idle_share = 0.083, .seed = seeds[_i]
	};
	struct err err;
	struct holes *holes = holes_generate(&model, &err);
	struct numbers got;

	ck_assert_msg(holes != NULL, "%s", err.text);
	got = measure(holes);
	ck_assert_double_eq_tol(got.share, 0.083, 0.002);
	ck_assert_double_eq_tol(got.median_s, 475, 40);
	ck_assert_double_eq_tol(got.p90_s, 3269, 200);
	ck_assert_double_eq_tol(got.short_count, 0.56, 0.02);
	ck_assert_double_eq_tol(got.short_time, 0.11, 0.01);
	/* Pairs are ruled by the few largest groups: it scatters. */
	ck_assert_double_eq_tol(got.together, 0.84, 0.07);
	ck_assert_uint_ge(got.median_join, 2);
	ck_assert_uint_le(got.median_join, 4);
	ck_assert_double_eq_tol(got.mean_join, 11, 1);
	holes_destroy(holes);
}
END_TEST

START_TEST(nodes_leave_together_as_often_as_published_on_average)
{
	double sum = 0;
	unsigned n = 12;

	for (unsigned seed = 100; seed < 100 + n; seed++) {
		struct holes_model model = { 1024, 168, 0.083, seed };
		struct holes *holes = holes_generate(&model, NULL);

		ck_assert_ptr_nonnull(holes);
		sum += measure(holes).together;
		holes_destroy(holes);
	}
	ck_assert_double_eq_tol(sum / n, 0.84, 0.03);
}
END_TEST

static const struct {
	uint32_t nodes;
	double hours, share, tolerance;
} small[] = { { 1, 48, 0.3, 0.1 }, { 4, 24, 0.5, 0.1 }, { 8, 24, 0.4, 0.06 },
	{ 8, 24, 0.7, 0.08 }, { 64, 48, 0.1, 0.02 } };

START_TEST(the_idle_share_is_kept_on_small_machines_too)
{
	for (unsigned seed = 1; seed <= 5; seed++) {
		struct holes_model model = { small[_i].nodes, small[_i].hours,
			small[_i].share, seed };
		struct holes *holes = holes_generate(&model, NULL);

		ck_assert_ptr_nonnull(holes);
		ck_assert_uint_eq(holes->n_nodes, small[_i].nodes);
		ck_assert_double_eq(holes->span_s, small[_i].hours * 3600);
		ck_assert_double_eq_tol(
			measure(holes).share, small[_i].share, small[_i].tolerance);
		holes_destroy(holes);
	}
}
END_TEST

START_TEST(a_seed_makes_the_same_holes_again_and_another_does_not)
{
	struct holes_model model = { 100, 24, 0.2, 5 };
	struct holes *a = holes_generate(&model, NULL),
		     *b = holes_generate(&model, NULL);
	struct holes *c;

	ck_assert_uint_eq(a->n_rows, b->n_rows);
	for (size_t r = 0; r < a->n_rows; r++) {
		ck_assert_double_eq(a->rows[r].t_s, b->rows[r].t_s);
		ck_assert_uint_eq(a->rows[r].n_joins, b->rows[r].n_joins);
		if (a->rows[r].n_joins)
			ck_assert_mem_eq(a->rows[r].joins, b->rows[r].joins,
				a->rows[r].n_joins * sizeof(uint32_t));
	}
	model.seed = 6;
	c = holes_generate(&model, NULL);
	ck_assert(a->n_rows != c->n_rows || a->rows[3].t_s != c->rows[3].t_s);
	holes_destroy(a);
	holes_destroy(b);
	holes_destroy(c);
}
END_TEST

START_TEST(a_model_that_makes_no_sense_is_refused)
{
	static const struct holes_model bad[] = {
		{ 0, 24, 0.2, 1 },
		{ HOLES_NODES_MAX + 1, 24, 0.2, 1 },
		{ 8, 0, 0.2, 1 },
		{ 8, -1, 0.2, 1 },
		{ 8, NAN, 0.2, 1 },
		{ 8, 24, 0, 1 },
		{ 8, 24, 1, 1 },
		{ 8, 24, NAN, 1 },
		{ 8, 1e9, 0.2, 1 },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		ck_assert_ptr_null(holes_generate(&bad[i], NULL));
		ck_assert_int_eq(errno, EINVAL);
	}
}
END_TEST

/* Numbers of FIELD for the published week, by the same measure. */
START_TEST(the_published_week_is_read_whole)
{
	const char *data = getenv("MALLE_DATA");
	char file[512];
	struct holes *holes;
	struct numbers got;
	struct err err;

	snprintf(file, sizeof(file), "%s/traces/summit-idle-1024n-week1.csv.gz",
		data ? data : "../shared/data");
	if (access(file, R_OK) < 0) {
		printf("skip: %s: not there\n", file);
		return;
	}
	holes = holes_read(file, &err);
	ck_assert_msg(holes != NULL, "%s", err.text);
	ck_assert_uint_eq(holes->n_rows, 7212);
	ck_assert_uint_eq(holes->n_nodes, 1024);
	got = measure(holes);
	ck_assert_double_eq_tol(got.together, 0.84, 0.005);
	ck_assert_uint_eq(got.median_join, 3);
	ck_assert_double_eq_tol(got.mean_join, 11, 0.5);
	holes_destroy(holes);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("holes");
	TCase *tc = tcase_create("holes");
	SRunner *runner;
	int failed;

	tcase_add_loop_test(tc, a_file_is_read_strictly_and_blamed_by_its_line, 0,
		sizeof(cases) / sizeof(cases[0]));
	tcase_add_test(tc, a_row_has_what_its_line_has);
	tcase_add_test(tc, a_compressed_file_is_read_like_a_plain_one);
	tcase_add_test(tc, a_compressed_file_that_was_cut_off_is_refused);
	tcase_add_test(tc, a_file_that_is_not_there_is_told_with_its_errno);
	tcase_add_loop_test(tc, generated_holes_have_the_published_statistics, 0,
		sizeof(seeds) / sizeof(seeds[0]));
	tcase_add_test(tc, nodes_leave_together_as_often_as_published_on_average);
	tcase_add_loop_test(tc, the_idle_share_is_kept_on_small_machines_too, 0,
		sizeof(small) / sizeof(small[0]));
	tcase_add_test(tc, a_seed_makes_the_same_holes_again_and_another_does_not);
	tcase_add_test(tc, a_model_that_makes_no_sense_is_refused);
	tcase_add_test(tc, the_published_week_is_read_whole);
	suite_add_tcase(suite, tc);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}
