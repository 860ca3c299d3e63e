/*
 * sum.c - XXH64 (Yann Collet's, seed 0), written from its specification.
 *
 * A state file is checked before a byte of it goes into a model.  It lies in
 * memory and travels over sockets that do not lose bytes, so what is to be
 * found is a file that was cut short, mixed up or belongs elsewhere, not an
 * attacker.  The sum must not cost more than the copy: this one runs at several
 * GB/s, where a byte-wise CRC would take seconds for each gigabyte.
 */
#include "worker/sum.h"

#include <endian.h>
#include <string.h>

#define P1 0x9e3779b185ebca87ULL
#define P2 0xc2b2ae3d27d4eb4fULL
#define P3 0x165667b19e3779f9ULL
#define P4 0x85ebca77c2b2ae63ULL
#define P5 0x27d4eb2f165667c5ULL

static uint64_t rotate(uint64_t v, int by)
{
	return v << by | v >> (64 - by);
}

static uint64_t load64(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return le64toh(v);
}

static uint32_t load32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return le32toh(v);
}

static uint64_t round_of(uint64_t lane, uint64_t value)
{
	return rotate(lane + value * P2, 31) * P1;
}

static void stripes(struct sum *sum, const uint8_t *p, size_t n)
{
	uint64_t lanes[4]; /* in registers, which *sum is not */

	memcpy(lanes, sum->lanes, sizeof(lanes));
	for (; n >= 32; p += 32, n -= 32) {
		lanes[0] = round_of(lanes[0], load64(p));
		lanes[1] = round_of(lanes[1], load64(p + 8));
		lanes[2] = round_of(lanes[2], load64(p + 16));
		lanes[3] = round_of(lanes[3], load64(p + 24));
	}
	memcpy(sum->lanes, lanes, sizeof(lanes));
}

void sum_init(struct sum *sum)
{
	*sum = (struct sum){ .lanes = { P1 + P2, P2, 0, 0 - P1 } };
}

void sum_add(struct sum *sum, const void *bytes, size_t n)
{
	const uint8_t *p = bytes;
	size_t rest = sum->bytes % 32, fit = 32 - rest;

	if (!n)
		return;
	sum->bytes += n;
	if (n < fit) {
		memcpy(sum->rest + rest, p, n);
		return;
	}
	if (rest) {
		memcpy(sum->rest + rest, p, fit);
		stripes(sum, sum->rest, 32);
		p += fit;
		n -= fit;
	}
	stripes(sum, p, n);
	memcpy(sum->rest, p + n - n % 32, n % 32);
}

static uint64_t merged(const struct sum *sum)
{
	static const int by[] = { 1, 7, 12, 18 };
	uint64_t h = 0;

	if (sum->bytes < 32)
		return P5;
	for (int i = 0; i < 4; i++)
		h += rotate(sum->lanes[i], by[i]);
	for (int i = 0; i < 4; i++)
		h = (h ^ round_of(0, sum->lanes[i])) * P1 + P4;
	return h;
}

uint64_t sum_value(const struct sum *sum)
{
	uint64_t h = merged(sum) + sum->bytes;
	const uint8_t *p = sum->rest;
	size_t n = sum->bytes % 32;

	for (; n >= 8; p += 8, n -= 8)
		h = rotate(h ^ round_of(0, load64(p)), 27) * P1 + P4;
	if (n >= 4) {
		h = rotate(h ^ load32(p) * P1, 23) * P2 + P3;
		p += 4;
		n -= 4;
	}
	for (; n; p++, n--)
		h = rotate(h ^ *p * P5, 11) * P1;
	h = (h ^ h >> 33) * P2;
	h = (h ^ h >> 29) * P3;
	return h ^ h >> 32;
}
