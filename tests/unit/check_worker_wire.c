/* check_worker_wire.c - a worker's messages as bytes, against proto's tables. */
#include <check.h>
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <string.h>

#include "proto/frame.h"
#include "proto/msg.h"
#include "worker/wire.h"

#define WORLD "{\"world_size\":4,\"state_dir\":\"/dev/shm/x\",\"replica_s\":2.5}"
#define PROPOSE "{\"proposal\":7,\"step\":100,\"verdict\":\"stop\"}"

/* why: NULL where the body is right, else a part of the sentence */
static const struct {
	unsigned type;
	const char *body, *why;
} cases[] = {
	{ WIRE_WORLD, WORLD, NULL },
	{ WIRE_WORLD,
		" \t\r\n{ \"replica_s\" : 2.5e0 , \"world_size\":4,"
		"\"state_dir\":\"/dev\\/shm\\u002fx\" } \n",
		NULL },
	{ WIRE_WORLD,
		"{\"x\":[1,{\"y\":[true,false,null]},\"\\u00e9\\ud83d\\ude00\"],"
		"\"world_size\":4,\"state_dir\":\"/dev/shm/x\",\"replica_s\":25e-1,"
		"\"z\":{},\"w\":[],\"v\":-0.5E+3}",
		NULL },
	{ WIRE_WORLD, "{\"state_dir\":\"/a\",\"replica_s\":1}",
		"world_size is missing" },
	{ WIRE_WORLD, "{\"world_size\":0,\"state_dir\":\"/a\",\"replica_s\":1}",
		"range" },
	{ WIRE_WORLD, "{\"world_size\":-1,\"state_dir\":\"/a\",\"replica_s\":1}",
		"whole" },
	{ WIRE_WORLD, "{\"world_size\":4.0,\"state_dir\":\"/a\",\"replica_s\":1}",
		"whole" },
	{ WIRE_WORLD, "{\"world_size\":4e0,\"state_dir\":\"/a\",\"replica_s\":1}",
		"whole" },
	{ WIRE_WORLD,
		"{\"world_size\":9007199254740992,\"state_dir\":\"/a\","
		"\"replica_s\":1}",
		"world_size: out of range" },
	{ WIRE_WORLD,
		"{\"world_size\":18446744073709551620,\"state_dir\":\"/a\","
		"\"replica_s\":1}",
		"world_size" },
	{ WIRE_WORLD, "{\"world_size\":4,\"state_dir\":\"/a\",\"replica_s\":86401}",
		"replica_s: out of range" },
	{ WIRE_WORLD,
		"{\"world_size\":4,\"state_dir\":\"/a\",\"replica_s\":1e999999999}",
		"replica_s: out of range" },
	{ WIRE_WORLD, "{\"world_size\":4,\"state_dir\":\"/a\",\"replica_s\":-1}",
		"range" },
	{ WIRE_WORLD, "{\"world_size\":\"4\",\"state_dir\":\"/a\",\"replica_s\":1}",
		"world_size: a number" },
	{ WIRE_WORLD, "{\"world_size\":04,\"state_dir\":\"/a\",\"replica_s\":1}",
		"begins with 0" },
	{ WIRE_WORLD, "{\"world_size\":4,\"state_dir\":5,\"replica_s\":1}",
		"no string" },
	{ WIRE_WORLD,
		"{\"world_size\":4,\"world_size\":4,\"state_dir\":\"/a\","
		"\"replica_s\":1}",
		"world_size: there twice" },
	{ WIRE_WORLD, "{\"world_size\":4,\"state_dir\":\"/a\\u0000b\",\"replica_s\":1}",
		"NUL" },
	{ WIRE_WORLD, "{\"world_size\":4,\"state_dir\":\"/a\\ud800x\",\"replica_s\":1}",
		"surrogate" },
	{ WIRE_WORLD, "{\"world_size\":4,\"state_dir\":\"/a\\udc00\",\"replica_s\":1}",
		"surrogate" },
	{ WIRE_WORLD, "{\"world_size\":4,\"state_dir\":\"/a\\q\",\"replica_s\":1}",
		"escape" },
	{ WIRE_WORLD, "{\"world_size\":4,\"state_dir\":\"/a\n\",\"replica_s\":1}",
		"end" },
	{ WIRE_GO, "{\"resume\":false}", NULL },
	{ WIRE_GO, "{\"resume\":true,\"state\":\"/dev/shm/x/s\"}", NULL },
	{ WIRE_GO, "{\"resume\":1}", "resume: an unknown word" },
	{ WIRE_GO, "{\"resume\":null}", "resume" },
	{ WIRE_GO, "{\"resume\":truefalse}", "no comma" },
	{ WIRE_GO, "{}", "resume is missing" },
	{ WIRE_PROPOSE, PROPOSE, NULL },
	{ WIRE_PROPOSE, PROPOSE "x", "after the object" },
	{ WIRE_PROPOSE, PROPOSE PROPOSE, "after the object" },
	{ WIRE_PROPOSE, "[]", "no object" },
	{ WIRE_PROPOSE, "", "no object" },
	{ WIRE_PROPOSE, "null", "no object" },
	{ WIRE_PROPOSE, "{\"proposal\":7,}", "no string" },
	{ WIRE_PROPOSE, "{\"proposal\" 7}", "colon" },
	{ WIRE_PROPOSE, "{,}", "no string" },
	{ WIRE_PROPOSE,
		"{\"proposal\":7,\"step\":100,\"verdict\":"
		"\"123456789012345678901234567890123\"}",
		"verdict: too long" },
	{ WIRE_PROPOSE, "{\"proposal\":7,\"step\":-0,\"verdict\":\"stop\"}", NULL },
	{ WIRE_COMMIT, "{\"proposal\":7}", NULL },
	{ WIRE_COMMIT, "{\"proposal\":0}", "range" },
	{ WIRE_COMMIT, "{\"x\":[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]],\"proposal\":7}",
		"too deep" },
	{ WIRE_WITHDRAW, "{\"proposal\":7}", NULL },
	{ WIRE_REFUSE, "{\"code\":65,\"text\":\"no such job\"}", NULL },
	{ WIRE_REFUSE, "{\"code\":256,\"text\":\"\"}", "range" },
	{ WIRE_WELCOME, "{\"program\":\"malle-agent 1\",\"instance\":\"a\"}", NULL },
	{ 999, "{\"what\":\"a message of a later version\"}", NULL },
	{ 999, "{\"what\":}", "number without digits" },
};

