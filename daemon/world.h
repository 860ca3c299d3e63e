/* world.h - one generation of a job: its nodes in the order of ranks. */
#ifndef DAEMON_WORLD_H
#define DAEMON_WORLD_H

#include <stddef.h>

struct job;
struct node;

enum world_phase {
	WORLD_UNSET = 0,
	WORLD_STARTING, /* processes come up, workers join */
	WORLD_READY,    /* every worker waits for go */
	WORLD_RUNNING,  /* go was said */
	WORLD_LEFT,     /* every worker has left at the agreed step */
	WORLD_EXITING,  /* told to end, or ending by itself */
};

/* What one member node has said. */
struct member {
	struct node *node;
	int ready;    /* workers that wait */
	int answered; /* the proposal that it last answered */
	int left;
	int exited;
	int lacks_go; /* its agent came back and says that the workers still wait */
	int told;     /* after a restart of the daemon: its agent knows the world */
};

struct world {
	struct world *next; /* older one of the same job */
	struct job *job;
	long long generation;
	enum world_phase phase;
	struct member *members;
	size_t n_members;
	double named_at_wall_s; /* of one that the journal told of */
	int proposals;       /* made to it so far */
	int buried;          /* unlinked: of no job any more */
	int finished;        /* the workers said: all samples consumed */
	int launcher_exited; /* the head's launcher has ended, with */
	int code;
	int killed;          /* 1: SIGTERM was ordered, 2: its end was forced */
	double first_ready_at_s; /* monotonic; 0: none yet */
	double left_at_wall_s; /* end of its last step */
	double ended_at_s; /* monotonic: told or seen to end; 0: not */
	long long left_step, left_cursor;
};

/* Members borrow their nodes.  node_take is done for each.  NULL: ENOMEM. */
struct world *world_create(
	struct job *job, long long generation, struct node *const *nodes, size_t n_nodes);

/*
 * node_leave for members that had not exited, and out of the job's list.  The
 * memory stays: callers further up may still hold the world, and see `buried`.
 */
void world_unlink(struct world *world);

/* Unlink, if that was not done, and free. */
void world_destroy(struct world *world);

struct member *world_member(struct world *world, const struct node *node);

/* The member's processes are gone: its node is left.  Safe to repeat. */
void world_member_exited(struct member *member);

int world_all_ready(const struct world *world, int nproc);
int world_all_left(const struct world *world);
int world_all_exited(const struct world *world);
int world_any_ready(const struct world *world);

#endif
