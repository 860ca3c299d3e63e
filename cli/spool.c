/*
 * spool.c - the directory for the state of a job without nodes.
 *
 * When the last node of a job closes, an agent leaves the job's state in its
 * spool, as the user, in a file of a fixed name.  So each job has a directory
 * of its own, below the one that the user names or below .malle in the working
 * directory, which on a cluster is where all nodes can see it.  It is removed
 * with the job, and nothing else ever is; what a cancelled or failed job has left
 * is kept, because it may be hours of training.
 */
#include "cli/spool.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int make_directories(char *path)
{
	for (char *slash = path + 1; (slash = strchr(slash, '/')); slash++) {
		int rc;

		*slash = '\0';
		rc = mkdir(path, 0700);
		*slash = '/';
		if (rc < 0 && errno != EEXIST)
			return -1;
	}
	return mkdir(path, 0700) < 0 && errno != EEXIST ? -1 : 0;
}

static int is_directory(const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return 0;
	errno = ENOTDIR;
	return S_ISDIR(st.st_mode);
}

char *spool_create(
	const char *wanted, const char *cwd, const char *token, struct err *err)
{
	char *path;
	int rc;

	if (!wanted)
		rc = asprintf(&path, "%s/.malle/%s", cwd, token);
	else if (wanted[0] == '/')
		rc = asprintf(&path, "%s/%s", wanted, token);
	else
		rc = asprintf(&path, "%s/%s/%s", cwd, wanted, token);
	if (rc < 0) {
		err_set(err, ENOMEM, "spool directory: out of memory");
		return NULL;
	}
	if (make_directories(path) < 0 || !is_directory(path)) {
		err_set(err, errno, "spool %s: cannot be made: %s", path,
			strerror(errno));
		free(path);
		return NULL;
	}
	return path;
}

static void remove_files(const char *spool)
{
	DIR *dir = opendir(spool);
	struct dirent *entry;

	if (!dir)
		return;
	while ((entry = readdir(dir)))
		if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
			unlinkat(dirfd(dir), entry->d_name, 0);
	closedir(dir);
}

int spool_remove(const char *spool, int with_state)
{
	char *parent;

	if (with_state)
		remove_files(spool);
	if (rmdir(spool) < 0)
		return errno == ENOTEMPTY || errno == EEXIST;
	/* .malle itself goes with its last job; a directory of the user's stays. */
	parent = strdup(spool);
	if (parent) {
		char *slash = strrchr(parent, '/');

		*slash = '\0';
		if (slash - parent >= 7 && !strcmp(slash - 7, "/.malle"))
			rmdir(parent);
	}
	free(parent);
	return 0;
}
