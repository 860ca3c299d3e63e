/*
 * mallectld_main.c - options, then hand over to ctld.
 */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/ctld.h"
#include "daemon/slurm/slurm_view.h"
#include "proto/log.h"

static const char usage[] =
	"usage: mallectld [-c FILE] [-t] [--example]\n"
	"       mallectld --view FILE\n"
	"\n"
	"Serve malleable training jobs in the idle nodes of a batch scheduler.\n"
	"\n"
	"  -c, --config FILE  read FILE (default /etc/malle/malle.conf, or without root\n"
	"                     $XDG_CONFIG_HOME/malle/malle.conf, if it is there)\n"
	"  -t, --test         check the configuration and exit\n"
	"      --example      print a commented configuration and exit\n"
	"      --view FILE    print what an answer of Slurm says, as JSON, and exit\n"
	"  -h, --help\n"
	"      --version\n";

struct options {
	const char *config, *view;
	int test;
};

enum { OPT_EXAMPLE = 256, OPT_VIEW, OPT_VERSION };

static const struct option long_options[] = {
	{ "config", required_argument, NULL, 'c' },
	{ "test", no_argument, NULL, 't' },
	{ "example", no_argument, NULL, OPT_EXAMPLE },
	{ "view", required_argument, NULL, OPT_VIEW },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, OPT_VERSION },
	{ NULL, 0, NULL, 0 },
};

/* One line, whatever a path in it has for bytes. */
static int fail(int code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static int fail(int code, const char *fmt, ...)
{
	char line[PATH_MAX + 512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	for (char *p = line; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			*p = '?';
	fprintf(stderr, "mallectld: %s\n", line);
	return code;
}

static int print_and_close(const char *text)
{
	if (text)
		fputs(text, stdout);
	if (fflush(stdout) != 0 || ferror(stdout))
		return fail(EXIT_WRITE_FAILED, "writing standard output: %s", strerror(errno));
	return EXIT_OK;
}

/* What getopt could not take.  optopt: the letter or number of the option, or 0. */
static int bad_option(int c, char **argv)
{
	if (c == ':')
		return fail(EXIT_BAD_USAGE, "%s: a value is missing, see --help",
			argv[optind - 1]);
	if (optopt && optopt < OPT_EXAMPLE && strncmp(argv[optind - 1], "--", 2))
		return fail(EXIT_BAD_USAGE, "-%c: unknown option, see --help", optopt);
	return fail(EXIT_BAD_USAGE, "%s: %s, see --help", argv[optind - 1],
		optopt ? "the option takes no value" : "unknown option");
}

/* -1: go on; else exit with this code. */
static int parse(int argc, char **argv, struct options *options)
{
	int c;

	opterr = 0;
	while ((c = getopt_long(argc, argv, ":c:th", long_options, NULL)) != -1) {
		switch (c) {
		case 'c':
			options->config = optarg;
			break;
		case 't':
			options->test = 1;
			break;
		case OPT_VIEW:
			options->view = optarg;
			break;
		case OPT_EXAMPLE:
			config_write_example(stdout);
			return print_and_close(NULL);
		case 'h':
			return print_and_close(usage);
		case OPT_VERSION:
			return print_and_close("mallectld " MALLE_VERSION "\n");
		default:
			return bad_option(c, argv);
		}
	}
	if (optind < argc)
		return fail(EXIT_BAD_USAGE, "%s: unexpected argument, see --help",
			argv[optind]);
	return -1;
}

static const char *usual_config(char *buf, size_t size)
{
	const char *xdg = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");

	if (geteuid() == 0)
		snprintf(buf, size, "/etc/malle/malle.conf");
	else if (xdg && xdg[0] == '/')
		snprintf(buf, size, "%s/malle/malle.conf", xdg);
	else
		snprintf(buf, size, "%s/.config/malle/malle.conf", home ? home : "");
	return access(buf, F_OK) == 0 ? buf : NULL;
}

static int exit_code_of(int errnum)
{
	switch (errnum) {
	case EINVAL: /* and the places that the options name cannot be */
	case ENOTDIR:
	case EISDIR:
	case EEXIST:
	case ELOOP:
	case ENAMETOOLONG:
		return EXIT_BAD_CONFIG;
	case EBADMSG: /* the journal; the others: a trace */
	case EPROTO:
	case E2BIG:
		return EXIT_BAD_DATA;
	case EWOULDBLOCK:
	case EADDRINUSE:
		return EXIT_TRY_AGAIN;
	case EACCES:
	case EPERM:
		return EXIT_NOT_ALLOWED;
	case ENOENT:
		return EXIT_NO_INPUT;
	case ENOSPC:
	case EIO:
	case EROFS:
		return EXIT_WRITE_FAILED;
	default:
		return EXIT_INTERNAL;
	}
}

static int serve(struct config *config)
{
	struct err err = { "" };
	struct ctld *ctld;
	int rc;

	if (log_open("mallectld", log_level_parse(config->log_level),
		    config->log_file[0] ? config->log_file : NULL) != 0) {
		rc = fail(EXIT_WRITE_FAILED, "log_file %s: %s", config->log_file,
			strerror(errno));
		config_fini(config);
		return rc;
	}
	signal(SIGPIPE, SIG_IGN);
	ctld = ctld_create(config, &err);
	if (!ctld) {
		rc = exit_code_of(errno);
		config_fini(config);
		return fail(rc, "%s", err.text);
	}
	rc = ctld_run(ctld);
	ctld_destroy(ctld);
	return rc == 0 ? EXIT_OK : EXIT_INTERNAL;
}

static int view(const char *path)
{
	struct err err = { "" };
	int usable = 0;
	json_t *json = slurm_view_read(path, &usable, &err);
	int code;

	if (!json)
		return fail(errno == ENOMEM ? EXIT_INTERNAL : EXIT_NO_INPUT, "%s", err.text);
	json_dumpf(json, stdout, JSON_INDENT(1));
	code = print_and_close("\n");
	json_decref(json);
	if (code != EXIT_OK)
		return code;
	return usable ? EXIT_OK : fail(EXIT_BAD_DATA, "%s: no view, see its errors", path);
}

int main(int argc, char **argv)
{
	struct options options = { NULL, NULL, 0 };
	struct config config;
	struct err err = { "" };
	char path[PATH_MAX];
	int code = parse(argc, argv, &options);

	if (code >= 0)
		return code;
	if (options.view)
		return view(options.view);
	if (config_init(&config, &err) != 0)
		return fail(EXIT_INTERNAL, "%s", err.text);
	if (!options.config)
		options.config = usual_config(path, sizeof(path));
	if (options.config && config_read(&config, options.config, &err) != 0) {
		code = errno == EINVAL ? EXIT_BAD_CONFIG : EXIT_NO_INPUT;
		config_fini(&config);
		return fail(code, "%s", err.text);
	}
	if (options.test) {
		config_fini(&config);
		printf("%s: good\n", options.config ? options.config : "defaults");
		return print_and_close(NULL);
	}
	return serve(&config);
}
