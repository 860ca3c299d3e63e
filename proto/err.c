/*
 * err.c - the sentence that goes with a failure.
 */
#include "proto/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void mark_cut(struct err *err, int wanted)
{
	if (wanted >= (int)sizeof(err->text))
		memcpy(err->text + sizeof(err->text) - 4, "...", 4);
}

int err_set(struct err *err, int errnum, const char *fmt, ...)
{
	if (err) {
		va_list ap;

		va_start(ap, fmt);
		mark_cut(err, vsnprintf(err->text, sizeof(err->text), fmt, ap));
		va_end(ap);
	}
	errno = errnum;
	return -1;
}

int err_prefix(struct err *err, const char *fmt, ...)
{
	int saved = errno;

	if (err) {
		struct err old = *err;
		va_list ap;
		int n;

		va_start(ap, fmt);
		n = vsnprintf(err->text, sizeof(err->text), fmt, ap);
		va_end(ap);
		if (n >= 0 && (size_t)n < sizeof(err->text))
			n += snprintf(err->text + n, sizeof(err->text) - n,
				      ": %s", old.text);
		mark_cut(err, n);
	}
	errno = saved;
	return -1;
}
