/* out.h - bytes to a descriptor of ours, without ever blocking the loop. */
#ifndef CLI_OUT_H
#define CLI_OUT_H

#include <stddef.h>

#include "proto/loop.h"

struct out;

/*
 * Write to fd, which stays the caller's and keeps its flags.  on_change is
 * called from the loop when what was queued has been written, or cannot be.
 * NULL: ENOMEM.
 */
struct out *out_create(struct loop *loop, int fd, loop_f on_change, void *arg);
void out_destroy(struct out *out);

/* Queue and write what can be written now.  After a failure: does nothing. */
void out_write(struct out *out, const void *data, size_t size);

/* Bytes not yet written; 0 after a failure. */
size_t out_queued(const struct out *out);

/* The errno of the write that failed, or 0. */
int out_failed(const struct out *out);

/* Non-zero when the next byte starts a line. */
int out_at_line_start(const struct out *out);

#endif
