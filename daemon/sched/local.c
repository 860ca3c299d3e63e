/*
 * local.c - nodes that are parts of this machine.
 *
 * A node is a name, a control group and at most one claim.  Its hole is opened
 * and closed by a backend (static: open for ever; trace: by the file).  This
 * module turns both into what sched.h promises: views, claims, notices, and the
 * account of what was offered.
 *
 * Closing a hole under a claim is the scheduler's reclaim: the agent gets
 * SIGTERM, NOTICE tells the deadline, and at the deadline everything is killed.
 * A hole that opens again while the old claim is still ending is not eligible
 * until that has ended ("claim_ending"): a node never has two owners.
 *
 * What is offered is the time that holes are open, whoever uses them.
 */
#include "daemon/sched/local.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/sched/launcher.h"

enum { NAME_MAX_BYTES = 64 };

struct local_node {
	const char *name; /* the set's */
	int open;
	int group;
	const char *reason; /* it is not */
	int ending;         /* its claim is */
	double open_since_s;
	double offered_s; /* by holes that are closed */
};

/* --- views ------------------------------------------------------------------ */

static void fill_view(struct local *local, size_t i)
{
	const struct local_node *node = &local->nodes[i];
	const char *reason = !node->open    ? node->reason
			     : node->ending ? "claim_ending"
					    : "";

	local->view[i] = (struct sched_node){
		.name = node->name,
		.eligible = !*reason,
		.reason = reason,
		.until_s = INFINITY,
		.deadline_s = launcher_deadline_s(local->launcher, node->name),
		.group = node->open ? node->group : 0,
	};
}

static void tell_view(void *arg)
{
	struct local *local = arg;
	struct sched_view view = {
		.quality = SCHED_FRESH,
		.t_s = loop_now_s(local->loop),
		.n_nodes = local->n_nodes,
		.nodes = local->view,
	};

	for (size_t i = 0; i < local->n_nodes; i++)
		fill_view(local, i);
	local->handlers.on_view(&view, local->arg);
}

/* Changes of one moment are one view: in the next turn, or by local_poll. */
static void changed(struct local *local)
{
	if (!loop_timer_pending(local->viewer))
		loop_timer_start(local->viewer, 0);
}

void local_poll(struct sched *sched)
{
	changed((struct local *)sched);
}

/* --- holes ------------------------------------------------------------------ */

void local_open(struct local *local, size_t i, int group)
{
	struct local_node *node = &local->nodes[i];

	node->group = group;
	if (!node->open) {
		node->open = 1;
		node->reason = "";
		node->open_since_s = loop_now_s(local->loop);
	}
	changed(local);
}

void local_close(struct local *local, size_t i, const char *reason)
{
	struct local_node *node = &local->nodes[i];
	const char *claim = launcher_claim(local->launcher, node->name);

	node->reason = reason;
	if (node->open) {
		node->open = 0;
		node->offered_s += loop_now_s(local->loop) - node->open_since_s;
		if (claim) {
			node->ending = 1;
			launcher_end(local->launcher, claim, 1, NULL);
		}
	}
	changed(local);
}

/* --- claims ----------------------------------------------------------------- */

static struct local_node *find(const struct local *local, const char *name)
{
	ssize_t i = nodeset_index(local->names, name);

	return i < 0 ? NULL : &local->nodes[i];
}

static void claim_event(const struct sched_claim *claim, void *arg)
{
	struct local *local = arg;
	struct local_node *node = find(local, claim->node);

	if (claim->event == SCHED_ENDED || claim->event == SCHED_FAILED) {
		node->ending = 0;
		changed(local);
	}
	local->handlers.on_claim(claim, local->arg);
}

int local_claim(struct sched *sched, const char *name, const char *id, uid_t uid,
	struct err *err)
{
	struct local *local = (struct local *)sched;
	const struct local_node *node = find(local, name);

	if (!node)
		return err_set(err, ENOENT, "node %.64s: there is none", name);
	if (launcher_claim(local->launcher, name))
		return err_set(err, EBUSY, "node %s: it is claimed", name);
	if (!node->open)
		return err_set(
			err, EAGAIN, "node %s: it is no hole: %s", name, node->reason);
	return launcher_start(local->launcher, name, id, uid, err);
}

