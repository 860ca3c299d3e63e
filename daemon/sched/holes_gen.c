/*
 * holes_gen.c - holes that look like those of a large machine.
 *
 * What is known of Summit (4,734 nodes, February 2021): a node stays idle for
 * 475 s in the median, 3,269 s at the 90th percentile; 56 % of the fragments
 * are shorter than ten minutes and hold 11 % of the idle node-time; nodes that
 * came together leave together with probability 0.84; a row that joins nodes
 * joins 3 in the median and 11 in the mean.  The generator has one part for
 * each of these:
 *
 * - Lengths: a mixture of two lognormals, 77.5 % with median 216 s and the rest
 *   with median 2,305 s, cut to 62 s..24 h (the trace was sampled; nothing is
 *   shorter).  Its five numbers minimise the squared distance to the four facts
 *   above, to the mean and to the published histogram's cumulated counts and
 *   node-seconds.  Analytically: F(475 s) = 0.504, F(3,269 s) = 0.902,
 *   F(600 s) = 0.559 with 11.0 % of the time, mean 1,225 s (published: 1,205).
 *
 * - Groups: sizes are a rounded lognormal with median 3 and mean 11, at least 1
 *   and at most what is busy.
 *
 * - Leaving together: a group is parted by the Chinese restaurant process with
 *   theta = 1/0.84 - 1, in which any two members share a part with probability
 *   exactly 1 / (1 + theta) = 0.84, whatever the group's size.  A part leaves as
 *   one, and draws its length for itself.
 *
 * - Idle share: groups come at random, at a rate that gives the share asked for,
 *   and is corrected by what the last hours fell short of or exceeded.  A run
 *   of minutes may be far off the share, as it is on the real machine.
 *
 * It starts four hours before its beginning, so that the first row finds the
 * machine in its usual state.  Times are whole seconds.  What is idle at the end
 * stays so: the span says where the trace ends.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/sched/holes.h"

static const struct {
	double share, long_share; /* of the two parts */
	double mu[2], sigma[2];   /* of the logarithms of seconds */
	double shortest_s, longest_s, mean_s;
} lengths = { 0.775, 0.225, { 5.375, 7.743 }, { 1.296, 0.741 }, 62, 86400, 1225 };

static const double group_mu = 1.0986, group_sigma = 1.61; /* median 3, mean 11 */
static const double together = 0.84;
static const double warm_up_s = 4 * 3600;
static const double correction_s = 2 * 3600; /* to make up for what was missed */

struct change {
	double t_s;
	uint32_t node;
	int joins; /* 0: leaves */
};

struct maker {
	uint64_t random;
	const struct holes_model *model;
	double *free_at; /* of each node: when it is busy again */
	struct change *changes;
	size_t n_changes, room;
	double made_s; /* node-seconds of idleness so far */
};

/* splitmix64: enough for this, and the same everywhere. */
static double uniform(struct maker *maker)
{
	uint64_t z = maker->random += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	z ^= z >> 31;
	return ((double)(z >> 11) + 0.5) / 9007199254740992.0;
}

static double normal(struct maker *maker)
{
	double u = uniform(maker), v = uniform(maker);

	return sqrt(-2 * log(u)) * cos(2 * M_PI * v);
}

static double draw_length_s(struct maker *maker)
{
	double s;

	do {
		int part = uniform(maker) >= lengths.share;

		s = round(exp(lengths.mu[part] + lengths.sigma[part] * normal(maker)));
	} while (s < lengths.shortest_s || s > lengths.longest_s);
	return s;
}

static uint32_t draw_group(struct maker *maker)
{
	double size = round(exp(group_mu + group_sigma * normal(maker)));

	if (size < 1)
		return 1;
	return size < maker->model->nodes ? (uint32_t)size : maker->model->nodes;
}

static int add_change(struct maker *maker, double t_s, uint32_t node, int joins)
{
	if (maker->n_changes == maker->room) {
		size_t room = maker->room ? 2 * maker->room : 1024;
		struct change *more =
			reallocarray(maker->changes, room, sizeof(*maker->changes));

		if (!more)
			return -1;
		maker->changes = more;
		maker->room = room;
	}
	maker->changes[maker->n_changes++] = (struct change){ t_s, node, joins };
	return 0;
}

static int add_hole(struct maker *maker, uint32_t node, double from_s, double to_s)
{
	double end_s = maker->model->hours * 3600;

	maker->free_at[node] = to_s;
	maker->made_s += to_s - from_s;
	if (to_s <= 0)
		return 0;
	if (add_change(maker, from_s > 0 ? from_s : 0, node, 1) < 0)
		return -1;
	return to_s < end_s ? add_change(maker, to_s, node, 0) : 0;
}

/*
 * Seat one more of a group of which `seated` sit at tables of these sizes.
 * Returns the table, which is a new one with probability theta / (n + theta).
 */
static size_t seat(
	struct maker *maker, uint32_t *sizes, size_t *n_tables, size_t seated)
{
	double theta = 1 / together - 1;
	double at = uniform(maker) * ((double)seated + theta);
	size_t table = 0;

	while (table < *n_tables && at >= sizes[table])
		at -= sizes[table++];
	if (table == *n_tables) {
		sizes[table] = 0;
		++*n_tables;
	}
	sizes[table]++;
	return table;
}

