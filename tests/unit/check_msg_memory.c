/* check_msg_memory.c - messages when memory runs out, allocation by allocation. */
#include <check.h>
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "proto/frame.h"
#include "proto/msg.h"
#include "tests/unit/failing_malloc.h"

static const char body[] =
	"{\"job\":\"j1\",\"generation\":3,\"node\":\"n1\",\"argv\":[\"a\",\"b\"],"
	"\"env\":[\"A=1\"]}";

/* Jansson's lexer blames the text when it gets no memory for a string. */
START_TEST(decoding_succeeds_or_fails)
{
	struct msg msg;
	struct err err;
	long failures = 0;

	for (long n = 1, failed = 1; failed; n++) {
		int rc, why;

		failing_malloc_arm(n);
		rc = msg_decode(&msg, MSG_RSH_REQUEST, 7, (const uint8_t *)body,
			sizeof(body) - 1, &err);
		why = errno;
		failed = failing_malloc_disarm();
		if (rc < 0) {
			ck_assert_msg(why == ENOMEM || why == EPROTO,
				"allocation %ld: %s", n, err.text);
			failures++;
			continue;
		}
		ck_assert_str_eq(msg_str(&msg, "node"), "n1");
		msg_fini(&msg);
	}
	ck_assert_int_gt(failures, 5);
}
END_TEST

START_TEST(encoding_succeeds_or_fails_with_enomem)
{
	json_t *json = json_loads(body, 0, NULL);
	struct err err;
	long failures = 0;

	for (long n = 1, failed = 1; failed; n++) {
		size_t size;
		uint8_t *frame;
		int why;

		failing_malloc_arm(n);
		frame = msg_encode(MSG_RSH_REQUEST, 7, json, NULL, 0, &size, &err);
		why = errno;
		failed = failing_malloc_disarm();
		if (!frame) {
			ck_assert_msg(why == ENOMEM, "allocation %ld: %s", n, err.text);
			failures++;
			continue;
		}
		ck_assert_uint_eq(size, FRAME_HEADER_SIZE + sizeof(body) - 1);
		free(frame);
	}
	ck_assert_int_gt(failures, 1);
	json_decref(json);
}
END_TEST

START_TEST(an_empty_body_and_a_vector_need_memory_too)
{
	struct msg msg;
	long failures = 0;

	ck_assert_int_eq(msg_decode(&msg, MSG_RSH_REQUEST, 7, (const uint8_t *)body,
				 sizeof(body) - 1, NULL),
		0);
	for (long n = 1, failed = 1; failed; n++) {
		size_t size;
		uint8_t *frame;
		char **argv;

		failing_malloc_arm(n);
		frame = msg_encode(MSG_PING, 0, NULL, NULL, 0, &size, NULL);
		argv = msg_strv(&msg, "argv");
		failed = failing_malloc_disarm();
		failures += !frame + !argv;
		if (argv)
			ck_assert_str_eq(argv[1], "b");
		free(frame);
		free(argv);
	}
	ck_assert_int_gt(failures, 2);
	msg_fini(&msg);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("msg_memory");
	TCase *tc = tcase_create("msg_memory");
	SRunner *runner;
	int failed;

	tcase_add_test(tc, decoding_succeeds_or_fails);
	tcase_add_test(tc, encoding_succeeds_or_fails_with_enomem);
	tcase_add_test(tc, an_empty_body_and_a_vector_need_memory_too);
	suite_add_tcase(suite, tc);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}
