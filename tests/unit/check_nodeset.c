/*
 * check_nodeset.c - host lists and sets of node names.
 *
 * The tables are what Slurm's own tools answer, or follow from the syntax by
 * counting on paper; the set operations are held against a naive model on
 * random sets, and the captured answers of `scontrol show hostnames` and
 * `show hostlist` are run where they are at hand.
 */
#include <check.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "proto/err.h"
#include "proto/hostlist.h"
#include "proto/nodeset.h"
#include "tests/unit/failing_malloc.h"

/* The names of a list with blanks between them, or NULL.  Free it. */
static char *joined(const char *const *names, size_t count)
{
	size_t bytes = 1;
	char *text, *to;

	for (size_t i = 0; i < count; i++)
		bytes += strlen(names[i]) + 1;
	text = to = calloc(1, bytes);
	for (size_t i = 0; text && i < count; i++)
		to += sprintf(to, "%s%s", i ? " " : "", names[i]);
	return text;
}

static char *joined_list(const struct hostlist *list)
{
	return joined((const char *const *)list->names, list->count);
}

/* --- expanding ------------------------------------------------------------ */

static const struct {
	const char *expr, *names;
} good[] = {
	{ "", "" },
	{ " ,\t,\n ", "" },
	{ "login", "login" },
	{ "a,b", "a b" },
	{ ",a,, b\t\tc ,", "a b c" },
	{ "b,a,b", "b a b" },
	/* numbers and padding */
	{ "n[5]", "n5" },
	{ "n[8-11]", "n8 n9 n10 n11" },
	{ "n[08-11]", "n08 n09 n10 n11" },
	{ "n[98-101]", "n98 n99 n100 n101" },
	{ "n[098-101]", "n098 n099 n100 n101" },
	{ "n[9-010]", "n9 n10" },
	{ "n[00-01]", "n00 n01" },
	{ "n[000]", "n000" },
	{ "n[3,1,2,1]", "n3 n1 n2 n1" },
	{ "n[1-3,2-4]", "n1 n2 n3 n2 n3 n4" },
	{ "n[18446744073709551614-18446744073709551615]",
	  "n18446744073709551614 n18446744073709551615" },
	{ "n[00018446744073709551615]", "n00018446744073709551615" },
	/* text around groups */
	{ "[7-9]", "7 8 9" },
	{ "[1-2]x", "1x 2x" },
	{ "n[1-2]-ib0", "n1-ib0 n2-ib0" },
	{ "n[1-2].rack[03-04].site", "n1.rack03.site n1.rack04.site "
				     "n2.rack03.site n2.rack04.site" },
	{ "dgx8-[0-1]", "dgx8-0 dgx8-1" },
	{ "192.168.1.[9-10]", "192.168.1.9 192.168.1.10" },
	{ "n%s$x{1}", "n%s$x{1}" },
	{ "kn\xc3\xb6ten[1-2]", "kn\xc3\xb6ten1 kn\xc3\xb6ten2" },
	/* commas nested */
	{ "a,n[1,3],c", "a n1 n3 c" },
	{ "a[1,2],b[3,4-5] c", "a1 a2 b3 b4 b5 c" },
	/* groups multiply: the last fastest, then those before it from the left */
	{ "r[0-1]n[0-1]", "r0n0 r0n1 r1n0 r1n1" },
	{ "[0-1][0-2]", "00 01 02 10 11 12" },
	{ "a[1-2]b[3-4]c[5-6]", "a1b3c5 a1b3c6 a2b3c5 a2b3c6 "
				"a1b4c5 a1b4c6 a2b4c5 a2b4c6" },
	{ "[0-1][0-1][0-1][0-1]", "0000 0001 1000 1001 0100 0101 1100 1101 "
				  "0010 0011 1010 1011 0110 0111 1110 1111" },
	{ "r[0,2]n[08-09,1]", "r0n08 r0n09 r0n1 r2n08 r2n09 r2n1" },
};

START_TEST(an_expression_expands_to_its_names_in_order)
{
	struct hostlist list;
	struct err err;
	char *names;

	hostlist_init(&list);
	ck_assert_int_eq(hostlist_expand(&list, good[_i].expr, 0, &err), 0);
	names = joined_list(&list);
	ck_assert_str_eq(names, good[_i].names);
	free(names);
	hostlist_fini(&list);
}
END_TEST

