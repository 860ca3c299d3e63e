/* agree.h - at which step this worker leaves.  Pure. */
#ifndef WORKER_AGREE_H
#define WORKER_AGREE_H

#include <stdint.h>

#include "worker/malle.h"

struct agree {
	uint64_t newest; /* number of the newest proposal seen; 0: none */
	uint64_t step;   /* where it leaves, if agreed */
	enum malle_verdict verdict;
	int agreed;    /* to the newest; it may still be withdrawn */
	int committed; /* it is certain */
};

enum agree_reply {
	AGREE_SILENT, /* an old proposal: no answer is due */
	AGREE_NO,
	AGREE_YES,
};

/* now: steps done.  verdict MALLE_UNSET (a word we do not know) is a no. */
enum agree_reply agree_propose(struct agree *agree, uint64_t proposal, uint64_t step,
	enum malle_verdict verdict, uint64_t now);
void agree_commit(struct agree *agree, uint64_t proposal);
void agree_withdraw(struct agree *agree, uint64_t proposal);
/* The agent is gone: what is not certain will never be. */
void agree_gone(struct agree *agree);

enum agree_now {
	AGREE_TRAIN, /* go on */
	AGREE_WAIT,  /* not past this step before the last word has come */
	AGREE_LEAVE,
};
enum agree_now agree_at(const struct agree *agree, uint64_t now);

#endif
