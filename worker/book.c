/*
 * book.c - one rank's file of a ledger, read and checked line by line.
 *
 * ledger.c says what the lines are.  The reader is strict, so that a file that
 * was damaged is called damaged and not counted: single blanks, plain decimals,
 * as many ids as the line says, each one a sample that exists.  It does not
 * judge the order of steps: a record that is missing or there twice is a sample
 * lost or repeated, and saying which is the audit's work.
 *
 * Files can be large, and ids are most of them, so the file stays mapped and
 * records point into it.  It was written by processes that are gone: nobody
 * cuts it short meanwhile.
 */
#include "worker/book.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define NUMBER_MAX (1ULL << 53)

/* A line being read. */
struct line {
	const char *p, *end; /* end: its newline */
};

static int take_word(struct line *l, const char *word)
{
	size_t n = strlen(word);

	if ((size_t)(l->end - l->p) < n || memcmp(l->p, word, n))
		return -1;
	l->p += n;
	return 0;
}

static int take_number(struct line *l, uint64_t max, uint64_t *value)
{
	const char *from = l->p;
	uint64_t v = 0;

	for (; l->p < l->end && *l->p >= '0' && *l->p <= '9'; l->p++) {
		unsigned d = (unsigned)(*l->p - '0');

		if (d > max || v > (max - d) / 10)
			return -1;
		v = v * 10 + d;
	}
	if (l->p == from || (*from == '0' && l->p - from > 1))
		return -1;
	*value = v;
	return 0;
}

static int take_field(struct line *l, const char *name, uint64_t max, uint64_t *value)
{
	if (take_word(l, " ") < 0 || take_word(l, name) < 0 || take_word(l, " ") < 0)
		return -1;
	return take_number(l, max, value);
}

static int read_head(struct book *b, struct line *l)
{
	size_t n;

	if (take_word(l, "malle-ledger 1") < 0 ||
		take_field(l, "generation", NUMBER_MAX, &b->generation) < 0 ||
		take_field(l, "rank", NUMBER_MAX, &b->rank) < 0 ||
		take_field(l, "world", NUMBER_MAX, &b->world) < 0 ||
		take_field(l, "step", NUMBER_MAX, &b->step) < 0 ||
		take_field(l, "cursor", NUMBER_MAX, &b->cursor) < 0 ||
		take_field(l, "samples", UINT32_MAX, &b->n_samples) < 0 ||
		take_field(l, "batch", UINT32_MAX, &b->global_batch) < 0 ||
		take_field(l, "total", NUMBER_MAX, &b->total) < 0 ||
		take_field(l, "seed", UINT64_MAX, &b->seed) < 0 ||
		take_word(l, " job ") < 0)
		return -1;
	n = (size_t)(l->end - l->p);
	if (!n || n >= sizeof(b->job) || !b->n_samples || b->rank >= b->world ||
		b->cursor > b->total)
		return -1;
	memcpy(b->job, l->p, n);
	b->job[n] = 0;
	return 0;
}

static struct book_record *grow(struct book *b)
{
	/* at powers of two the array is full */
	if ((b->n & (b->n - 1)) == 0) {
		size_t room = b->n ? 2 * b->n : 1;
		struct book_record *more = realloc(b->records, room * sizeof(*more));

		if (!more)
			return NULL;
		b->records = more;
	}
	return &b->records[b->n++];
}

static int read_batch(struct book *b, struct line *l)
{
	struct book_record r = { .rank = b->rank, .world = b->world }, *to;
	uint64_t id;

	if (take_number(l, NUMBER_MAX, &r.step) < 0 || take_word(l, " ") < 0 ||
		take_number(l, b->total, &r.cursor) < 0 || take_word(l, " ") < 0 ||
		take_number(l, b->n_samples, &r.global_n) < 0 ||
		take_word(l, " ") < 0 || take_number(l, b->n_samples, &r.n) < 0 ||
		!r.global_n)
		return -1;
	r.ids = l->p;
	for (uint64_t i = 0; i < r.n; i++)
		if (take_word(l, " ") < 0 || take_number(l, b->n_samples - 1, &id) < 0)
			return -1;
	if (l->p != l->end)
		return -1;
	to = grow(b);
	if (!to)
		return -2;
	*to = r;
	return 0;
}

static int read_end(struct book *b, struct line *l)
{
	if (take_number(l, NUMBER_MAX, &b->end_step) < 0 || take_word(l, " ") < 0 ||
		take_number(l, b->total, &b->end_cursor) < 0)
		return -1;
	b->ended = 1;
	b->finished = take_word(l, " finished") == 0;
	if (!b->finished && take_word(l, " left") < 0)
		return -1;
	return l->p == l->end ? 0 : -1;
}

/* 0, -1: not a ledger, -2: out of memory */
static int read_line(struct book *b, struct line *l, unsigned long number)
{
	if (number == 1)
		return read_head(b, l);
	if (b->ended)
		return -1;
	if (take_word(l, "b ") == 0)
		return read_batch(b, l);
	if (take_word(l, "e ") == 0)
		return read_end(b, l);
	return -1;
}

static int read_lines(struct book *b, const char *path, struct malle_err *err)
{
	const char *p = b->bytes, *end = p ? p + b->size : p;
	unsigned long number = 0;

	b->blank = 1;
	while (p < end) {
		const char *newline = memchr(p, '\n', (size_t)(end - p));
		struct line line = { p, newline };
		int bad;

		if (!newline) {
			b->torn = 1;
			break;
		}
		bad = read_line(b, &line, ++number);
		if (bad == -2)
			return fault_set(err, ENOMEM, "%s: out of memory", path);
		if (bad)
			return fault_set(err, EBADMSG,
				"%s:%lu: byte %td: not a line of a ledger", path,
				number, line.p - p + 1);
		b->blank = 0;
		p = newline + 1;
	}
	return 0;
}

static int map(struct book *b, const char *path, struct malle_err *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), bad = 0;
	struct stat st;
	void *at = NULL;

	if (fd < 0)
		return fault_set(err, errno, "%s: open: %s", path, strerror(errno));
	if (fstat(fd, &st) < 0)
		bad = errno;
	else if (!S_ISREG(st.st_mode))
		bad = EINVAL;
	else if (st.st_size)
		at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (at == MAP_FAILED)
		bad = errno;
	close(fd);
	if (bad)
		return fault_set(err, bad, "%s: read: %s", path, strerror(bad));
	b->bytes = at;
	b->size = (size_t)st.st_size;
	return 0;
}

int book_read(struct book *book, const char *path, struct malle_err *err)
{
	int keep;

	*book = (struct book){ .bytes = NULL };
	if (map(book, path, err) == 0 && read_lines(book, path, err) == 0)
		return 0;
	keep = errno;
	book_fini(book);
	errno = keep;
	return -1;
}

void book_fini(struct book *book)
{
	if (book->bytes)
		munmap(book->bytes, book->size);
	free(book->records);
	*book = (struct book){ .bytes = NULL };
}

uint32_t book_next_id(const char **ids)
{
	const char *p = *ids + 1; /* behind the blank */
	uint32_t id = 0;

	for (; *p >= '0' && *p <= '9'; p++)
		id = id * 10 + (uint32_t)(*p - '0');
	*ids = p;
	return id;
}
