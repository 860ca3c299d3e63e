/*
 * check_jpa_probe.c - the prober against jobs whose curve it cannot see.
 *
 * A synthetic job has a hidden curve, steps of a fixed batch, noise, a warm-up
 * after every new world, slow times while joiners warm up beside it, and now and
 * then a stall; reports come every 0.2 to 0.5 s, late by up to 30 ms.  A small
 * daemon around it grants wishes, closes holes, and keeps the account.
 *
 * Noise: each step's time is off by 5 % (one sigma, lognormal), correlated 0.5
 * with the step before; a stall of 0.3 to 1 s every 15 s on the average.  Where a
 * test takes other noise, it says so.
 */
#include <check.h>
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "jpa/probe.h"

#define SEEDS 200
#define MAX_VISITS 256
#define BATCH 256

/* --- the job ------------------------------------------------------------------ */

struct rng {
	uint64_t state;
};

static double uniform(struct rng *rng)
{
	uint64_t z = (rng->state += 0x9e3779b97f4a7c15u); /* splitmix64 */

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return (double)((z ^ (z >> 31)) >> 11) / 9007199254740992.0;
}

static double normal(struct rng *rng)
{
	double u = uniform(rng), v = uniform(rng);

	return sqrt(-2 * log(1 - u)) * cos(2 * M_PI * v);
}

struct job {
	struct rng rng;
	double one_per_s, serial; /* Amdahl: rate(k) = one k / (1 + serial (k - 1)) */
	double factor;            /* drift */
	double sigma, stall_every_s;
	int is_stuck;

	int nodes;
	long long generation, step, cursor;
	double began_s, step_end_s, noise, slow; /* slow: while others warm up */
};

static double true_rate(const struct job *job, int nodes)
{
	return job->factor * job->one_per_s * nodes / (1 + job->serial * (nodes - 1));
}

static void begin_world(struct job *job, int nodes, double now_s)
{
	job->nodes = nodes;
	job->generation++;
	job->began_s = job->step_end_s = now_s;
	job->slow = 1;
}

/* Steps until the next one would end after now_s. */
static void train(struct job *job, double now_s)
{
	while (job->nodes > 0 && !job->is_stuck) {
		double warm = 1 - 0.6 * exp(-(job->step_end_s - job->began_s) / 0.25);
		double step_s = BATCH / true_rate(job, job->nodes) / warm / job->slow;
		double stall = job->stall_every_s > 0 &&
			uniform(&job->rng) < step_s / job->stall_every_s;
		double noise = 0.5 * job->noise + sqrt(0.75) * normal(&job->rng);

		/* so that a step of mean length is what the curve says */
		step_s *= exp(job->sigma * noise - job->sigma * job->sigma / 2);
		step_s += stall > 0 ? 0.3 + 0.7 * uniform(&job->rng) : 0;
		if (job->step_end_s + step_s > now_s)
			return;
		job->noise = noise;
		job->step_end_s += step_s;
		job->step++;
		job->cursor += BATCH;
	}
}

/* --- a small daemon ----------------------------------------------------------- */

enum rescale_phase {
	RESCALE_NONE = 0,
	RESCALE_PREPARE,
	RESCALE_PAUSE,
};

struct world {
	struct job job;
	struct sampler *sampler;
	struct prober *prober;
	struct probe_wish wish;
	struct probe_status status;
	double now_s;
	int available, plan_nodes;
	int fail_size; /* rescales to it are rolled back */

	enum rescale_phase phase;
	int to;
	double phase_end_s, disturbed_s;
	double node_s, probe_node_s;
	int visits[MAX_VISITS]; /* wished sizes in the order in which they came */
	int n_visits, n_rescales;
};

static void world_init(struct world *world, unsigned seed, int min, int max,
	const struct prober_params *params)
{
	memset(world, 0, sizeof(*world));
	world->job.rng.state = seed;
	world->job.one_per_s = 2000 + 6000 * uniform(&world->job.rng);
	world->job.serial = 0.3 * uniform(&world->job.rng);
	world->job.factor = 1;
	world->job.sigma = 0.05;
	world->job.stall_every_s = 15;
	world->now_s = 1000 * uniform(&world->job.rng);
	world->available = max;
	world->plan_nodes = min;
	world->sampler = sampler_create(NULL);
	world->prober = prober_create(params, min, max);
	ck_assert_ptr_nonnull(world->sampler);
	ck_assert_ptr_nonnull(world->prober);
}

