/* check_cli_env.c - the environment that a job is given. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/run_env.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct {
	const char *entry;
	int passes;
} entries[] = {
	{ "HOME=/root", 1 },
	{ "PATH=/bin", 1 },
	{ "LD_LIBRARY_PATH=/opt/lib", 1 },
	{ "LD_PRELOAD=x.so", 1 },
	{ "EMPTY=", 1 },
	{ "SLURM_CONF=/etc/slurm.conf", 1 },
	{ "SLURM_CONFIG=x", 0 },
	{ "SLURM_PROCID=0", 0 },
	{ "SLURM_NTASKS=4", 0 },
	{ "SLURM_=", 0 },
	{ "SLURMFISH=x", 1 },
	{ "OMPI_COMM_WORLD_RANK=0", 0 },
	{ "OMPI_MCA_btl=self", 0 },
	{ "PMIX_RANK=0", 0 },
	{ "PMI_FD=3", 0 },
	{ "PRTE_X=1", 0 },
	{ "ORTE_X=1", 0 },
	{ "MALLE_SOCKET=/x", 0 },
	{ "MALLE_SERVER=/x", 0 },
	{ "MALLEABLE=yes", 1 },
	{ "RANK=0", 0 },
	{ "RANKING=0", 1 },
	{ "WORLD_SIZE=2", 0 },
	{ "LOCAL_RANK=2", 0 },
	{ "LOCAL_WORLD_SIZE=2", 0 },
	{ "GROUP_RANK=2", 0 },
	{ "MASTER_ADDR=x", 0 },
	{ "MASTER_PORT=1", 0 },
	{ "OMP_NUM_THREADS=2", 1 },
	{ "CUDA_VISIBLE_DEVICES=0", 1 },
	{ "=odd", 0 },
	{ "novalue", 0 },
	{ "", 0 },
};

START_TEST(what_describes_another_run_does_not_pass)
{
	ck_assert_msg(run_env_passes(entries[_i].entry) == entries[_i].passes, "%s",
		entries[_i].entry);
}
END_TEST

START_TEST(the_list_keeps_the_order_and_counts_what_is_not_utf8)
{
	char *const environment[] = { (char *)"B=1", (char *)"RANK=1", (char *)"X=\xff",
		(char *)"A=\xc3\xa4", NULL };
	size_t left_out;
	json_t *list = run_env_json(environment, "/ledger", &left_out);

	ck_assert_uint_eq(json_array_size(list), 3);
	ck_assert_str_eq(json_string_value(json_array_get(list, 0)), "B=1");
	ck_assert_str_eq(json_string_value(json_array_get(list, 1)), "A=\xc3\xa4");
	ck_assert_str_eq(
		json_string_value(json_array_get(list, 2)), "MALLE_LEDGER=/ledger");
	ck_assert_uint_eq(left_out, 1);
	json_decref(list);
	list = run_env_json(environment, NULL, &left_out);
	ck_assert_uint_eq(json_array_size(list), 2);
	json_decref(list);
}
END_TEST

START_TEST(a_program_started_here_has_the_same_environment)
{
	setenv("SLURM_PROCID", "1", 1);
	setenv("SLURM_JOB_ID", "1", 1);
	setenv("SLURM_CONF", "/c", 1);
	setenv("MALLE_SOCKET", "/s", 1);
	setenv("RANK", "1", 1);
	setenv("KEPT", "yes", 1);
	ck_assert_int_eq(run_env_apply("/ledger"), 0);
	ck_assert_ptr_null(getenv("SLURM_PROCID"));
	ck_assert_ptr_null(getenv("SLURM_JOB_ID"));
	ck_assert_ptr_null(getenv("MALLE_SOCKET"));
	ck_assert_ptr_null(getenv("RANK"));
	ck_assert_str_eq(getenv("SLURM_CONF"), "/c");
	ck_assert_str_eq(getenv("KEPT"), "yes");
	ck_assert_str_eq(getenv("MALLE_LEDGER"), "/ledger");
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("cli_env");
	TCase *tc = tcase_create("cli_env");
	SRunner *runner;
	int failed;

	tcase_add_loop_test(
		tc, what_describes_another_run_does_not_pass, 0, COUNT(entries));
	tcase_add_test(tc, the_list_keeps_the_order_and_counts_what_is_not_utf8);
	tcase_add_test(tc, a_program_started_here_has_the_same_environment);
	suite_add_tcase(suite, tc);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}
