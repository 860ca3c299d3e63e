/*
 * store_copy.c - one file to a disk, complete or not at all.
 *
 * A state that is to outlive its nodes goes to the job's spool, usually on a
 * shared file system.  New file, all bytes, fsync, rename, fsync of the
 * directory: at each moment the name holds a complete state.
 *
 * The new file's name ends in a word of the caller's, because two nodes may
 * spool the same job at once: the last one that rank 0 was on, and the present
 * one.  A copy that is killed leaves its new file; the next copy of anybody
 * removes it once nobody can still be at work on it.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "agent/store.h"

#define NEW ".new."

enum { CHUNK = 8 << 20, ABANDONED_S = 3600 };

static int copy_bytes(int from, int to)
{
	ssize_t n;

	do
		n = sendfile(to, from, NULL, CHUNK);
	while (n > 0 || (n < 0 && errno == EINTR));
	return n < 0 ? -1 : 0;
}

static int sync_directory(const char *dir)
{
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc;

	if (fd < 0)
		return -1;
	rc = fsync(fd);
	if (rc < 0 && (errno == EINVAL || errno == EROFS))
		rc = 0; /* a file system that does not know how */
	close(fd);
	return rc;
}

static int write_new(int from, const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600), rc, saved;

	if (fd < 0)
		return -1;
	rc = copy_bytes(from, fd);
	if (rc == 0)
		rc = fsync(fd);
	saved = errno;
	if (close(fd) < 0 && rc == 0)
		return -1;
	errno = saved;
	return rc;
}

/* New files beside `path` that were last written to long ago. */
static void remove_abandoned(const char *dir, const char *name)
{
	DIR *stream = opendir(dir);
	size_t size = strlen(name);
	struct dirent *entry;
	struct stat st;

	while (stream && (entry = readdir(stream)))
		if (strncmp(entry->d_name, name, size) == 0 &&
			strncmp(entry->d_name + size, NEW, strlen(NEW)) == 0 &&
			fstatat(dirfd(stream), entry->d_name, &st,
				AT_SYMLINK_NOFOLLOW) == 0 &&
			st.st_mtime + ABANDONED_S < time(NULL))
			unlinkat(dirfd(stream), entry->d_name, 0);
	if (stream)
		closedir(stream);
}

int store_copy(int fd, const char *path, const char *word, struct err *err)
{
	char *fresh, *copy = strdup(path), *dir;
	int rc = -1, saved;

	if (!copy || asprintf(&fresh, "%s" NEW "%s", path, word) < 0) {
		free(copy);
		return err_set(err, ENOMEM, "state %s: out of memory", path);
	}
	dir = dirname(copy);
	remove_abandoned(dir, strrchr(path, '/') ? strrchr(path, '/') + 1 : path);
	if (write_new(fd, fresh) < 0) {
		saved = errno;
		unlink(fresh);
		err_set(err, saved, "state %s: write: %s", fresh, strerror(saved));
	} else if (rename(fresh, path) < 0) {
		err_set(err, errno, "state %s: rename: %s", path, strerror(errno));
	} else if (sync_directory(dir) < 0) {
		err_set(err, errno, "state %s: fsync: %s", path, strerror(errno));
	} else {
		rc = 0;
	}
	free(fresh);
	free(copy);
	return rc;
}
