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
 * The next size is the largest unknown one that is below or at the present
 * size, else the smallest unknown one above that could be had: a job that was
 * forced down goes on from where it is.  Only while nothing at all is known, the
 * largest that could be had.
 *
 * Every look at the job ends in one of the outcomes of the table `outcomes`; the
 * state is that of the last one:
 *
 *   waiting    nothing reachable, or nothing moves
 *   stepping   a rescale to size s is wished
 *   measuring  the job is at s
 *   done       every size known, or given up after give_up failures
 *   exhausted  the budget is spent; earned back by training, and not taken up
 *              again before a whole measurement can be paid
 *
 * It always ends.  A size that cannot be reached (its rescale fails, or does not
 * come for stall_s) or at which no step is done for stall_s has failed; after a
 * failure it rests for retry_s, twice as long after the next, and is given up in
 * the end.  A job that makes no progress lets go of its nodes meanwhile.
 *
 * Drift: when the newest rates contradict what was known of the present size, it
 * is measured anew where it is, at no cost.  If that confirms a change of more
 * than drift_rel, the other sizes are of another time as well, and all are
 * measured again, windows of before not counting.
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
	.ladder_ratio = 2,
	.stall_s = 60,
	.give_up = 4,
	.drift_rel = 0.2,
	.prior_rel = 0.15,
};

/* Steps of a minute each still make windows in this many times stall_s. */
#define WINDOWLESS 10

enum rung_state {
	RUNG_UNKNOWN = 0,
	RUNG_KNOWN,
	RUNG_GIVEN_UP,
};

struct rung {
	int nodes;
	enum rung_state state;
	double rate_per_s, rel; /* when known: as it was then; half-width over rate */
	double suspect_per_s;   /* rate that seems to have drifted; 0: none */
	double fresh_from_s;    /* earlier windows are of another time */
	int failures;
	double not_before_s; /* after a failure */
};

struct prober {
	struct prober_params params;
	struct rung *rungs; /* descending */
	size_t n_rungs;
	enum probe_state state;
	int size; /* wished last; 0: none */
	int present;
	double since_s;      /* at the present size */
	double moved_s;      /* the newest step there, or since_s */
	double stepping_s;   /* since when `size` is wished in vain */
	double rests_until_s; /* nothing moves */
	int is_broke;
	double spent_node_s, total_node_s;
};

/* --- the states --------------------------------------------------------------- */

static const char *const state_names[] = {
	[PROBE_UNSET] = "unset",
	[PROBE_WAITING] = "waiting",
	[PROBE_STEPPING] = "stepping",
	[PROBE_MEASURING] = "measuring",
	[PROBE_DONE] = "done",
	[PROBE_EXHAUSTED] = "exhausted",
};

enum outcome {
	OUTCOME_SETTLED,
	OUTCOME_STALLED,
	OUTCOME_UNREACHABLE,
	OUTCOME_BROKE,
	OUTCOME_HERE,
	OUTCOME_START,
	OUTCOME_DOWN,
	OUTCOME_UP,
};

static const struct {
	enum probe_state state;
	int is_wish;
	const char *reason;
} outcomes[] = {
	[OUTCOME_SETTLED] = { PROBE_DONE, 0, "" },
	[OUTCOME_STALLED] = { PROBE_WAITING, 0, "makes no progress" },
	[OUTCOME_UNREACHABLE] = { PROBE_WAITING, 0, "no unknown size can be had" },
	[OUTCOME_BROKE] = { PROBE_EXHAUSTED, 0, "budget is spent" },
	[OUTCOME_HERE] = { PROBE_MEASURING, 1, "is being measured" },
	[OUTCOME_START] = { PROBE_STEPPING, 1, "largest size that is free" },
	[OUTCOME_DOWN] = { PROBE_STEPPING, 1, "next size down" },
	[OUTCOME_UP] = { PROBE_STEPPING, 1, "next size that can be had" },
};

const char *probe_state_name(enum probe_state state)
{
	return (size_t)state < sizeof(state_names) / sizeof(*state_names)
		? state_names[state]
		: state_names[PROBE_UNSET];
}

/* --- the ladder --------------------------------------------------------------- */

/* Sizes from max down to min, into rungs unless NULL.  Returns how many. */
static size_t build_ladder(const struct prober_params *params, int min, int max,
	struct rung *rungs)
{
	int is_whole = max - min < params->all_sizes_upto;
	int nodes = max, next;
	size_t n = 0;

