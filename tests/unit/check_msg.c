/* check_msg.c - bodies against their tables, in and out. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/frame.h"
#include "proto/msg.h"

#define J "\"job\":\"j1\""

/* A body given with its size: some have NUL bytes in them. */
static const struct {
	enum msg_type type;
	const char *body;
	size_t size;      /* 0: that of the string */
	const char *text; /* NULL: it is fine; else in the sentence */
} cases[] = {
	{ MSG_PING, "{}", 0, NULL },
	{ MSG_PING, "{\"new_in_version_2\":[1,{}]}", 0, NULL },
	{ MSG_PING, " { } ", 0, NULL },
	{ MSG_PING, "", 0, "ping: body" },
	{ MSG_PING, "{", 0, "ping: body" },
	{ MSG_PING, "{} {}", 0, "ping: body" },
	{ MSG_PING, "[]", 0, "ping: the body is no object" },
	{ MSG_PING, "null", 0, "ping: the body is no object" },
	{ MSG_PING, "{\"a\":1,\"a\":2}", 0, "ping: body" },
	{ MSG_PING, "{\"a\":\"\xff\"}", 0, "ping: body" },
	{ MSG_PING, "{\"a\":\"\\u0000\"}", 0, "ping: body" },
	{ MSG_PING, "{}\0raw", 6, "NUL" },
	{ MSG_PING, "{}\0", 3, "NUL" },
	{ 0, "{}", 0, "message 0 is unknown" },
	{ 9, "{}", 0, "message 9 is unknown" },
	{ 65535, "{}", 0, "message 65535 is unknown" },
	{ MSG_JOB_PAUSE, "{}", 0, "job.pause: field job is missing" },
	{ MSG_JOB_PAUSE, "{\"job\":null}", 0, "job.pause: field job is not a string" },
	{ MSG_JOB_PAUSE, "{\"job\":7}", 0, "job.pause: field job is not a string" },
	{ MSG_JOB_PAUSE,
		"{\"job\":"
		"\"01234567890123456789012345678901234567890123456789012345678901"
		"23\"}",
		0, NULL },
	{ MSG_JOB_PAUSE,
		"{\"job\":"
		"\"01234567890123456789012345678901234567890123456789012345678901"
		"234\"}",
		0, "job.pause: field job: 65 bytes are over 64" },
	{ MSG_JOB_ATTACH, "{" J "}", 0, NULL },
	{ MSG_JOB_ATTACH, "{" J ",\"offset\":0}", 0, NULL },
	{ MSG_JOB_ATTACH, "{" J ",\"offset\":9007199254740991}", 0, NULL },
	{ MSG_JOB_ATTACH, "{" J ",\"offset\":9007199254740992}", 0,
		"is not in 0..9007" },
	{ MSG_JOB_ATTACH, "{" J ",\"offset\":-1}", 0, "field offset: -1 is not in" },
	{ MSG_JOB_ATTACH, "{" J ",\"offset\":1.0}", 0,
		"field offset is not an integer" },
	{ MSG_JOB_ATTACH, "{" J ",\"offset\":\"1\"}", 0,
		"field offset is not an integer" },
	{ MSG_JOB_ATTACH, "{" J ",\"offset\":99999999999999999999}", 0, "body" },
	{ MSG_JOB_CANCEL, "{" J ",\"force\":true}", 0, NULL },
	{ MSG_JOB_CANCEL, "{" J ",\"force\":1}", 0,
		"field force is not true or false" },
	{ MSG_PONG, "{\"uptime_s\":3,\"state\":\"ok\"}", 0, NULL },
	{ MSG_PONG, "{\"uptime_s\":3.5,\"state\":\"ok\"}", 0, NULL },
	{ MSG_PONG, "{\"uptime_s\":-0.5,\"state\":\"ok\"}", 0, "is not in" },
	{ MSG_PONG, "{\"uptime_s\":1e999,\"state\":\"ok\"}", 0, "body" },
	{ MSG_PONG, "{\"uptime_s\":true,\"state\":\"ok\"}", 0, "not a number" },
	{ MSG_RSH_REQUEST,
		"{" J ",\"generation\":1,\"node\":\"n1\",\"argv\":[\"orted\"]}", 0,
		NULL },
	{ MSG_RSH_REQUEST, "{" J ",\"generation\":1,\"node\":\"n1\",\"argv\":[]}", 0,
		"field argv: 0 strings" },
	{ MSG_RSH_REQUEST,
		"{" J ",\"generation\":1,\"node\":\"n1\",\"argv\":[\"a\",2]}", 0,
		"field argv: item 1 is no string" },
	{ MSG_RSH_REQUEST, "{" J ",\"generation\":0,\"node\":\"n1\",\"argv\":[\"a\"]}",
		0, "field generation: 0 is not in" },
	{ MSG_STATUS_REPLY, "{\"data\":{\"x\":[1,2]}}", 0, NULL },
	{ MSG_STATUS_REPLY, "{}", 0, "field data is missing" },
	{ MSG_JOB_OUTPUT, "{" J ",\"stream\":1}", 0, NULL },
	{ MSG_JOB_OUTPUT, "{" J ",\"stream\":2}\0\0\1\2", 28, NULL },
	{ MSG_JOB_OUTPUT, "{" J ",\"stream\":3}", 0, "field stream: 3 is not in 1..2" },
};