static void world_fini(struct world *world)
{
	prober_destroy(world->prober);
	sampler_destroy(world->sampler);
}

static void rescale(struct world *world, int to, int forced)
{
	if (world->phase == RESCALE_NONE)
		world->disturbed_s = world->now_s;
	world->n_rescales++;
	world->to = to;
	forced |= world->job.nodes == 0;
	world->phase = forced ? RESCALE_PAUSE : RESCALE_PREPARE;
	world->phase_end_s = world->now_s + (forced ? 0.6 : 1.5);
	sampler_disturbed(world->sampler, world->disturbed_s, INFINITY);
	train(&world->job, world->now_s);
	if (world->phase == RESCALE_PREPARE)
		world->job.slow = 0.6;
	else
		world->job.nodes = 0;
}

static void end_phase(struct world *world)
{
	int is_failed = world->to == world->fail_size;

	if (world->phase == RESCALE_PREPARE && !is_failed) {
		world->phase = RESCALE_PAUSE;
		world->phase_end_s = world->now_s + 0.4;
		world->job.nodes = 0;
		return;
	}
	world->phase = RESCALE_NONE;
	sampler_disturbed(world->sampler, world->disturbed_s, world->now_s);
	if (world->job.nodes > 0) /* rolled back: the old world goes on */
		world->job.slow = 1;
	else
		begin_world(&world->job, world->to, world->now_s);
	if (is_failed)
		prober_rescale_failed(world->prober, world->to, world->now_s);
}

static void report(struct world *world)
{
	const struct job *job = &world->job;
	struct sample sample = {
		.t_s = 1.7e9 + job->step_end_s,
		.arrived_s = world->now_s,
		.nodes = job->nodes,
		.generation = job->generation,
		.step = job->step,
		.cursor = job->cursor,
	};

	/* plain ifs on the hot path: every ck_assert writes to a pipe */
	if (job->nodes > 0 && job->step > 0 && sampler_add(world->sampler, &sample) < 0)
		ck_abort_msg("out of memory");
}

/* Also those that wait for a world to begin. */
static int nodes_of(const struct world *world)
{
	return world->phase == RESCALE_PAUSE ? world->to : world->job.nodes;
}

static void account(struct world *world, double spent_s)
{
	int nodes = nodes_of(world);
	double node_s = nodes * spent_s;
	double probe_node_s = nodes == world->wish.nodes && nodes != world->plan_nodes
		? node_s : 0;

	world->node_s += node_s;
	world->probe_node_s += probe_node_s;
	prober_account(world->prober, node_s, probe_node_s);
}

static void note_visit(struct world *world)
{
	int n = world->n_visits;

	if (world->wish.nodes > 0 && world->wish.nodes == world->job.nodes &&
		(n == 0 || world->visits[n - 1] != world->wish.nodes) && n < MAX_VISITS)
		world->visits[world->n_visits++] = world->wish.nodes;
}

/* To the next report, and what follows from it. */
static void turn(struct world *world)
{
	double next_s = world->now_s + 0.2 + 0.3 * uniform(&world->job.rng);
	int target;

	if (world->phase != RESCALE_NONE && world->phase_end_s < next_s)
		next_s = world->phase_end_s;
	account(world, next_s - world->now_s);
	world->now_s = next_s;
	train(&world->job, world->now_s - 0.03 * uniform(&world->job.rng));
	report(world);
	if (world->phase != RESCALE_NONE && world->now_s >= world->phase_end_s)
		end_phase(world);
	if (world->phase == RESCALE_NONE) {
		prober_wish(world->prober, world->now_s, world->job.nodes,
			world->available, world->sampler, &world->wish);
		note_visit(world);
	}
	if (world->phase == RESCALE_NONE && world->wish.nodes > world->available)
		ck_abort_msg("wishes %d nodes of %d", world->wish.nodes,
			world->available);
	if (nodes_of(world) > world->available) {
		rescale(world, world->available, 1);
		return;
	}
	target = world->wish.nodes > 0 ? world->wish.nodes : world->plan_nodes;
	if (target > world->available)
		target = world->available;
	if (world->phase == RESCALE_NONE && target != world->job.nodes)
		rescale(world, target, 0);
}

