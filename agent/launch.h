/* launch.h - the processes of a world on this node, from nothing to running. */
#ifndef AGENT_LAUNCH_H
#define AGENT_LAUNCH_H

#include "agent/agent.h"
#include "agent/environ.h"

/*
 * Make the part's directories and pipes and start what this node has to start:
 * the workers, or mpirun, or nothing yet.  *pid: of the launcher, or 0.
 * -1: errno of mkdir, pipe or fork, ENOMEM; what was started is the part's.
 */
int launch_start(struct part *part, pid_t *pid, struct err *err);

/* Remove the directories that launch_start made. */
void launch_clean(struct part *part);

/* The environment of anything that runs for the part here: environ_fini. */
void launch_environ(const struct part *part, struct environ_list *list);

#endif
