/*
 * fashion_net.c - the network of the example trainer, forward and backward.
 *
 *	a = relu(x W1 + b1)		x: 784 pixels, a: H hidden units
 *	z = a W2 + b2			z: 10 classes
 *	loss = -log softmax(z)[label]
 *
 * All matrices are row-major, one sample a row, so that a slice of a batch is
 * a few calls of sgemm.  The slice is worked through in blocks of net->rows
 * samples that fit the scratch buffer.
 *
 * Gradients are sums over samples.  Whoever divides a batch among ranks adds
 * the ranks' sums and divides once by the size of the whole batch, in
 * fashion_net_step; then nothing depends on how the batch was cut, except the
 * order of additions.  The sum of losses rides behind the gradient, so that
 * one reduction moves both.
 *
 * BLAS is held to one thread: a worker may have a quarter of a core, and
 * threads that spin for work would burn that.
 */
#include "fashion_net.h"

#include "fashion_data.h"

#include <cblas.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define IN FASHION_PIXELS
#define OUT FASHION_CLASSES
#define HIDDEN_MAX 16384

/* The published mean and deviation of the training pixels, as 0..1. */
#define PIXEL_MEAN 0.2860f
#define PIXEL_DEV 0.3530f

/* The four matrices inside one vector of net->count floats. */
struct parts {
	float *w1, *b1, *w2, *b2;
};

/* The blocks of scratch; each has net->rows rows. */
struct work {
	float *x;	/* IN: input */
	float *a;	/* hidden: after relu */
	float *z;	/* OUT: class scores, then their gradient */
	float *d;	/* hidden: gradient before relu */
};

static struct parts parts_of(const struct fashion_net *net, float *base)
{
	struct parts p;

	p.w1 = base;
	p.b1 = p.w1 + (size_t)IN * net->hidden;
	p.w2 = p.b1 + net->hidden;
	p.b2 = p.w2 + (size_t)net->hidden * OUT;
	return p;
}

static struct work work_of(const struct fashion_net *net)
{
	size_t rows = net->rows;
	struct work k;

	k.x = net->scratch;
	k.a = k.x + rows * IN;
	k.d = k.a + rows * net->hidden;
	k.z = k.d + rows * net->hidden;
	return k;
}

/* splitmix64: tiny, and the same everywhere, unlike rand(3). */
static uint64_t next(uint64_t *s)
{
	uint64_t z = *s += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

/* Uniform within +-bound. */
static void fill(float *w, size_t count, float bound, uint64_t *s)
{
	for (size_t i = 0; i < count; i++)
		w[i] = bound * ((float)(next(s) >> 40) * 0x1p-23f - 1.0f);
}

struct fashion_net *fashion_net_create(int hidden, int rows, uint64_t seed)
{
	struct fashion_net *net;
	struct parts w;

	if (hidden < 1 || hidden > HIDDEN_MAX || rows < 1) {
		errno = EINVAL;
		return NULL;
	}
	net = calloc(1, sizeof(*net));
	if (!net)
		return NULL;
	net->hidden = hidden;
	net->rows = rows;
	net->count = (size_t)IN * hidden + hidden + (size_t)hidden * OUT + OUT;
	net->state = calloc(2 * net->count, sizeof(float));
	net->grad = calloc(net->count + 1, sizeof(float));
	net->scratch = calloc((size_t)rows * (IN + 2 * (size_t)hidden + OUT),
			      sizeof(float));
	if (!net->state || !net->grad || !net->scratch) {
		fashion_net_destroy(net);
		errno = ENOMEM;
		return NULL;
	}
	net->weights = net->state;
	net->velocity = net->state + net->count;
	openblas_set_num_threads(1);
	w = parts_of(net, net->weights);
	/*
	 * He's initialisation, but scores that start near zero: with the first
	 * steps no larger than later ones the rate may be half as high again.
	 */
	fill(w.w1, (size_t)IN * hidden, sqrtf(6.0f / IN), &seed);
	fill(w.w2, (size_t)hidden * OUT, 0.2f * sqrtf(6.0f / hidden), &seed);
	return net;
}

void fashion_net_destroy(struct fashion_net *net)
{
	if (!net)
		return;
	free(net->scratch);
	free(net->grad);
	free(net->state);
	free(net);
}

size_t fashion_net_bytes(const struct fashion_net *net)
{
	return 2 * net->count * sizeof(float);
}

size_t fashion_net_grads(const struct fashion_net *net)
{
	return net->count + 1;
}

/* Pixels of one sample, to zero mean and unit deviation. */
static void pixels(float *x, const uint8_t *image)
{
	const float scale = 1.0f / (255.0f * PIXEL_DEV);
	const float shift = PIXEL_MEAN / PIXEL_DEV;

	for (int i = 0; i < IN; i++)
		x[i] = image[i] * scale - shift;
}

static void spread(float *rows, const float *bias, int n, int width)
{
	for (int i = 0; i < n; i++)
		memcpy(rows + (size_t)i * width, bias, width * sizeof(float));
}

static void relu(float *a, size_t count)
{
	for (size_t i = 0; i < count; i++)
		a[i] = a[i] > 0 ? a[i] : 0;
}

/* From the n inputs in k->x to scores in k->z. */
static void forward(const struct fashion_net *net, struct work *k, int n)
{
	struct parts w = parts_of(net, net->weights);
	int h = net->hidden;

	spread(k->a, w.b1, n, h);
	cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, h, IN, 1, k->x,
		    IN, w.w1, h, 1, k->a, h);
	relu(k->a, (size_t)n * h);
	spread(k->z, w.b2, n, OUT);
	cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, OUT, h, 1, k->a,
		    h, w.w2, OUT, 1, k->z, OUT);
}

