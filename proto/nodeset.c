/*
 * nodeset.c - sorted sets of node names.
 *
 * Pool, plans, claims and backends all compare sets of nodes once a poll or
 * once a cycle, at sizes from one to ten thousand.  A sorted array of strings
 * fits that: membership is a binary search, the set operations are one merge
 * of two arrays, iteration is an index, and the order is the one people
 * expect to read.  Adding one name moves the names behind it (a memmove of
 * 80 kB at the worst for 10,000 names); whoever has many names at hand parses
 * an expression or unites sets, both of which sort or merge once.
 *
 * The order is natural: runs of digits compare by value, so n2 is before n10,
 * and that is also what lets a sorted set fold into few ranges.  Two names of
 * equal values differ in padding only; they are different nodes and the one
 * with more zeros comes first, which keeps 08, 09, 10 together in a set that
 * has both paddings.
 *
 * Each set owns its strings.  An operation builds its result aside and drops
 * it when memory runs out, so that no set is ever half changed.
 */
#include "proto/nodeset.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/err.h"
#include "proto/hostlist.h"

struct nodeset {
	char **names;
	size_t count;
	size_t room;
};

/* --- the order ------------------------------------------------------------ */

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/*
 * Compare the numbers at *a and *b by value and move behind them.  *padding
 * keeps the first difference in leading zeros, for names that are otherwise
 * equal.
 */
static int compare_numbers(const char **a, const char **b, int *padding)
{
	size_t zeros_a = strspn(*a, "0"), zeros_b = strspn(*b, "0");
	size_t len_a = strspn(*a + zeros_a, "0123456789");
	size_t len_b = strspn(*b + zeros_b, "0123456789");
	int order;

	if (len_a != len_b)
		return len_a < len_b ? -1 : 1;
	order = memcmp(*a + zeros_a, *b + zeros_b, len_a);
	if (order)
		return order;
	if (!*padding && zeros_a != zeros_b)
		*padding = zeros_a > zeros_b ? -1 : 1;
	*a += zeros_a + len_a;
	*b += zeros_b + len_b;
	return 0;
}

int nodeset_compare(const char *a, const char *b)
{
	int padding = 0;

	for (;;) {
		if (is_digit(*a) && is_digit(*b)) {
			int order = compare_numbers(&a, &b, &padding);

			if (order)
				return order;
		} else if (*a != *b) {
			return (unsigned char)*a < (unsigned char)*b ? -1 : 1;
		} else if (!*a) {
			return padding;
		} else {
			a++;
			b++;
		}
	}
}

static int compare_entries(const void *a, const void *b)
{
	return nodeset_compare(*(char *const *)a, *(char *const *)b);
}

