/* serve.h - a state to the agent of another node. */
#ifndef AGENT_SERVE_H
#define AGENT_SERVE_H

#include "agent/agent.h"
#include "agent/store.h"

struct serve;

/* Send the state on this link, as answer to the request id.  NULL: errno. */
struct serve *serve_start(struct agent *agent, struct link *link, uint32_t id,
	const char *job, const struct store_entry *state, struct err *err);

/* NULL is fine. */
void serve_cancel(struct serve *serve);

#endif
