/*
 * conn.c - a worker's connection to the agent of its node.
 *
 * A stream socket, a buffer for what has come, and two rules.
 *
 * Nothing waits without a limit that its caller chose.  The agent is a single
 * thread that serves many; it may be stopped by an operator, swapped out, or
 * dead with its socket still open in some child.  A worker that waits for it
 * holds up every rank of the job.  Reading in a training step never waits at
 * all, and a send that finds the socket full waits SEND_LIMIT_MS and then takes
 * the agent for gone.
 *
 * There is one way to be gone: fd is -1.  End of file, a reset, a frame that
 * is none, a send that took too long all end there, and all callers have to
 * know is that single state.
 *
 * Signals are the host program's: any call may be interrupted and is resumed
 * with what is left of its time; SIGPIPE is never raised.
 */
#include "worker/conn.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define SEND_LIMIT_MS 5000
#define RETRY_MS      10

static int64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* > 0 when ready (also for an end that waits to be read), 0 when late. */
static int wait_for(int fd, short events, int wait_ms)
{
	int64_t end = now_ms() + wait_ms;
	struct pollfd p = { .fd = fd, .events = events };
	int n;

	for (;;) {
		n = poll(&p, 1, wait_ms);
		if (n >= 0 || errno != EINTR)
			return n;
		if (wait_ms > 0)
			wait_ms = end > now_ms() ? (int)(end - now_ms()) : 0;
	}
}

void conn_init(struct conn *conn, int fd)
{
	conn->fd = fd;
	conn->have = 0;
}

void conn_close(struct conn *conn)
{
	int keep = errno;

	if (conn && conn->fd >= 0) {
		close(conn->fd);
		conn->fd = -1;
	}
	errno = keep;
}

/* A unix socket connects at once, or its queue is full: then try again. */
static int connect_until(int fd, const struct sockaddr_un *to, int64_t end)
{
	while (connect(fd, (const struct sockaddr *)to, sizeof(*to)) < 0) {
		if (errno != EAGAIN && errno != EINTR)
			return -1;
		if (now_ms() >= end) {
			errno = ETIMEDOUT;
			return -1;
		}
		if (errno == EAGAIN)
			poll(NULL, 0, RETRY_MS);
	}
	return 0;
}

int conn_open(struct conn *conn, const char *path, int limit_ms, struct malle_err *err)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	int fd;

	conn_init(conn, -1);
	if (strlen(path) >= sizeof(to.sun_path))
		return fault_set(err, ENAMETOOLONG, "agent's socket %s: over %zu bytes",
			path, sizeof(to.sun_path) - 1);
	strcpy(to.sun_path, path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0 && connect_until(fd, &to, now_ms() + limit_ms) == 0) {
		conn_init(conn, fd);
		return 0;
	}
	fault_set(err, errno, "connect to the agent at %s: %s", path, strerror(errno));
	if (fd >= 0) {
		int keep = errno;

		close(fd);
		errno = keep;
	}
	return -1;
}

static int gone(struct conn *conn, int errnum, const char *what, struct malle_err *err)
{
	conn_close(conn);
	return fault_set(
		err, errnum, "the agent is gone: %s: %s", what, strerror(errnum));
}

static int send_frame(
	struct conn *conn, struct wire_out *out, int droppable, struct malle_err *err)
{
	int size = wire_end(out);
	size_t sent = 0;
	ssize_t n;

	if (size < 0)
		return fault_set(err, EMSGSIZE, "a message to the agent is too long");
	if (conn->fd < 0)
		return fault_set(err, ECONNRESET, "the agent is gone");
	while (sent < (size_t)size) {
		n = send(conn->fd, out->bytes + sent, (size_t)size - sent,
			MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n >= 0) {
			sent += (size_t)n;
			continue;
		}
		if (errno == EINTR)
			continue;
		if (errno != EAGAIN && errno != EWOULDBLOCK)
			return gone(
				conn, errno == EPIPE ? ECONNRESET : errno, "send", err);
		if (droppable && !sent)
			return 0;
		if (wait_for(conn->fd, POLLOUT, SEND_LIMIT_MS) <= 0)
			return gone(conn, ETIMEDOUT, "it reads nothing", err);
	}
	return 0;
}

int conn_send(struct conn *conn, struct wire_out *out, struct malle_err *err)
{
	return send_frame(conn, out, 0, err);
}

int conn_send_droppable(struct conn *conn, struct wire_out *out, struct malle_err *err)
{
	return send_frame(conn, out, 1, err);
}

/* 1: a message was taken from the buffer, 0: there is no whole one, -1. */
static int take(struct conn *conn, struct wire_msg *msg, struct malle_err *err)
{
	struct wire_header header;
	size_t size;

	if (conn->have < WIRE_HEADER_SIZE)
		return 0;
	if (wire_header_decode(conn->in, &header, err) < 0)
		return -1;
	/* a refusal may be just about the version, so it is read in any */
	if (header.version != WIRE_VERSION && header.type != WIRE_REFUSE)
		return fault_set(err, EPROTO,
			"the agent speaks protocol %u, libmalle speaks %u",
			header.version, WIRE_VERSION);
	size = WIRE_HEADER_SIZE + header.length;
	if (conn->have < size)
		return 0;
	if (wire_decode(&header, conn->in + WIRE_HEADER_SIZE, msg, err) < 0)
		return -1;
	conn->have -= size;
	memmove(conn->in, conn->in + size, conn->have);
	return 1;
}

/* 1: something came, 0: nothing within wait_ms, -1: gone. */
static int fill(struct conn *conn, int wait_ms, struct malle_err *err)
{
	ssize_t n;

	for (;;) {
		n = recv(conn->fd, conn->in + conn->have, sizeof(conn->in) - conn->have,
			MSG_DONTWAIT);
		if (n > 0) {
			conn->have += (size_t)n;
			return 1;
		}
		if (n == 0)
			return gone(conn, ECONNRESET, "it closed the connection", err);
		if (errno == EINTR)
			continue;
		if (errno != EAGAIN && errno != EWOULDBLOCK)
			return gone(conn, ECONNRESET, "receive", err);
		if (wait_ms == CONN_NOW)
			return 0;
		n = wait_for(conn->fd, POLLIN, wait_ms);
		if (n <= 0)
			return n ? gone(conn, errno, "wait", err) : 0;
	}
}

int conn_recv(
	struct conn *conn, struct wire_msg *msg, int wait_ms, struct malle_err *err)
{
	int64_t end = now_ms() + wait_ms;
	int n;

	for (;;) {
		if (conn->fd < 0)
			return fault_set(err, ECONNRESET, "the agent is gone");
		n = take(conn, msg, err);
		if (n) {
			if (n < 0)
				conn_close(conn);
			return n;
		}
		n = fill(conn, wait_ms, err);
		if (n <= 0)
			return n;
		if (wait_ms > 0)
			wait_ms = end > now_ms() ? (int)(end - now_ms()) : 0;
	}
}
