/*
 * link.c - the part of a link that is the same on every transport.
 *
 * A message is encoded against its table on its way out and decoded against it
 * on its way in, here and nowhere else; so here is also the one place that
 * shows each message at debug level, by name, peer and size.  A transport
 * (link_sock.c) moves frames and knows when a peer is gone.
 */
#include "proto/link.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "proto/link_impl.h"
#include "proto/log.h"

static void show(const struct link *link, const char *what, unsigned type, uint32_t id,
	size_t size)
{
	log_debug("link", "%s %s %s size=%zu id=%u", what, schema_name(type),
		link->name, size, id);
}

int link_send_raw(struct link *link, enum msg_type type, uint32_t id, json_t *body_take,
	const void *raw, size_t raw_size)
{
	struct err err;
	size_t size = 0;
	uint8_t *frame = msg_encode(type, id, body_take, raw, raw_size, &size, &err);
	int saved = errno;

	json_decref(body_take);
	if (!frame) {
		log_err("link", "%s: not sent: %s", link->name, err.text);
		errno = saved;
		return -1;
	}
	if (link->ops->write(link, frame, size) < 0)
		return -1;
	show(link, "->", type, id, size);
	return 0;
}

int link_send(struct link *link, enum msg_type type, uint32_t id, json_t *body_take)
{
	return link_send_raw(link, type, id, body_take, NULL, 0);
}

int link_refuse(struct link *link, uint32_t id, int code, const char *fmt, ...)
{
	char text[512];
	json_t *body;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	body = json_pack("{s:i, s:s}", "code", code, "text", text);
	if (!body) /* no memory, or a text that is no UTF-8 */
		body = json_pack("{s:i, s:s}", "code", code, "text", "refused");
	if (!body) {
		errno = ENOMEM;
		return -1;
	}
	return link_send(link, MSG_REFUSE, id, body);
}

uint32_t link_next_id(struct link *link)
{
	if (++link->last_id == 0)
		link->last_id = 1;
	return link->last_id;
}

void link_close(struct link *link)
{
	if (link)
		link->ops->close(link);
}

void link_set_handlers(
	struct link *link, const struct link_handlers *handlers, void *arg)
{
	link->handlers = *handlers;
	link->arg = arg;
}

const struct identity *link_identity(const struct link *link)
{
	return &link->identity;
}

size_t link_queued(const struct link *link)
{
	return link->ops->queued(link);
}

void link_pause(struct link *link)
{
	link->ops->pause(link, 1);
}

void link_resume(struct link *link)
{
	link->ops->pause(link, 0);
}

void link_set_name(struct link *link, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(link->name, sizeof(link->name), fmt, ap);
	va_end(ap);
}

const char *link_name(const struct link *link)
{
	return link->name;
}

int link_decode(struct link *link, const struct frame_header *header,
	const uint8_t *body, struct msg *msg, struct err *err)
{
	show(link, "<-", header->type, header->id, FRAME_HEADER_SIZE + header->length);
	return msg_decode(msg, (enum msg_type)header->type, header->id, body,
		header->length, err);
}

void link_deliver(struct link *link, const struct msg *msg)
{
	if (link->handlers.on_msg)
		link->handlers.on_msg(link, msg, link->arg);
}

const char *link_program(char *buf, size_t size)
{
	snprintf(
		buf, size, "%.20s %.10s", program_invocation_short_name, MALLE_VERSION);
	return buf;
}
