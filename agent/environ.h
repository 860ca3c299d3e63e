/* environ.h - environments of child processes, built and never inherited. */
#ifndef AGENT_ENVIRON_H
#define AGENT_ENVIRON_H

#include <stddef.h>

/* Entries NAME=VALUE, NULL at the end.  All zero is an empty one. */
struct environ_list {
	char **entries; /* NULL while there is none */
	size_t n;
	int failed; /* memory ran out; what was set then is missing */
};

/* Non-zero: an entry of the agent's own environment that jobs may see. */
int environ_allowed(const char *entry);

/* Non-zero: an entry of the job's environment that its workers get. */
int environ_passes(const char *entry);

/*
 * Begin with what is allowed of the agent's environment, then the job's.  What
 * the node says of its devices wins over what the job's environment says.
 */
void environ_init(
	struct environ_list *list, char *const *own_env, char *const *job_env);
void environ_fini(struct environ_list *list);

/* Set NAME to a formatted value. */
void environ_set(struct environ_list *list, const char *name, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* The value of a name, or NULL.  Borrowed. */
const char *environ_get(char *const *entries, const char *name);

#endif
