/*
 * sched_trace.c - holes by a trace, on this machine.
 *
 * The trace says when which node is idle; a second of it takes 1/speedup real
 * seconds.  Each row happens at its own time, by a timer: views are exact, not
 * polled.  Grace is real time, not the trace's: processes do not end faster
 * because a trace runs faster.
 *
 * Index i of the trace is the i-th of the nodes in natural order; indices beyond
 * the last are other people's nodes.  Nobody is told how long a hole will last:
 * a scheduler does not know either.
 *
 * The origin is the wall time at which the trace began.  A daemon that starts
 * anew with the old origin is where the old one would be: the rows before are
 * applied without being told.  A trace that ends begins again, or leaves all
 * nodes closed.  At the seam a node that is idle in the first row stays open.
 *
 * Groups are numbered by lap and row, so that they are the same after a restart.
 */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/sched/holes.h"
#include "daemon/sched/local.h"

struct trace {
	struct local local;
	struct holes *holes;
	double speedup;
	double origin_mono_s; /* the loop's time at the origin */
	int end;
	int ended;
	unsigned long lap;
	size_t next_row;
	struct loop_timer *timer;
	unsigned char *stays; /* of each node: idle in the first rows */
};

enum { SPEEDUP_MAX = 1000000 };

static const double lap_min_s = 0.01;
static const char not_idle[] = "not_idle";
static const char trace_ended[] = "trace_ended";

/* When something of this lap happens, in the loop's time. */
static double when_s(const struct trace *trace, double t_s)
{
	double lap_s = (double)trace->lap * trace->holes->span_s;

	return trace->origin_mono_s + (lap_s + t_s) / trace->speedup;
}

static int group_of(const struct trace *trace, size_t row)
{
	unsigned long number = trace->lap * trace->holes->n_rows + row;

	return (int)(number % (INT_MAX - 1)) + 1;
}

static void apply_row(struct trace *trace)
{
	const struct hole_row *row = &trace->holes->rows[trace->next_row];
	size_t n = trace->local.n_nodes;

	for (size_t i = 0; i < row->n_leaves; i++)
		if (row->leaves[i] < n)
			local_close(&trace->local, row->leaves[i], not_idle);
	for (size_t i = 0; i < row->n_joins; i++)
		if (row->joins[i] < n)
			local_open(&trace->local, row->joins[i],
				group_of(trace, trace->next_row));
	trace->next_row++;
}

/* From the last moment of a lap to the first of the next. */
static void wrap(struct trace *trace)
{
	for (size_t i = 0; i < trace->local.n_nodes; i++)
		if (!trace->stays[i] || trace->end)
			local_close(
				&trace->local, i, trace->end ? trace_ended : not_idle);
	if (trace->end) {
		trace->ended = 1;
		return;
	}
	trace->lap++;
	trace->next_row = 0;
}

/* The time of what comes next; INFINITY when nothing does. */
static double next_s(const struct trace *trace)
{
	const struct holes *holes = trace->holes;

	if (trace->ended)
		return INFINITY;
	if (trace->next_row < holes->n_rows)
		return when_s(trace, holes->rows[trace->next_row].t_s);
	/* All rows at time 0: there is no lap to repeat. */
	return holes->span_s > 0 ? when_s(trace, holes->span_s) : INFINITY;
}

static void catch_up(void *arg)
{
	struct trace *trace = arg;
	double now = loop_now_s(trace->local.loop), next;

	while ((next = next_s(trace)) <= now) {
		if (trace->next_row < trace->holes->n_rows)
			apply_row(trace);
		else
			wrap(trace);
	}
	if (next < INFINITY)
		loop_timer_start(trace->timer, next - now);
}

/* Laps that nobody sees need not be walked through. */
static void skip_laps(struct trace *trace)
{
	double past_s =
		(loop_now_s(trace->local.loop) - trace->origin_mono_s) * trace->speedup;

	if (!trace->end && trace->holes->span_s > 0 && past_s > 0)
		trace->lap = (unsigned long)(past_s / trace->holes->span_s);
}

