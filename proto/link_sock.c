/*
 * link_sock.c - links on unix stream sockets.
 *
 * The life of a link:
 *
 *   greeting  accepted; identified, its hello has not come.  The listener's.
 *   open      messages go both ways.  Its user's.
 *   linger    closed by us: what is queued is sent, nothing is read or handed
 *             over any more.  Nobody's: it ends by itself, by its deadline, or
 *             with the loop.
 *   dead      the descriptor is closed; freed at the end of the turn.
 *
 * Input is read until there is none and each whole frame is handed over at
 * once, whatever its handler does to the link: nothing is freed before the
 * end of the turn.  A frame's header is judged (magic, length) before its body
 * is allocated, and a body is read straight to where it stays.  A link between
 * two frames holds no buffer.
 *
 * Output is a queue of frames.  A send tries the socket first, so that a
 * message does not wait for the turn to end; what the socket refuses for now
 * goes when it is writable.  MSG_NOSIGNAL makes a vanished peer an ordinary
 * failure; and before such a failure is reported everything that the peer had
 * sent is read: its last words count.
 *
 * A peer of another version gets a refuse that names both versions, in a frame
 * of ours, and is closed.  A refuse of another version is read nevertheless, so
 * that the sentence reaches whoever can act on it.  A peer that breaks the
 * protocol is told how, and closed.
 *
 * Limits: a body of FRAME_BODY_MAX bytes, GREETING_BODY_MAX for a hello; 10 s for
 * a hello to come (link_listen.c) and for a peer to take our last words.
 */
#include "proto/link.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/link_impl.h"
#include "proto/link_sock.h"
#include "proto/log.h"

enum {
	CHUNK_SIZE = 64 << 10,        /* read at once */
	TURN_BYTES_MAX = 4 << 20,     /* read in one turn: others wait */
	GREETING_BODY_MAX = 16 << 10, /* nobody says hello in more */
};

static const double last_words_limit_s = 10;

static void sock_gone(struct sock_link *sl, const char *why);

/* --- birth and death ------------------------------------------------------- */

static void sock_free(struct sock_link *sl)
{
	struct out_frame *out;

	if (sl->listener)
		link_listener_forget(sl->listener, sl);
	while ((out = STAILQ_FIRST(&sl->out))) {
		STAILQ_REMOVE_HEAD(&sl->out, entry);
		free(out->bytes);
		free(out);
	}
	loop_end_destroy(sl->end);
	loop_timer_destroy(sl->timer);
	loop_io_destroy(sl->io);
	if (sl->fd >= 0)
		close(sl->fd);
	free(sl->body);
	free(sl->held);
	free(sl);
}

static void sock_bury(void *arg)
{
	struct sock_link *sl = arg;

	loop_undefer(sl->loop, sock_bury, sl);
	sock_free(sl);
}

/* The descriptor goes now, the memory at the end of the turn. */
static void sock_die(struct sock_link *sl)
{
	if (sl->state == SOCK_DEAD)
		return;
	sl->state = SOCK_DEAD;
	if (sl->listener)
		link_listener_forget(sl->listener, sl);
	loop_io_destroy(sl->io);
	sl->io = NULL;
	close(sl->fd);
	sl->fd = -1;
	loop_timer_stop(sl->timer);
	if (loop_defer(sl->loop, sock_bury, sl) < 0)
		loop_timer_start(sl->timer, 0); /* buries the dead, a turn later */
}

static void update_interest(struct sock_link *sl)
{
	unsigned interest = STAILQ_EMPTY(&sl->out) ? LOOP_NONE : LOOP_WRITE;

	if ((sl->state == SOCK_OPEN && !sl->paused) || sl->state == SOCK_GREETING)
		interest |= LOOP_READ;
	/* A link that cannot be waited for is one that cannot go on. */
	if (loop_io_set(sl->io, interest) < 0 && interest != LOOP_NONE)
		loop_timer_start(sl->timer, 0);
}

/* No callback after this; what is queued still goes. */
static void sock_close(struct link *link)
{
	struct sock_link *sl = (struct sock_link *)link;

	if (sl->state == SOCK_DEAD || sl->state == SOCK_LINGER)
		return;
	if (STAILQ_EMPTY(&sl->out)) {
		sock_die(sl);
		return;
	}
	if (sl->listener)
		link_listener_forget(sl->listener, sl);
	sl->state = SOCK_LINGER;
	loop_timer_start(sl->timer, last_words_limit_s);
	update_interest(sl);
}

