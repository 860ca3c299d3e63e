/* local.h - nodes that are parts of this machine, whoever opens their holes. */
#ifndef DAEMON_SCHED_LOCAL_H
#define DAEMON_SCHED_LOCAL_H

#include "daemon/sched/sched_impl.h"
#include "proto/nodeset.h"

struct local_node;
struct launcher;

/* Backends static and trace embed it as their first member. */
struct local {
	struct sched sched;
	struct loop *loop;
	struct sched_handlers handlers;
	void *arg;
	struct nodeset *names;
	struct local_node *nodes; /* one for each of the names, in their order */
	size_t n_nodes;
	struct sched_node *view; /* room for n_nodes */
	struct launcher *launcher;
	struct loop_timer *viewer;
	double origin_s;
};

/* Node names are given as an expression.  -1 with everything undone. */
int local_init(struct local *local, const struct sched_ops *ops, const char *expression,
	const struct sched_config *config, struct loop *loop,
	const struct sched_handlers *handlers, void *arg, struct err *err);
void local_fini(struct local *local); /* errno is kept */

/*
 * A hole begins on node i, or goes on in another group.  It ends, for a reason
 * (not copied): a claim on it gets its notice.
 */
void local_open(struct local *local, size_t i, int group);
void local_close(struct local *local, size_t i, const char *reason);

/* Of struct sched_ops. */
void local_poll(struct sched *sched);
int local_claim(struct sched *sched, const char *node, const char *id, uid_t uid,
	struct err *err);
int local_release(struct sched *sched, const char *id, struct err *err);
int local_adopt(
	struct sched *sched, const struct sched_adoption *claim, struct err *err);
double local_offered_s(const struct sched *sched, const char *node);
double local_origin_s(const struct sched *sched);
const char *local_isolation(const struct sched *sched);

#endif
