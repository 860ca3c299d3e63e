/* check_cli_options.c - what the clients make of their command lines. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/ctl.h"
#include "cli/run_options.h"
#include "cli/status.h"

#define WORDS	     12
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static int count_words(const char *const *words)
{
	int n = 0;

	while (words[n])
		n++;
	return n;
}

/* getopt reorders what it is given: hand it a copy. */
static int copy_words(const char *program, const char *const *words, char **argv)
{
	int n = count_words(words);

	argv[0] = (char *)program;
	for (int i = 0; i <= n; i++)
		argv[1 + i] = (char *)words[i];
	return n + 1;
}

static int parse_run(
	struct run_options *options, const char *const *words, struct err *err)
{
	static char *argv[WORDS + 2];

	return run_options_parse(
		options, copy_words("malle-run", words, argv), argv, err);
}

/* --- malle-run -------------------------------------------- */

static const struct {
	const char *words[WORDS];
	int min, max, nproc;
	const char *name, *mode, *launcher, *command, *argument;
} taken[] = {
	{ { "train" }, 1, 1, 1, "train", "swap", "mpi", "train", NULL },
	{ { "--", "train", "-x" }, 1, 1, 1, "train", "swap", "mpi", "train", "-x" },
	{ { "train", "--nnodes=3" }, 1, 1, 1, "train", "swap", "mpi", "train",
		"--nnodes=3" },
	{ { "--nnodes=2:8", "train" }, 2, 8, 1, "train", "swap", "mpi", "train", NULL },
	{ { "--nnodes", "5", "train" }, 5, 5, 1, "train", "swap", "mpi", "train",
		NULL },
	{ { "--nnodes", "1:65536", "x" }, 1, 65536, 1, "x", "swap", "mpi", "x", NULL },
	{ { "--nproc-per-node=4", "x" }, 1, 1, 4, "x", "swap", "mpi", "x", NULL },
	{ { "--nproc_per_node=4", "x" }, 1, 1, 4, "x", "swap", "mpi", "x", NULL },
	{ { "--nproc_per_node", "4096", "x" }, 1, 1, 4096, "x", "swap", "mpi", "x",
		NULL },
	{ { "-J", "big", "/opt/a b/x" }, 1, 1, 1, "big", "swap", "mpi", "/opt/a b/x",
		NULL },
	{ { "/opt/bin/train" }, 1, 1, 1, "train", "swap", "mpi", "/opt/bin/train",
		NULL },
	{ { "dir/" }, 1, 1, 1, "dir/", "swap", "mpi", "dir/", NULL },
	{ { "--launcher=torch", "x" }, 1, 1, 1, "x", "swap", "torch", "x", NULL },
	{ { "--launcher=env", "x" }, 1, 1, 1, "x", "swap", "env", "x", NULL },
	{ { "--launcher=env", "--mode=swap", "x" }, 1, 1, 1, "x", "swap", "env", "x",
		NULL },
	{ { "--mode=live", "x" }, 1, 1, 1, "x", "live", "mpi", "x", NULL },
};

START_TEST(options_of_malle_run_are_taken_as_torchrun_spells_them)
{
	struct run_options options;
	struct err err;

	ck_assert_msg(parse_run(&options, taken[_i].words, &err) == 0, "%s", err.text);
	ck_assert_int_eq(options.min_nodes, taken[_i].min);
	ck_assert_int_eq(options.max_nodes, taken[_i].max);
	ck_assert_int_eq(options.nproc, taken[_i].nproc);
	ck_assert_str_eq(options.name, taken[_i].name);
	ck_assert_str_eq(options.mode, taken[_i].mode);
	ck_assert_str_eq(options.launcher, taken[_i].launcher);
	ck_assert_str_eq(options.command[0], taken[_i].command);
	if (taken[_i].argument)
		ck_assert_str_eq(options.command[1], taken[_i].argument);
	else
		ck_assert_ptr_null(options.command[1]);
}
END_TEST

