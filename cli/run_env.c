/*
 * run_env.c - the environment that a job is given.
 *
 * A job runs with the user's environment, as people expect of a batch system,
 * less what describes another run:
 *
 *	SLURM_*          the step that malle-run was typed in (SLURM_CONF, which
 *	                 says where the cluster is, stays)
 *	OMPI_* PMIX_* PMI_* PRTE_* ORTE_*
 *	                 an mpirun around us, whose world is not the job's
 *	MALLE_*          an outer job, or the daemon to ask
 *	RANK, WORLD_SIZE and their like
 *	                 torchrun's contract, which the agents make anew
 *
 * LD_LIBRARY_PATH and LD_PRELOAD stay: training stacks are found by them, and
 * the job runs as the user who set them.
 */
#include "cli/run_env.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LEDGER "MALLE_LEDGER"

/* Ending in '*': the beginning of a name; else the whole name. */
static const char *const denied[] = {
	"SLURM_*",
	"OMPI_*",
	"PMIX_*",
	"PMI_*",
	"PRTE_*",
	"ORTE_*",
	"MALLE_*",
	"RANK",
	"WORLD_SIZE",
	"LOCAL_RANK",
	"LOCAL_WORLD_SIZE",
	"GROUP_RANK",
	"MASTER_ADDR",
	"MASTER_PORT",
};

static const char *const kept[] = {
	"SLURM_CONF",
};

static int matches(const char *pattern, const char *name, size_t size)
{
	size_t length = strlen(pattern);

	if (pattern[length - 1] == '*')
		return size >= length - 1 && strncmp(pattern, name, length - 1) == 0;
	return size == length && strncmp(pattern, name, size) == 0;
}

int run_env_passes(const char *entry)
{
	const char *equals = strchr(entry, '=');
	size_t size = equals ? (size_t)(equals - entry) : 0;

	if (size == 0)
		return 0;
	for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
		if (matches(kept[i], entry, size))
			return 1;
	for (size_t i = 0; i < sizeof(denied) / sizeof(denied[0]); i++)
		if (matches(denied[i], entry, size))
			return 0;
	return 1;
}

static int append_ledger(json_t *list, const char *ledger)
{
	json_t *entry;

	if (!ledger)
		return 0;
	entry = json_sprintf("%s=%s", LEDGER, ledger);
	return json_array_append_new(list, entry);
}

json_t *run_env_json(char *const *environment, const char *ledger, size_t *left_out)
{
	json_t *list = json_array();
	size_t skipped = 0;

	if (!list)
		return NULL;
	for (; *environment; environment++) {
		json_t *entry;

		if (!run_env_passes(*environment))
			continue;
		entry = json_string(*environment);
		if (!entry)
			skipped++;
		else if (json_array_append_new(list, entry) < 0)
			goto fail;
	}
	if (append_ledger(list, ledger) < 0)
		goto fail;
	*left_out = skipped;
	return list;

fail:
	json_decref(list);
	errno = ENOMEM;
	return NULL;
}

static int unset_entry(const char *entry)
{
	char *name = strndup(entry, strcspn(entry, "="));
	int rc = name ? unsetenv(name) : -1;

	free(name);
	return rc;
}

int run_env_apply(const char *ledger)
{
	size_t i = 0;

	while (environ[i]) {
		if (run_env_passes(environ[i]) || !strchr(environ[i], '=') ||
			environ[i][0] == '=') {
			i++;
			continue;
		}
		/* What follows moves up to i. */
		if (unset_entry(environ[i]) < 0)
			return -1;
	}
	return ledger ? setenv(LEDGER, ledger, 1) : 0;
}
