/* spawn.h - start one agent: its directory, environment, identity, session. */
#ifndef DAEMON_SCHED_SPAWN_H
#define DAEMON_SCHED_SPAWN_H

#include <stddef.h>
#include <sys/types.h>

#include "proto/err.h"

struct spawn {
	const char *agent; /* program */
	const char *node;
	const char *claim;
	const char *socket; /* of the daemon */
	const char *dir;    /* its runtime directory, made anew */
	const char *log;    /* file that its output is appended to */
	const char *cgroup; /* directory, or NULL */
	double grace_s;
	uid_t uid;
	const char *const *env; /* NAME=VALUE to add, or NULL */
};

/*
 * Start it.  Returns its pid and, in *started, a descriptor that reads end of
 * file once the agent runs, or else a struct spawn_failure before that.  -1
 * with errno (EPERM: a user that we cannot become, or that is not known).
 */
pid_t spawn_agent(const struct spawn *spawn, int *started, struct err *err);

struct spawn_failure {
	int errnum;
	char what[60];
};

/* Remove a directory and all in it, without following links.  -1: errno. */
int spawn_remove_dir(const char *path);

#endif
