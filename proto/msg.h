/* msg.h - a message: its type, its JSON body by the table, its raw bytes. */
#ifndef PROTO_MSG_H
#define PROTO_MSG_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/err.h"
#include "proto/schema.h"

/*
 * The body of a frame is a JSON object, optionally followed by one NUL byte
 * and raw bytes (output of a job, parts of a model's state).
 */
struct msg {
	enum msg_type type;
	uint32_t id;
	json_t *body;       /* owned; never NULL after msg_decode */
	const uint8_t *raw; /* borrowed from the buffer that was decoded; or NULL */
	size_t raw_size;
};

/*
 * Decode a body of `size` bytes and check it against the table of its type:
 * every required field there, every known one of its kind and range.  Unknown
 * keys are left in place and ignored (a newer peer may send them).  The
 * sentence names the message and the field.  EPROTO, ENOMEM.  On success the
 * caller owns the content: msg_fini.
 */
int msg_decode(struct msg *msg, enum msg_type type, uint32_t id, const uint8_t *body,
	size_t size, struct err *err);
void msg_fini(struct msg *msg);

/*
 * The whole frame, header and body, in a malloc'd buffer of *size bytes.
 * `body` is checked like a received one: a message that its own table refuses
 * is a bug (EINVAL).  body NULL: an empty object.  ENOMEM, EMSGSIZE.
 */
uint8_t *msg_encode(enum msg_type type, uint32_t id, const json_t *body, const void *raw,
	size_t raw_size, size_t *size, struct err *err);

/*
 * Fields of a decoded message: the table has vouched for kind and range, so
 * these cannot fail; an optional field that is absent gives 0, 0.0, false or
 * NULL.  Strings and JSON are borrowed from the message.
 */
long long msg_int(const struct msg *msg, const char *field);
double msg_real(const struct msg *msg, const char *field);
int msg_bool(const struct msg *msg, const char *field);
const char *msg_str(const struct msg *msg, const char *field);
const json_t *msg_json(const struct msg *msg, const char *field);
int msg_has(const struct msg *msg, const char *field);

/*
 * A list of strings as a NULL-terminated vector, one malloc for all: free().
 * NULL with ENOMEM.  An absent list is an empty vector.
 */
char **msg_strv(const struct msg *msg, const char *field);

#endif
