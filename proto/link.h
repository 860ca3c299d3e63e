/* link.h - a connection to a peer that carries messages.
 *
 * Everything that talks sees this; link_sock.c is the one on real sockets.  A
 * link authenticates its peer before it reads a message, hands over every
 * whole message that has come, and dies at the end of a turn, never inside its
 * own callback.
 */
#ifndef PROTO_LINK_H
#define PROTO_LINK_H

#include "proto/auth.h"
#include "proto/err.h"
#include "proto/loop.h"
#include "proto/msg.h"

struct link;
struct link_listener;

struct link_handlers {
	/* A whole, checked message.  Borrowed for the call. */
	void (*on_msg)(struct link *link, const struct msg *msg, void *arg);
	/*
	 * The peer is gone, or broke the protocol (why says it).  Called once;
	 * not for a link that we closed.  The link is freed at the end of the
	 * turn: the callee forgets it.
	 */
	void (*on_gone)(struct link *link, const char *why, void *arg);
};

/*
 * Send; body is consumed (also on failure), NULL for none.  Queues without
 * limit of its own: see link_queued.  Returns -1 with EPIPE on a link that is
 * closed or gone, EINVAL for a body that its table refuses (logged: a bug).
 */
int link_send(struct link *link, enum msg_type type, uint32_t id, json_t *body_take);
int link_send_raw(struct link *link, enum msg_type type, uint32_t id, json_t *body_take,
	const void *raw, size_t raw_size);

/* Reply in the negative: code is an exit code of the contract. */
int link_refuse(struct link *link, uint32_t id, int code, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* A new id for a request on this link: never 0. */
uint32_t link_next_id(struct link *link);

/* Send what is queued, then close.  No callback comes any more. */
void link_close(struct link *link);

void link_set_handlers(
	struct link *link, const struct link_handlers *handlers, void *arg);
const struct identity *link_identity(const struct link *link);
size_t link_queued(const struct link *link); /* bytes not yet taken by the kernel */

/* Stop and resume reading: back-pressure. */
void link_pause(struct link *link);
void link_resume(struct link *link);

/* The name in log lines: "agent n3".  Copied. */
void link_set_name(struct link *link, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
const char *link_name(const struct link *link);

/*
 * --- link_sock.c, link_listen.c: unix stream sockets -----------------------
 *
 * Connect to the socket at `path`.  The connection is made at once (unix
 * sockets do not wait); handlers as above.  Sends `hello` with this role
 * first; `welcome` arrives as an ordinary message.  NULL with errno
 * (ECONNREFUSED, ENOENT: nobody there; EAGAIN: too many wait there; EACCES;
 * ENAMETOOLONG).
 */
struct link *link_connect(struct loop *loop, const char *path, const char *role,
	const struct link_handlers *handlers, void *arg, struct err *err);

/*
 * Listen at `path` with permission bits `mode`.  A socket file that nobody
 * answers at is replaced; one that somebody answers at is EADDRINUSE.
 * on_link is called for each peer once it is authenticated and its hello has
 * been checked and answered: msg is that hello.  It must set handlers.  A peer
 * that does not say hello within 10 s, or wrongly, is refused and closed.
 */
typedef void (*link_accept_f)(struct link *link, const struct msg *hello, void *arg);
struct link_listener *link_listen(struct loop *loop, const char *path, unsigned mode,
	const struct auth_method *auth, const char *instance, link_accept_f on_link,
	void *arg, struct err *err);

/* Removes the socket file.  Links that were accepted live on. */
void link_listener_destroy(struct link_listener *listener);

#endif
