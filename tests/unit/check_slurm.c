/*
 * check_slurm.c - words of states, rules and readers of Slurm's answers.
 *
 * The words and what they mean are those of sinfo(1), NODE STATE CODES, and
 * squeue(1), JOB STATE CODES.
 */
#include <check.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/slurm/slurm_fields.h"
#include "daemon/slurm/slurm_rules.h"

static struct slurm_state read_text(const char *text)
{
	struct slurm_state state = { 0 };

	slurm_state_text(&state, text);
	return state;
}

START_TEST(texts_of_sinfo)
{
	static const struct {
		const char *text;
		enum slurm_node_state state;
		uint32_t flags;
	} cases[] = {
		{ "IDLE", SLURM_NODE_IDLE, 0 },
		{ "idle*", SLURM_NODE_IDLE, SLURM_FLAG_NOT_RESPONDING },
		{ "idle~", SLURM_NODE_IDLE, SLURM_FLAG_POWERED_DOWN },
		{ "idle#", SLURM_NODE_IDLE, SLURM_FLAG_POWERING_UP },
		{ "idle!", SLURM_NODE_IDLE, SLURM_FLAG_POWER_DOWN },
		{ "idle%", SLURM_NODE_IDLE, SLURM_FLAG_POWERING_DOWN },
		{ "idle$", SLURM_NODE_IDLE, SLURM_FLAG_MAINTENANCE },
		{ "idle@", SLURM_NODE_IDLE, SLURM_FLAG_REBOOT_REQUESTED },
		{ "idle^", SLURM_NODE_IDLE, SLURM_FLAG_REBOOT_ISSUED },
		{ "mix-", SLURM_NODE_MIXED, SLURM_FLAG_PLANNED },
		{ "alloc*$", SLURM_NODE_ALLOCATED,
			SLURM_FLAG_NOT_RESPONDING | SLURM_FLAG_MAINTENANCE },
		{ "IDLE+DRAIN+PLANNED", SLURM_NODE_IDLE,
			SLURM_FLAG_DRAIN | SLURM_FLAG_PLANNED },
		{ "MAINT+IDLE", SLURM_NODE_IDLE, SLURM_FLAG_MAINTENANCE },
		{ "DOWN*+DRAIN", SLURM_NODE_DOWN,
			SLURM_FLAG_DRAIN | SLURM_FLAG_NOT_RESPONDING },
		{ "drng", SLURM_NODE_ALLOCATED, SLURM_FLAG_DRAIN },
		{ "comp", SLURM_NODE_ALLOCATED, SLURM_FLAG_COMPLETING },
		{ "plnd", SLURM_NODE_IDLE, SLURM_FLAG_PLANNED },
		{ "IDLEX", SLURM_NODE_UNKNOWN, SLURM_FLAG_STRANGE },
		{ "IDL", SLURM_NODE_UNKNOWN, SLURM_FLAG_STRANGE },
		{ "", SLURM_NODE_UNKNOWN, SLURM_FLAG_STRANGE },
		{ "IDLE+", SLURM_NODE_IDLE, SLURM_FLAG_STRANGE },
		{ "IDLE+DOWN", SLURM_NODE_IDLE, SLURM_FLAG_STRANGE },
		{ "IDLE DRAIN", SLURM_NODE_UNKNOWN, SLURM_FLAG_STRANGE },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct slurm_state state = read_text(cases[i].text);

		ck_assert_msg(state.state == cases[i].state && state.flags == cases[i].flags,
			"\"%s\" is %s with flags %#x", cases[i].text,
			slurm_node_state_name(state.state), state.flags);
	}
}
END_TEST

/* Words known so far of slurmrestd's node states; each must be in the table. */
START_TEST(words_of_slurmrestd)
{
	static const char *const words[] = { "INVALID", "UNKNOWN", "DOWN", "IDLE",
		"ALLOCATED", "ERROR", "MIXED", "FUTURE", "RESERVED", "UNDRAIN", "CLOUD", "RESUME",
		"DRAIN", "COMPLETING", "NOT_RESPONDING", "POWERED_DOWN", "FAIL", "POWERING_UP",
		"MAINTENANCE", "REBOOT_REQUESTED", "REBOOT_CANCELED", "POWERING_DOWN",
		"DYNAMIC_FUTURE", "REBOOT_ISSUED", "PLANNED", "INVALID_REG", "POWER_DOWN",
		"POWER_UP", "POWER_DRAIN", "DYNAMIC_NORM", "BLOCKED" };

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		struct slurm_state state = read_text(words[i]);

		ck_assert_msg(!(state.flags & SLURM_FLAG_STRANGE), "%s is strange", words[i]);
		if (state.flags)
			ck_assert_str_eq(slurm_flag_name(state.flags), words[i]);
		else
			ck_assert_str_eq(slurm_node_state_name(state.state), words[i]);
	}
}
END_TEST

