/* ctl.h - mallectl: options, and one verb. */
#ifndef CLI_CTL_H
#define CLI_CTL_H

#include <stdio.h>

#include "proto/err.h"

enum ctl_verb {
	CTL_UNSET = 0,
	CTL_CANCEL,
	CTL_PAUSE,
	CTL_RESUME,
	CTL_PING,
	CTL_SHOW_CONFIG,
};

struct ctl_options {
	int help, version;
	enum ctl_verb verb;
	const char *job; /* or NULL */
	int force, json;
	const char *server; /* or NULL */
	double timeout_s;
};

/* -1 with EINVAL and the sentence. */
int ctl_options_parse(
	struct ctl_options *options, int argc, char **argv, struct err *err);
void ctl_options_help(FILE *out);

/* Do it.  The exit code. */
int ctl_do(const struct ctl_options *options);

#endif
