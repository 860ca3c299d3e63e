/*
 * hostlist.c - reading lists of node names in Slurm's hostlist syntax.
 *
 * An expression is a row of items, separated by any run of commas and blanks.
 * An item is text with groups in it, `rack[0-1]n[01-16,20].site`; it stands
 * for one name per choice of a number from each group:
 *
 *	list	= [sep] [item *(sep item)] [sep]
 *	item	= *text group-or-text ...	at least one of either
 *	group	= "[" range *("," range) "]"	no blanks inside
 *	range	= number ["-" number]		0 to 2^64-1, not backwards
 *
 * Padding is the written width of a range's first number: 09-10 is 09, 10
 * and 001-12 is 001 to 012.  The order of the names is Slurm's own, which
 * people rely on when they hand out ranks: the last group turns fastest, and
 * of those before it the first one does, the second next, and so on.  (With
 * two groups that is plain counting; with three it is not.)
 *
 * An expression may come from a user or from a scheduler's answer, and a few
 * bytes can stand for 2^64 names.  So it is read twice: the first pass checks
 * all of it and adds up counts and lengths without making anything, the
 * second makes names.  A malformed or too large expression therefore never
 * leaves a partial list, and costs memory in proportion to its own text.
 *
 * Limits: steps (`1-9:2`) and Slurm's base-36 grids of several dimensions are
 * not hostlists of names and are refused as malformed.
 */
#include "proto/hostlist.h"

#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/err.h"

struct range {
	uint64_t lo, hi;
	size_t width; /* digits written for lo: the least width of all */
};

struct group {
	const char *text; /* the bytes in front of the bracket */
	size_t text_len;
	size_t first; /* index of its first range */
	size_t n_ranges;
	size_t range; /* the odometer: which range, */
	uint64_t number; /* and which number of it */
};

/* One item, taken apart; the arrays are kept from item to item. */
struct item {
	const char *start;
	struct range *ranges;
	size_t n_ranges, ranges_room;
	struct group *groups;
	size_t n_groups, groups_room;
	const char *tail; /* the bytes behind the last bracket */
	size_t tail_len;
	size_t count;   /* names it stands for; SIZE_MAX when more than that */
	size_t longest; /* bytes of its longest name */
};

struct scan {
	const char *start, *at;
	struct err *err;
};

/* --- small helpers -------------------------------------------------------- */

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_sep(char c)
{
	return c == ',' || c == ' ' || (c >= '\t' && c <= '\r');
}

static bool is_text(char c)
{
	unsigned char u = c;

	return u > ' ' && u != 0x7f && c != ',' && c != '[' && c != ']';
}

static size_t digits_of(uint64_t number)
{
	size_t n = 1;

	while (number >= 10) {
		number /= 10;
		n++;
	}
	return n;
}

static size_t add_capped(size_t a, size_t b)
{
	size_t sum;

	return __builtin_add_overflow(a, b, &sum) ? SIZE_MAX : sum;
}

static size_t mul_capped(size_t a, size_t b)
{
	size_t product;

	return __builtin_mul_overflow(a, b, &product) ? SIZE_MAX : product;
}

static int malformed(const struct scan *scan, const char *at, const char *why)
{
	return err_set(scan->err, EINVAL, "column %zu: %s",
		       (size_t)(at - scan->start) + 1, why);
}

static int no_memory(struct err *err)
{
	return err_set(err, ENOMEM, "out of memory for node names");
}

/* Make room for one element more; the array is as it was on failure. */
static int grow(void *array, size_t *room, size_t count, size_t each,
		struct err *err)
{
	void **base = array;
	size_t wanted;
	void *bigger;

	if (count < *room)
		return 0;
	wanted = *room ? *room * 2 : 8;
	bigger = reallocarray(*base, wanted, each);
	if (!bigger)
		return no_memory(err);
	*base = bigger;
	*room = wanted;
	return 0;
}

/* --- reading an item ------------------------------------------------------ */

