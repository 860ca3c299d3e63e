/* order.h - what the daemon tells agents, one function a message. */
#ifndef DAEMON_ORDER_H
#define DAEMON_ORDER_H

#include "daemon/job.h"

/*
 * Each sends to every member of the world that is connected and has not
 * exited; one whose agent is away for the moment learns the world's fate when
 * it comes back (h_agent.c) or is declared lost.
 */
void order_world_start(struct world *world);
void order_world_go(struct world *world, const struct job_copy *copy, const char *address);
void order_world_propose(
	struct world *world, int proposal, long long step, const char *verdict);
void order_world_commit(struct world *world, int proposal);
void order_world_withdraw(struct world *world, int proposal);
void order_world_kill(struct world *world, double grace_s);

/* To one member, whose agent may have missed it. */
void order_member_go(const struct world *world, const struct member *member,
	const struct job_copy *copy, const char *address);
void order_member_commit(
	const struct world *world, const struct member *member, int proposal);

/* To one node. */
void order_kill_unknown(
	struct node *node, const char *job, long long generation, double grace_s);
void order_node_release(struct node *node, const struct pool *pool,
	const struct jobs *jobs, double grace_s, const char *reason);

/* To every node of the pool that has an agent. */
void order_state_drop(const struct pool *pool, const struct job *job);

#endif