/* Scores to gradient of the loss, in place; returns the loss. */
static float softmax(float *z, int label)
{
	float top = z[0], sum = 0, loss;

	for (int i = 1; i < OUT; i++)
		top = z[i] > top ? z[i] : top;
	loss = top - z[label];
	for (int i = 0; i < OUT; i++)
		sum += z[i] = expf(z[i] - top);
	for (int i = 0; i < OUT; i++)
		z[i] /= sum;
	z[label] -= 1;
	return loss + logf(sum);
}

static void add_rows(float *sum, const float *rows, int n, int width)
{
	for (int i = 0; i < n; i++)
		for (int j = 0; j < width; j++)
			sum[j] += rows[(size_t)i * width + j];
}

/* k->z holds the gradient of the scores; add everything above it to grad. */
static void backward(struct fashion_net *net, struct work *k, int n)
{
	struct parts w = parts_of(net, net->weights);
	struct parts g = parts_of(net, net->grad);
	int h = net->hidden;

	cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, h, OUT, n, 1, k->a,
		    h, k->z, OUT, 1, g.w2, OUT);
	add_rows(g.b2, k->z, n, OUT);
	cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, n, h, OUT, 1, k->z,
		    OUT, w.w2, OUT, 0, k->d, h);
	for (size_t i = 0; i < (size_t)n * h; i++)
		k->d[i] = k->a[i] > 0 ? k->d[i] : 0;
	cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, IN, h, n, 1, k->x,
		    IN, k->d, h, 1, g.w1, h);
	add_rows(g.b1, k->d, n, h);
}

void fashion_net_gradient(struct fashion_net *net, const struct fashion_set *set,
			  const uint32_t *ids, size_t count)
{
	struct work k = work_of(net);
	float loss = 0;

	memset(net->grad, 0, (net->count + 1) * sizeof(float));
	for (size_t at = 0; at < count; at += net->rows) {
		int n = count - at < (size_t)net->rows ? (int)(count - at)
						       : net->rows;

		for (int i = 0; i < n; i++)
			pixels(k.x + (size_t)i * IN,
			       set->images.values + (size_t)ids[at + i] * IN);
		forward(net, &k, n);
		for (int i = 0; i < n; i++)
			loss += softmax(k.z + (size_t)i * OUT,
					set->labels.values[ids[at + i]]);
		backward(net, &k, n);
	}
	net->grad[net->count] = loss;
}

void fashion_net_step(struct fashion_net *net, float rate, float momentum,
		      size_t batch)
{
	float scale = 1.0f / (float)batch;

	for (size_t i = 0; i < net->count; i++) {
		net->velocity[i] = momentum * net->velocity[i] +
				   scale * net->grad[i];
		net->weights[i] -= rate * net->velocity[i];
	}
}

static int best(const float *z)
{
	int at = 0;

	for (int i = 1; i < OUT; i++)
		if (z[i] > z[at])
			at = i;
	return at;
}

size_t fashion_net_correct(struct fashion_net *net,
			   const struct fashion_set *set)
{
	struct work k = work_of(net);
	size_t right = 0;

	for (uint32_t at = 0; at < set->count; at += net->rows) {
		int n = set->count - at < (uint32_t)net->rows
				? (int)(set->count - at)
				: net->rows;

		for (int i = 0; i < n; i++)
			pixels(k.x + (size_t)i * IN,
			       set->images.values + (size_t)(at + i) * IN);
		forward(net, &k, n);
		for (int i = 0; i < n; i++)
			right += best(k.z + (size_t)i * OUT) ==
				 set->labels.values[at + i];
	}
	return right;
}