static const struct {
	const char *expr;
	int errnum;
	const char *text;
} bad[] = {
	{ "node[01", EINVAL, "column 8: missing ]" },
	{ "node[", EINVAL, "column 6: missing ]" },
	{ "node[1-", EINVAL, "column 8: missing ]" },
	{ "node[1,", EINVAL, "column 8: missing ]" },
	{ "ok[1-2],node[1-2", EINVAL, "column 17: missing ]" },
	{ "node[]", EINVAL, "column 6: empty brackets" },
	{ "node[01,]", EINVAL, "column 9: a number is wanted here" },
	{ "node[,1]", EINVAL, "column 6: a number is wanted here" },
	{ "node[-1]", EINVAL, "column 6: a number is wanted here" },
	{ "node[1-]", EINVAL, "column 8: a number is wanted here" },
	{ "node[a]", EINVAL, "column 6: a number is wanted here" },
	{ "node[[1]]", EINVAL, "column 6: a number is wanted here" },
	{ "node[ 1]", EINVAL, "column 6: a number is wanted here" },
	{ "node[+1]", EINVAL, "column 6: a number is wanted here" },
	{ "node[1 ]", EINVAL, "column 7: unexpected byte in brackets" },
	{ "node[1-2-3]", EINVAL, "column 9: unexpected byte in brackets" },
	{ "node[1-9:2]", EINVAL, "column 9: unexpected byte in brackets" },
	{ "node[1-a]", EINVAL, "column 8: a number is wanted here" },
	{ "node[0x1]", EINVAL, "column 7: unexpected byte in brackets" },
	{ "node[3-1]", EINVAL, "column 8: range runs backwards" },
	{ "a,node]", EINVAL, "column 7: ] without [" },
	{ "node[1]]", EINVAL, "column 8: ] without [" },
	{ "]", EINVAL, "column 1: ] without [" },
	{ "a\x01", EINVAL, "column 2: control character in a name" },
	{ "a \x7f", EINVAL, "column 3: control character in a name" },
	{ "n[18446744073709551616]", EINVAL, "column 3: number is over 2^64-1" },
	{ "n[1-99999999999999999999]", EINVAL, "column 5: number is over 2^64-1" },
	/* too much, found before a name is made */
	{ "n[1-65537]", E2BIG, "column 1: more than 65536 names in all" },
	{ "n[1-65536],x", E2BIG, "column 12: more than 65536 names in all" },
	{ "n[0-18446744073709551615]", E2BIG, "column 1: more than 65536 names in all" },
	{ "[0-18446744073709551615][0-18446744073709551615]", E2BIG,
	  "column 1: more than 65536 names in all" },
	{ "[0-18446744073709551615,0-18446744073709551615]", E2BIG,
	  "column 1: more than 65536 names in all" },
	/* 2^32 times 2^32, and 2^64 names in two ranges, are 0 in 64 bits */
	{ "[0-4294967295][0-4294967295]", E2BIG,
	  "column 1: more than 65536 names in all" },
	{ "[0-9223372036854775807,0-9223372036854775807]", E2BIG,
	  "column 1: more than 65536 names in all" },
	/* a fault behind the excess is not reached, one before it is */
	{ "n[], n[1-65537]", EINVAL, "column 3: empty brackets" },
};

START_TEST(a_bad_expression_is_refused_with_its_column)
{
	struct hostlist list;
	struct err err;

	hostlist_init(&list);
	errno = 0;
	ck_assert_int_eq(hostlist_expand(&list, bad[_i].expr, 0, &err), -1);
	ck_assert_int_eq(errno, bad[_i].errnum);
	ck_assert_str_eq(err.text, bad[_i].text);
	ck_assert_uint_eq(list.count, 0);
	hostlist_fini(&list);
}
END_TEST

START_TEST(a_bad_expression_leaves_the_list_as_it_was)
{
	struct hostlist list;
	char *names;

	hostlist_init(&list);
	ck_assert_int_eq(hostlist_expand(&list, "b,a", 0, NULL), 0);
	ck_assert_int_eq(hostlist_expand(&list, bad[_i].expr, 0, NULL), -1);
	names = joined_list(&list);
	ck_assert_str_eq(names, "b a");
	free(names);
	hostlist_fini(&list);
}
END_TEST

