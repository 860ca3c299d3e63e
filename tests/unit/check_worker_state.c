/* check_worker_state.c - states: whole or not at all, to a file and back. */
#include "tests/unit/failing_malloc.h"

#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "worker/state.h"
#include "worker/sum.h"

/* --- the system calls of state.c, which can be made to fail or to kill ----- */

enum fate { FATE_NONE, FATE_KILL, FATE_FAIL, FATE_SHORT };

static enum fate fate;
static int fate_in; /* calls until then; 0: at each, for FATE_SHORT */

static int strikes(void)
{
	return fate_in && --fate_in == 0;
}

ssize_t write(int fd, const void *bytes, size_t n)
{
	size_t part = n > 1 ? n / 2 : n;

	if (fate == FATE_SHORT) {
		if (fate_in ^= 1) {
			errno = EINTR;
			return -1;
		}
		return syscall(SYS_write, fd, bytes, n > 3 ? 3 : n);
	}
	if (fate != FATE_NONE && strikes()) {
		if (fate == FATE_KILL) {
			syscall(SYS_write, fd, bytes, part);
			_exit(9);
		}
		errno = ENOSPC;
		return -1;
	}
	return syscall(SYS_write, fd, bytes, n);
}

int fsync(int fd)
{
	if (fate != FATE_NONE && strikes()) {
		if (fate == FATE_KILL)
			_exit(9);
		errno = EIO;
		return -1;
	}
	return (int)syscall(SYS_fsync, fd);
}

int rename(const char *from, const char *to)
{
	if (fate != FATE_NONE && strikes()) {
		if (fate == FATE_KILL)
			_exit(9);
		errno = EACCES;
		return -1;
	}
	return renameat(AT_FDCWD, from, AT_FDCWD, to);
}

/* --- a small model --------------------------------------------------------- */

static char dir[] = "/tmp/check_worker_state.XXXXXX", path[64];
static float weights[1000];
static uint8_t odd[13];
static struct state_table table;
static const struct state_point point = {
	.step = 12,
	.consumed = 6144,
	.epoch = 1,
	.n_samples = 6000,
	.global_batch = 512,
	.seed = 3,
};

static void fill(int with)
{
	for (int i = 0; i < 1000; i++)
		weights[i] = (float)(i * with);
	memset(odd, with, sizeof(odd));
}

static int holds(int with)
{
	for (int i = 0; i < 1000; i++)
		if (weights[i] != (float)(i * with))
			return 0;
	for (size_t i = 0; i < sizeof(odd); i++)
		if (odd[i] != with)
			return 0;
	return 1;
}

static void setup(void)
{
	fate = FATE_NONE;
	strcpy(dir, "/tmp/check_worker_state.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/s", dir);
	ck_assert_int_eq(
		state_add(&table, "weights", weights, sizeof(weights), NULL), 0);
	ck_assert_int_eq(state_add(&table, "empty", NULL, 0, NULL), 0);
	ck_assert_int_eq(state_add(&table, "odd", odd, sizeof(odd), NULL), 0);
	fill(1);
}

static int files(void)
{
	DIR *d = opendir(dir);
	int n = 0;

	while (readdir(d))
		n++;
	closedir(d);
	return n - 2;
}

static void teardown(void)
{
	DIR *d = opendir(dir);
	struct dirent *e;
	char name[400];

	fate = FATE_NONE;
	while ((e = readdir(d))) {
		snprintf(name, sizeof(name), "%s/%s", dir, e->d_name);
		unlink(name);
	}
	closedir(d);
	rmdir(dir);
	state_fini(&table);
}

static int save(void)
{
	uint64_t bytes;

	return state_save(&table, &point, dir, "s", &bytes, NULL);
}

static int load(struct malle_err *err)
{
	struct state_point at = { .n_samples = 6000, .seed = 3 };

	return state_load(&table, path, &at, err);
}

/* --- tests ------------------------------------------------------------------ */

static const struct {
	const char *text;
	uint64_t sum;
} sums[] = {
	/* of the reference implementation */
	{ "", 0xef46db3751d8e999 },
	{ "a", 0xd24ec4f1a98c6e5b },
	{ "abc", 0x44bc2cf5ad770999 },
	{ "Nobody inspects the spammish repetition", 0xfbcea83c8a378bf1 },
};

START_TEST(the_checksum_is_xxh64_in_whatever_pieces)
{
	const char *text = sums[_i].text;
	size_t n = strlen(text);
	struct sum sum;

	for (size_t piece = 1; piece <= n + 1; piece++) {
		sum_init(&sum);
		for (size_t at = 0; at < n; at += piece)
			sum_add(&sum, text + at, n - at < piece ? n - at : piece);
		ck_assert_uint_eq(sum_value(&sum), sums[_i].sum);
	}
}
END_TEST