/* The next busy node from *at on, going round; -1 after one round. */
static long next_busy(
	const struct maker *maker, uint32_t *at, uint32_t *tried, double t_s)
{
	uint32_t n = maker->model->nodes;

	for (; *tried < n; ++*tried, *at = (*at + 1) % n) {
		if (maker->free_at[*at] < t_s) {
			uint32_t node = *at;

			++*tried;
			*at = (*at + 1) % n;
			return node;
		}
	}
	return -1;
}

/* Neighbours that are busy become idle together: jobs sit on neighbours. */
static int add_group(struct maker *maker, double t_s, uint32_t *sizes, double *ends)
{
	uint32_t size = draw_group(maker), tried = 0;
	uint32_t at = (uint32_t)(uniform(maker) * maker->model->nodes);
	size_t n_tables = 0;

	for (uint32_t i = 0; i < size; i++) {
		long node = next_busy(maker, &at, &tried, t_s);
		size_t before = n_tables, table;

		if (node < 0)
			return 0;
		table = seat(maker, sizes, &n_tables, i);
		if (n_tables > before)
			ends[table] = t_s + draw_length_s(maker);
		if (add_hole(maker, (uint32_t)node, t_s, ends[table]) < 0)
			return -1;
	}
	return 0;
}

/*
 * The mean time to the next group: by the mean of groups so far (with the
 * analytic one counted twenty times), times a correction for the present lead.
 */
static double mean_gap_s(const struct maker *maker, double t_s, size_t n_groups)
{
	double wanted = maker->model->idle_share * maker->model->nodes; /* idle nodes */
	double size = exp(group_mu + group_sigma * group_sigma / 2);
	double prior = 20 * lengths.mean_s *
		       (size < maker->model->nodes ? size : maker->model->nodes);
	double mean = (prior + maker->made_s) / (double)(20 + n_groups);
	double lead = maker->made_s / wanted - (t_s + warm_up_s);

	return mean / wanted * fmin(8, fmax(0.125, exp(lead / correction_s)));
}

static int make_changes(struct maker *maker)
{
	uint32_t n = maker->model->nodes;
	uint32_t *sizes = calloc(n, sizeof(*sizes));
	double *ends = calloc(n, sizeof(*ends));
	double end_s = maker->model->hours * 3600, t_s = -warm_up_s;
	int rc = sizes && ends ? 0 : -1;

	for (size_t groups = 0; rc == 0; groups++) {
		t_s += -log(uniform(maker)) * mean_gap_s(maker, t_s, groups);
		if (round(t_s) >= end_s)
			break;
		rc = add_group(maker, round(t_s), sizes, ends);
	}
	free(sizes);
	free(ends);
	return rc;
}

/* By time, leaves before joins, then by node. */
static int compare_changes(const void *va, const void *vb)
{
	const struct change *a = va, *b = vb;

	if (a->t_s != b->t_s)
		return a->t_s < b->t_s ? -1 : 1;
	if (a->joins != b->joins)
		return a->joins - b->joins;
	return a->node < b->node ? -1 : a->node > b->node;
}

static struct holes *make_rows(const struct maker *maker, struct err *err)
{
	struct holes_builder *builder = holes_builder_create();
	struct holes *holes;
	double t_s = -1;
	int rc = 0;

	if (!builder) {
		err_set(err, ENOMEM, "out of memory");
		return NULL;
	}
	for (size_t i = 0; i < maker->n_changes && rc == 0; i++) {
		const struct change *c = &maker->changes[i];

		if (c->t_s != t_s)
			rc = holes_builder_row(builder, c->t_s, err);
		t_s = c->t_s;
		if (rc == 0)
			rc = c->joins ? holes_builder_join(builder, c->node, err)
				      : holes_builder_leave(builder, c->node, err);
	}
	if (rc < 0) {
		holes_builder_destroy(builder);
		return NULL;
	}
	holes = holes_builder_finish(builder, maker->model->hours * 3600, err);
	if (holes)
		holes->n_nodes = maker->model->nodes;
	return holes;
}

static int check_model(const struct holes_model *model, struct err *err)
{
	if (model->nodes >= 1 && model->nodes <= HOLES_NODES_MAX && model->hours > 0 &&
		model->hours <= 24 * 366 && model->idle_share >= 0.001 &&
		model->idle_share <= 0.95)
		return 0;
	return err_set(err, EINVAL,
		"generated trace: %u nodes (1 to %d), %g hours (over 0, to a year), "
		"idle "
		"share %g (0.001 to 0.95)",
		model->nodes, HOLES_NODES_MAX, model->hours, model->idle_share);
}

struct holes *holes_generate(const struct holes_model *model, struct err *err)
{
	struct maker maker = { .model = model, .random = model->seed };
	struct holes *holes = NULL;

	if (check_model(model, err) < 0)
		return NULL;
	maker.free_at = calloc(model->nodes, sizeof(*maker.free_at));
	if (!maker.free_at)
		goto no_memory;
	for (uint32_t i = 0; i < model->nodes; i++)
		maker.free_at[i] = -2 * warm_up_s;
	if (make_changes(&maker) < 0)
		goto no_memory;
	qsort(maker.changes, maker.n_changes, sizeof(*maker.changes), compare_changes);
	holes = make_rows(&maker, err);
	goto done;

no_memory:
	err_set(err, ENOMEM, "generated trace: out of memory");
done:
	free(maker.free_at);
	free(maker.changes);
	return holes;
}
