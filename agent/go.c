/*
 * go.c - the moment at which a world begins to train.
 *
 * world.go names the state to continue: a step, and who holds it.  Only rank 0
 * loads it; the others get it from rank 0, so they may go at once.  Where the state
 * is, in this order: here (every node of the world before saved the same at the
 * same step); with the agent that the daemon names, from where it is fetched into
 * our memory; in the job's spool, from where the worker reads it itself.
 *
 * If rank 0 cannot have its state the world cannot begin: its part here is
 * ended with code 70, and the daemon tries again with another copy.
 */
#include "agent/go.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/ending.h"
#include "agent/fetch.h"
#include "agent/store.h"
#include "proto/log.h"

static void tell(struct part *part, struct part_worker *worker)
{
	json_t *body = json_pack("{s:b}", "resume", part->resume);

	if (body && worker->rank == 0 && part->state_path)
		json_object_set_new(body, "state", json_string(part->state_path));
	worker->told_go = 1;
	link_send(worker->link, MSG_WORKER_GO, 0, body);
}

void go_tell(struct part *part)
{
	if (!part->go)
		return;
	for (struct part_worker *w = part->workers; w; w = w->next)
		if (w->link && w->ready && !w->told_go &&
			!(w->rank == 0 && part->state_waits))
			tell(part, w);
}

static void found(struct part *part, const char *path)
{
	part->state_path = strdup(path);
	part->state_waits = 0;
	if (!part->state_path)
		ending_broken(part, EXIT_INTERNAL, "state: out of memory");
}

static void fetched(const char *path, const char *why, void *arg)
{
	struct part *part = arg;

	part->fetch = NULL;
	if (!path) {
		ending_broken(part, EXIT_INTERNAL, why);
		return;
	}
	log_info("go", "job %s: state of step %lld is fetched", part->job,
		part->state_step);
	found(part, path);
	go_tell(part);
}

static void fetch_from(struct part *part, const char *address)
{
	struct err err;

	if (!address) {
		ending_broken(
			part, EXIT_INTERNAL, "the node with the state has no address");
		return;
	}
	part->fetch = fetch_start(part->agent, address, part->job, part->generation,
		part->state_step, fetched, part, &err);
	if (!part->fetch)
		ending_broken(part, EXIT_INTERNAL, err.text);
}

static void find_state(struct part *part, const struct msg *go)
{
	const struct store_entry *here =
		store_find(part->agent->store, part->job, part->state_step);
	const char *node = msg_str(go, "state_node");
	char path[4200];

	part->state_waits = 1;
	if (here) {
		found(part, here->path);
	} else if (!node) {
		snprintf(path, sizeof(path), "%s/state", part->spool);
		found(part, path);
	} else if (strcmp(node, part->agent->config->node) == 0) {
		ending_broken(
			part, EXIT_INTERNAL, "the state is not on this node any more");
	} else {
		fetch_from(part, msg_str(go, "state_address"));
	}
}

void go_ordered(struct part *part, const struct msg *go)
{
	if (part->go || part->phase >= PART_LEFT)
		return;
	part->go = 1;
	part_event(part, PART_GO);
	part->resume = msg_has(go, "state_step");
	part->state_step = part->resume ? msg_int(go, "state_step") : -1;
	store_rewind(part->agent->store, part->job, part->state_step);
	if (part->resume && part_is_head(part))
		find_state(part, go);
	go_tell(part);
}
