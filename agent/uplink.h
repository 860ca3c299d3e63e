/* uplink.h - the agent's connection to mallectld. */
#ifndef AGENT_UPLINK_H
#define AGENT_UPLINK_H

#include "agent/agent.h"

struct uplink;

/* Begins to connect at once, and again whenever the connection breaks. */
struct uplink *uplink_create(struct agent *agent, struct err *err);
void uplink_destroy(struct uplink *uplink);

/* The link while the daemon knows us, else NULL.  Do not keep it. */
struct link *uplink_link(const struct uplink *uplink);

/* Send, if the daemon is there; body_take is consumed in any case.  -1: it is not. */
int uplink_send(struct uplink *uplink, enum msg_type type, json_t *body_take);

/* Bytes on their way to the daemon. */
size_t uplink_queued(const struct uplink *uplink);

#endif
