/*
 * fashion_mpi.c - trains the example network on MPI, data-parallel.
 *
 * Every rank holds the whole network.  Of each global batch a rank works on
 * its own slice, the gradients are summed over all ranks, and every rank takes
 * the same optimiser step.  The global batch is constant, so the result does
 * not depend on how many ranks there are, except for rounding.
 *
 * Nothing here waits in a blocking collective.  Open MPI polls while it waits,
 * and a rank that lives under a CPU quota polls its quota away: measured on
 * quarter cores, a step of 22 ms became 50 to 100 ms.  So a collective is
 * started (MPI_I...), and tested between short naps that grow; see settle().
 *
 * What makes it malleable are the calls of libmalle: join, data, state, batch,
 * step, leave.  Outside malle-run they make a plain run.  When a step says that
 * this world is to be left, the program just ends: the next world has the state
 * and goes on with the next batch.
 *
 * Standard output is one line, from rank 0, at the end of training.
 */
#include "fashion_data.h"
#include "fashion_net.h"
#include "worker/malle_mpi.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PROGRAM "fashion_mpi"
#define ROWS_MAX 512	/* samples in one block of matrix products */
#define EPOCHS 2		/* by default */
#define NAP_MIN_NS 50000
#define NAP_MAX_NS 400000

enum {
	EXIT_USAGE = 64,
	EXIT_INPUT = 66,
	EXIT_SOFTWARE = 70,
	EXIT_WRITE = 74,
};

struct options {
	int hidden;
	double epochs;		/* 0: EPOCHS, or as max_samples says */
	unsigned int batch;
	float rate, momentum;
	uint64_t seed;
	uint64_t max_samples;	/* 0: no limit */
	const char *data;
};

struct trainer {
	struct options opt;
	struct fashion_set train;
	struct fashion_net *net;
	struct malle *malle;
	enum malle_verdict verdict;	/* of the last step */
	int rank, ranks;
};

static double seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec * 1e-9;
}

/* Wait for a collective without spending the CPU that others need for it. */
static void settle(MPI_Request *request)
{
	struct timespec nap = { .tv_nsec = NAP_MIN_NS };
	int done = 0;

	for (;;) {
		MPI_Test(request, &done, MPI_STATUS_IGNORE);
		if (done)
			return;
		nanosleep(&nap, NULL);
		if (nap.tv_nsec < NAP_MAX_NS)
			nap.tv_nsec *= 2;
	}
}