/* Until the prober is in this state, or for so long.  1 when it is. */
static int run_until(struct world *world, enum probe_state state, double limit_s)
{
	double end_s = world->now_s + limit_s;

	while (world->now_s < end_s) {
		turn(world);
		prober_status(world->prober, &world->status);
		if (world->status.state == state)
			return 1;
	}
	return 0;
}

/* Widest relative error of the curve that the allocator would see. */
static double worst_error(const struct world *world, const int *sizes, size_t n)
{
	struct curve curve;
	double worst = 0;

	curve_init(&curve);
	ck_assert_int_eq(sampler_to_curve(world->sampler, &curve), 0);
	for (size_t i = 0; i < n; i++) {
		double truth = true_rate(&world->job, sizes[i]);
		const struct curve_point *point = curve_at(&curve, sizes[i]);

		ck_assert_msg(point != NULL, "size %d was not measured", sizes[i]);
		worst = fmax(worst, fabs(point->rate_per_s / truth - 1));
	}
	curve_fini(&curve);
	return worst;
}

static void is_visits(const struct world *world, const int *sizes, int n)
{
	ck_assert_int_eq(world->n_visits, n);
	for (int i = 0; i < n; i++)
		ck_assert_msg(world->visits[i] == sizes[i],
			"visit %d was to %d, not to %d", i, world->visits[i], sizes[i]);
}

static const struct prober_params rich = {
	.target_rel = 0.05, .min_windows = 5, .limit_s = 12, .budget = 0.1,
	.allowance_node_s = 1e9, .retry_s = 10, .all_sizes_upto = 4, .ladder_ratio = 2,
	.stall_s = 60, .give_up = 4, .drift_rel = 0.2, .prior_rel = 0.15,
};

/* --- learning ----------------------------------------------------------------- */

static const struct {
	const char *what;
	int min, max;
	int ladder[8];
	int n;
} ranges[] = {
	{ "a range of four is measured whole", 1, 4, { 4, 3, 2, 1 }, 4 },
	{ "a larger one by halves", 1, 8, { 8, 4, 2, 1 }, 4 },
	{ "halves end at the least", 3, 16, { 16, 8, 4, 3 }, 4 },
	{ "one size is one size", 2, 2, { 2 }, 1 },
	{ "an odd range", 2, 9, { 9, 4, 2 }, 3 },
};

START_TEST(a_hidden_curve_is_learnt_from_above_to_5_percent)
{
	double worst = 0;

	for (unsigned seed = 1; seed <= SEEDS; seed++) {
		struct world world;
		double error;

		world_init(&world, seed, ranges[_i].min, ranges[_i].max, &rich);
		ck_assert_msg(run_until(&world, PROBE_DONE, 300),
			"%s: seed %u is not done", ranges[_i].what, seed);
		ck_assert_uint_eq(world.status.points, ranges[_i].n);
		ck_assert_uint_eq(world.status.ladder, ranges[_i].n);
		is_visits(&world, ranges[_i].ladder, ranges[_i].n);
		ck_assert_int_eq(world.n_rescales, ranges[_i].n);
		error = worst_error(&world, ranges[_i].ladder, ranges[_i].n);
		ck_assert_msg(error <= 0.05, "%s: seed %u is off by %.3f",
			ranges[_i].what, seed, error);
		worst = fmax(worst, error);
		world_fini(&world);
	}
}
END_TEST