static const struct {
	const char *words[WORDS];
	const char *text;
} refused[] = {
	{ { NULL }, "command: none given; see --help" },
	{ { "--" }, "command: none given; see --help" },
	{ { "" }, "command: none given; see --help" },
	{ { "--nnodes=0", "x" },
		"option --nnodes: \"0\": is not N or MIN:MAX from 1 to 65536" },
	{ { "--nnodes=65537", "x" },
		"option --nnodes: \"65537\": is not N or MIN:MAX from 1 to 65536" },
	{ { "--nnodes=99999999999999999999", "x" },
		"option --nnodes: \"99999999999999999999\": is not N or MIN:MAX from 1 "
		"to 65536" },
	{ { "--nnodes=:3", "x" },
		"option --nnodes: \":3\": is not N or MIN:MAX from 1 to 65536" },
	{ { "--nnodes=1:2:3", "x" },
		"option --nnodes: \"1:2:3\": is not N or MIN:MAX from 1 to 65536" },
	{ { "--nnodes=-1:2", "x" },
		"option --nnodes: \"-1:2\": is not N or MIN:MAX from 1 to 65536" },
	{ { "--nnodes= 1", "x" },
		"option --nnodes: \" 1\": is not N or MIN:MAX from 1 to 65536" },
	{ { "--nnodes=5:2", "x" },
		"option --nnodes: \"5:2\": the minimum is over the maximum" },
	{ { "--nproc-per-node=auto", "x" },
		"option --nproc-per-node: \"auto\": is not a number from 1 to 4096" },
	{ { "--nproc-per-node=4097", "x" },
		"option --nproc-per-node: \"4097\": is not a number from 1 to 4096" },
	{ { "--name=", "x" }, "option --name: \"\": is not of 1 to 64 bytes" },
	{ { "--name=a\nb", "x" }, "option --name: \"a\nb\": has a control character" },
	{ { "--mode=fast", "x" },
		"option --mode: \"fast\": is not live, swap or restart" },
	{ { "--launcher=ssh", "x" },
		"option --launcher: \"ssh\": is not mpi, torch or env" },
	{ { "--priority=0", "x" },
		"option --priority: \"0\": is not a number from 0.001 to 1000" },
	{ { "--priority=inf", "x" },
		"option --priority: \"inf\": is not a number from 0.001 to 1000" },
	{ { "--priority=2x", "x" },
		"option --priority: \"2x\": is not a number from 0.001 to 1000" },
	{ { "--fallback=cloud", "x" },
		"option --fallback: \"cloud\": is not fail, wait or local" },
	{ { "--spool=", "x" }, "option --spool: \"\": is empty" },
	{ { "--server=", "x" }, "option --server: \"\": is empty" },
	{ { "--detach=yes", "x" }, "option --detach=yes: takes no value; see --help" },
	{ { "--nnodes" }, "option --nnodes: needs a value" },
	{ { "-o" }, "option -o: needs a value" },
	{ { "-qX", "x" }, "option -X: unknown; see --help" },
	{ { "--rdzv-backend=c10d", "x" },
		"option --rdzv-backend=c10d: unknown; see --help" },
};

START_TEST(what_malle_run_cannot_take_is_named_with_the_reason)
{
	struct run_options options;
	struct err err;

	errno = 0;
	ck_assert_int_eq(parse_run(&options, refused[_i].words, &err), -1);
	ck_assert_int_eq(errno, EINVAL);
	ck_assert_str_eq(err.text, refused[_i].text);
}
END_TEST

START_TEST(a_long_command_name_is_cut_between_characters)
{
	const char *words[] = { NULL, NULL };
	char command[200];
	struct run_options options;

	/* 63 bytes, then characters of two. */
	memset(command, 'a', 63);
	strcpy(command + 63, "\xc3\xa4\xc3\xa4");
	words[0] = command;
	ck_assert_int_eq(parse_run(&options, words, NULL), 0);
	ck_assert_uint_eq(strlen(options.name), 63);
	memset(command, 'a', 62);
	strcpy(command + 62, "\xc3\xa4\xc3\xa4");
	ck_assert_int_eq(parse_run(&options, words, NULL), 0);
	ck_assert_uint_eq(strlen(options.name), 64);
}
END_TEST

START_TEST(the_rest_of_malle_runs_options_is_kept)
{
	const char *const words[] = { "--fallback=wait", "--detach", "-q", "-o", "log",
		"--spool=/s", "--ledger=/l", "--server=/x.sock", "--timeout=2.5",
		"--priority=0.5", "x", NULL };
	struct run_options options;

	ck_assert_int_eq(parse_run(&options, words, NULL), 0);
	ck_assert_int_eq(options.fallback, FALLBACK_WAIT);
	ck_assert_int_eq(options.detach && options.quiet, 1);
	ck_assert_str_eq(options.output, "log");
	ck_assert_str_eq(options.spool, "/s");
	ck_assert_str_eq(options.ledger, "/l");
	ck_assert_str_eq(options.server, "/x.sock");
	ck_assert_double_eq(options.timeout_s, 2.5);
	ck_assert_double_eq(options.priority, 0.5);
}
END_TEST

/* --- malle-status -------------------------------------------- */