static int read_number(struct scan *scan, uint64_t *number)
{
	const char *start = scan->at;
	uint64_t value = 0;

	if (!is_digit(*start))
		return malformed(scan, start, *start ? "a number is wanted here"
						     : "missing ]");
	for (; is_digit(*scan->at); scan->at++) {
		if (__builtin_mul_overflow(value, (uint64_t)10, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(*scan->at - '0'), &value))
			return malformed(scan, start, "number is over 2^64-1");
	}
	*number = value;
	return 0;
}

static int read_range(struct scan *scan, struct range *range)
{
	const char *lo = scan->at, *hi;

	if (read_number(scan, &range->lo))
		return -1;
	range->width = scan->at - lo;
	range->hi = range->lo;
	if (*scan->at != '-')
		return 0;
	hi = ++scan->at;
	if (read_number(scan, &range->hi))
		return -1;
	if (range->hi < range->lo)
		return malformed(scan, hi, "range runs backwards");
	return 0;
}

/* Names in a range, and the bytes of its longest number. */
static size_t range_count(const struct range *range)
{
	return add_capped(range->hi - range->lo, 1);
}

static size_t range_bytes(const struct range *range)
{
	size_t digits = digits_of(range->hi);

	return digits > range->width ? digits : range->width;
}

/* From behind the [ to behind the ]. */
static int read_ranges(struct scan *scan, struct item *item, struct group *group)
{
	size_t count = 0, longest = 0;

	if (*scan->at == ']')
		return malformed(scan, scan->at, "empty brackets");
	for (;;) {
		struct range range;

		if (read_range(scan, &range) ||
		    grow(&item->ranges, &item->ranges_room, item->n_ranges,
			 sizeof(range), scan->err))
			return -1;
		item->ranges[item->n_ranges++] = range;
		group->n_ranges++;
		count = add_capped(count, range_count(&range));
		if (range_bytes(&range) > longest)
			longest = range_bytes(&range);
		if (*scan->at == ']')
			break;
		if (!*scan->at)
			return malformed(scan, scan->at, "missing ]");
		if (*scan->at != ',')
			return malformed(scan, scan->at, "unexpected byte in brackets");
		scan->at++;
	}
	scan->at++;
	item->count = mul_capped(item->count, count);
	item->longest = add_capped(item->longest, longest);
	return 0;
}

static int read_item(struct scan *scan, struct item *item)
{
	item->start = scan->at;
	item->n_ranges = item->n_groups = 0;
	item->count = 1;
	item->longest = 0;
	for (;;) {
		const char *text = scan->at;
		struct group group = {.text = text, .first = item->n_ranges};

		while (is_text(*scan->at))
			scan->at++;
		group.text_len = scan->at - text;
		item->longest += group.text_len;
		if (*scan->at != '[') {
			item->tail = text;
			item->tail_len = group.text_len;
			break;
		}
		scan->at++;
		if (read_ranges(scan, item, &group) ||
		    grow(&item->groups, &item->groups_room, item->n_groups,
			 sizeof(group), scan->err))
			return -1;
		item->groups[item->n_groups++] = group;
	}
	if (*scan->at == ']')
		return malformed(scan, scan->at, "] without [");
	if (*scan->at && !is_sep(*scan->at))
		return malformed(scan, scan->at, "control character in a name");
	if (item->longest > HOSTLIST_NAME_BYTES)
		return malformed(scan, item->start, "name is over 255 bytes");
	return 0;
}

/* The next item: 1, or 0 at the end of the expression, or -1. */
static int next_item(struct scan *scan, struct item *item)
{
	while (is_sep(*scan->at))
		scan->at++;
	if (!*scan->at)
		return 0;
	return read_item(scan, item) ? -1 : 1;
}

/* --- making names --------------------------------------------------------- */

static void odometer_reset(struct item *item)
{
	for (size_t g = 0; g < item->n_groups; g++) {
		struct group *group = &item->groups[g];

		group->range = group->first;
		group->number = item->ranges[group->first].lo;
	}
}

