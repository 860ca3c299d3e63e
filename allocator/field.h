/* field.h - fields of a JSON object, strictly, with the path of a fault. */
#ifndef ALLOCATOR_FIELD_H
#define ALLOCATOR_FIELD_H

#include <jansson.h>

#include "proto/err.h"

/* Where a reader is: "jobs[3].curve[1]".  Printable whatever the input held. */
struct path {
	char text[160];
};

struct path path_at(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* "path: why", EINVAL.  Returns -1. */
int field_fault(struct err *err, struct path path, const char *why);

/* Bytes that would break a one-line sentence become '?'. */
void field_make_printable(char *text);

/* -1 with the first key that is not in the NULL-terminated list. */
int field_known(const json_t *object, const char *prefix, const char *const *keys,
	struct err *err);

/*
 * A finite number (int: a whole one) from min to max.  Absent and not required:
 * *out stays as it is.  prefix is "" or ends with a dot.  EINVAL.
 */
int field_real(const json_t *object, const char *prefix, const char *key, int required,
	double min, double max, double *out, struct err *err);
int field_int(const json_t *object, const char *prefix, const char *key, int required,
	int min, int max, int *out, struct err *err);

/*
 * A name of 1 to 255 bytes, malloc'd.  Absent or null and not required: *out
 * stays.  EINVAL, ENOMEM.
 */
int field_name(const json_t *object, const char *prefix, const char *key, int required,
	char **out, struct err *err);

#endif
