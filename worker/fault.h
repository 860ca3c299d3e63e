/* fault.h - the sentence that goes with a failure, inside libmalle. */
#ifndef WORKER_FAULT_H
#define WORKER_FAULT_H

#include "worker/malle.h"

/*
 * Set the text (err may be NULL) and errno; a longer text is cut with "...".
 * Returns -1, so that failing is one line.
 */
int fault_set(struct malle_err *err, int errnum, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#endif
