/* health.h - which processes of this machine are ours, and their end. */
#ifndef AGENT_HEALTH_H
#define AGENT_HEALTH_H

#include <stddef.h>
#include <sys/types.h>

#include "proto/err.h"

#define HEALTH_ID_SIZE 65

/* A process, as it was when it was looked at. */
struct health_proc {
	pid_t pid, parent;
	unsigned long long start; /* clock ticks after boot: with pid, its identity */
	char state;               /* 'R', 'S', 'Z' ... */
	char name[32];
	int in_cgroup;            /* of the agent's own cgroup */
	int marked;               /* its environment has the claim's id */
	char job[HEALTH_ID_SIZE]; /* from its environment; "": it does not say */
	long long generation;
	int ours; /* set by health_judge */
};

struct health_set {
	struct health_proc *procs;
	size_t n, size;
};

/* Whose processes are looked for. */
struct health_who {
	pid_t agent;
	const char *claim;
	const char *cgroup; /* directory of the agent's own cgroup, or NULL */
};

/*
 * Look at every process of the machine and keep those that are ours and are not
 * dead, without the agent: descendants of the agent, members of its cgroup, and
 * processes of our uid whose environment carries the claim's id.  Fills *set:
 * health_fini.  -1: /proc cannot be read, ENOMEM.
 */
int health_scan(const struct health_who *who, struct health_set *set, struct err *err);
void health_fini(struct health_set *set);

/*
 * The pure part of it: set `ours` of each, and give a process that does not
 * say its job that of its nearest ancestor that does.
 */
void health_judge(struct health_proc *procs, size_t n, pid_t agent);

/*
 * Signal exactly this process: 1, or 0 when it is gone, whoever has its pid now.
 * -1: EPERM and the like.
 */
int health_signal(const struct health_proc *proc, int signo);

/* "python3[4711], orted[4712] and 3 more" into buf.  Returns buf. */
const char *health_describe(const struct health_set *set, char *buf, size_t size);

#endif
