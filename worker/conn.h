/* conn.h - a worker's connection to the agent of its node. */
#ifndef WORKER_CONN_H
#define WORKER_CONN_H

#include <stddef.h>
#include <stdint.h>

#include "worker/fault.h"
#include "worker/wire.h"

struct conn {
	int fd; /* -1: gone, or never was */
	size_t have;
	uint8_t in[WIRE_HEADER_SIZE + WIRE_BODY_MAX];
};

enum conn_wait { CONN_NOW = 0, CONN_FOREVER = -1 }; /* or milliseconds */

/* Connect to the unix socket at path.  On failure conn->fd is -1.  -1 with
 * errno of connect(2), ENAMETOOLONG, or ETIMEDOUT after limit_ms. */
int conn_open(struct conn *conn, const char *path, int limit_ms, struct malle_err *err);

/* Take over a connected stream socket. */
void conn_init(struct conn *conn, int fd);

/* NULL and a closed one are welcome; keeps errno. */
void conn_close(struct conn *conn);

/*
 * Send a frame.  Waits a bounded time for an agent that does not read, then
 * gives it up.  -1: the connection is closed now.  ECONNRESET (the agent is gone),
 * ETIMEDOUT, EMSGSIZE (only then the connection is as before).
 */
int conn_send(struct conn *conn, struct wire_out *out, struct malle_err *err);

/* The same, but a frame that cannot begin at once is forgotten: 0. */
int conn_send_droppable(struct conn *conn, struct wire_out *out, struct malle_err *err);

/*
 * The next message: 1; 0 if none came within wait_ms; -1 if the agent is gone
 * (ECONNRESET) or breaks the protocol (EPROTO): the connection is closed now.
 * A refusal is a message like others.
 */
int conn_recv(
	struct conn *conn, struct wire_msg *msg, int wait_ms, struct malle_err *err);

#endif