static void sum_over_ranks(struct fashion_net *net)
{
	MPI_Request request;

	MPI_Iallreduce(MPI_IN_PLACE, net->grad, (int)fashion_net_grads(net),
		       MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
	settle(&request);
}

static void meet(void)
{
	MPI_Request request;

	MPI_Ibarrier(MPI_COMM_WORLD, &request);
	settle(&request);
}

static int complain(const char *what, const char *object, const char *why)
{
	fprintf(stderr, PROGRAM ": %s %s: %s\n", what, object, why);
	return -1;
}

/*
 * Every rank brings its exit code; all get the worst.  Most faults hit all
 * ranks alike, so only the first of the ranks that fail is to speak: *speak.
 */
static int worst_of(const struct trainer *t, int code, int *speak)
{
	int mine[2] = { code, code ? -t->rank : -t->ranks }, all[2];
	MPI_Request request;

	MPI_Iallreduce(mine, all, 2, MPI_INT, MPI_MAX, MPI_COMM_WORLD, &request);
	settle(&request);
	*speak = code && -all[1] == t->rank;
	return all[0];
}

/* Where training ends, in samples of all ranks together. */
static uint64_t samples_wanted(const struct trainer *t)
{
	double epochs = t->opt.epochs;

	if (epochs == 0 && t->opt.max_samples)
		return t->opt.max_samples;
	if (epochs == 0)
		epochs = EPOCHS;
	if (t->opt.max_samples && t->opt.max_samples < epochs * t->train.count)
		return t->opt.max_samples;
	return (uint64_t)llround(epochs * t->train.count);
}

/* 0 when all samples are consumed or the world is to be left; else a code. */
static int train(struct trainer *t)
{
	double total = (double)samples_wanted(t);
	struct malle_batch batch;
	int got;

	while ((got = malle_batch(t->malle, &batch)) > 0) {
		/* Falls to nothing at the end; a function of the cursor only. */
		float rate = t->opt.rate * (1 - (float)((double)batch.cursor / total));

		fashion_net_gradient(t->net, &t->train, batch.ids, batch.n);
		sum_over_ranks(t->net);
		fashion_net_step(t->net, rate, t->opt.momentum, batch.global_n);
		t->verdict = malle_step(t->malle);
		if (t->verdict == MALLE_FAILED)
			break;
	}
	if (got >= 0 && t->verdict != MALLE_FAILED)
		return 0;
	complain("train", "on a batch", malle_error(t->malle));
	return EXIT_SOFTWARE;
}

/* This rank's share of the samples that the net gets right. */
static unsigned long long right_here(struct trainer *t, const struct fashion_set *test)
{
	struct fashion_set part = *test;
	uint32_t first = (uint32_t)((uint64_t)test->count * t->rank / t->ranks);
	uint32_t last = (uint32_t)((uint64_t)test->count * (t->rank + 1) / t->ranks);

	part.count = last - first;
	part.images.values += (size_t)first * FASHION_PIXELS;
	part.labels.values += first;
	return fashion_net_correct(t->net, &part);
}

/* How good the net is, on samples that it has never seen; all ranks count. */
static int report(struct trainer *t, double spent)
{
	struct fashion_set test;
	struct fashion_why why;
	unsigned long long right;
	uint64_t cursor = malle_cursor(t->malle);
	MPI_Request request;
	int code = 0, speak, worst;

	if (fashion_load(&test, t->opt.data, FASHION_TEST, &why))
		code = EXIT_INPUT;
	worst = worst_of(t, code, &speak);
	if (speak)
		fprintf(stderr, PROGRAM ": test set: %s\n", why.text);
	if (worst)
		return worst;
	right = right_here(t, &test);
	MPI_Iallreduce(MPI_IN_PLACE, &right, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM,
		       MPI_COMM_WORLD, &request);
	settle(&request);
	if (t->rank == 0)
		printf(PROGRAM ": accuracy %.4f samples %llu epochs %g seconds %.1f\n",
		       (double)right / test.count, (unsigned long long)cursor,
		       (double)cursor / t->train.count, spent);
	fashion_unload(&test);
	if (fflush(stdout)) {
		complain("write", "standard output", strerror(errno));
		return EXIT_WRITE;
	}
	return 0;
}

/* Join, and say what is trained on and what the state of training is. */
static int join(struct trainer *t, char *text, size_t size)
{
	struct malle_data data = {
		.n_samples = t->train.count,
		.global_batch = t->opt.batch,
		.max_samples = samples_wanted(t),
		.seed = t->opt.seed,
	};
	struct malle_err err;

	t->malle = malle_join(&err);
	if (!t->malle) {
		snprintf(text, size, "%s", err.text);
		return EXIT_SOFTWARE;
	}
	if (malle_data(t->malle, &data) ||
	    malle_state(t->malle, "network", t->net->state, fashion_net_bytes(t->net)) ||
	    malle_mpi_attach(t->malle, MPI_COMM_WORLD)) {
		snprintf(text, size, "%s", malle_error(t->malle));
		return EXIT_SOFTWARE;
	}
	return 0;
}

/* Everything that can fail before the first step; 0 or the exit code. */
static int prepare(struct trainer *t, char *text, size_t size)
{
	unsigned int rows = t->opt.batch < ROWS_MAX ? t->opt.batch : ROWS_MAX;
	struct fashion_why why;

	if (fashion_load(&t->train, t->opt.data, FASHION_TRAIN, &why)) {
		snprintf(text, size, "training set: %s", why.text);
		return EXIT_INPUT;
	}
	t->net = fashion_net_create(t->opt.hidden, (int)rows, t->opt.seed);
	if (!t->net) {
		snprintf(text, size, "network of %d hidden units: %s",
			 t->opt.hidden, strerror(errno));
		return EXIT_SOFTWARE;
	}
	return join(t, text, size);
}

static int run(struct trainer *t)
{
	char text[512] = "";
	int code = prepare(t, text, sizeof(text)), speak, worst;
	double start;

	worst = worst_of(t, code, &speak);
	if (speak)
		fprintf(stderr, PROGRAM ": %s\n", text);
	if (!worst) {
		start = seconds();
		worst = train(t);
		/* The others may be in a collective that this rank has left. */
		if (worst)
			MPI_Abort(MPI_COMM_WORLD, worst);
		/* A world that is left for another one leaves the last word to it. */
		if (t->verdict != MALLE_RESCALE)
			worst = report(t, seconds() - start);
		meet();
	}
	malle_leave(t->malle);
	fashion_net_destroy(t->net);
	fashion_unload(&t->train);
	return worst;
}

static const char usage[] =
	"usage: " PROGRAM " [--hidden N] [--epochs E] [--batch B] [--lr RATE]\n"
	"                   [--momentum M] [--seed N] [--max-samples N]\n"
	"                   [--data DIR]\n"
	"Trains a network of N hidden units on Fashion-MNIST under mpirun.\n";

/* A number from low to high with nothing behind it; exits if it is not. */
static double number(const char *option, const char *text, double low,
		     double high)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text || *end || !(value >= low && value <= high)) {
		fprintf(stderr, PROGRAM ": --%s %s: not a number from %g to %g\n",
			option, text, low, high);
		exit(EXIT_USAGE);
	}
	return value;
}

