/*
 * slurm_json.c - Slurm's JSON answers, read as they stream in.
 *
 * libyajl tells of keys and values; nothing of the document is kept but the
 * record that is being read, so memory does not grow with the answer.  What is
 * wanted of a record, and where in it that is, are the rows of slurm_fields.c.
 * What a value looks like is settled here:
 *
 *   - state: a lower-case word beside an array state_flags, or one array;
 *   - numbers: plain, null, sentinels (NO_VAL, INFINITE of 32 and 64 bits), text,
 *     or {set, infinite, number} with its keys in any order;
 *
 * A subtree of which no row knows is passed over by counting its brackets.  A
 * value that is not of its row's kind is a warning, and counts as not said; a
 * state that cannot be read makes its node strange.  The tokens Infinity and NaN,
 * which Slurm prints and JSON does not know, become null on the way in.
 *
 * Limits: DEPTH_MAX brackets, 64 KiB of one value (slurm_fields.c).
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <yajl/yajl_parse.h>

#include "daemon/slurm/slurm_fields.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

enum { DEPTH_MAX = 64, PATH_MAX_BYTES = 96, TOKEN_MAX = 12 };

struct slurm_json {
	struct slurm_sink *sink;
	yajl_handle yajl;
	unsigned long long offset; /* bytes given to yajl */

	int depth;               /* open brackets */
	size_t n_records;        /* of the list, before this one */
	int passing_at;          /* depth of the bracket that is passed over; 0: none */
	const struct field_list *list; /* NULL: outside */
	char path[PATH_MAX_BYTES];
	size_t base[DEPTH_MAX + 1];           /* bytes of path at each depth */
	const struct field_row *rows[DEPTH_MAX + 1]; /* of the key at each depth */
	struct record record;                 /* of a list */
	struct record top;

	/* {set, infinite, number} */
	int number_at; /* depth; 0: none */
	int is_set, is_infinite;
	double number;
	const char *member;

	/* the filter of Infinity and NaN */
	int in_string, escaped;
	char token[TOKEN_MAX];
	size_t n_token;
	char *filtered;
	size_t filtered_room;

	struct err why; /* a callback's reason to stop */
};

static struct record *record_of(struct slurm_json *json)
{
	return json->list ? &json->record : &json->top;
}

/* --- values ------------------------------------------------------------------------- */

static void bad_value(struct slurm_json *json, const struct field_row *row, const char *what)
{
	slurm_sink_warning(json->sink, "%s[%zu].%s: %s",
		json->list ? json->list->key : "answer",
		json->n_records,
		row->path, what);
	/* What might say no must not be lost. */
	if (row->kind == KIND_STATE || (row->kind == KIND_TEXT &&
			(row->slot == T_RESERVATION || row->slot == T_PARTITIONS)))
		record_of(json)->state_is_bad = 1;
}

/* What Slurm writes for "not set" and "no limit" where it writes plain numbers. */
static double number_of(double value)
{
	if (value == 4294967294.0 || value >= 18446744073709551614.0)
		return NAN;
	if (value == 4294967295.0)
		return INFINITY;
	return value;
}

static void set_number(struct slurm_json *json, const struct field_row *row, double value)
{
	record_of(json)->number[row->slot] = value;
}

static void take_text(
	struct slurm_json *json, const struct field_row *row, const char *bytes, size_t size)
{
	struct record *record = record_of(json);
	char copy[32], *end;

	switch (row->kind) {
	case KIND_TEXT:
		if (memchr(bytes, '\0', size))
			bad_value(json, row, "a text with a zero byte in it");
		else if (record_add(record, row->slot, bytes, size) != 0)
			bad_value(json, row, "a text that is too long");
		return;
	case KIND_STATE:
		slurm_state_word(&record->state, bytes, size);
		return;
	case KIND_NUMBER:
		snprintf(copy, sizeof(copy), "%.*s", size < 31 ? (int)size : 31, bytes);
		if (!strcasecmp(copy, "infinite") || !strcasecmp(copy, "unlimited")) {
			set_number(json, row, INFINITY);
			return;
		}
		set_number(json, row, number_of(strtod(copy, &end)));
		if (end == copy || *end) {
			set_number(json, row, NAN);
			bad_value(json, row, "a text instead of a number");
		}
		return;
	case KIND_GROUP:
		return;
	}
}

