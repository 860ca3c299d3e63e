/* launcher.h - agents on this machine, one for each claimed node. */
#ifndef DAEMON_SCHED_LAUNCHER_H
#define DAEMON_SCHED_LAUNCHER_H

#include "daemon/sched/sched.h"

struct launcher;

/* Claims' events, as in sched.h; never inside a call of ours. */
typedef void (*launcher_f)(const struct sched_claim *claim, void *arg);

/* Takes grace_s, node_cpus, agent, run_dir, socket, instance and env of the
 * configuration, copied.  NULL: EINVAL, ENOMEM. */
struct launcher *launcher_create(const struct sched_config *config, struct loop *loop,
	launcher_f on_event, void *arg, struct err *err);

/* Agents go on. */
void launcher_destroy(struct launcher *launcher);

/* As sched_claim and sched_adopt; the caller knows that the node exists. */
int launcher_start(struct launcher *launcher, const char *node, const char *id,
	uid_t uid, struct err *err);
int launcher_adopt(
	struct launcher *launcher, const struct sched_adoption *claim, struct err *err);

/* SIGTERM now, a kill after the grace.  notice: NOTICE is told.  -1: ENOENT. */
int launcher_end(
	struct launcher *launcher, const char *id, int notice, struct err *err);

/* The claim on a node, NULL when there is none.  Borrowed. */
const char *launcher_claim(const struct launcher *launcher, const char *node);

/* When the claim on it will be killed; INFINITY when nobody wants it. */
double launcher_deadline_s(const struct launcher *launcher, const char *node);

const char *launcher_isolation(const struct launcher *launcher);

#endif
