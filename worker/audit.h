/* audit.h - the books of all ranks of all worlds of a job, added up. */
#ifndef WORKER_AUDIT_H
#define WORKER_AUDIT_H

#include <stddef.h>
#include <stdint.h>

#include "worker/fault.h"

#define AUDIT_EXAMPLES 16
#define AUDIT_UNKNOWN UINT64_MAX

enum audit_what { AUDIT_UNSET, AUDIT_LOST, AUDIT_REPEATED };

/* Any of the numbers may be AUDIT_UNKNOWN. */
struct audit_example {
	enum audit_what what;
	uint64_t id, epoch, step, rank;
};

struct audit_report {
	char job[65];
	uint64_t files, generations;
	uint64_t n_samples;
	uint64_t steps;        /* that count */
	uint64_t samples;      /* ids in those steps */
	uint64_t epochs;       /* complete ones */
	uint64_t redone_steps; /* records of them were voided by a later world */
	uint64_t torn;         /* files with a torn last line */
	uint64_t lost, repeated;
	int finished; /* training was complete at the end */
	struct audit_example examples[AUDIT_EXAMPLES]; /* the first ones */
	size_t n_examples;
};

/*
 * Read every *.ledger file of dir and add them up.  -1: EBADMSG (a file is
 * damaged, or they are not of one job), ENODATA (no file there), ENOMEM, or
 * errno of opening and reading.  Lost and repeated samples are a result, not
 * a failure.
 */
int audit_dir(const char *dir, struct audit_report *report, struct malle_err *err);

#endif