/* --- callbacks of yajl: 0 stops ------------------------------------------------------ */

static int stop(struct slurm_json *json, const char *what)
{
	err_set(&json->why, EPROTO, "%s", what);
	return 0;
}

/* The row that a value is for; NULL: nobody wants it. */
static const struct field_row *row_here(struct slurm_json *json)
{
	return json->passing_at ? NULL : json->rows[json->depth];
}

static int on_null(void *arg)
{
	struct slurm_json *json = arg;
	const struct field_row *row = row_here(json);

	if (json->depth == 0)
		return stop(json, "it is no object");
	if (row && row->kind == KIND_STATE)
		bad_value(json, row, "it is null");
	return 1;
}

static int on_boolean(void *arg, int value)
{
	struct slurm_json *json = arg;
	const struct field_row *row;

	if (json->depth == 0)
		return stop(json, "it is no object");
	if (json->number_at && json->depth == json->number_at && json->member) {
		if (!strcmp(json->member, "set"))
			json->is_set = value;
		else if (!strcmp(json->member, "infinite"))
			json->is_infinite = value;
		return 1;
	}
	row = row_here(json);
	if (row)
		bad_value(json, row, "it is true or false");
	return 1;
}

static int on_number(void *arg, const char *digits, size_t size)
{
	struct slurm_json *json = arg;
	const struct field_row *row;
	char copy[40];
	double value;

	if (json->depth == 0)
		return stop(json, "it is no object");
	row = row_here(json);
	if (!row && !json->number_at)
		return 1;
	snprintf(copy, sizeof(copy), "%.*s", size < 39 ? (int)size : 39, digits);
	value = strtod(copy, NULL);
	if (json->number_at && json->depth == json->number_at && json->member) {
		if (!strcmp(json->member, "number"))
			json->number = value;
		return 1;
	}
	if (row && row->kind == KIND_NUMBER)
		set_number(json, row, number_of(value));
	else if (row)
		bad_value(json, row, "it is a number");
	return 1;
}

static int on_string(void *arg, const unsigned char *bytes, size_t size)
{
	struct slurm_json *json = arg;
	const struct field_row *row = row_here(json);
	char line[256];

	if (json->depth == 0)
		return stop(json, "it is no object");
	if (row) {
		take_text(json, row, (const char *)bytes, size);
	} else if (json->list && json->depth == 2 && json->list->deliver_text) {
		snprintf(line, sizeof(line), "%.*s", size < 255 ? (int)size : 255,
			(const char *)bytes);
		json->list->deliver_text(json->sink, line);
	}
	return 1;
}

static const char *number_member(const unsigned char *key, size_t size)
{
	static const char *const members[] = { "set", "infinite", "number" };

	for (size_t i = 0; i < ARRAY_SIZE(members); i++)
		if (strlen(members[i]) == size && !memcmp(members[i], key, size))
			return members[i];
	return NULL;
}

static int on_key(void *arg, const unsigned char *key, size_t size)
{
	struct slurm_json *json = arg;
	size_t at = json->base[json->depth];

	json->member = NULL;
	if (json->passing_at)
		return 1;
	json->rows[json->depth] = NULL;
	if (json->number_at == json->depth)
		json->member = number_member(key, size);
	if (json->member)
		return 1;
	json->path[at] = '\0'; /* the key before is over, whatever this one is */
	if (at + size + 2 > sizeof(json->path) || memchr(key, '\0', size))
		return 1;
	if (at > 0)
		json->path[at++] = '.';
	memcpy(json->path + at, key, size);
	json->path[at + size] = '\0';
	json->rows[json->depth] = field_find(json->list, json->path);
	return 1;
}