static void tell_gone(struct sock_link *sl, const char *why)
{
	if (sl->link.handlers.on_gone)
		sl->link.handlers.on_gone(&sl->link, why, sl->link.arg);
}

/* The peer is not there any more. */
static void sock_gone(struct sock_link *sl, const char *why)
{
	int was_open = sl->state == SOCK_OPEN;

	log_debug("link", "%s is gone: %s", sl->link.name, why);
	sock_die(sl);
	if (was_open)
		tell_gone(sl, why);
}

/* The peer is there but cannot be talked with: say so to both sides. */
static void sock_break(struct sock_link *sl, uint32_t id, int code, const char *why)
{
	int was_open = sl->state == SOCK_OPEN;

	link_refuse(&sl->link, id, code, "%s", why);
	sock_close(&sl->link);
	if (was_open)
		tell_gone(sl, why);
	else
		log_notice("link", "%s is not let in: %s", sl->link.name, why);
}

static void sock_end(void *arg)
{
	struct sock_link *sl = arg;

	sl->end = NULL; /* it ends itself */
	sock_bury(sl);
}

/* --- output ---------------------------------------------------------------- */

/* As much as the socket takes.  -1: the peer is gone, errno says how. */
static int flush(struct sock_link *sl)
{
	struct out_frame *out;

	while ((out = STAILQ_FIRST(&sl->out))) {
		ssize_t n = send(sl->fd, out->bytes + out->sent, out->size - out->sent,
			MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN || errno == ENOBUFS ? 0 : -1;
		out->sent += (size_t)n;
		sl->queued -= (size_t)n;
		if (out->sent < out->size)
			continue;
		STAILQ_REMOVE_HEAD(&sl->out, entry);
		free(out->bytes);
		free(out);
	}
	return 0;
}

/*
 * A failure is not reported from here, where a handler may be at work: the
 * frame stays queued, and the loop finds the socket writable and broken.
 */
static int sock_write(struct link *link, uint8_t *frame_take, size_t size)
{
	struct sock_link *sl = (struct sock_link *)link;
	struct out_frame *out;

	if (sl->state == SOCK_DEAD || sl->state == SOCK_LINGER) {
		free(frame_take);
		errno = EPIPE;
		return -1;
	}
	out = malloc(sizeof(*out));
	if (!out) {
		free(frame_take);
		return -1;
	}
	*out = (struct out_frame){ .bytes = frame_take, .size = size };
	STAILQ_INSERT_TAIL(&sl->out, out, entry);
	sl->queued += size;
	if (STAILQ_FIRST(&sl->out) == out)
		flush(sl);
	update_interest(sl);
	return 0;
}

static size_t sock_queued(const struct link *link)
{
	return ((const struct sock_link *)link)->queued;
}

/* --- input ----------------------------------------------------------------- */

static int sock_readable(const struct sock_link *sl)
{
	return (sl->state == SOCK_OPEN && !sl->paused) || sl->state == SOCK_GREETING;
}

static void wrong_version(struct sock_link *sl, const struct frame_header *header)
{
	char why[160];

	snprintf(why, sizeof(why),
		"the peer speaks version %u of the protocol, %s speaks version %d",
		header->version, program_invocation_short_name, PROTO_VERSION);
	sock_break(sl, header->id, EXIT_NO_DAEMON, why);
}

/* A whole frame has come. */
static void take_frame(struct sock_link *sl)
{
	struct frame_header header = sl->header;
	uint8_t *body = sl->body;
	struct msg msg;
	struct err err;

	sl->head_have = sl->body_have = 0;
	sl->body = NULL;
	if (header.version != PROTO_VERSION && header.type != MSG_REFUSE) {
		wrong_version(sl, &header);
	} else if (link_decode(&sl->link, &header, body, &msg, &err) < 0) {
		sock_break(sl, header.id, EXIT_BAD_DATA, err.text);
	} else {
		if (sl->state == SOCK_GREETING)
			link_listener_greet(sl->listener, sl, &msg);
		else
			link_deliver(&sl->link, &msg);
		msg_fini(&msg);
	}
	free(body);
}

/* The header is complete: judge it, then make room for the body. */
static void take_header(struct sock_link *sl)
{
	struct err err;

	if (frame_decode(sl->head, &sl->header, &err) < 0) {
		sock_break(sl, 0, EXIT_BAD_DATA, err.text);
		return;
	}
	if (sl->state == SOCK_GREETING && sl->header.length > GREETING_BODY_MAX) {
		sock_break(sl, sl->header.id, EXIT_BAD_DATA,
			"the first message is too long");
		return;
	}
	if (sl->header.length == 0) {
		take_frame(sl);
		return;
	}
	sl->body = malloc(sl->header.length);
	if (!sl->body)
		sock_gone(sl, "no memory for a message");
}

/* Bytes that are still missing in the part (header, body) being read. */
static size_t part_missing(const struct sock_link *sl)
{
	if (sl->head_have < FRAME_HEADER_SIZE)
		return FRAME_HEADER_SIZE - sl->head_have;
	return sl->header.length - sl->body_have;
}

static void part_grew(struct sock_link *sl, size_t n)
{
	if (sl->head_have < FRAME_HEADER_SIZE) {
		sl->head_have += n;
		if (sl->head_have == FRAME_HEADER_SIZE)
			take_header(sl);
		return;
	}
	sl->body_have += n;
	if (sl->body_have == sl->header.length)
		take_frame(sl);
}

static uint8_t *part_end(struct sock_link *sl)
{
	return sl->head_have < FRAME_HEADER_SIZE ? sl->head + sl->head_have
						 : sl->body + sl->body_have;
}

/* Returns how many of the bytes were taken: not all when a handler paused. */
static size_t feed(struct sock_link *sl, const uint8_t *bytes, size_t size)
{
	size_t used = 0;

	while (used < size && sock_readable(sl)) {
		size_t n = part_missing(sl);

		n = n < size - used ? n : size - used;
		memcpy(part_end(sl), bytes + used, n);
		used += n;
		part_grew(sl, n);
	}
	return used;
}

/* What came before the handler paused: kept until it resumes. */
static void hold(struct sock_link *sl, const uint8_t *bytes, size_t size)
{
	uint8_t *held;

	if (sl->state != SOCK_OPEN || size == 0)
		return;
	held = malloc(size);
	if (!held) {
		sock_gone(sl, "no memory for a message");
		return;
	}
	memcpy(held, bytes, size);
	free(sl->held);
	sl->held = held;
	sl->held_size = size;
}

static void feed_held(struct sock_link *sl)
{
	uint8_t *held = sl->held;
	size_t size = sl->held_size, used;

	if (!held || !sock_readable(sl))
		return;
	sl->held = NULL;
	sl->held_size = 0;
	used = feed(sl, held, size);
	hold(sl, held + used, size - used);
	free(held);
}

/* 1: something came, 0: nothing now, -1: gone, and *why says how. */
static int read_some(struct sock_link *sl, size_t *total, const char **why)
{
	uint8_t chunk[CHUNK_SIZE];
	/* Most of a large body goes straight to its place. */
	int direct =
		sl->head_have == FRAME_HEADER_SIZE && part_missing(sl) > CHUNK_SIZE;
	uint8_t *to = direct ? part_end(sl) : chunk;
	ssize_t n = recv(
		sl->fd, to, direct ? part_missing(sl) : sizeof(chunk), MSG_DONTWAIT);

	if (n > 0) {
		*total += (size_t)n;
		if (direct) {
			part_grew(sl, (size_t)n);
		} else {
			size_t used = feed(sl, chunk, (size_t)n);

			hold(sl, chunk + used, (size_t)n - used);
		}
		return 1;
	}
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n < 0)
		*why = strerror(errno);
	else
		*why = sl->head_have ? "it ended in the middle of a message"
				     : "it closed the connection";
	return -1;
}

