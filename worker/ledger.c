/*
 * ledger.c - which samples this rank put into which step, on file.
 *
 * "Every sample exactly once" is a promise that a user should be able to check,
 * by something that does not trust the code that made it.  So every rank keeps
 * a book, in a directory named by MALLE_LEDGER, and malle-ledger adds the books
 * of all ranks of all worlds up (audit.c).
 *
 * A file a rank and world, gNNNNNN-rNNNNN.ledger, in lines:
 *
 *	malle-ledger 1 generation G rank R world W step S cursor C samples N
 *		batch B total T seed X job NAME		(one line)
 *	b STEP CURSOR GLOBAL N ID ID ...
 *	e STEP CURSOR finished|left
 *
 * STEP is steps done before, CURSOR samples consumed before, GLOBAL samples of
 * the batch over all ranks, N how many of the ids are this rank's.
 *
 * A record is written when its batch is handed out, before a gradient of it
 * exists.  Every rank needs every other's gradient to end a step, so a state that
 * includes a step is proof that all ranks had written that step's record, even
 * if one of them is killed a microsecond later.  A record may on the other hand
 * belong to a step that was never completed: then a later world begins at or
 * before that step, and its first line voids the older one's.
 *
 * Each line is one write: a killed rank leaves at most its last line torn.  Data
 * written survive the process; only a lost machine could take them.
 */
#include "worker/ledger.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HEAD_ROOM 512
#define NUMBER_ROOM 21 /* digits of 2^64, and a blank */

static int write_line(struct ledger *ledger, size_t n, struct malle_err *err)
{
	ssize_t done;

	do
		done = write(ledger->fd, ledger->line, n);
	while (done < 0 && errno == EINTR);
	if (done == (ssize_t)n)
		return 0;
	if (done >= 0)
		errno = ENOSPC;
	return fault_set(err, errno, "ledger: write: %s", strerror(errno));
}

static char *put_number(char *p, uint64_t v, char after)
{
	char digits[20];
	int n = 0;

	do
		digits[n++] = (char)('0' + v % 10);
	while (v /= 10);
	while (n)
		*p++ = digits[--n];
	*p++ = after;
	return p;
}

static int head_line(char *line, size_t room, const struct ledger_head *h)
{
	int n = snprintf(line, room,
		"malle-ledger 1 generation %llu rank %llu world %llu step %llu "
		"cursor %llu samples %llu batch %llu total %llu seed %llu job %.64s\n",
		(unsigned long long)h->generation, (unsigned long long)h->rank,
		(unsigned long long)h->world, (unsigned long long)h->step,
		(unsigned long long)h->cursor, (unsigned long long)h->n_samples,
		(unsigned long long)h->global_batch, (unsigned long long)h->total,
		(unsigned long long)h->seed, h->job);

	for (int i = 0; i < n - 1; i++)
		if ((unsigned char)line[i] < 0x20)
			line[i] = '?';
	return n;
}

static int create(struct ledger *ledger, const char *dir,
	const struct ledger_head *head, struct malle_err *err)
{
	char *path;

	if (asprintf(&path, "%s/g%06llu-r%05llu.ledger", dir,
		    (unsigned long long)head->generation,
		    (unsigned long long)head->rank) < 0)
		return fault_set(err, ENOMEM, "ledger: out of memory");
	ledger->fd =
		open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
	if (ledger->fd < 0)
		fault_set(err, errno, "ledger %s: create: %s", path, strerror(errno));
	free(path);
	return ledger->fd < 0 ? -1 : 0;
}

int ledger_open(struct ledger *ledger, const char *dir, const struct ledger_head *head,
	size_t most, struct malle_err *err)
{
	ledger->fd = -1;
	ledger->room = HEAD_ROOM + most * NUMBER_ROOM;
	ledger->line = malloc(ledger->room);
	if (!ledger->line)
		return fault_set(err, ENOMEM, "ledger: out of memory");
	if (create(ledger, dir, head, err) == 0 &&
		write_line(ledger, (size_t)head_line(ledger->line, HEAD_ROOM, head),
			err) == 0)
		return 0;
	ledger_close(ledger);
	return -1;
}

int ledger_batch(struct ledger *ledger, uint64_t step, uint64_t cursor,
	uint64_t global_n, const uint32_t *ids, size_t n, struct malle_err *err)
{
	char *p = ledger->line;

	if (ledger->fd < 0)
		return 0;
	*p++ = 'b';
	*p++ = ' ';
	p = put_number(p, step, ' ');
	p = put_number(p, cursor, ' ');
	p = put_number(p, global_n, ' ');
	p = put_number(p, n, n ? ' ' : '\n');
	for (size_t i = 0; i < n; i++)
		p = put_number(p, ids[i], i + 1 < n ? ' ' : '\n');
	return write_line(ledger, (size_t)(p - ledger->line), err);
}

int ledger_end(struct ledger *ledger, uint64_t step, uint64_t cursor, int finished,
	struct malle_err *err)
{
	char *p = ledger->line;

	if (ledger->fd < 0)
		return 0;
	*p++ = 'e';
	*p++ = ' ';
	p = put_number(p, step, ' ');
	p = put_number(p, cursor, ' ');
	p += sprintf(p, "%s\n", finished ? "finished" : "left");
	return write_line(ledger, (size_t)(p - ledger->line), err);
}

void ledger_close(struct ledger *ledger)
{
	int keep = errno;

	if (ledger->fd >= 0)
		close(ledger->fd);
	free(ledger->line);
	*ledger = (struct ledger){ .fd = -1 };
	errno = keep;
}