START_TEST(a_body_is_checked_against_its_table)
{
	const char *body = cases[_i].body, *text = cases[_i].text;
	size_t size = cases[_i].size ? cases[_i].size : strlen(body);
	uint8_t *copy = malloc(size + 1); /* exact: a reader past its end is caught */
	struct msg msg = { .id = 5 };
	struct err err;
	int rc;

	copy = realloc(copy, size ? size : 1);
	memcpy(copy, body, size);
	rc = msg_decode(&msg, cases[_i].type, 9, copy, size, &err);
	if (!text) {
		ck_assert_msg(rc == 0, "%s: %s", body, err.text);
		ck_assert_int_eq(msg.type, cases[_i].type);
		ck_assert_uint_eq(msg.id, 9);
		ck_assert_ptr_nonnull(msg.body);
		msg_fini(&msg);
	} else {
		ck_assert_msg(rc == -1, "%s: it was taken", body);
		ck_assert_int_eq(errno, EPROTO);
		ck_assert_msg(strstr(err.text, text) != NULL, "%s: %s", body, err.text);
		ck_assert_uint_eq(msg.id, 5);
	}
	free(copy);
}
END_TEST

START_TEST(every_truncation_of_a_body_is_refused)
{
	static const char body[] = "{\"job\":\"j1\",\"generation\":3,\"node\":\"n1\","
				   "\"argv\":[\"a\",\"b\"]}";
	struct msg msg;

	for (size_t size = 0; size < sizeof(body) - 1; size++) {
		ck_assert_int_eq(msg_decode(&msg, MSG_RSH_REQUEST, 0,
					 (const uint8_t *)body, size, NULL),
			-1);
		ck_assert_int_eq(errno, EPROTO);
	}
}
END_TEST

/* A value that the field's row accepts. */
static json_t *a_value(const struct field *f)
{
	switch (f->kind) {
	case FIELD_INT:
		return json_integer((json_int_t)f->max);
	case FIELD_REAL:
		return json_real(f->max);
	case FIELD_BOOL:
		return json_true();
	case FIELD_STR:
		return json_string("text");
	case FIELD_STRS:
		return json_pack("[s, s]", "one", "");
	default:
		return json_pack("{s:i}", "x", 1);
	}
}

static json_t *a_body(const struct schema *schema)
{
	json_t *body = json_object();

	for (const struct field *f = schema->fields; f->kind != FIELD_NONE; f++)
		json_object_set_new(body, f->name, a_value(f));
	return body;
}

START_TEST(every_message_survives_a_round_trip)
{
	size_t n, size, raw_size;
	const struct schema *all = schema_all(&n);
	struct frame_header header;
	struct msg msg;
	struct err err;

	for (size_t i = 0; i < n; i++) {
		json_t *body = a_body(&all[i]);
		uint8_t *frame;

		raw_size = all[i].raw ? 3 : 0;
		frame = msg_encode(
			all[i].type, 77, body, "\0r\0", raw_size, &size, &err);
		ck_assert_msg(frame != NULL, "%s", err.text);
		ck_assert_int_eq(frame_decode(frame, &header, &err), 0);
		ck_assert_uint_eq(header.length + FRAME_HEADER_SIZE, size);
		ck_assert_uint_eq(header.version, PROTO_VERSION);
		ck_assert_uint_eq(header.type, all[i].type);
		ck_assert_uint_eq(header.id, 77);
		ck_assert_msg(
			msg_decode(&msg, all[i].type, 77, frame + FRAME_HEADER_SIZE,
				header.length, &err) == 0,
			"%s", err.text);
		ck_assert(json_equal(msg.body, body));
		ck_assert_uint_eq(msg.raw_size, raw_size);
		if (raw_size)
			ck_assert_mem_eq(msg.raw, "\0r\0", 3);
		msg_fini(&msg);
		json_decref(body);
		free(frame);
	}
}
END_TEST

START_TEST(every_required_field_is_missed_by_its_name)
{
	size_t n, size;
	const struct schema *all = schema_all(&n);
	struct err err;

	for (size_t i = 0; i < n; i++) {
		for (const struct field *f = all[i].fields; f->kind != FIELD_NONE;
			f++) {
			json_t *body = a_body(&all[i]);
			uint8_t *frame;

			json_object_del(body, f->name);
			frame = msg_encode(all[i].type, 0, body, NULL, 0, &size, &err);
			ck_assert_int_eq(frame == NULL, f->required != 0);
			if (!frame) {
				ck_assert_int_eq(errno, EINVAL);
				ck_assert_ptr_nonnull(strstr(err.text, all[i].name));
				ck_assert_ptr_nonnull(strstr(err.text, f->name));
			}
			free(frame);
			json_decref(body);
		}
	}
}
END_TEST

