/* schema.h - message numbers, and one table of fields for each message.
 *
 * Encoder, decoder, PROTOCOL.md's tables and the fuzz dictionary are views of
 * these tables.  Numbers are grouped by conversation with gaps; a retired one
 * stays, marked reserved.  A new optional field changes no version; a changed
 * meaning or a removed field does.
 */
#ifndef PROTO_SCHEMA_H
#define PROTO_SCHEMA_H

#include <stddef.h>

#define PROTO_VERSION 1

enum msg_type {
	MSG_UNSET = 0,
	/* any conversation */
	MSG_HELLO = 1,
	MSG_WELCOME = 2,
	MSG_OK = 3,
	MSG_REFUSE = 4,
	MSG_PING = 5,
	MSG_PONG = 6,
	/* people and their jobs: malle-run, mallectl <-> mallectld */
	MSG_JOB_SUBMIT = 10,
	MSG_JOB_ACCEPTED = 11,
	MSG_JOB_ATTACH = 12,
	MSG_JOB_STATE = 13,
	MSG_JOB_OUTPUT = 14,
	MSG_JOB_CANCEL = 15,
	MSG_JOB_PAUSE = 16,
	MSG_JOB_RESUME = 17,
	/* what is going on */
	MSG_STATUS_GET = 30,
	MSG_STATUS_REPLY = 31,
	MSG_CONFIG_GET = 32,
	MSG_CONFIG_REPLY = 33,
	/* mallectld <-> malle-agent: the node */
	MSG_AGENT_HELLO = 50,
	MSG_AGENT_WORLD = 51,
	MSG_AGENT_READY = 52,
	MSG_NODE_NOTICE = 53,
	MSG_NODE_RELEASE = 54,
	MSG_NODE_RELEASED = 55,
	/* mallectld <-> malle-agent: worlds */
	MSG_WORLD_START = 60,
	MSG_WORLD_STARTED = 61,
	MSG_WORLD_READY = 62,
	MSG_WORLD_GO = 63,
	MSG_WORLD_PROGRESS = 64,
	MSG_WORLD_PROPOSE = 65,
	MSG_WORLD_ANSWER = 66,
	MSG_WORLD_COMMIT = 67,
	MSG_WORLD_WITHDRAW = 68,
	MSG_WORLD_LEFT = 69,
	MSG_WORLD_KILL = 70,
	MSG_WORLD_EXITED = 71,
	MSG_STATE_SAVED = 75,
	MSG_STATE_DROP = 76,
	/* remote start: malle-rsh -> its agent -> mallectld -> the node's agent */
	MSG_RSH_REQUEST = 80,
	MSG_RSH_START = 81,
	MSG_RSH_EXITED = 82,
	MSG_RSH_HANGUP = 83,
	/* agent -> agent: a state is fetched */
	MSG_STATE_FETCH = 90,
	MSG_STATE_DATA = 91,
	/* worker <-> its agent */
	MSG_WORKER_JOIN = 100,
	MSG_WORKER_WORLD = 101,
	MSG_WORKER_READY = 102,
	MSG_WORKER_GO = 103,
	MSG_WORKER_PROGRESS = 104,
	MSG_WORKER_PROPOSE = 105,
	MSG_WORKER_ANSWER = 106,
	MSG_WORKER_COMMIT = 107,
	MSG_WORKER_WITHDRAW = 108,
	MSG_WORKER_SAVED = 109,
	MSG_WORKER_LEAVE = 110,
};

enum field_kind {
	FIELD_NONE = 0,
	FIELD_INT,   /* range min..max */
	FIELD_REAL,  /* range min..max, finite */
	FIELD_BOOL,
	FIELD_STR,   /* max: bytes, not counting the end; no NUL inside */
	FIELD_STRS,  /* array of strings; max: how many */
	FIELD_JSON,  /* any value */
};

struct field {
	const char *name;
	enum field_kind kind;
	int required;
	double min, max;
	const char *unit; /* or NULL */
	const char *help;
};

struct schema {
	enum msg_type type;
	const char *name; /* "job.submit" */
	const char *from; /* who may send it: "client", "agent", "daemon" ... */
	const char *help;
	int raw;                    /* raw bytes may follow the JSON */
	const struct field *fields; /* ends with a FIELD_NONE */
};

/* The table of a type, or NULL for a number that is not in use. */
const struct schema *schema_find(unsigned type);

/* Its name, or "unknown". */
const char *schema_name(unsigned type);

/* All tables by number, for those who print them.  *n of them. */
const struct schema *schema_all(size_t *n);

#endif
