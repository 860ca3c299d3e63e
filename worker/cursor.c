/*
 * cursor.c - which samples come next, and whose they are.
 *
 * The cursor is the number of samples that all ranks together have consumed
 * since the job began.  It knows nothing of world sizes: the batch at a cursor
 * is the same in every world, and only its division among the ranks differs.
 * That is why a rescale can neither lose nor repeat a sample.
 *
 * Epoch e is samples [e * n, (e + 1) * n) of that count.  A batch ends at the
 * end of its epoch, so the last one of an epoch may be smaller; the next epoch
 * begins with a whole one.
 *
 * The order within an epoch is a permutation that is computed, not stored: a
 * table of a hundred million ids would cost every rank 400 MB, and shuffling it
 * at each epoch and after each rescale a pause.  It is a Feistel network over the
 * smallest power of two that holds n; a value that falls outside 0 .. n - 1
 * goes through again until it falls inside (less than two times on average),
 * which keeps it a permutation.  With an odd number of bits the halves differ
 * by one; they swap at each round, so the number of rounds is even.
 *
 * Round keys are splitmix64's output from a state made of seed and epoch; the
 * round function is its finaliser on key plus half.  Twelve rounds, because
 * small sets have few bits to mix: positions of ids in sets of two to ten come
 * out even over the epochs (a test measures it).  This order is part of what a
 * state file means: changing it needs a new version of that file.
 */
#include "worker/cursor.h"

#include <errno.h>

static uint64_t mix(uint64_t z)
{
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return z ^ z >> 31;
}

void cursor_order_init(
	struct cursor_order *order, uint64_t n, uint64_t seed, uint64_t epoch)
{
	uint64_t state = mix(seed + 0x9e3779b97f4a7c15ULL) ^ epoch;
	unsigned bits = 2;

	while (bits < 32 && n > 1ULL << bits)
		bits++;
	order->n = n;
	order->left_bits = bits / 2;
	order->right_bits = bits - bits / 2;
	for (int i = 0; i < CURSOR_ROUNDS; i++) {
		state += 0x9e3779b97f4a7c15ULL;
		order->keys[i] = mix(state);
	}
}

static uint64_t permute(const struct cursor_order *o, uint64_t x)
{
	unsigned a = o->left_bits, b = o->right_bits, swap;
	uint64_t left = x >> b, right = x & ((1ULL << b) - 1), next;

	for (int i = 0; i < CURSOR_ROUNDS; i++) {
		next = left ^ (mix(o->keys[i] + right) >> 16 & ((1ULL << a) - 1));
		left = right;
		right = next;
		swap = a;
		a = b;
		b = swap;
	}
	return left << b | right;
}

uint32_t cursor_order_at(const struct cursor_order *order, uint64_t place)
{
	uint64_t id = place;

	do
		id = permute(order, id);
	while (id >= order->n);
	return (uint32_t)id;
}

void cursor_init(struct cursor *cursor, uint64_t n_samples, uint64_t global_batch,
	uint64_t total, uint64_t seed)
{
	*cursor = (struct cursor){
		.n_samples = n_samples,
		.global_batch = global_batch,
		.total = total,
		.seed = seed,
	};
	cursor_order_init(&cursor->order, n_samples, seed, 0);
}

int cursor_seek(struct cursor *cursor, uint64_t step, uint64_t consumed)
{
	if (consumed > cursor->total) {
		errno = EINVAL;
		return -1;
	}
	cursor->step = step;
	cursor->consumed = consumed;
	return 0;
}

struct cursor_batch cursor_next(const struct cursor *cursor)
{
	struct cursor_batch batch = {
		.epoch = cursor->consumed / cursor->n_samples,
		.place = cursor->consumed % cursor->n_samples,
		.n = cursor->global_batch,
	};

	if (batch.n > cursor->n_samples - batch.place)
		batch.n = cursor->n_samples - batch.place;
	if (batch.n > cursor->total - cursor->consumed)
		batch.n = cursor->total - cursor->consumed;
	return batch;
}

uint64_t cursor_slice(uint64_t n, uint64_t rank, uint64_t world, uint64_t *offset)
{
	*offset = n * rank / world;
	return n * (rank + 1) / world - *offset;
}

void cursor_ids(struct cursor *cursor, const struct cursor_batch *batch,
	uint64_t offset, uint64_t count, uint32_t *ids)
{
	if (cursor->order_epoch != batch->epoch) {
		cursor_order_init(
			&cursor->order, cursor->n_samples, cursor->seed, batch->epoch);
		cursor->order_epoch = batch->epoch;
	}
	for (uint64_t i = 0; i < count; i++)
		ids[i] = cursor_order_at(&cursor->order, batch->place + offset + i);
}

void cursor_step(struct cursor *cursor, const struct cursor_batch *batch)
{
	cursor->consumed += batch->n;
	cursor->step++;
}
