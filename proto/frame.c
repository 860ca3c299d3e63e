/*
 * frame.c - header bytes in and out.
 */
#include "proto/frame.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

static void put16(uint8_t *out, uint16_t value)
{
	value = htons(value);
	memcpy(out, &value, sizeof(value));
}

static void put32(uint8_t *out, uint32_t value)
{
	value = htonl(value);
	memcpy(out, &value, sizeof(value));
}

static uint16_t get16(const uint8_t *in)
{
	uint16_t value;

	memcpy(&value, in, sizeof(value));
	return ntohs(value);
}

static uint32_t get32(const uint8_t *in)
{
	uint32_t value;

	memcpy(&value, in, sizeof(value));
	return ntohl(value);
}

void frame_encode(const struct frame_header *header, uint8_t out[FRAME_HEADER_SIZE])
{
	put32(out, header->magic);
	put16(out + 4, header->version);
	put16(out + 6, header->type);
	put32(out + 8, header->length);
	put32(out + 12, header->id);
}

int frame_decode(const uint8_t in[FRAME_HEADER_SIZE], struct frame_header *header,
	struct err *err)
{
	struct frame_header h = {
		.magic = get32(in),
		.version = get16(in + 4),
		.type = get16(in + 6),
		.length = get32(in + 8),
		.id = get32(in + 12),
	};

	if (h.magic != FRAME_MAGIC)
		return err_set(err, EPROTO,
			"frame: magic is 0x%08x, not 0x%08x: the peer does not speak "
			"this "
			"protocol",
			h.magic, FRAME_MAGIC);
	if (h.length > FRAME_BODY_MAX)
		return err_set(err, EPROTO, "frame: a body of %u bytes is over %u",
			h.length, FRAME_BODY_MAX);
	*header = h;
	return 0;
}