/* To the group's next number; false when it is back at its first. */
static bool group_turn(const struct item *item, struct group *group)
{
	if (group->number < item->ranges[group->range].hi) {
		group->number++;
		return true;
	}
	group->range++;
	if (group->range < group->first + group->n_ranges) {
		group->number = item->ranges[group->range].lo;
		return true;
	}
	group->range = group->first;
	group->number = item->ranges[group->first].lo;
	return false;
}

/* The last group first, then the others from the left, as Slurm does. */
static void odometer_turn(struct item *item)
{
	size_t last = item->n_groups - 1;

	if (!item->n_groups || group_turn(item, &item->groups[last]))
		return;
	for (size_t g = 0; g < last; g++)
		if (group_turn(item, &item->groups[g]))
			return;
}

/* The name that the odometer shows. */
static char *make_name(const struct item *item)
{
	char buf[HOSTLIST_NAME_BYTES + 1];
	size_t n = 0;

	for (size_t g = 0; g < item->n_groups; g++) {
		const struct group *group = &item->groups[g];

		memcpy(buf + n, group->text, group->text_len);
		n += group->text_len;
		n += snprintf(buf + n, sizeof(buf) - n, "%0*" PRIu64,
			      (int)item->ranges[group->range].width, group->number);
	}
	memcpy(buf + n, item->tail, item->tail_len);
	return strndup(buf, n + item->tail_len);
}

static int append_item(struct hostlist *list, struct item *item)
{
	odometer_reset(item);
	for (size_t i = 0; i < item->count; i++) {
		char *name = make_name(item);

		if (!name)
			return -1;
		list->names[list->count++] = name;
		odometer_turn(item);
	}
	return 0;
}

/* Pass one: check everything, and count the names beside `there` others. */
static int measure(const char *expr, struct item *item, size_t there,
		   size_t max_names, size_t *total, struct err *err)
{
	struct scan scan = {.start = expr, .at = expr, .err = err};
	size_t sum = there;
	int more;

	while ((more = next_item(&scan, item)) > 0) {
		sum = add_capped(sum, item->count);
		if (sum > max_names)
			return err_set(err, E2BIG,
				       "column %zu: more than %zu names in all",
				       (size_t)(item->start - expr) + 1, max_names);
	}
	*total = sum - there;
	return more;
}

/* Pass two, into room that is there. */
static int fill(struct hostlist *list, const char *expr, struct item *item,
		struct err *err)
{
	struct scan scan = {.start = expr, .at = expr, .err = err};
	size_t old = list->count;
	int more;

	while ((more = next_item(&scan, item)) > 0)
		if (append_item(list, item))
			break;
	if (more == 0)
		return 0;
	while (list->count > old)
		free(list->names[--list->count]);
	return no_memory(err);
}

static int reserve(struct hostlist *list, size_t more, struct err *err)
{
	size_t wanted = list->count + more;
	char **bigger;

	if (wanted <= list->room)
		return 0;
	if (wanted < 2 * list->room)
		wanted = 2 * list->room;
	bigger = reallocarray(list->names, wanted, sizeof(*bigger));
	if (!bigger)
		return no_memory(err);
	list->names = bigger;
	list->room = wanted;
	return 0;
}

int hostlist_expand(struct hostlist *list, const char *expr, size_t max_names,
		    struct err *err)
{
	struct item item = {0};
	size_t total = 0;
	int rc = -1;

	if (!expr)
		return 0;
	if (!max_names)
		max_names = HOSTLIST_MAX_NAMES;
	if (!measure(expr, &item, list->count, max_names, &total, err) &&
	    !reserve(list, total, err) && !fill(list, expr, &item, err))
		rc = 0;
	free(item.ranges);
	free(item.groups);
	return rc;
}

void hostlist_init(struct hostlist *list)
{
	*list = (struct hostlist){0};
}

void hostlist_fini(struct hostlist *list)
{
	for (size_t i = 0; i < list->count; i++)
		free(list->names[i]);
	free(list->names);
	hostlist_init(list);
}

bool hostlist_name_ok(const char *name)
{
	size_t n = 0;

	while (n <= HOSTLIST_NAME_BYTES && is_text(name[n]))
		n++;
	return n > 0 && n <= HOSTLIST_NAME_BYTES && !name[n];
}