static void find_stays(struct trace *trace)
{
	const struct holes *holes = trace->holes;

	for (size_t r = 0; r < holes->n_rows && holes->rows[r].t_s == 0; r++)
		for (size_t i = 0; i < holes->rows[r].n_joins; i++)
			if (holes->rows[r].joins[i] < trace->local.n_nodes)
				trace->stays[holes->rows[r].joins[i]] = 1;
}

static struct holes *load_holes(const struct sched_config *config, struct err *err)
{
	struct nodeset *names;
	struct holes_model model = {
		.hours = config->hours,
		.idle_share = config->idle_share,
		.seed = config->seed,
	};

	if (config->trace_file && *config->trace_file)
		return holes_read(config->trace_file, err);
	names = nodeset_parse(config->nodes, err);
	if (!names) {
		err_prefix(err, "nodes");
		return NULL;
	}
	model.nodes = (uint32_t)nodeset_count(names);
	nodeset_destroy(names);
	return holes_generate(&model, err);
}

/* So that no turn is spent on laps without end. */
static int check_pace(const struct holes *holes, double speedup, struct err *err)
{
	if (!(speedup > 0) || speedup > SPEEDUP_MAX)
		return err_set(err, EINVAL, "trace: speedup %g is not in 0..%d",
			speedup, SPEEDUP_MAX);
	if (holes->span_s > 0 && holes->span_s / speedup < lap_min_s)
		return err_set(err, EINVAL,
			"trace: %g s at speedup %g are over in less than %g s",
			holes->span_s, speedup, lap_min_s);
	return 0;
}

static void trace_destroy(struct sched *sched)
{
	struct trace *trace = (struct trace *)sched;

	loop_timer_destroy(trace->timer);
	local_fini(&trace->local);
	holes_destroy(trace->holes);
	free(trace->stays);
	free(trace);
}

static struct sched *trace_create(const struct sched_config *config, struct loop *loop,
	const struct sched_handlers *handlers, void *arg, struct err *err)
{
	double speedup = config->speedup == 0 ? 1 : config->speedup;
	const char *nodes = config->nodes;
	struct holes *holes = load_holes(config, err);
	struct trace *trace = NULL;
	char all[32];
	int saved;

	if (!holes)
		return NULL;
	if (check_pace(holes, speedup, err) < 0)
		goto fail;
	if (!nodes || !*nodes) {
		snprintf(all, sizeof(all), "n[1-%u]", holes->n_nodes);
		nodes = all;
	}
	trace = calloc(1, sizeof(*trace));
	if (!trace) {
		err_set(err, ENOMEM, "backend trace: out of memory");
		goto fail;
	}
	if (local_init(&trace->local, &sched_trace_ops, nodes, config, loop, handlers,
		    arg, err) < 0)
		goto fail;
	trace->holes = holes;
	trace->speedup = speedup;
	trace->end = config->end;
	trace->timer = loop_timer_create(loop, catch_up, trace);
	trace->stays = calloc(trace->local.n_nodes, 1);
	if (!trace->timer || !trace->stays) {
		trace_destroy(&trace->local.sched);
		err_set(err, ENOMEM, "backend trace: out of memory");
		return NULL;
	}
	trace->origin_mono_s =
		loop_now_s(loop) - (loop_wall_s(loop) - trace->local.origin_s);
	find_stays(trace);
	skip_laps(trace);
	catch_up(trace);
	return &trace->local.sched;

fail:
	saved = errno;
	holes_destroy(holes);
	free(trace);
	errno = saved;
	return NULL;
}

const struct sched_ops sched_trace_ops = {
	.name = "trace",
	.create = trace_create,
	.destroy = trace_destroy,
	.poll = local_poll,
	.claim = local_claim,
	.release = local_release,
	.adopt = local_adopt,
	.offered_s = local_offered_s,
	.origin_s = local_origin_s,
	.isolation = local_isolation,
};
