/*
 * probe.c - inverse-order probing.
 *
 * A job whose scalability is unknown is started at the largest size that is
 * free and measured there; then it steps down.  Start-up is paid once, every
 * later step is a cheap shrink, and each gives nodes back to others (MalleTrain,
 * ICPE 2024, section on the job profiling advisor).
 *
 * The ladder is all sizes of a small range, else max, half of it and so on to
 * min: between, the curve is linear, and sizes that plans choose anyway get
 * measured by the way.  A size is known when its confidence interval is narrow
 * enough, or when limit_s at it have passed with at least the windows of an
 * estimate; never by time alone.
 *
 *   waiting    nothing reachable, or nothing came yet
 *   measuring  size s: present == s, or a rescale to it is wished
 *   done       all known; drift of one forgets it and begins again
 *   exhausted  the budget is spent; earned back by training
 *
 * The next size is the largest unknown one that is below or at the present
 * size, else the smallest unknown one above that could be had: a job that was
 * forced down goes on from where it is.
 */
#include "jpa/probe.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

const struct prober_params prober_defaults = {
	.target_rel = 0.05,
	.min_windows = 5,
	.limit_s = 12,
	.budget = 0.1,
	.allowance_node_s = 60,
	.retry_s = 10,
	.all_sizes_upto = 4,
};

struct rung {
	int nodes;
	int known;
	double rel;         /* half-width over rate, when known */
	double rate_per_s;  /* when known */
	double since_s;     /* measuring began; 0: not */
	double not_before_s; /* after a failed rescale */
};

struct prober {
	struct prober_params params;
	struct rung *rungs; /* descending */
	size_t n_rungs;
	enum probe_state state;
	int size;
	double spent_node_s, total_node_s;
};

static const char *const state_names[] = {
	[PROBE_UNSET] = "unset",
	[PROBE_WAITING] = "waiting",
	[PROBE_MEASURING] = "measuring",
	[PROBE_DONE] = "done",
	[PROBE_EXHAUSTED] = "exhausted",
};

const char *probe_state_name(enum probe_state state)
{
	return state_names[state];
}

static size_t build_ladder(const struct prober_params *params, int min, int max,
	struct rung *rungs)
{
	size_t n = 0;

	if (max - min + 1 <= params->all_sizes_upto) {
		for (int nodes = max; nodes >= min; nodes--)
			rungs[n++].nodes = nodes;
		return n;
	}
	for (int nodes = max; nodes > min; nodes /= 2)
		rungs[n++].nodes = nodes;
	rungs[n++].nodes = min;
	return n;
}

struct prober *prober_create(const struct prober_params *params, int min_nodes, int max_nodes)
{
	struct prober *prober;
	size_t room;

	if (min_nodes < 1 || max_nodes < min_nodes) {
		errno = EINVAL;
		return NULL;
	}
	prober = calloc(1, sizeof(*prober));
	if (!prober)
		return NULL;
	prober->params = params ? *params : prober_defaults;
	room = (size_t)prober->params.all_sizes_upto + 34; /* halvings of an int */
	prober->rungs = calloc(room, sizeof(*prober->rungs));
	if (!prober->rungs) {
		free(prober);
		return NULL;
	}
	prober->n_rungs =
		build_ladder(&prober->params, min_nodes, max_nodes, prober->rungs);
	prober->state = PROBE_WAITING;
	return prober;
}

void prober_destroy(struct prober *prober)
{
	if (!prober)
		return;
	free(prober->rungs);
	free(prober);
}

int prober_seed(struct prober *prober, const struct curve *prior)
{
	for (size_t i = 0; i < prober->n_rungs; i++) {
		const struct curve_point *point = curve_at(prior, prober->rungs[i].nodes);

		if (!point || point->rate_per_s <= 0)
			continue;
		prober->rungs[i].known = 1;
		prober->rungs[i].rate_per_s = point->rate_per_s;
		prober->rungs[i].rel = point->ci_per_s / point->rate_per_s;
	}
	return 0;
}

