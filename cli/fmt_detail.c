/*
 * fmt_detail.c - one job, one node: all that is known, a line each.
 *
 * A value that is not there gets no line, so a job that never ran is short.
 * A job's curve, rate over nodes as the daemon believes it now, comes last, as
 * a table: it is what decides how many nodes the job gets.
 */
#include "cli/fmt.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const struct table_column fact_columns[] = {
	{ NULL, TABLE_LEFT },
	{ NULL, TABLE_CUT },
};

/* Facts on their way into a table; the first failure sticks. */
struct facts {
	struct table *table;
	int rc;
};

static void fact(struct facts *facts, const char *name, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static void fact(struct facts *facts, const char *name, const char *fmt, ...)
{
	const char *cells[2] = { name };
	char *text;
	va_list ap;
	int rc;

	va_start(ap, fmt);
	rc = vasprintf(&text, fmt, ap);
	va_end(ap);
	if (rc < 0) {
		facts->rc = -1;
		return;
	}
	cells[1] = text;
	if (facts->rc == 0)
		facts->rc = table_add(facts->table, cells);
	free(text);
}

static void fact_str(struct facts *facts, const json_t *object, const char *field)
{
	const char *text = fmt_str(object, field);

	if (text && *text)
		fact(facts, field, "%s", text);
}

static void fact_moment(
	struct facts *facts, const char *name, const json_t *object, const char *field)
{
	char buf[FMT_SIZE];

	fmt_moment(fmt_num(object, field), buf);
	if (strcmp(buf, "-") != 0)
		fact(facts, name, "%s", buf);
}

static void fact_nodes(struct facts *facts, const json_t *job)
{
	char *folded = fmt_nodes(json_object_get(job, "nodes"));
	double now = fmt_num(job, "n_nodes");
	double min = fmt_num(job, "min_nodes"), max = fmt_num(job, "max_nodes");

	if (!isnan(now) && !isnan(min) && !isnan(max))
		fact(facts, "nodes", "%.0f of %.0f to %.0f%s%s", now, min, max,
			folded && *folded ? ": " : "", folded ? folded : "");
	free(folded);
}

static void fact_workers(struct facts *facts, const json_t *job)
{
	double nproc = fmt_num(job, "nproc");
	const char *launcher = fmt_str(job, "launcher");
	const char *mode = fmt_str(job, "mode");

	if (!isnan(nproc) && launcher && mode)
		fact(facts, "workers", "%.0f on each node, launcher %s, mode %s", nproc,
			launcher, mode);
}

static void fact_progress(struct facts *facts, const json_t *job)
{
	char samples[FMT_SIZE], rate[FMT_SIZE];
	double cursor = fmt_num(job, "cursor"), step = fmt_num(job, "step");

	if (!isnan(cursor) && !isnan(step))
		fact(facts, "progress", "%s samples in %.0f steps, %s samples/s",
			fmt_count(cursor, samples), step,
			fmt_count(fmt_num(job, "rate_per_s"), rate));
}

static void fact_rescales(struct facts *facts, const json_t *job)
{
	static const char *const names[] = { "grow", "shrink", "forced", "moved",
		"failed" };
	const json_t *rescales = json_object_get(job, "rescales");
	const json_t *pause = json_object_get(job, "pause_s");
	char n[5][FMT_SIZE];
	char last[FMT_SIZE], p50[FMT_SIZE], max[FMT_SIZE];

	for (int i = 0; i < 5; i++)
		fmt_count(fmt_num(rescales, names[i]), n[i]);
	if (rescales)
		fact(facts, "rescales",
			"%s grown, %s shrunk (%s forced), %s moved, %s failed", n[0],
			n[1], n[2], n[3], n[4]);
	if (pause)
		fact(facts, "pause", "last %s, p50 %s, worst %s",
			fmt_time(fmt_num(pause, "last"), last),
			fmt_time(fmt_num(pause, "p50"), p50),
			fmt_time(fmt_num(pause, "max"), max));
}

static void fact_transaction(struct facts *facts, const json_t *job)
{
	const json_t *transaction = json_object_get(job, "transaction");
	const char *kind = fmt_str(transaction, "kind");
	const char *phase = fmt_str(transaction, "phase");
	char *target = fmt_nodes(json_object_get(transaction, "target"));
	char since[FMT_SIZE];

	if (kind && phase)
		fact(facts, "transaction", "%s, in phase %s for %s%s%s", kind, phase,
			fmt_time(fmt_num(transaction, "since_s"), since),
			target && *target ? ", to " : "", target ? target : "");
	free(target);
}

static void fact_probe(struct facts *facts, const json_t *job)
{
	const json_t *probe = json_object_get(job, "probe");
	const char *state = fmt_str(probe, "state");
	double size = fmt_num(probe, "size"), points = fmt_num(probe, "points");
	double ci = fmt_num(probe, "ci"), spent = fmt_num(probe, "spent_node_s");
	double total = fmt_num(probe, "total_node_s");
	char text[4][FMT_SIZE] = { "", "", "", "" };

	if (!state)
		return;
	if (size >= 1)
		snprintf(text[0], FMT_SIZE, " at %.0f nodes", size);
	if (points >= 0)
		snprintf(text[1], FMT_SIZE, ", %.0f points", points);
	if (ci > 0)
		snprintf(text[2], FMT_SIZE, ", +- %.1f %%", 100 * ci);
	if (total > 0)
		snprintf(text[3], FMT_SIZE, ", took %.1f %% of its node-seconds",
			100 * spent / total);
	fact(facts, "probe", "%s%s%s%s%s", state, text[0], text[1], text[2], text[3]);
}

static int put_facts(struct facts *facts, const struct style *style)
{
	if (facts->rc == 0)
		facts->rc = table_print(facts->table, style);
	table_destroy(facts->table);
	return facts->rc;
}

/* --- the curve -------------------------------------------- */

static const struct table_column curve_columns[] = {
	{ "NODES", TABLE_RIGHT },
	{ "RATE/s", TABLE_RIGHT },
	{ "+-", TABLE_RIGHT },
	{ "PER NODE", TABLE_RIGHT },
};

static int add_point(struct table *table, const json_t *point)
{
	double nodes = json_number_value(json_array_get(point, 0));
	double rate = json_number_value(json_array_get(point, 1));
	const json_t *ci = json_array_get(point, 2);
	char text[4][FMT_SIZE];
	const char *const cells[] = { text[0], text[1], text[2], text[3] };

	fmt_count(nodes, text[0]);
	fmt_count(rate, text[1]);
	fmt_count(json_is_number(ci) ? json_number_value(ci) : NAN, text[2]);
	fmt_count(nodes > 0 ? rate / nodes : NAN, text[3]);
	return table_add(table, cells);
}

static int put_curve(const json_t *curve, const struct style *style)
{
	struct table *table;
	const json_t *point;
	size_t i;
	int rc = 0;

	if (json_array_size(curve) == 0)
		return 0;
	fputc('\n', style->out);
	table = table_create(
		curve_columns, sizeof(curve_columns) / sizeof(curve_columns[0]));
	if (!table)
		return -1;
	json_array_foreach (curve, i, point)
		if (rc == 0)
			rc = add_point(table, point);
	if (rc == 0)
		rc = table_print(table, style);
	table_destroy(table);
	return rc;
}

int fmt_text_job(const json_t *job, const struct style *style)
{
	struct facts facts = { .table = table_create(fact_columns, 2) };
	char buf[FMT_SIZE];

	if (!facts.table)
		return -1;
	fact_str(&facts, job, "id");
	fact_str(&facts, job, "name");
	fact_str(&facts, job, "user");
	fact_str(&facts, job, "state");
	fact_str(&facts, job, "reason");
	if (fmt_num(job, "end_s") > 0 && !isnan(fmt_num(job, "exit_code")))
		fact(&facts, "exit code", "%.0f", fmt_num(job, "exit_code"));
	fact_nodes(&facts, job);
	fact_workers(&facts, job);
	if (!isnan(fmt_num(job, "generation")))
		fact(&facts, "generation", "%.0f, %.0f restarts after failures",
			fmt_num(job, "generation"), fmax(fmt_num(job, "restarts"), 0));
	if (!isnan(fmt_num(job, "priority")))
		fact(&facts, "priority", "%g", fmt_num(job, "priority"));
	fact_moment(&facts, "submitted", job, "submit_s");
	fact_moment(&facts, "started", job, "start_s");
	fact_moment(&facts, "ended", job, "end_s");
	fact_progress(&facts, job);
	if (!isnan(fmt_num(job, "node_s")))
		fact(&facts, "used", "%s node-seconds",
			fmt_count(fmt_num(job, "node_s"), buf));
	fact_rescales(&facts, job);
	fact_transaction(&facts, job);
	fact_probe(&facts, job);
	if (put_facts(&facts, style) < 0)
		return -1;
	return put_curve(json_object_get(job, "curve"), style);
}

int fmt_text_node(const json_t *node, const struct style *style)
{
	struct facts facts = { .table = table_create(fact_columns, 2) };
	char buf[FMT_SIZE];

	if (!facts.table)
		return -1;
	fact_str(&facts, node, "name");
	fact_str(&facts, node, "state");
	fact_str(&facts, node, "reason");
	fact_str(&facts, node, "job");
	fact_str(&facts, node, "claim");
	if (!isnan(fmt_num(node, "until_s")))
		fact(&facts, "hole ends in", "%s",
			fmt_time(fmt_num(node, "until_s"), buf));
	if (fmt_num(node, "agent_pid") > 0)
		fact(&facts, "agent", "process %.0f", fmt_num(node, "agent_pid"));
	if (!isnan(fmt_num(node, "cpus")))
		fact(&facts, "cpus", "%g", fmt_num(node, "cpus"));
	return put_facts(&facts, style);
}
