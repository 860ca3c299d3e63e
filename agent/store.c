/*
 * store.c - states of training that lie in this node's memory.
 *
 *	/dev/shm/malle-<uid>/<claim>/<job>/<file>
 *
 * Workers write their state there, under a temporary name, and rename it; then
 * they say so, and it becomes an entry here.  The newest two of a job are kept:
 * all nodes have either the newest or the one before, so the world that follows
 * finds one step that all of it can begin at.
 *
 * The memory is the node's, which is given away: at the end of the agent
 * everything goes, at the end of a job that job's.  A worker that was killed
 * while it wrote leaves a file .NAME.PID; it is removed when no such process is
 * there any more.
 *
 * /dev/shm is writable for all users of a machine: our directory there must be
 * ours alone, or we do not use it.
 */
#include "agent/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KEPT = 2 };

struct store_job {
	struct store_job *next;
	char id[STORE_ID_SIZE];
	char *dir;                            /* NULL: not made yet */
	char *spool;                          /* or NULL */
	struct store_entry entries[KEPT + 1]; /* the newest first */
	size_t n;
};

struct store {
	char *dir; /* of the claim */
	struct store_job *jobs;
};

/* --- directories ------------------------------------------------------------ */

static int is_name(const char *name)
{
	return name[0] && name[0] != '.' && !strchr(name, '/') && strlen(name) < 256;
}

static int make_own_dir(const char *path, struct err *err)
{
	struct stat st;

	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return err_set(err, errno, "%s: mkdir: %s", path, strerror(errno));
	if (lstat(path, &st) < 0)
		return err_set(err, errno, "%s: %s", path, strerror(errno));
	if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077))
		return err_set(
			err, EPERM, "%s: it is not a directory of ours alone", path);
	return 0;
}

static int remove_one(
	const char *path, const struct stat *st, int type, struct FTW *where)
{
	remove(path);
	return 0;
}