enum { OPT_HIDDEN = 256, OPT_EPOCHS, OPT_BATCH, OPT_LR, OPT_MOMENTUM, OPT_SEED,
       OPT_MAX, OPT_DATA, OPT_HELP };

static const struct option long_options[] = {
	{ "hidden", required_argument, NULL, OPT_HIDDEN },
	{ "epochs", required_argument, NULL, OPT_EPOCHS },
	{ "batch", required_argument, NULL, OPT_BATCH },
	{ "lr", required_argument, NULL, OPT_LR },
	{ "momentum", required_argument, NULL, OPT_MOMENTUM },
	{ "seed", required_argument, NULL, OPT_SEED },
	{ "max-samples", required_argument, NULL, OPT_MAX },
	{ "data", required_argument, NULL, OPT_DATA },
	{ "help", no_argument, NULL, OPT_HELP },
	{ NULL, 0, NULL, 0 },
};

static double whole(const char *option, const char *text, double low,
		    double high)
{
	double value = number(option, text, low, high);

	if (value != floor(value)) {
		fprintf(stderr, PROGRAM ": --%s %s: not a whole number\n", option,
			text);
		exit(EXIT_USAGE);
	}
	return value;
}

static void option_take(struct options *o, int which, const char *name)
{
	switch (which) {
	case OPT_HIDDEN:
		o->hidden = (int)whole(name, optarg, 1, 16384);
		break;
	case OPT_EPOCHS:
		o->epochs = number(name, optarg, 0, 1e6);
		break;
	case OPT_BATCH:
		o->batch = (unsigned int)whole(name, optarg, 1, 1 << 20);
		break;
	case OPT_LR:
		o->rate = (float)number(name, optarg, 0, 100);
		break;
	case OPT_MOMENTUM:
		o->momentum = (float)number(name, optarg, 0, 1);
		break;
	case OPT_SEED:
		o->seed = (uint64_t)whole(name, optarg, 0, 9e15);
		break;
	case OPT_MAX:
		o->max_samples = (uint64_t)whole(name, optarg, 1, 9e15);
		break;
	case OPT_DATA:
		o->data = optarg;
		break;
	case OPT_HELP:
		fputs(usage, stdout);
		exit(0);
	}
}

static void options_parse(struct options *o, int argc, char **argv)
{
	int which, at = 0;

	opterr = 0;
	while ((which = getopt_long(argc, argv, ":", long_options, &at)) != -1) {
		if (which == '?' || which == ':') {
			complain("option", argv[optind - 1],
				 which == '?' ? "unknown, see --help"
					      : "needs a value");
			exit(EXIT_USAGE);
		}
		option_take(o, which, long_options[at].name);
	}
	if (optind < argc) {
		complain("argument", argv[optind], "not expected");
		exit(EXIT_USAGE);
	}
}

int main(int argc, char **argv)
{
	struct trainer t = {
		.opt = { .hidden = 128, .batch = 512, .rate = 0.15f,
			 .momentum = 0.9f, .seed = 1, .data = FASHION_DIR },
	};
	int code;

	options_parse(&t.opt, argc, argv);
	MPI_Init(NULL, NULL);
	MPI_Comm_rank(MPI_COMM_WORLD, &t.rank);
	MPI_Comm_size(MPI_COMM_WORLD, &t.ranks);
	code = run(&t);
	MPI_Finalize();
	return code;
}
