/*
 * sample.c - progress reports, made into rates.
 *
 * A worker says now and then: step s was done at time t, c samples are
 * consumed.  Two such reports of one world give a rate, but an honest one only if
 * nothing else went on: a new world runs slowly at first (caches, pages, the
 * first allreduce), and while the next one warms up on the same nodes the
 * present one is slowed.  So a window opens at a report, closes at the first
 * report of a later step at least window_s on, and is thrown away when it lies
 * in the warm-up or overlaps a time that the daemon calls disturbed, also when
 * that is only known afterwards.  Both ends are ends of steps, so a step may take
 * longer than the time between reports, or than a window.
 *
 * A window's length is by the node's own clock, since reports are delayed on
 * their way; everything else goes by the receiver's clock, which is never set.
 * Where the two disagree by more than clock_slack_s, a clock was set, and the
 * window is dropped.
 *
 * Windows of a noisy machine have a heavy tail on one side (somebody else ran),
 * so the estimate of a size is taken from the windows within three robust
 * standard deviations of the median (1.4826 * MAD; Hampel, J. Am. Stat. Assoc.
 * 69, 1974), weighted by their length: all their samples over all their time.
 * The confidence interval is that of stats.c, for correlated neighbours.
 *
 * The newest SAMPLER_KEEP windows of a size count: what was true long ago is
 * forgotten by being pushed out, and at once when the newest windows contradict
 * it: all on one side of the old rate, and off by more than drift_rel of it and by
 * more than their own confidence.
 */
#include "jpa/sample.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "jpa/stats.h"

const struct sampler_params sampler_defaults = {
	.window_s = 0.5,
	.warm_s = 0.7,
	.warm_steps = 3,
	.min_windows = 4,
	.drift_windows = 8,
	.drift_s = 5,
	.drift_rel = 0.2,
	.clock_slack_s = 1,
};

/* Rates this close to the median are no outliers, however alike the others. */
#define NEAR_REL 0.02

struct window {
	double samples, spent_s; /* by the node's clock */
	double from_s, to_s;     /* arrived */
};

struct size {
	int nodes;
	struct window windows[SAMPLER_KEEP]; /* oldest first */
	size_t n;
};

struct sampler {
	struct sampler_params params;
	struct size *sizes; /* ascending by nodes */
	size_t n_sizes;
	struct sample first; /* report of this generation */
	struct sample last;
	struct sample open;  /* where the open window began; nodes 0: none */
	struct sample shown; /* the same for rate_now, which takes everything */
	double disturbed_from_s, disturbed_until_s;
	double rate_now;
};

struct sampler *sampler_create(const struct sampler_params *params)
{
	struct sampler *sampler = calloc(1, sizeof(*sampler));

	if (!sampler)
		return NULL;
	sampler->params = params ? *params : sampler_defaults;
	sampler->disturbed_from_s = -INFINITY;
	sampler->disturbed_until_s = -INFINITY;
	return sampler;
}

void sampler_destroy(struct sampler *sampler)
{
	if (!sampler)
		return;
	free(sampler->sizes);
	free(sampler);
}

static struct size *find_size(const struct sampler *sampler, int nodes)
{
	for (size_t i = 0; i < sampler->n_sizes; i++)
		if (sampler->sizes[i].nodes == nodes)
			return &sampler->sizes[i];
	return NULL;
}

static struct size *make_size(struct sampler *sampler, int nodes)
{
	struct size *size = find_size(sampler, nodes), *grown;
	size_t i;

	if (size)
		return size;
	grown = realloc(sampler->sizes, (sampler->n_sizes + 1) * sizeof(*grown));
	if (!grown) {
		errno = ENOMEM;
		return NULL;
	}
	sampler->sizes = grown;
	for (i = sampler->n_sizes; i > 0 && grown[i - 1].nodes > nodes; i--)
		grown[i] = grown[i - 1];
	memset(&grown[i], 0, sizeof(grown[i]));
	grown[i].nodes = nodes;
	sampler->n_sizes++;
	return &grown[i];
}

static double rate_of(const struct window *window)
{
	return window->samples / window->spent_s;
}

static void forget_oldest(struct size *size, size_t n)
{
	size->n -= n;
	memmove(size->windows, size->windows + n, size->n * sizeof(*size->windows));
}

/* --- what does not count ------------------------------------------------------ */

static int is_disturbed(const struct sampler *sampler, double from_s, double to_s)
{
	return from_s <= sampler->disturbed_until_s &&
	       to_s >= sampler->disturbed_from_s;
}

static void drop_disturbed(const struct sampler *sampler, struct size *size)
{
	size_t kept = 0;

	for (size_t i = 0; i < size->n; i++) {
		const struct window *window = &size->windows[i];

		if (!is_disturbed(sampler, window->from_s, window->to_s))
			size->windows[kept++] = *window;
	}
	size->n = kept;
}

