/*
 * pool.c - the nodes.
 *
 * A node's state is not set, it follows: from what the scheduler's view says
 * (eligible), from the claim (is one out), from the agent (is it connected, has
 * it told all), from the owner (worlds with processes on it) and from the
 * deadline.  pool_settle derives it and is called after any of these changed,
 * so no two of them can disagree.
 *
 *   eligible  claim  agent  told  due   worlds  ->  state
 *   no        no     -      -     -     -           away
 *   yes       no     -      -     -     -           hole
 *   -         yes    no     -     -     0           claiming, or lost (1)
 *   -         yes    no     -     -     > 0         lost
 *   -         yes    yes    no    -     -           claiming
 *   -         yes    yes    yes   yes   -           leaving
 *   -         yes    yes    yes   no    0           idle
 *   -         yes    yes    yes   no    > 0         assigned
 *
 *   (1) lost, when it has been there and went away: `came`, which only the end of
 *       the claim resets
 */
#include "daemon/pool.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "proto/log.h"

struct pool {
	struct node **nodes;
	size_t n_nodes;
};

static const char *const state_names[] = {
	[NODE_UNSET] = "unset",
	[NODE_AWAY] = "away",
	[NODE_HOLE] = "hole",
	[NODE_CLAIMING] = "claiming",
	[NODE_IDLE] = "idle",
	[NODE_ASSIGNED] = "assigned",
	[NODE_LEAVING] = "leaving",
	[NODE_LOST] = "lost",
};

const char *node_state_name(enum node_state state)
{
	return state_names[state];
}

struct pool *pool_create(void)
{
	return calloc(1, sizeof(struct pool));
}

void pool_destroy(struct pool *pool)
{
	if (!pool)
		return;
	for (size_t i = 0; i < pool->n_nodes; i++) {
		free(pool->nodes[i]->address);
		free(pool->nodes[i]);
	}
	free(pool->nodes);
	free(pool);
}

struct node *pool_find(const struct pool *pool, const char *name)
{
	for (size_t i = 0; i < pool->n_nodes; i++)
		if (!strcmp(pool->nodes[i]->name, name))
			return pool->nodes[i];
	return NULL;
}

struct node *pool_find_claim(const struct pool *pool, const char *claim)
{
	if (!claim[0])
		return NULL;
	for (size_t i = 0; i < pool->n_nodes; i++)
		if (!strcmp(pool->nodes[i]->claim, claim))
			return pool->nodes[i];
	return NULL;
}

static struct node *node_create(const char *name)
{
	struct node *node = calloc(1, sizeof(*node));

	if (!node)
		return NULL;
	memcpy(node->name, name, strlen(name) + 1);
	node->state = NODE_AWAY;
	node->until_s = INFINITY;
	node->due_s = INFINITY;
	return node;
}

struct node *pool_node(struct pool *pool, const char *name)
{
	struct node *node = pool_find(pool, name);
	struct node **grown;
	size_t i;

	if (node)
		return node;
	if (strlen(name) >= NODE_NAME_SIZE) {
		errno = ENAMETOOLONG;
		return NULL;
	}
	grown = realloc(pool->nodes, (pool->n_nodes + 1) * sizeof(*grown));
	if (!grown)
		return NULL;
	pool->nodes = grown;
	node = node_create(name);
	if (!node)
		return NULL;
	for (i = pool->n_nodes; i > 0 && strverscmp(grown[i - 1]->name, name) > 0; i--)
		grown[i] = grown[i - 1];
	grown[i] = node;
	pool->n_nodes++;
	return node;
}

size_t pool_count(const struct pool *pool)
{
	return pool->n_nodes;
}

struct node *pool_at(const struct pool *pool, size_t i)
{
	return pool->nodes[i];
}

static enum node_state derive(const struct node *node)
{
	if (!node->claim[0])
		return node->eligible ? NODE_HOLE : NODE_AWAY;
	if (!node->link)
		return node->worlds > 0 || node->came ? NODE_LOST : NODE_CLAIMING;
	if (!node->told)
		return NODE_CLAIMING;
	if (isfinite(node->due_s))
		return NODE_LEAVING;
	return node->worlds + node->strangers > 0 ? NODE_ASSIGNED : NODE_IDLE;
}

int pool_settle(struct pool *pool, struct node *node)
{
	enum node_state state = derive(node);

	(void)pool;
	if (state == node->state)
		return 0;
	log_debug("pool", "node %s: %s -> %s", node->name, node_state_name(node->state),
		node_state_name(state));
	node->state = state;
	return 1;
}

void node_take(struct node *node, struct job *job)
{
	node->job = job;
	node->worlds++;
}

void node_leave(struct node *node)
{
	if (node->worlds > 0 && --node->worlds == 0)
		node->job = NULL;
}

int node_is_usable(const struct node *node)
{
	return node->link && node->told && !isfinite(node->due_s) && !node->releasing;
}

int node_is_free(const struct node *node)
{
	return node_is_usable(node) && !node->job && node->strangers == 0;
}

void node_forget_claim(struct node *node)
{
	node->claim[0] = '\0';
	node->link = NULL;
	free(node->address);
	node->address = NULL;
	node->agent_pid = 0;
	node->told = 0;
	node->came = 0;
	node->releasing = 0;
	node->strangers = 0;
	node->due_s = INFINITY;
}