START_TEST(a_state_comes_back_as_it_was)
{
	struct state_point at = { .n_samples = 6000, .seed = 3 };
	uint64_t bytes;
	struct stat st;

	ck_assert_int_eq(state_save(&table, &point, dir, "s", &bytes, NULL), 0);
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_uint_eq(bytes, (uint64_t)st.st_size);
	ck_assert_int_eq(st.st_mode & 0777, 0600);
	ck_assert_int_eq(files(), 1);
	fill(2);
	ck_assert_int_eq(state_load(&table, path, &at, NULL), 0);
	ck_assert(holds(1));
	ck_assert_mem_eq(&at, &point, sizeof(at));
}
END_TEST

START_TEST(a_file_with_any_byte_changed_changes_no_buffer)
{
	struct malle_err err;
	uint8_t byte;
	struct stat st;
	int fd;

	ck_assert_int_eq(save(), 0);
	fill(2);
	fd = open(path, O_RDWR);
	fstat(fd, &st);
	for (off_t at = 0; at < st.st_size; at += at < 400 ? 1 : 37) {
		ck_assert_int_eq(pread(fd, &byte, 1, at), 1);
		byte ^= 0x10;
		ck_assert_int_eq(pwrite(fd, &byte, 1, at), 1);
		ck_assert_msg(load(&err) == -1, "byte %ld", (long)at);
		ck_assert_int_eq(errno, EBADMSG);
		ck_assert_ptr_nonnull(strstr(err.text, path));
		byte ^= 0x10;
		ck_assert_int_eq(pwrite(fd, &byte, 1, at), 1);
	}
	ck_assert(holds(2));
	ck_assert_int_eq(load(&err), 0);
	close(fd);
}
END_TEST

START_TEST(a_file_cut_short_or_longer_changes_no_buffer)
{
	struct stat st;

	ck_assert_int_eq(save(), 0);
	fill(2);
	stat(path, &st);
	ck_assert_int_eq(truncate(path, st.st_size + 1), 0);
	ck_assert_int_eq(load(NULL), -1);
	for (off_t size = st.st_size - 1; size >= 0; size -= size < 400 ? 1 : 37) {
		ck_assert_int_eq(truncate(path, size), 0);
		ck_assert_int_eq(load(NULL), -1);
		ck_assert_int_eq(errno, EBADMSG);
	}
	ck_assert(holds(2));
}
END_TEST

static const struct {
	const char *first;
	size_t bytes;
	const char *second;
	uint64_t n_samples, seed;
	const char *why;
} others[] = {
	{ "weight", 4000, "empty", 6000, 3,
		"buffer 0 is weights, the program's is weight" },
	{ "weights", 3996, "empty", 6000, 3,
		"weights is 4000 bytes, the program's 3996" },
	{ "weights", 4000, NULL, 6000, 3, "it has 3 buffers, the program 1" },
	{ "empty", 0, "weights", 6000, 3,
		"buffer 0 is weights, the program's is empty" },
	{ "weights", 4000, "empty", 5999, 3, "n_samples" },
	{ "weights", 4000, "empty", 6000, 4, "seed" },
};

START_TEST(another_programs_state_is_refused_in_words)
{
	struct state_table other = { NULL, 0 };
	struct state_point at = { .n_samples = others[_i].n_samples,
		.seed = others[_i].seed };
	struct malle_err err;

	ck_assert_int_eq(save(), 0);
	fill(2);
	state_add(&other, others[_i].first, weights, others[_i].bytes, NULL);
	if (others[_i].second) {
		state_add(&other, others[_i].second, odd, 0, NULL);
		state_add(&other, "odd", odd, sizeof(odd), NULL);
	}
	ck_assert_int_eq(state_load(&other, path, &at, &err), -1);
	ck_assert_int_eq(errno, EBADMSG);
	ck_assert_msg(strstr(err.text, others[_i].why) != NULL, "%s", err.text);
	ck_assert(holds(2));
	state_fini(&other);
}
END_TEST

START_TEST(what_is_not_a_state_is_refused)
{
	FILE *f = fopen(path, "w");

	for (int i = 0; i < 300; i++)
		fputs("a text file, ", f);
	fclose(f);
	ck_assert_int_eq(load(NULL), -1);
	ck_assert_int_eq(errno, EBADMSG);
	unlink(path);
	ck_assert_int_eq(load(NULL), -1);
	ck_assert_int_eq(errno, ENOENT);
	ck_assert_int_eq(
		state_load(&table, "/tmp", &(struct state_point){ .seed = 3 }, NULL),
		-1);
}
END_TEST

/* In a child: save state 2 over state 1, and be killed at the nth call. */
static int killed_at(int n)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		fill(2);
		fate = FATE_KILL;
		fate_in = n;
		save();
		_exit(0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	return WEXITSTATUS(status) == 9;
}

START_TEST(a_kill_at_every_write_leaves_the_last_complete_state)
{
	int n = 0;

	ck_assert_int_eq(save(), 0);
	while (killed_at(++n)) {
		fill(3);
		ck_assert_int_eq(load(NULL), 0);
		ck_assert(holds(1));
	}
	ck_assert_int_gt(n, 5); /* head, buffers, sum, fsync, rename */
	ck_assert_int_eq(load(NULL), 0);
	ck_assert(holds(2));
}
END_TEST

