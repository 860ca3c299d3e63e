/* rsh.h - remote starts: those we ask for, and those that run here. */
#ifndef AGENT_RSH_H
#define AGENT_RSH_H

#include "agent/agent.h"

struct rsh;

struct rsh *rsh_create(struct agent *agent, struct err *err);
void rsh_destroy(struct rsh *rsh);

/* malle-rsh on this node asks; its link is handled here from now on. */
void rsh_request(struct rsh *rsh, struct link *link, const struct msg *msg);
void rsh_link_gone(struct rsh *rsh, struct link *link);

/* The daemon about our requests: ok, refuse, rsh.exited; id is the request's. */
void rsh_answered(struct rsh *rsh, const struct msg *msg);

/* The daemon about what is to run here, and to end. */
void rsh_start(struct rsh *rsh, const struct msg *msg);
void rsh_hangup(struct rsh *rsh, const struct msg *msg);

/* Requests without an answer fail; what runs goes on. */
void rsh_daemon_gone(struct rsh *rsh);

/* The part is freed: its sessions have ended, its requests are forgotten. */
void rsh_forget_part(struct rsh *rsh, const struct part *part);

#endif
