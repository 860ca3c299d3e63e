/* sample.h - progress reports of one job, made into a rate for each size. */
#ifndef JPA_SAMPLE_H
#define JPA_SAMPLE_H

#include <stddef.h>

#include "jpa/curve.h"

/* One report of progress, as it arrived. */
struct sample {
	double t_s;       /* the node's wall clock at the end of `step` */
	double arrived_s; /* monotonic clock of who received it */
	int nodes;        /* of the world, 1 or more */
	long long generation;
	long long step;   /* optimiser steps of the job */
	long long cursor; /* samples consumed by the job */
};

struct sampler_params {
	double window_s;  /* shortest window; shorter gaps are joined */
	double warm_s;    /* after a new generation: not counted, and */
	int warm_steps;   /*   so many steps neither */
	size_t min_windows; /* for an estimate to be worth a point */
	size_t drift_windows; /* so many newest windows, and */
	double drift_s;       /*   so much time of them, must agree that a rate */
	double drift_rel;     /*   is off by more than this part of it */
	double clock_slack_s; /* more between the two clocks: one was set */
};

/* 0.5 s, 0.7 s, 3 steps, 4 windows; 8 windows, 5 s, 0.2; 1 s. */
extern const struct sampler_params sampler_defaults;

/* What is known of one size. */
struct estimate {
	int nodes;
	double rate_per_s;
	double ci_per_s;  /* half-width of the 95 % interval; INFINITY: 1 window */
	size_t windows;   /* at most SAMPLER_KEEP, newer push out older */
	double last_arrived_s; /* of the newest window's end */
};
#define SAMPLER_KEEP 64

struct sampler;

/* NULL with ENOMEM.  params NULL: the defaults. */
struct sampler *sampler_create(const struct sampler_params *params);
void sampler_destroy(struct sampler *sampler);

/*
 * Take a report in.  1 when an estimate moved, 0 when not, -1 with ENOMEM.
 * Reports of an older generation than the newest seen are ignored.
 */
int sampler_add(struct sampler *sampler, const struct sample *sample);

/*
 * Between these times (monotonic) the job was not itself: joiners were warming
 * up on its nodes, or it was being rescaled.  Windows that overlap the time do
 * not count, those of before that have counted already included.  to_s INFINITY:
 * until the next call says when it ended.  NULL is fine.
 */
void sampler_disturbed(struct sampler *sampler, double from_s, double to_s);

/* 0 and *out, or -1 when the size was never measured. */
int sampler_estimate(const struct sampler *sampler, int nodes, struct estimate *out);

/* The same of the windows alone that began at since_s (monotonic) or later. */
int sampler_estimate_since(const struct sampler *sampler, int nodes, double since_s,
	struct estimate *out);

/* Sizes with a window, ascending, into out; returns how many there are. */
size_t sampler_sizes(const struct sampler *sampler, int *out, size_t room);

/* The rate of the last whole window, undisturbed or not; 0 before. */
double sampler_rate_now(const struct sampler *sampler);

/* Windows that began before this time (monotonic) are of another time: they
 * count no longer. */
void sampler_forget(struct sampler *sampler, double before_s);

/* Monotonic time of the newest report of a new step; -INFINITY before any. */
double sampler_moved_s(const struct sampler *sampler);

/* Put every size with enough windows into the curve.  -1 with ENOMEM. */
int sampler_to_curve(const struct sampler *sampler, struct curve *curve);

/* The last windows of this size say clearly that `rate_per_s` is no longer so. */
int sampler_drift(const struct sampler *sampler, int nodes, double rate_per_s);

#endif
