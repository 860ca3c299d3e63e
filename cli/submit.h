/* submit.h - the description of a job that malle-run hands over. */
#ifndef CLI_SUBMIT_H
#define CLI_SUBMIT_H

#include <jansson.h>

#include "cli/run_options.h"
#include "proto/err.h"

struct submit {
	json_t *body;	 /* of job.submit */
	char *spool;	 /* absolute; made */
	size_t left_out; /* variables of the environment that are not UTF-8 */
};

/*
 * Describe the job from the options and this process: directory, environment.
 * Returns EXIT_OK, or the exit code that fits with the sentence in err.
 * submit_fini in either case.
 */
int submit_init(
	struct submit *submit, const struct run_options *options, struct err *err);
void submit_fini(struct submit *submit);

#endif
