/* cpus.h - how much of this node's processors the agent may use. */
#ifndef AGENT_CPUS_H
#define AGENT_CPUS_H

/*
 * Processors by affinity, less where the cgroup (its directory, or NULL) has a
 * quota: 0.25 is a quarter of one.
 */
double cpus_usable(const char *cgroup);

#endif
