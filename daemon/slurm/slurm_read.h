/* slurm_read.h - read an answer of Slurm as it comes in, of any version and form.
 *
 * JSON (slurmrestd v0.0.37 to v0.0.44, squeue/sinfo/scontrol --json of 21.08 and
 * later) is read as it streams: memory does not grow with the answer.  Text:
 * `scontrol show nodes|reservations|partitions`, with -o or without; no jobs,
 * in whose names and comments users could write anything.
 */
#ifndef DAEMON_SLURM_SLURM_READ_H
#define DAEMON_SLURM_SLURM_READ_H

#include <stddef.h>

#include "daemon/slurm/slurm.h"
#include "proto/err.h"

enum slurm_form {
	SLURM_FORM_GUESS = 0, /* by the first bytes */
	SLURM_FORM_JSON,
	SLURM_FORM_SCONTROL, /* Key=value, a record a line or in paragraphs */
};

/*
 * Records come in the order of the answer; a node that stands under several
 * partitions may come several times.  Any function may be NULL: not wanted.
 */
struct slurm_read_handlers {
	void (*on_node)(const struct slurm_node *node, void *arg);
	void (*on_job)(const struct slurm_job *job, void *arg);
	void (*on_reservation)(const struct slurm_reservation *reservation, void *arg);
	void (*on_partition)(const struct slurm_partition *partition, void *arg);
	/* An entry of errors[], in one line: what Slurm says went wrong. */
	void (*on_error)(const char *text, int number, void *arg);
	/* A field or record that could not be read: where and why, for the log. */
	void (*on_warning)(const char *text, void *arg);
};

struct slurm_summary {
	size_t nodes, jobs, reservations, partitions; /* records */
	size_t errors, warnings;
	int has_list;      /* a list of records was there, even if empty */
	char release[24];  /* "22.05.8"; "" */
	char plugin[64];   /* the data parser or plugin that wrote it; "" */
	enum slurm_form form;
	double last_update_s; /* NAN */
	long long job_id; /* of a submit's answer; 0: none */
};

struct slurm_reader;

/* Handlers are copied.  NULL: ENOMEM. */
struct slurm_reader *slurm_reader_create(enum slurm_form form,
	const struct slurm_read_handlers *handlers, void *arg, struct err *err);

/* -1: EPROTO, this is no answer of Slurm, with the place; nothing follows it. */
int slurm_reader_feed(
	struct slurm_reader *reader, const void *data, size_t size, struct err *err);

/*
 * The input has ended.  -1: EPROTO for one that was cut off or is no answer of
 * Slurm.  *summary is filled in either case.
 */
int slurm_reader_end(
	struct slurm_reader *reader, struct slurm_summary *summary, struct err *err);

void slurm_reader_destroy(struct slurm_reader *reader);

#endif
