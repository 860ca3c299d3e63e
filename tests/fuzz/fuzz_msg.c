/*
 * fuzz_msg.c - bodies of messages that came from anywhere.
 *
 * An input is the number of a message in two bytes, network order, then a body.
 * What is accepted must survive a round trip.
 *
 * With MALLE_SEEDS=DIR in its environment it writes instead, from the tables of
 * schema.c, a seed for each message into DIR and a dictionary of all field
 * names into DIR.dict; that is how tests/fuzz/seeds/msg was made.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/frame.h"
#include "proto/msg.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

static void check_round_trip(const struct msg *msg)
{
	size_t size;
	struct err err;
	struct msg again;
	uint8_t *frame = msg_encode(
		msg->type, msg->id, msg->body, msg->raw, msg->raw_size, &size, &err);

	if (!frame) /* only what grew by being written anew may be too long */
		return;
	if (msg_decode(&again, msg->type, msg->id, frame + FRAME_HEADER_SIZE,
		    size - FRAME_HEADER_SIZE, &err) < 0)
		abort();
	if (!json_equal(msg->body, again.body) || msg->raw_size != again.raw_size)
		abort();
	if (msg->raw_size && memcmp(msg->raw, again.raw, msg->raw_size))
		abort();
	msg_fini(&again);
	free(frame);
}

static void read_fields(const struct msg *msg)
{
	const struct schema *schema = schema_find(msg->type);

	for (const struct field *f = schema->fields; f->kind != FIELD_NONE; f++) {
		double sum = msg_real(msg, f->name) + (double)msg_int(msg, f->name) +
			     msg_bool(msg, f->name);
		const char *text = msg_str(msg, f->name);

		if (f->kind == FIELD_STRS)
			free(msg_strv(msg, f->name));
		if (f->required && f->kind == FIELD_STR && !text)
			abort();
		if (sum != sum)
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct msg msg;
	struct err err;

	if (size < 2)
		return 0;
	if (msg_decode(&msg, (enum msg_type)(data[0] << 8 | data[1]), 7, data + 2,
		    size - 2, &err) < 0)
		return 0;
	read_fields(&msg);
	check_round_trip(&msg);
	msg_fini(&msg);
	return 0;
}

static json_t *a_value(const struct field *f)
{
	switch (f->kind) {
	case FIELD_INT:
		return json_integer((json_int_t)f->min);
	case FIELD_REAL:
		return json_real(f->max / 2);
	case FIELD_BOOL:
		return json_true();
	case FIELD_STR:
		return json_string("text");
	case FIELD_STRS:
		return json_pack("[s, s]", "A=1", "");
	default:
		return json_pack("{s:[i]}", "x", 1);
	}
}

static void write_seed(const char *dir, const struct schema *schema, FILE *dict)
{
	json_t *body = json_object();
	uint8_t *frame;
	char path[512];
	size_t size;
	FILE *out;

	for (const struct field *f = schema->fields; f->kind != FIELD_NONE; f++) {
		json_object_set_new(body, f->name, a_value(f));
		fprintf(dict, "\"\\\"%s\\\":\"\n", f->name);
	}
	frame = msg_encode(
		schema->type, 0, body, "raw", schema->raw ? 3 : 0, &size, NULL);
	snprintf(path, sizeof(path), "%s/%s", dir, schema->name);
	out = frame ? fopen(path, "w") : NULL;
	if (!out)
		abort();
	fputc(schema->type >> 8, out);
	fputc(schema->type & 0xff, out);
	fwrite(frame + FRAME_HEADER_SIZE, 1, size - FRAME_HEADER_SIZE, out);
	fclose(out);
	free(frame);
	json_decref(body);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	const char *dir = getenv("MALLE_SEEDS");
	char path[512];
	size_t n;
	const struct schema *all = schema_all(&n);
	FILE *dict;

	if (!dir)
		return 0;
	snprintf(path, sizeof(path), "%s.dict", dir);
	dict = fopen(path, "w");
	if (!dict)
		abort();
	for (size_t i = 0; i < n; i++)
		write_seed(dir, &all[i], dict);
	fclose(dict);
	exit(0);
}
