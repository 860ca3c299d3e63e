/*
 * check_worker_ledger.c - the books of worlds, and what an audit finds in them.
 *
 * Jobs are played with the real cursor and the real ledger writer, then single
 * lines of the files are changed, as a fault in either of them would have.
 */
#include "tests/unit/failing_malloc.h"

#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "worker/audit.h"
#include "worker/cursor.h"
#include "worker/ledger.h"

#define SAMPLES 20
#define BATCH	6 /* 4 steps an epoch: 6 6 6 2 */
#define TOTAL	40

static char dir[] = "/tmp/check_worker_ledger.XXXXXX";
static struct audit_report report;
static struct malle_err err;

/* How a world ends. */
enum end { END_LEFT, END_FINISHED, END_KILLED, END_KILLED_IN_STEP };

/*
 * One world from a step and cursor on, for so many steps; the last step of
 * END_KILLED_IN_STEP is known to rank 0 only.
 */
static void play(uint64_t generation, uint64_t world, uint64_t step, uint64_t consumed,
	int steps, enum end end)
{
	for (uint64_t rank = 0; rank < world; rank++) {
		struct ledger_head head = { generation, rank, world, step, consumed,
			SAMPLES, BATCH, TOTAL, 5, "j1" };
		struct cursor c;
		struct ledger l;
		uint32_t ids[BATCH];

		cursor_init(&c, SAMPLES, BATCH, TOTAL, 5);
		cursor_seek(&c, step, consumed);
		ck_assert_int_eq(ledger_open(&l, dir, &head, BATCH, &err), 0);
		for (int i = 0; i < steps; i++) {
			struct cursor_batch b = cursor_next(&c);
			uint64_t offset, n = cursor_slice(b.n, rank, world, &offset);

			if (end == END_KILLED_IN_STEP && i == steps - 1 && rank)
				break;
			cursor_ids(&c, &b, offset, n, ids);
			ck_assert_int_eq(
				ledger_batch(&l, c.step, c.consumed, b.n, ids, n, &err),
				0);
			cursor_step(&c, &b);
		}
		if (end == END_LEFT || end == END_FINISHED)
			ledger_end(&l, c.step, c.consumed, end == END_FINISHED, &err);
		ledger_close(&l);
	}
}

static void name_of(char *path, int generation, int rank)
{
	snprintf(path, 100, "%s/g%06d-r%05d.ledger", dir, generation, rank);
}

/* Line `number` (from 1) of a file: replaced, dropped (NULL), or doubled (""). */
static void change_line(int generation, int rank, int number, const char *with)
{
	char path[100], tmp[110], line[500];
	FILE *from, *to;

	name_of(path, generation, rank);
	snprintf(tmp, sizeof(tmp), "%s.new", path);
	from = fopen(path, "r");
	to = fopen(tmp, "w");
	ck_assert(from && to);
	for (int i = 1; fgets(line, sizeof(line), from); i++) {
		if (i == number && !with)
			continue;
		if (i == number && *with)
			strcpy(line, with);
		fputs(line, to);
		if (i == number && !*with)
			fputs(line, to);
	}
	fclose(from);
	fclose(to);
	ck_assert_int_eq(rename(tmp, path), 0);
}

static void get_line(int generation, int rank, int number, char *line)
{
	char path[100];
	FILE *f;

	name_of(path, generation, rank);
	f = fopen(path, "r");
	while (number--)
		ck_assert_ptr_nonnull(fgets(line, 500, f));
	fclose(f);
}

/* Cut the last bytes off a file. */
static void tear(int generation, int rank, int bytes)
{
	char path[100];
	FILE *f;
	long size;

	name_of(path, generation, rank);
	f = fopen(path, "r+");
	fseek(f, 0, SEEK_END);
	size = ftell(f);
	fclose(f);
	ck_assert_int_eq(truncate(path, bytes < size ? size - bytes : 0), 0);
}

static void audit(void)
{
	int got = audit_dir(dir, &report, &err);

	ck_assert_msg(got == 0, "%s", err.text);
}

