/*
 * agree.c - at which step this worker leaves.
 *
 * All ranks must leave at the same step: one that leaves alone leaves the
 * others in a collective that never ends.  There is no collective of our own
 * for it; the daemon asks every worker instead.
 *
 *	propose(p, S)   may all leave when S steps are done?
 *	answer          yes, if fewer than S are done here; else no
 *	commit(p)       all said yes: leave at S
 *	withdraw(p)     never mind
 *
 * A worker that said yes has promised not to pass S without the last word.  It
 * trains on until S is reached and waits there.  So once the daemon has a yes
 * from everybody, S is before all of them, and commit always comes in time:
 * that is the whole proof.  A no anywhere makes the daemon propose a later step
 * under a higher number, and that replaces the older proposal, also for who
 * waits at it.  Older numbers, and last words about them, mean nothing.
 *
 * What was committed stays: others may have left by it already.
 *
 * When the agent is gone, an open proposal is dropped and a committed one kept:
 * if the word reached this node it was sent to all.  A worker that stayed
 * waiting would be of no use to anybody.
 */
#include "worker/agree.h"

enum agree_reply agree_propose(struct agree *agree, uint64_t proposal, uint64_t step,
	enum malle_verdict verdict, uint64_t now)
{
	if (proposal <= agree->newest)
		return AGREE_SILENT;
	if (agree->committed)
		return AGREE_NO;
	agree->newest = proposal;
	agree->step = step;
	agree->verdict = verdict;
	agree->agreed = now < step && verdict != MALLE_UNSET;
	return agree->agreed ? AGREE_YES : AGREE_NO;
}

void agree_commit(struct agree *agree, uint64_t proposal)
{
	if (proposal == agree->newest && agree->agreed)
		agree->committed = 1;
}

void agree_withdraw(struct agree *agree, uint64_t proposal)
{
	if (proposal == agree->newest && !agree->committed)
		agree->agreed = 0;
}

void agree_gone(struct agree *agree)
{
	if (!agree->committed)
		agree->agreed = 0;
}

enum agree_now agree_at(const struct agree *agree, uint64_t now)
{
	if (!agree->agreed || now < agree->step)
		return AGREE_TRAIN;
	return agree->committed ? AGREE_LEAVE : AGREE_WAIT;
}