START_TEST(states_of_jobs)
{
	ck_assert_int_eq(slurm_job_state_parse("RUNNING"), SLURM_JOB_RUNNING);
	ck_assert_int_eq(slurm_job_state_parse("R"), SLURM_JOB_RUNNING);
	ck_assert_int_eq(slurm_job_state_parse("cg"), SLURM_JOB_COMPLETING);
	ck_assert_int_eq(slurm_job_state_parse("PD"), SLURM_JOB_PENDING);
	ck_assert_int_eq(slurm_job_state_parse("CANCELLED by 1000"), SLURM_JOB_OVER);
	ck_assert_int_eq(slurm_job_state_parse("PREEMPTED"), SLURM_JOB_OVER);
	ck_assert_int_eq(slurm_job_state_parse("REQUEUE_HOLD"), SLURM_JOB_REQUEUED);
	ck_assert_int_eq(slurm_job_state_parse("RUN"), SLURM_JOB_UNKNOWN);
	ck_assert_int_eq(slurm_job_state_parse(""), SLURM_JOB_UNKNOWN);
}
END_TEST

/* Every state with every set of up to three flags, against the contract's words. */
START_TEST(rules_by_brute_force)
{
	const uint32_t fine = SLURM_FLAG_CLOUD | SLURM_FLAG_DYNAMIC_NORM | SLURM_FLAG_PLANNED;
	size_t eligible = 0;

	for (int state = SLURM_NODE_UNKNOWN; state <= SLURM_NODE_FUTURE; state++)
		for (int a = 0; a < 26; a++)
			for (int b = a; b < 26; b++)
				for (int c = b; c <= 26; c++) {
					uint32_t flags = 1u << a | 1u << b | (c < 26 ? 1u << c : 0);
					struct slurm_node node = { .name = "n",
						.state = (enum slurm_node_state)state,
						.flags = c == 26 && a == b ? 0 : flags,
						.reservation = "" };
					struct slurm_verdict verdict = slurm_rules_plain(&node);
					int want = state == SLURM_NODE_IDLE && !(node.flags & ~fine);

					ck_assert_int_eq(verdict.eligible, want);
					ck_assert_int_eq(verdict.reason[0] == '\0', want);
					node.reservation = "r";
					ck_assert(!slurm_rules_plain(&node).eligible);
					eligible += (size_t)want;
				}
	ck_assert_uint_gt(eligible, 0);
}
END_TEST

/* bsearch finds each row only while they are sorted. */
START_TEST(rows_are_sorted)
{
	static const char *const keys[] = { "nodes", "sinfo", "jobs", "reservations",
		"partitions", "errors", "warnings" };

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		const struct field_list *list = field_list_find(keys[i]);

		ck_assert_ptr_nonnull(list);
		for (size_t k = 0; k < list->n_rows; k++)
			ck_assert_ptr_eq(field_find(list, list->rows[k].path), &list->rows[k]);
	}
	ck_assert_ptr_null(field_list_find("node"));
	ck_assert_ptr_nonnull(field_find(NULL, "job_id"));
	ck_assert_ptr_nonnull(field_find(NULL, "last_update"));
	ck_assert_ptr_nonnull(field_find(NULL, "meta.Slurm.release"));
	ck_assert_ptr_nonnull(field_find(NULL, "meta.plugin.data_parser"));
	ck_assert_ptr_nonnull(field_find(NULL, "meta.plugin.type"));
	ck_assert_ptr_nonnull(field_find(NULL, "meta.plugins.data_parser"));
	ck_assert_ptr_nonnull(field_find(NULL, "meta.slurm.release"));
	ck_assert_ptr_nonnull(field_find(NULL, "result.job_id"));
}
END_TEST

