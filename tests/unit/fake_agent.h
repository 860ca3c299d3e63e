/*
 * fake_agent.h - the far end of libmalle, driven line by line by a test.
 *
 * A unix socket as a real agent has it, spoken with proto's own encoder and
 * decoder, so that both implementations of the wire meet here.  Every wait has
 * a limit and fails the test.
 */
#ifndef TESTS_FAKE_AGENT_H
#define TESTS_FAKE_AGENT_H

#include <check.h>
#include <jansson.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "proto/frame.h"
#include "proto/msg.h"

#define FAKE_RANKS    8
#define FAKE_LIMIT_MS 20000

struct fake_agent {
	char dir[64], path[80];
	int listener;
	int fds[FAKE_RANKS]; /* by rank */
	double replica_s;
};

static inline void fake_agent_init(struct fake_agent *a)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };

	strcpy(a->dir, "/tmp/check_worker.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(a->dir));
	snprintf(a->path, sizeof(a->path), "%s/agent", a->dir);
	strcpy(at.sun_path, a->path);
	a->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(bind(a->listener, (struct sockaddr *)&at, sizeof(at)), 0);
	ck_assert_int_eq(listen(a->listener, FAKE_RANKS), 0);
	for (int i = 0; i < FAKE_RANKS; i++)
		a->fds[i] = -1;
	a->replica_s = 0;
}

static inline void fake_agent_hang_up(struct fake_agent *a)
{
	for (int i = 0; i < FAKE_RANKS; i++) {
		if (a->fds[i] >= 0)
			close(a->fds[i]);
		a->fds[i] = -1;
	}
}

static inline void fake_agent_fini(struct fake_agent *a)
{
	char command[128];

	fake_agent_hang_up(a);
	close(a->listener);
	snprintf(command, sizeof(command), "rm -rf %s", a->dir);
	ck_assert_int_eq(system(command), 0);
}

static inline void fake_read(int fd, void *to, size_t n)
{
	char *p = to;

	while (n) {
		struct pollfd wait = { .fd = fd, .events = POLLIN };
		ssize_t got;

		ck_assert_msg(poll(&wait, 1, FAKE_LIMIT_MS) == 1, "a worker is silent");
		got = read(fd, p, n);
		ck_assert_msg(got > 0, "a worker hung up");
		p += got;
		n -= (size_t)got;
	}
}

/* The next message, whatever it is; the caller ends it. */
static inline void fake_next(int fd, struct msg *msg)
{
	uint8_t head[FRAME_HEADER_SIZE], body[4096];
	struct frame_header header;
	struct err err;

	fake_read(fd, head, sizeof(head));
	ck_assert_int_eq(frame_decode(head, &header, &err), 0);
	ck_assert_uint_le(header.length, sizeof(body));
	ck_assert_uint_eq(header.version, PROTO_VERSION);
	fake_read(fd, body, header.length);
	ck_assert_msg(
		msg_decode(msg, header.type, header.id, body, header.length, &err) == 0,
		"%s", err.text);
}

/* The next message of this type; others before it are passed over. */
static inline void fake_expect(int fd, enum msg_type type, struct msg *msg)
{
	for (;;) {
		fake_next(fd, msg);
		if (msg->type == type)
			return;
		msg_fini(msg);
	}
}

/* body_take is consumed */
static inline void fake_send(int fd, enum msg_type type, json_t *body_take)
{
	size_t size;
	struct err err;
	uint8_t *frame = msg_encode(type, 0, body_take, NULL, 0, &size, &err);

	ck_assert_msg(frame != NULL, "%s", err.text);
	ck_assert_int_eq(send(fd, frame, size, MSG_NOSIGNAL), (ssize_t)size);
	free(frame);
	json_decref(body_take);
}

/* Accept and greet one worker; the connection. */
static inline int fake_greet(struct fake_agent *a)
{
	struct pollfd wait = { .fd = a->listener, .events = POLLIN };
	struct msg msg;
	int fd;

	ck_assert_msg(poll(&wait, 1, FAKE_LIMIT_MS) == 1, "no worker comes");
	fd = accept(a->listener, NULL, NULL);
	ck_assert_int_ge(fd, 0);
	fake_next(fd, &msg);
	ck_assert_uint_eq(msg.type, MSG_HELLO);
	ck_assert_str_eq(msg_str(&msg, "role"), "worker");
	msg_fini(&msg);
	fake_send(fd, MSG_WELCOME,
		json_pack("{s:s,s:s}", "program", "fake", "instance", "1"));
	return fd;
}

/* Take in a world of n workers, up to where they wait for go. */
static inline void fake_world(struct fake_agent *a, int n)
{
	struct msg msg;

	for (int i = 0; i < n; i++) {
		int fd = fake_greet(a);
		long long rank;

		fake_next(fd, &msg);
		ck_assert_uint_eq(msg.type, MSG_WORKER_JOIN);
		ck_assert_str_eq(msg_str(&msg, "job"), "j1");
		rank = msg_int(&msg, "rank");
		ck_assert(rank >= 0 && rank < n && a->fds[rank] < 0);
		msg_fini(&msg);
		a->fds[rank] = fd;
		fake_send(fd, MSG_WORKER_WORLD,
			json_pack("{s:i,s:s,s:f}", "world_size", n, "state_dir", a->dir,
				"replica_s", a->replica_s));
	}
	for (int i = 0; i < n; i++) {
		fake_expect(a->fds[i], MSG_WORKER_READY, &msg);
		msg_fini(&msg);
	}
}

/* state may be NULL: the world begins. */
static inline void fake_go(struct fake_agent *a, int n, const char *state)
{
	for (int i = 0; i < n; i++)
		fake_send(a->fds[i], MSG_WORKER_GO,
			i == 0 && state
				? json_pack("{s:b,s:s}", "resume", 1, "state", state)
				: json_pack("{s:b}", "resume", state != NULL));
}

static inline void fake_propose(
	struct fake_agent *a, int n, int proposal, int step, const char *verdict)
{
	for (int i = 0; i < n; i++)
		fake_send(a->fds[i], MSG_WORKER_PROPOSE,
			json_pack("{s:i,s:i,s:s}", "proposal", proposal, "step", step,
				"verdict", verdict));
}

static inline void fake_last_word(
	struct fake_agent *a, int n, enum msg_type type, int proposal)
{
	for (int i = 0; i < n; i++)
		fake_send(a->fds[i], type, json_pack("{s:i}", "proposal", proposal));
}

/* Every worker's answer to this proposal; *step is the highest. */
static inline int fake_answers(
	struct fake_agent *a, int n, int proposal, long long *step)
{
	int agreed = 0;
	struct msg msg;

	*step = 0;
	for (int i = 0; i < n; i++) {
		fake_expect(a->fds[i], MSG_WORKER_ANSWER, &msg);
		ck_assert_int_eq(msg_int(&msg, "proposal"), proposal);
		agreed += msg_bool(&msg, "agreed");
		if (msg_int(&msg, "step") > *step)
			*step = msg_int(&msg, "step");
		msg_fini(&msg);
	}
	return agreed;
}

#endif
