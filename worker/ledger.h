/* ledger.h - which samples this rank put into which step, on file. */
#ifndef WORKER_LEDGER_H
#define WORKER_LEDGER_H

#include <stddef.h>
#include <stdint.h>

#include "worker/fault.h"

struct ledger {
	int fd; /* -1: none is kept */
	char *line;
	size_t room;
};

/* First line of a rank's file. */
struct ledger_head {
	uint64_t generation, rank, world;
	uint64_t step, cursor; /* where the world begins */
	uint64_t n_samples, global_batch, total, seed;
	const char *job;
};

/*
 * Create this rank's file in dir; an empty one of at most `most` ids a record.
 * -1: EEXIST (that generation has been recorded there), ENOMEM, or errno of
 * open and write.
 */
int ledger_open(struct ledger *ledger, const char *dir, const struct ledger_head *head,
	size_t most, struct malle_err *err);

/* The batch is handed out.  0 where no ledger is kept. */
int ledger_batch(struct ledger *ledger, uint64_t step, uint64_t cursor,
	uint64_t global_n, const uint32_t *ids, size_t n, struct malle_err *err);

/* This rank trains no more, and all is complete up to here. */
int ledger_end(struct ledger *ledger, uint64_t step, uint64_t cursor, int finished,
	struct malle_err *err);

void ledger_close(struct ledger *ledger);

#endif