/* --- whole answers -------------------------------------------------------------------- */

struct got {
	size_t nodes, eligible;
	struct slurm_job job;
	size_t jobs;
	double memory_bytes, busy_s;
};

static void on_job(const struct slurm_job *job, void *arg)
{
	struct got *got = arg;

	got->job = *job; /* its texts are gone afterwards, its numbers stay */
	got->jobs++;
}

static void on_node(const struct slurm_node *node, void *arg)
{
	struct got *got = arg;

	got->nodes++;
	got->eligible += (size_t)slurm_rules_plain(node).eligible;
	got->memory_bytes = node->memory_bytes;
	got->busy_s = node->last_busy_s;
}

static int read_whole(const char *text, struct got *got, struct slurm_summary *summary)
{
	static const struct slurm_read_handlers handlers = {
		.on_job = on_job, .on_node = on_node
	};
	struct err err = { "" };
	struct slurm_reader *reader =
		slurm_reader_create(SLURM_FORM_GUESS, &handlers, got, &err);
	int rc;

	memset(got, 0, sizeof(*got));
	ck_assert_ptr_nonnull(reader);
	rc = slurm_reader_feed(reader, text, strlen(text), &err);
	rc |= slurm_reader_end(reader, summary, &err);
	slurm_reader_destroy(reader);
	return rc;
}

START_TEST(a_job_in_old_and_new_words)
{
	static const char *const texts[] = {
		"{\"jobs\":[{\"job_id\":9,\"job_state\":\"RUNNING\",\"start_time\":100,"
		"\"preempt_time\":0,\"end_time\":4294967295,\"user_id\":1000,\"exit_code\":0,"
		"\"node_count\":2}]}",
		"{\"jobs\":[{\"job_id\":9,\"job_state\":[\"RUNNING\"],\"start_time\":{\"set\":true,"
		"\"infinite\":false,\"number\":100},\"preempt_time\":{\"set\":true,\"infinite\":"
		"false,\"number\":0},\"end_time\":{\"number\":0,\"set\":true,\"infinite\":true},"
		"\"user_id\":1000,\"exit_code\":{\"status\":[\"SUCCESS\"],\"return_code\":{\"set\":"
		"true,\"infinite\":false,\"number\":0}},\"node_count\":{\"set\":true,\"infinite\":"
		"false,\"number\":2}}]}",
	};

	for (size_t i = 0; i < 2; i++) {
		struct slurm_summary summary;
		struct got got;

		ck_assert_int_eq(read_whole(texts[i], &got, &summary), 0);
		ck_assert_uint_eq(got.jobs, 1);
		ck_assert_int_eq(got.job.id, 9);
		ck_assert_int_eq(got.job.state, SLURM_JOB_RUNNING);
		ck_assert(got.job.start_s == 100 && isnan(got.job.preempt_s));
		ck_assert(isinf(got.job.end_s));
		ck_assert_int_eq(got.job.uid, 1000);
		ck_assert_int_eq(got.job.exit_code, 0);
		ck_assert_int_eq(got.job.n_nodes, 2);
	}
}
END_TEST

START_TEST(a_job_that_completes_or_is_requeued)
{
	struct slurm_summary summary;
	struct got got;

	read_whole("{\"jobs\":[{\"job_id\":9,\"job_state\":[\"RUNNING\",\"COMPLETING\"]}]}", &got,
		&summary);
	ck_assert_int_eq(got.job.state, SLURM_JOB_COMPLETING);
	read_whole("{\"jobs\":[{\"job_id\":9,\"job_state\":[\"PENDING\",\"REQUEUED\"]}]}", &got,
		&summary);
	ck_assert_int_eq(got.job.state, SLURM_JOB_REQUEUED);
}
END_TEST

START_TEST(local_times_of_scontrol)
{
	struct slurm_summary summary;
	struct got got;

	setenv("TZ", "UTC", 1);
	ck_assert_int_eq(read_whole("NodeName=a State=IDLE RealMemory=3 "
				    "LastBusyTime=2001-09-09T01:46:40\n", &got, &summary), 0);
	ck_assert(got.memory_bytes == 3 * 1048576.0);
	ck_assert(got.busy_s == 1e9);
	ck_assert_int_eq(read_whole("NodeName=a State=IDLE LastBusyTime=Unknown\n", &got,
				 &summary), 0);
	ck_assert(isnan(got.busy_s));
}
END_TEST

