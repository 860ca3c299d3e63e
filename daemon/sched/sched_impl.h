/* sched_impl.h - what is behind a struct sched; for backends only. */
#ifndef DAEMON_SCHED_SCHED_IMPL_H
#define DAEMON_SCHED_SCHED_IMPL_H

#include "daemon/sched/sched.h"

/* The functions of sched.h, for one backend. */
struct sched_ops {
	const char *name;
	struct sched *(*create)(const struct sched_config *config, struct loop *loop,
		const struct sched_handlers *handlers, void *arg, struct err *err);
	void (*destroy)(struct sched *sched);
	void (*poll)(struct sched *sched);
	int (*claim)(struct sched *sched, const char *node, const char *id, uid_t uid,
		struct err *err);
	int (*release)(struct sched *sched, const char *id, struct err *err);
	int (*adopt)(struct sched *sched, const struct sched_adoption *claim,
		struct err *err);
	double (*offered_s)(const struct sched *sched, const char *node);
	double (*origin_s)(const struct sched *sched);
	const char *(*isolation)(const struct sched *sched);
};

/* A backend embeds this as its first member. */
struct sched {
	const struct sched_ops *ops;
};

extern const struct sched_ops sched_static_ops;
extern const struct sched_ops sched_trace_ops;

#endif
