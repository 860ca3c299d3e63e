/* check_link.c - links on real sockets, a raw socket at the other end. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "proto/frame.h"
#include "proto/link.h"

static char dir[64], path[96];
static struct loop *loop;
static struct link_listener *listener;
static struct loop_timer *limit;

/* What has happened so far. */
static struct {
	struct link *in; /* accepted */
	char role[33];
	unsigned accepts;
	unsigned types[64], ids[64];
	size_t n_msgs, raw_bytes;
	char refuse_text[600], gone[200];
	int n_gone;
} seen;

/* What the handler does with the next message. */
static enum { NOTHING = 0, CLOSE_IT, PAUSE_IT, ECHO_IT } doing;
static int (*wanted)(void);

static void too_long(void *arg)
{
	ck_abort_msg("the condition did not come true in time");
}

static void look(void *arg)
{
	if (wanted && wanted())
		loop_stop(loop);
	else
		ck_assert_int_eq(loop_defer(loop, look, NULL), 0);
}

/* Turn until the condition is true. */
static void turn_until(int (*condition)(void))
{
	wanted = condition;
	loop_timer_start(limit, 10);
	ck_assert_int_eq(loop_defer(loop, look, NULL), 0);
	ck_assert_int_eq(loop_run(loop), 0);
	loop_timer_stop(limit);
}

static void on_msg(struct link *link, const struct msg *msg, void *arg)
{
	if (seen.n_msgs < 64) {
		seen.types[seen.n_msgs] = msg->type;
		seen.ids[seen.n_msgs] = msg->id;
	}
	seen.n_msgs++;
	seen.raw_bytes += msg->raw_size;
	if (msg->type == MSG_REFUSE)
		snprintf(seen.refuse_text, sizeof(seen.refuse_text), "%s",
			msg_str(msg, "text"));
	switch (doing) {
	case CLOSE_IT:
		link_close(link);
		break;
	case PAUSE_IT:
		link_pause(link);
		break;
	case ECHO_IT:
		link_send(link, MSG_OK, msg->id, NULL);
		break;
	case NOTHING:
		break;
	}
}

static void on_gone(struct link *link, const char *why, void *arg)
{
	seen.n_gone++;
	snprintf(seen.gone, sizeof(seen.gone), "%s", why);
	if (link == seen.in)
		seen.in = NULL;
}

static const struct link_handlers handlers = { .on_msg = on_msg, .on_gone = on_gone };

static void on_link(struct link *link, const struct msg *hello, void *arg)
{
	seen.in = link;
	seen.accepts++;
	snprintf(seen.role, sizeof(seen.role), "%s", msg_str(hello, "role"));
	link_set_handlers(link, &handlers, NULL);
}

static void setup(void)
{
	struct err err;

	snprintf(dir, sizeof(dir), "/tmp/check_link.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/sock", dir);
	memset(&seen, 0, sizeof(seen));
	doing = NOTHING;
	loop = loop_create(&err);
	ck_assert_ptr_nonnull(loop);
	limit = loop_timer_create(loop, too_long, NULL);
	listener = link_listen(
		loop, path, 0600, &auth_peer, "instance-1", on_link, NULL, &err);
	ck_assert_msg(listener != NULL, "%s", err.text);
}

static void teardown(void)
{
	struct stat st;

	link_close(seen.in);
	link_listener_destroy(listener);
	ck_assert_int_eq(lstat(path, &st), -1);
	loop_timer_destroy(limit);
	loop_destroy(loop);
	ck_assert_int_eq(rmdir(dir), 0);
}

/* --- the raw end ----------------------------------------------------------- */

static int raw_connect(void)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un addr = { .sun_family = AF_UNIX };

	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", path);
	ck_assert_int_eq(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	return fd;
}

