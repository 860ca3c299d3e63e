/* part.h - what this node holds of a world.
 *
 * The daemon's world is one generation of a job on many nodes; an agent has its
 * part of it: the local workers, what they said, and the processes.  (The word is
 * not "world" because daemon/world.h has that, and tests link both.)
 */
#ifndef AGENT_PART_H
#define AGENT_PART_H

#include <stddef.h>
#include <sys/types.h>

#include "proto/err.h"
#include "proto/link.h"
#include "proto/loop.h"
#include "proto/msg.h"

#define PART_ID_SIZE   65
#define PART_WORD_SIZE 33

struct agent;
struct child;
struct fetch;
struct output;

enum part_phase {
	PART_UNSET = 0,
	PART_STARTING, /* not all local workers wait for go */
	PART_READY,    /* they do */
	PART_RUNNING,  /* go was said */
	PART_LEFT,     /* all left at one step */
	PART_EXITING,  /* its processes are being ended, or have failed */
	PART_EXITED,   /* none is left */
	PART_N_PHASES,
};

enum part_event {
	PART_ALL_READY,
	PART_GO,
	PART_ALL_LEFT,
	PART_ENDS, /* the launcher ended, or we were told to end it */
	PART_GONE, /* no process is left */
	PART_N_EVENTS,
};

enum part_launcher { PART_LAUNCHER_UNSET = 0, PART_MPI, PART_TORCH, PART_ENV };

/* A local worker that has joined. */
struct part_worker {
	struct part_worker *next;
	struct part *part;
	struct link *link; /* NULL: it is gone */
	long long rank;
	int local_rank;
	pid_t pid;
	int ready; /* it waits for go */
	int told_go;
	int left, finished;
	long long step, cursor; /* newest that it said */
	double t_s;
	long long answered; /* local number that it last answered; 0: none */
	int agreed;
	long long answer_step;
};

/* The newest proposal; number 0: there is none. */
struct part_proposal {
	long long number, step;
	long long local; /* its number for the workers */
	char verdict[PART_WORD_SIZE];
	int answered;  /* the daemon has our answer */
	int committed; /* it is certain */
};

/* What all local workers together say. */
struct part_tally {
	int complete; /* nobody is missing, or nobody missing could change it */
	int agreed;
	long long step; /* the furthest */
};

/* How its processes come to an end. */
enum part_ending {
	ENDING_NO = 0,
	ENDING_WAIT, /* they end by themselves; soon they are told to */
	ENDING_TERM, /* SIGTERM was sent */
	ENDING_KILL, /* SIGKILL is sent, again and again */
	ENDING_DONE,
};

struct part {
	struct part *next;
	struct agent *agent;

	/* What was ordered. */
	char job[PART_ID_SIZE];
	long long generation;
	char **nodes;          /* in the order of ranks */
	size_t n_nodes, index; /* ours among them */
	int nproc, restarts, min_nodes, max_nodes;
	enum part_launcher launcher;
	char **argv, **env;
	char *cwd, *output_path, *spool;
	char *master_addr; /* NULL: not said */
	int master_port;   /* 0: not said */

	/* What the workers say. */
	enum part_phase phase;
	struct part_worker *workers; /* by local rank */
	struct part_proposal proposal;
	long long n_proposals; /* made to the workers so far */
	long long step, cursor;
	int left; /* all left, for good */
	double left_t_s;
	int left_finished;
	long long saved_step, saved_cursor; /* newest state of this world here; -1 */

	/* Go. */
	int go;               /* said by the daemon */
	int resume;           /* there is a state to begin with */
	long long state_step; /* of it */
	int state_waits;      /* rank 0 is here and its state is not, yet */
	char *state_path;     /* for rank 0 */
	struct fetch *fetch;

	/* The processes. */
	char *tmpdir, *shmdir;
	struct output *output;
	struct child *mpirun;
	struct child **locals; /* launcher env: nproc of them, NULL where ended */
	int n_locals;
	int n_sessions, had_sessions; /* remote starts that run here */
	enum part_ending ending;
	int asked; /* its end was ordered: exit codes say nothing */
	int code;
	char reason[200];
	double kill_at_s, next_poll_s;
	double grace_s; /* after waiting, if that is ordered; else 0 */
	int n_looks;              /* since the last process ended */
	struct loop_timer *timer; /* of the ending, then of its forgetting */
	int reported;             /* the daemon was told that it is gone */
};

/*
 * The part that a world.start describes, for the node `self`, which must be
 * among its nodes.  NULL: EINVAL, ENOMEM.
 */
struct part *part_create(const struct msg *start, const char *self, struct err *err);

/* Frees it and its workers; links, children and timers are the caller's. */
void part_destroy(struct part *part);

struct part *part_find(struct part *list, const char *job, long long generation);
const char *part_phase_name(enum part_phase phase); /* as agent.world has it */
int part_is_head(const struct part *part);
long long part_world_size(const struct part *part);

/* Move to the next phase by the table.  Non-zero: the phase is another now. */
int part_event(struct part *part, enum part_event event);

/*
 * A worker joins.  -1: EINVAL (a rank that cannot be here), EEXIST (that local
 * rank is taken), EBUSY (the world is ending), ENOMEM.
 */
struct part_worker *part_join(
	struct part *part, long long rank, int local_rank, pid_t pid, struct err *err);
struct part_worker *part_rank_zero(const struct part *part); /* or NULL */

/* Each takes a fact in and returns non-zero when something follows from it. */
int part_worker_ready(struct part_worker *worker); /* all wait: phase READY */
int part_worker_left(struct part_worker *worker, const struct msg *leave); /* all did */
int part_worker_stepped(
	struct part_worker *worker, long long step, long long cursor, double t_s);

int part_count_ready(const struct part *part);

/* A newer proposal is taken: 1.  An older one, or one after a commit: 0. */
int part_propose(
	struct part *part, long long number, long long step, const char *verdict);
void part_worker_answer(
	struct part_worker *worker, long long local, int agreed, long long step);
/* Not decided, and whoever asked is gone: there is none. */
void part_unpropose(struct part *part);
struct part_tally part_tally(const struct part *part);

#endif
