/*
 * environ.c - environments of child processes, built and never inherited.
 *
 * Two sources.  The agent's own environment is that of a scheduler's step: it
 * says which task of which job step the agent is, and a training program that
 * reads that (many do) takes itself for something that it is not.  So of it only
 * a list of names passes.  The job's environment was the user's when they typed
 * malle-run; it passes, less what describes some other run: scheduler task
 * variables, an mpirun around them, torchrun's contract, and names that are none
 * (exported shell functions).  malle-run has left those out already; here it is
 * made certain.
 *
 * Devices are the node's to name: where the scheduler's step has a word about
 * which GPUs are ours, the job's environment cannot overrule it.
 *
 * Failures of memory are remembered in the list, so that callers set thirty
 * names and ask once.
 */
#include "agent/environ.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ending in '*': the beginning of a name; else the whole name. */
static const char *const allowed[] = {
	"PATH",
	"HOME",
	"USER",
	"LOGNAME",
	"SHELL",
	"LANG",
	"LANGUAGE",
	"LC_*",
	"TZ",
	"LD_LIBRARY_PATH",
	"SLURM_CONF",
	NULL,
};

static const char *const of_the_node[] = {
	"CUDA_VISIBLE_DEVICES",
	"NVIDIA_VISIBLE_DEVICES",
	"GPU_DEVICE_ORDINAL",
	"ROCR_VISIBLE_DEVICES",
	"HIP_VISIBLE_DEVICES",
	"ZE_AFFINITY_MASK",
	NULL,
};

static const char *const denied[] = {
	"SLURM_*",
	"SLURMD_*",
	"OMPI_*",
	"ORTE_*",
	"PMIX_*",
	"PMI_*",
	"PRTE_*",
	"OPAL_*",
	"MALLE_*",
	"RANK",
	"WORLD_SIZE",
	"LOCAL_RANK",
	"LOCAL_WORLD_SIZE",
	"GROUP_RANK",
	"GROUP_WORLD_SIZE",
	"ROLE_RANK",
	"ROLE_WORLD_SIZE",
	"ROLE_NAME",
	"MASTER_ADDR",
	"MASTER_PORT",
	"TORCHELASTIC_*",
	NULL,
};

static const char *const kept[] = { "SLURM_CONF", "MALLE_LEDGER", NULL };

/* Length of the name of a NAME=VALUE; 0: it has no proper name. */
static size_t name_size(const char *entry)
{
	size_t n = strspn(entry, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				 "0123456789_");

	return entry[n] == '=' && !(entry[0] >= '0' && entry[0] <= '9') ? n : 0;
}

static int is_in(const char *const *patterns, const char *entry, size_t size)
{
	for (; *patterns; patterns++) {
		size_t length = strlen(*patterns);
		int prefix = (*patterns)[length - 1] == '*';

		length -= (size_t)prefix;
		if ((prefix ? size >= length : size == length) &&
			strncmp(*patterns, entry, length) == 0)
			return 1;
	}
	return 0;
}

int environ_allowed(const char *entry)
{
	size_t size = name_size(entry);

	return size && (is_in(allowed, entry, size) || is_in(of_the_node, entry, size));
}

int environ_passes(const char *entry)
{
	size_t size = name_size(entry);

	return size && (is_in(kept, entry, size) || !is_in(denied, entry, size));
}

const char *environ_get(char *const *entries, const char *name)
{
	size_t size = strlen(name);

	for (; entries && *entries; entries++)
		if (strncmp(*entries, name, size) == 0 && (*entries)[size] == '=')
			return *entries + size + 1;
	return NULL;
}

static char **slot_of(struct environ_list *list, const char *entry)
{
	size_t size = strcspn(entry, "=") + 1;

	for (size_t i = 0; i < list->n; i++)
		if (strncmp(list->entries[i], entry, size) == 0)
			return &list->entries[i];
	return NULL;
}

static void put(struct environ_list *list, char *entry_take)
{
	char **slot = entry_take ? slot_of(list, entry_take) : NULL, **grown;

	if (slot) {
		free(*slot);
		*slot = entry_take;
		return;
	}
	grown = entry_take ? realloc(list->entries, (list->n + 2) * sizeof(char *))
			   : NULL;
	if (!grown) {
		free(entry_take);
		list->failed = 1;
		return;
	}
	list->entries = grown;
	grown[list->n++] = entry_take;
	grown[list->n] = NULL;
}

void environ_init(struct environ_list *list, char *const *own_env, char *const *job_env)
{
	memset(list, 0, sizeof(*list));
	for (char *const *at = own_env; at && *at; at++)
		if (environ_allowed(*at))
			put(list, strdup(*at));
	for (char *const *at = job_env; at && *at; at++) {
		if (!environ_passes(*at))
			continue;
		if (is_in(of_the_node, *at, name_size(*at)) && slot_of(list, *at))
			continue;
		put(list, strdup(*at));
	}
}

void environ_fini(struct environ_list *list)
{
	for (size_t i = 0; i < list->n; i++)
		free(list->entries[i]);
	free(list->entries);
	memset(list, 0, sizeof(*list));
}

void environ_set(struct environ_list *list, const char *name, const char *fmt, ...)
{
	char *value = NULL, *entry = NULL;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&value, fmt, ap) < 0)
		value = NULL;
	va_end(ap);
	if (value && asprintf(&entry, "%s=%s", name, value) < 0)
		entry = NULL;
	free(value);
	put(list, entry);
}
