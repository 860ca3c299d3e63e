/* say.c - a program's one line for people, and its last word on output. */
#include "cli/say.h"

#include <errno.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "proto/err.h"
#include "proto/log.h"

#define LINE_SIZE 1500

size_t say_format(char *buf, size_t size, const char *fmt, va_list ap)
{
	size_t used = snprintf(buf, size, "%s: ", program_invocation_short_name);

	if (used >= size)
		used = 0;
	vsnprintf(buf + used, size - used, fmt, ap);
	used = strlen(buf);
	for (size_t i = 0; i < used; i++)
		if ((unsigned char)buf[i] < ' ' || buf[i] == 0x7f)
			buf[i] = '?';
	if (used > size - 2)
		used = size - 2;
	buf[used] = '\n';
	buf[used + 1] = '\0';
	return used + 1;
}

void say(const char *fmt, ...)
{
	char line[LINE_SIZE];
	va_list ap;
	size_t size;

	va_start(ap, fmt);
	size = say_format(line, sizeof(line), fmt, ap);
	va_end(ap);
	fwrite(line, 1, size, stderr);
	fflush(stderr);
}

int say_flush(int code)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return code;
	say("standard output: cannot be written: %s", strerror(errno));
	return EXIT_WRITE_FAILED;
}

void say_setup(void)
{
	setlocale(LC_CTYPE, "");
	/* The one sentence about a failure is ours to say, not the library's. */
	log_set_level(LOG_UNSET);
	/* A reader that went away is a failed write (74), not a death. */
	signal(SIGPIPE, SIG_IGN);
}
