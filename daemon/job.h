/* job.h - a malleable job: what was asked, its worlds, what is known of it. */
#ifndef DAEMON_JOB_H
#define DAEMON_JOB_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/pool.h"
#include "daemon/world.h"
#include "jpa/curve.h"
#include "jpa/probe.h"
#include "jpa/sample.h"

struct rescale;

enum job_state {
	JOB_UNSET = 0,
	JOB_WAITING,  /* for nodes; holds none */
	JOB_STARTING, /* its first world, or the one after a loss, comes up */
	JOB_RUNNING,
	JOB_PAUSING,  /* asked to leave its nodes, keeps its state */
	JOB_PAUSED,   /* by a person, until resumed */
	JOB_STOPPING, /* cancelled: leaves at an agreed step */
	JOB_ENDED,
};

#define JOB_ID_SIZE 16
#define JOB_OUTPUT_KEEP (64u << 10) /* bytes of output kept for who attaches */

/* What the user asked for; never changes. */
struct job_request {
	char *name;
	char **argv; /* NULL-terminated, one malloc (msg_strv) */
	char **env;
	char *cwd;
	char *mode;
	char *launcher;
	char *output; /* or NULL */
	char *spool;
	char *token;  /* or NULL */
	int min_nodes, max_nodes, nproc;
	double priority;
	uid_t uid;
	gid_t gid;
};

/* A node that holds a state of the job; "" names the spool. */
struct job_copy {
	char node[NODE_NAME_SIZE];
	long long step, cursor;
};

enum rescale_count { COUNT_GROW, COUNT_SHRINK, COUNT_FORCED, COUNT_MOVED, COUNT_FAILED, N_COUNTS };

struct job_pauses {
	double *s;
	size_t n;
};

struct job {
	char id[JOB_ID_SIZE];
	struct job_request request;
	enum job_state state;
	char reason[160];
	int held;      /* paused by a person */
	int cancelled; /* 1: asked, 2: forced */
	int exit_code; /* when ended */

	long long generation; /* last number given to a world */
	struct world *worlds; /* all with processes, newest first */
	struct world *current; /* the one that trains, or NULL */
	struct rescale *rescale; /* the open transaction, or NULL */

	int restarts;       /* failures since progress was last made */
	int failures;       /* all of them */
	double retry_at_s;  /* monotonic: no start before */
	double rescaled_at_s; /* monotonic: last transaction's end */
	int finished;       /* its workers said that the training is complete */

	struct job_copy *copies;
	size_t n_copies;

	struct sampler *sampler;
	struct prober *prober;
	struct curve curve;
	int probed_nodes;  /* size that the prober asks for; 0: none */
	double probe_again_s; /* monotonic: ask it by then; INFINITY */
	int planned_nodes; /* size that the plan gave without asking it */
	double curve_recorded_s; /* monotonic */
	double step_s; /* median of late, as the workers say */
	long long step, cursor; /* of the newest report */
	double progress_at_s; /* monotonic: when the cursor last moved */

	double submit_s, start_s, end_s; /* wall clock; 0: not yet */
	double node_s, probe_node_s;
	double accounted_at_s; /* monotonic */
	unsigned counts[N_COUNTS];
	struct job_pauses pauses;
	double grow_cost_s, shrink_cost_s; /* measured; part of the objective */

	char *tail;           /* the last output */
	size_t tail_size;
	long long output_bytes; /* of all output so far */
};

struct jobs;

struct jobs *jobs_create(void);
void jobs_destroy(struct jobs *jobs);

/*
 * A new job that waits.  The request's content is taken on success.  id NULL:
 * the next number.  NULL with errno on failure.
 */
struct job *jobs_add(struct jobs *jobs, struct job_request *request_take, const char *id);
/* The newest job is not taken after all: its number stays used. */
void jobs_drop_newest(struct jobs *jobs);
struct job *jobs_find(const struct jobs *jobs, const char *id);
struct job *jobs_find_token(const struct jobs *jobs, uid_t uid, const char *token);
size_t jobs_count(const struct jobs *jobs);
struct job *jobs_at(const struct jobs *jobs, size_t i); /* in order of submission */

void job_request_fini(struct job_request *request);

/* The request of a job.submit message or of a journal record of the same
 * fields; uid and gid are the caller's word.  EINVAL says which field. */
int job_request_read(struct job_request *request, const json_t *fields, uid_t uid,
	gid_t gid, struct err *err);
json_t *job_request_json(const struct job_request *request);

const char *job_state_name(enum job_state state);
const char *rescale_count_name(enum rescale_count count);

/* It can be given nodes: not ended, not held, not being cancelled. */
int job_wants_nodes(const struct job *job);

struct world *job_world(const struct job *job, long long generation);

/* States of the job: remember one, forget a node's, find the newest (any node
 * preferred for which `prefer` is named; NULL: none known). */
int job_copy_add(struct job *job, const char *node, long long step, long long cursor);
void job_copy_forget(struct job *job, const char *node);
const struct job_copy *job_copy_newest(const struct job *job, const char *prefer);

/* -1: ENOMEM.  quantile: q from 0 to 1, seconds; 0 without any. */
int pauses_add(struct job_pauses *pauses, double pause_s);
double pauses_quantile(const struct job_pauses *pauses, double q);

/* Append to the kept tail of output. */
void job_output_keep(struct job *job, const void *data, size_t size);

#endif
