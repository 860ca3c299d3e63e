/* run.h - a job, from its submission to its end, at a terminal. */
#ifndef CLI_RUN_H
#define CLI_RUN_H

#include "cli/run_options.h"

/*
 * Submit the job and stay with it until it ends (or leave at once, with
 * --detach).  Says on standard error what is to be said.  Returns the exit code
 * of the program, or RUN_LOCALLY when no daemon was there and the options want
 * the command to be run here then.
 */
#define RUN_LOCALLY (-1)
int run_job(const struct run_options *options);

#endif