static void read_all(struct sock_link *sl)
{
	size_t total = 0;
	const char *why = NULL;
	int rc = 1;

	feed_held(sl);
	while (rc > 0 && total < TURN_BYTES_MAX && sock_readable(sl))
		rc = read_some(sl, &total, &why);
	if (rc < 0)
		sock_gone(sl, why);
}

/* Writing failed: hear the last words, whatever is paused, then give up. */
static void read_last_words(struct sock_link *sl, const char *why)
{
	size_t total = 0;
	const char *ignored;

	do {
		sl->paused = 0;
		feed_held(sl);
		sl->paused = 0;
	} while (sl->state == SOCK_OPEN &&
		 (sl->held || read_some(sl, &total, &ignored) > 0));
	if (sl->state != SOCK_DEAD)
		sock_gone(sl, why);
}

static void sock_ready(int fd, unsigned ready, void *arg)
{
	struct sock_link *sl = arg;

	if (ready & LOOP_WRITE) {
		if (flush(sl) < 0) {
			read_last_words(sl, strerror(errno));
			return;
		}
		if (sl->state == SOCK_LINGER && STAILQ_EMPTY(&sl->out)) {
			sock_die(sl);
			return;
		}
	}
	if (ready & LOOP_READ)
		read_all(sl);
	if (sl->state != SOCK_DEAD)
		update_interest(sl);
}

