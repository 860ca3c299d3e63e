/*
 * slurm_fields.c - what is wanted of Slurm's JSON, and records made of it.
 *
 * The versions of Slurm name things differently and nest them differently.
 * Their differences are rows here, side by side, and end in the same slot: no
 * code asks for a version.  A new version that moves a field is a new row.
 *
 *   nodes, jobs, reservations, partitions   slurmrestd, scontrol, squeue
 *   sinfo     sinfo of 23.02 and later: rows by partition and state; each name in
 *             a row becomes a node of its own, so a node repeats
 *   errors, warnings   complaints, as objects or as plain texts
 *
 * A node without a name and a job without an id are a warning and left out.
 */
#include "daemon/slurm/slurm_fields.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/* Of one value; of a hostlist, and of all in a list, such as a row of sinfo. */
enum { TEXT_MAX = 64 << 10, JOINED_MAX = 4 << 20 };

/* --- rows -------------------------------------------------------------------------- */

/* Sorted by path (strcmp); check_slurm looks each of them up. */
static const struct field_row node_rows[] = {
	{ "active_features", KIND_TEXT, T_FEATURES },
	{ "alloc_cpus", KIND_NUMBER, N_ALLOC_CPUS },
	{ "boot_time", KIND_NUMBER, N_BOOT },
	{ "cpus", KIND_NUMBER, N_CPUS },
	{ "gres", KIND_TEXT, T_GRES },
	{ "last_busy", KIND_NUMBER, N_BUSY },
	{ "name", KIND_TEXT, T_NAME },
	{ "partitions", KIND_TEXT, T_PARTITIONS },
	{ "real_memory", KIND_NUMBER, N_MEMORY_MB },
	{ "reason", KIND_TEXT, T_REASON },
	{ "reservation", KIND_TEXT, T_RESERVATION },
	{ "state", KIND_STATE, 0 },
	{ "state_flags", KIND_STATE, 0 },
};

static const struct field_row sinfo_rows[] = {
	{ "features", KIND_GROUP, 0 },
	{ "features.active", KIND_TEXT, T_FEATURES },
	{ "gres", KIND_GROUP, 0 },
	{ "gres.total", KIND_TEXT, T_GRES },
	{ "node", KIND_GROUP, 0 },
	{ "node.state", KIND_STATE, 0 },
	{ "nodes", KIND_GROUP, 0 },
	{ "nodes.nodes", KIND_TEXT, T_NAME },
	{ "partition", KIND_GROUP, 0 },
	{ "partition.name", KIND_TEXT, T_PARTITIONS },
	{ "reason", KIND_GROUP, 0 },
	{ "reason.description", KIND_TEXT, T_REASON },
	{ "reservation", KIND_TEXT, T_RESERVATION },
};

static const struct field_row job_rows[] = {
	{ "account", KIND_TEXT, T_ACCOUNT },
	{ "comment", KIND_TEXT, T_COMMENT },
	{ "end_time", KIND_NUMBER, N_END },
	{ "exit_code", KIND_NUMBER, N_EXIT },
	{ "exit_code.return_code", KIND_NUMBER, N_EXIT },
	{ "job_id", KIND_NUMBER, N_ID },
	{ "job_state", KIND_TEXT, T_STATE },
	{ "name", KIND_TEXT, T_NAME },
	{ "node_count", KIND_NUMBER, N_NODES },
	{ "nodes", KIND_TEXT, T_NODES },
	{ "partition", KIND_TEXT, T_PARTITIONS },
	{ "preempt_time", KIND_NUMBER, N_PREEMPT },
	{ "qos", KIND_TEXT, T_QOS },
	{ "scheduled_nodes", KIND_TEXT, T_PLANNED },
	{ "start_time", KIND_NUMBER, N_START },
	{ "state_reason", KIND_TEXT, T_REASON },
	{ "submit_time", KIND_NUMBER, N_SUBMIT },
	{ "user_id", KIND_NUMBER, N_UID },
	{ "user_name", KIND_TEXT, T_USER },
};

