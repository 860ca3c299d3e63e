/* snapshot.h - a problem, frozen from what the daemon knows now. */
#ifndef DAEMON_SNAPSHOT_H
#define DAEMON_SNAPSHOT_H

#include <jansson.h>

#include "allocator/problem.h"
#include "daemon/ctld.h"

struct snapshot {
	json_t *json; /* the problem as malle-alloc would read it */
	struct problem *problem;
};

/*
 * NULL without anything to decide (err says nothing) or with ENOMEM.
 * *next_s: seconds until a job that was left out may be looked at; INFINITY.
 */
struct snapshot *snapshot_take(struct ctld *ctld, double *next_s, struct err *err);
void snapshot_destroy(struct snapshot *snapshot);

/* Why this job's size changes, for the log.  Static text. */
const char *snapshot_why(const struct snapshot *snapshot, const struct job *job);

/* Ask the job's prober, with what the pool could give it; sets probed_nodes. */
void snapshot_wish(struct ctld *ctld, struct job *job, double now_s);

#endif
