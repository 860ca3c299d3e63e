/*
 * pace.c - how often a worker tells its progress and saves replicas.
 *
 * A replica is saved while the model stands still, so it costs every rank its
 * time.  Two rules bound that.  The next one waits nineteen times as long as the
 * last one took: never more than a twentieth of the time goes there, however
 * large the state is.  And nodes save theirs at the same step where they can:
 * ranks meet in every step anyway, so pauses at one step cost one pause, and
 * pauses at eight different steps cost eight.  Nobody has to talk for that.  Wall
 * time is cut into slots of replica_s, and a replica is due at the first step in
 * a new slot.  Clocks of nodes that differ by a few milliseconds put some nodes a
 * step later, no worse.  A clock that jumps makes at most one replica too many.
 *
 * Step times leave out our own work, and are told as a median: one slow step
 * (a page fault storm, a neighbour) says nothing about the rate.
 */
#include "worker/pace.h"

#include <string.h>

static double slot_of(const struct pace *pace, double wall_s)
{
	return pace->replica_s > 0 ? __builtin_floor(wall_s / pace->replica_s) : 0;
}

void pace_init(struct pace *pace, double replica_s, double now_s, double wall_s)
{
	*pace = (struct pace){
		.replica_s = replica_s,
		.begun_s = now_s,
		.told_s = -1e18,
		.replica_end_s = now_s,
	};
	pace->slot = slot_of(pace, wall_s);
}

void pace_step(struct pace *pace, double now_s)
{
	pace->steps[pace->n_steps++ % PACE_STEPS] = now_s - pace->begun_s;
}

void pace_resume(struct pace *pace, double now_s)
{
	pace->begun_s = now_s;
}

double pace_median(const struct pace *pace)
{
	unsigned n = pace->n_steps < PACE_STEPS ? pace->n_steps : PACE_STEPS;
	double sorted[PACE_STEPS];

	for (unsigned i = 0; i < n; i++) {
		unsigned at = i;

		for (; at && sorted[at - 1] > pace->steps[i]; at--)
			sorted[at] = sorted[at - 1];
		sorted[at] = pace->steps[i];
	}
	return n ? sorted[n / 2] : 0;
}

int pace_tell(struct pace *pace, double now_s)
{
	if (now_s - pace->told_s < PACE_PROGRESS_S)
		return 0;
	pace->told_s = now_s;
	return 1;
}

int pace_replica_due(const struct pace *pace, double now_s, double wall_s)
{
	return pace->replica_s > 0 && slot_of(pace, wall_s) != pace->slot &&
	       now_s - pace->replica_end_s >=
		       (PACE_REPLICA_SHARE - 1) * pace->replica_took_s;
}

void pace_replica_done(struct pace *pace, double began_s, double now_s, double wall_s)
{
	pace->replica_took_s = now_s - began_s;
	pace->replica_end_s = now_s;
	pace->slot = slot_of(pace, wall_s);
}
