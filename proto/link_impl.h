/* link_impl.h - what is behind a struct link; for link.c and transports only. */
#ifndef PROTO_LINK_IMPL_H
#define PROTO_LINK_IMPL_H

#include <stddef.h>
#include <stdint.h>

#include "proto/frame.h"
#include "proto/link.h"

#ifndef MALLE_VERSION
#define MALLE_VERSION "unversioned"
#endif

/* What a transport does.  It embeds the struct link as its first member. */
struct link_ops {
	/* Queue a whole frame; it is given, also on failure.  -1: EPIPE, ENOMEM. */
	int (*write)(struct link *link, uint8_t *frame_take, size_t size);
	void (*close)(struct link *link);
	size_t (*queued)(const struct link *link);
	void (*pause)(struct link *link, int paused);
};

struct link {
	const struct link_ops *ops;
	struct link_handlers handlers;
	void *arg;
	struct identity identity;
	uint32_t last_id;
	char name[80];
};

/* Decode a whole frame's body and log it.  -1 with the sentence. */
int link_decode(struct link *link, const struct frame_header *header,
	const uint8_t *body, struct msg *msg, struct err *err);

/* Hand a message over to whoever handles it. */
void link_deliver(struct link *link, const struct msg *msg);

/* "mallectld 0.1.0": this program, for hello and welcome. */
const char *link_program(char *buf, size_t size);

#endif
