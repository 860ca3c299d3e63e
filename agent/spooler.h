/* spooler.h - states of jobs to a disk, in processes of their own. */
#ifndef AGENT_SPOOLER_H
#define AGENT_SPOOLER_H

#include "agent/agent.h"

struct spooler;

struct spooler *spooler_create(struct agent *agent, struct err *err);
void spooler_destroy(struct spooler *spooler);

/*
 * Save the job's newest state to its spool, as SPOOL/state, and tell the daemon.
 * Without `must` only where the last was spool_s ago.  One copy of a job runs at
 * a time; one that must be made follows.
 */
void spooler_save(struct spooler *spooler, const char *job, int must);

/* The job has ended. */
void spooler_forget(struct spooler *spooler, const char *job);

/* The job ended well: its state, then its directory if nothing else is in it, then
 * a .malle above that is empty.  Nothing there is nothing to do. */
void spooler_remove(const char *spool);

/* Non-zero: copies are being made. */
int spooler_is_busy(const struct spooler *spooler);

/* What the child does: standard input to `path`.  An exit code. */
int spooler_main(const char *path, const char *word);

#endif
