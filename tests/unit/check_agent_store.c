/* check_agent_store.c - states in memory, and their copies on a disk. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/store.h"

static char root[64];
static struct store *store;

static void setup(void)
{
	struct err err;

	strcpy(root, "/dev/shm/malle-check-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(root));
	store = store_create(root, "c1", &err);
	ck_assert_ptr_nonnull(store);
}

static void teardown(void)
{
	char command[96];

	store_destroy(store);
	snprintf(command, sizeof(command), "rm -rf %s", root);
	ck_assert_int_eq(system(command), 0);
}

static void path_of(const char *name, char *path, size_t size)
{
	struct err err;

	snprintf(path, size, "%s/%s", store_dir(store, "j1", &err), name);
}

static void write_file(const char *path, char byte, size_t size)
{
	FILE *file = fopen(path, "w");

	ck_assert_ptr_nonnull(file);
	for (size_t i = 0; i < size; i++)
		putc(byte, file);
	ck_assert_int_eq(fclose(file), 0);
}

/* A worker has saved: file "state-STEP" of STEP bytes. */
static int saved(long long step)
{
	struct store_entry what = {
		.generation = 1, .step = step, .cursor = step * 8, .bytes = step
	};
	struct err err;
	char name[32], path[160];

	snprintf(name, sizeof(name), "state-%lld", step);
	path_of(name, path, sizeof(path));
	write_file(path, 'x', (size_t)step);
	return store_add(store, "j1", name, &what, &err);
}

static int is_there(long long step)
{
	char name[32], path[160];

	snprintf(name, sizeof(name), "state-%lld", step);
	path_of(name, path, sizeof(path));
	return access(path, F_OK) == 0;
}

/* Steps in the order in which they are saved; which two stay. */
static const struct {
	int steps[5], newest, second;
} orders[] = {
	{ { 10 }, 10, 0 },
	{ { 10, 20 }, 20, 10 },
	{ { 10, 20, 30 }, 30, 20 },
	{ { 30, 20, 10 }, 30, 20 },
	{ { 20, 30, 10, 40 }, 40, 30 },
	{ { 10, 10, 10 }, 10, 0 },
	{ { 10, 20, 10, 20 }, 20, 10 },
};

START_TEST(the_newest_two_are_kept)
{
	for (int i = 0; i < 5 && orders[_i].steps[i]; i++)
		ck_assert_int_eq(saved(orders[_i].steps[i]), 0);
	ck_assert_int_eq(store_newest(store, "j1")->step, orders[_i].newest);
	ck_assert_int_eq(is_there(orders[_i].newest), 1);
	if (orders[_i].second)
		ck_assert_ptr_nonnull(store_find(store, "j1", orders[_i].second));
	for (int i = 0; i < 5 && orders[_i].steps[i]; i++) {
		int step = orders[_i].steps[i];
		int stays = step == orders[_i].newest || step == orders[_i].second;

		ck_assert_int_eq(is_there(step), stays);
		ck_assert_int_eq(store_find(store, "j1", step) != NULL, stays);
	}
}
END_TEST

START_TEST(a_job_that_goes_back_forgets_what_came_after)
{
	saved(10);
	saved(20);
	store_rewind(store, "j1", 10);
	ck_assert_int_eq(store_newest(store, "j1")->step, 10);
	ck_assert_int_eq(is_there(20), 0);
	store_rewind(store, "j1", -1);
	ck_assert_ptr_null(store_newest(store, "j1"));
	store_rewind(store, "nobody", 3);
}
END_TEST

static const struct {
	const char *file;
	long long bytes;
	int errnum;
} files[] = {
	{ "good", 4, 0 },
	{ "good", 5, EBADMSG },
	{ "link", 4, EBADMSG },
	{ "dir", 4096, EBADMSG },
	{ "absent", 4, ENOENT },
	{ "../j1/good", 4, EINVAL },
	{ ".hidden", 4, EINVAL },
	{ "", 4, EINVAL },
};

