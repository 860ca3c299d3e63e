/* say.h - a program's one line for people, and its last word on output. */
#ifndef CLI_SAY_H
#define CLI_SAY_H

#include <stdarg.h>
#include <stddef.h>

/*
 * "program: text\n" to standard error, in one write.  Control characters,
 * which may come from other people's job names, are shown as '?'.
 */
void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* The same line into buf, cut to size; returns its length. */
size_t say_format(char *buf, size_t size, const char *fmt, va_list ap)
	__attribute__((format(printf, 3, 0)));

/*
 * Flush and check standard output.  Returns code, or EXIT_WRITE_FAILED after
 * saying why: a full disk must not look like success.
 */
int say_flush(int code);

/* What every client does first: the locale of names, no death by SIGPIPE. */
void say_setup(void);

#endif