static void raw_frame_v(int fd, unsigned version, unsigned type, unsigned id,
	const void *body, size_t size)
{
	struct frame_header header = { FRAME_MAGIC, (uint16_t)version, (uint16_t)type,
		(uint32_t)size, id };
	uint8_t head[FRAME_HEADER_SIZE];

	frame_encode(&header, head);
	ck_assert_int_eq(send(fd, head, sizeof(head), MSG_NOSIGNAL), sizeof(head));
	if (size)
		ck_assert_int_eq(send(fd, body, size, MSG_NOSIGNAL), (ssize_t)size);
}

static void raw_frame(int fd, unsigned type, unsigned id, const char *json)
{
	raw_frame_v(fd, PROTO_VERSION, type, id, json, strlen(json));
}

static int raw_fd = -1;

static int raw_is_readable(void)
{
	struct pollfd p = { .fd = raw_fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

/* Wait for a frame, check its type, its body into buf. */
static void raw_expect(int fd, unsigned type, char *buf, size_t size)
{
	uint8_t head[FRAME_HEADER_SIZE];
	struct frame_header header;

	raw_fd = fd;
	turn_until(raw_is_readable);
	ck_assert_int_eq(recv(fd, head, sizeof(head), MSG_WAITALL), FRAME_HEADER_SIZE);
	ck_assert_int_eq(frame_decode(head, &header, NULL), 0);
	ck_assert_uint_eq(header.type, type);
	ck_assert_uint_eq(header.version, PROTO_VERSION);
	ck_assert_uint_lt(header.length, size);
	ck_assert_int_eq(
		recv(fd, buf, header.length, MSG_WAITALL), (ssize_t)header.length);
	buf[header.length] = '\0';
}

static void raw_expect_end(int fd)
{
	char byte;

	raw_fd = fd;
	turn_until(raw_is_readable);
	ck_assert_int_eq(recv(fd, &byte, 1, 0), 0);
}

static int raw_greeted(void)
{
	char body[512];
	int fd = raw_connect();

	raw_frame(fd, MSG_HELLO, 0, "{\"role\":\"client\"}");
	raw_expect(fd, MSG_WELCOME, body, sizeof(body));
	ck_assert_ptr_nonnull(strstr(body, "\"instance\":\"instance-1\""));
	ck_assert_ptr_nonnull(seen.in);
	return fd;
}

static int got_one(void)
{
	return seen.n_msgs >= 1;
}

static int got_three(void)
{
	return seen.n_msgs >= 3;
}

static int is_gone(void)
{
	return seen.n_gone > 0;
}

static int is_accepted(void)
{
	return seen.accepts > 0;
}

/* --- tests ----------------------------------------------------------------- */

START_TEST(a_hello_is_answered_by_a_welcome_and_the_peer_is_known)
{
	int fd = raw_greeted();

	ck_assert_str_eq(seen.role, "client");
	ck_assert_uint_eq(link_identity(seen.in)->uid, getuid());
	ck_assert_int_eq(link_identity(seen.in)->pid, getpid());
	ck_assert_str_eq(link_identity(seen.in)->how, "peer");
	close(fd);
	turn_until(is_gone);
	ck_assert_str_eq(seen.gone, "it closed the connection");
	ck_assert_int_eq(seen.n_gone, 1);
}
END_TEST

static const struct {
	const char *what;
	unsigned version, type;
	const char *body;
	const char *text; /* in the refuse */
} bad_first[] = {
	{ "another version", 7, MSG_HELLO, "{\"role\":\"client\"}",
		"speaks version 7" },
	{ "another version: ours too", 7, MSG_HELLO, "{}", "speaks version 1" },
	{ "no hello", 1, MSG_PING, "{}", "the first message is no hello" },
	{ "no role", 1, MSG_HELLO, "{}", "hello: field role is missing" },
	{ "a role of another kind", 1, MSG_HELLO, "{\"role\":3}",
		"hello: field role is not a string" },
	{ "no JSON", 1, MSG_HELLO, "hello", "hello: body" },
	{ "an empty body", 1, MSG_HELLO, "", "hello: body" },
	{ "an unknown message", 1, 999, "{}", "message 999 is unknown" },
};

START_TEST(a_wrong_first_message_is_refused_in_words_and_closed)
{
	char body[600];
	int fd = raw_connect();

	raw_frame_v(fd, bad_first[_i].version, bad_first[_i].type, 3,
		bad_first[_i].body, strlen(bad_first[_i].body));
	raw_expect(fd, MSG_REFUSE, body, sizeof(body));
	ck_assert_msg(strstr(body, bad_first[_i].text) != NULL, "%s: %s",
		bad_first[_i].what, body);
	raw_expect_end(fd);
	ck_assert_uint_eq(seen.accepts, 0);
	close(fd);
}
END_TEST

START_TEST(a_hello_that_is_too_long_is_refused_before_it_has_come)
{
	struct frame_header header = { FRAME_MAGIC, PROTO_VERSION, MSG_HELLO, 1 << 20,
		0 };
	uint8_t head[FRAME_HEADER_SIZE];
	char body[600];
	int fd = raw_connect();

	frame_encode(&header, head);
	ck_assert_int_eq(send(fd, head, sizeof(head), 0), sizeof(head));
	raw_expect(fd, MSG_REFUSE, body, sizeof(body));
	raw_expect_end(fd);
	close(fd);
}
END_TEST

static const struct {
	const char *what;
	const char *bytes;
	size_t size;
	const char *why;
} breaks[] = {
	{ "wrong magic", "GET / HTTP/1.1\r\n", 16, "magic" },
	{ "oversize", "MALL\0\1\0\5\0\x50\0\0\0\0\0\0", 16, "is over" },
	{ "a body that is no JSON", "MALL\0\1\0\5\0\0\0\1\0\0\0\2[", 17, "ping: body" },
	{ "a body that is no object", "MALL\0\1\0\5\0\0\0\2\0\0\0\2[]", 18,
		"ping: the body is no object" },
	{ "raw bytes where none belong", "MALL\0\1\0\5\0\0\0\4\0\0\0\2{}\0x", 20,
		"ping: byte 2 of the body is NUL" },
	{ "another version", "MALL\0\2\0\5\0\0\0\0\0\0\0\2", 16, "speaks version 2" },
};

START_TEST(a_peer_that_breaks_the_protocol_is_told_and_gone)
{
	char body[600];
	int fd = raw_greeted();

	ck_assert_int_eq(send(fd, breaks[_i].bytes, breaks[_i].size, 0),
		(ssize_t)breaks[_i].size);
	raw_expect(fd, MSG_REFUSE, body, sizeof(body));
	raw_expect_end(fd);
	ck_assert_int_eq(seen.n_gone, 1);
	ck_assert_msg(strstr(seen.gone, breaks[_i].why) != NULL, "%s: %s",
		breaks[_i].what, seen.gone);
	ck_assert_uint_eq(seen.n_msgs, 0);
	close(fd);
}
END_TEST

START_TEST(every_whole_message_of_one_write_is_handed_over)
{
	int fd = raw_greeted();
	uint8_t all[3 * (FRAME_HEADER_SIZE + 2) + 5];
	struct frame_header header = { FRAME_MAGIC, PROTO_VERSION, MSG_PING, 2, 0 };

	for (size_t i = 0; i < 3; i++) {
		header.id = (uint32_t)(10 + i);
		frame_encode(&header, all + i * 18);
		memcpy(all + i * 18 + 16, "{}", 2);
	}
	memcpy(all + 54, "MALL", 5); /* and the beginning of another */
	ck_assert_int_eq(send(fd, all, sizeof(all), 0), sizeof(all));
	turn_until(got_three);
	ck_assert_uint_eq(seen.ids[0], 10);
	ck_assert_uint_eq(seen.ids[2], 12);
	close(fd);
	turn_until(is_gone);
	ck_assert_str_eq(seen.gone, "it ended in the middle of a message");
	ck_assert_uint_eq(seen.n_msgs, 3);
}
END_TEST

START_TEST(a_message_that_comes_byte_by_byte_is_whole_in_the_end)
{
	static const char bytes[] = "MALL\0\1\0\5\0\0\0\2\0\0\0\7{}";
	int fd = raw_greeted();

	for (size_t i = 0; i < sizeof(bytes) - 1; i++) {
		ck_assert_uint_eq(seen.n_msgs, 0);
		ck_assert_int_eq(send(fd, bytes + i, 1, 0), 1);
		loop_timer_start(limit, 10);
		loop_stop(loop);
		ck_assert_int_eq(loop_defer(loop, (loop_f)loop_stop, loop), 0);
		loop_run(loop); /* returns at once: stopped before it began */
		ck_assert_int_eq(loop_run(loop), 0);
	}
	turn_until(got_one);
	ck_assert_uint_eq(seen.ids[0], 7);
	close(fd);
}
END_TEST

START_TEST(a_link_closed_in_its_own_callback_hands_over_nothing_more)
{
	int fd = raw_greeted();

	doing = CLOSE_IT;
	for (unsigned i = 1; i <= 3; i++)
		raw_frame(fd, MSG_PING, i, "{}");
	turn_until(got_one);
	seen.in = NULL;
	ck_assert_uint_eq(seen.n_msgs, 1);
	ck_assert_int_eq(seen.n_gone, 0);
	close(fd);
}
END_TEST

START_TEST(a_paused_link_keeps_what_came_until_it_is_resumed)
{
	int fd = raw_greeted();

	doing = PAUSE_IT;
	for (unsigned i = 1; i <= 3; i++)
		raw_frame(fd, MSG_PING, i, "{}");
	turn_until(got_one);
	doing = NOTHING;
	ck_assert_uint_eq(seen.n_msgs, 1);
	link_resume(seen.in);
	ck_assert_uint_eq(seen.n_msgs, 1);
	turn_until(got_three);
	ck_assert_uint_eq(seen.ids[1], 2);
	ck_assert_uint_eq(seen.ids[2], 3);
	close(fd);
}
END_TEST

START_TEST(the_last_words_of_a_peer_are_heard_even_when_writing_fails)
{
	int fd = raw_greeted();
	struct link *in = seen.in;

	raw_frame(fd, MSG_PING, 1, "{}");
	raw_frame(fd, MSG_PING, 2, "{}");
	raw_frame(fd, MSG_PING, 3, "{}");
	close(fd);
	/* The peer is gone: this cannot arrive, and must not kill us either. */
	ck_assert_int_eq(link_send(in, MSG_PING, 1, NULL), 0);
	turn_until(is_gone);
	ck_assert_uint_eq(seen.n_msgs, 3);
	ck_assert_int_eq(seen.n_gone, 1);
}
END_TEST

START_TEST(a_large_raw_body_arrives_whole_and_in_pieces)
{
	size_t raw = 3 << 20, size;
	char head[80];
	char *body = calloc(1, raw + sizeof(head));
	int n = snprintf(head, sizeof(head),
		"{\"job\":\"j1\",\"step\":1,\"offset\":0,\"bytes\":%zu}", raw);
	struct link *out;
	struct err err;

	memcpy(body, head, (size_t)n);
	size = (size_t)n + 1 + raw;
	out = link_connect(loop, path, "peer", &handlers, NULL, &err);
	ck_assert_msg(out != NULL, "%s", err.text);
	turn_until(is_accepted);
	ck_assert_int_eq(link_send_raw(seen.in, MSG_STATE_DATA, 4,
				 json_pack("{s:s, s:i, s:i, s:I}", "job", "j1", "step",
					 1, "offset", 0, "bytes", (json_int_t)raw),
				 body, raw),
		0);
	ck_assert_uint_gt(link_queued(seen.in), 0);
	link_send(seen.in, MSG_PING, 5, NULL);
	turn_until(got_three); /* the welcome, the data, the ping */
	ck_assert_uint_eq(seen.types[0], MSG_WELCOME);
	ck_assert_uint_eq(seen.types[1], MSG_STATE_DATA);
	ck_assert_uint_eq(seen.raw_bytes, raw);
	ck_assert_uint_eq(link_queued(seen.in), 0);
	ck_assert_uint_gt(size, raw);
	link_close(out);
	turn_until(is_gone);
	free(body);
}
END_TEST

START_TEST(what_is_queued_is_sent_after_a_close)
{
	struct link *out;
	struct err err;
	char *raw = calloc(1, 1 << 20);

	out = link_connect(loop, path, "peer", &handlers, NULL, &err);
	ck_assert_msg(out != NULL, "%s", err.text);
	turn_until(is_accepted);
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(
			link_send_raw(seen.in, MSG_JOB_OUTPUT, 0,
				json_pack("{s:s, s:i}", "job", "j1", "stream", 1), raw,
				1 << 20),
			0);
	link_close(seen.in);
	ck_assert_int_eq(link_send(seen.in, MSG_PING, 1, NULL), -1);
	ck_assert_int_eq(errno, EPIPE);
	seen.in = NULL;
	turn_until(is_gone);
	ck_assert_uint_eq(seen.raw_bytes, 4 << 20);
	free(raw);
}
END_TEST

START_TEST(a_link_that_lingers_is_buried_with_the_loop)
{
	int fd = raw_greeted();
	char *raw = calloc(1, 2 << 20);

	ck_assert_int_eq(link_send_raw(seen.in, MSG_JOB_OUTPUT, 0,
				 json_pack("{s:s, s:i}", "job", "j1", "stream", 1), raw,
				 2 << 20),
		0);
	link_close(seen.in); /* the leak checker watches over the rest */
	seen.in = NULL;
	close(fd);
	free(raw);
}
END_TEST

START_TEST(a_body_that_its_table_refuses_is_not_sent)
{
	int fd = raw_greeted();

	ck_assert_int_eq(
		link_send(seen.in, MSG_REFUSE, 0, json_pack("{s:i}", "code", 1)), -1);
	ck_assert_int_eq(errno, EINVAL);
	close(fd);
}
END_TEST

START_TEST(a_refuse_of_another_version_still_reaches_its_reader)
{
	static const char text[] = "{\"code\":65,\"text\":\"you are too new\"}";
	char hello[512];
	struct link *out;
	struct err err;
	int fd, peer;
	struct sockaddr_un addr = { .sun_family = AF_UNIX };

	link_listener_destroy(listener);
	listener = NULL;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", path);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	ck_assert_int_eq(listen(fd, 1), 0);
	out = link_connect(loop, path, "client", &handlers, NULL, &err);
	ck_assert_msg(out != NULL, "%s", err.text);
	peer = accept(fd, NULL, NULL);
	raw_expect(peer, MSG_HELLO, hello, sizeof(hello));
	ck_assert_ptr_nonnull(strstr(hello, "\"role\":\"client\""));
	raw_frame_v(peer, 9, MSG_REFUSE, 0, text, sizeof(text) - 1);
	close(peer);
	turn_until(is_gone);
	ck_assert_str_eq(seen.refuse_text, "you are too new");
	close(fd);
	unlink(path);
}
END_TEST

START_TEST(a_socket_file_that_nobody_answers_at_is_replaced)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	struct stat st;
	struct err err;
	int fd;

	ck_assert_ptr_null(
		link_listen(loop, path, 0600, &auth_peer, "i2", on_link, NULL, &err));
	ck_assert_int_eq(errno, EADDRINUSE);
	link_listener_destroy(listener);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", path);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	close(fd); /* as a killed program leaves it */
	listener = link_listen(
		loop, path, 0640, &auth_peer, "instance-1", on_link, NULL, &err);
	ck_assert_msg(listener != NULL, "%s", err.text);
	ck_assert_int_eq(lstat(path, &st), 0);
	ck_assert_uint_eq(st.st_mode & 0777, 0640);
	close(raw_greeted());
}
END_TEST

START_TEST(a_file_that_is_no_socket_is_left_alone)
{
	struct err err;
	char other[128];
	int fd;

	snprintf(other, sizeof(other), "%s/file", dir);
	fd = open(other, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	close(fd);
	ck_assert_ptr_null(
		link_listen(loop, other, 0600, &auth_peer, "i2", on_link, NULL, &err));
	ck_assert_int_eq(errno, EEXIST);
	ck_assert_int_eq(unlink(other), 0);
}
END_TEST

START_TEST(connecting_to_nobody_says_so)
{
	struct err err;
	char other[300];

	snprintf(other, sizeof(other), "%s/nobody", dir);
	ck_assert_ptr_null(link_connect(loop, other, "client", &handlers, NULL, &err));
	ck_assert_int_eq(errno, ENOENT);
	ck_assert_ptr_nonnull(strstr(err.text, other));
	memset(other, 'x', sizeof(other) - 1);
	other[sizeof(other) - 1] = '\0';
	ck_assert_ptr_null(link_connect(loop, other, "client", &handlers, NULL, &err));
	ck_assert_int_eq(errno, ENAMETOOLONG);
}
END_TEST

START_TEST(descriptors_do_not_leak_into_children)
{
	int fd = raw_greeted(), max = 64, open_fds = 0;

	for (int i = 3; i < max; i++) {
		int flags = fcntl(i, F_GETFD);
		struct stat st;

		if (flags < 0 || i == fd || fstat(i, &st) < 0 || !S_ISSOCK(st.st_mode))
			continue;
		open_fds++;
		ck_assert_msg(flags & FD_CLOEXEC, "descriptor %d stays open", i);
	}
	ck_assert_int_ge(open_fds, 2); /* the listener, the link */
	close(fd);
}
END_TEST

START_TEST(ids_of_requests_are_never_zero)
{
	int fd = raw_greeted();
	uint32_t first = link_next_id(seen.in);

	ck_assert_uint_ne(first, 0);
	ck_assert_uint_ne(link_next_id(seen.in), first);
	close(fd);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("link");
	TCase *tc = tcase_create("link");
	SRunner *runner;
	int failed;

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, a_hello_is_answered_by_a_welcome_and_the_peer_is_known);
	tcase_add_loop_test(tc, a_wrong_first_message_is_refused_in_words_and_closed, 0,
		sizeof(bad_first) / sizeof(bad_first[0]));
	tcase_add_test(tc, a_hello_that_is_too_long_is_refused_before_it_has_come);
	tcase_add_loop_test(tc, a_peer_that_breaks_the_protocol_is_told_and_gone, 0,
		sizeof(breaks) / sizeof(breaks[0]));
	tcase_add_test(tc, every_whole_message_of_one_write_is_handed_over);
	tcase_add_test(tc, a_message_that_comes_byte_by_byte_is_whole_in_the_end);
	tcase_add_test(tc, a_link_closed_in_its_own_callback_hands_over_nothing_more);
	tcase_add_test(tc, a_paused_link_keeps_what_came_until_it_is_resumed);
	tcase_add_test(tc, the_last_words_of_a_peer_are_heard_even_when_writing_fails);
	tcase_add_test(tc, a_large_raw_body_arrives_whole_and_in_pieces);
	tcase_add_test(tc, what_is_queued_is_sent_after_a_close);
	tcase_add_test(tc, a_link_that_lingers_is_buried_with_the_loop);
	tcase_add_test(tc, a_body_that_its_table_refuses_is_not_sent);
	tcase_add_test(tc, a_refuse_of_another_version_still_reaches_its_reader);
	tcase_add_test(tc, a_socket_file_that_nobody_answers_at_is_replaced);
	tcase_add_test(tc, a_file_that_is_no_socket_is_left_alone);
	tcase_add_test(tc, connecting_to_nobody_says_so);
	tcase_add_test(tc, descriptors_do_not_leak_into_children);
	tcase_add_test(tc, ids_of_requests_are_never_zero);
	suite_add_tcase(suite, tc);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}