START_TEST(only_a_whole_file_of_the_directory_is_a_state)
{
	struct store_entry what = {
		.generation = 1, .step = 3, .bytes = files[_i].bytes
	};
	char path[160], link[160];
	struct err err;
	int rc;

	path_of("good", path, sizeof(path));
	write_file(path, 'x', 4);
	path_of("link", link, sizeof(link));
	ck_assert_int_eq(symlink(path, link), 0);
	path_of("dir", path, sizeof(path));
	ck_assert_int_eq(mkdir(path, 0700), 0);
	rc = store_add(store, "j1", files[_i].file, &what, &err);
	ck_assert_int_eq(rc, files[_i].errnum ? -1 : 0);
	if (rc < 0)
		ck_assert_int_eq(errno, files[_i].errnum);
}
END_TEST

static const char *const names[] = { "", ".", "..", ".x", "a/b", "/" };

START_TEST(a_claim_or_job_that_is_no_file_name_is_refused)
{
	struct err err;

	ck_assert_ptr_null(store_create(root, names[_i], &err));
	ck_assert_int_eq(errno, EINVAL);
	ck_assert_ptr_null(store_dir(store, names[_i], &err));
	ck_assert_int_eq(errno, EINVAL);
}
END_TEST

START_TEST(a_directory_that_others_may_use_is_refused)
{
	char path[96];
	struct err err;

	snprintf(path, sizeof(path), "%s/malle-%u", root, (unsigned)geteuid());
	ck_assert_int_eq(chmod(path, 0755), 0);
	ck_assert_ptr_null(store_create(root, "c2", &err));
	ck_assert_int_eq(errno, EPERM);
	chmod(path, 0700);
}
END_TEST

START_TEST(half_written_files_of_the_dead_are_removed)
{
	char alive[160], dead[160], name[48];
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	waitpid(pid, NULL, 0);
	snprintf(name, sizeof(name), ".state-7.%d", (int)pid);
	path_of(name, dead, sizeof(dead));
	write_file(dead, 'x', 9);
	snprintf(name, sizeof(name), ".state-7.%d", (int)getpid());
	path_of(name, alive, sizeof(alive));
	write_file(alive, 'x', 9);
	saved(10);
	store_sweep(store, "j1");
	ck_assert_int_ne(access(dead, F_OK), 0);
	ck_assert_int_eq(access(alive, F_OK), 0);
	ck_assert_int_eq(is_there(10), 1);
}
END_TEST

START_TEST(a_dropped_job_leaves_nothing_and_an_agent_leaves_nothing)
{
	char path[160];
	struct err err;

	saved(10);
	path_of("", path, sizeof(path));
	store_drop(store, "j1");
	ck_assert_int_ne(access(path, F_OK), 0);
	ck_assert_ptr_null(store_newest(store, "j1"));
	store_drop(store, "j1");
	ck_assert_ptr_nonnull(store_dir(store, "j1", &err));
	saved(20);
	store_destroy(store);
	store = NULL;
	snprintf(path, sizeof(path), "%s/malle-%u", root, (unsigned)geteuid());
	ck_assert_int_ne(access(path, F_OK), 0);
}
END_TEST

/* --- copies ------------------------------------------------------------------ */

enum { OLD_SIZE = 1000, NEW_SIZE = 17 << 20 }; /* three writes */

/* All bytes are `byte`: size of the file; else -1. */
static long long whole(const char *path, char byte)
{
	static char bytes[1 << 16];
	long long size = 0;
	FILE *file = fopen(path, "r");
	size_t n;

	if (!file)
		return -1;
	while ((n = fread(bytes, 1, sizeof(bytes), file)) > 0) {
		for (size_t i = 0; i < n; i++)
			if (bytes[i] != byte) {
				fclose(file);
				return -1;
			}
		size += (long long)n;
	}
	fclose(file);
	return size;
}

static void copy_under_trace(int fd, const char *path)
{
	struct err err;

	ptrace(PTRACE_TRACEME, 0, NULL, NULL);
	raise(SIGSTOP);
	_exit(store_copy(fd, path, "test", &err) == 0 ? 0 : 1);
}