static int decode(unsigned type, const void *body, size_t n, struct wire_msg *msg,
	struct malle_err *err)
{
	struct wire_header header = { WIRE_VERSION, (uint16_t)type, (uint32_t)n, 3 };

	return wire_decode(&header, body, msg, err);
}

START_TEST(a_body_is_taken_or_refused_with_its_reason)
{
	static struct wire_msg msg;
	struct malle_err err = { "" };
	int got = decode(
		cases[_i].type, cases[_i].body, strlen(cases[_i].body), &msg, &err);

	if (!cases[_i].why) {
		ck_assert_msg(got == 0, "%s: %s", cases[_i].body, err.text);
		ck_assert_uint_eq(msg.type, cases[_i].type);
		return;
	}
	ck_assert_msg(got == -1, "%s was taken", cases[_i].body);
	ck_assert_int_eq(errno, EPROTO);
	ck_assert_msg(strstr(err.text, cases[_i].why) != NULL, "%s: %s", cases[_i].body,
		err.text);
}
END_TEST

START_TEST(values_arrive_as_they_were_meant)
{
	static struct wire_msg msg;

	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(decode(WIRE_WORLD, cases[i].body,
					 strlen(cases[i].body), &msg, NULL),
			0);
		ck_assert_uint_eq(msg.world_size, 4);
		ck_assert_str_eq(msg.state_dir, "/dev/shm/x");
		ck_assert(fabs(msg.replica_s - 2.5) < 1e-12);
	}
	ck_assert_int_eq(decode(WIRE_PROPOSE, PROPOSE, strlen(PROPOSE), &msg, NULL), 0);
	ck_assert_uint_eq(msg.proposal, 7);
	ck_assert_uint_eq(msg.step, 100);
	ck_assert_str_eq(msg.verdict, "stop");
	strcpy(msg.state, "old");
	ck_assert_int_eq(decode(WIRE_GO, "{\"resume\":true}", 15, &msg, NULL), 0);
	ck_assert_int_eq(msg.resume, 1);
	ck_assert_str_eq(msg.state, "");
}
END_TEST

