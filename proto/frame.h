/* frame.h - header bytes in and out.  Pure. */
#ifndef PROTO_FRAME_H
#define PROTO_FRAME_H

#include <stddef.h>
#include <stdint.h>

#include "proto/err.h"

#define FRAME_MAGIC 0x4d414c4cu /* "MALL" */
#define FRAME_HEADER_SIZE 16
#define FRAME_BODY_MAX (4u << 20) /* bytes; checked before any allocation */

/* All in network order on the wire, in this order. */
struct frame_header {
	uint32_t magic;
	uint16_t version; /* PROTO_VERSION of the sender */
	uint16_t type;    /* enum msg_type */
	uint32_t length;  /* bytes of body after the header */
	uint32_t id;      /* of a request, repeated in its reply; 0: none wanted */
};

void frame_encode(const struct frame_header *header, uint8_t out[FRAME_HEADER_SIZE]);

/*
 * Decode and check magic and length.  The version is not judged here: whoever
 * reads it answers with both versions in words.  EPROTO.
 */
int frame_decode(
	const uint8_t in[FRAME_HEADER_SIZE], struct frame_header *header, struct err *err);

#endif