/* Kill the copy after n stops at system calls: 1; 0: it had ended before. */
static int kill_after(int n, int fd, const char *path)
{
	pid_t pid = fork();
	int status;

	if (pid == 0)
		copy_under_trace(fd, path);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFSTOPPED(status));
	for (int i = 0; i < n; i++) {
		ptrace(PTRACE_SYSCALL, pid, NULL, NULL);
		ck_assert_int_eq(waitpid(pid, &status, 0), pid);
		if (WIFEXITED(status)) {
			ck_assert_int_eq(WEXITSTATUS(status), 0);
			return 0;
		}
	}
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	return 1;
}

START_TEST(a_copy_that_is_killed_at_any_system_call_leaves_a_whole_state)
{
	char from[96], path[96];
	int fd, n = 0, seen_new = 0, killed = 1;

	snprintf(from, sizeof(from), "%s/from", root);
	snprintf(path, sizeof(path), "%s/state", root);
	write_file(from, 'n', NEW_SIZE);
	while (killed) {
		write_file(path, 'o', OLD_SIZE);
		fd = open(from, O_RDONLY | O_CLOEXEC);
		killed = kill_after(++n, fd, path);
		close(fd);
		if (whole(path, 'o') == OLD_SIZE)
			continue;
		ck_assert_int_eq(whole(path, 'n'), NEW_SIZE);
		seen_new = 1;
	}
	ck_assert_int_eq(seen_new, 1);
	ck_assert_int_gt(n, 10);
}
END_TEST

START_TEST(a_copy_removes_what_was_abandoned_long_ago)
{
	char from[96], path[96], old[96], young[96];
	struct timespec times[2] = { { .tv_sec = 1000 }, { .tv_sec = 1000 } };
	struct err err;
	int fd;

	snprintf(from, sizeof(from), "%s/from", root);
	snprintf(path, sizeof(path), "%s/state", root);
	snprintf(old, sizeof(old), "%s/state.new.c7", root);
	snprintf(young, sizeof(young), "%s/state.new.c8", root);
	write_file(from, 'n', 10);
	write_file(old, 'x', 10);
	write_file(young, 'x', 10);
	ck_assert_int_eq(utimensat(AT_FDCWD, old, times, 0), 0);
	fd = open(from, O_RDONLY | O_CLOEXEC);
	ck_assert_int_eq(store_copy(fd, path, "c9", &err), 0);
	close(fd);
	ck_assert_int_eq(whole(path, 'n'), 10);
	ck_assert_int_ne(access(old, F_OK), 0);
	ck_assert_int_eq(access(young, F_OK), 0);
	ck_assert_int_eq(store_copy(-1, path, "c9", &err), -1);
	ck_assert_int_eq(whole(path, 'n'), 10);
	snprintf(path, sizeof(path), "%s/none/state", root);
	ck_assert_int_eq(store_copy(-1, path, "c9", &err), -1);
	ck_assert_int_eq(errno, ENOENT);
}
END_TEST

#define N(table) (int)(sizeof(table) / sizeof((table)[0]))

int main(void)
{
	Suite *suite = suite_create("agent store");
	TCase *tcase = tcase_create("all");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_loop_test(tcase, the_newest_two_are_kept, 0, N(orders));
	tcase_add_test(tcase, a_job_that_goes_back_forgets_what_came_after);
	tcase_add_loop_test(
		tcase, only_a_whole_file_of_the_directory_is_a_state, 0, N(files));
	tcase_add_loop_test(
		tcase, a_claim_or_job_that_is_no_file_name_is_refused, 0, N(names));
	tcase_add_test(tcase, a_directory_that_others_may_use_is_refused);
	tcase_add_test(tcase, half_written_files_of_the_dead_are_removed);
	tcase_add_test(tcase, a_dropped_job_leaves_nothing_and_an_agent_leaves_nothing);
	tcase_add_test(
		tcase, a_copy_that_is_killed_at_any_system_call_leaves_a_whole_state);
	tcase_add_test(tcase, a_copy_removes_what_was_abandoned_long_ago);
	suite_add_tcase(suite, tcase);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
