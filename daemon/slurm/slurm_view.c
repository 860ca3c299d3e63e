/*
 * slurm_view.c - one captured answer of Slurm, normalised, as JSON.
 *
 * What an operator looks at when a verdict surprises: the same readers and the
 * same first rules as the daemon's, on a file, without a configuration.
 *
 * A node that stands under several partitions is one node here.  Merging never
 * makes it more eligible: flags add up, a reservation stays, and two different
 * base states are UNKNOWN.
 *
 * Of an answer that breaks off nothing is believed: its nodes are shown, with
 * the reason BROKEN_ANSWER.
 */
#include "daemon/slurm/slurm_view.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "daemon/slurm/slurm_read.h"
#include "daemon/slurm/slurm_rules.h"
#include "daemon/slurm/slurm_state.h"
#include "proto/nodeset.h"

enum { CHUNK = 64 << 10 };

struct seen_node {
	char *name, *partitions, *reservation, *strange;
	enum slurm_node_state state;
	uint32_t flags;
};

struct view {
	struct seen_node *nodes;
	size_t n_nodes, room;
	json_t *jobs, *reservations, *partitions, *errors;
	int no_memory;
};

/* JSON is UTF-8; what Slurm says need not be. */
static json_t *text(const char *bytes)
{
	json_t *value = json_string(bytes);
	char *copy;

	if (value)
		return value;
	copy = strdup(bytes);
	for (char *p = copy; p && *p; p++)
		if ((unsigned char)*p >= 0x80 || (unsigned char)*p < ' ')
			*p = '?';
	value = copy ? json_string(copy) : NULL;
	free(copy);
	return value;
}

static json_t *seconds(double value)
{
	return isfinite(value) ? json_real(value) : json_null();
}

static json_t *count(long long value)
{
	return value >= 0 ? json_integer(value) : json_null();
}

static void append(struct view *view, json_t *list, json_t *value_take)
{
	if (json_array_append_new(list, value_take) != 0)
		view->no_memory = 1;
}

/* --- records ------------------------------------------------------------------------- */

static void on_node(const struct slurm_node *node, void *arg)
{
	struct view *view = arg;
	struct seen_node *seen;

	if (view->n_nodes == view->room) {
		size_t room = view->room ? 2 * view->room : 256;
		struct seen_node *grown = realloc(view->nodes, room * sizeof(*grown));

		if (!grown) {
			view->no_memory = 1;
			return;
		}
		view->nodes = grown;
		view->room = room;
	}
	seen = &view->nodes[view->n_nodes++];
	*seen = (struct seen_node){
		.name = strdup(node->name),
		.partitions = strdup(node->partitions),
		.reservation = strdup(node->reservation),
		.strange = strdup(node->strange),
		.state = node->state,
		.flags = node->flags,
	};
	if (!seen->name || !seen->partitions || !seen->reservation || !seen->strange) {
		free(seen->name);
		free(seen->partitions);
		free(seen->reservation);
		free(seen->strange);
		view->n_nodes--;
		view->no_memory = 1;
	}
}

static void on_job(const struct slurm_job *job, void *arg)
{
	struct view *view = arg;
	char state[40];

	snprintf(state, sizeof(state), "%.*s", (int)strcspn(job->state_word, ", "),
		job->state_word);
	append(view, view->jobs,
		json_pack("{s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "id",
			(json_int_t)job->id, "name", text(job->name), "state", text(state),
			"reason", text(job->reason), "user", text(job->user), "uid",
			count(job->uid), "partition", text(job->partition), "nodes",
			text(job->nodes), "n_nodes", count(job->n_nodes), "submit_s",
			seconds(job->submit_s), "start_s", seconds(job->start_s), "end_s",
			seconds(job->end_s)));
}

