/* status.h - what is going on, as JSON: one source for every view. */
#ifndef DAEMON_STATUS_H
#define DAEMON_STATUS_H

#include "daemon/ctld.h"

/*
 * what: summary, jobs, job, nodes or node; id for job and node ("" or NULL
 * else).  only: show only jobs of this user; (uid_t)-1: all.  Owned by the
 * caller.  NULL with EINVAL for an unknown view or id, EACCES for the job of another.
 */
json_t *status_json(struct ctld *ctld, const char *what, const char *id, uid_t only,
	struct err *err);

/* "ok", "adopting" (after a restart) or "degraded" (the scheduler is away). */
const char *status_daemon_state(const struct ctld *ctld);

#endif