START_TEST(the_bound_counts_the_whole_list)
{
	struct hostlist list;
	struct err err;

	hostlist_init(&list);
	ck_assert_int_eq(hostlist_expand(&list, "n[1-3]", 5, &err), 0);
	ck_assert_int_eq(hostlist_expand(&list, "a,b,c", 5, &err), -1);
	ck_assert_str_eq(err.text, "column 5: more than 5 names in all");
	ck_assert_int_eq(hostlist_expand(&list, "a,b", 5, &err), 0);
	ck_assert_int_eq(hostlist_expand(&list, "", 2, &err), 0);
	ck_assert_uint_eq(list.count, 5);
	ck_assert_int_eq(hostlist_expand(&list, NULL, 5, &err), 0);
	hostlist_fini(&list);
	ck_assert_int_eq(hostlist_expand(&list, "n[1-65536]", 0, &err), 0);
	ck_assert_uint_eq(list.count, 65536);
	ck_assert_str_eq(list.names[65535], "n65536");
	hostlist_fini(&list);
}
END_TEST

START_TEST(a_name_has_at_most_255_bytes)
{
	char expr[300], name[257];
	struct hostlist list;
	struct err err;

	hostlist_init(&list);
	memset(name, 'x', sizeof(name));
	name[255] = '\0';
	ck_assert_int_eq(hostlist_expand(&list, name, 0, &err), 0);
	name[255] = 'x';
	name[256] = '\0';
	ck_assert_int_eq(hostlist_expand(&list, name, 0, &err), -1);
	ck_assert_str_eq(err.text, "column 1: name is over 255 bytes");

	/* 253 bytes and the longest number of a group, which is two digits */
	name[253] = '\0';
	snprintf(expr, sizeof(expr), "a,%s[8-99]", name);
	ck_assert_int_eq(hostlist_expand(&list, expr, 0, &err), 0);
	snprintf(expr, sizeof(expr), "a,%s[8-100]", name);
	ck_assert_int_eq(hostlist_expand(&list, expr, 0, &err), -1);
	ck_assert_str_eq(err.text, "column 3: name is over 255 bytes");
	snprintf(expr, sizeof(expr), "a,%s[001]", name);
	ck_assert_int_eq(hostlist_expand(&list, expr, 0, &err), -1);
	ck_assert_uint_eq(list.count, 1 + 1 + 92);
	hostlist_fini(&list);
}
END_TEST

static const struct {
	const char *name;
	bool ok;
} names_to_judge[] = {
	{ "n1", true }, { "192.168.0.1", true }, { "a-b_c%", true },
	{ "kn\xc3\xb6ten", true }, { "", false }, { "a,b", false },
	{ "a b", false }, { "n[1]", false }, { "n]", false }, { "a\tb", false },
	{ "a\n", false }, { "\x01", false }, { "a\x7f", false },
};

START_TEST(a_name_is_text_without_separators)
{
	ck_assert_int_eq(hostlist_name_ok(names_to_judge[_i].name),
			 names_to_judge[_i].ok);
}
END_TEST

/* --- compressing ---------------------------------------------------------- */

static const struct {
	const char *names, *expr;
} folded[] = {
	{ "", "" },
	{ "login", "login" },
	{ "n7", "n7" },
	{ "b a", "b,a" },
	{ "n1 n2 n3", "n[1-3]" },
	{ "n1 n2 n4", "n[1-2,4]" },
	{ "n3 n2 n1", "n[3,2,1]" },
	{ "n1 n1", "n[1,1]" },
	{ "n1 n1 n2 n2 n3", "n[1,1-2,2-3]" },
	{ "a a b", "a,a,b" },
	{ "n8 n9 n10 n11", "n[8-11]" },
	{ "n08 n09 n10 n11", "n[08-11]" },
	{ "n99 n100", "n[99-100]" },
	{ "n099 n100", "n[099-100]" },
	{ "n9 n010", "n[9,010]" },
	{ "n09 n010", "n[09,010]" },
	{ "n9 n10 n011", "n[9-10,011]" },
	{ "n00 n01 n1 n2", "n[00-01,1-2]" },
	{ "n0 n00 n000", "n[0,00,000]" },
	{ "1 2 3", "[1-3]" },
	{ "1 x 2", "1,x,2" },
	{ "r1n1 r1n2 r2n1 r2n2", "r1n[1-2],r2n[1-2]" },
	{ "n1.x n2.x", "n1.x,n2.x" },
	{ "n n1 n2 n", "n,n[1-2],n" },
	{ "na1 nab2 n3 n4", "na1,nab2,n[3-4]" },
	{ "n18446744073709551614 n18446744073709551615 n0",
	  "n[18446744073709551614-18446744073709551615,0]" },
	/* the number after the last one is not 0 */
	{ "n18446744073709551615 n00000000000000000000",
	  "n[18446744073709551615,00000000000000000000]" },
	{ "n18446744073709551616 n18446744073709551617",
	  "n18446744073709551616,n18446744073709551617" },
	{ "n1 n99999999999999999999 n2", "n1,n99999999999999999999,n2" },
};

