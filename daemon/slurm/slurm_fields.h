/* slurm_fields.h - what is wanted of Slurm's JSON, and records made of it.
 *
 * For slurm_json.c only.  A list of the document has rows: a path in its
 * records, what kind of value is there, and the slot of struct record it goes to.
 */
#ifndef DAEMON_SLURM_SLURM_FIELDS_H
#define DAEMON_SLURM_SLURM_FIELDS_H

#include "daemon/slurm/slurm_read_impl.h"
#include "daemon/slurm/slurm_state.h"

enum text_slot {
	T_NAME, T_STATE, T_PARTITIONS, T_RESERVATION, T_FEATURES, T_REASON, T_GRES,
	T_COMMENT, T_ACCOUNT, T_QOS, T_NODES, T_PLANNED, T_USER, T_FLAGS, T_USERS,
	T_PREEMPT, T_RELEASE, T_PLUGIN, T_DESCRIPTION, T_ERROR, T_SOURCE, N_TEXTS,
};

enum number_slot {
	N_CPUS, N_ALLOC_CPUS, N_MEMORY_MB, N_BOOT, N_BUSY, N_ID, N_UID, N_SUBMIT, N_START,
	N_END, N_PREEMPT, N_EXIT, N_NODES, N_MAX_MIN, N_GRACE, N_TIER, N_NUMBER, N_UPDATE,
	N_NUMBERS,
};

enum field_kind {
	KIND_GROUP, /* a map with wanted paths in it */
	KIND_TEXT,  /* a string; strings in an array are joined by ',' */
	KIND_STATE, /* words of a node's state */
	KIND_NUMBER,
};

struct field_row {
	const char *path;
	enum field_kind kind;
	int slot;
};

struct record_text {
	char *bytes;
	size_t size, room;
};

struct record {
	struct record_text text[N_TEXTS];
	double number[N_NUMBERS];
	struct slurm_state state;
	int state_is_bad;
};

struct field_list {
	const char *key; /* of the document */
	const struct field_row *rows; /* sorted by path */
	size_t n_rows;
	int is_answer; /* a list of records, rather than of complaints */
	void (*deliver)(struct slurm_sink *sink, const struct record *record);
	void (*deliver_text)(struct slurm_sink *sink, const char *text); /* or NULL */
};

/* NULL: no such list. */
const struct field_list *field_list_find(const char *key);

/* list NULL: the document itself.  NULL: nobody wants what is there. */
const struct field_row *field_find(const struct field_list *list, const char *path);

/* Are there rows for what is in it, if it is an object? */
int field_has_members(const struct field_list *list, const struct field_row *row);

void record_init(struct record *record);
void record_reset(struct record *record); /* keeps its memory */
void record_fini(struct record *record);
const char *record_get(const struct record *record, enum text_slot slot);
/* Joined by ',' to what is there.  -1: ENOMEM, or EMSGSIZE: too long. */
int record_add(struct record *record, int slot, const char *bytes, size_t size);
/* A time; Slurm's 0 is "none". */
double record_time(const struct record *record, enum number_slot slot);

#endif
