/* slurm.h - what Slurm says of nodes, jobs, reservations and partitions.
 *
 * Plain values, the same whatever the version, the transport and the form of
 * the answer were.  Strings are borrowed for the call that hands a record over
 * and are never NULL: "" where Slurm said nothing.
 *
 * Times are wall seconds since the epoch; NAN: not known (null, NO_VAL, a field
 * that could not be read); INFINITY: never.  Counts are -1 where not known.
 */
#ifndef DAEMON_SLURM_SLURM_H
#define DAEMON_SLURM_SLURM_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* What a node is for; exactly one. */
enum slurm_node_state {
	SLURM_NODE_UNKNOWN = 0, /* Slurm says so, or the word was not understood */
	SLURM_NODE_DOWN,
	SLURM_NODE_IDLE,
	SLURM_NODE_ALLOCATED,
	SLURM_NODE_MIXED,
	SLURM_NODE_ERROR,
	SLURM_NODE_FUTURE,
};

/* What else is said of it; an or of these.  slurm_state.c has their words. */
enum slurm_node_flag {
	SLURM_FLAG_STRANGE = 1 << 0, /* a word that nobody knows: never eligible */
	SLURM_FLAG_CLOUD = 1 << 1,
	SLURM_FLAG_DYNAMIC_NORM = 1 << 2,
	SLURM_FLAG_PLANNED = 1 << 3,
	SLURM_FLAG_RESERVED = 1 << 4,
	SLURM_FLAG_DRAIN = 1 << 5,
	SLURM_FLAG_COMPLETING = 1 << 6,
	SLURM_FLAG_NOT_RESPONDING = 1 << 7,
	SLURM_FLAG_POWERED_DOWN = 1 << 8,
	SLURM_FLAG_POWERING_UP = 1 << 9,
	SLURM_FLAG_POWERING_DOWN = 1 << 10,
	SLURM_FLAG_POWER_DOWN = 1 << 11, /* wanted */
	SLURM_FLAG_POWER_UP = 1 << 12,   /* wanted */
	SLURM_FLAG_POWER_DRAIN = 1 << 13,
	SLURM_FLAG_MAINTENANCE = 1 << 14,
	SLURM_FLAG_REBOOT_REQUESTED = 1 << 15,
	SLURM_FLAG_REBOOT_ISSUED = 1 << 16,
	SLURM_FLAG_REBOOT_CANCELED = 1 << 17,
	SLURM_FLAG_FAIL = 1 << 18,
	SLURM_FLAG_UNDRAIN = 1 << 19,
	SLURM_FLAG_RESUME = 1 << 20,
	SLURM_FLAG_INVALID_REG = 1 << 21,
	SLURM_FLAG_DYNAMIC_FUTURE = 1 << 22,
	SLURM_FLAG_BLOCKED = 1 << 23,
	SLURM_FLAG_INVALID = 1 << 24,
	SLURM_FLAG_EXTERNAL = 1 << 25,
};

struct slurm_node {
	const char *name;
	enum slurm_node_state state;
	uint32_t flags;
	const char *strange;     /* the first word that nobody knows */
	const char *partitions;  /* names with ',' between */
	const char *reservation; /* that it is in now */
	const char *features;    /* active ones, with ',' between */
	const char *reason;      /* of an admin, for its state */
	const char *gres;        /* "gpu:a100:4" */
	int cpus, alloc_cpus;
	double memory_bytes;
	double boot_s, last_busy_s;
};

enum slurm_job_state {
	SLURM_JOB_UNKNOWN = 0,
	SLURM_JOB_PENDING,
	SLURM_JOB_CONFIGURING,
	SLURM_JOB_RUNNING,
	SLURM_JOB_SUSPENDED, /* or stopped, or resizing */
	SLURM_JOB_COMPLETING,
	SLURM_JOB_REQUEUED, /* in any of the ways: it will be PENDING */
	SLURM_JOB_OVER,     /* completed, cancelled, failed, timeout, preempted ... */
};

struct slurm_job {
	long long id;
	enum slurm_job_state state;
	const char *state_word; /* as Slurm said it: "PREEMPTED" */
	const char *reason;     /* why it is pending: "Priority" */
	const char *name, *comment, *partition, *account, *qos;
	const char *nodes;      /* hostlist of its nodes */
	const char *planned_nodes; /* where it is expected to start */
	const char *user;       /* name; "" when only the uid is said */
	long long uid;          /* -1 when only the name is said */
	double submit_s, start_s, end_s;
	double preempt_s; /* since when Slurm takes its nodes back */
	int exit_code;    /* -1: not known */
	int n_nodes;
};

struct slurm_reservation {
	const char *name;
	const char *nodes; /* hostlist; "ALL" is expanded by whoever knows all */
	const char *flags; /* words with ',' between: "MAINT,SPEC_NODES" */
	const char *users, *accounts;
	double start_s, end_s; /* a time that could not be read: NAN */
};

struct slurm_partition {
	const char *name;
	const char *nodes; /* hostlist */
	const char *state; /* "UP", "DOWN", "DRAIN", "INACTIVE" */
	const char *preempt_mode; /* words with ',' between */
	double max_time_s; /* INFINITY: no limit */
	double grace_s;
	int priority_tier;
};

#endif