START_TEST(names_compress_to_an_expression_that_keeps_order_and_duplicates)
{
	struct hostlist list, back;
	struct err err;
	char *expr, *names;

	hostlist_init(&list);
	hostlist_init(&back);
	ck_assert_int_eq(hostlist_expand(&list, folded[_i].names, 0, &err), 0);
	expr = hostlist_compress((const char *const *)list.names, list.count, &err);
	ck_assert_str_eq(expr, folded[_i].expr);
	ck_assert_int_eq(hostlist_expand(&back, expr, 0, &err), 0);
	names = joined_list(&back);
	ck_assert_str_eq(names, folded[_i].names);
	free(names);
	free(expr);
	hostlist_fini(&list);
	hostlist_fini(&back);
}
END_TEST

START_TEST(what_is_no_name_is_not_compressed)
{
	const char *const names[] = { "n1", "n[2" };
	struct err err;

	errno = 0;
	ck_assert_ptr_null(hostlist_compress(names, 2, &err));
	ck_assert_int_eq(errno, EINVAL);
	ck_assert_str_eq(err.text, "name 2 of 2 is empty, too long or has a byte that "
				   "no node name has");
}
END_TEST

/* A small generator of its own, so that a failure can be repeated. */
static unsigned int seed;

static unsigned int draw(unsigned int below)
{
	seed = seed * 1664525u + 1013904223u;
	return (seed >> 8) % below;
}

static void random_name(char *name, size_t size)
{
	static const char *const prefixes[] = { "n", "n0", "", "rack1n", "x-", "9" };

	snprintf(name, size, "%s%0*u", prefixes[draw(6)], (int)draw(4), draw(30));
	if (!draw(12))
		strcat(name, ".site");
}

START_TEST(compressed_random_lists_expand_to_themselves)
{
	seed = 20211104;
	for (int round = 0; round < 3000; round++) {
		char names[40][32];
		const char *list[40];
		struct hostlist back;
		size_t count = draw(41);
		char *expr, *a, *b;

		for (size_t i = 0; i < count; i++) {
			random_name(names[i], sizeof(names[i]));
			list[i] = names[i];
		}
		expr = hostlist_compress(list, count, NULL);
		hostlist_init(&back);
		ck_assert_int_eq(hostlist_expand(&back, expr, 0, NULL), 0);
		a = joined(list, count);
		b = joined_list(&back);
		ck_assert_str_eq(a, b);
		free(a);
		free(b);
		free(expr);
		hostlist_fini(&back);
	}
}
END_TEST

/* --- the order ------------------------------------------------------------ */

/* Each name is before all names to its right. */
static const char *const ordered[] = {
	"-", "000", "00", "0", "00a", "0a", "1", "2", "010", "10", "99999999999999999999",
	"100000000000000000000", "A", "a", "a-1", "a0", "a1", "a01b2", "a1b2", "a1b10",
	"a01c", "a2b1", "n9", "n10", "n10.x", "n10x", "n100", "n\xc3\xb6",
};

START_TEST(the_order_is_natural_and_total)
{
	size_t n = sizeof(ordered) / sizeof(*ordered);

	for (size_t i = 0; i < n; i++) {
		for (size_t k = 0; k < n; k++) {
			int order = nodeset_compare(ordered[i], ordered[k]);

			ck_assert_msg((i < k && order < 0) || (i > k && order > 0) ||
				      (i == k && !order), "%s and %s: %d", ordered[i],
				      ordered[k], order);
		}
	}
}
END_TEST

/* --- sets ----------------------------------------------------------------- */

static struct nodeset *set_of(const char *expr)
{
	struct err err = { "" };
	struct nodeset *set = nodeset_parse(expr, &err);

	ck_assert_msg(set != NULL, "%s: %s", expr, err.text);
	return set;
}

/* Check what a set folds to, and let it go. */
static void check_take(struct nodeset *set, const char *expr)
{
	char *text = nodeset_fold(set);

	ck_assert_ptr_nonnull(set);
	ck_assert_str_eq(text, expr);
	free(text);
	nodeset_destroy(set);
}

