/* dirs.c - directories that the daemon needs. */
#include "daemon/dirs.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static int make_one(const char *dir, mode_t mode, struct err *err)
{
	struct stat st;
	int why;

	if (mkdir(dir, mode) == 0)
		return 0;
	why = errno;
	/* A read-only parent says so first, also of what is there. */
	if (stat(dir, &st) != 0)
		return err_set(err, why == EEXIST ? ENOTDIR : why,
			"making directory %s: %s", dir,
			strerror(why == EEXIST ? ENOTDIR : why));
	if (!S_ISDIR(st.st_mode))
		return err_set(err, ENOTDIR, "making directory %s: %s", dir,
			strerror(ENOTDIR));
	return 0;
}

int dirs_make(const char *dir, mode_t mode, struct err *err)
{
	char path[PATH_MAX];

	if (!dir[0])
		return err_set(err, ENOENT, "making a directory: its name is empty");
	if (snprintf(path, sizeof(path), "%s", dir) >= (int)sizeof(path))
		return err_set(err, ENAMETOOLONG, "making directory %.64s...: too long", dir);
	for (char *p = path + 1;; p++) {
		char c = *p;

		if (c != '/' && c != '\0')
			continue;
		*p = '\0';
		if (make_one(path, mode, err) != 0)
			return -1;
		*p = c;
		if (c == '\0')
			return 0;
	}
}

int dirs_make_for(const char *file, mode_t mode, struct err *err)
{
	const char *slash = strrchr(file, '/');
	char path[PATH_MAX];

	if (!slash || slash == file)
		return 0;
	if (slash - file >= (int)sizeof(path))
		return err_set(err, ENAMETOOLONG, "making directory %.64s...: too long", file);
	memcpy(path, file, slash - file);
	path[slash - file] = '\0';
	return dirs_make(path, mode, err);
}
