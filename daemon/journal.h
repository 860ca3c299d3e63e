/* journal.h - every accepted fact and decision, one JSON object a line.
 *
 * Written before the decision is acted on.  A restarted daemon reads it
 * (restore.c); it is also the trace that a simulator can replay.
 */
#ifndef DAEMON_JOURNAL_H
#define DAEMON_JOURNAL_H

#include <jansson.h>

#include "proto/err.h"
#include "proto/loop.h"

struct journal;

/*
 * Each record, oldest first.  Return 0, or -1 with errno and the sentence to
 * stop: EINVAL when the record makes no sense.
 */
typedef int (*journal_read_f)(const char *event, const json_t *record, void *arg,
	struct err *err);

/*
 * Open DIR/journal.jsonl for appending, creating the directory (0700) and the
 * file (0600: it holds environments).  The lock on it tells a second daemon to
 * go away (EWOULDBLOCK).  A last line that was torn by a crash is cut off.
 */
struct journal *journal_open(const char *dir, struct loop *loop, struct err *err);
void journal_close(struct journal *journal);

/*
 * Read what is there.  A line that is no record, or none that fn can take, is
 * EBADMSG and "PATH:LINE: why": the file was damaged, nothing is guessed.
 */
int journal_read(struct journal *journal, journal_read_f fn, void *arg, struct err *err);

/*
 * Append {"t": wall seconds, "event": event, ...record}.  The record is
 * consumed; NULL (no memory) is a failure.  A failed write is logged once, counted and
 * returned as -1: training goes on without, but nothing new is promised.
 */
int journal_write(struct journal *journal, const char *event, json_t *record_take);

/* As journal_write, and on the disk before it returns: for promises to users. */
int journal_commit(struct journal *journal, const char *event, json_t *record_take);

#endif