static const struct {
	const char *words[WORDS];
	const char *what, *id;
	enum fmt_what format;
	int json;
	double interval_s;
	const char *text; /* of the refusal */
} subjects[] = {
	{ { NULL }, "summary", NULL, FMT_SUMMARY, 0, 0, NULL },
	{ { "--json" }, "summary", NULL, FMT_SUMMARY, 1, 0, NULL },
	{ { "jobs", "-i", "2" }, "jobs", NULL, FMT_JOBS, 0, 2, NULL },
	{ { "nodes", "--interval=0.5" }, "nodes", NULL, FMT_NODES, 0, 0.5, NULL },
	{ { "--json", "job", "17" }, "job", "17", FMT_JOB, 1, 0, NULL },
	{ { "node", "n1" }, "node", "n1", FMT_NODE, 0, 0, NULL },
	{ { "job" }, NULL, NULL, 0, 0, 0, "job: which one?" },
	{ { "node", "" }, NULL, NULL, 0, 0, 0, "node: which one?" },
	{ { "node", "a", "b" }, NULL, NULL, 0, 0, 0, "\"b\": is one word too many" },
	{ { "history" }, NULL, NULL, 0, 0, 0,
		"\"history\": is not jobs, nodes, job ID or node NAME" },
	{ { "-i", "0.05" }, NULL, NULL, 0, 0, 0,
		"option --interval: \"0.05\": is not a number from 0.1 to 86400" },
	{ { "-i" }, NULL, NULL, 0, 0, 0, "option -i: needs a value" },
	{ { "-j" }, NULL, NULL, 0, 0, 0, "option -j: unknown; see --help" },
};

START_TEST(malle_status_knows_what_it_is_asked)
{
	char *argv[WORDS + 2];
	int argc = copy_words("malle-status", subjects[_i].words, argv);
	struct status_options options;
	struct err err;

	if (subjects[_i].text) {
		ck_assert_int_eq(status_options_parse(&options, argc, argv, &err), -1);
		ck_assert_str_eq(err.text, subjects[_i].text);
		return;
	}
	ck_assert_int_eq(status_options_parse(&options, argc, argv, &err), 0);
	ck_assert_str_eq(options.what, subjects[_i].what);
	ck_assert_int_eq(options.format, subjects[_i].format);
	ck_assert_pstr_eq(options.id, subjects[_i].id);
	ck_assert_int_eq(options.json, subjects[_i].json);
	ck_assert_double_eq(options.interval_s, subjects[_i].interval_s);
}
END_TEST

/* --- mallectl -------------------------------------------- */

static const struct {
	const char *words[WORDS];
	enum ctl_verb verb;
	const char *job;
	int force;
	const char *text;
} verbs[] = {
	{ { "cancel", "3" }, CTL_CANCEL, "3", 0, NULL },
	{ { "cancel", "3", "--force" }, CTL_CANCEL, "3", 1, NULL },
	{ { "--force", "cancel", "3" }, CTL_CANCEL, "3", 1, NULL },
	{ { "pause", "3" }, CTL_PAUSE, "3", 0, NULL },
	{ { "resume", "3" }, CTL_RESUME, "3", 0, NULL },
	{ { "ping" }, CTL_PING, NULL, 0, NULL },
	{ { "show", "config" }, CTL_SHOW_CONFIG, NULL, 0, NULL },
	{ { NULL }, 0, NULL, 0, "verb: none given; see --help" },
	{ { "hold" }, 0, NULL, 0, "verb \"hold\": unknown; see --help" },
	{ { "cancel" }, 0, NULL, 0, "cancel: which job?" },
	{ { "resume", "3", "4" }, 0, NULL, 0, "\"4\": is one word too many" },
	{ { "show", "jobs" }, 0, NULL, 0, "show: what? only config is known" },
	{ { "pause", "3", "--force" }, 0, NULL, 0,
		"option --force: is for cancel only" },
	{ { "--timeout=no", "ping" }, 0, NULL, 0,
		"option --timeout: \"no\": is not a number from 0.1 to 86400" },
};

START_TEST(mallectl_knows_its_verbs)
{
	char *argv[WORDS + 2];
	int argc = copy_words("mallectl", verbs[_i].words, argv);
	struct ctl_options options;
	struct err err;

	if (verbs[_i].text) {
		ck_assert_int_eq(ctl_options_parse(&options, argc, argv, &err), -1);
		ck_assert_str_eq(err.text, verbs[_i].text);
		return;
	}
	ck_assert_int_eq(ctl_options_parse(&options, argc, argv, &err), 0);
	ck_assert_int_eq(options.verb, verbs[_i].verb);
	ck_assert_pstr_eq(options.job, verbs[_i].job);
	ck_assert_int_eq(options.force, verbs[_i].force);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("cli_options");
	TCase *tc = tcase_create("cli_options");
	SRunner *runner;
	int failed;

	tcase_add_loop_test(tc, options_of_malle_run_are_taken_as_torchrun_spells_them,
		0, COUNT(taken));
	tcase_add_loop_test(tc, what_malle_run_cannot_take_is_named_with_the_reason, 0,
		COUNT(refused));
	tcase_add_test(tc, a_long_command_name_is_cut_between_characters);
	tcase_add_test(tc, the_rest_of_malle_runs_options_is_kept);
	tcase_add_loop_test(
		tc, malle_status_knows_what_it_is_asked, 0, COUNT(subjects));
	tcase_add_loop_test(tc, mallectl_knows_its_verbs, 0, COUNT(verbs));
	suite_add_tcase(suite, tc);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}
