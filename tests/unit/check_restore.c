/*
 * check_restore.c - a daemon takes up what the one before it has written.
 *
 * The whole daemon, with the static backend and an agent that ends at once: what
 * is looked at is what becomes of the jobs in its journal.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/ctld.h"
#include "proto/log.h"

static char dir[] = "/tmp/check_restore.XXXXXX";
static char journal[64];

static const char job_record[] =
	"{\"t\":1,\"event\":\"job\",\"job\":\"1\",\"name\":\"test\",\"argv\":[\"train\"],"
	"\"env\":[],\"cwd\":\"/\",\"min_nodes\":2,\"max_nodes\":2,\"nproc\":1,"
	"\"mode\":\"swap\",\"launcher\":\"env\",\"spool\":\"/tmp\",\"uid\":0,\"gid\":0}\n";

static void set(char **option, const char *value)
{
	free(*option);
	*option = strdup(value);
}

static struct ctld *start(const char *records)
{
	struct err err = { "" };
	struct config config;
	struct ctld *ctld;
	FILE *out = fopen(journal, "w");

	ck_assert_ptr_nonnull(out);
	fputs(records, out);
	fclose(out);
	ck_assert_int_eq(config_init(&config, &err), 0);
	free(config.socket);
	ck_assert_int_gt(asprintf(&config.socket, "%s/ctld.sock", dir), 0);
	set(&config.run_dir, dir);
	set(&config.state_dir, dir);
	set(&config.backend, "static");
	set(&config.nodes, "n1");
	set(&config.agent, "/bin/false");
	ctld = ctld_create(&config, &err);
	ck_assert_msg(ctld != NULL, "%s", err.text);
	return ctld;
}

static void stop(void *arg)
{
	loop_stop(arg);
}

static void serve_for(struct ctld *ctld, double s)
{
	struct loop_timer *timer = loop_timer_create(ctld->loop, stop, ctld->loop);

	loop_timer_start(timer, s);
	ck_assert_int_eq(ctld_run(ctld), 0);
	loop_timer_destroy(timer);
}

START_TEST(a_world_on_nodes_that_are_no_more_is_lost_and_its_job_waits)
{
	char records[2048];
	struct ctld *ctld;
	struct job *job;

	snprintf(records, sizeof(records), "%s%s%s", job_record,
		"{\"t\":2,\"event\":\"world\",\"job\":\"1\",\"generation\":1,"
		"\"nodes\":[\"a1\",\"a2\"],\"kind\":\"start\",\"forced\":false}\n",
		"{\"t\":3,\"event\":\"go\",\"job\":\"1\",\"generation\":1,\"step\":0,"
		"\"cursor\":0}\n");
	ctld = start(records);
	job = jobs_find(ctld->jobs, "1");
	ck_assert_ptr_nonnull(job);
	ck_assert_ptr_nonnull(job->current);
	serve_for(ctld, 0.5);
	ck_assert_ptr_null(job->current);
	ck_assert_ptr_null(job->worlds);
	ck_assert_int_eq(job->state, JOB_WAITING);
	ctld_destroy(ctld);
}
END_TEST

START_TEST(a_cancelled_job_without_a_world_has_ended)
{
	char records[2048];
	struct ctld *ctld;
	struct job *job;

	snprintf(records, sizeof(records), "%s%s", job_record,
		"{\"t\":2,\"event\":\"cancel\",\"job\":\"1\",\"force\":false}\n");
	ctld = start(records);
	job = jobs_find(ctld->jobs, "1");
	serve_for(ctld, 0.5);
	ck_assert_int_eq(job->state, JOB_ENDED);
	ck_assert_int_eq(job->exit_code, EXIT_PREEMPTED);
	ctld_destroy(ctld);
}
END_TEST

START_TEST(a_paused_job_stays_paused)
{
	char records[2048];
	struct ctld *ctld;
	struct job *job;

	snprintf(records, sizeof(records), "%s%s", job_record,
		"{\"t\":2,\"event\":\"state\",\"job\":\"1\",\"state\":\"paused\","
		"\"reason\":\"paused by request\",\"held\":true}\n");
	ctld = start(records);
	job = jobs_find(ctld->jobs, "1");
	serve_for(ctld, 0.5);
	ck_assert_int_eq(job->state, JOB_PAUSED);
	ctld_destroy(ctld);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("restore");
	TCase *tc = tcase_create("jobs");

	tcase_set_timeout(tc, 20);
	tcase_add_test(tc, a_world_on_nodes_that_are_no_more_is_lost_and_its_job_waits);
	tcase_add_test(tc, a_cancelled_job_without_a_world_has_ended);
	tcase_add_test(tc, a_paused_job_stays_paused);
	suite_add_tcase(s, tc);
	return s;
}

int main(void)
{
	char clean[96];
	SRunner *runner;
	int failed;

	if (!mkdtemp(dir))
		return 1;
	snprintf(journal, sizeof(journal), "%s/journal.jsonl", dir);
	log_open("check_restore", log_level_parse("err"), "/dev/null");
	runner = srunner_create(suite());
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	snprintf(clean, sizeof(clean), "rm -rf %s", dir);
	return system(clean) != 0 || failed != 0;
}
