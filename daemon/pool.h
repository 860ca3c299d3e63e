/* pool.h - the nodes: which are there, whose they are, until when. */
#ifndef DAEMON_POOL_H
#define DAEMON_POOL_H

#include <stddef.h>
#include <sys/types.h>

#include "proto/err.h"

struct job;
struct link;

enum node_state {
	NODE_UNSET = 0,
	NODE_AWAY,     /* the scheduler has it */
	NODE_HOLE,     /* idle in the scheduler's view, not claimed */
	NODE_CLAIMING, /* a claim is out, its agent has not said all yet */
	NODE_IDLE,     /* an agent is there, no world is on it */
	NODE_ASSIGNED, /* worlds of one job are on it */
	NODE_LEAVING,  /* wanted back: a deadline runs */
	NODE_LOST,     /* the agent is gone without a last word */
};

#define NODE_NAME_SIZE 65
#define CLAIM_ID_SIZE 65

struct node {
	char name[NODE_NAME_SIZE];
	enum node_state state;
	int eligible;        /* the scheduler's view: usable now */
	char reason[64];     /* the name of the rule that says no; "" */
	double until_s;      /* expected end of the hole, monotonic; INFINITY */
	int group;           /* nodes that came together share it */

	char claim[CLAIM_ID_SIZE]; /* "" without one */
	double claim_after_s; /* monotonic: no new claim before */
	double claimed_at_s; /* monotonic: its agent should come within a time of it */
	struct link *link;   /* of the agent; NULL while it is away */
	char *address;       /* where its states can be fetched */
	double cpus;
	pid_t agent_pid;
	unsigned long long agent_ticks; /* its start, /proc/PID/stat field 22 */
	int came;            /* its agent has told all, at least once */
	int barren;          /* claims in a row whose agent never came */
	int told;            /* the agent has said everything it holds */

	struct job *job;     /* owner: never two */
	int worlds;          /* of the owner that have processes on it */
	int strangers;       /* worlds that nobody wants, being ended */
	double due_s;        /* must be clean by then, monotonic; INFINITY */
	int releasing;       /* node.release was sent */
};

struct pool;

struct pool *pool_create(void);
void pool_destroy(struct pool *pool);

/* The node of this name, made (as AWAY) when it is new.  NULL: ENOMEM. */
struct node *pool_node(struct pool *pool, const char *name);

/* NULL when there is none.  Borrowed; nodes live as long as the pool. */
struct node *pool_find(const struct pool *pool, const char *name);
struct node *pool_find_claim(const struct pool *pool, const char *claim);

/* By name, in natural order. */
size_t pool_count(const struct pool *pool);
struct node *pool_at(const struct pool *pool, size_t i);

/*
 * The one place where a node changes its state: derives it from the facts
 * above (view, claim, agent, owner, deadline), logs a change, returns non-zero
 * when there was one.
 */
int pool_settle(struct pool *pool, struct node *node);

/* A world of `job` comes to or leaves the node.  The first makes it the owner,
 * after the last it has none. */
void node_take(struct node *node, struct job *job);
void node_leave(struct node *node);

/* An agent is there, nobody owns the node and nobody wants it back. */
int node_is_free(const struct node *node);

/* An agent is there and the node is not wanted back. */
int node_is_usable(const struct node *node);

/* The claim is over: forget the agent and all that came with it. */
void node_forget_claim(struct node *node);

const char *node_state_name(enum node_state state);

#endif
