/*
 * msg.c - a message: its JSON body checked against its table, its raw bytes.
 *
 * Both directions go through the same check, so what one program sends another
 * accepts.  A field that the table knows must be of its kind and in its range;
 * a field that it does not know is left alone, because a newer peer may send
 * it.  Keys that come twice are refused: two readers could take different ones.
 *
 * Numbers are what JSON and a double can both hold: integers up to 2^53, reals
 * that are finite.  An integer is accepted where a real is asked for.  Strings
 * are UTF-8 without NUL bytes, so the first NUL of a body is where raw bytes
 * begin; only messages whose table says so may have them.
 *
 * Jansson does not always say that it ran out of memory: a parse that failed
 * without a sentence is taken for that, and one may be blamed on the text.  Out
 * of memory in a parse can thus end a connection; it never passes a wrong body.
 */
#include "proto/msg.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "proto/frame.h"

static const char *const kind_names[] = {
	[FIELD_NONE] = "nothing",
	[FIELD_INT] = "an integer",
	[FIELD_REAL] = "a number",
	[FIELD_BOOL] = "true or false",
	[FIELD_STR] = "a string",
	[FIELD_STRS] = "an array of strings",
	[FIELD_JSON] = "a value",
};

static int check_range(const struct schema *schema, const struct field *field, double v,
	struct err *err)
{
	if (v >= field->min && v <= field->max)
		return 0;
	return err_set(err, EPROTO, "%s: field %s: %.17g is not in %.17g..%.17g",
		schema->name, field->name, v, field->min, field->max);
}

static int check_strings(const struct schema *schema, const struct field *field,
	const json_t *value, struct err *err)
{
	size_t count = json_array_size(value), i;
	json_t *item;

	if ((double)count < field->min || (double)count > field->max)
		return err_set(err, EPROTO, "%s: field %s: %zu strings, not %g to %g",
			schema->name, field->name, count, field->min, field->max);
	json_array_foreach (value, i, item)
		if (!json_is_string(item))
			return err_set(err, EPROTO,
				"%s: field %s: item %zu is no string", schema->name,
				field->name, i);
	return 0;
}

static int has_kind(const json_t *value, enum field_kind kind)
{
	switch (kind) {
	case FIELD_INT:
		return json_is_integer(value);
	case FIELD_REAL:
		return json_is_number(value);
	case FIELD_BOOL:
		return json_is_boolean(value);
	case FIELD_STR:
		return json_is_string(value);
	case FIELD_STRS:
		return json_is_array(value);
	case FIELD_JSON:
		return 1;
	case FIELD_NONE:
		break;
	}
	return 0;
}

static int check_field(const struct schema *schema, const struct field *field,
	const json_t *value, struct err *err)
{
	if (!value) {
		if (!field->required)
			return 0;
		return err_set(err, EPROTO, "%s: field %s is missing", schema->name,
			field->name);
	}
	if (!has_kind(value, field->kind))
		return err_set(err, EPROTO, "%s: field %s is not %s", schema->name,
			field->name, kind_names[field->kind]);
	switch (field->kind) {
	case FIELD_INT:
	case FIELD_REAL:
		return check_range(schema, field, json_number_value(value), err);
	case FIELD_STR:
		if ((double)json_string_length(value) <= field->max)
			return 0;
		return err_set(err, EPROTO, "%s: field %s: %zu bytes are over %.0f",
			schema->name, field->name, json_string_length(value),
			field->max);
	case FIELD_STRS:
		return check_strings(schema, field, value, err);
	default:
		return 0;
	}
}

static int check_body(const struct schema *schema, const json_t *body, size_t raw_size,
	struct err *err)
{
	if (!json_is_object(body))
		return err_set(err, EPROTO, "%s: the body is no object", schema->name);
	if (raw_size && !schema->raw)
		return err_set(err, EPROTO, "%s: %zu raw bytes where none belong",
			schema->name, raw_size);
	for (const struct field *f = schema->fields; f->kind != FIELD_NONE; f++)
		if (check_field(schema, f, json_object_get(body, f->name), err) < 0)
			return -1;
	return 0;
}

static json_t *parse_body(
	const struct schema *schema, const uint8_t *body, size_t size, struct err *err)
{
	json_error_t why;
	json_t *json = json_loadb(size ? (const char *)body : "", size,
		JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &why);
	enum json_error_code code;

	if (json)
		return json;
	code = json_error_code(&why);
	if (code == json_error_out_of_memory || !*why.text)
		err_set(err, ENOMEM, "%s: out of memory", schema->name);
	else
		err_set(err, EPROTO, "%s: body: byte %d: %s", schema->name,
			why.position, why.text);
	return NULL;
}

