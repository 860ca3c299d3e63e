/* link_sock.h - a link on a socket, as link_sock.c and its listener share it. */
#ifndef PROTO_LINK_SOCK_H
#define PROTO_LINK_SOCK_H

#include <sys/queue.h>

#include "proto/frame.h"
#include "proto/link_impl.h"

enum sock_state {
	SOCK_GREETING = 0,
	SOCK_OPEN,
	SOCK_LINGER,
	SOCK_DEAD,
};

struct out_frame {
	STAILQ_ENTRY(out_frame) entry;
	uint8_t *bytes;
	size_t size, sent;
};

struct sock_link {
	struct link link; /* first: a link is one of these */
	struct loop *loop;
	int fd; /* -1 once dead */
	struct loop_io *io;
	struct loop_timer *timer;
	struct loop_end *end;
	enum sock_state state;
	int paused;

	struct link_listener *listener; /* while greeting */
	TAILQ_ENTRY(sock_link) greeting;

	uint8_t head[FRAME_HEADER_SIZE]; /* of the frame that is coming */
	size_t head_have;
	struct frame_header header;
	uint8_t *body; /* header.length bytes, once the header is complete */
	size_t body_have;
	uint8_t *held; /* read, but the link is paused */
	size_t held_size;

	STAILQ_HEAD(, out_frame) out;
	size_t queued;
};

/* NULL: ENOMEM; the descriptor is given, also on failure. */
struct sock_link *sock_link_create(
	struct loop *loop, int fd_take, enum sock_state state, struct err *err);

/* A connected descriptor, or -1. */
int sock_connect(const char *path, struct err *err);

/* The listener's part: a first message has come; a link is its no more. */
void link_listener_greet(
	struct link_listener *listener, struct sock_link *sl, const struct msg *msg);
void link_listener_forget(struct link_listener *listener, struct sock_link *sl);

#endif
