/* err.h - the sentence that goes with a failure. */
#ifndef PROTO_ERR_H
#define PROTO_ERR_H

#include <stddef.h>

/*
 * A function of the library that can fail returns -1 or NULL, sets errno,
 * and fills the struct err that its caller passed (NULL: the caller does not
 * want it).  The text is one line without a newline, says what was being
 * done, to which object and why it failed, and never the word "error".
 */
struct err {
	char text[256];
};

/*
 * Set the text and errno; a longer text is cut with "..." at its end.
 * Returns -1, so that failing is one line:
 *	return err_set(err, EINVAL, "%s: size %zu is over %zu", ...);
 */
int err_set(struct err *err, int errnum, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * Put "what: " in front of the text that is there, keeping errno.
 * Returns -1.
 */
int err_prefix(struct err *err, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Exit codes of every program (the contract; sysexits.h where it has one). */
enum exit_code {
	EXIT_OK = 0,
	EXIT_BAD_USAGE = 64,
	EXIT_BAD_DATA = 65,
	EXIT_NO_INPUT = 66,
	EXIT_NO_DAEMON = 69,
	EXIT_INTERNAL = 70,
	EXIT_WRITE_FAILED = 74,
	EXIT_TRY_AGAIN = 75,
	EXIT_NOT_ALLOWED = 77,
	EXIT_BAD_CONFIG = 78,
	EXIT_PREEMPTED = 143,
};

#endif
