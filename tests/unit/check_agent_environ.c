/* check_agent_environ.c - what of two environments a worker gets. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "agent/environ.h"

/* Whether it passes from the agent's own environment, and from the job's. */
static const struct {
	const char *entry;
	int own, job;
} entries[] = {
	{ "PATH=/usr/bin", 1, 1 },
	{ "HOME=/home/u", 1, 1 },
	{ "LC_ALL=C", 1, 1 },
	{ "LD_LIBRARY_PATH=/opt/lib", 1, 1 },
	{ "CUDA_VISIBLE_DEVICES=0,1", 1, 1 },
	{ "MY_SETTING=x", 0, 1 },
	{ "_under=x", 0, 1 },
	{ "PATHOLOGY=x", 0, 1 }, /* PATH is a whole name */
	{ "OMP_NUM_THREADS=4", 0, 1 },
	{ "EMPTY=", 0, 1 },
	{ "SLURM_PROCID=3", 0, 0 },
	{ "SLURM_JOB_NODELIST=n[1-4]", 0, 0 },
	{ "SLURM_CONF=/etc/slurm.conf", 1, 1 },
	{ "SLURM_CONFIG=x", 0, 0 },
	{ "SLURMD_NODENAME=n1", 0, 0 },
	{ "OMPI_COMM_WORLD_RANK=0", 0, 0 },
	{ "OMPI_MCA_btl=tcp", 0, 0 },
	{ "PMIX_RANK=1", 0, 0 },
	{ "PMI_RANK=1", 0, 0 },
	{ "RANK=2", 0, 0 },
	{ "RANKING=2", 0, 1 },
	{ "WORLD_SIZE=8", 0, 0 },
	{ "LOCAL_RANK=0", 0, 0 },
	{ "MASTER_ADDR=n1", 0, 0 },
	{ "MASTER_PORT=29500", 0, 0 },
	{ "TORCHELASTIC_RUN_ID=x", 0, 0 },
	{ "MALLE_CTLD=/run/malle", 0, 0 },
	{ "MALLE_CLAIM=c1", 0, 0 },
	{ "MALLE_LEDGER=/tmp/l", 0, 1 },
	{ "BASH_FUNC_ls%%=() { id; }", 0, 0 },
	{ "1st=x", 0, 0 },
	{ "with blank=x", 0, 0 },
	{ "=x", 0, 0 },
	{ "nothing", 0, 0 },
	{ "", 0, 0 },
};

START_TEST(each_name_passes_or_does_not)
{
	ck_assert_msg(!environ_allowed(entries[_i].entry) == !entries[_i].own,
		"%s (own)", entries[_i].entry);
	ck_assert_msg(!environ_passes(entries[_i].entry) == !entries[_i].job,
		"%s (job)", entries[_i].entry);
}
END_TEST

START_TEST(the_job_wins_but_not_over_the_nodes_devices)
{
	char *own[] = { (char *)"PATH=/own", (char *)"CUDA_VISIBLE_DEVICES=2",
		(char *)"SLURM_PROCID=0", NULL };
	char *job[] = { (char *)"PATH=/job", (char *)"CUDA_VISIBLE_DEVICES=0,1",
		(char *)"GPU_DEVICE_ORDINAL=1", (char *)"SLURM_PROCID=3", NULL };
	struct environ_list list;

	environ_init(&list, own, job);
	ck_assert_int_eq(list.failed, 0);
	ck_assert_uint_eq(list.n, 3);
	ck_assert_str_eq(environ_get(list.entries, "PATH"), "/job");
	ck_assert_str_eq(environ_get(list.entries, "CUDA_VISIBLE_DEVICES"), "2");
	ck_assert_str_eq(environ_get(list.entries, "GPU_DEVICE_ORDINAL"), "1");
	ck_assert_ptr_null(environ_get(list.entries, "SLURM_PROCID"));
	environ_fini(&list);
}
END_TEST

START_TEST(what_is_set_last_counts)
{
	struct environ_list list;

	environ_init(&list, NULL, NULL);
	ck_assert_ptr_null(environ_get(list.entries, "A"));
	environ_set(&list, "A", "%d", 1);
	environ_set(&list, "AB", "x");
	environ_set(&list, "A", "a %s", "b=c");
	ck_assert_uint_eq(list.n, 2);
	ck_assert_str_eq(environ_get(list.entries, "A"), "a b=c");
	ck_assert_ptr_null(list.entries[2]);
	environ_fini(&list);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("agent environ");
	TCase *tcase = tcase_create("all");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_add_loop_test(tcase, each_name_passes_or_does_not, 0,
		(int)(sizeof(entries) / sizeof(entries[0])));
	tcase_add_test(tcase, the_job_wins_but_not_over_the_nodes_devices);
	tcase_add_test(tcase, what_is_set_last_counts);
	suite_add_tcase(suite, tcase);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