void sampler_disturbed(struct sampler *sampler, double from_s, double to_s)
{
	if (!sampler || to_s < from_s)
		return;
	if (from_s > sampler->disturbed_until_s)
		sampler->disturbed_from_s = from_s; /* another time */
	else if (from_s < sampler->disturbed_from_s)
		sampler->disturbed_from_s = from_s;
	if (isinf(sampler->disturbed_until_s) || to_s > sampler->disturbed_until_s)
		sampler->disturbed_until_s = to_s;
	for (size_t i = 0; i < sampler->n_sizes; i++)
		drop_disturbed(sampler, &sampler->sizes[i]);
	if (to_s >= sampler->open.arrived_s)
		sampler->open.nodes = 0;
}

void sampler_forget(struct sampler *sampler, double before_s)
{
	for (size_t i = 0; i < sampler->n_sizes; i++) {
		struct size *size = &sampler->sizes[i];
		size_t old = 0;

		while (old < size->n && size->windows[old].from_s < before_s)
			old++;
		forget_oldest(size, old);
	}
}

static int is_warm(const struct sampler *sampler, const struct sample *sample)
{
	return sample->arrived_s - sampler->first.arrived_s >= sampler->params.warm_s &&
	       sample->step - sampler->first.step >= sampler->params.warm_steps;
}

/* A clock was set between the two, or this is no step forward at all. */
static int is_torn(const struct sampler *sampler, const struct sample *from,
	const struct sample *to)
{
	double spent_s = to->t_s - from->t_s;

	return spent_s <= 0 || fabs(spent_s - (to->arrived_s - from->arrived_s)) >
				       sampler->params.clock_slack_s;
}

/* --- windows ------------------------------------------------------------------ */

/* How many of the newest windows a judgement on drift takes; 0: too few. */
static size_t recent_windows(const struct sampler *sampler, const struct size *size)
{
	const struct sampler_params *params = &sampler->params;
	double spent_s = 0;
	size_t n = 0;

	while (n < params->drift_windows || spent_s < params->drift_s) {
		if (n == size->n)
			return 0;
		spent_s += size->windows[size->n - ++n].spent_s;
	}
	return n;
}

/* Do the newest n windows contradict this rate?  See the top. */
static int contradicts(const struct sampler *sampler, const struct size *size, size_t n,
	double rate_per_s)
{
	double rates[SAMPLER_KEEP], mean = 0, off;
	size_t above = 0;

	for (size_t i = 0; i < n; i++) {
		rates[i] = rate_of(&size->windows[size->n - n + i]);
		above += rates[i] > rate_per_s;
		mean += rates[i] / (double)n;
	}
	off = fabs(mean - rate_per_s);
	return (above == 0 || above == n) && off > stats_half_width(rates, n) &&
	       off > sampler->params.drift_rel * rate_per_s;
}

/* All samples over all time of the windows that are no outliers. */
static void estimate_windows(const struct window *windows, size_t n, double *rate_per_s,
	double *ci_per_s)
{
	double rates[SAMPLER_KEEP], scratch[SAMPLER_KEEP];
	double middle, limit, samples = 0, spent_s = 0;
	size_t kept = 0;

	for (size_t i = 0; i < n; i++)
		scratch[i] = rate_of(&windows[i]);
	middle = stats_median(scratch, n);
	for (size_t i = 0; i < n; i++)
		scratch[i] = fabs(rate_of(&windows[i]) - middle);
	limit = fmax(3 * 1.4826 * stats_median(scratch, n), NEAR_REL * middle);
	for (size_t i = 0; i < n; i++) {
		if (fabs(rate_of(&windows[i]) - middle) > limit)
			continue;
		rates[kept++] = rate_of(&windows[i]);
		samples += windows[i].samples;
		spent_s += windows[i].spent_s;
	}
	*rate_per_s = samples / spent_s;
	*ci_per_s = stats_half_width(rates, kept);
}

/* What the newest windows contradict is of another time. */
static void forget_contradicted(const struct sampler *sampler, struct size *size)
{
	size_t recent = recent_windows(sampler, size), older = size->n - recent;
	double rate, ci;

	if (recent == 0 || older < sampler->params.min_windows || older == 0)
		return;
	estimate_windows(size->windows, older, &rate, &ci);
	if (contradicts(sampler, size, recent, rate))
		forget_oldest(size, older);
}