int msg_decode(struct msg *msg, enum msg_type type, uint32_t id, const uint8_t *body,
	size_t size, struct err *err)
{
	const struct schema *schema = schema_find(type);
	const uint8_t *nul = size ? memchr(body, 0, size) : NULL;
	size_t json_size = nul ? (size_t)(nul - body) : size;
	size_t raw_size = nul ? size - json_size - 1 : 0;
	json_t *json;

	if (!schema)
		return err_set(err, EPROTO, "message %u is unknown", (unsigned)type);
	if (nul && !schema->raw)
		return err_set(err, EPROTO, "%s: byte %zu of the body is NUL",
			schema->name, json_size);
	json = parse_body(schema, body, json_size, err);
	if (!json)
		return -1;
	if (check_body(schema, json, raw_size, err) < 0) {
		json_decref(json);
		return -1;
	}
	*msg = (struct msg){
		.type = type,
		.id = id,
		.body = json,
		.raw = raw_size ? nul + 1 : NULL,
		.raw_size = raw_size,
	};
	return 0;
}

void msg_fini(struct msg *msg)
{
	json_decref(msg->body);
	*msg = (struct msg){ .type = MSG_UNSET };
}

/* The JSON goes where it stays: its size first, then its bytes. */
static uint8_t *make_frame(const struct schema *schema, uint32_t id, const json_t *json,
	const void *raw, size_t raw_size, size_t *size, struct err *err)
{
	size_t json_size = json_dumpb(json, NULL, 0, JSON_COMPACT);
	size_t body_size = json_size + (raw_size ? 1 + raw_size : 0);
	struct frame_header header = {
		.magic = FRAME_MAGIC,
		.version = PROTO_VERSION,
		.type = (uint16_t)schema->type,
		.length = (uint32_t)body_size,
		.id = id,
	};
	uint8_t *frame, *body;

	if (body_size > FRAME_BODY_MAX || raw_size > FRAME_BODY_MAX) {
		err_set(err, EMSGSIZE, "%s: a body of %zu bytes is over %u",
			schema->name, body_size, FRAME_BODY_MAX);
		return NULL;
	}
	frame = json_size ? malloc(FRAME_HEADER_SIZE + body_size) : NULL;
	if (!frame)
		goto no_memory;
	body = frame + FRAME_HEADER_SIZE;
	frame_encode(&header, frame);
	if (json_dumpb(json, (char *)body, json_size, JSON_COMPACT) != json_size)
		goto no_memory;
	if (raw_size) {
		body[json_size] = 0;
		memcpy(body + json_size + 1, raw, raw_size);
	}
	*size = FRAME_HEADER_SIZE + body_size;
	return frame;

no_memory:
	free(frame);
	err_set(err, ENOMEM, "%s: out of memory", schema->name);
	return NULL;
}

uint8_t *msg_encode(enum msg_type type, uint32_t id, const json_t *body,
	const void *raw, size_t raw_size, size_t *size, struct err *err)
{
	const struct schema *schema = schema_find(type);
	json_t *none = NULL;
	uint8_t *frame = NULL;

	if (!schema) {
		err_set(err, EINVAL, "message %u is unknown", (unsigned)type);
		return NULL;
	}
	if (!body)
		body = none = json_object();
	if (!body) {
		err_set(err, ENOMEM, "%s: out of memory", schema->name);
		return NULL;
	}
	if (check_body(schema, body, raw_size, err) < 0)
		errno = EINVAL;
	else
		frame = make_frame(schema, id, body, raw, raw_size, size, err);
	json_decref(none);
	return frame;
}

static const json_t *get(const struct msg *msg, const char *field)
{
	return json_object_get(msg->body, field);
}

long long msg_int(const struct msg *msg, const char *field)
{
	return json_integer_value(get(msg, field));
}

double msg_real(const struct msg *msg, const char *field)
{
	return json_number_value(get(msg, field));
}

int msg_bool(const struct msg *msg, const char *field)
{
	return json_is_true(get(msg, field));
}

const char *msg_str(const struct msg *msg, const char *field)
{
	return json_string_value(get(msg, field));
}

const json_t *msg_json(const struct msg *msg, const char *field)
{
	return get(msg, field);
}

int msg_has(const struct msg *msg, const char *field)
{
	return get(msg, field) != NULL;
}

char **msg_strv(const struct msg *msg, const char *field)
{
	const json_t *list = get(msg, field);
	size_t count = json_array_size(list), i;
	size_t size = (count + 1) * sizeof(char *);
	json_t *item;
	char **strv, *to;

	json_array_foreach (list, i, item)
		size += json_string_length(item) + 1;
	strv = malloc(size);
	if (!strv)
		return NULL;
	to = (char *)(strv + count + 1);
	json_array_foreach (list, i, item) {
		strv[i] = to;
		memcpy(to, json_string_value(item), json_string_length(item) + 1);
		to += json_string_length(item) + 1;
	}
	strv[count] = NULL;
	return strv;
}
