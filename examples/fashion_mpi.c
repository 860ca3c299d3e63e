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
 * With --ledger every rank appends, before it takes an optimiser step, the ids
 * of the samples of its own slice: one JSON object a line, one write(2), so
 * that ranks may share the file.  A step that a crash undid appears again in a
 * later generation; the last generation of a step is what counted.
 *
 * Standard output is one line, from rank 0, at the end.
 */
#include "fashion_data.h"
#include "fashion_net.h"

#include <errno.h>
#include <fcntl.h>
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
	double epochs;
	unsigned int batch;
	float rate, momentum;
	uint64_t seed;
	uint64_t max_samples;	/* 0: no limit */
	const char *data, *ledger;
};

struct trainer {
	struct options opt;
	struct fashion_set train;
	struct fashion_net *net;
	int rank, ranks;
	int ledger_fd;
	char *line;	/* of the ledger; room for a whole batch */
};

/* --- stand-in for libmalle: which samples are next ------------------------ */

struct feed {
	uint32_t *order;	/* permutation of the present epoch */
	uint32_t samples;	/* in an epoch */
	uint64_t seed;
	uint64_t epoch;		/* that order belongs to; UINT64_MAX: none yet */
	uint64_t cursor;	/* samples consumed by all ranks together */
	uint64_t total;		/* where training ends */
	uint64_t step;		/* optimiser steps taken */
	unsigned int batch;	/* the global one */
	unsigned int size;	/* of the batch handed out, not yet stepped */
	int rank, ranks;
};

/* This rank's slice of a global batch. */
struct slice {
	const uint32_t *ids;
	size_t count;		/* may be 0 */
	uint64_t step, epoch;
};

static int feed_open(struct feed *f, const struct trainer *t, uint64_t total)
{
	memset(f, 0, sizeof(*f));
	f->order = malloc(t->train.count * sizeof(*f->order));
	f->samples = t->train.count;
	f->seed = t->opt.seed;
	f->epoch = UINT64_MAX;
	f->total = total;
	f->batch = t->opt.batch;
	f->rank = t->rank;
	f->ranks = t->ranks;
	return f->order ? 0 : -1;
}

