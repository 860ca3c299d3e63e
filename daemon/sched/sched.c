/*
 * sched.c - the backends there are, by name.
 */
#include "daemon/sched/sched.h"

#include <errno.h>
#include <string.h>

#include "daemon/sched/sched_impl.h"

static const struct sched_ops *const backends[] = {
	&sched_static_ops,
	&sched_trace_ops,
};

struct sched *sched_create(const struct sched_config *config, struct loop *loop,
	const struct sched_handlers *handlers, void *arg, struct err *err)
{
	const char *name = config->backend ? config->backend : "";

	for (size_t i = 0; i < sizeof(backends) / sizeof(backends[0]); i++)
		if (!strcmp(backends[i]->name, name))
			return backends[i]->create(config, loop, handlers, arg, err);
	err_set(err, EINVAL, "backend \"%.60s\": it is none of static, trace", name);
	return NULL;
}

void sched_destroy(struct sched *sched)
{
	if (sched)
		sched->ops->destroy(sched);
}

void sched_poll(struct sched *sched)
{
	sched->ops->poll(sched);
}

int sched_claim(struct sched *sched, const char *node, const char *id, uid_t uid,
	struct err *err)
{
	return sched->ops->claim(sched, node, id, uid, err);
}

int sched_release(struct sched *sched, const char *id, struct err *err)
{
	return sched->ops->release(sched, id, err);
}

int sched_adopt(
	struct sched *sched, const struct sched_adoption *claim, struct err *err)
{
	return sched->ops->adopt(sched, claim, err);
}

double sched_offered_s(const struct sched *sched, const char *node)
{
	return sched->ops->offered_s(sched, node);
}

double sched_origin_s(const struct sched *sched)
{
	return sched->ops->origin_s(sched);
}

const char *sched_isolation(const struct sched *sched)
{
	return sched->ops->isolation(sched);
}
