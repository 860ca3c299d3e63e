/* status.h - malle-status: options, and asking. */
#ifndef CLI_STATUS_H
#define CLI_STATUS_H

#include <stdio.h>

#include "cli/fmt.h"
#include "proto/err.h"

struct status_options {
	int help, version;
	const char *what; /* of status.get */
	enum fmt_what format;
	const char *id;	    /* or NULL */
	const char *server; /* or NULL */
	int json;
	double interval_s; /* 0: once */
	double timeout_s;
};

/* -1 with EINVAL and the sentence. */
int status_options_parse(
	struct status_options *options, int argc, char **argv, struct err *err);
void status_options_help(FILE *out);

/* Ask and print until there is nothing more to.  The exit code. */
int status_show(const struct status_options *options);

#endif