int local_release(struct sched *sched, const char *id, struct err *err)
{
	struct local *local = (struct local *)sched;

	if (launcher_end(local->launcher, id, 0, err) < 0)
		return -1;
	for (size_t i = 0; i < local->n_nodes; i++) {
		const char *claim =
			launcher_claim(local->launcher, local->nodes[i].name);

		if (claim && !strcmp(claim, id))
			local->nodes[i].ending = 1;
	}
	changed(local);
	return 0;
}

int local_adopt(
	struct sched *sched, const struct sched_adoption *claim, struct err *err)
{
	struct local *local = (struct local *)sched;
	struct local_node *node = find(local, claim->node);

	if (!node)
		return err_set(err, ENOENT, "node %.64s: there is none", claim->node);
	if (launcher_adopt(local->launcher, claim, err) < 0)
		return -1;
	if (!node->open) {
		node->ending = 1;
		launcher_end(local->launcher, claim->id, 1, NULL);
	}
	changed(local);
	return 0;
}

/* --- accounts --------------------------------------------------------------- */

static double offered_by(const struct local *local, const struct local_node *node)
{
	double open_s = node->open ? loop_now_s(local->loop) - node->open_since_s : 0;

	return node->offered_s + open_s;
}

double local_offered_s(const struct sched *sched, const char *name)
{
	const struct local *local = (const struct local *)sched;
	const struct local_node *node;
	double sum = 0;

	if (name) {
		node = find(local, name);
		return node ? offered_by(local, node) : 0;
	}
	for (size_t i = 0; i < local->n_nodes; i++)
		sum += offered_by(local, &local->nodes[i]);
	return sum;
}

double local_origin_s(const struct sched *sched)
{
	return ((const struct local *)sched)->origin_s;
}

const char *local_isolation(const struct sched *sched)
{
	return launcher_isolation(((const struct local *)sched)->launcher);
}

/* --- the whole -------------------------------------------------------------- */

/* Names become directories: nothing that could lead elsewhere. */
static int name_ok(const char *name)
{
	size_t size = strlen(name);

	if (size < 1 || size > NAME_MAX_BYTES || *name == '.')
		return 0;
	for (; *name; name++)
		if (!isalnum((unsigned char)*name) && !strchr("._-", *name))
			return 0;
	return 1;
}

static int make_nodes(struct local *local, const char *expression, struct err *err)
{
	local->names = nodeset_parse(expression, err);
	if (!local->names)
		return err_prefix(err, "nodes");
	local->n_nodes = nodeset_count(local->names);
	if (local->n_nodes == 0)
		return err_set(err, EINVAL, "nodes: there are none");
	local->nodes = calloc(local->n_nodes, sizeof(*local->nodes));
	local->view = calloc(local->n_nodes, sizeof(*local->view));
	if (!local->nodes || !local->view)
		return err_set(err, ENOMEM, "nodes: out of memory");
	for (size_t i = 0; i < local->n_nodes; i++) {
		const char *name = nodeset_at(local->names, i);

		if (!name_ok(name))
			return err_set(err, EINVAL,
				"node \"%.80s\": 1 to %d letters, digits, "
				"., _ and -, not . first",
				name, NAME_MAX_BYTES);
		local->nodes[i].name = name;
		local->nodes[i].reason = "not_idle";
	}
	return 0;
}

int local_init(struct local *local, const struct sched_ops *ops, const char *expression,
	const struct sched_config *config, struct loop *loop,
	const struct sched_handlers *handlers, void *arg, struct err *err)
{
	memset(local, 0, sizeof(*local));
	local->sched.ops = ops;
	local->loop = loop;
	local->handlers = *handlers;
	local->arg = arg;
	local->origin_s = config->origin_s > 0 ? config->origin_s : loop_wall_s(loop);
	if (make_nodes(local, expression, err) < 0)
		goto fail;
	local->launcher = launcher_create(config, loop, claim_event, local, err);
	if (!local->launcher)
		goto fail;
	local->viewer = loop_timer_create(loop, tell_view, local);
	if (local->viewer) {
		changed(local);
		return 0;
	}
	err_set(err, ENOMEM, "nodes: out of memory");
fail:
	local_fini(local);
	return -1;
}

void local_fini(struct local *local)
{
	int saved = errno;

	launcher_destroy(local->launcher);
	loop_timer_destroy(local->viewer);
	free(local->view);
	free(local->nodes);
	nodeset_destroy(local->names);
	errno = saved;
}
