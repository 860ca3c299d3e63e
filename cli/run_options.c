/*
 * run_options.c - what malle-run was told.
 *
 * Options end at the first word that is none, or at "--": all that follows is
 * the command, also if it begins with a dash.  Names of torchrun are taken as
 * torchrun spells them, with - or with _; so a launch line of torchrun needs no
 * edit beyond the program's name.  Its defaults are ours too: one node, one
 * worker.  More nodes than one are asked for explicitly, because a command that
 * knows nothing of malle must not suddenly run on many.
 */
#include "cli/run_options.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NODES_MAX 65536
#define NPROC_MAX 4096
#define LOST_S	  30.0

enum option_id {
	OPT_UNSET = 256,
	OPT_NNODES,
	OPT_NPROC,
	OPT_MODE,
	OPT_LAUNCHER,
	OPT_PRIORITY,
	OPT_FALLBACK,
	OPT_DETACH,
	OPT_SPOOL,
	OPT_LEDGER,
	OPT_SERVER,
	OPT_TIMEOUT,
	OPT_VERSION,
};

static const struct option long_options[] = {
	{ "nnodes", required_argument, NULL, OPT_NNODES },
	{ "nproc-per-node", required_argument, NULL, OPT_NPROC },
	{ "nproc_per_node", required_argument, NULL, OPT_NPROC },
	{ "name", required_argument, NULL, 'J' },
	{ "mode", required_argument, NULL, OPT_MODE },
	{ "launcher", required_argument, NULL, OPT_LAUNCHER },
	{ "priority", required_argument, NULL, OPT_PRIORITY },
	{ "fallback", required_argument, NULL, OPT_FALLBACK },
	{ "detach", no_argument, NULL, OPT_DETACH },
	{ "quiet", no_argument, NULL, 'q' },
	{ "spool", required_argument, NULL, OPT_SPOOL },
	{ "output", required_argument, NULL, 'o' },
	{ "ledger", required_argument, NULL, OPT_LEDGER },
	{ "server", required_argument, NULL, OPT_SERVER },
	{ "timeout", required_argument, NULL, OPT_TIMEOUT },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, OPT_VERSION },
	{ NULL, 0, NULL, 0 },
};

void run_options_help(FILE *out)
{
	fputs("usage: malle-run [options] [--] COMMAND [ARGUMENT...]\n"
	      "Run a training command on the nodes that mallectld gives it.\n\n"
	      "  --nnodes=MIN:MAX | N       bounds on the nodes, default 1:1\n"
	      "  --nproc-per-node=N         workers on each node, default 1\n"
	      "  -J, --name=NAME            for people; default: the command's name\n"
	      "  --mode=live|swap|restart   how it is rescaled, default swap\n"
	      "  --launcher=mpi|torch|env   what starts the workers, default mpi\n"
	      "  --priority=N               weight in the objective, default 1\n"
	      "  --fallback=fail|wait|local without a daemon: fail (default), wait\n"
	      "                             for one, or train on this machine alone\n"
	      "  --detach                   print the job's id and leave; output goes\n"
	      "                             to malle-%j.out\n"
	      "  -o, --output=FILE          append output to FILE; %j is the job's id\n"
	      "  -q, --quiet                no lines on changes of the job's state\n"
	      "  --spool=DIR                for the state of a job without nodes;\n"
	      "                             default: a new directory in .malle\n"
	      "  --ledger=DIR               record which samples each step consumed\n"
	      "  --server=SOCKET            of the daemon\n"
	      "  --timeout=SECONDS          to look for a lost daemon, default 30\n"
	      "  -h, --help, --version\n",
		out);
}

static int bad(struct err *err, const char *option, const char *value, const char *why)
{
	return err_set(err, EINVAL, "option %s: \"%s\": %s", option, value, why);
}

/* A whole number in 1..max at text, up to `end` (NUL or ':'); 0: it is none. */
static int parse_count(const char *text, const char *end, int max)
{
	int value = 0;

	if (text == end)
		return 0;
	for (; text < end; text++) {
		if (*text < '0' || *text > '9')
			return 0;
		value = value * 10 + (*text - '0');
		if (value > max)
			return 0;
	}
	return value;
}

static int parse_nnodes(struct run_options *options, const char *text, struct err *err)
{
	const char *end = text + strlen(text);
	const char *colon = strchr(text, ':');
	int min = parse_count(text, colon ? colon : end, NODES_MAX);
	int max = colon ? parse_count(colon + 1, end, NODES_MAX) : min;

	if (!min || !max)
		return bad(
			err, "--nnodes", text, "is not N or MIN:MAX from 1 to 65536");
	if (min > max)
		return bad(err, "--nnodes", text, "the minimum is over the maximum");
	options->min_nodes = min;
	options->max_nodes = max;
	return 0;
}

static int parse_real(double *value, const char *option, const char *text, double min,
	double max, struct err *err)
{
	char why[64];
	char *end;
	double real = strtod(text, &end);

	if (end != text && *end == '\0' && isfinite(real) && real >= min &&
		real <= max) {
		*value = real;
		return 0;
	}
	snprintf(why, sizeof(why), "is not a number from %g to %g", min, max);
	return bad(err, option, text, why);
}