static const struct field_row reservation_rows[] = {
	{ "accounts", KIND_TEXT, T_ACCOUNT },
	{ "end_time", KIND_NUMBER, N_END },
	{ "flags", KIND_TEXT, T_FLAGS },
	{ "name", KIND_TEXT, T_NAME },
	{ "node_list", KIND_TEXT, T_NODES },
	{ "start_time", KIND_NUMBER, N_START },
	{ "users", KIND_TEXT, T_USERS },
};

static const struct field_row partition_rows[] = {
	{ "grace_time", KIND_NUMBER, N_GRACE },
	{ "max_time_limit", KIND_NUMBER, N_MAX_MIN },
	{ "maximums", KIND_GROUP, 0 },
	{ "maximums.time", KIND_NUMBER, N_MAX_MIN },
	{ "name", KIND_TEXT, T_NAME },
	{ "nodes", KIND_TEXT, T_NODES },
	{ "nodes.configured", KIND_TEXT, T_NODES },
	{ "partition", KIND_GROUP, 0 },
	{ "partition.state", KIND_TEXT, T_STATE },
	{ "preemption_grace_time", KIND_NUMBER, N_GRACE },
	{ "preemption_mode", KIND_TEXT, T_PREEMPT },
	{ "priority", KIND_GROUP, 0 },
	{ "priority.tier", KIND_NUMBER, N_TIER },
	{ "priority_tier", KIND_NUMBER, N_TIER },
	{ "state", KIND_TEXT, T_STATE },
};

static const struct field_row error_rows[] = {
	{ "description", KIND_TEXT, T_DESCRIPTION },
	{ "error", KIND_TEXT, T_ERROR },
	{ "error_code", KIND_NUMBER, N_NUMBER },
	{ "error_number", KIND_NUMBER, N_NUMBER },
	{ "source", KIND_TEXT, T_SOURCE },
};

/* The document itself, outside its lists. */
static const struct field_row top_rows[] = {
	{ "job_id", KIND_NUMBER, N_ID },
	{ "last_update", KIND_NUMBER, N_UPDATE },
	{ "meta", KIND_GROUP, 0 },
	{ "meta.Slurm", KIND_GROUP, 0 },
	{ "meta.Slurm.release", KIND_TEXT, T_RELEASE },
	{ "meta.plugin", KIND_GROUP, 0 },
	{ "meta.plugin.data_parser", KIND_TEXT, T_PLUGIN },
	{ "meta.plugin.type", KIND_TEXT, T_PLUGIN },
	{ "meta.plugins", KIND_GROUP, 0 },
	{ "meta.plugins.data_parser", KIND_TEXT, T_PLUGIN },
	{ "meta.slurm", KIND_GROUP, 0 },
	{ "meta.slurm.release", KIND_TEXT, T_RELEASE },
	{ "result", KIND_GROUP, 0 },
	{ "result.job_id", KIND_NUMBER, N_ID },
};

/* --- records ----------------------------------------------------------------------- */

void record_reset(struct record *record)
{
	for (size_t i = 0; i < N_TEXTS; i++) {
		record->text[i].size = 0;
		if (record->text[i].bytes)
			record->text[i].bytes[0] = '\0';
	}
	for (size_t i = 0; i < N_NUMBERS; i++)
		record->number[i] = NAN;
	memset(&record->state, 0, sizeof(record->state));
	record->state_is_bad = 0;
}

void record_init(struct record *record)
{
	memset(record, 0, sizeof(*record));
	record_reset(record);
}

void record_fini(struct record *record)
{
	for (size_t i = 0; i < N_TEXTS; i++)
		free(record->text[i].bytes);
}

const char *record_get(const struct record *record, enum text_slot slot)
{
	return record->text[slot].bytes ? record->text[slot].bytes : "";
}

