/* fashion_net.h - a small fully connected classifier, 784 - H - 10. */
#ifndef FASHION_NET_H
#define FASHION_NET_H

#include <stddef.h>
#include <stdint.h>

struct fashion_set;

/* Parameters, momentum and gradient share one layout: W1, b1, W2, b2. */
struct fashion_net {
	int hidden;
	int rows;	/* samples that one call works on at a time */
	size_t count;	/* floats in each of the three */
	float *state;	/* what training is: weights, then velocity (2 * count) */
	float *weights;
	float *velocity;
	float *grad;	/* sums over samples (count), then the sum of losses */
	float *scratch;
};

/*
 * hidden 1..16384; rows >= 1 bounds the memory, not what may be asked for.
 * The same seed gives the same weights on every machine.  NULL with errno
 * (EINVAL, ENOMEM).  Uses BLAS in the calling thread only.
 */
struct fashion_net *fashion_net_create(int hidden, int rows, uint64_t seed);
void fashion_net_destroy(struct fashion_net *net);

/* Bytes of state: what has to be the same on all ranks, and to be moved. */
size_t fashion_net_bytes(const struct fashion_net *net);

/* Floats to be summed over ranks between gradient and step: grad and loss. */
size_t fashion_net_grads(const struct fashion_net *net);

/*
 * Set grad to the sum, not the mean, of the samples' gradients, so that the
 * sum over any division of a batch among ranks is the same but for rounding.
 * ids are indices into set; count may be 0.
 */
void fashion_net_gradient(struct fashion_net *net, const struct fashion_set *set,
			  const uint32_t *ids, size_t count);

/* One step of SGD with momentum; batch is the number of samples in grad. */
void fashion_net_step(struct fashion_net *net, float rate, float momentum,
		      size_t batch);

/* How many of the set the net gets right. */
size_t fashion_net_correct(struct fashion_net *net,
			   const struct fashion_set *set);

#endif