static void on_reservation(const struct slurm_reservation *reservation, void *arg)
{
	struct view *view = arg;

	append(view, view->reservations,
		json_pack("{s:o, s:o, s:o, s:o, s:o}", "name", text(reservation->name), "nodes",
			text(reservation->nodes), "flags", text(reservation->flags), "start_s",
			seconds(reservation->start_s), "end_s", seconds(reservation->end_s)));
}

static void on_partition(const struct slurm_partition *partition, void *arg)
{
	struct view *view = arg;

	append(view, view->partitions,
		json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "name", text(partition->name), "nodes",
			text(partition->nodes), "state", text(partition->state), "max_time_s",
			seconds(partition->max_time_s), "grace_s", seconds(partition->grace_s),
			"priority_tier", count(partition->priority_tier)));
}

static void on_error(const char *line, int number, void *arg)
{
	struct view *view = arg;

	append(view, view->errors, text(line));
}

/* --- nodes, once each ------------------------------------------------------------------ */

static int by_name(const void *a, const void *b)
{
	return nodeset_compare(
		((const struct seen_node *)a)->name, ((const struct seen_node *)b)->name);
}

static json_t *flags_json(const struct seen_node *seen)
{
	json_t *flags = json_array();

	for (uint32_t bit = SLURM_FLAG_STRANGE << 1; bit; bit <<= 1)
		if (seen->flags & bit)
			json_array_append_new(flags, json_string(slurm_flag_name(bit)));
	if (seen->strange[0])
		json_array_append_new(flags, text(seen->strange));
	return flags;
}

static json_t *node_json(const struct seen_node *seen, json_t *partitions_take, int usable)
{
	struct slurm_node node = {
		.name = seen->name,
		.state = seen->state,
		.flags = seen->flags,
		.reservation = seen->reservation,
	};
	struct slurm_verdict verdict = slurm_rules_plain(&node);

	if (!usable)
		verdict = (struct slurm_verdict){ 0, "BROKEN_ANSWER" };
	return json_pack("{s:o, s:s, s:o, s:b, s:s, s:o}", "name", text(seen->name), "state",
		slurm_node_state_name(seen->state), "flags", flags_json(seen), "eligible",
		verdict.eligible, "reason", verdict.reason, "partitions", partitions_take);
}

static void add_partitions(json_t *list, const char *names)
{
	for (;;) {
		size_t n = strcspn(names, ","), i;
		char name[256];

		snprintf(name, sizeof(name), "%.*s", (int)(n < 255 ? n : 255), names);
		for (i = 0; i < json_array_size(list); i++)
			if (!strcmp(json_string_value(json_array_get(list, i)), name))
				break;
		if (n > 0 && i == json_array_size(list))
			json_array_append_new(list, text(name));
		if (!names[n])
			return;
		names += n + 1;
	}
}

static void merge(struct seen_node *into, const struct seen_node *other)
{
	if (into->state != other->state)
		into->state = SLURM_NODE_UNKNOWN;
	into->flags |= other->flags;
	if (!into->reservation[0] && other->reservation[0])
		into->flags |= SLURM_FLAG_RESERVED;
}

static json_t *nodes_json(struct view *view, int usable)
{
	json_t *list = json_array();

	if (view->n_nodes > 0)
		qsort(view->nodes, view->n_nodes, sizeof(*view->nodes), by_name);
	for (size_t i = 0, next; i < view->n_nodes; i = next) {
		json_t *partitions = json_array();

		add_partitions(partitions, view->nodes[i].partitions);
		for (next = i + 1;
			next < view->n_nodes && !strcmp(view->nodes[next].name, view->nodes[i].name);
			next++) {
			merge(&view->nodes[i], &view->nodes[next]);
			add_partitions(partitions, view->nodes[next].partitions);
		}
		append(view, list, node_json(&view->nodes[i], partitions, usable));
	}
	return list;
}

/* --- the file --------------------------------------------------------------------------- */

static const struct slurm_read_handlers handlers = {
	.on_node = on_node,
	.on_job = on_job,
	.on_reservation = on_reservation,
	.on_partition = on_partition,
	.on_error = on_error,
};

