/*
 * slurm_text.c - what scontrol shows, `Key=value` after `Key=value`.
 *
 * A record begins with its name's key at the beginning of a line and ends before
 * the next one, at an empty line, or at the end; `scontrol -o` puts it on
 * one line.  Values may have blanks in them (Reason, OS, Command), so a value goes
 * on until a word with a key in front of its '='.  Of a key that comes
 * twice the first counts: what an admin wrote into a reason, further on, cannot
 * change a state.
 *
 * Sentences of Slurm's: "No nodes in the system" is an empty list; "...
 * error: ..." is an error.  A text that holds neither records nor such sentences
 * is no answer of Slurm: an error page, a table of fixed width (which cuts off
 * names and states, so nobody should read it).
 *
 * Jobs are not read from text: their names and comments are their users' words,
 * blanks, '=' and all, so a user could write a job of somebody else's there.
 *
 * An answer that does not end with its line was cut off, and says so: what is
 * missing may be half of a state, or a reservation's nodes.  A reservation is
 * whole when it says whom it is for, with a last newline or without.
 *
 * Times are local, as scontrol prints them for TZ of who reads; without a date,
 * or in words, they are not known.  Limit: RECORD_MAX bytes a line.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/slurm/slurm_fields.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

enum { RECORD_MAX = 256 << 10 };

enum text_kind { KEY_TEXT, KEY_STATE, KEY_NUMBER, KEY_TIME, KEY_LIMIT };

struct key_row {
	const char *key;
	enum text_kind kind;
	int slot;
};

static const struct key_row node_keys[] = {
	{ "NodeName", KEY_TEXT, T_NAME },
	{ "State", KEY_STATE, 0 },
	{ "Partitions", KEY_TEXT, T_PARTITIONS },
	{ "ReservationName", KEY_TEXT, T_RESERVATION },
	{ "ActiveFeatures", KEY_TEXT, T_FEATURES },
	{ "Reason", KEY_TEXT, T_REASON },
	{ "Gres", KEY_TEXT, T_GRES },
	{ "CPUTot", KEY_NUMBER, N_CPUS },
	{ "CPUAlloc", KEY_NUMBER, N_ALLOC_CPUS },
	{ "RealMemory", KEY_NUMBER, N_MEMORY_MB },
	{ "BootTime", KEY_TIME, N_BOOT },
	{ "LastBusyTime", KEY_TIME, N_BUSY },
	{ NULL, KEY_TEXT, 0 },
};

static const struct key_row reservation_keys[] = {
	{ "ReservationName", KEY_TEXT, T_NAME },
	{ "Nodes", KEY_TEXT, T_NODES },
	{ "Flags", KEY_TEXT, T_FLAGS },
	{ "Users", KEY_TEXT, T_USERS },
	{ "Accounts", KEY_TEXT, T_ACCOUNT },
	{ "StartTime", KEY_TIME, N_START },
	{ "EndTime", KEY_TIME, N_END },
	{ NULL, KEY_TEXT, 0 },
};

static const struct key_row partition_keys[] = {
	{ "PartitionName", KEY_TEXT, T_NAME },
	{ "Nodes", KEY_TEXT, T_NODES },
	{ "State", KEY_TEXT, T_STATE },
	{ "PreemptMode", KEY_TEXT, T_PREEMPT },
	{ "GraceTime", KEY_NUMBER, N_GRACE },
	{ "PriorityTier", KEY_NUMBER, N_TIER },
	{ "MaxTime", KEY_LIMIT, N_MAX_MIN },
	{ NULL, KEY_TEXT, 0 },
};

/* The first key of a record, and the list whose records it begins. */
static const struct start {
	const char *key;
	const struct key_row *rows;
	const char *list;
} starts[] = {
	{ "NodeName=", node_keys, "nodes" },
	{ "ReservationName=", reservation_keys, "reservations" },
	{ "PartitionName=", partition_keys, "partitions" },
};