	while (nodes > min) {
		if (rungs)
			rungs[n].nodes = nodes;
		n++;
		next = is_whole ? nodes - 1 : (int)(nodes / params->ladder_ratio);
		nodes = next < nodes ? next : nodes - 1; /* a ratio of 1.1 at 5 nodes */
	}
	if (rungs)
		rungs[n].nodes = min;
	return n + 1;
}

struct prober *prober_create(const struct prober_params *params, int min_nodes,
	int max_nodes)
{
	struct prober *prober;

	if (!params)
		params = &prober_defaults;
	if (min_nodes < 1 || max_nodes < min_nodes || !(params->ladder_ratio > 1)) {
		errno = EINVAL;
		return NULL;
	}
	prober = calloc(1, sizeof(*prober));
	if (!prober)
		return NULL;
	prober->params = *params;
	prober->n_rungs = build_ladder(params, min_nodes, max_nodes, NULL);
	prober->rungs = calloc(prober->n_rungs, sizeof(*prober->rungs));
	if (!prober->rungs) {
		free(prober);
		errno = ENOMEM;
		return NULL;
	}
	build_ladder(params, min_nodes, max_nodes, prober->rungs);
	for (size_t i = 0; i < prober->n_rungs; i++) {
		prober->rungs[i].fresh_from_s = -INFINITY;
		prober->rungs[i].not_before_s = -INFINITY;
	}
	prober->rests_until_s = -INFINITY;
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

static struct rung *find_rung(struct prober *prober, int nodes)
{
	for (size_t i = 0; i < prober->n_rungs; i++)
		if (prober->rungs[i].nodes == nodes)
			return &prober->rungs[i];
	return NULL;
}

/* --- priors ------------------------------------------------------------------- */

static int is_given(const struct curve *prior)
{
	for (size_t i = 0; i < prior->n_points; i++)
		if (prior->points[i].ci_per_s > 0)
			return 0;
	return prior->n_points > 0;
}

/* Relative half-width of what the prior says of a size; INFINITY: nothing. */
static double prior_rel(const struct prober *prober, const struct curve *prior,
	int nodes)
{
	const struct curve_point *low = NULL, *high = NULL;
	double rel;

	for (size_t i = 0; i < prior->n_points; i++) {
		const struct curve_point *point = &prior->points[i];

		if (point->nodes <= nodes)
			low = point;
		if (point->nodes >= nodes && !high)
			high = point;
	}
	if (!low || !high || low->rate_per_s <= 0 || high->rate_per_s <= 0 ||
		high->nodes > prober->params.ladder_ratio * low->nodes)
		return INFINITY;
	rel = fmax(low->ci_per_s / low->rate_per_s, high->ci_per_s / high->rate_per_s);
	return rel <= prober->params.prior_rel ? rel : INFINITY;
}

int prober_seed(struct prober *prober, const struct curve *prior)
{
	int given = is_given(prior);

	for (size_t i = 0; i < prober->n_rungs; i++) {
		struct rung *rung = &prober->rungs[i];
		double rate = curve_rate(prior, rung->nodes);
		double rel = given ? 0 : prior_rel(prober, prior, rung->nodes);

		if (rate <= 0 || !isfinite(rel))
			continue;
		rung->state = RUNG_KNOWN;
		rung->rate_per_s = rate;
		rung->rel = rel;
	}
	return 0;
}

/* --- what was measured -------------------------------------------------------- */

static void forget(struct rung *rung, double before_s)
{
	rung->state = RUNG_UNKNOWN;
	rung->fresh_from_s = before_s;
	rung->failures = 0;
	rung->not_before_s = -INFINITY;
}

/* It was moved before that was sure; should it be so, it will show again. */
static void unsuspect(struct rung *rung)
{
	rung->state = RUNG_KNOWN;
	rung->rate_per_s = rung->suspect_per_s;
	rung->suspect_per_s = 0;
	rung->fresh_from_s = -INFINITY;
}

static void count_failure(struct prober *prober, struct rung *rung, double now_s)
{
	int doubled = rung->failures < 16 ? rung->failures : 16;

	rung->not_before_s = now_s + ldexp(prober->params.retry_s, doubled);
	if (++rung->failures >= prober->params.give_up && rung->state == RUNG_UNKNOWN)
		rung->state = RUNG_GIVEN_UP;
}

/* One size is known to have changed: what the others were is of another time. */
static void reopen_others(struct prober *prober, const struct rung *known)
{
	for (size_t i = 0; i < prober->n_rungs; i++)
		if (&prober->rungs[i] != known)
			forget(&prober->rungs[i], known->fresh_from_s);
}

static void become_known(struct prober *prober, struct rung *rung,
	const struct estimate *estimate, struct sampler *sampler)
{
	double before = rung->suspect_per_s;

	rung->state = RUNG_KNOWN;
	rung->rate_per_s = estimate->rate_per_s;
	rung->rel = estimate->ci_per_s / estimate->rate_per_s;
	rung->suspect_per_s = 0;
	rung->failures = 0;
	if (before > 0 &&
		fabs(rung->rate_per_s - before) > prober->params.drift_rel * before) {
		reopen_others(prober, rung);
		sampler_forget(sampler, rung->fresh_from_s);
	}
}

static int is_measured(const struct prober *prober, const struct rung *rung,
	const struct estimate *estimate, double now_s)
{
	double rel = estimate->ci_per_s / estimate->rate_per_s;

	if (estimate->windows < prober->params.min_windows || !isfinite(rel))
		return 0;
	return rel <= prober->params.target_rel ||
	       (rung->nodes == prober->present &&
		       now_s - prober->since_s >= prober->params.limit_s);
}

static void look_at(struct prober *prober, struct rung *rung, double now_s,
	struct sampler *sampler)
{
	struct estimate estimate;
	double rel;

	if (rung->state == RUNG_KNOWN && rung->nodes == prober->present &&
		sampler_drift(sampler, rung->nodes, rung->rate_per_s)) {
		rung->suspect_per_s = rung->rate_per_s;
		forget(rung, now_s);
		prober->since_s = now_s;
	}
	if (rung->state == RUNG_KNOWN && rung->nodes != prober->present)
		return; /* no news from there */
	if (sampler_estimate_since(sampler, rung->nodes, rung->fresh_from_s,
		    &estimate) != 0)
		return;
	if (rung->state != RUNG_KNOWN) {
		if (is_measured(prober, rung, &estimate, now_s))
			become_known(prober, rung, &estimate, sampler);
		return;
	}
	/* a given rate (rel 0) stays what drift is measured against */
	rel = estimate.ci_per_s / estimate.rate_per_s;
	if (estimate.windows >= prober->params.min_windows && rel < rung->rel) {
		rung->rate_per_s = estimate.rate_per_s;
		rung->rel = rel;
	}
}

/* Where the job is, since when, and whether it moves there. */
static void look_around(struct prober *prober, double now_s, int present,
	const struct sampler *sampler)
{
	struct rung *left = find_rung(prober, prober->present);

	if (present != prober->present) {
		if (left && left->suspect_per_s > 0)
			unsuspect(left);
		prober->present = present;
		prober->since_s = prober->moved_s = now_s;
	}
	if (sampler_moved_s(sampler) > prober->moved_s) {
		prober->moved_s = sampler_moved_s(sampler);
		prober->rests_until_s = -INFINITY;
	}
}

/* Failures that nobody reports: no step is done, or steps that never make enough
 * windows, or the wish is not granted. */
static void count_stalls(struct prober *prober, double now_s)
{
	struct rung *rung = find_rung(prober, prober->size);
	double stall_s = prober->params.stall_s;

	if (!rung || rung->state != RUNG_UNKNOWN)
		return;
	if (prober->size != prober->present) {
		if (prober->state == PROBE_STEPPING &&
			now_s - prober->stepping_s >= stall_s)
			count_failure(prober, rung, now_s);
	} else if (prober->state == PROBE_MEASURING &&
		(now_s - prober->moved_s >= stall_s ||
			now_s - prober->since_s >= WINDOWLESS * stall_s)) {
		count_failure(prober, rung, now_s);
		prober->rests_until_s = rung->not_before_s;
		prober->moved_s = prober->since_s = now_s;
	}
}

/* --- what to measure next ----------------------------------------------------- */

/* The largest that could be had while nothing is known, else from where it is. */
static int start_of(const struct prober *prober, int available)
{
	int is_at_it = prober->state == PROBE_MEASURING &&
		prober->size == prober->present;

	if (prober->present == 0)
		return available;
	for (size_t i = 0; !is_at_it && i < prober->n_rungs; i++)
		if (prober->rungs[i].state == RUNG_KNOWN)
			is_at_it = 1;
	return is_at_it ? prober->present : available;
}

/* Rungs are descending: the first that fits below, else the last that fits above. */
static struct rung *next_rung(struct prober *prober, double now_s, int available)
{
	int start = start_of(prober, available);
	struct rung *above = NULL;

	for (size_t i = 0; i < prober->n_rungs; i++) {
		struct rung *rung = &prober->rungs[i];

		if (rung->state != RUNG_UNKNOWN || rung->not_before_s > now_s ||
			rung->nodes > available)
			continue;
		if (rung->nodes <= start)
			return rung;
		above = rung;
	}
	return above;
}

static int is_settled(const struct prober *prober)
{
	for (size_t i = 0; i < prober->n_rungs; i++)
		if (prober->rungs[i].state == RUNG_UNKNOWN)
			return 0;
	return 1;
}

static int may_spend(struct prober *prober, int nodes)
{
	double left = prober->params.allowance_node_s +
		prober->params.budget * prober->total_node_s - prober->spent_node_s;

	double needed = prober->is_broke ? nodes * prober->params.limit_s : 0;

	prober->is_broke = left <= needed;
	return !prober->is_broke;
}

static enum outcome decide(struct prober *prober, double now_s, int available,
	struct rung **rung)
{
	*rung = NULL;
	if (is_settled(prober))
		return OUTCOME_SETTLED;
	if (prober->rests_until_s > now_s)
		return OUTCOME_STALLED;
	*rung = next_rung(prober, now_s, available);
	if (!*rung)
		return OUTCOME_UNREACHABLE;
	if (!may_spend(prober, (*rung)->nodes))
		return OUTCOME_BROKE;
	if ((*rung)->nodes == prober->present)
		return OUTCOME_HERE;
	if (prober->present == 0)
		return OUTCOME_START;
	return (*rung)->nodes < prober->present ? OUTCOME_DOWN : OUTCOME_UP;
}

/* When time alone will change the answer. */
static double ask_again_at(const struct prober *prober, double now_s)
{
	double at_s = INFINITY;

	if (prober->state == PROBE_STEPPING)
		return prober->stepping_s + prober->params.stall_s;
	if (prober->state == PROBE_MEASURING) {
		at_s = fmin(prober->moved_s + prober->params.stall_s,
			prober->since_s + WINDOWLESS * prober->params.stall_s);
		if (prober->since_s + prober->params.limit_s > now_s)
			at_s = fmin(at_s, prober->since_s + prober->params.limit_s);
		return at_s;
	}
	if (prober->state != PROBE_WAITING)
		return INFINITY;
	if (prober->rests_until_s > now_s)
		return prober->rests_until_s;
	for (size_t i = 0; i < prober->n_rungs; i++)
		if (prober->rungs[i].state == RUNG_UNKNOWN &&
			prober->rungs[i].not_before_s > now_s)
			at_s = fmin(at_s, prober->rungs[i].not_before_s);
	return at_s;
}

void prober_wish(struct prober *prober, double now_s, int present, int available,
	struct sampler *sampler, struct probe_wish *wish)
{
	struct rung *rung;
	enum outcome outcome;
	int size;

	look_around(prober, now_s, present, sampler);
	for (size_t i = 0; i < prober->n_rungs; i++)
		look_at(prober, &prober->rungs[i], now_s, sampler);
	count_stalls(prober, now_s);
	outcome = decide(prober, now_s, available, &rung);
	size = outcomes[outcome].is_wish ? rung->nodes : 0;
	if (outcomes[outcome].state != prober->state || size != prober->size)
		prober->stepping_s = now_s;
	prober->state = outcomes[outcome].state;
	prober->size = size;
	*wish = (struct probe_wish){
		.nodes = size,
		.reason = outcomes[outcome].reason,
		.again_s = ask_again_at(prober, now_s),
	};
}

/* --- word from outside -------------------------------------------------------- */

void prober_rescale_failed(struct prober *prober, int nodes, double now_s)
{
	struct rung *rung = find_rung(prober, nodes);

	if (rung && rung->state == RUNG_UNKNOWN)
		count_failure(prober, rung, now_s);
}

void prober_account(struct prober *prober, double node_s, double probe_node_s)
{
	prober->total_node_s += fmax(0, node_s);
	prober->spent_node_s += fmax(0, probe_node_s);
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
		const struct rung *rung = &prober->rungs[i];

		status->given_up += rung->state == RUNG_GIVEN_UP;
		status->points += rung->state == RUNG_KNOWN;
		if (rung->state == RUNG_KNOWN && rung->rel > status->worst_rel)
			status->worst_rel = rung->rel;
	}
}
