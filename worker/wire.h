/* wire.h - messages between a worker and its agent, as bytes.  Pure. */
#ifndef WORKER_WIRE_H
#define WORKER_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include "worker/fault.h"

#define WIRE_MAGIC 0x4d414c4cu /* "MALL" */
#define WIRE_VERSION 1
#define WIRE_HEADER_SIZE 16
#define WIRE_BODY_MAX 65536 /* bytes of what an agent sends; a path fits, escaped */
#define WIRE_OUT_MAX 1024   /* bytes of what a worker sends, header included */
#define WIRE_INT_MAX ((1ULL << 53) - 1)

/* Numbers of the protocol; those that a worker sends or understands. */
enum wire_type {
	WIRE_UNSET = 0,
	WIRE_HELLO = 1,
	WIRE_WELCOME = 2,
	WIRE_REFUSE = 4,
	WIRE_JOIN = 100,
	WIRE_WORLD = 101,
	WIRE_READY = 102,
	WIRE_GO = 103,
	WIRE_PROGRESS = 104,
	WIRE_PROPOSE = 105,
	WIRE_ANSWER = 106,
	WIRE_COMMIT = 107,
	WIRE_WITHDRAW = 108,
	WIRE_SAVED = 109,
	WIRE_LEAVE = 110,
};

struct wire_header {
	uint16_t version;
	uint16_t type;
	uint32_t length; /* of the body, at most WIRE_BODY_MAX */
	uint32_t id;
};

/* What an agent said; only the fields of its type mean something. */
struct wire_msg {
	unsigned type; /* may be a number that we do not know: then no fields */
	uint32_t id;
	uint64_t code, proposal, step, world_size;
	double replica_s;
	int resume;
	char verdict[33];
	char text[1025];
	char state[4096]; /* "" where absent */
	char state_dir[4096];
};

/* Checks magic and length, not the version.  -1: EPROTO. */
int wire_header_decode(const uint8_t in[WIRE_HEADER_SIZE], struct wire_header *header,
	struct malle_err *err);

/*
 * Body of header->length bytes into *msg.  Strict: fields of the type's table
 * must be there, of their kind, in their range, once; the JSON must end where
 * the body does.  Fields that are in no table are skipped.  -1: EPROTO; *msg
 * then holds nothing of use.
 */
int wire_decode(const struct wire_header *header, const uint8_t *body,
	struct wire_msg *msg, struct malle_err *err);

/* A frame being written. */
struct wire_out {
	uint8_t bytes[WIRE_OUT_MAX];
	size_t used;
	int fields;
	int failed; /* did not fit, or a number that JSON cannot hold */
};

void wire_begin(struct wire_out *out, enum wire_type type, uint32_t id);
void wire_put_int(struct wire_out *out, const char *name, uint64_t value);
/* value >= 0; to the microsecond, and never with the locale's comma */
void wire_put_seconds(struct wire_out *out, const char *name, double value);
void wire_put_bool(struct wire_out *out, const char *name, int value);
void wire_put_str(struct wire_out *out, const char *name, const char *value);
/* Bytes of the whole frame, or -1 with EMSGSIZE. */
int wire_end(struct wire_out *out);

#endif
