/*
 * log.c - one line for people.
 *
 *   2026-01-31T12:00:00.123Z mallectld[411] notice pool: n3 is a hole group=7
 *
 * A line is written by one write(2) to a descriptor opened for appending, so
 * that lines of several processes in one file stay whole.  Bytes that would
 * break the line, or a terminal, become '?'.  A line that cannot be written is
 * lost: there is nobody left to tell.  Standard error stays where it is; only a
 * file that we opened is ever closed.
 */
#include "proto/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "proto/clock.h"

enum { LINE_SIZE = 2048 };

static struct {
	const char *program;
	enum log_level level;
	int fd;
} log_state = { "malle", LOG_LEVEL_NOTICE, STDERR_FILENO };

static const char *const level_names[] = {
	[LOG_UNSET] = "unset",
	[LOG_LEVEL_ERR] = "err",
	[LOG_LEVEL_WARNING] = "warning",
	[LOG_LEVEL_NOTICE] = "notice",
	[LOG_LEVEL_INFO] = "info",
	[LOG_LEVEL_DEBUG] = "debug",
};

int log_open(const char *program, enum log_level level, const char *path)
{
	int fd = STDERR_FILENO;

	if (path && *path) {
		fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0640);
		if (fd < 0)
			return -1;
	}
	if (log_state.fd != STDERR_FILENO)
		close(log_state.fd);
	log_state.fd = fd;
	log_state.program = program;
	log_state.level = level;
	return 0;
}

void log_set_level(enum log_level level)
{
	log_state.level = level;
}

enum log_level log_level_parse(const char *word)
{
	for (int i = LOG_LEVEL_ERR; i <= LOG_LEVEL_DEBUG; i++)
		if (!strcmp(word, level_names[i]))
			return i;
	return LOG_UNSET;
}

const char *log_level_name(enum log_level level)
{
	return level <= LOG_LEVEL_DEBUG ? level_names[level] : "unset";
}

int log_wants(enum log_level level)
{
	return level <= log_state.level;
}

/* What is in the way of "one line" goes; bytes of UTF-8 stay. */
static void make_plain(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			*text = '?';
}

void log_line(enum log_level level, const char *module, const char *fmt, ...)
{
	char line[LINE_SIZE], when[CLOCK_ISO_SIZE];
	int saved = errno;
	size_t used;
	va_list ap;

	if (!log_wants(level))
		return;
	snprintf(line, sizeof(line),
		"%s %s[%d] %s %s: ", clock_iso(clock_wall_s(), when, sizeof(when)),
		log_state.program, (int)getpid(), log_level_name(level), module);
	used = strlen(line);
	va_start(ap, fmt);
	errno = saved; /* for %m */
	vsnprintf(line + used, sizeof(line) - used - 1, fmt, ap);
	va_end(ap);
	make_plain(line);
	used = strlen(line);
	line[used++] = '\n';
	if (write(log_state.fd, line, used) < 0)
		used = 0;
	errno = saved;
}
