/*
 * table.c - rows and columns that fit a width; libsmartcols behind it.
 *
 * libsmartcols aligns by the width of characters, replaces what a terminal
 * would act on, and cuts columns that may be cut when a line would not fit.
 * Which columns those are is a choice of meaning (names and reasons, never
 * numbers), so it is made where columns are listed.  Should even that not do,
 * it leaves columns out from the right: a line is never wrapped.
 */
#include "cli/table.h"

#include <errno.h>
#include <libsmartcols/libsmartcols.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define WIDTH_DEFAULT 80
#define WIDTH_LEAST 40

struct table {
	struct libscols_table *scols;
	const struct table_column *columns;
	size_t n;
};

static int width_of(int fd)
{
	const char *columns = getenv("COLUMNS");
	struct winsize size;
	int width = 0;

	if (isatty(fd) && ioctl(fd, TIOCGWINSZ, &size) == 0)
		width = size.ws_col;
	if (width == 0 && columns)
		width = atoi(columns);
	if (width <= 0 || width > 10000)
		return WIDTH_DEFAULT;
	return width < WIDTH_LEAST ? WIDTH_LEAST : width;
}

struct style style_stdout(void)
{
	const char *no_color = getenv("NO_COLOR");

	return (struct style){
		.out = stdout,
		.width = width_of(STDOUT_FILENO),
		.colour = isatty(STDOUT_FILENO) && !(no_color && *no_color),
	};
}

struct table *table_create(const struct table_column *columns, size_t n)
{
	struct table *table = calloc(1, sizeof(*table));

	if (!table)
		return NULL;
	table->columns = columns;
	table->n = n;
	table->scols = scols_new_table();
	if (!table->scols)
		goto fail;
	scols_table_enable_noheadings(table->scols, !columns[0].name);
	scols_table_enable_nowrap(table->scols, 1);
	for (size_t i = 0; i < n; i++) {
		int flags = (columns[i].flags & TABLE_RIGHT ? SCOLS_FL_RIGHT : 0) |
			    (columns[i].flags & TABLE_CUT ? SCOLS_FL_TRUNC : 0);

		if (!scols_table_new_column(
			    table->scols, columns[i].name ? columns[i].name : "", 0, flags))
			goto fail;
	}
	return table;

fail:
	table_destroy(table);
	errno = ENOMEM;
	return NULL;
}

void table_destroy(struct table *table)
{
	int saved = errno;

	if (!table)
		return;
	scols_unref_table(table->scols);
	free(table);
	errno = saved;
}

static const char *colour_of(const char *word)
{
	static const char *const words[][2] = {
		{ "running", "green" },
		{ "assigned", "green" },
		{ "waiting", "brown" },
		{ "paused", "brown" },
		{ "pausing", "brown" },
		{ "leaving", "brown" },
		{ "stopping", "brown" },
		{ "lost", "red" },
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strcmp(words[i][0], word) == 0)
			return words[i][1];
	return NULL;
}

int table_add(struct table *table, const char *const *cells)
{
	struct libscols_line *line = scols_table_new_line(table->scols, NULL);

	if (!line)
		return -1;
	for (size_t i = 0; i < table->n; i++) {
		const char *text = cells[i] && *cells[i] ? cells[i] : "-";

		if (scols_line_set_data(line, i, text) < 0)
			return -1;
		if (table->columns[i].flags & TABLE_STATE)
			scols_cell_set_color(
				scols_line_get_cell(line, i), colour_of(text));
	}
	return 0;
}

int table_print(struct table *table, const struct style *style)
{
	int rc;

	scols_table_set_stream(table->scols, style->out);
	scols_table_enable_colors(table->scols, style->colour);
	/* Also into a file: who wants all of it takes --json. */
	scols_table_set_termforce(table->scols, SCOLS_TERMFORCE_ALWAYS);
	scols_table_set_termwidth(table->scols, style->width);
	rc = scols_print_table(table->scols);
	if (rc < 0)
		errno = -rc;
	return rc < 0 ? -1 : 0;
}
