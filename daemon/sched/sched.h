/* sched.h - a batch scheduler: what it says of its nodes, and claims on them.
 *
 * mallectld sees every scheduler through this.  A backend reports views (which
 * nodes are holes now) and the life of claims; it decides nothing.  All calls
 * come and go in the loop's thread; callbacks never come inside a call of ours.
 */
#ifndef DAEMON_SCHED_SCHED_H
#define DAEMON_SCHED_SCHED_H

#include <stddef.h>
#include <sys/types.h>

#include "proto/err.h"
#include "proto/loop.h"

struct sched;

/* What stands behind a view.  Unknown is never idle. */
enum sched_quality {
	SCHED_UNKNOWN = 0, /* no answer yet, or none that can be used */
	SCHED_STALE,       /* an old answer; the scheduler does not answer now */
	SCHED_FRESH,
};

struct sched_node {
	const char *name;
	int eligible;       /* may be claimed, or kept, now */
	const char *reason; /* the name of the first rule that says no; "" */
	double until_s;     /* expected end of the hole; INFINITY: nobody knows */
	double deadline_s;  /* wanted back: clean by then; INFINITY: not wanted */
	int group;          /* nodes that came together share one; 0: none */
};

/* Times are those of the loop (loop_now_s).  Nodes in natural order. */
struct sched_view {
	enum sched_quality quality;
	double t_s;      /* when it was taken */
	const char *why; /* it is not fresh; NULL when it is */
	size_t n_nodes;
	const struct sched_node *nodes;
};

enum sched_event {
	SCHED_EVENT_NONE = 0,
	SCHED_STARTED, /* the agent runs: pid, start_ticks */
	SCHED_FAILED,  /* it could not be started: why.  The claim is over */
	SCHED_NOTICE,  /* the node is wanted back by deadline_s; the agent was told */
	SCHED_ENDED,   /* nothing of the claim is left on the node.  It is over */
};

struct sched_claim {
	const char *id;
	const char *node;
	enum sched_event event;
	pid_t pid;                      /* of the agent; 0: not known */
	unsigned long long start_ticks; /* field 22 of /proc/PID/stat */
	double deadline_s;              /* NOTICE */
	int status;      /* ENDED: exit code, 128 + signal, -1: not known */
	unsigned killed; /* ENDED: processes that the backend had to kill */
	const char *why; /* FAILED, and ENDED where there is something to say */
};

struct sched_handlers {
	/* After every change of a view, and after sched_poll.  Borrowed. */
	void (*on_view)(const struct sched_view *view, void *arg);
	void (*on_claim)(const struct sched_claim *claim, void *arg);
};

/*
 * Everything is copied by sched_create.  NULL and 0 mean the default where one
 * is named.
 */
struct sched_config {
	const char *backend; /* "trace" or "static" */
	const char *nodes;   /* hostlist; trace: NULL is n1..nN by the trace */

	/* trace: holes from a file, or made by the generator of holes.h */
	const char *trace_file; /* NULL: generator; .gz is read directly */
	unsigned seed;
	double idle_share; /* of the node-time, 0..1 */
	double hours;      /* length of the generated trace, trace time */
	double speedup;    /* trace seconds in a real one, to 1e6; 0: 1 */
	int end;           /* at its end: 0 begin again, 1 no holes any more */
	double origin_s;   /* wall time of the trace's beginning; 0: now */

	/* agents on this machine */
	double grace_s;      /* real seconds from notice to kill */
	double node_cpus;    /* CPU quota of a node; 0: none */
	const char *agent;   /* path of malle-agent */
	const char *run_dir; /* there and searchable by claims' users; logs go here */
	const char *socket;  /* of mallectld, for the agents */
	/*
	 * Names the parent cgroup: malle-INSTANCE.  The same after a restart.
	 * NULL: made from run_dir.
	 */
	const char *instance;
	const char *const *env; /* NAME=VALUE to add to agents' environment; NULL */
};

/*
 * A backend at work, or NULL: EINVAL for the configuration, errno of a file
 * that cannot be read, EPROTO for a trace file ("FILE:LINE: what").  A view
 * comes by itself in the next turn.
 */
struct sched *sched_create(const struct sched_config *config, struct loop *loop,
	const struct sched_handlers *handlers, void *arg, struct err *err);

/* Agents stay and are adopted by the next one.  NULL is fine. */
void sched_destroy(struct sched *sched);

/* Ask for a view: it comes through on_view. */
void sched_poll(struct sched *sched);

/*
 * Claim a node for a user; `id` is the caller's, unique for ever, of letters,
 * digits, '.', '_' and '-', at most 64 bytes.  What becomes of it comes through
 * on_claim.  -1: ENOENT no such node, EBUSY it is claimed, EAGAIN it is not
 * eligible (any more), EPERM for a uid that we cannot become, EINVAL.
 */
int sched_claim(struct sched *sched, const char *node, const char *id, uid_t uid,
	struct err *err);

/*
 * End a claim from our side: SIGTERM to its agent, a kill of everything when
 * the grace is over.  ENDED follows, without NOTICE.  An agent that was told to
 * go by message needs no such call.  -1: ENOENT.
 */
int sched_release(struct sched *sched, const char *id, struct err *err);

/*
 * Take over a claim that an earlier daemon made, from what its STARTED said.
 * STARTED comes again if its agent still runs; else what is left of it is
 * killed and ENDED comes.  Before this, its node is as if it were not claimed:
 * adopt all in the turn of sched_create.  -1 as sched_claim, except EAGAIN:
 * a claim on a closed hole gets its NOTICE.
 */
struct sched_adoption {
	const char *id;
	const char *node;
	uid_t uid;
	pid_t pid; /* 0: STARTED never came */
	unsigned long long start_ticks;
};
int sched_adopt(
	struct sched *sched, const struct sched_adoption *claim, struct err *err);

/*
 * Node-seconds (real ones) that holes were open since sched_create, of one node
 * or, with NULL, of all.
 */
double sched_offered_s(const struct sched *sched, const char *node);

/* Wall time of the trace's beginning, to hand to sched_create after a restart. */
double sched_origin_s(const struct sched *sched);

/* One sentence for the log on how nodes are kept apart: "cgroup v1: ...". */
const char *sched_isolation(const struct sched *sched);

#endif
