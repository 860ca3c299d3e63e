/* config_text.h - the text of a configuration file, and places in it. */
#ifndef DAEMON_CONFIG_TEXT_H
#define DAEMON_CONFIG_TEXT_H

#include "proto/err.h"

struct config_text {
	const char *path; /* borrowed */
	char *raw;        /* all of it, no NUL inside */
};

/*
 * Read the file.  -1 with the errno of opening or reading it; EFBIG over 1 MiB
 * (a device never ends); EINVAL and "PATH:LINE:COLUMN: what" for a zero byte.
 */
int config_text_read(struct config_text *text, const char *path, struct err *err);
void config_text_fini(struct config_text *text);

/*
 * A copy in which comments are blanks and each line is where it was; free().
 * NULL: ENOMEM, or EINVAL and the place of a comment that does not end.
 */
char *config_text_without_comments_new(const struct config_text *text, struct err *err);

/* The last line, from 1, that starts with this name; 1 when there is none. */
int config_text_line_of(const struct config_text *text, const char *name);

/*
 * The column, from 1, of a word in a line, or of what follows it and its equal
 * sign; where the word is not there, of the first thing in the line.
 */
int config_text_column(const struct config_text *text, int line, const char *word,
	int of_value);

#endif
