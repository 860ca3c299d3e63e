/* h_daemon.h - what the daemon orders. */
#ifndef AGENT_H_DAEMON_H
#define AGENT_H_DAEMON_H

#include "agent/agent.h"

/* A message of a daemon that knows us. */
void h_daemon_msg(struct agent *agent, struct link *link, const struct msg *msg);

#endif