int record_add(struct record *record, int slot, const char *bytes, size_t size)
{
	struct record_text *text = &record->text[slot];
	size_t need = text->size + size + 2;

	/* A reservation that lost its nodes would reserve none. */
	if ((size + 2 > TEXT_MAX && slot != T_NODES) || need > JOINED_MAX) {
		errno = EMSGSIZE;
		return -1;
	}
	if (need > text->room) {
		char *grown = realloc(text->bytes, need * 2);

		if (!grown)
			return -1;
		text->bytes = grown;
		text->room = need * 2;
	}
	if (text->size > 0)
		text->bytes[text->size++] = ',';
	memcpy(text->bytes + text->size, bytes, size);
	text->size += size;
	text->bytes[text->size] = '\0';
	return 0;
}

double record_time(const struct record *record, enum number_slot slot)
{
	double value = record->number[slot];

	return value == 0 ? NAN : value;
}

static int count_of(const struct record *record, enum number_slot slot)
{
	double value = record->number[slot];

	return value >= 0 && value < 1e9 ? (int)value : -1;
}

static void deliver_node(struct slurm_sink *sink, const struct record *record)
{
	struct slurm_node node = {
		.name = record_get(record, T_NAME),
		.state = record->state.state,
		.flags = record->state.flags,
		.strange = record->state.strange,
		.partitions = record_get(record, T_PARTITIONS),
		.reservation = record_get(record, T_RESERVATION),
		.features = record_get(record, T_FEATURES),
		.reason = record_get(record, T_REASON),
		.gres = record_get(record, T_GRES),
		.cpus = count_of(record, N_CPUS),
		.alloc_cpus = count_of(record, N_ALLOC_CPUS),
		.memory_bytes = record->number[N_MEMORY_MB] * (1 << 20),
		.boot_s = record_time(record, N_BOOT),
		.last_busy_s = record_time(record, N_BUSY),
	};

	if (record->state_is_bad)
		node.flags |= SLURM_FLAG_STRANGE;
	if (!node.name[0]) {
		slurm_sink_warning(sink, "node %zu has no name, left out",
			sink->summary.nodes);
		return;
	}
	slurm_sink_node(sink, &node);
}

/* A row of sinfo: its names, already joined by ',', are nodes of one state. */
static void deliver_sinfo(struct slurm_sink *sink, const struct record *record)
{
	struct record_text names = record->text[T_NAME];
	struct record one = *record;
	char *name, *rest = names.bytes;

	if (!names.size)
		return; /* a partition without nodes */
	while ((name = strsep(&rest, ","))) {
		one.text[T_NAME].bytes = name;
		deliver_node(sink, &one);
	}
}

static void deliver_job(struct slurm_sink *sink, const struct record *record)
{
	const char *word = record_get(record, T_STATE);
	double id = record->number[N_ID], uid = record->number[N_UID];
	char first[40];
	struct slurm_job job = {
		.id = id >= 1 && id < 1e15 ? (long long)id : 0,
		.state_word = word,
		.reason = record_get(record, T_REASON),
		.name = record_get(record, T_NAME),
		.comment = record_get(record, T_COMMENT),
		.partition = record_get(record, T_PARTITIONS),
		.account = record_get(record, T_ACCOUNT),
		.qos = record_get(record, T_QOS),
		.nodes = record_get(record, T_NODES),
		.planned_nodes = record_get(record, T_PLANNED),
		.user = record_get(record, T_USER),
		.uid = uid >= 0 && uid < 4294967294.0 ? (long long)uid : -1,
		.submit_s = record_time(record, N_SUBMIT),
		.start_s = record_time(record, N_START),
		.end_s = record_time(record, N_END),
		.preempt_s = record_time(record, N_PREEMPT),
		.exit_code = count_of(record, N_EXIT),
		.n_nodes = count_of(record, N_NODES),
	};

	if (job.id == 0) {
		slurm_sink_warning(sink, "job %zu has no id, left out",
			sink->summary.jobs);
		return;
	}
	/* Later words are flags of the state: "RUNNING,COMPLETING" is completing. */
	snprintf(first, sizeof(first), "%.*s", (int)strcspn(word, ","), word);
	job.state = slurm_job_state_parse(first);
	if (strstr(word, "COMPLETING"))
		job.state = SLURM_JOB_COMPLETING;
	else if (strstr(word, "REQUEUE"))
		job.state = SLURM_JOB_REQUEUED;
	else if (strstr(word, "CONFIGURING"))
		job.state = SLURM_JOB_CONFIGURING;
	slurm_sink_job(sink, &job);
}