START_TEST(a_failed_write_leaves_the_old_state_and_no_other_file)
{
	int n, failed = 1;

	ck_assert_int_eq(save(), 0);
	fill(2);
	for (n = 1; failed; n++) {
		fate = FATE_FAIL;
		fate_in = n;
		failed = save() < 0;
		fate = FATE_NONE;
		ck_assert_int_eq(files(), 1);
		if (failed)
			ck_assert(errno == ENOSPC || errno == EIO || errno == EACCES);
	}
	ck_assert_int_gt(n, 6);
	ck_assert_int_eq(load(NULL), 0);
	ck_assert(holds(2));
}
END_TEST

START_TEST(interrupted_and_short_writes_are_continued)
{
	fate = FATE_SHORT;
	fate_in = 0;
	ck_assert_int_eq(save(), 0);
	fate = FATE_NONE;
	fill(2);
	ck_assert_int_eq(load(NULL), 0);
	ck_assert(holds(1));
}
END_TEST

START_TEST(each_allocation_may_fail)
{
	int status;

	for (long n = 1, failed = 1; failed; n++) {
		struct state_table t = { NULL, 0 };

		failing_malloc_arm(n);
		status = state_add(&t, "a", weights, 4, NULL);
		status += state_add(&t, "b", weights, 4, NULL);
		failed = failing_malloc_disarm();
		ck_assert_int_eq(status, failed ? -1 : 0);
		ck_assert_uint_eq(t.n, failed ? 1 : 2);
		state_fini(&t);
	}
	for (long n = 1, failed = 1; failed; n++) {
		failing_malloc_arm(n);
		status = save();
		failed = failing_malloc_disarm();
		/* asprintf() can do without one of its two */
		ck_assert(status == 0 || (status == -1 && failed && errno == ENOMEM));
		ck_assert_int_eq(files(), status ? 0 : 1);
		unlink(path);
	}
	ck_assert_int_eq(save(), 0);
	fill(2);
	for (long n = 1, failed = 1; failed; n++) {
		failing_malloc_arm(n);
		status = load(NULL);
		failed = failing_malloc_disarm();
		ck_assert_int_eq(status, failed ? -1 : 0);
		ck_assert(holds(failed ? 2 : 1));
	}
}
END_TEST

START_TEST(a_name_is_taken_once_and_has_its_limits)
{
	char name[65];

	memset(name, 'x', sizeof(name));
	name[64] = 0;
	ck_assert_int_eq(state_add(&table, "weights", weights, 4, NULL), -1);
	ck_assert_int_eq(errno, EEXIST);
	ck_assert_int_eq(state_add(&table, name, weights, 4, NULL), -1);
	ck_assert_int_eq(errno, EINVAL);
	ck_assert_int_eq(state_add(&table, "", weights, 4, NULL), -1);
	ck_assert_int_eq(state_add(&table, NULL, weights, 4, NULL), -1);
	ck_assert_int_eq(state_add(&table, "null", NULL, 4, NULL), -1);
	ck_assert_int_eq(state_add(&table, name + 1, weights, 4, NULL), 0);
	ck_assert_uint_eq(table.n, 4);
}
END_TEST

START_TEST(the_digest_tells_names_sizes_and_order)
{
	static const char *const names[][2] = { { "a", "b" }, { "b", "a" },
		{ "a", "c" }, { "a", "b" } };
	uint64_t digests[4];

	for (int i = 0; i < 4; i++) {
		struct state_table t = { NULL, 0 };

		state_add(&t, names[i][0], weights, 4, NULL);
		state_add(&t, names[i][1], weights, i == 3 ? 8 : 4, NULL);
		digests[i] = state_digest(&t);
		for (int k = 0; k < i; k++)
			ck_assert_uint_ne(digests[i], digests[k]);
		state_fini(&t);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("worker_state");
	TCase *t = tcase_create("state");
	SRunner *runner;
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_loop_test(t, the_checksum_is_xxh64_in_whatever_pieces, 0,
		sizeof(sums) / sizeof(sums[0]));
	tcase_add_test(t, a_state_comes_back_as_it_was);
	tcase_add_test(t, a_file_with_any_byte_changed_changes_no_buffer);
	tcase_add_test(t, a_file_cut_short_or_longer_changes_no_buffer);
	tcase_add_loop_test(t, another_programs_state_is_refused_in_words, 0,
		sizeof(others) / sizeof(others[0]));
	tcase_add_test(t, what_is_not_a_state_is_refused);
	tcase_add_test(t, a_kill_at_every_write_leaves_the_last_complete_state);
	tcase_add_test(t, a_failed_write_leaves_the_old_state_and_no_other_file);
	tcase_add_test(t, interrupted_and_short_writes_are_continued);
	tcase_add_test(t, each_allocation_may_fail);
	tcase_add_test(t, a_name_is_taken_once_and_has_its_limits);
	tcase_add_test(t, the_digest_tells_names_sizes_and_order);
	suite_add_tcase(s, t);
	runner = srunner_create(s);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed != 0;
}
