/* sum.h - a 64-bit checksum of bytes that come in pieces: XXH64, seed 0.  Pure. */
#ifndef WORKER_SUM_H
#define WORKER_SUM_H

#include <stddef.h>
#include <stdint.h>

struct sum {
	uint64_t lanes[4];
	uint64_t bytes;
	uint8_t rest[32]; /* bytes % 32 of them */
};

void sum_init(struct sum *sum);
void sum_add(struct sum *sum, const void *bytes, size_t n);
/* Of all bytes so far; more may follow. */
uint64_t sum_value(const struct sum *sum);

#endif
