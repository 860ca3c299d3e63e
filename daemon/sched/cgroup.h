/* cgroup.h - a control group for each node, where the kernel lets us. */
#ifndef DAEMON_SCHED_CGROUP_H
#define DAEMON_SCHED_CGROUP_H

#include <stddef.h>
#include <sys/types.h>

#include "proto/err.h"

struct cgroups;

/*
 * Finds out where groups can be made: malle-INSTANCE/NODE, version 2 or 1.
 * cpus is the quota of each node, 0 for none.  Where nothing is possible the
 * object is there all the same, and the functions below do nothing.  NULL:
 * ENOMEM.
 */
struct cgroups *cgroups_create(const char *instance, double cpus, struct err *err);

/* Removes what is empty.  NULL is fine. */
void cgroups_destroy(struct cgroups *cgroups);

/* "cgroup v1 /sys/fs/cgroup/cpu/malle-x, 0.25 CPUs a node", or why there is none. */
const char *cgroups_describe(const struct cgroups *cgroups);

/* The node's directory, or NULL where there is none.  buf holds it. */
const char *cgroups_path(
	const struct cgroups *cgroups, const char *node, char *buf, size_t size);

/* Make it, with its quota.  Returns 0 also where there are no groups; -1: errno. */
int cgroups_make(struct cgroups *cgroups, const char *node, struct err *err);

/* 1: gone (or never there), 0: not empty yet. */
int cgroups_remove(struct cgroups *cgroups, const char *node);

/*
 * Call `fn` for each process that is in the node's group, with a pidfd that
 * surely is of that process (closed after the call).  Returns how many.
 */
int cgroups_each(struct cgroups *cgroups, const char *node,
	void (*fn)(pid_t pid, int pidfd, void *arg), void *arg);

#endif