static const struct {
	const char *expr, *fold;
	size_t count;
} sets[] = {
	{ "", "", 0 },
	{ "n10,n9,n9,n11", "n[9-11]", 3 },
	{ "b[2,1],a", "a,b[1-2]", 3 },
	{ "r[0-1]n[0-1]", "r0n[0-1],r1n[0-1]", 4 },
	{ "n[1-3],n[2-5]", "n[1-5]", 5 },
	{ "n[1-2,01-02]", "n[01,1,02,2]", 4 },
	{ "x,n3.s,n1", "n1,n3.s,x", 3 },
};

START_TEST(a_set_is_sorted_has_each_name_once_and_folds)
{
	struct nodeset *set = set_of(sets[_i].expr);

	ck_assert_uint_eq(nodeset_count(set), sets[_i].count);
	for (size_t i = 0; i < nodeset_count(set); i++) {
		const char *name = nodeset_at(set, i);

		ck_assert_int_eq(nodeset_index(set, name), i);
		ck_assert(nodeset_contains(set, name));
		if (i)
			ck_assert_int_lt(nodeset_compare(nodeset_at(set, i - 1), name), 0);
	}
	ck_assert_ptr_null(nodeset_at(set, nodeset_count(set)));
	check_take(set, sets[_i].fold);
}
END_TEST

START_TEST(a_set_of_a_bad_expression_is_null_with_its_column)
{
	struct err err;

	errno = 0;
	ck_assert_ptr_null(nodeset_parse("n[1-3],m[4", &err));
	ck_assert_int_eq(errno, EINVAL);
	ck_assert_str_eq(err.text, "column 11: missing ]");
	ck_assert_ptr_null(nodeset_parse("n[0-18446744073709551615]", NULL));
	ck_assert_int_eq(errno, E2BIG);
}
END_TEST

START_TEST(names_come_and_go_one_by_one)
{
	struct nodeset *set = nodeset_create();

	ck_assert_int_eq(nodeset_add(set, "n10"), 1);
	ck_assert_int_eq(nodeset_add(set, "n9"), 1);
	ck_assert_int_eq(nodeset_add(set, "n10"), 0);
	ck_assert_int_eq(nodeset_add(set, "n09"), 1);
	ck_assert_str_eq(nodeset_at(set, 0), "n09");
	ck_assert_str_eq(nodeset_at(set, 2), "n10");
	ck_assert_int_eq(nodeset_remove(set, "n9"), 1);
	ck_assert_int_eq(nodeset_remove(set, "n9"), 0);
	ck_assert(!nodeset_contains(set, "n9"));
	ck_assert_int_eq(nodeset_index(set, "n9"), -1);
	ck_assert_int_eq(nodeset_add(set, "n[1-2]"), -1);
	ck_assert_int_eq(errno, EINVAL);
	ck_assert_int_eq(nodeset_add(set, ""), -1);
	check_take(set, "n[09-10]");
}
END_TEST

START_TEST(null_is_the_empty_set)
{
	struct nodeset *set = set_of("n1"), *empty = nodeset_create();

	nodeset_destroy(NULL);
	ck_assert_uint_eq(nodeset_count(NULL), 0);
	ck_assert_ptr_null(nodeset_at(NULL, 0));
	ck_assert(!nodeset_contains(NULL, "n1"));
	ck_assert(nodeset_equal(NULL, empty));
	ck_assert(nodeset_equal(NULL, NULL));
	ck_assert(!nodeset_equal(set, NULL));
	check_take(nodeset_copy(NULL), "");
	check_take(nodeset_union(NULL, set), "n1");
	check_take(nodeset_minus(set, NULL), "n1");
	check_take(nodeset_minus(NULL, set), "");
	check_take(nodeset_intersect(set, NULL), "");
	check_take(set_of(NULL), "");
	nodeset_destroy(set);
	nodeset_destroy(empty);
}
END_TEST

static const struct {
	const char *a, *b, *either, *only_a, *only_b, *both;
} pairs[] = {
	{ "", "", "", "", "", "" },
	{ "n[1-4]", "", "n[1-4]", "n[1-4]", "", "" },
	{ "n[1-4]", "n[1-4]", "n[1-4]", "", "", "n[1-4]" },
	{ "n[1-4]", "n[3-6]", "n[1-6]", "n[1-2]", "n[5-6]", "n[3-4]" },
	{ "a,c", "b,d", "a,b,c,d", "a,c", "b,d", "" },
	{ "n[1-2]", "n[01-02]", "n[01,1,02,2]", "n[1-2]", "n[01-02]", "" },
	{ "n[8-12]", "n[9,11]", "n[8-12]", "n[8,10,12]", "", "n[9,11]" },
};