START_TEST(a_quiet_job_is_known_in_seconds)
{
	struct world world;
	double began_s;

	world_init(&world, 7, 1, 8, &rich);
	world.job.sigma = 0.01;
	world.job.stall_every_s = 0;
	began_s = world.now_s;
	ck_assert(run_until(&world, PROBE_DONE, 60));
	ck_assert_double_lt(world.now_s - began_s, 4 * (1.9 + 1.2 + 8 * 0.8));
	ck_assert_double_lt(world.status.worst_rel, 0.05);
	world_fini(&world);
}
END_TEST

START_TEST(a_hopelessly_noisy_size_is_left_at_the_limit)
{
	struct world world;
	double began_s;

	world_init(&world, 3, 1, 2, &rich);
	world.job.sigma = 1.5;
	began_s = world.now_s;
	ck_assert(run_until(&world, PROBE_DONE, 60));
	ck_assert_double_gt(world.now_s - began_s, 2 * rich.limit_s);
	ck_assert_double_gt(world.status.worst_rel, 0.05);
	world_fini(&world);
}
END_TEST

START_TEST(steps_longer_than_reports_and_windows_are_measured_too)
{
	struct world world;
	const int sizes[] = { 2, 1 };

	world_init(&world, 11, 1, 2, &rich);
	world.job.one_per_s = 60; /* a step takes over 4 s on one node */
	world.job.stall_every_s = 0;
	world.job.sigma = 0.02;
	ck_assert(run_until(&world, PROBE_DONE, 200));
	ck_assert_double_le(worst_error(&world, sizes, 2), 0.05);
	world_fini(&world);
}
END_TEST

START_TEST(points_lie_in_their_interval_nearly_as_often_as_it_says)
{
	static const double sigmas[] = { 0.03, 0.05, 0.1, 0.2 };
	const int sizes[] = { 8, 4, 2, 1 };
	int held = 0;

	for (unsigned seed = 1; seed <= SEEDS; seed++) {
		struct world world;

		world_init(&world, seed, 1, 8, &rich);
		world.job.sigma = sigmas[_i];
		ck_assert(run_until(&world, PROBE_DONE, 300));
		for (int i = 0; i < 4; i++) {
			double truth = true_rate(&world.job, sizes[i]);
			struct estimate estimate;

			sampler_estimate(world.sampler, sizes[i], &estimate);
			held += fabs(estimate.rate_per_s - truth) <= estimate.ci_per_s;
		}
		world_fini(&world);
	}
	/* 95 % less what stopping at the first narrow interval costs */
	ck_assert_msg(held >= 0.88 * SEEDS * 4, "sigma %.2f: %d of %d", sigmas[_i],
		held, SEEDS * 4);
}
END_TEST

/* --- holes close and open ----------------------------------------------------- */

START_TEST(a_forced_size_counts_and_the_probe_goes_on_from_there)
{
	const int order[] = { 8, 2, 1, 4, 8 };
	const int sizes[] = { 8, 4, 2, 1 };
	struct world world;

	world_init(&world, 5, 1, 8, &rich);
	world.job.sigma = 0.15; /* so that 8 takes its time */
	run_until(&world, PROBE_DONE, 4);
	ck_assert_int_eq(world.job.nodes, 8);
	world.available = 3; /* the hole closes: 3 is no rung */
	ck_assert(!run_until(&world, PROBE_DONE, 12));
	world.job.sigma = 0.05;
	ck_assert(run_until(&world, PROBE_WAITING, 60));
	ck_assert_uint_eq(world.status.points, 2); /* 2 and 1; above, nothing is free */
	ck_assert_int_eq(world.wish.nodes, 0);
	world.available = 8;
	ck_assert(run_until(&world, PROBE_DONE, 60));
	is_visits(&world, order, 5);
	ck_assert_double_le(worst_error(&world, sizes, 4), 0.05);
	world_fini(&world);
}
END_TEST

