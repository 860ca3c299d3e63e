/*
 * curve.c - how a job's rate depends on its number of nodes.
 *
 * A handful of measured points, kept sorted.  Nothing is fitted here: linear
 * between points, flat beyond the last, proportional below the first.  A model
 * that knows more may put points in; it never replaces a measured one.
 */
#include "jpa/curve.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void curve_init(struct curve *curve)
{
	curve->points = NULL;
	curve->n_points = 0;
}

void curve_fini(struct curve *curve)
{
	free(curve->points);
	curve_init(curve);
}

const struct curve_point *curve_at(const struct curve *curve, int nodes)
{
	for (size_t i = 0; i < curve->n_points; i++)
		if (curve->points[i].nodes == nodes)
			return &curve->points[i];
	return NULL;
}

int curve_set(struct curve *curve, struct curve_point point)
{
	struct curve_point *at = (struct curve_point *)curve_at(curve, point.nodes);
	size_t i;

	if (point.nodes < 1 || !isfinite(point.rate_per_s) || point.rate_per_s < 0) {
		errno = EINVAL;
		return -1;
	}
	if (at) {
		*at = point;
		return 0;
	}
	at = realloc(curve->points, (curve->n_points + 1) * sizeof(*at));
	if (!at) {
		errno = ENOMEM;
		return -1;
	}
	curve->points = at;
	for (i = curve->n_points; i > 0 && at[i - 1].nodes > point.nodes; i--)
		at[i] = at[i - 1];
	at[i] = point;
	curve->n_points++;
	return 0;
}

int curve_copy(struct curve *to, const struct curve *from)
{
	struct curve_point *points = NULL;

	if (from->n_points > 0) {
		points = malloc(from->n_points * sizeof(*points));
		if (!points) {
			errno = ENOMEM;
			return -1;
		}
		memcpy(points, from->points, from->n_points * sizeof(*points));
	}
	free(to->points);
	to->points = points;
	to->n_points = from->n_points;
	return 0;
}

double curve_rate(const struct curve *curve, int nodes)
{
	const struct curve_point *points = curve->points;
	size_t n = curve->n_points;

	if (nodes <= 0 || n == 0)
		return 0;
	if (nodes <= points[0].nodes)
		return points[0].rate_per_s * nodes / points[0].nodes;
	for (size_t i = 1; i < n; i++) {
		const struct curve_point *a = &points[i - 1], *b = &points[i];

		if (nodes <= b->nodes)
			return a->rate_per_s + (b->rate_per_s - a->rate_per_s) *
				(nodes - a->nodes) / (b->nodes - a->nodes);
	}
	return points[n - 1].rate_per_s;
}
