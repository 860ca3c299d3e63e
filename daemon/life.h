/* life.h - what becomes of jobs and worlds: ends, losses, people's wishes. */
#ifndef DAEMON_LIFE_H
#define DAEMON_LIFE_H

#include "daemon/ctld.h"

/* --- worlds ---------------------------------------------------------------- */

/*
 * End a world that is not (or no longer) wanted.  Its exits never count as
 * failures.  The world lives until its members have exited.
 */
void life_world_end(struct ctld *ctld, struct world *world, const char *why);

/*
 * The world broke: a member died, hung or vanished.  What is left of it is
 * killed at once and the job, if it was its current world, starts again from
 * the newest state.  by_node: a node was lost, which is nobody's fault and is
 * not counted against the job.  world may be NULL.
 */
void life_world_lost(struct ctld *ctld, struct world *world, const char *why, int by_node);

/* Facts about the world have changed (ready, left, exited): follow them. */
void life_world_changed(struct ctld *ctld, struct world *world);

/* --- jobs ------------------------------------------------------------------- */

/* The job's state follows from its worlds and its transaction: derive it,
 * record it, tell those who are attached.  reason NULL: keep the old one. */
void life_job_runs(struct ctld *ctld, struct job *job, const char *reason);

/* A transaction of the job was closed. */
void life_job_settled(struct ctld *ctld, struct job *job, int failed);

/* End the job now; what is left of its worlds is killed. */
void life_job_end(struct ctld *ctld, struct job *job, int exit_code, const char *reason);

/* What people ask for.  Return 0, or -1 with a sentence (EINVAL). */
int life_job_cancel(struct ctld *ctld, struct job *job, int force, struct err *err);
int life_job_pause(struct ctld *ctld, struct job *job, struct err *err);
int life_job_resume(struct ctld *ctld, struct job *job, struct err *err);

/* Leave the nodes that are wanted back, if the job holds any. */
void life_job_give_back(struct ctld *ctld, struct job *job);

/* Deadlines of a job that no message announces: called at every tick. */
void life_job_tick(struct ctld *ctld, struct job *job);

#endif