START_TEST(a_world_of_closing_holes_is_learnt_all_the_same)
{
	const int sizes[] = { 8, 4, 2, 1 };

	for (unsigned seed = 1; seed <= SEEDS; seed++) {
		struct world world;
		double error;

		world_init(&world, seed, 1, 8, &rich);
		for (int i = 0; i < 400 && world.status.state != PROBE_DONE; i++) {
			world.available = 1 + (int)(8 * uniform(&world.job.rng));
			run_until(&world, PROBE_DONE, 40 * uniform(&world.job.rng));
		}
		ck_assert_msg(world.status.state == PROBE_DONE, "seed %u is not done",
			seed);
		error = worst_error(&world, sizes, 4);
		ck_assert_msg(error <= 0.05, "seed %u is off by %.3f", seed, error);
		world_fini(&world);
	}
}
END_TEST

START_TEST(without_a_free_node_nothing_is_wished)
{
	struct world world;

	world_init(&world, 2, 2, 8, &rich);
	world.available = 1; /* below its minimum */
	world.plan_nodes = 0;
	ck_assert(!run_until(&world, PROBE_DONE, 300));
	ck_assert_int_eq(world.status.state, PROBE_WAITING);
	ck_assert_int_eq(world.n_rescales, 0);
	world.available = 8;
	ck_assert(run_until(&world, PROBE_DONE, 100));
	world_fini(&world);
}
END_TEST

START_TEST(a_size_of_the_plan_is_measured_without_a_wish)
{
	struct prober_params poor = rich;
	struct world world;

	poor.budget = 0;
	poor.allowance_node_s = 0;
	world_init(&world, 9, 1, 4, &poor);
	for (int nodes = 1; nodes <= 4; nodes++) {
		world.plan_nodes = nodes;
		run_until(&world, PROBE_DONE, 30);
		ck_assert_int_eq(world.wish.nodes, 0);
	}
	ck_assert_int_eq(world.status.state, PROBE_DONE);
	ck_assert_uint_eq(world.status.points, 4);
	ck_assert_double_eq(world.probe_node_s, 0);
	world_fini(&world);
}
END_TEST

/* --- the budget --------------------------------------------------------------- */

START_TEST(the_budget_is_kept_at_every_moment)
{
	for (unsigned seed = 1; seed <= SEEDS / 4; seed++) {
		struct prober_params poor = rich;
		struct world world;
		int exhausted = 0;

		poor.allowance_node_s = 30;
		poor.budget = 0.05;
		world_init(&world, seed, 1, 8, &poor);
		for (int i = 0; i < 20000 && world.status.state != PROBE_DONE; i++) {
			turn(&world);
			prober_status(world.prober, &world.status);
			exhausted += world.status.state == PROBE_EXHAUSTED;
			/* a turn and a rescale that had begun may come on top */
			if (world.probe_node_s > 30 + 0.05 * world.node_s + 8 * 2.4)
				ck_abort_msg("seed %u: %.1f of %.1f node-seconds", seed,
					world.probe_node_s, world.node_s);
		}
		ck_assert_double_eq_tol(world.status.spent_node_s, world.probe_node_s,
			1e-6);
		ck_assert_msg(world.status.state == PROBE_DONE, "seed %u is not done",
			seed);
		ck_assert_int_gt(exhausted, 0);
		ck_assert_msg(world.n_rescales <= 30, "seed %u: %d rescales", seed,
			world.n_rescales);
		world_fini(&world);
	}
}
END_TEST

START_TEST(an_hour_of_training_spends_at_most_one_percent_on_probes)
{
	struct world world;

	world_init(&world, 4, 1, 8, NULL);
	world.plan_nodes = 6;
	run_until(&world, PROBE_UNSET, 3600);
	ck_assert_int_eq(world.status.state, PROBE_DONE);
	ck_assert_double_le(world.probe_node_s, 0.01 * world.node_s);
	world_fini(&world);
}
END_TEST

/* --- what goes wrong ---------------------------------------------------------- */

START_TEST(a_job_without_progress_ends_the_probe)
{
	struct world world;
	int wished = 0, turns = 0;

	world_init(&world, 6, 1, 4, &rich);
	world.job.is_stuck = 1;
	while (world.status.state != PROBE_DONE && turns < 20000) {
		turn(&world);
		prober_status(world.prober, &world.status);
		wished += world.wish.nodes > 0;
		turns++;
	}
	ck_assert_int_eq(world.status.state, PROBE_DONE);
	ck_assert_uint_eq(world.status.points, 0);
	ck_assert_uint_eq(world.status.given_up, 4);
	ck_assert_int_lt(wished, turns * 3 / 4); /* it lets go of its nodes */
	world_fini(&world);
}
END_TEST

