/* ask.h - one question to the daemon, one answer. */
#ifndef CLI_ASK_H
#define CLI_ASK_H

#include <jansson.h>

#include "proto/err.h"
#include "proto/schema.h"

/* For programs that do nothing else while they wait. */
struct ask;

/* server as in client_create; limit_s seconds for each answer. */
struct ask *ask_create(const char *server, double limit_s, struct err *err);
void ask_destroy(struct ask *ask);

/*
 * Send a message of this type (body is consumed, NULL: empty) and wait for its
 * answer of type `want`; *answer is then its body, owned by the caller.
 * Connects first when there is no connection.  Returns EXIT_OK, or the exit
 * code that fits with the sentence in err.
 */
int ask_daemon(struct ask *ask, enum msg_type type, json_t *body_take,
	enum msg_type want, json_t **answer, struct err *err);

/* Wait, taking notice of a connection that goes away meanwhile. */
void ask_sleep(struct ask *ask, double seconds);

/* Which daemon answered: "mallectld 0.1.0", and its socket.  Borrowed. */
const char *ask_program(const struct ask *ask);
const char *ask_path(const struct ask *ask);
const char *ask_instance(const struct ask *ask);

#endif
