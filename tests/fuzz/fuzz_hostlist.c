/*
 * fuzz_hostlist.c - expressions that came from anywhere.
 *
 * What expands must fold to something that expands to the same names; what
 * does not must say at which column of its text, and leave nothing.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/err.h"
#include "proto/hostlist.h"
#include "proto/nodeset.h"

#define MOST 2000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
	if (!ok)
		abort();
}

static void check_fault(const struct hostlist *list, size_t len, const struct err *err)
{
	size_t column = 0;

	must(sscanf(err->text, "column %zu: ", &column) == 1);
	must(column >= 1 && column <= len + 1);
	must(!list->count);
}

static void check_list(const struct hostlist *list)
{
	char *expr = hostlist_compress((const char *const *)list->names, list->count,
				       NULL);
	struct hostlist back;

	hostlist_init(&back);
	must(expr && !hostlist_expand(&back, expr, MOST, NULL));
	must(back.count == list->count);
	for (size_t i = 0; i < back.count; i++)
		must(!strcmp(back.names[i], list->names[i]));
	hostlist_fini(&back);
	free(expr);
}

static void check_set(const char *expr, const struct hostlist *list)
{
	struct nodeset *set = nodeset_parse(expr, NULL), *back;
	char *fold = nodeset_fold(set);

	must(set && fold && nodeset_count(set) <= list->count);
	for (size_t i = 0; i < list->count; i++)
		must(nodeset_contains(set, list->names[i]));
	back = nodeset_parse(fold, NULL);
	must(nodeset_equal(set, back));
	nodeset_destroy(set);
	nodeset_destroy(back);
	free(fold);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *expr = strndup((const char *)data, size);
	struct err err = { "" };
	struct hostlist list;

	hostlist_init(&list);
	if (hostlist_expand(&list, expr, MOST, &err)) {
		check_fault(&list, strlen(expr), &err);
	} else {
		check_list(&list);
		check_set(expr, &list);
	}
	hostlist_fini(&list);
	free(expr);
	return 0;
}
