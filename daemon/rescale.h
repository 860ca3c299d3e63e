/* rescale.h - one transaction that moves a job from one world to the next. */
#ifndef DAEMON_RESCALE_H
#define DAEMON_RESCALE_H

#include <jansson.h>

#include "daemon/ctld.h"

enum rescale_kind {
	RESCALE_UNSET = 0,
	RESCALE_START,  /* from no world to one */
	RESCALE_GROW,
	RESCALE_SHRINK,
	RESCALE_MOVE,   /* as many nodes, others */
	RESCALE_PAUSE,  /* to no world; the state stays */
	RESCALE_STOP,   /* to no world; the job ends */
};

/* Phases, as people see them. */
enum rescale_phase {
	PHASE_UNSET = 0,
	PHASE_PREPARE,  /* the next world comes up; the present one trains */
	PHASE_AGREE,    /* a step is being agreed */
	PHASE_COMMIT,   /* it is: the present world leaves at it */
	PHASE_HANDOVER, /* the next world has been told to go */
};

struct rescale {
	enum rescale_kind kind;
	enum rescale_phase phase;
	int forced;        /* a node is wanted back */
	const char *verdict; /* that workers get: "rescale" or "stop" */
	struct job *job;
	struct world *from; /* NULL: there is none, or it is lost */
	struct world *to;   /* NULL: none is wanted, or it failed */
	int wants_world;
	int from_n, to_n;   /* nodes */
	int proposal;       /* number of the open one; 0: none */
	int tries;
	long long step;     /* proposed */
	double began_s, ready_s, agree_s, left_s, go_s; /* monotonic; 0: not yet */
	double asked_at_s;  /* monotonic: the open proposal */
	double left_wall_s; /* end of the last step of `from` */
	struct loop_timer *timer;
	struct ctld *ctld;
};

/*
 * Begin: the job is to run on exactly these nodes, in this order of ranks; n_nodes 0:
 * on none.  The nodes must be free or the job's own, and it must have no open
 * transaction.  forced: a node is wanted back, and its deadline bounds how long the
 * old world may wait for the new one.  Returns -1 with ENOMEM; nothing happened.
 */
int rescale_begin(struct ctld *ctld, struct job *job, enum rescale_kind kind, int forced,
	struct node *const *nodes, size_t n_nodes, const char *reason);

/* Facts about worlds have changed: take every step that is possible now. */
void rescale_advance(struct rescale *rescale);

/* The answers and reports of agents. */
void rescale_answered(struct world *world, struct member *member, int proposal, int agreed,
	long long step);
void rescale_progress(struct world *world, long long step, double t_wall_s);

/* The member's agent has come back: orders that it may have missed. */
void rescale_tell_again(struct ctld *ctld, struct world *world, struct member *member);

/* The world is about to be freed: a transaction that knows it must forget it. */
void rescale_forget_world(struct world *world);

/* The transaction cannot go on (job cancelled by force, ended): close it. */
void rescale_drop(struct job *job, const char *why);

/* The daemon goes: free the transaction, tell nobody. */
void rescale_abandon(struct job *job);

/* After a restart of the daemon: take up a transaction that was open. */
int rescale_adopt(struct ctld *ctld, struct job *job, struct world *from, struct world *to);

/* The world that people see: the one that trains, else the one that comes up. */
const struct world *rescale_shown_world(const struct job *job);

json_t *rescale_json(const struct rescale *rescale);
const char *rescale_kind_name(enum rescale_kind kind);

#endif