START_TEST(two_sets_unite_subtract_and_intersect)
{
	struct nodeset *a = set_of(pairs[_i].a), *b = set_of(pairs[_i].b);
	struct nodeset *gained, *lost, *copy = nodeset_copy(a);

	check_take(nodeset_union(a, b), pairs[_i].either);
	check_take(nodeset_union(b, a), pairs[_i].either);
	check_take(nodeset_minus(a, b), pairs[_i].only_a);
	check_take(nodeset_intersect(a, b), pairs[_i].both);
	check_take(nodeset_intersect(b, a), pairs[_i].both);
	ck_assert_int_eq(nodeset_diff(a, b, &gained, &lost), 0);
	check_take(gained, pairs[_i].only_b);
	check_take(lost, pairs[_i].only_a);
	ck_assert(nodeset_equal(a, copy));
	ck_assert_int_eq(nodeset_equal(a, b), !strcmp(pairs[_i].a, pairs[_i].b));
	nodeset_destroy(a);
	nodeset_destroy(b);
	nodeset_destroy(copy);
}
END_TEST

/* The model: one bit for each of 24 names. */
static struct nodeset *set_of_bits(unsigned int bits)
{
	struct nodeset *set = nodeset_create();
	char name[16];

	/* in an order that is not the sorted one */
	for (unsigned int i = 0; i < 24; i++) {
		unsigned int bit = i * 7 % 24;

		snprintf(name, sizeof(name), bit % 2 ? "n%u" : "n%03u", bit);
		if (bits >> bit & 1)
			ck_assert_int_eq(nodeset_add(set, name), 1);
	}
	return set;
}

static void check_bits_take(struct nodeset *set, unsigned int bits)
{
	struct nodeset *want = set_of_bits(bits);

	ck_assert(nodeset_equal(set, want));
	nodeset_destroy(set);
	nodeset_destroy(want);
}

START_TEST(random_sets_agree_with_bits)
{
	seed = 7;
	for (int round = 0; round < 2000; round++) {
		unsigned int x = draw(1 << 24), y = draw(1 << 24);
		struct nodeset *a = set_of_bits(x), *b = set_of_bits(y), *back;
		char *text = nodeset_fold(a);

		check_bits_take(nodeset_union(a, b), x | y);
		check_bits_take(nodeset_minus(a, b), x & ~y);
		check_bits_take(nodeset_intersect(a, b), x & y);
		ck_assert_uint_eq(nodeset_count(a), __builtin_popcount(x));
		back = set_of(text);
		ck_assert(nodeset_equal(a, back));
		for (size_t i = nodeset_count(back); i-- > 0;)
			if (draw(2))
				nodeset_remove(back, nodeset_at(back, i));
		check_take(nodeset_minus(back, a), "");
		nodeset_destroy(back);
		nodeset_destroy(a);
		nodeset_destroy(b);
		free(text);
	}
}
END_TEST

static double cpu_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return ts.tv_sec + ts.tv_nsec / 1e9;
}

/* Milliseconds in practice; the bound only notices a wrong order of growth. */
START_TEST(ten_thousand_names_are_quick)
{
	struct nodeset *all = set_of("n[00001-10000]"), *odd = nodeset_create();
	double start_s = cpu_s();
	char name[16];

	for (int i = 9999; i > 0; i -= 2) {
		snprintf(name, sizeof(name), "n%05d", i);
		ck_assert_int_eq(nodeset_add(odd, name), 1);
	}
	for (int i = 0; i < 100; i++) {
		struct nodeset *even = nodeset_minus(all, odd);

		ck_assert_uint_eq(nodeset_count(even), 5000);
		nodeset_destroy(even);
	}
	ck_assert_double_lt(cpu_s() - start_s, 5.0);
	check_take(all, "n[00001-10000]");
	nodeset_destroy(odd);
}
END_TEST

/* --- memory --------------------------------------------------------------- */

START_TEST(expanding_survives_the_failure_of_each_allocation)
{
	for (long n = 1, failed = 1; failed; n++) {
		struct hostlist list;
		struct err err;
		int rc;

		hostlist_init(&list);
		ck_assert_int_eq(hostlist_expand(&list, "a", 0, &err), 0);
		failing_malloc_arm(n);
		rc = hostlist_expand(&list, "b,r[1-9,1-9,1-9,1-9,1-9]n[1-2].x,c", 0, &err);
		failed = failing_malloc_disarm();
		ck_assert_int_eq(rc, failed ? -1 : 0);
		if (failed)
			ck_assert_int_eq(errno, ENOMEM);
		ck_assert_uint_eq(list.count, failed ? 1 : 93);
		ck_assert(!failed || !strcmp(err.text, "out of memory for node names"));
		hostlist_fini(&list);
		ck_assert_int_lt(n, 1000);
	}
}
END_TEST

