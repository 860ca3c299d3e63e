/*
 * fuzz_worker_wire.c - what an agent might send a worker.
 *
 * The input is a stream: headers and bodies as a connection delivers them.  A
 * body must be taken or refused in bounds, a taken one must hold what its table
 * promises, and what libmalle accepts, proto's reader accepts.
 */
#include <stdlib.h>
#include <string.h>

#include "proto/msg.h"
#include "proto/schema.h"
#include "worker/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/*
 * Where the two readers must agree: ASCII (proto's also checks UTF-8), numbers
 * that fit (jansson refuses others where they stand), no field that is in no
 * table twice.
 */
static int comparable(const struct schema *schema, const uint8_t *p, size_t n)
{
	size_t colons = 0, fields = 0, digits = 0;

	for (const struct field *f = schema->fields; f->kind != FIELD_NONE; f++)
		fields++;
	for (; n--; p++) {
		digits = *p >= '0' && *p <= '9' ? digits + 1 : 0;
		colons += *p == ':';
		if (*p > 0x7e || *p == 'E' || digits > 15 || colons > fields)
			return 0;
	}
	return 1;
}

static int in_bounds(const struct wire_msg *m)
{
	switch (m->type) {
	case WIRE_WORLD:
		return m->world_size && m->world_size <= WIRE_INT_MAX &&
		       m->replica_s >= 0 && m->replica_s <= 86400 &&
		       memchr(m->state_dir, 0, sizeof(m->state_dir));
	case WIRE_GO:
		return (m->resume == 0 || m->resume == 1) &&
		       memchr(m->state, 0, sizeof(m->state));
	case WIRE_PROPOSE:
		return m->proposal && m->step <= WIRE_INT_MAX &&
		       memchr(m->verdict, 0, sizeof(m->verdict));
	case WIRE_REFUSE:
		return m->code && m->code <= 255 && memchr(m->text, 0, sizeof(m->text));
	default:
		return 1;
	}
}

static int proto_agrees(const struct wire_header *header, const uint8_t *body)
{
	const struct schema *schema = schema_find(header->type);
	struct msg msg;

	if (!schema || header->type < WIRE_WORLD || strcmp(schema->from, "agent") ||
		!comparable(schema, body, header->length))
		return 1;
	if (msg_decode(&msg, header->type, header->id, body, header->length, NULL) < 0)
		return 0;
	msg_fini(&msg);
	return 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct wire_msg msg;
	struct wire_header header;
	struct malle_err err;

	while (size >= WIRE_HEADER_SIZE) {
		const uint8_t *body = data + WIRE_HEADER_SIZE;

		if (wire_header_decode(data, &header, &err) < 0)
			return 0;
		if (header.length > size - WIRE_HEADER_SIZE)
			header.length = (uint32_t)(size - WIRE_HEADER_SIZE);
		if (wire_decode(&header, body, &msg, &err) == 0) {
			if (!in_bounds(&msg) || !proto_agrees(&header, body))
				abort();
		} else if (!memchr(err.text, 0, sizeof(err.text))) {
			abort();
		}
		data = body + header.length;
		size -= WIRE_HEADER_SIZE + header.length;
	}
	return 0;
}
