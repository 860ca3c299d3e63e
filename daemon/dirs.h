/* dirs.h - directories that the daemon needs. */
#ifndef DAEMON_DIRS_H
#define DAEMON_DIRS_H

#include <sys/types.h>

#include "proto/err.h"

/*
 * Make a directory, with those above it that are missing, all with this mode;
 * one that is there is left as it is.  -1: errno of mkdir, or ENOTDIR where
 * something else is in the way.
 */
int dirs_make(const char *dir, mode_t mode, struct err *err);

/* The same for the directory in which a file is to be. */
int dirs_make_for(const char *file, mode_t mode, struct err *err);

#endif
