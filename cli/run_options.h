/* run_options.h - what malle-run was told. */
#ifndef CLI_RUN_OPTIONS_H
#define CLI_RUN_OPTIONS_H

#include <stdio.h>

#include "proto/err.h"

enum run_fallback {
	FALLBACK_UNSET = 0,
	FALLBACK_FAIL,
	FALLBACK_WAIT,
	FALLBACK_LOCAL,
};

/* Strings are borrowed from argv, but for `name`. */
struct run_options {
	int help, version;
	int min_nodes, max_nodes; /* 1..65536 */
	int nproc;		  /* 1..4096 */
	char name[65];
	const char *mode;
	const char *launcher;
	double priority; /* 0.001..1000 */
	enum run_fallback fallback;
	int detach, quiet;
	const char *spool;  /* or NULL */
	const char *output; /* or NULL */
	const char *ledger; /* or NULL */
	const char *server; /* or NULL */
	double timeout_s;
	char **command; /* ends with NULL; empty with help or version */
};

/*
 * Read argv, which getopt may reorder but not change.  -1 with EINVAL and
 * "option --nnodes: 3:1: ..." for what cannot be.
 */
int run_options_parse(
	struct run_options *options, int argc, char **argv, struct err *err);

void run_options_help(FILE *out);

#endif