static void clean(uint64_t samples, uint64_t steps)
{
	audit();
	ck_assert_uint_eq(report.lost, 0);
	ck_assert_uint_eq(report.repeated, 0);
	ck_assert_uint_eq(report.n_examples, 0);
	ck_assert_uint_eq(report.samples, samples);
	ck_assert_uint_eq(report.steps, steps);
}

/* A job in three worlds, the second one lost: 8 steps, 40 samples. */
static void a_job(void)
{
	play(1, 2, 0, 0, 3, END_LEFT);		  /* 0 1 2 */
	play(2, 3, 3, 18, 4, END_KILLED_IN_STEP); /* 3 4 5, 6 begun */
	play(3, 1, 5, 26, 3, END_FINISHED);	  /* 5 6 7 */
}

static void setup(void)
{
	strcpy(dir, "/tmp/check_worker_ledger.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void teardown(void)
{
	DIR *d = opendir(dir);
	struct dirent *e;
	char name[400];

	while ((e = readdir(d))) {
		snprintf(name, sizeof(name), "%s/%s", dir, e->d_name);
		unlink(name);
	}
	closedir(d);
	rmdir(dir);
}

START_TEST(a_job_of_three_worlds_with_a_loss_is_clean)
{
	a_job();
	clean(TOTAL, 8);
	ck_assert_uint_eq(report.redone_steps, 2); /* 5, and 6 that was begun */
	ck_assert_uint_eq(report.generations, 3);
	ck_assert_uint_eq(report.files, 6);
	ck_assert_uint_eq(report.epochs, 2);
	ck_assert_int_eq(report.finished, 1);
	ck_assert_str_eq(report.job, "j1");
}
END_TEST

START_TEST(a_torn_last_line_of_a_killed_rank_is_legal)
{
	a_job();
	for (int bytes = 1; bytes < 12; bytes++) {
		tear(2, 0, 1);
		clean(TOTAL, 8);
		ck_assert_uint_eq(report.torn, 1);
	}
	tear(2, 1, 1); /* step 5, which was redone, on another rank */
	clean(TOTAL, 8);
	ck_assert_uint_eq(report.torn, 2);
}
END_TEST

START_TEST(a_rank_killed_in_its_first_line_is_legal)
{
	a_job();
	play(4, 2, 7, 38, 0, END_KILLED);
	tear(4, 0, 10);
	tear(4, 1, 1000);
	clean(TOTAL, 8);
	ck_assert_uint_eq(report.torn, 1);
}
END_TEST

START_TEST(the_step_under_way_at_the_end_is_left_out)
{
	play(1, 3, 0, 0, 3, END_KILLED_IN_STEP);
	clean(12, 2);
	ck_assert_int_eq(report.finished, 0);
	ck_assert_uint_eq(report.redone_steps, 0);
	ck_assert_uint_eq(report.epochs, 0);
}
END_TEST

START_TEST(a_step_that_a_later_world_builds_on_is_not_left_out)
{
	play(1, 3, 0, 0, 3, END_KILLED_IN_STEP); /* step 2 is on rank 0 only */
	play(2, 1, 3, 18, 1, END_LEFT);
	audit();
	ck_assert_uint_eq(report.lost, 4);
	ck_assert_uint_eq(report.repeated, 0);
	ck_assert_uint_eq(report.examples[0].step, 2);
	ck_assert_uint_eq(report.examples[0].rank, 1);
}
END_TEST

START_TEST(a_lost_sample_is_reported)
{
	char line[500];
	unsigned lost;
	uint64_t step, cursor;

	a_job();
	/* rank 1 of world 1 at step 1: its last id is not there */
	get_line(1, 1, 3, line);
	ck_assert_int_eq(
		sscanf(line, "b %lu %lu 6 3 %*u %*u %u", &step, &cursor, &lost), 3);
	*strrchr(line, ' ') = 0;
	line[8] = '2';
	strcat(line, "\n");
	ck_assert_int_eq(strncmp(line, "b 1 6 6 2 ", 10), 0);
	change_line(1, 1, 3, line);
	audit();
	ck_assert_uint_eq(report.lost, 1);
	ck_assert_uint_eq(report.repeated, 0);
	ck_assert_uint_eq(report.n_examples, 1);
	ck_assert_int_eq(report.examples[0].what, AUDIT_LOST);
	ck_assert_uint_eq(report.examples[0].id, lost);
	ck_assert_uint_eq(report.examples[0].epoch, 0);
	ck_assert_uint_eq(report.examples[0].step, 1);
}
END_TEST

START_TEST(a_repeated_sample_is_reported)
{
	char line[500], first[500];
	unsigned id, lost;

	a_job();
	/* rank 0 at step 1 takes an id of its step 0 in place of its first */
	get_line(1, 0, 2, first);
	get_line(1, 0, 3, line);
	ck_assert_int_eq(sscanf(first, "b 0 0 6 3 %u", &id), 1);
	ck_assert_int_eq(sscanf(line, "b 1 6 6 3 %u", &lost), 1);
	snprintf(first, sizeof(first), "b 1 6 6 3 %u%s", id,
		strchr(line + strlen("b 1 6 6 3 "), ' '));
	change_line(1, 0, 3, first);
	audit();
	ck_assert_uint_eq(report.lost, 1);
	ck_assert_uint_eq(report.repeated, 1);
	ck_assert_int_eq(report.examples[0].what, AUDIT_REPEATED);
	ck_assert_uint_eq(report.examples[0].id, id);
	ck_assert_uint_eq(report.examples[0].epoch, 0);
	ck_assert_uint_eq(report.examples[0].step, 1);
	ck_assert_uint_eq(report.examples[0].rank, 0);
	ck_assert_int_eq(report.examples[1].what, AUDIT_LOST);
	ck_assert_uint_eq(report.examples[1].id, lost);
}
END_TEST

static const struct {
	int generation, rank, line;
	const char *with; /* NULL: dropped, "": doubled */
	uint64_t lost, repeated, step;
} lines[] = {
	{ 1, 0, 2, NULL, 3, 0, 0 },
	{ 1, 1, 4, NULL, 3, 0, 2 },
	{ 2, 2, 3, NULL, 2, 0, 4 },
	{ 3, 0, 3, NULL, 6, 0, AUDIT_UNKNOWN }, /* of its only rank: the whole step */
	{ 1, 0, 2, "", 0, 3, 0 },
	{ 3, 0, 4, "", 0, 2, 7 },
	{ 2, 0, 5, NULL, 0, 0, 0 }, /* void: redone by world 3 */
	{ 2, 0, 4, "", 0, 0, 0 },
};

START_TEST(a_line_that_is_missing_or_double_is_reported_if_it_counts)
{
	a_job();
	change_line(
		lines[_i].generation, lines[_i].rank, lines[_i].line, lines[_i].with);
	audit();
	ck_assert_uint_eq(report.lost, lines[_i].lost);
	ck_assert_uint_eq(report.repeated, lines[_i].repeated);
	if (report.n_examples)
		ck_assert_uint_eq(report.examples[0].step, lines[_i].step);
}
END_TEST

START_TEST(a_file_that_is_missing_is_samples_lost)
{
	char path[100];

	a_job();
	name_of(path, 2, 1);
	unlink(path);
	audit();
	ck_assert_uint_eq(report.lost, 3); /* 1 at step 3, 2 at step 4 */
	ck_assert_uint_eq(report.examples[0].rank, 1);
}
END_TEST

START_TEST(a_world_that_resumes_at_a_wrong_cursor_is_found)
{
	play(1, 2, 0, 0, 4, END_LEFT);	/* 20 samples */
	play(2, 2, 4, 14, 2, END_LEFT); /* should be 20 */
	audit();
	ck_assert_uint_eq(report.repeated, 6);
	teardown();
	setup();
	play(1, 2, 0, 0, 2, END_LEFT);	    /* 12 samples */
	play(2, 2, 2, 20, 4, END_FINISHED); /* should be 12 */
	audit();
	ck_assert_uint_eq(report.lost, 8);
	ck_assert_uint_eq(report.repeated, 0);
}
END_TEST

START_TEST(samples_lost_in_an_epoch_that_is_not_complete_are_counted)
{
	play(1, 2, 0, 0, 3, END_LEFT);
	change_line(1, 0, 3, NULL);
	audit();
	ck_assert_uint_eq(report.lost, 3);
	ck_assert_uint_eq(report.examples[0].id, AUDIT_UNKNOWN);
	ck_assert_uint_eq(report.examples[0].step, 1);
	ck_assert_uint_eq(report.examples[0].rank, 0);
}
END_TEST

static const struct {
	int line;
	const char *with, *where;
} damaged[] = {
	{ 1, "malle-ledger 2 generation 1\n", ":1: byte 1: not a line" },
	{ 1, "\n", ":1: byte 1" },
	{ 1,
		"malle-ledger 1 generation 1 rank 2 world 2 step 0 cursor 0 samples 20 "
		"batch 6 "
		"total 40 seed 5 job j1\n",
		":1:" },
	{ 1,
		"malle-ledger 1 generation 1 rank 0 world 2 step 0 cursor 41 samples "
		"20 batch 6 "
		"total 40 seed 5 job j1\n",
		":1:" },
	{ 1,
		"malle-ledger 1 generation 1 rank 0 world 2 step 0 cursor 0 samples 0 "
		"batch 6 "
		"total 40 seed 5 job j1\n",
		":1:" },
	{ 1,
		"malle-ledger 1 generation 1 rank 0 world 2 step 0 cursor 0 samples 20 "
		"batch 6 "
		"total 40 seed 5 job j2\n",
		"not of one job" },
	{ 1,
		"malle-ledger 1 generation 1 rank 0 world 2 step 0 cursor 0 samples 20 "
		"batch 6 "
		"total 40 seed 6 job j1\n",
		"not of one training" },
	{ 1,
		"malle-ledger 1 generation 1 rank 0 world 2 step 1 cursor 0 samples 20 "
		"batch 6 "
		"total 40 seed 5 job j1\n",
		"not of one world" },
	{ 1,
		"malle-ledger 1 generation 1 rank 1 world 2 step 0 cursor 0 samples 20 "
		"batch 6 "
		"total 40 seed 5 job j1\n",
		"the same rank twice" },
	{ 2, "b 0 0 6 3 1 2\n", ":2:" },
	{ 2, "b 0 0 6 3 1 2 3 4\n", ":2:" },
	{ 2, "b 0 0 21 0\n", ":2:" },
	{ 2, "b 0 0 6 3 1 2 20\n", ":2: byte 16" },
	{ 2, "b 0 0 6 3 1 2  3\n", ":2: byte 15" },
	{ 2, "b 0 0 6 3 1 2 03\n", ":2:" },
	{ 2, "b 0 0 6 3 1 2 -3\n", ":2:" },
	{ 2, "b 0 0 6 3 1 2 4294967299\n", ":2:" },
	{ 2, "b 0 0 0 0\n", ":2:" },
	{ 2, "b 0 99999999999999999999 6 0\n", ":2:" },
	{ 2, "c 0 0 6 0\n", ":2:" },
	{ 3, "e 1 6 left\n", ":4:" }, /* something after the end */
	{ 5, "e 3 18 perhaps\n", ":5:" },
};

START_TEST(a_damaged_file_is_refused_with_its_line)
{
	play(1, 2, 0, 0, 3, END_LEFT);
	change_line(1, 0, damaged[_i].line, damaged[_i].with);
	ck_assert_int_eq(audit_dir(dir, &report, &err), -1);
	ck_assert_int_eq(errno, EBADMSG);
	ck_assert_msg(strstr(err.text, damaged[_i].where) != NULL, "%s", err.text);
}
END_TEST

START_TEST(an_id_over_the_last_is_damage_in_the_smallest_sets_too)
{
	char path[100];
	FILE *f;

	for (int n = 1; n < 12; n++) {
		name_of(path, 1, 0);
		f = fopen(path, "w");
		fprintf(f,
			"malle-ledger 1 generation 1 rank 0 world 1 step 0 cursor 0 "
			"samples %d batch 1 total 50 seed 1 job j\nb 0 0 1 1 %d\n",
			n, n);
		fclose(f);
		ck_assert_int_eq(audit_dir(dir, &report, &err), -1);
		ck_assert_int_eq(errno, EBADMSG);
	}
}
END_TEST

START_TEST(nothing_to_read_is_told)
{
	ck_assert_int_eq(audit_dir(dir, &report, &err), -1);
	ck_assert_int_eq(errno, ENODATA);
	ck_assert_int_eq(audit_dir("/nonexistent", &report, &err), -1);
	ck_assert_int_eq(errno, ENOENT);
	ck_assert_str_eq(err.text, "/nonexistent: open: No such file or directory");
}
END_TEST

START_TEST(each_allocation_of_an_audit_may_fail)
{
	a_job();
	for (long n = 1, failed = 1; failed; n++) {
		int status;

		failing_malloc_arm(n);
		status = audit_dir(dir, &report, &err);
		failed = failing_malloc_disarm();
		ck_assert(status == 0 || (status == -1 && failed && errno == ENOMEM));
		if (status == 0) {
			ck_assert_uint_eq(report.samples, TOTAL);
			ck_assert_uint_eq(report.lost + report.repeated, 0);
		}
	}
}
END_TEST

START_TEST(a_generation_is_recorded_once)
{
	struct ledger_head head = { 1, 0, 1, 0, 0, SAMPLES, BATCH, TOTAL, 5, "j1" };
	struct ledger l;

	ck_assert_int_eq(ledger_open(&l, dir, &head, BATCH, &err), 0);
	ledger_close(&l);
	ck_assert_int_eq(ledger_open(&l, dir, &head, BATCH, &err), -1);
	ck_assert_int_eq(errno, EEXIST);
	ck_assert_int_eq(l.fd, -1);
}
END_TEST

START_TEST(a_full_disk_is_a_failure)
{
	struct ledger l = { .fd = -1 };
	FILE *full = fopen("/dev/full", "w");
	uint32_t ids[] = { 1, 2 };

	ck_assert_int_eq(ledger_batch(&l, 0, 0, 2, ids, 2, &err), 0); /* none is kept */
	ck_assert_ptr_nonnull(full);
	l.fd = dup(fileno(full));
	l.line = malloc(200);
	ck_assert_int_eq(ledger_batch(&l, 0, 0, 2, ids, 2, &err), -1);
	ck_assert_int_eq(errno, ENOSPC);
	ledger_close(&l);
	fclose(full);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("worker_ledger");
	TCase *t = tcase_create("ledger");
	SRunner *runner;
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, a_job_of_three_worlds_with_a_loss_is_clean);
	tcase_add_test(t, a_torn_last_line_of_a_killed_rank_is_legal);
	tcase_add_test(t, a_rank_killed_in_its_first_line_is_legal);
	tcase_add_test(t, the_step_under_way_at_the_end_is_left_out);
	tcase_add_test(t, a_step_that_a_later_world_builds_on_is_not_left_out);
	tcase_add_test(t, a_lost_sample_is_reported);
	tcase_add_test(t, a_repeated_sample_is_reported);
	tcase_add_loop_test(t,
		a_line_that_is_missing_or_double_is_reported_if_it_counts, 0,
		sizeof(lines) / sizeof(lines[0]));
	tcase_add_test(t, a_file_that_is_missing_is_samples_lost);
	tcase_add_test(t, a_world_that_resumes_at_a_wrong_cursor_is_found);
	tcase_add_test(t, samples_lost_in_an_epoch_that_is_not_complete_are_counted);
	tcase_add_loop_test(t, a_damaged_file_is_refused_with_its_line, 0,
		sizeof(damaged) / sizeof(damaged[0]));
	tcase_add_test(t, an_id_over_the_last_is_damage_in_the_smallest_sets_too);
	tcase_add_test(t, nothing_to_read_is_told);
	tcase_add_test(t, each_allocation_of_an_audit_may_fail);
	tcase_add_test(t, a_generation_is_recorded_once);
	tcase_add_test(t, a_full_disk_is_a_failure);
	suite_add_tcase(s, t);
	runner = srunner_create(s);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed != 0;
}
