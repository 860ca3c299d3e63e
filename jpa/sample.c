/*
 * sample.c - progress reports, made into rates.
 *
 * A worker says now and then: step s was done at time t, c samples are
 * consumed.  Two such reports of one world give a rate, but an honest one only if
 * nothing else went on: a new world runs slowly at first (caches, pages, the
 * first allreduce), and while the next one warms up on the same nodes the
 * present one is slowed.  So a window opens at a report, closes at the
 * first report at least window_s later, and is thrown away when it lies in the
 * warm-up or overlaps a time that the daemon calls disturbed.
 *
 * Windows of a noisy machine have a heavy tail on one side (somebody else ran),
 * so the estimate of a size is taken from the windows within three robust
 * standard deviations of the median (1.4826 * MAD; Hampel, J. Am. Stat. Assoc.
 * 69, 1974), weighted by their length: all their samples over all their time.
 * Its confidence interval is Student's, with neighbours averaged in pairs first
 * when there are enough of them, since consecutive windows are correlated
 * (batch means; Law, Simulation Modeling and Analysis, ch. 9).
 *
 * The newest SAMPLER_KEEP windows of a size count: what was true long ago is
 * forgotten by being pushed out.
 */
#include "jpa/sample.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const struct sampler_params sampler_defaults = {
	.window_s = 0.5,
	.warm_s = 0.7,
	.warm_steps = 3,
	.min_windows = 4,
};

struct window {
	double samples, spent_s;
};

struct size {
	int nodes;
	struct window windows[SAMPLER_KEEP];
	size_t n, next; /* a ring */
	double last_arrived_s;
};

struct sampler {
	struct sampler_params params;
	struct size *sizes; /* ascending by nodes */
	size_t n_sizes;
	struct sample open;  /* where the open window began; nodes 0: none */
	struct sample first; /* report of this generation */
	struct sample last;
	double disturbed_until_s;
	double rate_now;
};

struct sampler *sampler_create(const struct sampler_params *params)
{
	struct sampler *sampler = calloc(1, sizeof(*sampler));