struct slurm_text {
	struct slurm_sink *sink;
	char *line; /* that is coming */
	size_t size, room;
	const struct start *start; /* of the record that is open; NULL */
	struct record record;
	unsigned long seen; /* bits of the rows that had their value */
};

struct slurm_text *slurm_text_create(struct slurm_sink *sink, struct err *err)
{
	struct slurm_text *text = calloc(1, sizeof(*text));

	if (!text) {
		err_set(err, ENOMEM, "Slurm's answer: out of memory");
		return NULL;
	}
	text->sink = sink;
	record_init(&text->record);
	return text;
}

void slurm_text_destroy(struct slurm_text *text)
{
	if (!text)
		return;
	record_fini(&text->record);
	free(text->line);
	free(text);
}

/* --- values ---------------------------------------------------------------------------- */

static int is_nothing(const char *value)
{
	return !strcmp(value, "(null)") || !strcmp(value, "N/A") || !strcmp(value, "n/a");
}

static double parse_time(const char *value)
{
	struct tm tm = { .tm_isdst = -1 };
	const char *end = strptime(value, "%Y-%m-%dT%H:%M:%S", &tm);

	if (!end || *end)
		return NAN;
	tm.tm_isdst = -1;
	return (double)mktime(&tm);
}

/* "UNLIMITED", "2-00:00:00", "00:30:00" -> minutes. */
static double parse_limit_min(const char *value)
{
	int days = 0, hours, minutes, seconds;

	if (!strcmp(value, "UNLIMITED") || !strcmp(value, "INFINITE"))
		return INFINITY;
	if (sscanf(value, "%d-%d:%d:%d", &days, &hours, &minutes, &seconds) != 4) {
		days = 0;
		if (sscanf(value, "%d:%d:%d", &hours, &minutes, &seconds) != 3)
			return NAN;
	}
	return days * 1440.0 + hours * 60.0 + minutes + seconds / 60.0;
}

static void take_value(struct slurm_text *text, const struct key_row *row, const char *value)
{
	struct record *record = &text->record;
	char *end;

	switch (row->kind) {
	case KEY_TEXT:
		if (record_add(record, row->slot, value, strlen(value)) != 0)
			slurm_sink_warning(text->sink, "%s: a text that is too long", row->key);
		return;
	case KEY_STATE:
		slurm_state_text(&record->state, value);
		return;
	case KEY_NUMBER:
		record->number[row->slot] = strtod(value, &end);
		if (end == value || *end)
			record->number[row->slot] = !strcmp(value, "UNLIMITED") ? INFINITY : NAN;
		return;
	case KEY_TIME:
		record->number[row->slot] = parse_time(value);
		return;
	case KEY_LIMIT:
		record->number[row->slot] = parse_limit_min(value);
		return;
	}
}

static void take_pair(struct slurm_text *text, const char *key, const char *value)
{
	const struct key_row *rows = text->start->rows;

	for (size_t i = 0; rows[i].key; i++) {
		if (strcmp(rows[i].key, key))
			continue;
		if (!(text->seen & 1ul << i) && !is_nothing(value))
			take_value(text, &rows[i], value);
		text->seen |= 1ul << i;
		return;
	}
}

/* --- lines ------------------------------------------------------------------------------ */

static size_t key_size(const char *word)
{
	size_t n = strspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_/:");

	return n > 0 && word[n] == '=' ? n : 0;
}

/* The next word that begins with a key, or the end. */
static char *next_key(char *at)
{
	while (*at) {
		at += strcspn(at, " \t");
		at += strspn(at, " \t");
		if (key_size(at))
			break;
	}
	return at;
}

static void take_pairs(struct slurm_text *text, char *line)
{
	char *at = line + strspn(line, " \t");

	if (!key_size(at))
		at = next_key(at);
	while (*at) {
		char *key = at, *value = at + key_size(at) + 1, *end;

		at = next_key(value);
		end = at;
		while (end > value && strchr(" \t", end[-1]))
			end--;
		value[-1] = '\0';
		*end = '\0'; /* the blank before the next key, or the end */
		take_pair(text, key, value);
	}
}