START_TEST(compressing_survives_the_failure_of_each_allocation)
{
	const char *const names[] = { "n1", "n2", "x" };

	for (long n = 1, failed = 1; failed; n++) {
		char *expr;

		failing_malloc_arm(n);
		errno = 0;
		expr = hostlist_compress(names, 3, NULL);
		failed = failing_malloc_disarm();
		ck_assert_int_eq(!expr, failed);
		ck_assert_int_eq(errno, failed ? ENOMEM : 0);
		free(expr);
	}
}
END_TEST

/* One line of what every operation made of n[1-9] and n[5-12], or NULL. */
static char *operate(const struct nodeset *a, const struct nodeset *b)
{
	struct nodeset *either = nodeset_union(a, b), *both = nodeset_intersect(a, b);
	struct nodeset *copy = nodeset_copy(a), *gained = NULL, *lost = NULL;
	char *text[4] = { NULL }, *line = NULL;

	if (!nodeset_diff(a, b, &gained, &lost) && either && both && copy &&
	    nodeset_add(copy, "n10") == 1 && nodeset_add(copy, "m") == 1) {
		text[0] = nodeset_fold(either);
		text[1] = nodeset_fold(both);
		text[2] = nodeset_fold(copy);
		text[3] = nodeset_fold(lost);
		if (text[0] && text[1] && text[2] && text[3])
			line = joined((const char *const *)text, 4);
	}
	for (int i = 0; i < 4; i++)
		free(text[i]);
	nodeset_destroy(either);
	nodeset_destroy(both);
	nodeset_destroy(copy);
	nodeset_destroy(gained);
	nodeset_destroy(lost);
	return line;
}

START_TEST(sets_survive_the_failure_of_each_allocation)
{
	struct nodeset *a = set_of("n[1-9]"), *b = set_of("n[5-12]");

	for (long n = 1, failed = 1; failed; n++) {
		char *line;

		failing_malloc_arm(n);
		line = operate(a, b);
		failed = failing_malloc_disarm();
		ck_assert_int_eq(!line, failed);
		if (!failed)
			ck_assert_str_eq(line, "n[1-12] n[5-9] m,n[1-10] n[1-4]");
		free(line);
		ck_assert_int_lt(n, 1000);
	}
	check_take(a, "n[1-9]");
	check_take(b, "n[5-12]");
}
END_TEST

/* qsort() may ask for memory and do without it: then the set is right. */
START_TEST(parsing_and_adding_survive_the_failure_of_each_allocation)
{
	for (long n = 1, failed = 1; failed; n++) {
		struct nodeset *set;
		struct err err;
		int rc = 0;

		failing_malloc_arm(n);
		set = nodeset_parse("n[9,1-8]", &err);
		for (int i = 0; set && i < 20 && rc >= 0; i++) {
			char name[16];

			snprintf(name, sizeof(name), "x%02d", i);
			rc = nodeset_add(set, name);
		}
		failed = failing_malloc_disarm();
		ck_assert(failed || (set && rc == 1));
		if (rc < 0)
			ck_assert_int_eq(errno, ENOMEM);
		if (set) {
			for (size_t i = 1; i < nodeset_count(set); i++)
				ck_assert_int_lt(nodeset_compare(nodeset_at(set, i - 1),
								 nodeset_at(set, i)), 0);
			ck_assert(nodeset_contains(set, "n9"));
		}
		nodeset_destroy(set);
		ck_assert_int_lt(n, 1000);
	}
}
END_TEST

/* --- captured answers ----------------------------------------------------- */

/* The cases of a file, or NULL after saying that the test is skipped. */
static json_t *load_cases(const char *file)
{
	const char *dir = getenv("MALLE_DATA");
	char path[4096];
	json_error_t why;
	json_t *root;

	snprintf(path, sizeof(path), "%s/hostlist/%s", dir ? dir : "../shared/data", file);
	if (access(path, R_OK)) {
		printf("skip: %s: %s\n", path, strerror(errno));
		return NULL;
	}
	root = json_load_file(path, 0, &why);
	ck_assert_msg(root != NULL, "%s:%d: %s", path, why.line, why.text);
	ck_assert_uint_gt(json_array_size(json_object_get(root, "cases")), 0);
	return root;
}

