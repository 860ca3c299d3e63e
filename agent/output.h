/* output.h - what the processes of a world write, to a file and to the daemon. */
#ifndef AGENT_OUTPUT_H
#define AGENT_OUTPUT_H

#include <stddef.h>
#include <stdint.h>

#include "proto/err.h"
#include "proto/loop.h"

struct output;

/* Hand bytes on.  -1: not now; EAGAIN: they are read too slowly, else: nobody reads. */
typedef int (*output_f)(
	const char *job, int stream, const void *bytes, size_t size, void *arg);

struct output_config {
	const char *job;
	const char *path; /* file to append to; NULL: none */
	int from_mpirun;  /* leave out two lines of mpirun's that mean nothing */
	output_f hand_on;
	void *arg;
};

/*
 * Two pipes that are read whenever there is something.  The file is opened by
 * the first byte; that it cannot be is logged once.  NULL: errno of pipe, ENOMEM.
 */
struct output *output_create(
	struct loop *loop, const struct output_config *config, struct err *err);
void output_destroy(struct output *output);

/* The end to write to, for a child.  stream: 1 or 2.  Stays ours. */
int output_fd(const struct output *output, int stream);

/* No process has the pipes any more: take what is in them.  NULL and repeats are fine. */
void output_finish(struct output *output);

/* Try again to hand on what waits.  Non-zero: nothing waits any more.  NULL: so. */
int output_flush(struct output *output);

/*
 * The pure part of leaving lines out.  Returns how many of the bytes, from the
 * beginning, are decided on; *keep says whether they stay.  0: more is needed.
 */
size_t output_judge(const char *bytes, size_t size, int *keep);

#endif
