/* run_env.h - the environment that a job is given. */
#ifndef CLI_RUN_ENV_H
#define CLI_RUN_ENV_H

#include <jansson.h>
#include <stddef.h>

#include "proto/err.h"

/* Non-zero when "NAME=VALUE" goes along from the submitting shell to a job. */
int run_env_passes(const char *entry);

/*
 * What passes of `environ`, and MALLE_LEDGER when `ledger` is given, as an
 * array of strings for job.submit.  Variables that are not UTF-8, which the
 * protocol cannot carry, are left out and counted in *left_out.  NULL: ENOMEM.
 */
json_t *run_env_json(char *const *environ, const char *ledger, size_t *left_out);

/*
 * The same for this process, before a program is started here: what does not
 * pass is unset, MALLE_LEDGER set.  0, or -1 with ENOMEM.
 */
int run_env_apply(const char *ledger);

#endif
