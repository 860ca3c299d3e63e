/* wire_out.c - frames being written; wire.c has the story. */
#include "worker/wire.h"

#include <errno.h>
#include <string.h>

static void put32(uint8_t *p, uint32_t v)
{
	p[0] = (uint8_t)(v >> 24);
	p[1] = (uint8_t)(v >> 16);
	p[2] = (uint8_t)(v >> 8);
	p[3] = (uint8_t)v;
}

static void put(struct wire_out *out, const char *bytes, size_t n)
{
	if (out->failed || n > sizeof(out->bytes) - out->used) {
		out->failed = 1;
		return;
	}
	memcpy(out->bytes + out->used, bytes, n);
	out->used += n;
}

static void put_decimal(struct wire_out *out, uint64_t value, int width)
{
	char text[20];
	int at = sizeof(text);

	do {
		text[--at] = (char)('0' + value % 10);
		value /= 10;
	} while (value || (int)sizeof(text) - at < width);
	put(out, text + at, sizeof(text) - (size_t)at);
}

static void put_key(struct wire_out *out, const char *name)
{
	if (out->fields++)
		put(out, ",", 1);
	put(out, "\"", 1);
	put(out, name, strlen(name));
	put(out, "\":", 2);
}

void wire_begin(struct wire_out *out, enum wire_type type, uint32_t id)
{
	out->used = WIRE_HEADER_SIZE;
	out->fields = out->failed = 0;
	put32(out->bytes, WIRE_MAGIC);
	put32(out->bytes + 4, (uint32_t)WIRE_VERSION << 16 | type);
	put32(out->bytes + 12, id);
	put(out, "{", 1);
}

void wire_put_int(struct wire_out *out, const char *name, uint64_t value)
{
	if (value > WIRE_INT_MAX)
		out->failed = 1;
	put_key(out, name);
	put_decimal(out, value, 1);
}

void wire_put_seconds(struct wire_out *out, const char *name, double value)
{
	uint64_t us;

	if (!(value >= 0 && value < 1e12)) {
		out->failed = 1;
		return;
	}
	us = (uint64_t)(value * 1e6 + 0.5);
	put_key(out, name);
	put_decimal(out, us / 1000000, 1);
	put(out, ".", 1);
	put_decimal(out, us % 1000000, 6);
}

void wire_put_bool(struct wire_out *out, const char *name, int value)
{
	put_key(out, name);
	put(out, value ? "true" : "false", value ? 4 : 5);
}

void wire_put_str(struct wire_out *out, const char *name, const char *value)
{
	static const char hex[] = "0123456789abcdef";

	put_key(out, name);
	put(out, "\"", 1);
	for (; *value; value++) {
		unsigned c = (unsigned char)*value;
		char escape[] = { '\\', 'u', '0', '0', hex[c >> 4], hex[c & 15] };

		if (c < 0x20)
			put(out, escape, sizeof(escape));
		else if (c == '"' || c == '\\')
			put(out, (char[]){ '\\', (char)c }, 2);
		else
			put(out, value, 1);
	}
	put(out, "\"", 1);
}

int wire_end(struct wire_out *out)
{
	put(out, "}", 1);
	if (out->failed) {
		errno = EMSGSIZE;
		return -1;
	}
	put32(out->bytes + 8, (uint32_t)(out->used - WIRE_HEADER_SIZE));
	return (int)out->used;
}
