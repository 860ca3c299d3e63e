/*
 * status.c - malle-status: options, and asking.
 *
 * With -i the same question is asked again and again, until Ctrl-C.  Then the
 * daemon may go away and come back in between: that is one line, once, and the
 * next answer follows when there is one.  Only a daemon that was never there is
 * a failure.
 */
#include "cli/status.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/ask.h"
#include "cli/client.h"
#include "cli/say.h"

enum { OPT_JSON = 256, OPT_SERVER, OPT_TIMEOUT, OPT_VERSION };

static const struct option long_options[] = {
	{ "json", no_argument, NULL, OPT_JSON },
	{ "interval", required_argument, NULL, 'i' },
	{ "server", required_argument, NULL, OPT_SERVER },
	{ "timeout", required_argument, NULL, OPT_TIMEOUT },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, OPT_VERSION },
	{ NULL, 0, NULL, 0 },
};

static const struct {
	const char *what;
	int wants_id;
	enum fmt_what format;
} subjects[] = {
	{ "jobs", 0, FMT_JOBS },
	{ "nodes", 0, FMT_NODES },
	{ "job", 1, FMT_JOB },
	{ "node", 1, FMT_NODE },
};

void status_options_help(FILE *out)
{
	fputs("usage: malle-status [options] [jobs | nodes | job ID | node NAME]\n"
	      "Show what the daemon knows: all in brief, or one part.\n\n"
	      "      --json             everything, as JSON\n"
	      "  -i, --interval=SECONDS again and again until interrupted\n"
	      "      --server=SOCKET    of the daemon\n"
	      "      --timeout=SECONDS  for an answer, default 10\n"
	      "  -h, --help, --version\n",
		out);
}

static int parse_seconds(
	double *seconds, const char *option, const char *text, struct err *err)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text || *end || !isfinite(value) || value < 0.1 || value > 86400)
		return err_set(err, EINVAL,
			"option %s: \"%s\": is not a number from 0.1 to 86400", option,
			text);
	*seconds = value;
	return 0;
}

static int parse_option(
	struct status_options *options, int id, char **argv, struct err *err)
{
	switch (id) {
	case OPT_JSON:
		options->json = 1;
		return 0;
	case 'i':
		return parse_seconds(&options->interval_s, "--interval", optarg, err);
	case OPT_SERVER:
		options->server = optarg;
		return 0;
	case OPT_TIMEOUT:
		return parse_seconds(&options->timeout_s, "--timeout", optarg, err);
	case OPT_VERSION:
		options->version = 1;
		return 0;
	case 'h':
		options->help = 1;
		return 0;
	case ':':
		return err_set(
			err, EINVAL, "option %s: needs a value", argv[optind - 1]);
	default:
		if (optopt && optopt < OPT_JSON)
			return err_set(
				err, EINVAL, "option -%c: unknown; see --help", optopt);
		return err_set(err, EINVAL, "option %s: %s; see --help",
			argv[optind - 1], optopt ? "takes no value" : "unknown");
	}
}

static int parse_subject(struct status_options *options, char **words, struct err *err)
{
	size_t n = sizeof(subjects) / sizeof(subjects[0]), i;

	options->what = "summary";
	options->format = FMT_SUMMARY;
	if (!words[0])
		return 0;
	for (i = 0; i < n && strcmp(subjects[i].what, words[0]) != 0; i++)
		;
	if (i == n)
		return err_set(err, EINVAL,
			"\"%s\": is not jobs, nodes, job ID or node NAME", words[0]);
	options->what = subjects[i].what;
	options->format = subjects[i].format;
	if (subjects[i].wants_id) {
		if (!words[1] || !*words[1])
			return err_set(err, EINVAL, "%s: which one?", words[0]);
		options->id = words[1];
	}
	if (words[1 + subjects[i].wants_id])
		return err_set(err, EINVAL, "\"%s\": is one word too many",
			words[1 + subjects[i].wants_id]);
	return 0;
}

int status_options_parse(
	struct status_options *options, int argc, char **argv, struct err *err)
{
	int id;

	*options = (struct status_options){ .timeout_s = CLIENT_LIMIT_S };
	opterr = 0;
	optind = 0;
	while ((id = getopt_long(argc, argv, ":i:h", long_options, NULL)) != -1)
		if (parse_option(options, id, argv, err) < 0)
			return -1;
	if (options->help || options->version)
		return 0;
	return parse_subject(options, argv + optind, err);
}

static int ask_status(struct ask *ask, const struct status_options *options,
	json_t **answer, struct err *err)
{
	json_t *body = json_pack("{s:s}", "what", options->what);

	if (options->id &&
		json_object_set_new(body, "id", json_string(options->id)) < 0) {
		json_decref(body);
		err_set(err, EILSEQ, "%s: the name is not UTF-8", options->what);
		return EXIT_BAD_DATA;
	}
	return ask_daemon(ask, MSG_STATUS_GET, body, MSG_STATUS_REPLY, answer, err);
}

static int print_answer(const struct status_options *options, const json_t *answer)
{
	const json_t *data = json_object_get(answer, "data");
	struct style style = style_stdout();
	int rc;

	/* Home and clear, so that the terminal shows a page, not a roll. */
	if (options->interval_s > 0 && !options->json && isatty(STDOUT_FILENO))
		fputs("\033[H\033[J", stdout);
	rc = options->json ? fmt_json(data, options->interval_s > 0, stdout)
			   : fmt_text(options->format, data, &style);
	if (rc < 0 && !ferror(stdout)) {
		say("%s: cannot be shown: %s", options->what, strerror(errno));
		return EXIT_INTERNAL;
	}
	if (options->interval_s > 0 && !options->json && !isatty(STDOUT_FILENO))
		fputc('\n', stdout);
	return say_flush(EXIT_OK);
}

static int show_again(struct ask *ask, const struct status_options *options)
{
	int code = EXIT_OK, away = 0;
	struct err err;

	while (code == EXIT_OK) {
		json_t *answer = NULL;

		ask_sleep(ask, options->interval_s);
		code = ask_status(ask, options, &answer, &err);
		if (code == EXIT_OK) {
			away = 0;
			code = print_answer(options, answer);
			json_decref(answer);
		} else if (code == EXIT_NO_DAEMON || code == EXIT_TRY_AGAIN) {
			if (!away)
				say("%s; trying again", err.text);
			away = 1;
			code = EXIT_OK;
		} else {
			say("%s", err.text);
		}
	}
	return code;
}

int status_show(const struct status_options *options)
{
	struct err err;
	struct ask *ask = ask_create(options->server, options->timeout_s, &err);
	json_t *answer = NULL;
	int code = EXIT_INTERNAL;

	if (ask)
		code = ask_status(ask, options, &answer, &err);
	if (code != EXIT_OK)
		say("%s", err.text);
	else
		code = print_answer(options, answer);
	json_decref(answer);
	if (code == EXIT_OK && options->interval_s > 0)
		code = show_again(ask, options);
	ask_destroy(ask);
	return code;
}
