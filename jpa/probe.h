/* probe.h - which size of an unknown job to measure next, in inverse order. */
#ifndef JPA_PROBE_H
#define JPA_PROBE_H

#include <stddef.h>

#include "jpa/curve.h"
#include "jpa/sample.h"

struct prober_params {
	double target_rel;   /* a size is known at this half-width over rate */
	size_t min_windows;  /* and not before so many */
	double limit_s;      /* at one size; then what there is must do */
	double budget;       /* share of the job's node-seconds, 0..1 */
	double allowance_node_s; /* that a young job may spend before it has earned */
	double retry_s;      /* after a failure at a size; twice that after the next */
	int all_sizes_upto;  /* ranges of so many sizes are measured whole */
	double ladder_ratio; /* larger ones by steps of this ratio, over 1 */
	double stall_s;      /* without a step, or without the wished size: a failure */
	int give_up;         /* so many failures of a size: do without */
	double drift_rel;    /* one size off by more: all are measured again */
	double prior_rel;    /* a prior's point wider than this is not trusted */
};

/* 0.05, 5 windows, 12 s, 0.1, 60 node-seconds, 10 s, 4 sizes;
 * ratio 2, 60 s, 4 failures, 0.2, 0.15. */
extern const struct prober_params prober_defaults;

enum probe_state {
	PROBE_UNSET = 0,
	PROBE_WAITING,   /* no size can be measured now */
	PROBE_STEPPING,  /* a size is wished that the job is not at */
	PROBE_MEASURING,
	PROBE_DONE,      /* every size of the ladder is known or given up */
	PROBE_EXHAUSTED, /* the budget says wait */
};

/* What the prober wants of the next plan. */
struct probe_wish {
	int nodes;          /* exactly so many; 0: nothing */
	const char *reason; /* static text */
	double again_s;     /* ask again by then, also without news; or INFINITY */
};

struct probe_status {
	enum probe_state state;
	int size;            /* that is being measured or stepped to; 0: none */
	size_t points;       /* of the ladder, known */
	size_t ladder;       /* sizes in it */
	size_t given_up;     /* of the ladder, for now */
	double worst_rel;    /* widest relative half-width of a known one */
	double spent_node_s, total_node_s;
};

struct prober;

/* For a job of min..max nodes (1 <= min <= max).  params NULL: the defaults.
 * NULL with EINVAL or ENOMEM. */
struct prober *prober_create(const struct prober_params *params, int min_nodes,
	int max_nodes);
void prober_destroy(struct prober *prober);

/*
 * A curve of before: given by the user, by the same command, or of an earlier
 * life.  Sizes that it covers count as known until they drift.  How far it is to
 * be trusted is in its points: ci_per_s 0 is the user's word and covers every
 * size when all points say so; a point wider than prior_rel covers nothing;
 * between two measured points a size is covered when they are no more than a
 * factor of ladder_ratio apart.  0; -1 with ENOMEM is for later priors.
 */
int prober_seed(struct prober *prober, const struct curve *prior);

/*
 * Look at what was measured and say what to measure next.  present: nodes that
 * the job runs on now (0: none), whoever chose them: a rescale that was accepted
 * or forced needs no other word.  available: the most that it could be given
 * without taking any other job's last node, its own included.  Call whenever
 * reports came or the nodes changed, and at wish->again_s; now_s (monotonic, as
 * the sampler's) never goes back.  A change of the job that is sure makes the sampler
 * forget what was before it.
 */
void prober_wish(struct prober *prober, double now_s, int present, int available,
	struct sampler *sampler, struct probe_wish *wish);

/* The rescale to the wished size was rolled back. */
void prober_rescale_failed(struct prober *prober, int nodes, double now_s);

/* Node-seconds that the job used, and of those the ones at a size that the
 * prober chose and the plan had not. */
void prober_account(struct prober *prober, double node_s, double probe_node_s);

void prober_status(const struct prober *prober, struct probe_status *status);
const char *probe_state_name(enum probe_state state);

#endif