static uint64_t feed_random(uint64_t *s)
{
	uint64_t z = *s += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

static void feed_shuffle(struct feed *f, uint64_t epoch)
{
	uint64_t s = f->seed * 0x2545f4914f6cdd1d + epoch;

	for (uint32_t i = 0; i < f->samples; i++)
		f->order[i] = i;
	for (uint32_t i = f->samples - 1; i > 0; i--) {
		uint32_t j = feed_random(&s) % (i + 1);
		uint32_t swap = f->order[i];

		f->order[i] = f->order[j];
		f->order[j] = swap;
	}
	f->epoch = epoch;
}

/* Size of the next global batch, 0 at the end; *s is this rank's part of it. */
static size_t feed_next(struct feed *f, struct slice *s)
{
	uint64_t epoch = f->cursor / f->samples;
	uint32_t at = f->cursor % f->samples;
	uint64_t n = f->batch, first, last;

	if (n > f->samples - at)
		n = f->samples - at;
	if (n > f->total - f->cursor)
		n = f->total - f->cursor;
	if (!n)
		return 0;
	if (epoch != f->epoch)
		feed_shuffle(f, epoch);
	first = n * f->rank / f->ranks;
	last = n * (f->rank + 1) / f->ranks;
	s->ids = f->order + at + first;
	s->count = last - first;
	s->step = f->step;
	s->epoch = epoch;
	f->size = n;
	return n;
}

static void feed_step(struct feed *f)
{
	f->cursor += f->size;
	f->step++;
}

/* --- end of the stand-in -------------------------------------------------- */

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

static int ledger_open(struct trainer *t)
{
	t->ledger_fd = -1;
	if (!t->opt.ledger)
		return 0;
	/* "," and ten digits an id, and the words around them */
	t->line = malloc(11 * (size_t)t->opt.batch + 160);
	if (!t->line)
		return -1;
	t->ledger_fd = open(t->opt.ledger,
			    O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	return t->ledger_fd < 0 ? -1 : 0;
}

static int ledger_write(const struct trainer *t, const struct slice *s)
{
	const char *generation = getenv("MALLE_GENERATION");
	char *p = t->line;
	size_t length;

	if (t->ledger_fd < 0)
		return 0;
	p += sprintf(p, "{\"generation\":%ld,\"step\":%llu,\"epoch\":%llu,"
		     "\"rank\":%d,\"ids\":[",
		     generation ? strtol(generation, NULL, 10) : 0,
		     (unsigned long long)s->step, (unsigned long long)s->epoch,
		     t->rank);
	for (size_t i = 0; i < s->count; i++)
		p += sprintf(p, i ? ",%u" : "%u", s->ids[i]);
	p += sprintf(p, "]}\n");
	length = p - t->line;
	/* Never in two pieces: another rank's line could come between. */
	if (write(t->ledger_fd, t->line, length) != (ssize_t)length)
		return complain("write", t->opt.ledger, strerror(errno));
	return 0;
}

/* Where training ends, in samples of all ranks together. */
static uint64_t samples_wanted(const struct trainer *t)
{
	uint64_t n = (uint64_t)llround(t->opt.epochs * t->train.count);

	if (t->opt.max_samples && t->opt.max_samples < n)
		n = t->opt.max_samples;
	return n;
}

static int train(struct trainer *t, struct feed *f)
{
	struct slice s;
	size_t n;

	while ((n = feed_next(f, &s)) > 0) {
		/* Falls to nothing at the end; a function of the cursor only. */
		float rate = t->opt.rate *
			     (1 - (float)((double)f->cursor / f->total));

		fashion_net_gradient(t->net, &t->train, s.ids, s.count);
		sum_over_ranks(t->net);
		if (ledger_write(t, &s))
			return EXIT_WRITE;
		fashion_net_step(t->net, rate, t->opt.momentum, n);
		feed_step(f);
	}
	return 0;
}

/* Rank 0: how good the net is, on samples that it has never seen. */
static int report(struct trainer *t, const struct feed *f, double spent)
{
	struct fashion_set test;
	struct fashion_why why;
	size_t right;

	if (fashion_load(&test, t->opt.data, FASHION_TEST, &why)) {
		fprintf(stderr, PROGRAM ": test set: %s\n", why.text);
		return EXIT_INPUT;
	}
	right = fashion_net_correct(t->net, &test);
	printf(PROGRAM ": accuracy %.4f samples %llu epochs %g seconds %.1f\n",
	       (double)right / test.count, (unsigned long long)f->cursor,
	       (double)f->cursor / f->samples, spent);
	fashion_unload(&test);
	if (fflush(stdout)) {
		complain("write", "standard output", strerror(errno));
		return EXIT_WRITE;
	}
	return 0;
}

/* Everything that can fail before the first step; 0 or the exit code. */
static int prepare(struct trainer *t, struct feed *f, char *text, size_t size)
{
	unsigned int rows = t->opt.batch < ROWS_MAX ? t->opt.batch : ROWS_MAX;
	struct fashion_why why;

	if (fashion_load(&t->train, t->opt.data, FASHION_TRAIN, &why)) {
		snprintf(text, size, "training set: %s", why.text);
		return EXIT_INPUT;
	}
	t->net = fashion_net_create(t->opt.hidden, (int)rows, t->opt.seed);
	if (!t->net || feed_open(f, t, samples_wanted(t))) {
		snprintf(text, size, "network of %d hidden units: %s",
			 t->opt.hidden, strerror(errno));
		return EXIT_SOFTWARE;
	}
	if (ledger_open(t)) {
		snprintf(text, size, "ledger %s: %s", t->opt.ledger,
			 strerror(errno));
		return EXIT_WRITE;
	}
	return 0;
}

static int run(struct trainer *t)
{
	struct feed feed = { 0 };
	char text[512] = "";
	int code = prepare(t, &feed, text, sizeof(text)), speak, worst;
	double start;

	worst = worst_of(t, code, &speak);
	if (speak)
		fprintf(stderr, PROGRAM ": %s\n", text);
	if (!worst) {
		start = seconds();
		worst = train(t, &feed);
		/* The others are in a collective that this rank has left. */
		if (worst)
			MPI_Abort(MPI_COMM_WORLD, worst);
		if (t->rank == 0)
			worst = report(t, &feed, seconds() - start);
		meet();
	}
	if (t->ledger_fd >= 0)
		close(t->ledger_fd);
	free(t->line);
	free(feed.order);
	fashion_net_destroy(t->net);
	fashion_unload(&t->train);
	return worst;
}

static const char usage[] =
	"usage: " PROGRAM " [--hidden N] [--epochs E] [--batch B] [--lr RATE]\n"
	"                   [--momentum M] [--seed N] [--max-samples N]\n"
	"                   [--data DIR] [--ledger FILE]\n"
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
       OPT_MAX, OPT_DATA, OPT_LEDGER, OPT_HELP };

static const struct option long_options[] = {
	{ "hidden", required_argument, NULL, OPT_HIDDEN },
	{ "epochs", required_argument, NULL, OPT_EPOCHS },
	{ "batch", required_argument, NULL, OPT_BATCH },
	{ "lr", required_argument, NULL, OPT_LR },
	{ "momentum", required_argument, NULL, OPT_MOMENTUM },
	{ "seed", required_argument, NULL, OPT_SEED },
	{ "max-samples", required_argument, NULL, OPT_MAX },
	{ "data", required_argument, NULL, OPT_DATA },
	{ "ledger", required_argument, NULL, OPT_LEDGER },
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
	case OPT_LEDGER:
		o->ledger = optarg;
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
		.opt = { .hidden = 128, .epochs = 2, .batch = 512, .rate = 0.15f,
			 .momentum = 0.9f, .seed = 1, .data = FASHION_DIR },
		.ledger_fd = -1,
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