/* The path of the key at this depth begins every path below it. */
static int open_bracket(struct slurm_json *json, const struct field_row *row)
{
	if (json->depth == DEPTH_MAX)
		return stop(json, "too many brackets in brackets");
	json->depth++;
	json->base[json->depth] = strlen(json->path);
	json->rows[json->depth] = row;
	return 1;
}

static int on_map(void *arg)
{
	struct slurm_json *json = arg;
	const struct field_row *row = row_here(json);
	int is_record = json->list && json->depth == 2 && !json->passing_at;
	int is_wanted = json->depth == 0 || is_record ||
			(row && (row->kind == KIND_GROUP || row->kind == KIND_NUMBER ||
					field_has_members(json->list, row)));

	if (!open_bracket(json, NULL))
		return 0;
	if (json->passing_at)
		return 1;
	if (is_record) {
		record_reset(&json->record);
		json->path[0] = '\0';
		json->base[json->depth] = 0;
	} else if (!is_wanted) {
		if (row)
			bad_value(json, row, "it is an object");
		json->passing_at = json->depth;
	} else if (row && row->kind == KIND_NUMBER) {
		json->number_at = json->depth;
		json->is_set = 1;
		json->is_infinite = 0;
		json->number = NAN;
	}
	return 1;
}

/* `infinite` counts before `set`, whichever came first. */
static void end_number(struct slurm_json *json)
{
	const struct field_row *row = json->rows[json->depth];

	json->number_at = 0;
	if (!row || row->kind != KIND_NUMBER)
		return;
	if (json->is_infinite)
		set_number(json, row, INFINITY);
	else if (json->is_set && !isnan(json->number))
		set_number(json, row, number_of(json->number));
}

static void end_record(struct slurm_json *json)
{
	json->list->deliver(json->sink, &json->record);
	json->n_records++;
}

static int on_map_end(void *arg)
{
	struct slurm_json *json = arg;
	int ended = json->depth--;

	if (json->passing_at) {
		if (json->passing_at == ended)
			json->passing_at = 0;
		return 1;
	}
	json->path[json->base[ended]] = '\0';
	if (json->number_at == ended)
		end_number(json);
	else if (json->list && json->depth == 2)
		end_record(json);
	return 1;
}

static int on_array(void *arg)
{
	struct slurm_json *json = arg;
	const struct field_row *row = row_here(json);
	const struct field_list *list = NULL;

	if (json->depth == 0)
		return stop(json, "it is no object");
	if (json->depth == 1 && !json->passing_at)
		list = field_list_find(json->path);
	if (!open_bracket(json, row)) /* elements are for the same row */
		return 0;
	if (json->passing_at)
		return 1;
	if (list) {
		json->list = list;
		json->n_records = 0;
		json->rows[json->depth] = NULL;
		json->sink->summary.has_list |= list->is_answer;
	} else if (!row || (row->kind != KIND_TEXT && row->kind != KIND_STATE)) {
		if (row)
			bad_value(json, row, "it is a list");
		json->passing_at = json->depth;
	}
	return 1;
}

static int on_array_end(void *arg)
{
	struct slurm_json *json = arg;
	int ended = json->depth--;

	if (json->passing_at == ended)
		json->passing_at = 0;
	if (json->depth == 1 && json->list) {
		json->list = NULL;
		json->path[0] = '\0';
		json->rows[1] = NULL;
	}
	return 1;
}

static const yajl_callbacks callbacks = {
	.yajl_null = on_null,
	.yajl_boolean = on_boolean,
	.yajl_number = on_number,
	.yajl_string = on_string,
	.yajl_start_map = on_map,
	.yajl_map_key = on_key,
	.yajl_end_map = on_map_end,
	.yajl_start_array = on_array,
	.yajl_end_array = on_array_end,
};

/* --- the filter ---------------------------------------------------------------------- */

static int is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '+';
}

static size_t end_token(struct slurm_json *json, char *out)
{
	static const char *const no_numbers[] = { "Infinity", "-Infinity", "+Infinity", "inf",
		"-inf", "NaN", "-NaN", "nan", "-nan" };
	size_t n = json->n_token;

	json->n_token = 0;
	for (size_t i = 0; i < ARRAY_SIZE(no_numbers); i++)
		if (strlen(no_numbers[i]) == n && !memcmp(no_numbers[i], json->token, n)) {
			memcpy(out, "null", 4);
			return 4;
		}
	memcpy(out, json->token, n);
	return n;
}

