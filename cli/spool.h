/* spool.h - the directory for the state of a job without nodes. */
#ifndef CLI_SPOOL_H
#define CLI_SPOOL_H

#include "proto/err.h"

/*
 * Make the directory and return its absolute name (owned): `wanted`, or when
 * that is NULL a new one, cwd/.malle/token.  NULL with errno of mkdir.
 */
char *spool_create(
	const char *wanted, const char *cwd, const char *token, struct err *err);

/*
 * The job is over: remove its spool, with what is in it only when the state is
 * of no use any more.  1 when something is left in it, else 0.
 */
int spool_remove(const char *spool, int with_state);

#endif
