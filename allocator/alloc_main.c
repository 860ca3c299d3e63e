/*
 * alloc_main.c - malle-alloc: one problem in, one plan out.
 */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allocator/child.h"

#define INPUT_MAX (256u << 20)

static const char usage[] =
	"usage: malle-alloc [--solver milp|dp|greedy|auto] [--time-limit MS] "
	"[PROBLEM.json]\n"
	"\n"
	"Decide how many nodes each job gets, and which.  Reads standard input\n"
	"without a file.\n"
	"\n"
	"  -s, --solver NAME    auto (default): dp where it is exact, else milp\n"
	"  -t, --time-limit MS  wall limit; the best plan so far counts then\n"
	"  -h, --help\n"
	"      --version\n";

struct options {
	enum solver solver;
	double limit_s;
	const char *file;
};

static const struct option long_options[] = {
	{"solver", required_argument, NULL, 's'},
	{"time-limit", required_argument, NULL, 't'},
	{"help", no_argument, NULL, 'h'},
	{"version", no_argument, NULL, 'V'},
	{NULL, 0, NULL, 0},
};

static int fail(int code, const char *what, const char *why)
{
	fprintf(stderr, "malle-alloc: %s: %s\n", what, why);
	return code;
}

static int flush_out(void)
{
	if (fflush(stdout) != 0 || ferror(stdout))
		return fail(EXIT_WRITE_FAILED, "standard output", strerror(errno));
	return EXIT_OK;
}

static int parse_limit(const char *text, double *limit_s)
{
	char *end;
	double ms = strtod(text, &end);

	if (end == text || *end || !isfinite(ms) || ms <= 0)
		return -1;
	*limit_s = ms / 1000;
	return 0;
}

/* getopt is not past the word yet where more letters follow the wrong one. */
static int bad_option(const char *word)
{
	char letter[] = {'-', (char)optopt, 0};
	int is_long = optopt == 0 || !strncmp(word, "--", 2);

	return fail(
		EXIT_BAD_USAGE, is_long ? word : letter, "unknown option; see --help");
}

/* -1: go on; else exit with this code. */
static int parse(int argc, char **argv, struct options *options)
{
	int c;

	opterr = 0;
	while ((c = getopt_long(argc, argv, ":s:t:h", long_options, NULL)) != -1) {
		switch (c) {
		case 's':
			options->solver = solver_parse(optarg);
			if (options->solver == SOLVER_UNSET)
				return fail(EXIT_BAD_USAGE, optarg,
					"no such solver, there are milp, dp, greedy, "
					"auto");
			break;
		case 't':
			if (parse_limit(optarg, &options->limit_s) != 0)
				return fail(EXIT_BAD_USAGE, optarg,
					"not a number of milliseconds above 0");
			break;
		case 'h':
			fputs(usage, stdout);
			return flush_out();
		case 'V':
			puts("malle-alloc " MALLE_VERSION);
			return flush_out();
		case ':':
			return fail(EXIT_BAD_USAGE, argv[optind - 1], "needs a value");
		default:
			return bad_option(argv[optind - 1]);
		}
	}
	if (argc - optind > 1)
		return fail(EXIT_BAD_USAGE, argv[optind + 1], "one problem at a time");
	options->file = argv[optind];
	return -1;
}

static char *slurp(FILE *in, size_t *size)
{
	char *text = NULL;
	size_t room = 0, n;

	*size = 0;
	do {
		if (*size == room) {
			char *grown = realloc(text, room = room ? 2 * room : 65536);

			if (!grown || room > 2 * (size_t)INPUT_MAX) {
				free(grown ? grown : text);
				errno = EFBIG;
				return NULL;
			}
			text = grown;
		}
		n = fread(text + *size, 1, room - *size, in);
		*size += n;
	} while (n > 0);
	if (ferror(in)) {
		free(text);
		return NULL;
	}
	return text;
}

static int print_plan(const struct problem *problem, const struct plan *plan)
{
	json_t *json = plan_json(problem, plan);
	int rc = json ? json_dumpf(json, stdout, JSON_COMPACT | JSON_REAL_PRECISION(15))
		      : -1;

	json_decref(json);
	putchar('\n');
	return rc == 0 ? flush_out()
		       : fail(EXIT_WRITE_FAILED, "standard output", strerror(errno));
}

static int decide(const struct problem *problem, const struct options *options)
{
	struct err err = {""};
	struct plan *plan;
	int code;

	if (options->solver == SOLVER_DP && !solve_dp_fits(problem))
		return fail(EXIT_BAD_DATA, "--solver dp",
			"is exact for one kind of node only");
	plan = child_solve(problem, options->solver, options->limit_s, &err);
	if (!plan)
		return fail(EXIT_INTERNAL, "solving", err.text);
	if (plan_verify(problem, plan, &err) != 0)
		code = fail(
			EXIT_INTERNAL, "the plan does not pass the check", err.text);
	else
		code = print_plan(problem, plan);
	plan_destroy(plan);
	return code;
}

int main(int argc, char **argv)
{
	struct options options = {SOLVER_AUTO, INFINITY, NULL};
	const char *name;
	struct problem *problem;
	struct err err = {""};
	FILE *in = stdin;
	char *text;
	size_t size;
	int code = parse(argc, argv, &options);

	if (code >= 0)
		return code;
	name = options.file ? options.file : "standard input";
	if (options.file)
		in = fopen(options.file, "re");
	text = in ? slurp(in, &size) : NULL;
	if (!text)
		return fail(EXIT_NO_INPUT, name, strerror(errno));
	if (in != stdin)
		fclose(in);
	problem = problem_parse(text, size, &err);
	free(text);
	if (!problem)
		return fail(errno == EINVAL ? EXIT_BAD_DATA : EXIT_INTERNAL, name,
			err.text);
	code = decide(problem, &options);
	problem_destroy(problem);
	return code;
}
