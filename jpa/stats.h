/* stats.h - the little statistics that rates need. */
#ifndef JPA_STATS_H
#define JPA_STATS_H

#include <stddef.h>

/* Middle of n > 0 values, which are sorted on the way. */
double stats_median(double *values, size_t n);

/* Two-sided 95 % quantile of Student's t; freedom 1 or more. */
double stats_student_95(double freedom);

/*
 * Half-width of the 95 % confidence interval of the mean of n values in the
 * order in which they were measured, neighbours correlated or not.  INFINITY
 * for less than two.
 */
double stats_half_width(const double *values, size_t n);

#endif
