/*
 * fmt_text.c - what the daemon says, as tables for people.
 *
 * A table of jobs has to fit 80 columns, and names come as long as people make
 * them: names and users are cut, numbers are rounded to four characters
 * (fmt_value.c) and never cut.  What is here for the eye is not for scripts;
 * they have --json, which rounds and cuts nothing.
 *
 * The daemon may be of another version than we: a value that is not there is a
 * dash, not a reason to fail.
 */
#include "cli/fmt.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* One line, cut to the width, without what a terminal would act on. */
static void put_line(const struct style *style, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
static void put_line(const struct style *style, const char *fmt, ...)
{
	char line[1024];
	va_list ap;
	size_t size;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	size = strlen(line);
	for (size_t i = 0; i < size; i++)
		if ((unsigned char)line[i] < ' ' || line[i] == 0x7f)
			line[i] = '?';
	if (size > (size_t)style->width)
		size = style->width;
	fprintf(style->out, "%.*s\n", (int)size, line);
}

/* --- jobs -------------------------------------------- */

static const struct table_column job_columns[] = {
	{ "ID", TABLE_RIGHT },
	{ "NAME", TABLE_CUT },
	{ "USER", TABLE_LATE },
	{ "STATE", TABLE_STATE },
	{ "NODES", TABLE_RIGHT },
	{ "GEN", TABLE_RIGHT },
	{ "RATE/s", TABLE_RIGHT },
	{ "SAMPLES", TABLE_RIGHT },
	{ "RESCALES", TABLE_RIGHT },
	{ "PAUSE", TABLE_RIGHT },
	{ "PROBE", TABLE_LATE },
};

static double rescales_of(const json_t *job)
{
	const json_t *rescales = json_object_get(job, "rescales");
	double grow = fmt_num(rescales, "grow");
	double shrink = fmt_num(rescales, "shrink");
	double moved = fmt_num(rescales, "moved");

	if (isnan(grow) || isnan(shrink))
		return NAN;
	return grow + shrink + (isnan(moved) ? 0 : moved);
}

static char *probe_of(const json_t *job, char buf[FMT_SIZE])
{
	const json_t *probe = json_object_get(job, "probe");
	const char *state = fmt_str(probe, "state");
	double size = fmt_num(probe, "size");

	if (!state)
		return strcpy(buf, "-");
	if (size >= 1)
		snprintf(buf, FMT_SIZE, "%.40s@%.0f", state, size);
	else
		snprintf(buf, FMT_SIZE, "%.40s", state);
	return buf;
}

static char *nodes_of(const json_t *job, char buf[FMT_SIZE])
{
	double now = fmt_num(job, "n_nodes");
	double max = fmt_num(job, "max_nodes");

	if (isnan(now) || isnan(max))
		return strcpy(buf, "-");
	snprintf(buf, FMT_SIZE, "%.0f/%.0f", now, max);
	return buf;
}

static int add_job(struct table *table, const json_t *job)
{
	char nodes[FMT_SIZE], generation[FMT_SIZE], rate[FMT_SIZE], samples[FMT_SIZE];
	char rescales[FMT_SIZE], pause[FMT_SIZE], probe[FMT_SIZE];
	const char *const cells[] = {
		fmt_str(job, "id"),
		fmt_str(job, "name"),
		fmt_str(job, "user"),
		fmt_str(job, "state"),
		nodes_of(job, nodes),
		fmt_count(fmt_num(job, "generation"), generation),
		fmt_count(fmt_num(job, "rate_per_s"), rate),
		fmt_count(fmt_num(job, "cursor"), samples),
		fmt_count(rescales_of(job), rescales),
		fmt_time(fmt_num(json_object_get(job, "pause_s"), "p50"), pause),
		probe_of(job, probe),
	};

	return table_add(table, cells);
}

/* --- nodes -------------------------------------------- */

static const struct table_column node_columns[] = {
	{ "NODE", TABLE_LATE },
	{ "STATE", TABLE_STATE },
	{ "JOB", TABLE_RIGHT | TABLE_LATE },
	{ "UNTIL", TABLE_RIGHT },
	{ "REASON", TABLE_CUT },
};

static int add_node(struct table *table, const json_t *node)
{
	char until[FMT_SIZE];
	const char *const cells[] = {
		fmt_str(node, "name"),
		fmt_str(node, "state"),
		fmt_str(node, "job"),
		fmt_time(fmt_num(node, "until_s"), until),
		fmt_str(node, "reason"),
	};

	return table_add(table, cells);
}

/* --- configuration -------------------------------------------- */

static const struct table_column option_columns[] = {
	{ "OPTION", TABLE_LEFT },
	{ "VALUE", TABLE_CUT },
	{ "UNIT", TABLE_LEFT },
	{ "DEFAULT", TABLE_CUT },
};

/* Any plain value as text. */
static char *value_of(const json_t *object, const char *field, char *buf, size_t size)
{
	const json_t *value = json_object_get(object, field);

	if (json_is_string(value))
		snprintf(buf, size, "%s", json_string_value(value));
	else if (json_is_boolean(value))
		snprintf(buf, size, "%s", json_is_true(value) ? "true" : "false");
	else if (json_is_number(value))
		snprintf(buf, size, "%.10g", json_number_value(value));
	else
		snprintf(buf, size, "-");
	return buf;
}

static int add_option(struct table *table, const json_t *option)
{
	char value[256], standard[256];
	const char *const cells[] = {
		fmt_str(option, "name"),
		value_of(option, "value", value, sizeof(value)),
		fmt_str(option, "unit"),
		value_of(option, "default", standard, sizeof(standard)),
	};

	return table_add(table, cells);
}

/* --- all -------------------------------------------- */

static int put_rows(const json_t *list, const struct table_column *columns, size_t n,
	int (*add)(struct table *table, const json_t *item), const char *none,
	const struct style *style)
{
	struct table *table;
	const json_t *item;
	size_t i;
	int rc = 0;

	if (json_array_size(list) == 0) {
		put_line(style, "%s", none);
		return 0;
	}
	table = table_create(columns, n);
	if (!table)
		return -1;
	json_array_foreach (list, i, item)
		if (rc == 0)
			rc = add(table, item);
	if (rc == 0)
		rc = table_print(table, style);
	table_destroy(table);
	return rc;
}

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static int put_jobs(const json_t *data, const struct style *style)
{
	return put_rows(json_object_get(data, "jobs"), job_columns, COUNT(job_columns),
		add_job, "no jobs", style);
}

static int put_nodes(const json_t *data, const struct style *style)
{
	return put_rows(json_object_get(data, "nodes"), node_columns,
		COUNT(node_columns), add_node, "no nodes", style);
}

static size_t count_state(const json_t *list, const char *state)
{
	const json_t *item;
	size_t i, n = 0;

	json_array_foreach (list, i, item) {
		const char *is = fmt_str(item, "state");

		n += is && strcmp(is, state) == 0;
	}
	return n;
}

static void put_totals(const json_t *totals, const struct style *style)
{
	const json_t *rescales = json_object_get(totals, "rescales");
	double offered = fmt_num(totals, "offered_node_s");
	double used = fmt_num(totals, "used_node_s");
	char grow[FMT_SIZE], shrink[FMT_SIZE], forced[FMT_SIZE], share[FMT_SIZE] = "-";

	if (offered > 0)
		snprintf(share, sizeof(share), "%.0f %%", 100 * used / offered);
	put_line(style,
		"rescales: %s grown, %s shrunk (%s forced); %s of the holes used",
		fmt_count(fmt_num(rescales, "grow"), grow),
		fmt_count(fmt_num(rescales, "shrink"), shrink),
		fmt_count(fmt_num(rescales, "forced"), forced), share);
}

static int put_summary(const json_t *data, const struct style *style)
{
	const json_t *daemon = json_object_get(data, "daemon");
	const json_t *nodes = json_object_get(data, "nodes");
	const char *version = fmt_str(daemon, "version");
	const char *backend = fmt_str(daemon, "backend");
	const char *state = fmt_str(daemon, "state");
	char up[FMT_SIZE];

	put_line(style,
		"mallectld %s: %s, backend %s, up %s; %zu of %zu nodes training",
		version ? version : "-", state ? state : "-", backend ? backend : "-",
		fmt_time(fmt_num(daemon, "uptime_s"), up),
		count_state(nodes, "assigned"), json_array_size(nodes));
	put_totals(json_object_get(data, "totals"), style);
	put_line(style, "%s", "");
	if (put_jobs(data, style) < 0)
		return -1;
	put_line(style, "%s", "");
	return put_nodes(data, style);
}

int fmt_text(enum fmt_what what, const json_t *data, const struct style *style)
{
	switch (what) {
	case FMT_SUMMARY:
		return put_summary(data, style);
	case FMT_JOBS:
		return put_jobs(data, style);
	case FMT_NODES:
		return put_nodes(data, style);
	case FMT_JOB:
		return fmt_text_job(json_object_get(data, "job"), style);
	case FMT_NODE:
		return fmt_text_node(json_object_get(data, "node"), style);
	case FMT_UNSET:
		break;
	}
	errno = EINVAL;
	return -1;
}

int fmt_text_config(const json_t *options, const struct style *style)
{
	return put_rows(options, option_columns, COUNT(option_columns), add_option,
		"no options", style);
}