static void remove_tree(const char *path)
{
	nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

struct store *store_create(const char *root, const char *claim, struct err *err)
{
	struct store *store = calloc(1, sizeof(*store));
	char *parent = NULL;

	if (!is_name(claim)) {
		err_set(err, EINVAL, "claim \"%s\": it is no file name", claim);
		goto fail;
	}
	if (!store || asprintf(&parent, "%s/malle-%u", root, (unsigned)geteuid()) < 0) {
		parent = NULL;
		err_set(err, ENOMEM, "store of states: out of memory");
		goto fail;
	}
	if (make_own_dir(parent, err) < 0)
		goto fail;
	if (asprintf(&store->dir, "%s/%s", parent, claim) < 0) {
		store->dir = NULL;
		err_set(err, ENOMEM, "store of states: out of memory");
		goto fail;
	}
	remove_tree(store->dir);
	if (make_own_dir(store->dir, err) < 0)
		goto fail;
	free(parent);
	return store;
fail:
	free(parent);
	store_destroy(store);
	return NULL;
}

/* --- jobs ------------------------------------------------------------------- */

static void free_job(struct store_job *job)
{
	for (size_t i = 0; i < job->n; i++)
		free(job->entries[i].path);
	free(job->dir);
	free(job->spool);
	free(job);
}

void store_destroy(struct store *store)
{
	int saved = errno;
	struct store_job *job;
	char *slash;

	if (!store)
		return;
	while ((job = store->jobs)) {
		store->jobs = job->next;
		free_job(job);
	}
	if (store->dir) {
		remove_tree(store->dir);
		/* The parent goes with the last claim of this user. */
		slash = strrchr(store->dir, '/');
		*slash = '\0';
		rmdir(store->dir);
	}
	free(store->dir);
	free(store);
	errno = saved;
}

static struct store_job *find_job(const struct store *store, const char *id)
{
	struct store_job *job = store->jobs;

	while (job && strcmp(job->id, id) != 0)
		job = job->next;
	return job;
}

static struct store_job *get_job(struct store *store, const char *id, struct err *err)
{
	struct store_job *job = find_job(store, id);

	if (job)
		return job;
	if (!is_name(id) || strlen(id) >= sizeof(job->id)) {
		err_set(err, EINVAL, "job \"%s\": it is no file name", id);
		return NULL;
	}
	job = calloc(1, sizeof(*job));
	if (!job) {
		err_set(err, ENOMEM, "states of job %s: out of memory", id);
		return NULL;
	}
	strcpy(job->id, id);
	job->next = store->jobs;
	store->jobs = job;
	return job;
}

const char *store_dir(struct store *store, const char *id, struct err *err)
{
	struct store_job *job = get_job(store, id, err);
	char *dir;

	if (!job)
		return NULL;
	if (job->dir)
		return job->dir;
	if (asprintf(&dir, "%s/%s", store->dir, id) < 0) {
		err_set(err, ENOMEM, "states of job %s: out of memory", id);
		return NULL;
	}
	if (make_own_dir(dir, err) < 0) {
		free(dir);
		return NULL;
	}
	job->dir = dir;
	return dir;
}

int store_set_spool(
	struct store *store, const char *id, const char *spool, struct err *err)
{
	struct store_job *job = get_job(store, id, err);
	char *copy = job ? strdup(spool) : NULL;

	if (!job)
		return -1;
	if (!copy)
		return err_set(err, ENOMEM, "states of job %s: out of memory", id);
	free(job->spool);
	job->spool = copy;
	return 0;
}

const char *store_spool_of(const struct store *store, const char *id)
{
	const struct store_job *job = find_job(store, id);

	return job ? job->spool : NULL;
}

/* --- states ----------------------------------------------------------------- */

static int check_file(const char *path, long long bytes, struct err *err)
{
	struct stat st;

	if (lstat(path, &st) < 0)
		return err_set(err, errno, "state %s: %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode) || st.st_size != bytes)
		return err_set(err, EBADMSG, "state %s: it is not a file of %lld bytes",
			path, bytes);
	return 0;
}

static void forget_entry(struct store_job *job, size_t i, int remove_file)
{
	if (remove_file)
		unlink(job->entries[i].path);
	free(job->entries[i].path);
	memmove(&job->entries[i], &job->entries[i + 1],
		(job->n - i - 1) * sizeof(job->entries[0]));
	job->n--;
}

/* An entry of the same file or step is replaced by the new one. */
static void replace_like(struct store_job *job, const struct store_entry *entry)
{
	for (size_t i = job->n; i-- > 0;) {
		int same_file = strcmp(job->entries[i].path, entry->path) == 0;

		if (same_file || job->entries[i].step == entry->step)
			forget_entry(job, i, !same_file);
	}
}

static void insert(struct store_job *job, const struct store_entry *entry)
{
	size_t at = 0;

	replace_like(job, entry);
	while (at < job->n && job->entries[at].step > entry->step)
		at++;
	memmove(&job->entries[at + 1], &job->entries[at],
		(job->n - at) * sizeof(job->entries[0]));
	job->entries[at] = *entry;
	job->n++;
	while (job->n > KEPT)
		forget_entry(job, job->n - 1, 1);
}

int store_add(struct store *store, const char *id, const char *file,
	const struct store_entry *what, struct err *err)
{
	struct store_entry entry = *what;
	const char *dir = store_dir(store, id, err);

	if (!dir)
		return -1;
	if (!is_name(file))
		return err_set(err, EINVAL, "job %s: state \"%s\": not a plain name",
			id, file);
	if (asprintf(&entry.path, "%s/%s", dir, file) < 0)
		return err_set(err, ENOMEM, "states of job %s: out of memory", id);
	if (check_file(entry.path, entry.bytes, err) < 0) {
		int saved = errno;

		free(entry.path);
		errno = saved;
		return -1;
	}
	insert(find_job(store, id), &entry);
	return 0;
}

const struct store_entry *store_newest(const struct store *store, const char *id)
{
	const struct store_job *job = find_job(store, id);

	return job && job->n ? &job->entries[0] : NULL;
}

const struct store_entry *store_find(
	const struct store *store, const char *id, long long step)
{
	const struct store_job *job = find_job(store, id);

	for (size_t i = 0; job && i < job->n; i++)
		if (job->entries[i].step == step)
			return &job->entries[i];
	return NULL;
}

void store_rewind(struct store *store, const char *id, long long step)
{
	struct store_job *job = find_job(store, id);

	while (job && job->n && job->entries[0].step > step)
		forget_entry(job, 0, 1);
}

void store_each(const struct store *store, store_each_f fn, void *arg)
{
	for (const struct store_job *job = store->jobs; job; job = job->next)
		for (size_t i = job->n; i-- > 0;)
			fn(job->id, &job->entries[i], arg);
}

void store_drop(struct store *store, const char *id)
{
	for (struct store_job **at = &store->jobs; *at; at = &(*at)->next) {
		struct store_job *job = *at;

		if (strcmp(job->id, id) != 0)
			continue;
		if (job->dir)
			remove_tree(job->dir);
		*at = job->next;
		free_job(job);
		return;
	}
}

/* ".NAME.PID", and no process has that number. */
static int is_left_over(const char *name)
{
	const char *dot = strrchr(name, '.');
	long pid = dot ? strtol(dot + 1, NULL, 10) : 0;

	return name[0] == '.' && dot > name && pid > 0 && kill((pid_t)pid, 0) < 0 &&
	       errno == ESRCH;
}

void store_sweep(struct store *store, const char *id)
{
	struct store_job *job = find_job(store, id);
	DIR *dir = job && job->dir ? opendir(job->dir) : NULL;
	struct dirent *entry;

	while (dir && (entry = readdir(dir)))
		if (is_left_over(entry->d_name))
			unlinkat(dirfd(dir), entry->d_name, 0);
	if (dir)
		closedir(dir);
}