START_TEST(a_job_that_moves_again_is_probed_again)
{
	const int sizes[] = { 4, 3, 2, 1 };
	struct world world;

	world_init(&world, 6, 1, 4, &rich);
	world.job.is_stuck = 1;
	ck_assert(!run_until(&world, PROBE_DONE, 65));
	ck_assert_int_eq(world.status.state, PROBE_WAITING);
	ck_assert_str_eq(world.wish.reason, "makes no progress");
	world.job.is_stuck = 0;
	world.job.step_end_s = world.now_s;
	ck_assert(run_until(&world, PROBE_DONE, 120));
	ck_assert_double_le(worst_error(&world, sizes, 4), 0.05);
	world_fini(&world);
}
END_TEST

START_TEST(a_size_whose_rescales_fail_is_given_up_the_rest_learnt)
{
	const int sizes[] = { 8, 2, 1 };
	struct world world;

	world_init(&world, 8, 1, 8, &rich);
	world.fail_size = 4;
	ck_assert(run_until(&world, PROBE_DONE, 400));
	ck_assert_uint_eq(world.status.points, 3);
	ck_assert_uint_eq(world.status.given_up, 1);
	ck_assert_double_le(worst_error(&world, sizes, 3), 0.05);
	world_fini(&world);
}
END_TEST

START_TEST(a_wish_that_is_never_granted_is_let_go)
{
	struct sampler *sampler = sampler_create(NULL);
	struct prober *prober = prober_create(&rich, 1, 2);
	struct probe_status status = { 0 };
	struct probe_wish wish = { 0 };
	double now_s = 0;
	int asked = 0;

	while (status.state != PROBE_DONE && asked < 100) {
		prober_wish(prober, now_s, 0, 2, sampler, &wish);
		prober_status(prober, &status);
		ck_assert(status.state == PROBE_DONE || wish.again_s > now_s);
		ck_assert(status.state == PROBE_DONE || isfinite(wish.again_s));
		now_s = wish.again_s; /* nothing but time goes on */
		asked++;
	}
	ck_assert_int_eq(status.state, PROBE_DONE);
	ck_assert_uint_eq(status.given_up, 2);
	prober_destroy(prober);
	sampler_destroy(sampler);
}
END_TEST

/* --- drift and priors --------------------------------------------------------- */

START_TEST(a_phase_change_is_seen_and_everything_measured_again)
{
	const int sizes[] = { 4, 3, 2, 1 };

	for (unsigned seed = 1; seed <= SEEDS / 4; seed++) {
		struct world world;
		double error;

		world_init(&world, seed, 1, 4, &rich);
		world.plan_nodes = 3;
		ck_assert(run_until(&world, PROBE_DONE, 100));
		run_until(&world, PROBE_UNSET, 100);
		ck_assert_int_eq(world.status.state, PROBE_DONE);
		world.job.factor = seed % 2 ? 0.5 : 1.7;
		ck_assert_msg(run_until(&world, PROBE_MEASURING, 30),
			"seed %u: not seen", seed);
		ck_assert_msg(run_until(&world, PROBE_STEPPING, 30),
			"seed %u: others are not reopened", seed);
		ck_assert(run_until(&world, PROBE_DONE, 100));
		error = worst_error(&world, sizes, 4);
		ck_assert_msg(error <= 0.05, "seed %u is off by %.3f", seed, error);
		world_fini(&world);
	}
}
END_TEST

