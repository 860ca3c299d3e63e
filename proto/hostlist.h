/* hostlist.h - lists of node names in Slurm's hostlist syntax. */
#ifndef PROTO_HOSTLIST_H
#define PROTO_HOSTLIST_H

#include <stdbool.h>
#include <stddef.h>

struct err;

/*
 * A list keeps the order and the duplicates of what was put in.  The names
 * belong to the list until hostlist_fini().
 */
struct hostlist {
	char **names;
	size_t count;
	size_t room;
};

enum {
	HOSTLIST_MAX_NAMES = 65536, /* the default bound of an expansion */
	HOSTLIST_NAME_BYTES = 255,  /* the longest name, without its NUL */
};

void hostlist_init(struct hostlist *list);
void hostlist_fini(struct hostlist *list);

/*
 * Append the names of an expression.  max_names bounds the list with the new
 * names in it (0: HOSTLIST_MAX_NAMES), and is checked before the first name
 * is made.  Returns 0, or -1 with the list as it was and errno
 *	EINVAL	malformed: "column 8: missing ]", bytes counted from 1;
 *	E2BIG	over max_names, with the column of the item that is too much;
 *	ENOMEM.
 */
int hostlist_expand(struct hostlist *list, const char *expr, size_t max_names,
		    struct err *err);

/*
 * The expression of names in the order given, duplicates kept; neighbours
 * with a common prefix and a number at their end share brackets.  Expanding
 * it gives the same names again.  Free it.  NULL: ENOMEM, or EINVAL for a
 * name that is not hostlist_name_ok().
 */
char *hostlist_compress(const char *const *names, size_t count, struct err *err);

/*
 * A name is 1 to HOSTLIST_NAME_BYTES bytes, none of them a comma, a bracket,
 * a blank or a control character.
 */
bool hostlist_name_ok(const char *name);

#endif
