/* ending.h - the processes of a world on this node, from running to none. */
#ifndef AGENT_ENDING_H
#define AGENT_ENDING_H

#include "agent/agent.h"

/* Make the part's timer.  -1: ENOMEM. */
int ending_init(struct part *part);

/*
 * What was started here has ended: what it left behind gets a moment to end too,
 * is then told to, then killed.  Safe to repeat.
 */
void ending_by_itself(struct part *part);

/* A worker failed: the others have nothing to wait for. */
void ending_failed(struct part *part);

/*
 * Ordered: SIGTERM now, SIGKILL after grace_s (0: now).  Repeated, the sooner
 * SIGKILL counts.
 */
void ending_ordered(struct part *part, double grace_s);

/* It cannot go on: ended, and reported with this code and reason. */
void ending_broken(struct part *part, int code, const char *reason);

#endif
