/* fetch.h - a state from the agent of another node. */
#ifndef AGENT_FETCH_H
#define AGENT_FETCH_H

#include "agent/agent.h"

struct fetch;

/* Called once.  path: where it lies now; NULL: it failed, why says it. */
typedef void (*fetch_f)(const char *path, const char *why, void *arg);

/*
 * Get the job's state of this step from the agent at `address` into the store.
 * The result is freed before `done` is called.  NULL: it could not begin.
 */
struct fetch *fetch_start(struct agent *agent, const char *address, const char *job,
	long long generation, long long step, fetch_f done, void *arg, struct err *err);

/* No call comes any more; what came so far is removed.  NULL is fine. */
void fetch_cancel(struct fetch *fetch);

#endif
