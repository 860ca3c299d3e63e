/*
 * agent_main.c - options and environment, then hand over.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/shim.h"
#include "agent/spooler.h"
#include "proto/log.h"

static const char usage[] =
	"usage: malle-agent [-v]\n"
	"       malle-agent --exec -- COMMAND [ARGUMENT...]\n"
	"\n"
	"Hold a node for mallectld: start, watch and end the workers of its jobs.\n"
	"Started by a claim, with what it has to know in its environment (MALLE_CTLD,\n"
	"MALLE_NODE, MALLE_CLAIM, MALLE_RUNDIR; see malle-agent(8)).\n"
	"\n"
	"      --exec     become COMMAND, with torchrun's variables from mpirun's\n"
	"  -v, --verbose  log every message\n"
	"  -h, --help\n"
	"      --version\n";

enum { OPT_EXEC = 256, OPT_SPOOL, OPT_VERSION };
enum mode { MODE_AGENT, MODE_EXEC, MODE_SPOOL };

static const struct option long_options[] = {
	{ "exec", no_argument, NULL, OPT_EXEC },
	{ "spool", no_argument, NULL, OPT_SPOOL }, /* the agent's own; spooler.c */
	{ "verbose", no_argument, NULL, 'v' },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, OPT_VERSION },
	{ NULL, 0, NULL, 0 },
};

struct options {
	enum mode mode;
	int verbose;
};

static int print(const char *text)
{
	if (fputs(text, stdout) < 0 || fflush(stdout) != 0) {
		fprintf(stderr, "malle-agent: writing standard output: %s\n",
			strerror(errno));
		return EXIT_WRITE_FAILED;
	}
	return EXIT_OK;
}

static int bad_usage(const char *what)
{
	fprintf(stderr, "malle-agent: %s, see --help\n", what);
	return EXIT_BAD_USAGE;
}

/* -1: go on; else exit with this code. */
static int parse(int argc, char **argv, struct options *options)
{
	int c, rest;

	/* "+": what follows the first word is the command's. */
	while ((c = getopt_long(argc, argv, "+vh", long_options, NULL)) != -1) {
		switch (c) {
		case OPT_EXEC:
			options->mode = MODE_EXEC;
			break;
		case OPT_SPOOL:
			options->mode = MODE_SPOOL;
			break;
		case 'v':
			options->verbose = 1;
			break;
		case 'h':
			return print(usage);
		case OPT_VERSION:
			return print("malle-agent " MALLE_VERSION "\n");
		default:
			return EXIT_BAD_USAGE; /* getopt has said why */
		}
	}
	rest = argc - optind;
	if (options->mode == MODE_AGENT && rest)
		return bad_usage("no argument is expected");
	if (options->mode == MODE_EXEC && !rest)
		return bad_usage("--exec needs a command");
	if (options->mode == MODE_SPOOL && rest != 2)
		return bad_usage("--spool needs a path and a word");
	return -1;
}

/* --- environment ------------------------------------------------------------ */

static int take_string(const char *name, const char *usual, const char **value)
{
	const char *given = getenv(name);

	*value = given && given[0] ? given : usual;
	if (*value)
		return 0;
	fprintf(stderr, "malle-agent: environment: %s is not set\n", name);
	return -1;
}

static int take_seconds(const char *name, double usual, double *value)
{
	const char *given = getenv(name);
	char *end;

	*value = usual;
	if (!given || !given[0])
		return 0;
	*value = strtod(given, &end);
	if (!*end && isfinite(*value) && *value >= 0 && *value <= 86400)
		return 0;
	fprintf(stderr,
		"malle-agent: environment: %s: \"%s\" is no number of seconds\n", name,
		given);
	return -1;
}

static int check_id(const char *name, const char *value)
{
	if (strlen(value) < PART_ID_SIZE && !strchr(value, '/') && value[0] != '.')
		return 0;
	fprintf(stderr, "malle-agent: environment: %s: \"%s\" is no name\n", name,
		value);
	return -1;
}

static int take_environment(struct agent_config *config)
{
	if (take_string("MALLE_CTLD", NULL, &config->ctld) < 0 ||
		take_string("MALLE_NODE", NULL, &config->node) < 0 ||
		take_string("MALLE_CLAIM", NULL, &config->claim) < 0 ||
		take_string("MALLE_RUNDIR", NULL, &config->rundir) < 0 ||
		take_string("MALLE_SHM", "/dev/shm", &config->shm) < 0 ||
		take_string("MALLE_INTERFACE", "lo", &config->interface) < 0 ||
		check_id("MALLE_NODE", config->node) < 0 ||
		check_id("MALLE_CLAIM", config->claim) < 0 ||
		take_seconds("MALLE_GRACE_S", 10, &config->grace_s) < 0 ||
		take_seconds("MALLE_ORPHAN_S", 60, &config->orphan_s) < 0 ||
		take_seconds("MALLE_REPLICA_S", 5, &config->replica_s) < 0 ||
		take_seconds("MALLE_SPOOL_S", 30, &config->spool_s) < 0)
		return -1;
	config->cgroup = getenv("MALLE_CGROUP");
	if (config->cgroup && !config->cgroup[0])
		config->cgroup = NULL;
	return 0;
}

/* --- the three of them ------------------------------------------------------ */

static int run_agent(const struct options *options)
{
	struct agent_config config = { 0 };
	struct err err = { "" };
	enum log_level level =
		log_level_parse(getenv("MALLE_LOG") ? getenv("MALLE_LOG") : "");
	int code;

	if (take_environment(&config) < 0)
		return EXIT_BAD_CONFIG;
	if (level == LOG_UNSET)
		level = LOG_LEVEL_INFO;
	log_open("malle-agent", options->verbose ? LOG_LEVEL_DEBUG : level, NULL);
	/* The node's time is measured by SIGTERM, not by a terminal. */
	signal(SIGHUP, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	code = agent_run(&config, &err);
	if (err.text[0])
		fprintf(stderr, "malle-agent: %s\n", err.text);
	return code;
}

static int run_shim(char *const *argv)
{
	struct err err;
	int code = shim_exec(argv, &err);

	fprintf(stderr, "malle-agent: --exec: %s\n", err.text);
	return code;
}

/* A pipe or socket must not get the number of a standard stream. */
static void open_standard_streams(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

int main(int argc, char **argv)
{
	struct options options = { 0 };
	int code;

	open_standard_streams();
	argv[0] = program_invocation_short_name; /* getopt's lines begin with it */
	code = parse(argc, argv, &options);
	if (code >= 0)
		return code;
	switch (options.mode) {
	case MODE_EXEC:
		return run_shim(argv + optind);
	case MODE_SPOOL:
		return spooler_main(argv[optind], argv[optind + 1]);
	default:
		return run_agent(&options);
	}
}
