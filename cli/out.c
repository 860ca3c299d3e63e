/*
 * out.c - bytes to a descriptor of ours, without ever blocking the loop.
 *
 * Whoever reads our output may stop reading: a pager, a stopped pipe, a
 * terminal after Ctrl-S.  Ctrl-C must work all the same, so a write may not
 * block.  O_NONBLOCK is no answer: it belongs to the open file, which we share
 * with our shell and its other children.  But a pipe that poll(2) calls
 * writable takes PIPE_BUF bytes without blocking (POSIX), and a terminal takes
 * a small piece; so we write in such pieces, as long as poll says yes, and
 * leave the rest to the loop.  Files and devices that are no terminal never
 * block for long, cannot be polled, and are written at once.
 */
#include "cli/out.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TERMINAL_PIECE 256
#define PIECES_A_TURN  64

struct out {
	struct loop *loop;
	struct loop_io *io; /* while something is queued */
	int fd;
	size_t piece; /* 0: write at once, as much as there is */
	loop_f on_change;
	void *arg;
	char *data;
	size_t start, end, room;
	int failed;
	char last;
};

struct out *out_create(struct loop *loop, int fd, loop_f on_change, void *arg)
{
	struct out *out = calloc(1, sizeof(*out));
	struct stat st;

	if (!out)
		return NULL;
	out->loop = loop;
	out->fd = fd;
	out->on_change = on_change;
	out->arg = arg;
	out->last = '\n';
	if (isatty(fd))
		out->piece = TERMINAL_PIECE;
	else if (fstat(fd, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode)))
		out->piece = PIPE_BUF;
	return out;
}

void out_destroy(struct out *out)
{
	if (!out)
		return;
	loop_io_destroy(out->io);
	free(out->data);
	free(out);
}

static void fail(struct out *out, int errnum)
{
	out->failed = errnum;
	out->start = out->end = 0;
}

/* 1: nothing queued any more (or failed), 0: the descriptor takes no more. */
static int drain(struct out *out)
{
	int pieces = 0;

	while (out->start < out->end) {
		struct pollfd ready = { .fd = out->fd, .events = POLLOUT };
		size_t size = out->end - out->start;
		ssize_t n;

		if (out->piece &&
			(pieces++ == PIECES_A_TURN || poll(&ready, 1, 0) == 0))
			return 0;
		if (out->piece && size > out->piece)
			size = out->piece;
		n = write(out->fd, out->data + out->start, size);
		if (n >= 0)
			out->start += n;
		else if (errno == EAGAIN)
			return 0;
		else if (errno != EINTR)
			fail(out, errno);
	}
	out->start = out->end = 0;
	return 1;
}

static void on_ready(int fd, unsigned ready, void *arg)
{
	struct out *out = arg;

	if (!drain(out))
		return;
	loop_io_destroy(out->io);
	out->io = NULL;
	out->on_change(out->arg);
}

static int append(struct out *out, const void *data, size_t size)
{
	if (out->start) {
		memmove(out->data, out->data + out->start, out->end - out->start);
		out->end -= out->start;
		out->start = 0;
	}
	if (out->end + size > out->room) {
		size_t room = 2 * (out->end + size);
		char *bigger = realloc(out->data, room);

		if (!bigger)
			return -1;
		out->data = bigger;
		out->room = room;
	}
	memcpy(out->data + out->end, data, size);
	out->end += size;
	return 0;
}

void out_write(struct out *out, const void *data, size_t size)
{
	if (out->failed || size == 0)
		return;
	out->last = ((const char *)data)[size - 1];
	if (append(out, data, size) < 0) {
		fail(out, ENOMEM);
		return;
	}
	if (out->io || drain(out))
		return;
	out->io = loop_io_create(out->loop, out->fd, LOOP_WRITE, on_ready, out);
	if (!out->io)
		fail(out, errno);
}

size_t out_queued(const struct out *out)
{
	return out->end - out->start;
}

int out_failed(const struct out *out)
{
	return out->failed;
}

int out_at_line_start(const struct out *out)
{
	return out->last == '\n';
}
