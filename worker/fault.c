/* fault.c - the sentence that goes with a failure. */
#include "worker/fault.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int fault_set(struct malle_err *err, int errnum, const char *fmt, ...)
{
	va_list ap;
	int n;

	if (err) {
		va_start(ap, fmt);
		n = vsnprintf(err->text, sizeof(err->text), fmt, ap);
		va_end(ap);
		if (n >= (int)sizeof(err->text))
			memcpy(err->text + sizeof(err->text) - 4, "...", 4);
	}
	errno = errnum;
	return -1;
}