static void deliver_reservation(struct slurm_sink *sink, const struct record *record)
{
	struct slurm_reservation reservation = {
		.name = record_get(record, T_NAME),
		.nodes = record_get(record, T_NODES),
		.flags = record_get(record, T_FLAGS),
		.users = record_get(record, T_USERS),
		.accounts = record_get(record, T_ACCOUNT),
		.start_s = record->number[N_START],
		.end_s = record->number[N_END],
	};

	slurm_sink_reservation(sink, &reservation);
}

static void deliver_partition(struct slurm_sink *sink, const struct record *record)
{
	struct slurm_partition partition = {
		.name = record_get(record, T_NAME),
		.nodes = record_get(record, T_NODES),
		.state = record_get(record, T_STATE),
		.preempt_mode = record_get(record, T_PREEMPT),
		.max_time_s = record->number[N_MAX_MIN] * 60,
		.grace_s = record->number[N_GRACE],
		.priority_tier = count_of(record, N_TIER),
	};

	slurm_sink_partition(sink, &partition);
}

static const char *complaint(const struct record *record, char *line, size_t size)
{
	const char *what = record_get(record, T_DESCRIPTION), *why = record_get(record, T_ERROR);
	const char *source = record_get(record, T_SOURCE);

	snprintf(line, size, "%s%s%s%s%s%s", what, what[0] && why[0] ? ": " : "", why,
		source[0] ? " (" : "", source, source[0] ? ")" : "");
	return line;
}

static void deliver_error(struct slurm_sink *sink, const struct record *record)
{
	char line[512];
	double number = record->number[N_NUMBER];

	slurm_sink_error(sink, complaint(record, line, sizeof(line)),
		fabs(number) < 1e9 ? (int)number : 0);
}

static void deliver_warning(struct slurm_sink *sink, const struct record *record)
{
	char line[512];

	slurm_sink_warning(sink, "%s", complaint(record, line, sizeof(line)));
}

static void deliver_error_text(struct slurm_sink *sink, const char *text)
{
	slurm_sink_error(sink, text, 0);
}

static void deliver_warning_text(struct slurm_sink *sink, const char *text)
{
	slurm_sink_warning(sink, "%s", text);
}

/* --- lists ------------------------------------------------------------------------- */

#define ROWS(rows) rows, ARRAY_SIZE(rows)
static const struct field_list lists[] = {
	{ "nodes", ROWS(node_rows), 1, deliver_node, NULL },
	{ "sinfo", ROWS(sinfo_rows), 1, deliver_sinfo, NULL },
	{ "jobs", ROWS(job_rows), 1, deliver_job, NULL },
	{ "reservations", ROWS(reservation_rows), 1, deliver_reservation, NULL },
	{ "partitions", ROWS(partition_rows), 1, deliver_partition, NULL },
	{ "errors", ROWS(error_rows), 0, deliver_error, deliver_error_text },
	{ "warnings", ROWS(error_rows), 0, deliver_warning, deliver_warning_text },
};

const struct field_list *field_list_find(const char *key)
{
	for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
		if (!strcmp(lists[i].key, key))
			return &lists[i];
	return NULL;
}

static int by_path(const void *key, const void *row)
{
	return strcmp(key, ((const struct field_row *)row)->path);
}

const struct field_row *field_find(const struct field_list *list, const char *path)
{
	return bsearch(path, list ? list->rows : top_rows,
		list ? list->n_rows : ARRAY_SIZE(top_rows), sizeof(top_rows[0]), by_path);
}

int field_has_members(const struct field_list *list, const struct field_row *row)
{
	const struct field_row *rows = list ? list->rows : top_rows;
	size_t n = list ? list->n_rows : ARRAY_SIZE(top_rows), size = strlen(row->path);

	return row + 1 < rows + n && !strncmp(row[1].path, row->path, size) &&
	       row[1].path[size] == '.';
}
