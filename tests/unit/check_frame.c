/* check_frame.c - header bytes in and out. */
#include <check.h>
#include <errno.h>
#include <string.h>

#include "proto/frame.h"

/* Bytes written by hand from the description, not by frame_encode. */
static const struct {
	const char *what;
	uint8_t bytes[FRAME_HEADER_SIZE];
	struct frame_header header;
	int ok;
	const char *text; /* in the sentence, where not ok */
} cases[] = {
	{ "a hello", { 'M', 'A', 'L', 'L', 0, 1, 0, 1, 0, 0, 0, 17, 0, 0, 0, 0 },
		{ FRAME_MAGIC, 1, 1, 17, 0 }, 1, NULL },
	{ "every byte in its place",
		{ 'M', 'A', 'L', 'L', 0x12, 0x34, 0x56, 0x78, 0, 0x11, 0x22, 0x33, 0x44,
			0x55, 0x66, 0x77 },
		{ FRAME_MAGIC, 0x1234, 0x5678, 0x112233, 0x44556677 }, 1, NULL },
	{ "no body", { 'M', 'A', 'L', 'L', 0, 1, 0, 5, 0, 0, 0, 0, 0, 0, 0, 9 },
		{ FRAME_MAGIC, 1, 5, 0, 9 }, 1, NULL },
	{ "the largest body",
		{ 'M', 'A', 'L', 'L', 0, 1, 0, 5, 0, 0x40, 0, 0, 0, 0, 0, 9 },
		{ FRAME_MAGIC, 1, 5, FRAME_BODY_MAX, 9 }, 1, NULL },
	{ "one byte over the largest",
		{ 'M', 'A', 'L', 'L', 0, 1, 0, 5, 0, 0x40, 0, 1, 0, 0, 0, 9 },
		{ 0, 0, 0, 0, 0 }, 0, "4194305 bytes is over 4194304" },
	{ "all bits of the length",
		{ 'M', 'A', 'L', 'L', 0, 1, 0, 5, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 9 },
		{ 0, 0, 0, 0, 0 }, 0, "is over" },
	{ "another magic", { 'M', 'A', 'L', 'M', 0, 1, 0, 5, 0, 0, 0, 0, 0, 0, 0, 9 },
		{ 0, 0, 0, 0, 0 }, 0, "magic is 0x4d414c4d" },
	{ "the magic of a little-endian peer",
		{ 'L', 'L', 'A', 'M', 1, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 9 },
		{ 0, 0, 0, 0, 0 }, 0, "magic" },
	{ "another version is not judged here",
		{ 'M', 'A', 'L', 'L', 0xff, 0xff, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0 },
		{ FRAME_MAGIC, 0xffff, 1, 0, 0 }, 1, NULL },
};

START_TEST(a_header_is_read_as_it_is_described)
{
	struct frame_header got = { .id = 77 };
	struct err err;
	int rc = frame_decode(cases[_i].bytes, &got, &err);

	if (cases[_i].ok) {
		ck_assert_msg(rc == 0, "%s: %s", cases[_i].what, err.text);
		ck_assert_mem_eq(&got, &cases[_i].header, sizeof(got));
		return;
	}
	ck_assert_int_eq(rc, -1);
	ck_assert_int_eq(errno, EPROTO);
	ck_assert_msg(strstr(err.text, cases[_i].text) != NULL, "%s: %s",
		cases[_i].what, err.text);
	ck_assert_uint_eq(got.id, 77);
}
END_TEST

START_TEST(a_header_is_written_as_it_is_described)
{
	uint8_t bytes[FRAME_HEADER_SIZE];

	if (!cases[_i].ok)
		return;
	frame_encode(&cases[_i].header, bytes);
	ck_assert_mem_eq(bytes, cases[_i].bytes, sizeof(bytes));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("frame");
	TCase *tc = tcase_create("frame");
	SRunner *runner;
	int failed, n = sizeof(cases) / sizeof(cases[0]);

	tcase_add_loop_test(tc, a_header_is_read_as_it_is_described, 0, n);
	tcase_add_loop_test(tc, a_header_is_written_as_it_is_described, 0, n);
	suite_add_tcase(suite, tc);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}