static int parse_name(struct run_options *options, const char *text, struct err *err)
{
	if (*text == '\0' || strlen(text) >= sizeof(options->name))
		return bad(err, "--name", text, "is not of 1 to 64 bytes");
	for (const unsigned char *p = (const unsigned char *)text; *p; p++)
		if (*p < ' ' || *p == 0x7f)
			return bad(err, "--name", text, "has a control character");
	strcpy(options->name, text);
	return 0;
}

static int parse_word(const char **word, const char *option, const char *text,
	const char *const words[3], struct err *err)
{
	char why[64];

	for (int i = 0; i < 3; i++)
		if (strcmp(words[i], text) == 0) {
			*word = words[i];
			return 0;
		}
	snprintf(why, sizeof(why), "is not %s, %s or %s", words[0], words[1], words[2]);
	return bad(err, option, text, why);
}

static int parse_fallback(
	struct run_options *options, const char *text, struct err *err)
{
	static const char *const words[3] = { "fail", "wait", "local" };
	const char *word;

	if (parse_word(&word, "--fallback", text, words, err) < 0)
		return -1;
	options->fallback = word == words[0]   ? FALLBACK_FAIL
			    : word == words[1] ? FALLBACK_WAIT
					       : FALLBACK_LOCAL;
	return 0;
}

static int parse_path(
	const char **path, const char *option, const char *text, struct err *err)
{
	if (*text == '\0')
		return bad(err, option, text, "is empty");
	*path = text;
	return 0;
}

static int parse_option(
	struct run_options *o, int id, const char *value, struct err *err)
{
	static const char *const modes[3] = { "live", "swap", "restart" };
	static const char *const launchers[3] = { "mpi", "torch", "env" };

	switch (id) {
	case OPT_NNODES:
		return parse_nnodes(o, value, err);
	case OPT_NPROC:
		o->nproc = parse_count(value, value + strlen(value), NPROC_MAX);
		return o->nproc ? 0
				: bad(err, "--nproc-per-node", value,
					  "is not a number from 1 to 4096");
	case 'J':
		return parse_name(o, value, err);
	case OPT_MODE:
		return parse_word(&o->mode, "--mode", value, modes, err);
	case OPT_LAUNCHER:
		return parse_word(&o->launcher, "--launcher", value, launchers, err);
	case OPT_PRIORITY:
		return parse_real(&o->priority, "--priority", value, 0.001, 1000, err);
	case OPT_FALLBACK:
		return parse_fallback(o, value, err);
	case OPT_SPOOL:
		return parse_path(&o->spool, "--spool", value, err);
	case 'o':
		return parse_path(&o->output, "--output", value, err);
	case OPT_LEDGER:
		return parse_path(&o->ledger, "--ledger", value, err);
	case OPT_SERVER:
		return parse_path(&o->server, "--server", value, err);
	case OPT_TIMEOUT:
		return parse_real(&o->timeout_s, "--timeout", value, 0.1, 86400, err);
	case OPT_DETACH:
		o->detach = 1;
		return 0;
	case 'q':
		o->quiet = 1;
		return 0;
	case OPT_VERSION:
		o->version = 1;
		return 0;
	default:
		o->help = 1;
		return 0;
	}
}

/* getopt's complaint, in one line of ours. */
static int complain(int what, char **argv, struct err *err)
{
	if (what == ':')
		return err_set(
			err, EINVAL, "option %s: needs a value", argv[optind - 1]);
	if (optopt && optopt < OPT_UNSET)
		return err_set(err, EINVAL, "option -%c: unknown; see --help", optopt);
	return err_set(err, EINVAL, "option %s: %s; see --help", argv[optind - 1],
		optopt ? "takes no value" : "unknown");
}

static void name_after_command(struct run_options *options)
{
	const char *slash = strrchr(options->command[0], '/');
	const char *base = slash && slash[1] ? slash + 1 : options->command[0];
	size_t size = strlen(base);

	/* Cut between characters: half a one would not be UTF-8. */
	if (size >= sizeof(options->name))
		for (size = sizeof(options->name) - 1;
			size > 1 && (base[size] & 0xc0) == 0x80;)
			size--;
	snprintf(options->name, sizeof(options->name), "%.*s", (int)size, base);
}

int run_options_parse(
	struct run_options *options, int argc, char **argv, struct err *err)
{
	int id;

	*options = (struct run_options){
		.min_nodes = 1,
		.max_nodes = 1,
		.nproc = 1,
		.launcher = "mpi",
		.priority = 1,
		.fallback = FALLBACK_FAIL,
		.timeout_s = LOST_S,
	};
	opterr = 0;
	optind = 0; /* glibc: from the beginning, also the second time */
	while ((id = getopt_long(argc, argv, "+:J:o:qh", long_options, NULL)) != -1) {
		if (id == '?' || id == ':')
			return complain(id, argv, err);
		if (parse_option(options, id, optarg, err) < 0)
			return -1;
	}
	options->command = argv + optind;
	if (options->help || options->version)
		return 0;
	if (!options->command[0] || !options->command[0][0])
		return err_set(err, EINVAL, "command: none given; see --help");
	if (!options->name[0])
		name_after_command(options);
	if (!options->mode)
		options->mode = "swap";
	return 0;
}