/* 0: read to the end; 1: it is no answer (err); -1: it cannot be read (err). */
static int read_all(gzFile file, const char *path, struct slurm_reader *reader,
	struct slurm_summary *summary, struct err *err)
{
	char chunk[CHUNK];
	int n, rc = 0, gz = Z_OK;
	struct err ignored;

	errno = 0;
	while (rc == 0 && (n = gzread(file, chunk, sizeof(chunk))) != 0) {
		if (n < 0 && errno != 0)
			return err_set(err, errno, "%s: read: %s", path, strerror(errno));
		if (n < 0)
			rc = err_set(err, EPROTO, "%s", gzerror(file, &gz));
		else
			rc = slurm_reader_feed(reader, chunk, (size_t)n, err);
	}
	/* gzread takes the place where a file was cut off for its end. */
	if (rc == 0) {
		gzerror(file, &gz);
		if (gz == Z_BUF_ERROR)
			rc = err_set(err, EPROTO, "the compressed data was cut off");
	}
	return slurm_reader_end(reader, summary, rc == 0 ? err : &ignored) != 0 || rc != 0;
}

static json_t *view_json(struct view *view, const struct slurm_summary *summary, int usable)
{
	char source[80];
	json_t *json;

	snprintf(source, sizeof(source), "%s%s%s",
		summary->form == SLURM_FORM_JSON ? "json"
			: summary->form == SLURM_FORM_SCONTROL ? "scontrol" : "unknown",
		summary->release[0] ? ", Slurm " : "", summary->release);
	json = json_pack("{s:o, s:o, s:O, s:O, s:O, s:O}", "source", text(source), "nodes",
		nodes_json(view, usable), "jobs", view->jobs, "reservations",
		view->reservations, "partitions", view->partitions, "errors", view->errors);
	if (view->no_memory) {
		json_decref(json);
		return NULL;
	}
	return json;
}

static void view_fini(struct view *view)
{
	for (size_t i = 0; i < view->n_nodes; i++) {
		free(view->nodes[i].name);
		free(view->nodes[i].partitions);
		free(view->nodes[i].reservation);
		free(view->nodes[i].strange);
	}
	free(view->nodes);
	json_decref(view->jobs);
	json_decref(view->reservations);
	json_decref(view->partitions);
	json_decref(view->errors);
}

static json_t *read_view(
	struct view *view, gzFile file, const char *path, int *usable, struct err *err)
{
	struct slurm_reader *reader =
		slurm_reader_create(SLURM_FORM_GUESS, &handlers, view, err);
	struct slurm_summary summary;
	struct err why = { "" };
	json_t *json;
	int rc;

	if (!reader)
		return NULL;
	rc = read_all(file, path, reader, &summary, &why);
	slurm_reader_destroy(reader);
	if (rc < 0) {
		err_set(err, errno, "%s", why.text);
		return NULL;
	}
	*usable = rc == 0 &&
		  (summary.errors == 0 || summary.nodes + summary.jobs +
				  summary.reservations + summary.partitions > 0);
	if (rc > 0)
		append(view, view->errors, text(why.text));
	json = view_json(view, &summary, rc == 0);
	if (!json)
		err_set(err, ENOMEM, "%s: out of memory", path);
	return json;
}

json_t *slurm_view_read(const char *path, int *usable, struct err *err)
{
	struct view view = { NULL, 0, 0, json_array(), json_array(), json_array(),
		json_array(), 0 };
	json_t *json = NULL;
	gzFile file;

	errno = 0;
	file = strcmp(path, "-") ? gzopen(path, "rbe") : gzdopen(dup(STDIN_FILENO), "rb");
	if (!file) {
		err_set(err, errno ? errno : ENOMEM, "%s: open: %s", path,
			strerror(errno ? errno : ENOMEM));
	} else {
		json = read_view(&view, file, path, usable, err);
		gzclose(file);
	}
	view_fini(&view);
	return json;
}
