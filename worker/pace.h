/* pace.h - how often a worker tells its progress and saves replicas.  Pure. */
#ifndef WORKER_PACE_H
#define WORKER_PACE_H

#define PACE_STEPS 31 /* whose median is told */
#define PACE_PROGRESS_S 0.2
#define PACE_REPLICA_SHARE 20 /* of the time at most 1 / this goes to replicas */

/* All times in seconds; now_s is monotonic, wall_s since 1970. */
struct pace {
	double replica_s;       /* 0: none are wanted */
	double begun_s;         /* when the step under way began */
	double steps[PACE_STEPS]; /* durations, a ring */
	unsigned n_steps;       /* ever */
	double told_s;          /* when progress was told last */
	double replica_end_s;   /* of the last one, or when training began */
	double replica_took_s;
	double slot;            /* of wall time / replica_s at the last one */
};

void pace_init(struct pace *pace, double replica_s, double now_s, double wall_s);

/* A step ended; the next begins at pace_resume, after our own work. */
void pace_step(struct pace *pace, double now_s);
void pace_resume(struct pace *pace, double now_s);

/* Median duration of the last steps; 0 before the first. */
double pace_median(const struct pace *pace);

/* 1 if progress is to be told now, and it is taken for told. */
int pace_tell(struct pace *pace, double now_s);

/* 1 if a replica is to be saved now; then tell when it was done. */
int pace_replica_due(const struct pace *pace, double now_s, double wall_s);
void pace_replica_done(
	struct pace *pace, double began_s, double now_s, double wall_s);

#endif
