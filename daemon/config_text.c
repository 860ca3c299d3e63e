/*
 * config_text.c - the text of a configuration file, and places in it.
 *
 * libconfuse reads from a buffer that is made here and not from the file: its
 * scanner ends the process on a directory, and never ends on a device.  It also
 * counts the line of a comment twice, so it is given none: comments become
 * blanks, and a mistake is reported where people see it.
 *
 * libconfuse tells no columns.  They are found by looking for the offending
 * word in its line.
 */
#include "daemon/config_text.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MAX = 1 << 20 };

static int refuse_at(const struct config_text *text, size_t at, const char *why,
	struct err *err)
{
	int line = 1, column = 1;

	for (size_t i = 0; i < at; i++) {
		column = text->raw[i] == '\n' ? 1 : column + 1;
		line += text->raw[i] == '\n';
	}
	return err_set(err, EINVAL, "%s:%d:%d: %s", text->path, line, column, why);
}

static int read_all(struct config_text *text, FILE *in, struct err *err)
{
	size_t size;

	text->raw = malloc(TEXT_MAX + 1);
	if (!text->raw)
		return err_set(err, ENOMEM, "%s: out of memory", text->path);
	size = fread(text->raw, 1, TEXT_MAX + 1, in);
	if (ferror(in))
		return err_set(err, errno, "%s: %s", text->path, strerror(errno));
	if (size > TEXT_MAX)
		return err_set(err, EFBIG, "%s: over %d bytes, this is no configuration",
			text->path, TEXT_MAX);
	text->raw[size] = '\0';
	if (strlen(text->raw) < size)
		return refuse_at(text, strlen(text->raw), "zero byte, this is no text",
			err);
	return 0;
}

int config_text_read(struct config_text *text, const char *path, struct err *err)
{
	FILE *in = fopen(path, "re");
	int rc, saved;

	*text = (struct config_text){ .path = path };
	if (!in)
		return err_set(err, errno, "%s: %s", path, strerror(errno));
	rc = read_all(text, in, err);
	if (rc != 0)
		config_text_fini(text);
	saved = errno;
	fclose(in);
	errno = saved;
	return rc;
}

void config_text_fini(struct config_text *text)
{
	int saved = errno;

	free(text->raw);
	text->raw = NULL;
	errno = saved;
}

/* The end of the string that begins here, or of the text. */
static char *skip_string(char *at)
{
	char quote = *at++;

	while (*at && *at != quote)
		at += at[0] == '\\' && at[1] ? 2 : 1;
	return *at ? at + 1 : at;
}

static char *blank(char *from, const char *to)
{
	for (; from < to; from++)
		if (*from != '\n')
			*from = ' ';
	return from;
}

char *config_text_without_comments_new(const struct config_text *text, struct err *err)
{
	char *copy = strdup(text->raw);
	char *at = copy, *end;

	if (!copy)
		err_set(err, ENOMEM, "%s: out of memory", text->path);

	while (at && *at) {
		if (*at == '"' || *at == '\'') {
			at = skip_string(at);
		} else if (*at == '#' || !strncmp(at, "//", 2)) {
			at = blank(at, at + strcspn(at, "\n"));
		} else if (!strncmp(at, "/*", 2)) {
			end = strstr(at + 2, "*/");
			if (!end) {
				refuse_at(text, at - copy, "comment without its end", err);
				free(copy);
				errno = EINVAL;
				return NULL;
			}
			at = blank(at, end + 2);
		} else {
			at++;
		}
	}
	return copy;
}

static const char *next_line(const char *at)
{
	at += strcspn(at, "\n");
	return *at ? at + 1 : at;
}

int config_text_line_of(const struct config_text *text, const char *name)
{
	size_t n = strlen(name);
	int line = 0, found = 1;

	for (const char *at = text->raw; *at; at = next_line(at)) {
		const char *word = at + strspn(at, " \t");

		line++;
		if (!strncmp(word, name, n) && !isalnum((unsigned char)word[n]) &&
			word[n] != '_')
			found = line;
	}
	return found;
}

int config_text_column(const struct config_text *text, int line, const char *word,
	int of_value)
{
	const char *start = text->raw, *end, *at;

	while (--line > 0)
		start = next_line(start);
	end = start + strcspn(start, "\n");
	at = word[0] ? strstr(start, word) : NULL;
	if (!at || at >= end)
		return (int)strspn(start, " \t") + 1;
	if (of_value) {
		const char *value = at + strlen(word);

		value += strspn(value, " \t=");
		at = value < end ? value : at;
	}
	return (int)(at - start) + 1;
}
