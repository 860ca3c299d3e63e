/* leave.h - how the agent gives its node back. */
#ifndef AGENT_LEAVE_H
#define AGENT_LEAVE_H

#include "agent/agent.h"
#include "agent/health.h"

struct leave;

/* Watches SIGTERM and SIGINT from now on.  NULL: ENOMEM. */
struct leave *leave_create(struct agent *agent, struct err *err);
void leave_destroy(struct leave *leave);

/* The daemon's order: spool these jobs' states, end everything, go. */
void leave_ordered(struct leave *leave, const struct msg *release);

/* Nobody orders any more: end everything, exit with this code. */
void leave_alone(struct leave *leave, int exit_code);

/* What it waits for may have come true. */
void leave_part_gone(struct leave *leave);
void leave_spooled(struct leave *leave, const char *job, int ok);
void leave_daemon_there(struct leave *leave);
void leave_daemon_gone(struct leave *leave);

/* Non-zero: everything is being ended, nothing new may begin. */
int leave_is_on(const struct leave *leave);

/* SIGKILL was sent to this process; counted once. */
void leave_count_killed(struct leave *leave, const struct health_proc *proc);

#endif