/* Where name is, or would have to be put; *found says which. */
static size_t locate(const struct nodeset *set, const char *name, bool *found)
{
	size_t lo = 0, hi = nodeset_count(set);

	*found = false;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		int order = nodeset_compare(set->names[mid], name);

		if (!order) {
			*found = true;
			return mid;
		}
		if (order < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* --- life ----------------------------------------------------------------- */

struct nodeset *nodeset_create(void)
{
	return calloc(1, sizeof(struct nodeset));
}

void nodeset_destroy(struct nodeset *set)
{
	int saved = errno;

	if (!set)
		return;
	for (size_t i = 0; i < set->count; i++)
		free(set->names[i]);
	free(set->names);
	free(set);
	errno = saved;
}

/* An empty set with room for that many names. */
static struct nodeset *create_sized(size_t room)
{
	struct nodeset *set = nodeset_create();

	if (!set || !room)
		return set;
	set->names = calloc(room, sizeof(*set->names));
	if (!set->names) {
		nodeset_destroy(set);
		return NULL;
	}
	set->room = room;
	return set;
}

/* Put a copy behind the last name; there is room. */
static int append(struct nodeset *set, const char *name)
{
	char *copy = strdup(name);

	if (!copy)
		return -1;
	set->names[set->count++] = copy;
	return 0;
}

struct nodeset *nodeset_copy(const struct nodeset *set)
{
	return nodeset_union(set, NULL);
}

/* --- expressions ---------------------------------------------------------- */

void nodeset_normalise(struct hostlist *list)
{
	size_t kept = 0;

	if (list->count)
		qsort(list->names, list->count, sizeof(*list->names), compare_entries);
	for (size_t i = 0; i < list->count; i++) {
		if (kept && !strcmp(list->names[kept - 1], list->names[i]))
			free(list->names[i]);
		else
			list->names[kept++] = list->names[i];
	}
	list->count = kept;
}

struct nodeset *nodeset_parse(const char *expr, struct err *err)
{
	struct nodeset *set = nodeset_create();
	struct hostlist list;

	if (!set) {
		err_set(err, ENOMEM, "out of memory for a node set");
		return NULL;
	}
	hostlist_init(&list);
	if (hostlist_expand(&list, expr, HOSTLIST_MAX_NAMES, err)) {
		int saved = errno;

		hostlist_fini(&list);
		nodeset_destroy(set);
		errno = saved;
		return NULL;
	}
	nodeset_normalise(&list);
	/* The strings change hands: the list has nothing left to free. */
	set->names = list.names;
	set->count = list.count;
	set->room = list.room;
	return set;
}

char *nodeset_fold(const struct nodeset *set)
{
	return hostlist_compress(set ? (const char *const *)set->names : NULL,
				 nodeset_count(set), NULL);
}

/* --- one name ------------------------------------------------------------- */

int nodeset_add(struct nodeset *set, const char *name)
{
	bool found;
	size_t at;
	char *copy;

	if (!hostlist_name_ok(name)) {
		errno = EINVAL;
		return -1;
	}
	at = locate(set, name, &found);
	if (found)
		return 0;
	if (set->count == set->room) {
		size_t room = set->room ? 2 * set->room : 8;
		char **bigger = reallocarray(set->names, room, sizeof(*bigger));

		if (!bigger)
			return -1;
		set->names = bigger;
		set->room = room;
	}
	copy = strdup(name);
	if (!copy)
		return -1;
	memmove(set->names + at + 1, set->names + at,
		(set->count - at) * sizeof(*set->names));
	set->names[at] = copy;
	set->count++;
	return 1;
}

int nodeset_remove(struct nodeset *set, const char *name)
{
	bool found;
	size_t at = locate(set, name, &found);

	if (!found)
		return 0;
	free(set->names[at]);
	set->count--;
	memmove(set->names + at, set->names + at + 1,
		(set->count - at) * sizeof(*set->names));
	return 1;
}

bool nodeset_contains(const struct nodeset *set, const char *name)
{
	return nodeset_index(set, name) >= 0;
}

ssize_t nodeset_index(const struct nodeset *set, const char *name)
{
	bool found;
	size_t at = locate(set, name, &found);

	return found ? (ssize_t)at : -1;
}

size_t nodeset_count(const struct nodeset *set)
{
	return set ? set->count : 0;
}

const char *nodeset_at(const struct nodeset *set, size_t index)
{
	return index < nodeset_count(set) ? set->names[index] : NULL;
}

/* --- two sets ------------------------------------------------------------- */

/* Which of the three regions of two sets a result keeps. */
enum keep {
	KEEP_NONE = 0,
	KEEP_ONLY_A = 1,
	KEEP_BOTH = 2,
	KEEP_ONLY_B = 4,
};

static struct nodeset *merge(const struct nodeset *a, const struct nodeset *b,
			     unsigned int keep)
{
	size_t n_a = nodeset_count(a), n_b = nodeset_count(b), i = 0, k = 0;
	struct nodeset *set = create_sized(n_a + (keep & KEEP_ONLY_B ? n_b : 0));

	if (!set)
		return NULL;
	while (i < n_a || k < n_b) {
		int order = i == n_a ? 1 : k == n_b ? -1 :
			    nodeset_compare(a->names[i], b->names[k]);
		unsigned int region = order < 0 ? KEEP_ONLY_A :
				      order > 0 ? KEEP_ONLY_B : KEEP_BOTH;
		const char *name = order > 0 ? b->names[k] : a->names[i];

		if ((keep & region) && append(set, name)) {
			nodeset_destroy(set);
			return NULL;
		}
		i += order <= 0;
		k += order >= 0;
	}
	return set;
}

bool nodeset_equal(const struct nodeset *a, const struct nodeset *b)
{
	size_t count = nodeset_count(a);

	if (count != nodeset_count(b))
		return false;
	for (size_t i = 0; i < count; i++)
		if (strcmp(a->names[i], b->names[i]))
			return false;
	return true;
}

struct nodeset *nodeset_union(const struct nodeset *a, const struct nodeset *b)
{
	return merge(a, b, KEEP_ONLY_A | KEEP_BOTH | KEEP_ONLY_B);
}

struct nodeset *nodeset_minus(const struct nodeset *a, const struct nodeset *b)
{
	return merge(a, b, KEEP_ONLY_A);
}

struct nodeset *nodeset_intersect(const struct nodeset *a, const struct nodeset *b)
{
	return merge(a, b, KEEP_BOTH);
}

int nodeset_diff(const struct nodeset *from, const struct nodeset *to,
		 struct nodeset **gained, struct nodeset **lost)
{
	struct nodeset *come = nodeset_minus(to, from);
	struct nodeset *go = nodeset_minus(from, to);

	if (!come || !go) {
		nodeset_destroy(come);
		nodeset_destroy(go);
		return -1;
	}
	*gained = come;
	*lost = go;
	return 0;
}
