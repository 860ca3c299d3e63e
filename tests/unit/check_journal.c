/*
 * check_journal.c - the record survives what happens to files.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/journal.h"
#include "proto/log.h"

static char dir[] = "/tmp/check_journal.XXXXXX";
static char file[64];
static struct loop *loop;

static void setup(void)
{
	unlink(file);
	loop = loop_create(NULL);
	ck_assert_ptr_nonnull(loop);
}

static void teardown(void)
{
	loop_destroy(loop);
}

static int count(const char *event, const json_t *record, void *arg, struct err *err)
{
	ck_assert_str_eq(event, "thing");
	ck_assert_int_eq(json_integer_value(json_object_get(record, "n")), *(int *)arg);
	++*(int *)arg;
	return 0;
}

static struct journal *open_it(void)
{
	struct err err = { "" };
	struct journal *journal = journal_open(dir, loop, &err);

	ck_assert_msg(journal != NULL, "%s", err.text);
	return journal;
}

static void write_things(struct journal *journal, int from, int to)
{
	for (int n = from; n < to; n++)
		ck_assert_int_eq(
			journal_write(journal, "thing", json_pack("{s:i}", "n", n)), 0);
}

static int read_things(struct journal *journal)
{
	int n = 0;

	ck_assert_int_eq(journal_read(journal, count, &n, NULL), 0);
	return n;
}

START_TEST(what_was_written_is_read_again_in_order)
{
	struct journal *journal = open_it();
	struct stat st;

	write_things(journal, 0, 100);
	ck_assert_int_eq(journal_commit(journal, "thing", json_pack("{s:i}", "n", 100)), 0);
	journal_close(journal);
	journal = open_it();
	ck_assert_int_eq(read_things(journal), 101);
	ck_assert_int_eq(stat(file, &st), 0);
	ck_assert_int_eq(st.st_mode & 0777, 0600); /* it holds environments */
	journal_close(journal);
}
END_TEST

START_TEST(a_tail_torn_at_any_byte_loses_that_record_only)
{
	struct journal *journal = open_it();
	struct stat st;
	off_t whole;

	write_things(journal, 0, 3);
	stat(file, &st);
	whole = st.st_size;
	write_things(journal, 3, 4);
	stat(file, &st);
	journal_close(journal);
	for (off_t size = st.st_size - 1; size >= whole; size--) {
		ck_assert_int_eq(truncate(file, size), 0);
		journal = open_it();
		ck_assert_int_eq(read_things(journal), 3);
		write_things(journal, 3, 4);
		ck_assert_int_eq(read_things(journal), 4);
		journal_close(journal);
	}
}
END_TEST

START_TEST(damage_in_the_middle_is_not_guessed_over)
{
	struct journal *journal = open_it();
	struct err err = { "" };
	int fd, n = 0;

	write_things(journal, 0, 3);
	fd = open(file, O_WRONLY);
	ck_assert_int_eq((int)pwrite(fd, "#", 1, 0), 1);
	close(fd);
	ck_assert_int_eq(journal_read(journal, count, &n, &err), -1);
	ck_assert_int_eq(errno, EBADMSG);
	ck_assert_msg(strstr(err.text, "journal.jsonl:1: ") != NULL, "%s", err.text);
	journal_close(journal);
}
END_TEST

START_TEST(two_daemons_cannot_have_one_journal)
{
	struct journal *journal = open_it();
	struct err err = { "" };

	ck_assert_ptr_null(journal_open(dir, loop, &err));
	ck_assert_int_eq(errno, EWOULDBLOCK);
	ck_assert_msg(strstr(err.text, "another mallectld") != NULL, "%s", err.text);
	journal_close(journal);
}
END_TEST

START_TEST(a_directory_that_cannot_be_made_says_why)
{
	struct err err = { "" };

	ck_assert_ptr_null(journal_open("/dev/null/malle", loop, &err));
	ck_assert_msg(strstr(err.text, "/dev/null: Not a directory") != NULL, "%s",
		err.text);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("journal");
	TCase *tc = tcase_create("journal");
	SRunner *runner = srunner_create(suite);
	int failed;

	if (!mkdtemp(dir))
		return 1;
	snprintf(file, sizeof(file), "%s/journal.jsonl", dir);
	log_open("check_journal", LOG_LEVEL_ERR, NULL);
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, what_was_written_is_read_again_in_order);
	tcase_add_test(tc, a_tail_torn_at_any_byte_loses_that_record_only);
	tcase_add_test(tc, damage_in_the_middle_is_not_guessed_over);
	tcase_add_test(tc, two_daemons_cannot_have_one_journal);
	tcase_add_test(tc, a_directory_that_cannot_be_made_says_why);
	suite_add_tcase(suite, tc);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	unlink(file);
	rmdir(dir);
	return failed != 0;
}
