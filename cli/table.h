/* table.h - rows and columns that fit a width; libsmartcols behind it. */
#ifndef CLI_TABLE_H
#define CLI_TABLE_H

#include <stddef.h>
#include <stdio.h>

/* How things are to look where they are written to. */
struct style {
	FILE *out;
	int width;  /* columns of the terminal; nothing is wider */
	int colour; /* non-zero: states are coloured */
};

/* For standard output: its terminal's width, else $COLUMNS, else 80. */
struct style style_stdout(void);

enum table_flag {
	TABLE_LEFT = 0,
	TABLE_RIGHT = 1, /* numbers */
	TABLE_CUT = 2,	 /* is cut short when the width does not suffice */
	TABLE_LATE = 4,	 /* is cut when cutting those does not suffice either */
	TABLE_STATE = 8, /* coloured by its word */
};

struct table_column {
	const char *name; /* NULL in the first: no heading */
	unsigned flags;
};

struct table;

/* columns is borrowed; n of them.  NULL: ENOMEM. */
struct table *table_create(const struct table_column *columns, size_t n);
void table_destroy(struct table *table);

/* A row of as many cells as there are columns; copied.  NULL is "-". */
int table_add(struct table *table, const char *const *cells);

/* Print; every line fits style->width.  -1 with errno. */
int table_print(struct table *table, const struct style *style);

#endif
