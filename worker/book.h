/* book.h - one rank's file of a ledger, read and checked line by line. */
#ifndef WORKER_BOOK_H
#define WORKER_BOOK_H

#include <stddef.h>
#include <stdint.h>

#include "worker/fault.h"

/* One batch record.  Its ids are still text, in the book's bytes. */
struct book_record {
	uint64_t step, cursor, global_n;
	uint64_t rank, world; /* of the book */
	uint64_t n;
	const char *ids;
};

struct book {
	/* first line */
	uint64_t generation, rank, world, step, cursor;
	uint64_t n_samples, global_batch, total, seed;
	char job[65];
	/* the rest */
	struct book_record *records; /* owned */
	size_t n;
	int torn;         /* the last line had no end, and was left out */
	int blank;        /* torn within the first line: nothing above is set */
	int ended;        /* there is an end record: */
	int finished;
	uint64_t end_step, end_cursor;
	/* the file */
	char *bytes; /* mapped; NULL where the file is empty */
	size_t size;
};

/*
 * Read a file.  A last line without its newline is what a killed rank leaves;
 * anything else that is not exactly a ledger is refused.  Ids are below
 * n_samples.  -1: EBADMSG with file and line, ENOMEM, or errno of open, mmap.
 */
int book_read(struct book *book, const char *path, struct malle_err *err);
void book_fini(struct book *book);

/* The next id of a record's text, and the text behind it. */
uint32_t book_next_id(const char **ids);

#endif