START_TEST(a_body_that_is_too_long_is_not_made)
{
	char *raw = calloc(1, FRAME_BODY_MAX + 1);
	json_t *body = json_pack("{s:s, s:i}", "job", "j", "stream", 1);
	size_t size, json_size = strlen("{\"job\":\"j\",\"stream\":1}");
	uint8_t *frame;

	ck_assert_ptr_null(msg_encode(
		MSG_JOB_OUTPUT, 0, body, raw, FRAME_BODY_MAX - json_size, &size, NULL));
	ck_assert_int_eq(errno, EMSGSIZE);
	ck_assert_ptr_null(
		msg_encode(MSG_JOB_OUTPUT, 0, body, raw, SIZE_MAX - 8, &size, NULL));
	ck_assert_int_eq(errno, EMSGSIZE);
	frame = msg_encode(MSG_JOB_OUTPUT, 0, body, raw, FRAME_BODY_MAX - json_size - 1,
		&size, NULL);
	ck_assert_ptr_nonnull(frame);
	ck_assert_uint_eq(size, FRAME_HEADER_SIZE + FRAME_BODY_MAX);
	free(frame);
	json_decref(body);
	free(raw);
}
END_TEST

START_TEST(absent_fields_read_as_nothing)
{
	static const char body[] = "{" J ",\"generation\":2,\"node\":\"n1\","
				   "\"argv\":[\"a\",\"\",\"c d\"]}";
	struct msg msg;
	char **argv, **env;

	ck_assert_int_eq(msg_decode(&msg, MSG_RSH_REQUEST, 0, (const uint8_t *)body,
				 sizeof(body) - 1, NULL),
		0);
	ck_assert_int_eq(msg_int(&msg, "generation"), 2);
	ck_assert_double_eq(msg_real(&msg, "generation"), 2);
	ck_assert_str_eq(msg_str(&msg, "node"), "n1");
	ck_assert_int_eq(msg_int(&msg, "none"), 0);
	ck_assert_double_eq(msg_real(&msg, "none"), 0);
	ck_assert_ptr_null(msg_str(&msg, "none"));
	ck_assert_ptr_null(msg_json(&msg, "none"));
	ck_assert(!msg_bool(&msg, "none"));
	ck_assert(!msg_has(&msg, "env"));
	ck_assert(msg_has(&msg, "argv"));
	argv = msg_strv(&msg, "argv");
	env = msg_strv(&msg, "env");
	ck_assert_str_eq(argv[0], "a");
	ck_assert_str_eq(argv[1], "");
	ck_assert_str_eq(argv[2], "c d");
	ck_assert_ptr_null(argv[3]);
	ck_assert_ptr_null(env[0]);
	free(argv);
	free(env);
	msg_fini(&msg);
}
END_TEST

START_TEST(the_tables_are_sane)
{
	size_t n;
	const struct schema *all = schema_all(&n);

	for (size_t i = 0; i < n; i++) {
		ck_assert_ptr_eq(schema_find(all[i].type), &all[i]);
		ck_assert_str_eq(schema_name(all[i].type), all[i].name);
		if (i > 0)
			ck_assert_msg(all[i - 1].type < all[i].type, "%s: out of order",
				all[i].name);
		for (const struct field *f = all[i].fields; f->kind != FIELD_NONE;
			f++) {
			ck_assert_msg(f->min <= f->max, "%s.%s", all[i].name, f->name);
			ck_assert_ptr_nonnull(f->help);
			if (f->kind == FIELD_STR || f->kind == FIELD_STRS)
				ck_assert_msg(
					f->max > 0, "%s.%s", all[i].name, f->name);
		}
	}
	ck_assert_str_eq(schema_name(0), "unknown");
	ck_assert_ptr_null(schema_find(12345));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("msg");
	TCase *tc = tcase_create("msg");
	SRunner *runner;
	int failed;

	tcase_add_loop_test(tc, a_body_is_checked_against_its_table, 0,
		sizeof(cases) / sizeof(cases[0]));
	tcase_add_test(tc, every_truncation_of_a_body_is_refused);
	tcase_add_test(tc, every_message_survives_a_round_trip);
	tcase_add_test(tc, every_required_field_is_missed_by_its_name);
	tcase_add_test(tc, a_body_that_is_too_long_is_not_made);
	tcase_add_test(tc, absent_fields_read_as_nothing);
	tcase_add_test(tc, the_tables_are_sane);
	suite_add_tcase(suite, tc);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}