static int close_window(struct sampler *sampler, const struct sample *sample)
{
	const struct sample *open = &sampler->open;
	struct size *size = make_size(sampler, sample->nodes);

	if (!size)
		return -1;
	if (size->n == SAMPLER_KEEP)
		forget_oldest(size, 1);
	size->windows[size->n++] = (struct window){
		.samples = (double)(sample->cursor - open->cursor),
		.spent_s = sample->t_s - open->t_s,
		.from_s = open->arrived_s,
		.to_s = sample->arrived_s,
	};
	forget_contradicted(sampler, size);
	return 1;
}

static void begin_world(struct sampler *sampler, const struct sample *sample)
{
	sampler->first = sampler->last = sampler->shown = *sample;
	sampler->open.nodes = 0;
}

static void show(struct sampler *sampler, const struct sample *sample)
{
	double spent_s = sample->t_s - sampler->shown.t_s;

	if (is_torn(sampler, &sampler->shown, sample)) {
		sampler->shown = *sample;
	} else if (spent_s >= sampler->params.window_s) {
		sampler->rate_now =
			(double)(sample->cursor - sampler->shown.cursor) / spent_s;
		sampler->shown = *sample;
	}
}

int sampler_add(struct sampler *sampler, const struct sample *sample)
{
	struct sample *open = &sampler->open;
	int moved;

	if (sample->nodes < 1 || sample->generation < sampler->last.generation)
		return 0;
	if (sample->generation > sampler->last.generation ||
		sample->nodes != sampler->last.nodes ||
		sample->cursor < sampler->last.cursor) {
		begin_world(sampler, sample);
		return 0;
	}
	if (sample->cursor == sampler->last.cursor)
		return 0; /* the same step again: no news */
	sampler->last = *sample;
	show(sampler, sample);
	if (open->nodes > 0 && (is_torn(sampler, open, sample) ||
				       is_disturbed(sampler, open->arrived_s,
					       sample->arrived_s)))
		open->nodes = 0;
	if (!is_warm(sampler, sample) ||
		is_disturbed(sampler, sample->arrived_s, sample->arrived_s))
		return 0;
	if (open->nodes == 0) {
		*open = *sample;
		return 0;
	}
	if (sample->t_s - open->t_s < sampler->params.window_s)
		return 0;
	moved = close_window(sampler, sample);
	*open = *sample;
	return moved;
}

/* --- what is known ------------------------------------------------------------ */

double sampler_rate_now(const struct sampler *sampler)
{
	return sampler ? sampler->rate_now : 0;
}

double sampler_moved_s(const struct sampler *sampler)
{
	return sampler->last.nodes > 0 ? sampler->last.arrived_s : -INFINITY;
}

size_t sampler_sizes(const struct sampler *sampler, int *out, size_t room)
{
	size_t n = 0;

	for (size_t i = 0; i < sampler->n_sizes; i++) {
		if (sampler->sizes[i].n == 0)
			continue;
		if (n < room)
			out[n] = sampler->sizes[i].nodes;
		n++;
	}
	return n;
}

int sampler_estimate_since(const struct sampler *sampler, int nodes, double since_s,
	struct estimate *out)
{
	const struct size *size = find_size(sampler, nodes);
	size_t old = 0;

	if (!size)
		return -1;
	while (old < size->n && size->windows[old].from_s < since_s)
		old++;
	if (old == size->n)
		return -1;
	out->nodes = nodes;
	out->windows = size->n - old;
	out->last_arrived_s = size->windows[size->n - 1].to_s;
	estimate_windows(&size->windows[old], out->windows, &out->rate_per_s,
		&out->ci_per_s);
	return 0;
}

int sampler_estimate(const struct sampler *sampler, int nodes, struct estimate *out)
{
	return sampler_estimate_since(sampler, nodes, -INFINITY, out);
}

int sampler_to_curve(const struct sampler *sampler, struct curve *curve)
{
	for (size_t i = 0; i < sampler->n_sizes; i++) {
		const struct size *size = &sampler->sizes[i];
		struct estimate estimate;
		struct curve_point point;

		if (size->n < sampler->params.min_windows ||
			sampler_estimate(sampler, size->nodes, &estimate) != 0)
			continue;
		/* 0 would say "given"; no confidence is as wide as the rate */
		point = (struct curve_point){ estimate.nodes, estimate.rate_per_s,
			fmin(fmax(estimate.ci_per_s, 1e-6 * estimate.rate_per_s),
				estimate.rate_per_s) };
		if (curve_set(curve, point) != 0)
			return -1;
	}
	return 0;
}

int sampler_drift(const struct sampler *sampler, int nodes, double rate_per_s)
{
	const struct size *size = find_size(sampler, nodes);
	size_t recent = size ? recent_windows(sampler, size) : 0;

	return recent > 0 && rate_per_s > 0 &&
	       contradicts(sampler, size, recent, rate_per_s);
}
