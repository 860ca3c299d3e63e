/* local.h - the command without a daemon, on this machine alone. */
#ifndef CLI_LOCAL_H
#define CLI_LOCAL_H

#include "cli/run_options.h"

/*
 * Says that it does so, runs the command and returns its exit code: 128+n for
 * signal n, 127 and 126 as a shell for what cannot be started.  May not return:
 * where one process is enough, it becomes that process.
 */
int local_run(const struct run_options *options);

#endif