START_TEST(what_cannot_be_read_says_no)
{
	static const char *const texts[] = {
		"{\"nodes\":[{\"name\":\"a\",\"state\":[\"IDLE\\u0000\"]}]}",
		"{\"nodes\":[{\"name\":\"a\",\"state\":[\"IDLE\\u0000XXXXXXXXXXXX\"]}]}",
		"{\"nodes\":[{\"name\":\"a\",\"state\":[\"IDLE\"],\"reservation\":5}]}",
		"{\"nodes\":[{\"name\":\"a\",\"state\":[\"IDLE\"],\"reservation\":{\"x\":1}}]}",
		"{\"nodes\":[{\"name\":\"a\",\"state\":[\"IDLE\"],\"partitions\":true}]}",
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct slurm_summary summary;
		struct got got;

		ck_assert_int_eq(read_whole(texts[i], &got, &summary), 0);
		ck_assert_uint_eq(got.nodes, 1);
		ck_assert_msg(got.eligible == 0, "%s: eligible", texts[i]);
	}
}
END_TEST

/* A cluster that is idle is one row of sinfo. */
START_TEST(a_row_of_many_nodes)
{
	enum { MANY = 10000, ROOM = MANY * 10 + 200 };
	char *text = malloc(ROOM);
	struct slurm_summary summary;
	struct got got;
	size_t n;

	ck_assert_ptr_nonnull(text);
	n = (size_t)snprintf(text, ROOM, "{\"sinfo\":[{\"node\":{\"state\":[\"IDLE\"]},"
					 "\"nodes\":{\"nodes\":[");
	for (int i = 0; i < MANY; i++)
		n += (size_t)snprintf(text + n, ROOM - n, "%s\"cn%05d\"", i ? "," : "", i);
	snprintf(text + n, ROOM - n, "]}}]}");
	ck_assert_int_eq(read_whole(text, &got, &summary), 0);
	ck_assert_uint_eq(got.nodes, MANY);
	ck_assert_uint_eq(summary.warnings, 0);
	free(text);
}
END_TEST

/* A key that is too long for us is not the one before it. */
START_TEST(a_key_that_nobody_has)
{
	struct slurm_summary summary;
	struct got got;
	char text[400], key[121];

	memset(key, 'k', 120);
	key[120] = '\0';
	snprintf(text, sizeof(text),
		"{\"job_id\":1,\"nodes\":5,\"%s\":[{\"name\":\"a\",\"state\":[\"IDLE\"]}]}", key);
	ck_assert_int_eq(read_whole(text, &got, &summary), 0);
	ck_assert_uint_eq(got.nodes, 0);
}
END_TEST

START_TEST(the_answer_to_a_submit)
{
	struct slurm_summary summary;
	struct got got;

	ck_assert_int_eq(read_whole("{\"meta\":{\"Slurm\":{\"release\":\"22.05.8\"}},\"errors\":[],"
				    "\"job_id\":77,\"step_id\":\"BATCH\"}", &got, &summary), 0);
	ck_assert_int_eq(summary.job_id, 77);
	ck_assert_str_eq(summary.release, "22.05.8");
	ck_assert(!summary.has_list);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("slurm");
	TCase *tcase = tcase_create("all");
	SRunner *runner;
	int failed;

	tcase_add_test(tcase, texts_of_sinfo);
	tcase_add_test(tcase, words_of_slurmrestd);
	tcase_add_test(tcase, states_of_jobs);
	tcase_add_test(tcase, rules_by_brute_force);
	tcase_add_test(tcase, rows_are_sorted);
	tcase_add_test(tcase, a_job_in_old_and_new_words);
	tcase_add_test(tcase, a_job_that_completes_or_is_requeued);
	tcase_add_test(tcase, local_times_of_scontrol);
	tcase_add_test(tcase, what_cannot_be_read_says_no);
	tcase_add_test(tcase, a_row_of_many_nodes);
	tcase_add_test(tcase, a_key_that_nobody_has);
	tcase_add_test(tcase, the_answer_to_a_submit);
	suite_add_tcase(suite, tcase);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