START_TEST(a_body_cut_short_anywhere_is_refused)
{
	static struct wire_msg msg;
	struct malle_err err;
	char exact[sizeof(WORLD)];

	for (size_t n = 0; n < strlen(WORLD); n++) {
		/* at the very end of its memory, for the address sanitizer */
		memcpy(exact + sizeof(exact) - n, WORLD, n);
		ck_assert_int_eq(
			decode(WIRE_WORLD, exact + sizeof(exact) - n, n, &msg, &err),
			-1);
		ck_assert_int_eq(errno, EPROTO);
	}
}
END_TEST

START_TEST(a_header_is_checked_before_its_body_is_waited_for)
{
	uint8_t bytes[WIRE_HEADER_SIZE];
	struct frame_header sent = { FRAME_MAGIC, 1, WIRE_GO, 15, 9 };
	struct wire_header header;
	struct malle_err err;

	frame_encode(&sent, bytes);
	ck_assert_int_eq(wire_header_decode(bytes, &header, &err), 0);
	ck_assert_uint_eq(header.version, 1);
	ck_assert_uint_eq(header.type, WIRE_GO);
	ck_assert_uint_eq(header.length, 15);
	ck_assert_uint_eq(header.id, 9);
	sent.length = WIRE_BODY_MAX + 1;
	frame_encode(&sent, bytes);
	ck_assert_int_eq(wire_header_decode(bytes, &header, &err), -1);
	bytes[0] = 'X';
	ck_assert_int_eq(wire_header_decode(bytes, &header, &err), -1);
	ck_assert_int_eq(errno, EPROTO);
}
END_TEST

/* What a worker writes, read by the other implementation. */
static void read_by_proto(struct wire_out *out, struct msg *msg)
{
	struct frame_header header;
	struct err err;
	int size = wire_end(out);

	ck_assert_int_gt(size, 0);
	ck_assert_int_eq(frame_decode(out->bytes, &header, &err), 0);
	ck_assert_uint_eq(header.length, (unsigned)size - WIRE_HEADER_SIZE);
	ck_assert_msg(msg_decode(msg, header.type, header.id,
			      out->bytes + WIRE_HEADER_SIZE, header.length, &err) == 0,
		"%s", err.text);
}

START_TEST(what_a_worker_writes_the_agent_can_read)
{
	struct wire_out out;
	struct msg msg;

	wire_begin(&out, WIRE_JOIN, 2);
	wire_put_str(&out, "job", "a\"b\\c\x01\xc3\xa9");
	wire_put_int(&out, "generation", WIRE_INT_MAX);
	wire_put_int(&out, "rank", 0);
	wire_put_int(&out, "local_rank", 4095);
	wire_put_int(&out, "pid", 1);
	read_by_proto(&out, &msg);
	ck_assert_uint_eq(msg.id, 2);
	ck_assert_str_eq(msg_str(&msg, "job"), "a\"b\\c\x01\xc3\xa9");
	ck_assert_int_eq(msg_int(&msg, "generation"), (long long)WIRE_INT_MAX);
	ck_assert_int_eq(msg_int(&msg, "local_rank"), 4095);
	msg_fini(&msg);

	wire_begin(&out, WIRE_READY, 0);
	read_by_proto(&out, &msg);
	msg_fini(&msg);

	wire_begin(&out, WIRE_LEAVE, 0);
	wire_put_int(&out, "step", 12);
	wire_put_int(&out, "cursor", 6144);
	wire_put_seconds(&out, "t_s", 1764453600.000042);
	wire_put_bool(&out, "finished", 1);
	read_by_proto(&out, &msg);
	ck_assert(fabs(msg_real(&msg, "t_s") - 1764453600.000042) < 2e-6);
	ck_assert_int_eq(msg_bool(&msg, "finished"), 1);
	msg_fini(&msg);
}
END_TEST