static void end_record(struct slurm_text *text)
{
	if (text->start)
		field_list_find(text->start->list)->deliver(text->sink, &text->record);
	text->start = NULL;
}

static const struct start *find_start(const char *line)
{
	for (size_t i = 0; i < ARRAY_SIZE(starts); i++)
		if (!strncmp(line, starts[i].key, strlen(starts[i].key)))
			return &starts[i];
	return NULL;
}

static int take_sentence(struct slurm_text *text, const char *line, struct err *err)
{
	if (!strncmp(line, "No ", 3) && strstr(line, " in the system")) {
		text->sink->summary.has_list = 1;
		return 0;
	}
	if (strstr(line, "error: ") || strstr(line, "error:\t")) {
		slurm_sink_error(text->sink, line, 0);
		return 0;
	}
	return err_set(err, EPROTO, "\"%.40s\": neither JSON nor Key=value", line);
}

static int take_line(struct slurm_text *text, struct err *err)
{
	char *line = text->line;
	const struct start *start;

	while (text->size > 0 && strchr("\r\n \t", line[text->size - 1]))
		text->size--;
	line[text->size] = '\0';
	if (strlen(line) != text->size)
		return err_set(err, EPROTO, "a text with a zero byte in it");
	if (!line[0]) {
		end_record(text);
		return 0;
	}
	start = find_start(line);
	if (start) {
		end_record(text);
		record_reset(&text->record);
		text->seen = 0;
		text->start = start;
		text->sink->summary.has_list = 1;
	} else if (!text->start || !strchr(" \t", line[0])) {
		end_record(text);
		return take_sentence(text, line, err);
	}
	take_pairs(text, line);
	return 0;
}

static int make_room(struct slurm_text *text, size_t size, struct err *err)
{
	size_t need = text->size + size + 1;
	char *grown;

	if (need > RECORD_MAX)
		return err_set(err, EPROTO, "a line of over %d bytes", RECORD_MAX);
	if (need <= text->room)
		return 0;
	grown = realloc(text->line, need * 2);
	if (!grown)
		return err_set(err, ENOMEM, "Slurm's answer: out of memory");
	text->line = grown;
	text->room = need * 2;
	return 0;
}

int slurm_text_feed(struct slurm_text *text, const char *data, size_t size, struct err *err)
{
	while (size > 0) {
		const char *end = memchr(data, '\n', size);
		size_t n = end ? (size_t)(end - data) : size;

		if (make_room(text, n, err) != 0)
			return -1;
		memcpy(text->line + text->size, data, n);
		text->size += n;
		text->line[text->size] = '\0';
		if (!end)
			return 0;
		if (take_line(text, err) != 0)
			return -1;
		text->size = 0;
		data += n + 1;
		size -= n + 1;
	}
	return 0;
}

/* Users stands behind Nodes and Flags. */
static int reservation_is_whole(const struct slurm_text *text)
{
	const struct key_row *rows = text->start->rows;
	size_t i = 0;

	if (rows != reservation_keys)
		return 0;
	while (strcmp(rows[i].key, "Users") != 0)
		i++;
	return (text->seen & 1ul << i) != 0;
}

int slurm_text_end(struct slurm_text *text, struct err *err)
{
	int is_cut = text->size > 0;

	if (text->size > strspn(text->size ? text->line : "", " \t\r") &&
		take_line(text, err) != 0)
		return -1;
	if (text->start && (is_cut || text->start->rows == reservation_keys) &&
		!reservation_is_whole(text))
		return err_set(err, EPROTO, "its last line is cut off");
	end_record(text);
	if (!text->sink->summary.has_list && !text->sink->summary.errors)
		return err_set(err, EPROTO, "it is no answer of Slurm");
	return 0;
}
