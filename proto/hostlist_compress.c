/*
 * hostlist_compress.c - writing lists of node names in Slurm's hostlist syntax.
 *
 * The inverse of expanding, for one group at the end of a name, by Slurm's own
 * rule: neighbours with the same text before their last digits share brackets,
 * and a name joins the range before it when its number is the next one and is
 * written with the padding of that range.  So 98, 99, 100 is one range, and so
 * is 098, 099, 100; but 9 and 010 are two, as are 2^64-1 and 0.
 *
 * Nothing is sorted and nothing dropped: expanding the result gives the same
 * names in the same order.  (A sorted set folds best; nodeset_fold() is that.)
 *
 * A number of more than 64 bits is text: such a name stands by itself.
 *
 * The text is never longer than the names with three bytes each (a comma and,
 * for the first of a group, two brackets: a range writes two of its names at
 * most, and a dash in place of a comma), so one allocation serves all of it.
 */
#include "proto/hostlist.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "proto/err.h"

/* A name seen as text and the number at its end. */
struct numbered {
	const char *name;
	const char *digits; /* the last digits; "" when there is no number */
	size_t text_len;
	size_t width;
	uint64_t number;
};

static struct numbered split(const char *name)
{
	size_t len = strlen(name), text_len = len;
	struct numbered part = {.name = name};

	while (text_len && name[text_len - 1] >= '0' && name[text_len - 1] <= '9')
		text_len--;
	for (size_t i = text_len; i < len; i++) {
		if (__builtin_mul_overflow(part.number, (uint64_t)10, &part.number) ||
		    __builtin_add_overflow(part.number, (uint64_t)(name[i] - '0'),
					   &part.number)) {
			text_len = len;
			break;
		}
	}
	part.digits = name + text_len;
	part.text_len = text_len;
	part.width = len - text_len;
	return part;
}

static bool same_group(const struct numbered *a, const struct numbered *b)
{
	return a->width && b->width && a->text_len == b->text_len &&
	       !memcmp(a->name, b->name, a->text_len);
}

/* Is `next` what a range from `lo` to `hi` would have made next? */
static bool follows(const struct numbered *lo, const struct numbered *hi,
		    const struct numbered *next)
{
	size_t natural = 1;

	if (hi->number == UINT64_MAX || next->number != hi->number + 1)
		return false;
	for (uint64_t n = next->number; n >= 10; n /= 10)
		natural++;
	return next->width == (natural > lo->width ? natural : lo->width);
}

static char *put(char *to, const char *bytes, size_t n)
{
	memcpy(to, bytes, n);
	return to + n;
}

/*
 * Write the ranges of the names from index i that share first's text, and the
 * closing bracket; *index moves behind the last of them.
 */
static char *put_ranges(char *to, const char *const *names, size_t count,
			size_t *index, struct numbered first)
{
	struct numbered lo = first;
	size_t i = *index;

	for (;;) {
		struct numbered hi = lo, next = {0};
		bool more = false;

		while (++i < count) {
			next = split(names[i]);
			more = same_group(&first, &next);
			if (!more || !follows(&lo, &hi, &next))
				break;
			hi = next;
			more = false;
		}
		to = put(to, lo.digits, lo.width);
		if (hi.name != lo.name) {
			*to++ = '-';
			to = put(to, hi.digits, hi.width);
		}
		if (!more)
			break;
		*to++ = ',';
		lo = next;
	}
	*to++ = ']';
	*index = i;
	return to;
}

static void put_all(char *to, const char *const *names, size_t count)
{
	for (size_t i = 0; i < count;) {
		struct numbered this = split(names[i]), next = {0};

		if (i)
			*to++ = ',';
		if (i + 1 < count)
			next = split(names[i + 1]);
		to = put(to, this.name, this.text_len);
		if (next.name && same_group(&this, &next)) {
			*to++ = '[';
			to = put_ranges(to, names, count, &i, this);
		} else {
			to = put(to, this.digits, this.width);
			i++;
		}
	}
	*to = '\0';
}

char *hostlist_compress(const char *const *names, size_t count, struct err *err)
{
	size_t bytes = 1;
	char *expr;

	for (size_t i = 0; i < count; i++) {
		if (!hostlist_name_ok(names[i])) {
			err_set(err, EINVAL, "name %zu of %zu is empty, too long or "
				"has a byte that no node name has", i + 1, count);
			return NULL;
		}
		bytes += strlen(names[i]) + 3;
	}
	expr = malloc(bytes);
	if (!expr) {
		err_set(err, ENOMEM, "out of memory for a host list");
		return NULL;
	}
	put_all(expr, names, count);
	return expr;
}