START_TEST(numbers_are_written_the_same_in_every_locale)
{
	struct wire_out out;

	setlocale(LC_ALL, "de_DE.UTF-8");
	wire_begin(&out, WIRE_PROGRESS, 0);
	wire_put_seconds(&out, "t_s", 0.5);
	ck_assert_int_gt(wire_end(&out), 0);
	out.bytes[out.used] = 0;
	ck_assert_str_eq((char *)out.bytes + WIRE_HEADER_SIZE, "{\"t_s\":0.500000}");
}
END_TEST

START_TEST(a_message_that_does_not_fit_is_not_sent_in_part)
{
	struct wire_out out;
	char text[WIRE_OUT_MAX + 1];

	memset(text, 'x', WIRE_OUT_MAX);
	text[WIRE_OUT_MAX] = 0;
	wire_begin(&out, WIRE_SAVED, 0);
	wire_put_str(&out, "file", text);
	ck_assert_int_eq(wire_end(&out), -1);
	ck_assert_int_eq(errno, EMSGSIZE);
	wire_begin(&out, WIRE_SAVED, 0);
	wire_put_int(&out, "step", WIRE_INT_MAX + 1);
	ck_assert_int_eq(wire_end(&out), -1);
	wire_begin(&out, WIRE_PROGRESS, 0);
	wire_put_seconds(&out, "t_s", NAN);
	ck_assert_int_eq(wire_end(&out), -1);
}
END_TEST

START_TEST(what_an_agent_writes_a_worker_can_read)
{
	static struct wire_msg got;
	struct malle_err why;
	struct err err;
	size_t size;
	json_t *body = json_pack("{s:i, s:s, s:f}", "world_size", 4, "state_dir",
		"/dev/shm/\xc3\xa9\n\"", "replica_s", 0.1);
	uint8_t *frame = msg_encode(MSG_WORKER_WORLD, 2, body, NULL, 0, &size, &err);
	struct wire_header header;

	ck_assert_ptr_nonnull(frame);
	ck_assert_int_eq(wire_header_decode(frame, &header, &why), 0);
	ck_assert_msg(wire_decode(&header, frame + WIRE_HEADER_SIZE, &got, &why) == 0,
		"%s", why.text);
	ck_assert_str_eq(got.state_dir, "/dev/shm/\xc3\xa9\n\"");
	ck_assert(fabs(got.replica_s - 0.1) < 1e-15);
	free(frame);
	json_decref(body);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("worker_wire");
	TCase *t = tcase_create("wire");
	SRunner *runner;
	int failed;

	tcase_add_loop_test(t, a_body_is_taken_or_refused_with_its_reason, 0,
		sizeof(cases) / sizeof(cases[0]));
	tcase_add_test(t, values_arrive_as_they_were_meant);
	tcase_add_test(t, a_body_cut_short_anywhere_is_refused);
	tcase_add_test(t, a_header_is_checked_before_its_body_is_waited_for);
	tcase_add_test(t, what_a_worker_writes_the_agent_can_read);
	tcase_add_test(t, numbers_are_written_the_same_in_every_locale);
	tcase_add_test(t, a_message_that_does_not_fit_is_not_sent_in_part);
	tcase_add_test(t, what_an_agent_writes_a_worker_can_read);
	suite_add_tcase(s, t);
	runner = srunner_create(s);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed != 0;
}
