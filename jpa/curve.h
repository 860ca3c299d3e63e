/* curve.h - how a job's rate depends on its number of nodes. */
#ifndef JPA_CURVE_H
#define JPA_CURVE_H

#include <stddef.h>

/*
 * A measured (or given) point: rate_per_s samples a second on `nodes` nodes
 * (1 or more).  ci_per_s is the half-width of the 95 % confidence interval of
 * the rate; 0 when the point was given rather than measured.
 */
struct curve_point {
	int nodes;
	double rate_per_s;
	double ci_per_s;
};

/*
 * Points sorted by nodes, no two of the same size.  A curve of no points is
 * legal here and means "unknown": its rate is 0 everywhere.
 */
struct curve {
	struct curve_point *points;
	size_t n_points;
};

void curve_init(struct curve *curve);
void curve_fini(struct curve *curve);

/* Put a point in, replacing the one of the same size.  EINVAL, ENOMEM. */
int curve_set(struct curve *curve, struct curve_point point);

/* The point measured at exactly this size, or NULL.  Borrowed. */
const struct curve_point *curve_at(const struct curve *curve, int nodes);

/* Deep copy into an initialised `to`, whose old content goes.  ENOMEM. */
int curve_copy(struct curve *to, const struct curve *from);

/*
 * Samples a second on `nodes` nodes: 0 for 0 nodes, linear between points,
 * flat beyond the last; below the first point that point's rate divided by
 * its nodes is the rate of one node, and the line runs from there.
 */
double curve_rate(const struct curve *curve, int nodes);

#endif
