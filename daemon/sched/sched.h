/* sched.h - batch schedulers behind one interface.
 *
 * A backend looks at the scheduler and hands over one type of view; it takes
 * nodes by claims and tells what becomes of these.  A claim counts only when its agent
 * has said hello to the daemon; the backend's word that it started is no proof.
 */
#ifndef DAEMON_SCHED_SCHED_H
#define DAEMON_SCHED_SCHED_H

#include <stddef.h>
#include <sys/types.h>

#include "proto/err.h"
#include "proto/loop.h"

enum sched_quality {
	SCHED_UNSET = 0,
	SCHED_FRESH,   /* what the scheduler says now */
	SCHED_STALE,   /* what it said before; it does not answer */
	SCHED_UNKNOWN, /* nothing is known: no node is idle, none is busy */
};

/* Borrowed for the time of the callback.  Times are of the loop's monotonic clock. */
struct sched_node {
	const char *name;
	int eligible;
	const char *reason; /* the name of the rule that says no; "" when eligible */
	double until_s;     /* expected end of the hole; INFINITY: not known */
	int group;          /* nodes that became idle together; 0: none */
	double due_s;       /* wanted back: clean by then; INFINITY: not wanted */
};

struct sched_view {
	enum sched_quality quality;
	const struct sched_node *nodes;
	size_t n_nodes;
};

enum sched_claim_event {
	CLAIM_UNSET = 0,
	CLAIM_STARTED, /* the agent's process runs */
	CLAIM_FAILED,  /* it could not be started */
	CLAIM_ENDED,   /* nothing of the claim is left, the node is the scheduler's */
};

/* What must be written down to find a claim again after a restart. */
struct sched_claim {
	const char *id; /* unique, not to be guessed */
	const char *node;
	pid_t pid;                     /* of the agent; 0 where it is not known */
	unsigned long long start_ticks; /* of that process: /proc/PID/stat field 22 */
};

struct sched_callbacks {
	void (*on_view)(const struct sched_view *view, void *arg);
	void (*on_claim)(const struct sched_claim *claim, enum sched_claim_event event,
		const char *why, void *arg);
	void *arg;
};

/* Strings are borrowed for the life of the backend. */
struct sched_config {
	const char *backend;    /* "trace" or "static" */
	const char *nodes;      /* hostlist */
	double node_cpus;       /* quota of each; 0: none */
	const char *trace_file; /* "": generated */
	unsigned trace_seed;
	double trace_idle_share; /* 0..1 */
	double trace_hours;
	double trace_speedup;   /* trace seconds a second */
	int trace_loop;
	double grace_s;         /* real seconds from notice to the end */
	double origin_wall_s;   /* when the trace began; 0: now */
	const char *agent;      /* path of malle-agent */
	const char *run_dir;    /* for the agents' directories and logs */
	const char *socket;     /* of the daemon */
	const char *instance;   /* names the parent cgroup; stays over a restart */
};

struct sched;

/* Begin to watch.  NULL: EINVAL (unknown backend, bad hostlist, bad trace with
 * its line), or the errno of a file. */
struct sched *sched_create(const struct sched_config *config, struct loop *loop,
	const struct sched_callbacks *callbacks, struct err *err);

/* Agents and their workers stay as they are. */
void sched_destroy(struct sched *sched);

/* Ask for a view now; on_view follows.  The backend also calls it at each change. */
void sched_poll(struct sched *sched);

/* Claim a node for this user: idempotent while a claim of the node is open.
 * `id` (at least 65 bytes) gets the claim's id; on_claim follows, never from inside
 * this call.  EINVAL for an unknown node, EBUSY when its claim is open. */
int sched_claim(struct sched *sched, const char *node, uid_t uid, char id[65],
	struct err *err);

/* Give a claim back: SIGTERM to its agent, after grace_s the kill.  CLAIM_ENDED follows. */
void sched_release(struct sched *sched, const char *id, double grace_s);

/* A claim of an earlier run of the daemon: watch it as if it were ours.  When it has ended
 * meanwhile, what is left of it is swept and CLAIM_ENDED follows. */
int sched_adopt(struct sched *sched, const struct sched_claim *claim, struct err *err);

/* The scheduler answers. */
int sched_is_fresh(const struct sched *sched);

/* Node-seconds (real) that were eligible since the backend was created. */
double sched_offered_node_s(const struct sched *sched);

/* To be written down and handed in as origin_wall_s after a restart. */
double sched_origin_wall_s(const struct sched *sched);

/* "" or one sentence on what this machine does not allow (no quotas). */
const char *sched_limits(const struct sched *sched);

#endif
