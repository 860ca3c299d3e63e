/* fmt.h - what the daemon says, for people and for programs. */
#ifndef CLI_FMT_H
#define CLI_FMT_H

#include <jansson.h>
#include <stdio.h>

#include "cli/table.h"

/* Which `what` of status.get the data answers. */
enum fmt_what {
	FMT_UNSET = 0,
	FMT_SUMMARY,
	FMT_JOBS,
	FMT_JOB,
	FMT_NODES,
	FMT_NODE,
};

/*
 * fmt_text.c: status.reply's data as tables that fit style->width.  What is
 * not there, or not of its kind, is shown as "-".  -1 with errno (ENOMEM, or a
 * failed write).
 */
int fmt_text(enum fmt_what what, const json_t *data, const struct style *style);

/* config.reply's options. */
int fmt_text_config(const json_t *options, const struct style *style);

/* fmt_detail.c: one job, one node; for fmt_text. */
int fmt_text_job(const json_t *job, const struct style *style);
int fmt_text_node(const json_t *node, const struct style *style);

/*
 * fmt_json.c: as JSON, indented, or on one line (`lines`) when many follow each
 * other.  -1 with errno.
 */
int fmt_json(const json_t *data, int lines, FILE *out);

/* --- fmt_value.c: values into a buffer, which is returned ------------------- */

#define FMT_SIZE 64

/* The field of an object as text; NULL when it is not there. */
const char *fmt_str(const json_t *object, const char *field);
/* As a number; NAN when it is not there. */
double fmt_num(const json_t *object, const char *field);

/* "950", "12.3k", "1.20M"; "-" for NAN. */
char *fmt_count(double value, char buf[FMT_SIZE]);
/* A duration: "0.4ms", "210ms", "3.5s", "4m05s", "2h13m", "3d04h"; "-". */
char *fmt_time(double seconds, char buf[FMT_SIZE]);
/* A moment of the wall clock, local time; "-" for NAN and 0. */
char *fmt_moment(double wall_s, char buf[FMT_SIZE]);
/* A list of node names, folded; owned.  NULL: not a list, or ENOMEM. */
char *fmt_nodes(const json_t *list);

#endif