	if (!sampler)
		return NULL;
	sampler->params = params ? *params : sampler_defaults;
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

void sampler_disturbed(struct sampler *sampler, double from_s, double to_s)
{
	if (!sampler)
		return;
	(void)from_s; /* whatever is open began before: it goes whole */
	sampler->open.nodes = 0;
	if (to_s > sampler->disturbed_until_s)
		sampler->disturbed_until_s = to_s;
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
	if (!grown)
		return NULL;
	sampler->sizes = grown;
	for (i = sampler->n_sizes; i > 0 && grown[i - 1].nodes > nodes; i--)
		grown[i] = grown[i - 1];
	memset(&grown[i], 0, sizeof(grown[i]));
	grown[i].nodes = nodes;
	sampler->n_sizes++;
	return &grown[i];
}

static int is_warm(const struct sampler *sampler, const struct sample *sample)
{
	return sample->t_s - sampler->first.t_s >= sampler->params.warm_s &&
	       sample->step - sampler->first.step >= sampler->params.warm_steps;
}

static int close_window(struct sampler *sampler, const struct sample *sample)
{
	const struct sample *open = &sampler->open;
	struct window window = {
		.samples = (double)(sample->cursor - open->cursor),
		.spent_s = sample->t_s - open->t_s,
	};
	struct size *size = make_size(sampler, sample->nodes);

	if (!size)
		return -1;
	size->windows[size->next] = window;
	size->next = (size->next + 1) % SAMPLER_KEEP;
	if (size->n < SAMPLER_KEEP)
		size->n++;
	size->last_arrived_s = sample->arrived_s;
	return 1;
}

int sampler_add(struct sampler *sampler, const struct sample *sample)
{
	int moved = 0;

	if (sample->generation != sampler->last.generation ||
		sample->nodes != sampler->last.nodes ||
		sample->cursor < sampler->last.cursor) {
		sampler->first = *sample;
		sampler->open.nodes = 0;
		sampler->last = *sample;
		return 0;
	}
	if (sample->cursor == sampler->last.cursor)
		return 0; /* the same step again: no news */
	sampler->last = *sample;
	if (!is_warm(sampler, sample) || sample->arrived_s <= sampler->disturbed_until_s)
		return 0;
	if (sampler->open.nodes == 0) {
		sampler->open = *sample;
		return 0;
	}
	if (sample->t_s - sampler->open.t_s < sampler->params.window_s)
		return 0;
	sampler->rate_now = (double)(sample->cursor - sampler->open.cursor) /
		(sample->t_s - sampler->open.t_s);
	moved = close_window(sampler, sample);
	sampler->open = *sample;
	return moved;
}

double sampler_rate_now(const struct sampler *sampler)
{
	return sampler ? sampler->rate_now : 0;
}

size_t sampler_sizes(const struct sampler *sampler, int *out, size_t room)
{
	for (size_t i = 0; i < sampler->n_sizes && i < room; i++)
		out[i] = sampler->sizes[i].nodes;
	return sampler->n_sizes;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *values, size_t n)
{
	qsort(values, n, sizeof(*values), by_value);
	return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/* Two-sided 95 % quantiles of Student's t, 1 to 30 degrees of freedom. */
static double student_95(size_t freedom)
{
	static const double table[] = { 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365,
		2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101,
		2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045,
		2.042 };

	return freedom <= 30 ? table[freedom - 1] : 1.96 + 2.5 / (double)freedom;
}

/* The windows that count, oldest first.  Returns how many. */
static size_t without_outliers(const struct size *size, struct window *out)
{
	double rates[SAMPLER_KEEP], spread[SAMPLER_KEEP];
	size_t start = size->n < SAMPLER_KEEP ? 0 : size->next, n = 0;
	double middle, limit;

	for (size_t i = 0; i < size->n; i++)
		rates[i] = size->windows[i].samples / size->windows[i].spent_s;
	middle = median(rates, size->n);
	for (size_t i = 0; i < size->n; i++)
		spread[i] = fabs(rates[i] - middle);
	limit = 3 * 1.4826 * median(spread, size->n) + 1e-9 * middle;
	for (size_t i = 0; i < size->n; i++) {
		const struct window *window = &size->windows[(start + i) % SAMPLER_KEEP];

		if (fabs(window->samples / window->spent_s - middle) <= limit)
			out[n++] = *window;
	}
	return n;
}

static double half_width(const struct window *windows, size_t n)
{
	size_t batch = n >= 12 ? 2 : 1, batches = n / batch;
	double means[SAMPLER_KEEP], sum = 0, squares = 0;

	if (batches < 2)
		return INFINITY;
	for (size_t i = 0; i < batches; i++) {
		double samples = 0, spent_s = 0;

		for (size_t k = 0; k < batch; k++) {
			samples += windows[i * batch + k].samples;
			spent_s += windows[i * batch + k].spent_s;
		}
		means[i] = samples / spent_s;
		sum += means[i];
	}
	for (size_t i = 0; i < batches; i++)
		squares += pow(means[i] - sum / (double)batches, 2);
	return student_95(batches - 1) *
	       sqrt(squares / (double)(batches - 1) / (double)batches);
}

int sampler_estimate(const struct sampler *sampler, int nodes, struct estimate *out)
{
	const struct size *size = find_size(sampler, nodes);
	struct window kept[SAMPLER_KEEP];
	double samples = 0, spent_s = 0;
	size_t n;

	if (!size || size->n == 0)
		return -1;
	n = without_outliers(size, kept);
	for (size_t i = 0; i < n; i++) {
		samples += kept[i].samples;
		spent_s += kept[i].spent_s;
	}
	*out = (struct estimate){
		.nodes = nodes,
		.rate_per_s = samples / spent_s,
		.ci_per_s = half_width(kept, n),
		.windows = size->n,
		.last_arrived_s = size->last_arrived_s,
	};
	return 0;
}

int sampler_to_curve(const struct sampler *sampler, struct curve *curve)
{
	for (size_t i = 0; i < sampler->n_sizes; i++) {
		struct estimate estimate;
		struct curve_point point;

		if (sampler->sizes[i].n < sampler->params.min_windows)
			continue;
		sampler_estimate(sampler, sampler->sizes[i].nodes, &estimate);
		point = (struct curve_point){ estimate.nodes, estimate.rate_per_s,
			isfinite(estimate.ci_per_s) ? estimate.ci_per_s : 0 };
		if (curve_set(curve, point) != 0)
			return -1;
	}
	return 0;
}

/* All of the last few windows on one side of the rate, a tenth away or more. */
int sampler_drift(const struct sampler *sampler, int nodes, double rate_per_s)
{
	const struct size *size = find_size(sampler, nodes);
	size_t recent = 6, above = 0, below = 0;

	if (!size || size->n < recent || rate_per_s <= 0)
		return 0;
	for (size_t i = 0; i < recent; i++) {
		size_t at = (size->next + SAMPLER_KEEP - 1 - i) % SAMPLER_KEEP;
		double rate = size->windows[at].samples / size->windows[at].spent_s;

		above += rate > 1.2 * rate_per_s;
		below += rate < 0.8 * rate_per_s;
	}
	return above == recent || below == recent;
}
