/* state.h - the state of training: registered buffers, to a file and back. */
#ifndef WORKER_STATE_H
#define WORKER_STATE_H

#include <stddef.h>
#include <stdint.h>

#include "worker/fault.h"

#define STATE_NAME_MAX 63 /* bytes of a buffer's name */

struct state_buffer {
	char name[STATE_NAME_MAX + 1]; /* NUL to its end */
	void *bytes;                   /* borrowed */
	uint64_t n;
};

struct state_table {
	struct state_buffer *buffers;
	size_t n;
};

/* Where in the training a state belongs. */
struct state_point {
	uint64_t step, consumed, epoch;
	uint64_t n_samples, global_batch, seed;
};

/* ptr is borrowed.  -1: EINVAL, EEXIST, ENOMEM. */
int state_add(struct state_table *table, const char *name, void *ptr, size_t bytes,
	struct malle_err *err);
void state_fini(struct state_table *table);

/* A number that differs where names, sizes or their order do. */
uint64_t state_digest(const struct state_table *table);

/*
 * Write dir/name, complete or not at all, and set *bytes to its size.  A file
 * of that name is replaced.  What is left after a failure is removed.
 * -1: errno of open, write, fsync, rename, or ENOMEM.
 */
int state_save(const struct state_table *table, const struct state_point *point,
	const char *dir, const char *name, uint64_t *bytes, struct malle_err *err);

/*
 * Read a file into the buffers.  Everything is verified before the first byte
 * of a buffer changes: size, names and sizes in order, n_samples and seed of
 * *point, checksum.  On success *point is that of the file.
 * -1: EBADMSG (it is not a state, damaged, or another program's), ENOMEM, or
 * errno of open and read.
 */
int state_load(const struct state_table *table, const char *path,
	struct state_point *point, struct malle_err *err);

#endif
