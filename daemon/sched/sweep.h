/* sweep.h - find and kill what belongs to a claim, and nothing else. */
#ifndef DAEMON_SCHED_SWEEP_H
#define DAEMON_SCHED_SWEEP_H

#include <stddef.h>
#include <sys/types.h>

struct cgroups;

/* Whom a sweep has killed so far; all zero at first.  sweep_fini. */
struct sweep {
	pid_t *pids;
	size_t count, room;
	unsigned killed; /* processes, each once */
};

void sweep_fini(struct sweep *sweep);

/*
 * SIGKILL to every process in the node's group and to every process of `uid`
 * that has MALLE_CLAIM=`claim` in its environment, except ourselves.  Returns
 * how many were found alive: 0 when nothing is left.
 */
int sweep_once(struct sweep *sweep, struct cgroups *cgroups, const char *node,
	const char *claim, uid_t uid);

/* Field 22 of /proc/PID/stat, which tells a process from a later one with the
 * same pid; 0 when there is no such process (a zombie is none). */
unsigned long long sweep_start_ticks(pid_t pid);

#endif