/* "a b c" of an array of strings. */
static char *joined_json(const json_t *array)
{
	size_t count = json_array_size(array);
	const char **names = calloc(count + 1, sizeof(*names));
	char *text;

	for (size_t i = 0; i < count; i++)
		names[i] = json_string_value(json_array_get(array, i));
	text = joined(names, count);
	free(names);
	return text;
}

START_TEST(captured_expressions_expand_as_the_scheduler_does)
{
	json_t *root = load_cases("expand.json"), *item;
	size_t i;

	json_array_foreach(json_object_get(root, "cases"), i, item) {
		const char *expr = json_string_value(json_object_get(item, "expression"));
		bool invalid = json_is_true(json_object_get(item, "invalid"));
		char *want = joined_json(json_object_get(item, "hosts")), *got;
		struct err err = { "" };
		struct hostlist list;
		int rc;

		hostlist_init(&list);
		rc = hostlist_expand(&list, expr, 0, &err);
		ck_assert_msg(rc == (invalid ? -1 : 0), "%s: %d %s", expr, rc, err.text);
		got = joined_list(&list);
		ck_assert_msg(!strcmp(got, want), "%s: %s, not %s", expr, got, want);
		free(want);
		free(got);
		hostlist_fini(&list);
	}
	json_decref(root);
}
END_TEST

START_TEST(captured_names_compress_as_the_scheduler_does)
{
	json_t *root = load_cases("compress.json"), *item;
	size_t i;

	json_array_foreach(json_object_get(root, "cases"), i, item) {
		const char *want = json_string_value(json_object_get(item, "expression"));
		char *names = joined_json(json_object_get(item, "hosts")), *got;
		struct hostlist list;

		hostlist_init(&list);
		ck_assert_int_eq(hostlist_expand(&list, names, 0, NULL), 0);
		got = hostlist_compress((const char *const *)list.names, list.count, NULL);
		ck_assert_str_eq(got, want);
		free(names);
		free(got);
		hostlist_fini(&list);
	}
	json_decref(root);
}
END_TEST

#define LOOP(tc, test, table) \
	tcase_add_loop_test(tc, test, 0, sizeof(table) / sizeof(*(table)))

static void add_lists(Suite *suite)
{
	TCase *tc = tcase_create("lists");

	LOOP(tc, an_expression_expands_to_its_names_in_order, good);
	LOOP(tc, a_bad_expression_is_refused_with_its_column, bad);
	LOOP(tc, a_bad_expression_leaves_the_list_as_it_was, bad);
	tcase_add_test(tc, the_bound_counts_the_whole_list);
	tcase_add_test(tc, a_name_has_at_most_255_bytes);
	LOOP(tc, a_name_is_text_without_separators, names_to_judge);
	LOOP(tc, names_compress_to_an_expression_that_keeps_order_and_duplicates,
	     folded);
	tcase_add_test(tc, what_is_no_name_is_not_compressed);
	tcase_add_test(tc, compressed_random_lists_expand_to_themselves);
	tcase_add_test(tc, captured_expressions_expand_as_the_scheduler_does);
	tcase_add_test(tc, captured_names_compress_as_the_scheduler_does);
	suite_add_tcase(suite, tc);
}

static void add_sets(Suite *suite)
{
	TCase *tc = tcase_create("sets");

	tcase_add_test(tc, the_order_is_natural_and_total);
	LOOP(tc, a_set_is_sorted_has_each_name_once_and_folds, sets);
	tcase_add_test(tc, a_set_of_a_bad_expression_is_null_with_its_column);
	tcase_add_test(tc, names_come_and_go_one_by_one);
	tcase_add_test(tc, null_is_the_empty_set);
	LOOP(tc, two_sets_unite_subtract_and_intersect, pairs);
	tcase_add_test(tc, random_sets_agree_with_bits);
	tcase_add_test(tc, ten_thousand_names_are_quick);
	suite_add_tcase(suite, tc);
}

static void add_memory(Suite *suite)
{
	TCase *tc = tcase_create("memory");

	tcase_add_test(tc, expanding_survives_the_failure_of_each_allocation);
	tcase_add_test(tc, compressing_survives_the_failure_of_each_allocation);
	tcase_add_test(tc, sets_survive_the_failure_of_each_allocation);
	tcase_add_test(tc, parsing_and_adding_survive_the_failure_of_each_allocation);
	suite_add_tcase(suite, tc);
}

int main(void)
{
	Suite *suite = suite_create("nodeset");
	SRunner *runner;
	int failed;

	add_lists(suite);
	add_sets(suite);
	add_memory(suite);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
