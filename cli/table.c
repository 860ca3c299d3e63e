/*
 * table.c - rows and columns that fit a width; libsmartcols behind it.
 *
 * libsmartcols aligns by the width of characters as a terminal shows them.
 * What may be cut, and in what order, is a choice of meaning (names and
 * reasons, never numbers), so it is made where columns are listed and carried
 * out here: left alone, libsmartcols takes a little from each.  Widths are
 * counted in bytes for that, so at worst something is cut that need not be.
 * Should even that not do (a locale that cannot show a name writes it in
 * escapes), libsmartcols cuts the rest, and in the end leaves columns out from
 * the right: a line is never wrapped.
 */
#include "cli/table.h"

#include <errno.h>
#include <libsmartcols/libsmartcols.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define WIDTH_DEFAULT 80
#define WIDTH_LEAST   40
#define CUT_LEAST     8 /* what a cut name keeps while others can be cut */
#define CUT_LAST      3

struct table {
	struct libscols_table *scols;
	const struct table_column *columns;
	size_t n;
	size_t *widths; /* of the widest cell of each, in bytes */
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
	table->widths = calloc(n, sizeof(*table->widths));
	table->scols = scols_new_table();
	if (!table->scols || !table->widths)
		goto fail;
	scols_table_enable_noheadings(table->scols, !columns[0].name);
	scols_table_enable_nowrap(table->scols, 1);
	for (size_t i = 0; i < n; i++) {
		const char *name = columns[i].name ? columns[i].name : "";
		int flags = (columns[i].flags & TABLE_RIGHT ? SCOLS_FL_RIGHT : 0) |
			    (columns[i].flags & TABLE_CUT ? SCOLS_FL_TRUNC : 0);

		if (!scols_table_new_column(table->scols, name, 0, flags))
			goto fail;
		table->widths[i] = strlen(name);
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
	free(table->widths);
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
		char *text = strdup(cells[i] && *cells[i] ? cells[i] : "-");

		if (!text)
			return -1;
		for (char *p = text; *p; p++)
			if ((unsigned char)*p < ' ' || *p == 0x7f)
				*p = '?';
		scols_line_refer_data(line, i, text); /* given */
		if (strlen(text) > table->widths[i])
			table->widths[i] = strlen(text);
		if (table->columns[i].flags & TABLE_STATE)
			scols_cell_set_color(
				scols_line_get_cell(line, i), colour_of(text));
	}
	return 0;
}

/* Take from the widest of these columns, not below least; what is still over. */
static size_t cut_columns(
	struct table *table, unsigned flags, size_t least, size_t over)
{
	while (over > 0) {
		size_t widest = table->n;

		for (size_t i = 0; i < table->n; i++)
			if (table->columns[i].flags & flags &&
				table->widths[i] > least &&
				(widest == table->n ||
					table->widths[i] > table->widths[widest]))
				widest = i;
		if (widest == table->n)
			break;
		table->widths[widest]--;
		over--;
	}
	return over;
}

/* Shorten what is longer than its column, between characters. */
static void cut_cells(struct table *table, size_t column)
{
	size_t n_lines = scols_table_get_nlines(table->scols);

	for (size_t i = 0; i < n_lines; i++) {
		struct libscols_cell *cell = scols_line_get_cell(
			scols_table_get_line(table->scols, i), column);
		const char *text = scols_cell_get_data(cell);
		size_t size = table->widths[column];
		char *shorter;

		if (strlen(text) <= size)
			continue;
		while (size > 1 && (text[size] & 0xc0) == 0x80)
			size--;
		shorter = strndup(text, size);
		if (shorter)
			scols_cell_refer_data(cell, shorter); /* given */
	}
}

static void choose_widths(struct table *table, size_t width)
{
	size_t total = table->n - 1, over;

	for (size_t i = 0; i < table->n; i++)
		total += table->widths[i];
	if (total <= width)
		return;
	over = cut_columns(table, TABLE_CUT, CUT_LEAST, total - width);
	cut_columns(table, TABLE_CUT | TABLE_LATE, CUT_LAST, over);
	for (size_t i = 0; i < table->n; i++)
		if (table->columns[i].flags & (TABLE_CUT | TABLE_LATE))
			cut_cells(table, i);
}

int table_print(struct table *table, const struct style *style)
{
	int rc;

	choose_widths(table, style->width);
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
