/* cycle.h - the heart: facts -> problem -> plan -> rescales. */
#ifndef DAEMON_CYCLE_H
#define DAEMON_CYCLE_H

#include "daemon/ctld.h"

struct cycle;

struct cycle *cycle_create(struct ctld *ctld, struct err *err);
void cycle_destroy(struct cycle *cycle);

/*
 * Something changed: make a plan after the settle delay.  Pokes meanwhile
 * merge into one plan; a plan that is being made when its world has changed is
 * dropped by its epoch.  NULL is fine.
 */
void cycle_poke(struct cycle *cycle, const char *why);

/* A job begins to be watched: its sampler and prober.  ENOMEM. */
int cycle_adopt_job(struct cycle *cycle, struct job *job, struct err *err);

/* A report of progress of the job's current world. */
void cycle_observe(struct cycle *cycle, struct job *job, const struct sample *sample);

/* Samples a second of late; 0 when it does not train. */
double cycle_rate(const struct cycle *cycle, const struct job *job);

/* The probe as malle-status shows it. */
json_t *cycle_probe_json(const struct cycle *cycle, const struct job *job);

/* The job is at a size that its probe chose and the plan had not. */
int cycle_is_probing(const struct cycle *cycle, const struct job *job);

#endif
