/* nodeset.h - sorted sets of node names. */
#ifndef PROTO_NODESET_H
#define PROTO_NODESET_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct err;
struct hostlist;

/*
 * A set of node names in natural order (n2 before n10), each once.  Wherever
 * a `const struct nodeset *` is asked for, NULL is the empty set.  A function
 * that can fail returns NULL or -1 with errno ENOMEM, or EINVAL for a name
 * that could not be written in hostlist syntax (hostlist_name_ok()); whatever
 * it was given is then as it was before the call.
 */
struct nodeset;

/* An empty set, owned by the caller; destroy accepts NULL and keeps errno. */
struct nodeset *nodeset_create(void);
void nodeset_destroy(struct nodeset *set);
struct nodeset *nodeset_copy(const struct nodeset *set);

/*
 * The set of an expression like "n[1-3,7],login" (hostlist.h says what is
 * accepted; at most HOSTLIST_MAX_NAMES before duplicates go).  An empty or
 * NULL expression is the empty set.  NULL with EINVAL or E2BIG and
 * "column N: why" for a bad one.
 */
struct nodeset *nodeset_parse(const char *expr, struct err *err);

/* The expression of the set, "" for the empty one.  Free it.  NULL: ENOMEM. */
char *nodeset_fold(const struct nodeset *set);

/* 1 when the set changed, 0 when the name was (or was not) there, -1. */
int nodeset_add(struct nodeset *set, const char *name);
int nodeset_remove(struct nodeset *set, const char *name);

/* O(log n).  index: the position of a name, -1 when it is not there. */
bool nodeset_contains(const struct nodeset *set, const char *name);
ssize_t nodeset_index(const struct nodeset *set, const char *name);

/*
 * Walk a set by index, in natural order.  A name is borrowed until the set
 * changes; beyond the end it is NULL.
 */
size_t nodeset_count(const struct nodeset *set);
const char *nodeset_at(const struct nodeset *set, size_t index);

bool nodeset_equal(const struct nodeset *a, const struct nodeset *b);

/* New sets, owned by the caller, in O(n): in either, only in a, in both. */
struct nodeset *nodeset_union(const struct nodeset *a, const struct nodeset *b);
struct nodeset *nodeset_minus(const struct nodeset *a, const struct nodeset *b);
struct nodeset *nodeset_intersect(const struct nodeset *a, const struct nodeset *b);

/*
 * What has to come and to go so that `from` becomes `to`.  Both results are
 * new sets, owned by the caller, and set only on success (0).  -1: ENOMEM.
 */
int nodeset_diff(const struct nodeset *from, const struct nodeset *to,
		 struct nodeset **gained, struct nodeset **lost);

/*
 * The natural order: runs of digits compare as numbers of any length, other
 * bytes as bytes.  Names that differ only in padding are different: more
 * zeros first.  0 for equal strings only.
 */
int nodeset_compare(const char *a, const char *b);

/* Make a list what a set would hold: in natural order, each name once. */
void nodeset_normalise(struct hostlist *list);

#endif
