/*
 * fuzz_trace.c - trace files that came from anywhere.  What is accepted obeys
 * what holes.h promises.
 */
#include <stdlib.h>
#include <string.h>

#include "daemon/sched/holes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_row(const struct holes *holes, size_t r, unsigned char *there)
{
	const struct hole_row *row = &holes->rows[r];

	if (row->t_s > holes->span_s || (r > 0 && row->t_s < holes->rows[r - 1].t_s))
		abort();
	for (size_t i = 0; i < row->n_leaves; i++) {
		if (row->leaves[i] >= holes->n_nodes || !there[row->leaves[i]])
			abort();
		there[row->leaves[i]] = 0;
	}
	for (size_t i = 0; i < row->n_joins; i++) {
		if (row->joins[i] >= holes->n_nodes || there[row->joins[i]])
			abort();
		there[row->joins[i]] = 1;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static unsigned char there[HOLES_NODES_MAX];
	struct err err;
	struct holes *holes = holes_parse((const char *)data, size, "trace", &err);

	if (!holes)
		return 0;
	memset(there, 0, sizeof(there));
	for (size_t r = 0; r < holes->n_rows; r++)
		check_row(holes, r, there);
	holes_destroy(holes);
	return 0;
}
