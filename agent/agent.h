/* agent.h - the agent of a node: what it is made of. */
#ifndef AGENT_AGENT_H
#define AGENT_AGENT_H

#include <stddef.h>

#include "agent/part.h"
#include "proto/err.h"
#include "proto/link.h"
#include "proto/loop.h"

struct exec;
struct leave;
struct rsh;
struct spooler;
struct store;
struct uplink;
struct worker_sock;

/* Where it is and what it may do.  Borrowed strings; from the environment. */
struct agent_config {
	const char *ctld;      /* the daemon's socket */
	const char *node;      /* the node's name */
	const char *claim;     /* the claim's id */
	const char *rundir;    /* directory of its own */
	const char *cgroup;    /* directory of its own cgroup, or NULL */
	const char *shm;       /* memory-backed directory for states */
	const char *interface; /* network interface between nodes */
	double grace_s;        /* from SIGTERM until everything must be gone */
	double orphan_s;       /* without a daemon, before it gives up */
	double replica_s;      /* between states that workers keep in memory */
	double spool_s;        /* between states that are also kept on a disk */
};

/* One pointer for each part of it, made in this order. */
struct agent {
	const struct agent_config *config;
	struct loop *loop;
	struct exec *exec;
	struct store *store;
	struct spooler *spooler;
	struct rsh *rsh;
	struct worker_sock *sock;
	struct uplink *uplink;
	struct leave *leave;
	struct part *parts;
	double began_s;        /* monotonic */
	int n_dirs;            /* made for worlds so far */
	char *socket;          /* path of its own */
	char *self, *rsh_path; /* of the programs malle-agent and malle-rsh */
	int exit_code;
	struct err why; /* it has to end early; "": it does not */
};

/* Run until the node is given back.  Returns the exit code; *err if not 0. */
int agent_run(const struct agent_config *config, struct err *err);

/* End at the end of this turn.  The first code counts. */
void agent_stop(struct agent *agent, int exit_code);
void agent_fail(struct agent *agent, int exit_code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * A world is to be held: the part is made and its processes, if any are to be
 * started here, are.  Safe to repeat.  -1: EINVAL, ENOMEM, ...: it is not.
 */
int agent_hold(struct agent *agent, const struct msg *start, struct err *err);

/* Unlink a part from the agent, let go of what it has, free it. */
void agent_let_go(struct part *part);

/* Is any part not gone yet?  Other than `but` (NULL: any at all). */
int agent_holds(const struct agent *agent, const struct part *but);

#endif