/* Also wakes a link that was resumed with whole messages in hand. */
static void sock_time_is_up(void *arg)
{
	struct sock_link *sl = arg;

	switch (sl->state) {
	case SOCK_GREETING:
		sock_break(sl, 0, EXIT_TRY_AGAIN, "no hello came in time");
		break;
	case SOCK_OPEN:
		read_all(sl);
		if (sl->state != SOCK_DEAD)
			update_interest(sl);
		break;
	case SOCK_LINGER:
		sock_die(sl);
		break;
	case SOCK_DEAD:
		sock_bury(sl);
		break;
	}
}

static void sock_pause(struct link *link, int paused)
{
	struct sock_link *sl = (struct sock_link *)link;

	if (sl->state != SOCK_OPEN || sl->paused == paused)
		return;
	sl->paused = paused;
	if (!paused && sl->held)
		loop_timer_start(sl->timer, 0); /* not inside this call */
	update_interest(sl);
}

static const struct link_ops sock_ops = {
	.write = sock_write,
	.close = sock_close,
	.queued = sock_queued,
	.pause = sock_pause,
};

struct sock_link *sock_link_create(
	struct loop *loop, int fd_take, enum sock_state state, struct err *err)
{
	struct sock_link *sl = calloc(1, sizeof(*sl));

	if (!sl) {
		close(fd_take);
		err_set(err, ENOMEM, "link: out of memory");
		return NULL;
	}
	sl->link.ops = &sock_ops;
	sl->loop = loop;
	sl->fd = fd_take;
	sl->state = state;
	STAILQ_INIT(&sl->out);
	sl->timer = loop_timer_create(loop, sock_time_is_up, sl);
	sl->end = loop_end_create(loop, sock_end, sl);
	sl->io = loop_io_create(loop, sl->fd, LOOP_READ, sock_ready, sl);
	if (!sl->timer || !sl->end || !sl->io) {
		sock_free(sl);
		err_set(err, ENOMEM, "link: out of memory");
		return NULL;
	}
	return sl;
}

struct link *link_connect(struct loop *loop, const char *path, const char *role,
	const struct link_handlers *handlers, void *arg, struct err *err)
{
	char program[40];
	struct sock_link *sl;
	json_t *hello;
	int fd = sock_connect(path, err);

	if (fd < 0)
		return NULL;
	sl = sock_link_create(loop, fd, SOCK_OPEN, err);
	if (!sl)
		return NULL;
	/* The kernel knows who listens: both sides know each other. */
	if (auth_peer.identify(fd, NULL, &sl->link.identity, err) < 0)
		goto fail;
	link_set_name(&sl->link, "%s", path);
	hello = json_pack("{s:s, s:s}", "role", role, "program",
		link_program(program, sizeof(program)));
	if (!hello || link_send(&sl->link, MSG_HELLO, 0, hello) < 0) {
		err_set(err, hello ? errno : ENOMEM, "%s: hello: %s", path,
			strerror(hello ? errno : ENOMEM));
		goto fail;
	}
	link_set_handlers(&sl->link, handlers, arg);
	return &sl->link;

fail:
	sock_free(sl);
	return NULL;
}
