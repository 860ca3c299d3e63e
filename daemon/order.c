/*
 * order.c - what the daemon tells agents.
 *
 * Only here are messages to agents put together.  Sending never fails in a way
 * that the caller could act on: a link that breaks is noticed by its own
 * callback, and all state of worlds is decided by what agents answer.
 */
#include "daemon/order.h"

#include <string.h>

#include "proto/link.h"

typedef json_t *(*body_f)(const struct world *world, const void *arg);

static void tell_member(const struct world *world, const struct member *member,
	enum msg_type type, body_f body, const void *arg)
{
	if (!member->exited && member->node->link)
		link_send(member->node->link, type, 0, body(world, arg));
}

static void tell_members(
	struct world *world, enum msg_type type, body_f body, const void *arg)
{
	for (size_t i = 0; i < world->n_members; i++)
		tell_member(world, &world->members[i], type, body, arg);
}

static json_t *strv_json(char *const *strv)
{
	json_t *list = json_array();

	for (; *strv; strv++)
		json_array_append_new(list, json_string(*strv));
	return list;
}

static json_t *start_body(const struct world *world, const void *arg)
{
	const struct job *job = world->job;
	const struct job_request *request = &job->request;
	json_t *nodes = json_array();

	for (size_t i = 0; i < world->n_members; i++)
		json_array_append_new(nodes, json_string(world->members[i].node->name));
	return json_pack("{s:s, s:I, s:o, s:i, s:i, s:s, s:s, s:o, s:o, s:s, s:i, s:i, s:s*, s:s}",
		"job", job->id, "generation", (json_int_t)world->generation, "world_nodes",
		nodes, "nproc", request->nproc, "restarts", job->failures, "launcher",
		request->launcher, "mode", request->mode, "argv", strv_json(request->argv),
		"env", strv_json(request->env), "cwd", request->cwd, "min_nodes",
		request->min_nodes, "max_nodes", request->max_nodes, "output",
		request->output, "spool", request->spool);
}

void order_world_start(struct world *world)
{
	tell_members(world, MSG_WORLD_START, start_body, NULL);
}

struct go {
	const struct job_copy *copy;
	const char *address;
};

static json_t *go_body(const struct world *world, const void *arg)
{
	const struct go *go = arg;
	json_t *body = json_pack("{s:s, s:I}", "job", world->job->id, "generation",
		(json_int_t)world->generation);

	if (!go->copy)
		return body;
	json_object_set_new(body, "state_step", json_integer(go->copy->step));
	if (go->copy->node[0])
		json_object_set_new(body, "state_node", json_string(go->copy->node));
	if (go->address)
		json_object_set_new(body, "state_address", json_string(go->address));
	return body;
}

void order_world_go(struct world *world, const struct job_copy *copy, const char *address)
{
	struct go go = { copy, address };

	tell_members(world, MSG_WORLD_GO, go_body, &go);
}

void order_member_go(const struct world *world, const struct member *member,
	const struct job_copy *copy, const char *address)
{
	struct go go = { copy, address };

	tell_member(world, member, MSG_WORLD_GO, go_body, &go);
}

struct proposal {
	int number;
	long long step;
	const char *verdict;
};

static json_t *propose_body(const struct world *world, const void *arg)
{
	const struct proposal *proposal = arg;

	return json_pack("{s:s, s:I, s:i, s:I, s:s}", "job", world->job->id, "generation",
		(json_int_t)world->generation, "proposal", proposal->number, "step",
		(json_int_t)proposal->step, "verdict", proposal->verdict);
}

void order_world_propose(
	struct world *world, int proposal, long long step, const char *verdict)
{
	struct proposal what = { proposal, step, verdict };

	tell_members(world, MSG_WORLD_PROPOSE, propose_body, &what);
}

static json_t *number_body(const struct world *world, const void *arg)
{
	return json_pack("{s:s, s:I, s:i}", "job", world->job->id, "generation",
		(json_int_t)world->generation, "proposal", *(const int *)arg);
}

void order_world_commit(struct world *world, int proposal)
{
	tell_members(world, MSG_WORLD_COMMIT, number_body, &proposal);
}

void order_member_commit(
	const struct world *world, const struct member *member, int proposal)
{
	tell_member(world, member, MSG_WORLD_COMMIT, number_body, &proposal);
}

void order_world_withdraw(struct world *world, int proposal)
{
	tell_members(world, MSG_WORLD_WITHDRAW, number_body, &proposal);
}

static json_t *kill_body(const char *job, long long generation, double grace_s)
{
	return json_pack("{s:s, s:I, s:f}", "job", job, "generation", (json_int_t)generation,
		"grace_s", grace_s);
}

void order_world_kill(struct world *world, double grace_s)
{
	for (size_t i = 0; i < world->n_members; i++) {
		struct member *member = &world->members[i];

		if (!member->exited && member->node->link)
			link_send(member->node->link, MSG_WORLD_KILL, 0,
				kill_body(world->job->id, world->generation, grace_s));
	}
}

void order_kill_unknown(
	struct node *node, const char *job, long long generation, double grace_s)
{
	if (node->link)
		link_send(node->link, MSG_WORLD_KILL, 0, kill_body(job, generation, grace_s));
}

/* The spool, or a node that is not about to go as well. */
static int holder_stays(const struct pool *pool, const struct job_copy *copy)
{
	const struct node *holder = pool_find(pool, copy->node);

	return !copy->node[0] || (holder && node_is_usable(holder));
}

/* Jobs whose newest state lies on this node and on no other that stays. */
static json_t *states_only_here(
	const struct node *node, const struct pool *pool, const struct jobs *jobs)
{
	json_t *list = json_array();

	for (size_t i = 0; i < jobs_count(jobs); i++) {
		const struct job *job = jobs_at(jobs, i);
		const struct job_copy *newest = job_copy_newest(job, NULL);
		int here = 0, elsewhere = 0;

		if (job->state == JOB_ENDED || !newest)
			continue;
		for (size_t k = 0; k < job->n_copies; k++) {
			if (job->copies[k].step < newest->step)
				continue;
			if (!strcmp(job->copies[k].node, node->name))
				here = 1;
			else if (holder_stays(pool, &job->copies[k]))
				elsewhere = 1;
		}
		if (here && !elsewhere)
			json_array_append_new(list, json_string(job->id));
	}
	return list;
}

void order_node_release(struct node *node, const struct pool *pool,
	const struct jobs *jobs, double grace_s, const char *reason)
{
	if (!node->link || node->releasing)
		return;
	node->releasing = 1;
	link_send(node->link, MSG_NODE_RELEASE, 0,
		json_pack("{s:f, s:s, s:o}", "grace_s", grace_s > 0 ? grace_s : 0.0, "reason",
			reason, "spool", states_only_here(node, pool, jobs)));
}

void order_state_drop(const struct pool *pool, const struct job *job)
{
	/* A state that somebody may want is kept; one agent removes what nobody does. */
	const char *spool = job->exit_code == 0 ? job->request.spool : NULL;

	for (size_t i = 0; i < pool_count(pool); i++) {
		struct node *node = pool_at(pool, i);

		if (!node->link)
			continue;
		link_send(node->link, MSG_STATE_DROP, 0,
			json_pack("{s:s, s:s*}", "job", job->id, "spool", spool));
		spool = NULL;
	}
}
