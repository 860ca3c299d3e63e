/* cursor.h - which samples come next, and whose they are.  Pure. */
#ifndef WORKER_CURSOR_H
#define WORKER_CURSOR_H

#include <stddef.h>
#include <stdint.h>

#define CURSOR_ROUNDS 12

/* A permutation of 0 .. n - 1, without a table. */
struct cursor_order {
	uint64_t n;
	unsigned left_bits, right_bits;
	uint64_t keys[CURSOR_ROUNDS];
};

/* n: 1 .. 2^32. */
void cursor_order_init(
	struct cursor_order *order, uint64_t n, uint64_t seed, uint64_t epoch);
/* The id at this place; place < n. */
uint32_t cursor_order_at(const struct cursor_order *order, uint64_t place);

struct cursor {
	uint64_t n_samples, global_batch, total, seed; /* constant */
	uint64_t step;     /* optimiser steps done */
	uint64_t consumed; /* samples, by all ranks, all epochs; <= total */
	uint64_t order_epoch;
	struct cursor_order order; /* of that epoch */
};

/* Where a global batch lies. */
struct cursor_batch {
	uint64_t epoch;
	uint64_t place; /* of its first sample within the epoch */
	uint64_t n;     /* samples; 0: training is complete */
};

/* total: samples of all epochs together at which training is complete. */
void cursor_init(struct cursor *cursor, uint64_t n_samples, uint64_t global_batch,
	uint64_t total, uint64_t seed);

/* Continue from there.  -1 with EINVAL: consumed is over total. */
int cursor_seek(struct cursor *cursor, uint64_t step, uint64_t consumed);

/* The batch at the cursor; never across the end of an epoch or of training. */
struct cursor_batch cursor_next(const struct cursor *cursor);

/* Rank's part of n samples: *offset and how many.  Contiguous, in rank order,
 * sizes differ by at most one.  n <= 2^32, world <= 2^31. */
uint64_t cursor_slice(uint64_t n, uint64_t rank, uint64_t world, uint64_t *offset);

/* The ids of count samples from offset on within the batch. */
void cursor_ids(struct cursor *cursor, const struct cursor_batch *batch,
	uint64_t offset, uint64_t count, uint32_t *ids);

/* The batch went into the model. */
void cursor_step(struct cursor *cursor, const struct cursor_batch *batch);

#endif
