/* client.h - what a struct malle is, for the files that make it up. */
#ifndef WORKER_CLIENT_H
#define WORKER_CLIENT_H

#include "worker/agree.h"
#include "worker/conn.h"
#include "worker/cursor.h"
#include "worker/fault.h"
#include "worker/ledger.h"
#include "worker/malle.h"
#include "worker/pace.h"
#include "worker/state.h"

enum client_phase {
	PHASE_UNSET,
	PHASE_JOINED,   /* registering buffers; no batch yet */
	PHASE_BETWEEN,  /* training, no batch in hand */
	PHASE_IN_HAND,  /* a batch was handed out and is not stepped */
	PHASE_LEFT,     /* at a verdict */
	PHASE_FINISHED, /* all is consumed, or malle_finish */
	PHASE_FAILED,   /* in malle_batch */
};

struct malle {
	enum client_phase phase;
	int under_malle; /* MALLE_SOCKET is set; else a plain run */
	uint64_t rank, local_rank, world_size;
	uint64_t generation, restarts;
	char job[65];

	struct conn conn;
	struct wire_msg msg; /* the one being handled */
	char *state_dir;     /* owned; NULL in a plain run */
	double replica_s;

	int have_data;
	struct cursor cursor;
	struct cursor_batch batch; /* in hand */
	uint32_t *ids;             /* owned; room for this rank's largest slice */
	struct state_table states;
	malle_broadcast_f broadcast;
	void *broadcast_arg;

	struct agree agree;
	struct pace pace;
	struct ledger ledger;
	enum malle_verdict verdict; /* the last one */
	uint64_t saved_step;        /* of the newest state saved or loaded */
	int have_saved;
	double step_wall_s; /* when the last step ended, since 1970 */
	struct malle_err err;
};

double client_now_s(void);  /* monotonic */
double client_wall_s(void); /* since 1970 */

/* --- join.c --- */

/* Environment into *m.  -1: EINVAL. */
int join_environment(struct malle *m, struct malle_err *err);
/* Connect, hello, join.  Nothing to do in a plain run. */
int join_agent(struct malle *m, struct malle_err *err);

/* --- begin.c --- */

/* Ready, go, state, broadcast, ledger: what the first malle_batch does. */
int begin_training(struct malle *m);

/* --- talk.c --- */

/* Take in all that the agent has said; never waits. */
void talk_listen(struct malle *m);
/* The one message in m->msg. */
void talk_handle(struct malle *m);
/* Wait until it is certain whether this step is the last; bounded. */
enum agree_now talk_settle(struct malle *m);
void talk_progress(struct malle *m, double now_s);
/* Save a replica if one is due and this rank is to. */
void talk_replica(struct malle *m, double now_s);
/* Save the state, close the book, say leave. */
void talk_leave(struct malle *m, int finished);

#endif