START_TEST(a_slow_spell_cut_short_by_a_closing_hole_changes_nothing)
{
	struct world world;
	int visits;

	world_init(&world, 12, 1, 4, &rich);
	world.plan_nodes = 3;
	ck_assert(run_until(&world, PROBE_DONE, 100));
	run_until(&world, PROBE_UNSET, 30);
	visits = world.n_visits;
	world.job.factor = 0.6;
	ck_assert(run_until(&world, PROBE_MEASURING, 30)); /* 3 is doubted */
	ck_assert_uint_eq(world.status.points, 3);
	world.job.factor = 1;
	world.available = 2;
	run_until(&world, PROBE_UNSET, 20);
	ck_assert_int_eq(world.status.state, PROBE_DONE);
	world.available = 4;
	run_until(&world, PROBE_UNSET, 60);
	ck_assert_int_eq(world.status.state, PROBE_DONE);
	ck_assert_uint_eq(world.status.points, 4);
	ck_assert_int_le(world.n_visits, visits + 1);
	world_fini(&world);
}
END_TEST

START_TEST(an_unchanged_job_is_never_probed_again)
{
	for (unsigned seed = 1; seed <= SEEDS / 10; seed++) {
		struct world world;
		int rescales;

		world_init(&world, seed, 1, 4, &rich);
		ck_assert(run_until(&world, PROBE_DONE, 100));
		run_until(&world, PROBE_UNSET, 20);
		rescales = world.n_rescales;
		run_until(&world, PROBE_UNSET, 1800);
		ck_assert_msg(world.n_rescales == rescales, "seed %u: %d rescales more",
			seed, world.n_rescales - rescales);
		world_fini(&world);
	}
}
END_TEST

static const struct {
	const char *what;
	struct curve_point points[4];
	size_t n;
	size_t known; /* of 8, 4, 2, 1 */
} priors[] = {
	{ "a given curve covers all", { { 1, 100, 0 }, { 2, 190, 0 } }, 2, 4 },
	{ "one given point too", { { 3, 300, 0 } }, 1, 4 },
	{ "a measured one what it has", { { 4, 360, 9 }, { 8, 600, 9 } }, 2, 2 },
	{ "and what lies close between", { { 3, 270, 9 }, { 6, 500, 9 } }, 2, 1 },
	{ "but not far between", { { 1, 100, 3 }, { 8, 500, 9 } }, 2, 2 },
	{ "a vague point covers nothing", { { 4, 360, 90 }, { 8, 600, 9 } }, 2, 1 },
	{ "nor does a rate of nothing", { { 4, 0, 9 } }, 1, 0 },
	{ "an empty curve says nothing", { { 0, 0, 0 } }, 0, 0 },
};

START_TEST(a_prior_covers_what_it_can_be_trusted_with)
{
	struct sampler *sampler = sampler_create(NULL);
	struct prober *prober = prober_create(&rich, 1, 8);
	struct probe_status status;
	struct probe_wish wish;
	struct curve curve;

	curve_init(&curve);
	for (size_t i = 0; i < priors[_i].n; i++)
		ck_assert_int_eq(curve_set(&curve, priors[_i].points[i]), 0);
	ck_assert_int_eq(prober_seed(prober, &curve), 0);
	prober_wish(prober, 1, 0, 8, sampler, &wish);
	prober_status(prober, &status);
	ck_assert_msg(status.points == priors[_i].known, "%s: %zu are known",
		priors[_i].what, status.points);
	ck_assert_int_eq(status.state,
		priors[_i].known == 4 ? PROBE_DONE : PROBE_STEPPING);
	ck_assert_int_eq(wish.nodes == 0, priors[_i].known == 4);
	curve_fini(&curve);
	prober_destroy(prober);
	sampler_destroy(sampler);
}
END_TEST

START_TEST(a_given_curve_is_not_probed_until_the_job_contradicts_it)
{
	const int sizes[] = { 4, 3, 2, 1 };

	for (unsigned seed = 1; seed <= SEEDS / 10; seed++) {
		struct world world;
		struct curve curve;

		world_init(&world, seed, 1, 4, &rich);
		world.plan_nodes = 3;
		curve_init(&curve);
		for (int nodes = 1; nodes <= 4; nodes++)
			curve_set(&curve, (struct curve_point){ nodes,
				true_rate(&world.job, nodes) * 1.04, 0 });
		ck_assert_int_eq(prober_seed(world.prober, &curve), 0);
		run_until(&world, PROBE_UNSET, 300);
		ck_assert_int_eq(world.status.state, PROBE_DONE);
		ck_assert_int_eq(world.n_visits, 0);
		world.job.factor = 0.6;
		run_until(&world, PROBE_UNSET, 200);
		ck_assert_int_eq(world.status.state, PROBE_DONE);
		ck_assert_int_ge(world.n_visits, 4);
		ck_assert_double_le(worst_error(&world, sizes, 4), 0.05);
		curve_fini(&curve);
		world_fini(&world);
	}
}
END_TEST