static int is_measured(const struct prober *prober, const struct rung *rung,
	const struct estimate *estimate, double now_s)
{
	double rel = estimate->ci_per_s / estimate->rate_per_s;

	if (estimate->windows < prober->params.min_windows || !isfinite(rel))
		return 0;
	if (rel <= prober->params.target_rel)
		return 1;
	return rung->since_s > 0 && now_s - rung->since_s >= prober->params.limit_s;
}

static void look_at(struct prober *prober, struct rung *rung, double now_s, int present,
	const struct sampler *sampler)
{
	struct estimate estimate;

	if (rung->nodes != present)
		rung->since_s = 0;
	else if (rung->since_s == 0)
		rung->since_s = now_s;
	if (sampler_estimate(sampler, rung->nodes, &estimate) != 0)
		return;
	if (rung->known && sampler_drift(sampler, rung->nodes, rung->rate_per_s)) {
		rung->known = 0;
		rung->since_s = now_s;
	}
	if (!rung->known && is_measured(prober, rung, &estimate, now_s))
		rung->known = 1;
	if (rung->known) {
		rung->rate_per_s = estimate.rate_per_s;
		if (isfinite(estimate.ci_per_s))
			rung->rel = estimate.ci_per_s / estimate.rate_per_s;
	}
}

/* Rungs are descending: the first that fits below, else the last that fits above. */
static struct rung *next_rung(struct prober *prober, double now_s, int present, int available)
{
	struct rung *above = NULL;
	int start = present > 0 ? present : available;

	for (size_t i = 0; i < prober->n_rungs; i++) {
		struct rung *rung = &prober->rungs[i];

		if (rung->known || rung->not_before_s > now_s || rung->nodes > available)
			continue;
		if (rung->nodes <= start)
			return rung;
		above = rung;
	}
	return above;
}

static int all_known(const struct prober *prober)
{
	for (size_t i = 0; i < prober->n_rungs; i++)
		if (!prober->rungs[i].known)
			return 0;
	return 1;
}

static int may_spend(const struct prober *prober)
{
	return prober->spent_node_s < prober->params.allowance_node_s +
			prober->params.budget * prober->total_node_s;
}

void prober_wish(struct prober *prober, double now_s, int present, int available,
	const struct sampler *sampler, struct probe_wish *wish)
{
	struct rung *rung;

	for (size_t i = 0; i < prober->n_rungs; i++)
		look_at(prober, &prober->rungs[i], now_s, present, sampler);
	*wish = (struct probe_wish){ 0, "" };
	prober->size = 0;
	if (all_known(prober)) {
		prober->state = PROBE_DONE;
		return;
	}
	if (!may_spend(prober)) {
		prober->state = PROBE_EXHAUSTED;
		return;
	}
	rung = next_rung(prober, now_s, present, available);
	if (!rung) {
		prober->state = PROBE_WAITING;
		return;
	}
	prober->state = PROBE_MEASURING;
	prober->size = rung->nodes;
	wish->nodes = rung->nodes;
	wish->reason = rung->nodes == present ? "is being measured"
		: rung->nodes < present       ? "next size down"
					      : "next size that can be had";
}

void prober_rescale_failed(struct prober *prober, int nodes, double now_s)
{
	for (size_t i = 0; i < prober->n_rungs; i++)
		if (prober->rungs[i].nodes == nodes)
			prober->rungs[i].not_before_s = now_s + prober->params.retry_s;
}

void prober_account(struct prober *prober, double node_s, double probe_node_s)
{
	prober->total_node_s += node_s;
	prober->spent_node_s += probe_node_s;
}

void prober_status(const struct prober *prober, struct probe_status *status)
{
	*status = (struct probe_status){
		.state = prober->state,
		.size = prober->size,
		.ladder = prober->n_rungs,
		.spent_node_s = prober->spent_node_s,
		.total_node_s = prober->total_node_s,
	};
	for (size_t i = 0; i < prober->n_rungs; i++) {
		status->points += prober->rungs[i].known != 0;
		if (prober->rungs[i].known && prober->rungs[i].rel > status->worst_rel)
			status->worst_rel = prober->rungs[i].rel;
	}
}
