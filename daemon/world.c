/*
 * world.c - one generation of a job.
 *
 * A world is named by the daemon alone: its number, its nodes, their order,
 * which is the order of ranks.  It is made when its start is decided and lives
 * until every member has said that no process of it is left, or is lost; only
 * then are its nodes free (a node never has two owners, and leaving a world is
 * not the same as being clean).
 */
#include "daemon/world.h"

#include <stdlib.h>

#include "daemon/job.h"
#include "daemon/pool.h"

struct world *world_create(
	struct job *job, long long generation, struct node *const *nodes, size_t n_nodes)
{
	struct world *world = calloc(1, sizeof(*world));

	if (!world)
		return NULL;
	world->members = calloc(n_nodes, sizeof(*world->members));
	if (!world->members) {
		free(world);
		return NULL;
	}
	world->job = job;
	world->generation = generation;
	world->phase = WORLD_STARTING;
	world->n_members = n_nodes;
	for (size_t i = 0; i < n_nodes; i++) {
		world->members[i].node = nodes[i];
		node_take(nodes[i], job);
	}
	world->next = job->worlds;
	job->worlds = world;
	return world;
}

void world_unlink(struct world *world)
{
	for (size_t i = 0; i < world->n_members; i++)
		world_member_exited(&world->members[i]);
	for (struct world **at = &world->job->worlds; *at; at = &(*at)->next)
		if (*at == world) {
			*at = world->next;
			break;
		}
	if (world->job->current == world)
		world->job->current = NULL;
	world->next = NULL;
	world->buried = 1;
}

void world_destroy(struct world *world)
{
	if (!world)
		return;
	if (!world->buried)
		world_unlink(world);
	free(world->members);
	free(world);
}

struct member *world_member(struct world *world, const struct node *node)
{
	for (size_t i = 0; i < world->n_members; i++)
		if (world->members[i].node == node)
			return &world->members[i];
	return NULL;
}

void world_member_exited(struct member *member)
{
	if (member->exited)
		return;
	member->exited = 1;
	node_leave(member->node);
}

int world_all_ready(const struct world *world, int nproc)
{
	for (size_t i = 0; i < world->n_members; i++)
		if (world->members[i].ready < nproc)
			return 0;
	return 1;
}

int world_any_ready(const struct world *world)
{
	for (size_t i = 0; i < world->n_members; i++)
		if (world->members[i].ready > 0)
			return 1;
	return 0;
}

int world_all_left(const struct world *world)
{
	for (size_t i = 0; i < world->n_members; i++)
		if (!world->members[i].left)
			return 0;
	return 1;
}

int world_all_exited(const struct world *world)
{
	for (size_t i = 0; i < world->n_members; i++)
		if (!world->members[i].exited)
			return 0;
	return 1;
}