/* --- the rest ----------------------------------------------------------------- */

START_TEST(bounds_that_make_no_sense_are_refused)
{
	struct prober_params flat = rich;

	errno = 0;
	ck_assert_ptr_null(prober_create(NULL, 0, 4));
	ck_assert_int_eq(errno, EINVAL);
	ck_assert_ptr_null(prober_create(NULL, 5, 4));
	flat.ladder_ratio = 1;
	ck_assert_ptr_null(prober_create(&flat, 1, 4));
	prober_destroy(NULL);
}
END_TEST

START_TEST(every_state_has_a_name_of_its_own)
{
	for (int a = PROBE_UNSET; a <= PROBE_EXHAUSTED; a++)
		for (int b = PROBE_UNSET; b < a; b++)
			ck_assert_str_ne(probe_state_name(a), probe_state_name(b));
	ck_assert_str_eq(probe_state_name((enum probe_state)99), "unset");
}
END_TEST

static Suite *probe_suite(void)
{
	Suite *suite = suite_create("jpa_probe");
	TCase *learn = tcase_create("learning"), *holes = tcase_create("holes");
	TCase *wrong = tcase_create("wrong"), *known = tcase_create("known");

	tcase_add_loop_test(learn, a_hidden_curve_is_learnt_from_above_to_5_percent, 0,
		sizeof(ranges) / sizeof(*ranges));
	tcase_add_loop_test(learn,
		points_lie_in_their_interval_nearly_as_often_as_it_says, 0, 4);
	tcase_add_test(learn, a_quiet_job_is_known_in_seconds);
	tcase_add_test(learn, a_hopelessly_noisy_size_is_left_at_the_limit);
	tcase_add_test(learn, steps_longer_than_reports_and_windows_are_measured_too);
	tcase_add_test(holes, a_forced_size_counts_and_the_probe_goes_on_from_there);
	tcase_add_test(holes, a_world_of_closing_holes_is_learnt_all_the_same);
	tcase_add_test(holes, without_a_free_node_nothing_is_wished);
	tcase_add_test(holes, a_size_of_the_plan_is_measured_without_a_wish);
	tcase_add_test(holes, the_budget_is_kept_at_every_moment);
	tcase_add_test(holes, an_hour_of_training_spends_at_most_one_percent_on_probes);
	tcase_add_test(wrong, a_job_without_progress_ends_the_probe);
	tcase_add_test(wrong, a_job_that_moves_again_is_probed_again);
	tcase_add_test(wrong, a_size_whose_rescales_fail_is_given_up_the_rest_learnt);
	tcase_add_test(wrong, a_wish_that_is_never_granted_is_let_go);
	tcase_add_test(known, a_phase_change_is_seen_and_everything_measured_again);
	tcase_add_test(known,
		a_slow_spell_cut_short_by_a_closing_hole_changes_nothing);
	tcase_add_test(known, an_unchanged_job_is_never_probed_again);
	tcase_add_loop_test(known, a_prior_covers_what_it_can_be_trusted_with, 0,
		sizeof(priors) / sizeof(*priors));
	tcase_add_test(known, a_given_curve_is_not_probed_until_the_job_contradicts_it);
	tcase_add_test(known, bounds_that_make_no_sense_are_refused);
	tcase_add_test(known, every_state_has_a_name_of_its_own);
	suite_add_tcase(suite, learn);
	suite_add_tcase(suite, holes);
	suite_add_tcase(suite, wrong);
	suite_add_tcase(suite, known);
	return suite;
}

int main(void)
{
	SRunner *runner = srunner_create(probe_suite());
	int failed;

	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed != 0;
}
