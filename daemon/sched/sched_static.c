/*
 * sched_static.c - fixed nodes of this machine that are always ours.
 *
 * For development, and for whoever has a machine to themselves: every node is
 * an open hole from the start to the end, and nobody ever wants one back.
 */
#include <errno.h>
#include <stdlib.h>

#include "daemon/sched/local.h"

static struct sched *static_create(const struct sched_config *config, struct loop *loop,
	const struct sched_handlers *handlers, void *arg, struct err *err)
{
	struct local *local = malloc(sizeof(*local));

	if (!local) {
		err_set(err, ENOMEM, "backend static: out of memory");
		return NULL;
	}
	if (local_init(local, &sched_static_ops, config->nodes, config, loop, handlers,
		    arg, err) < 0) {
		int saved = errno;

		free(local);
		errno = saved;
		return NULL;
	}
	for (size_t i = 0; i < local->n_nodes; i++)
		local_open(local, i, 0);
	return &local->sched;
}

static void static_destroy(struct sched *sched)
{
	struct local *local = (struct local *)sched;

	local_fini(local);
	free(local);
}

const struct sched_ops sched_static_ops = {
	.name = "static",
	.create = static_create,
	.destroy = static_destroy,
	.poll = local_poll,
	.claim = local_claim,
	.release = local_release,
	.adopt = local_adopt,
	.offered_s = local_offered_s,
	.origin_s = local_origin_s,
	.isolation = local_isolation,
};
