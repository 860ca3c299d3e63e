/* restore.h - the daemon of before, rebuilt from its journal. */
#ifndef DAEMON_RESTORE_H
#define DAEMON_RESTORE_H

#include "daemon/ctld.h"

/* What the journal knows beside jobs and worlds. */
struct restored {
	double origin_wall_s; /* of the trace; 0: never started */
	char instance[33];    /* name that the cgroups carry; "" */
	double offered_node_s, used_node_s, node_s, probe_node_s;
};

/*
 * Read the journal into ctld's jobs and pool: jobs that have not ended, their
 * worlds that were not gone, claims that were open.  Nothing is sent.
 */
int restore_read(struct ctld *ctld, struct restored *restored, struct err *err);

/* The time to come back is over: what has not is lost, what has goes on. */
void restore_finish(struct ctld *ctld);

#endif
