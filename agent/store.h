/* store.h - states of training that lie in this node's memory. */
#ifndef AGENT_STORE_H
#define AGENT_STORE_H

#include <stddef.h>

#include "proto/err.h"

#define STORE_ID_SIZE 65

struct store;

struct store_entry {
	long long generation, step;
	long long cursor; /* -1: not known */
	long long bytes;
	char *path;
};

/*
 * Keeps states below `root`/malle-<uid>/<claim>/, root being a memory-backed
 * directory.  What an earlier agent of the same claim left there is removed.
 * NULL: EINVAL (a claim that is no file name), EPERM (the directory is somebody
 * else's), ENOMEM, errno of mkdir.
 */
struct store *store_create(const char *root, const char *claim, struct err *err);

/* Removes everything.  NULL is fine. */
void store_destroy(struct store *store);

/*
 * The directory for the states of a job, made if need be.  Borrowed, until
 * store_drop.  NULL: as store_create.
 */
const char *store_dir(struct store *store, const char *job, struct err *err);

/* Where the job wants a state that has to outlive its nodes.  Copied. */
int store_set_spool(
	struct store *store, const char *job, const char *spool, struct err *err);
/* Borrowed; NULL: it never said. */
const char *store_spool_of(const struct store *store, const char *job);

/*
 * A complete file `file` of this size lies in the job's directory: it is a state
 * now.  The newest two are kept, older files removed.  -1: EINVAL (not a plain
 * name), EBADMSG (not a file of that size), errno of stat, ENOMEM.
 */
int store_add(struct store *store, const char *job, const char *file,
	const struct store_entry *what, struct err *err);

/* Borrowed, until the job's next state is added.  NULL: there is none. */
const struct store_entry *store_find(
	const struct store *store, const char *job, long long step);
const struct store_entry *store_newest(const struct store *store, const char *job);

/*
 * The job goes on from this step (-1: from nothing): states of later ones are of
 * a past that did not happen.  They are removed.
 */
void store_rewind(struct store *store, const char *job, long long step);

/* Forget the job and remove its states. */
void store_drop(struct store *store, const char *job);

/* Remove what writers that are dead now have left half-written. */
void store_sweep(struct store *store, const char *job);

/* Call fn for every state. */
typedef void (*store_each_f)(
	const char *job, const struct store_entry *entry, void *arg);
void store_each(const struct store *store, store_each_f fn, void *arg);

/*
 * Copy everything from the file fd to `path`: into a new file beside it, whose
 * name ends in `word`, fsync, rename.  Whenever it is killed, path holds a
 * complete file, this one or the one before.  Of two at once each needs a word
 * of its own.  Blocks: for a process of its own.  0, or -1.
 */
int store_copy(int fd, const char *path, const char *word, struct err *err);

#endif