/* out has room for size + TOKEN_MAX bytes and one for each token that grows. */
static size_t filter(struct slurm_json *json, const char *data, size_t size, char *out)
{
	size_t n = 0;

	for (size_t i = 0; i < size; i++) {
		char c = data[i];

		if (json->in_string) {
			if (json->escaped)
				json->escaped = 0;
			else if (c == '\\')
				json->escaped = 1;
			else if (c == '"')
				json->in_string = 0;
		} else if (is_letter(c) && json->n_token < TOKEN_MAX) {
			json->token[json->n_token++] = c;
			continue;
		} else {
			if (json->n_token)
				n += end_token(json, out + n);
			json->in_string = c == '"';
		}
		out[n++] = c;
	}
	return n;
}

/* --- the reader ---------------------------------------------------------------------- */

struct slurm_json *slurm_json_create(struct slurm_sink *sink, struct err *err)
{
	struct slurm_json *json = calloc(1, sizeof(*json));

	if (json)
		json->yajl = yajl_alloc(&callbacks, NULL, json);
	if (!json || !json->yajl) {
		free(json);
		err_set(err, ENOMEM, "Slurm's answer: out of memory");
		return NULL;
	}
	/* An admin's comment in another encoding is no reason to lose the view. */
	yajl_config(json->yajl, yajl_dont_validate_strings, 1);
	json->sink = sink;
	record_init(&json->record);
	record_init(&json->top);
	return json;
}

void slurm_json_destroy(struct slurm_json *json)
{
	if (!json)
		return;
	yajl_free(json->yajl);
	record_fini(&json->record);
	record_fini(&json->top);
	free(json->filtered);
	free(json);
}

static int fail(struct slurm_json *json, struct err *err)
{
	if (json->why.text[0])
		return err_set(err, EPROTO, "near byte %llu: %s",
			json->offset + yajl_get_bytes_consumed(json->yajl), json->why.text);
	return err_set(err, EPROTO, "near byte %llu: it is no JSON, or was cut off",
		json->offset + yajl_get_bytes_consumed(json->yajl));
}

int slurm_json_feed(struct slurm_json *json, const char *data, size_t size, struct err *err)
{
	size_t need = size + 4 * TOKEN_MAX + size / 3, n;

	if (need > json->filtered_room) {
		char *grown = realloc(json->filtered, need);

		if (!grown)
			return err_set(err, ENOMEM, "Slurm's answer: out of memory");
		json->filtered = grown;
		json->filtered_room = need;
	}
	n = filter(json, data, size, json->filtered);
	if (yajl_parse(json->yajl, (unsigned char *)json->filtered, n) != yajl_status_ok)
		return fail(json, err);
	json->offset += n;
	return 0;
}

int slurm_json_end(struct slurm_json *json, struct err *err)
{
	struct slurm_summary *summary = &json->sink->summary;
	double id = json->top.number[N_ID];
	char rest[TOKEN_MAX];
	size_t n = end_token(json, rest);

	snprintf(summary->release, sizeof(summary->release), "%s",
		record_get(&json->top, T_RELEASE));
	snprintf(summary->plugin, sizeof(summary->plugin), "%s",
		record_get(&json->top, T_PLUGIN));
	summary->last_update_s = record_time(&json->top, N_UPDATE);
	summary->job_id = id >= 1 && id < 1e15 ? (long long)id : 0;
	if (n > 0 && yajl_parse(json->yajl, (unsigned char *)rest, n) != yajl_status_ok)
		return fail(json, err);
	if (yajl_complete_parse(json->yajl) != yajl_status_ok || json->depth > 0)
		return fail(json, err);
	if (!summary->has_list && !summary->errors && !summary->release[0] &&
		!summary->plugin[0] && !summary->job_id)
		return err_set(err, EPROTO, "it is JSON, but no answer of Slurm");
	return 0;
}
