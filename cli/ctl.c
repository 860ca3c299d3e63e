/*
 * ctl.c - mallectl: options, and one verb.
 *
 * A verb is a row: its words, whether it is about a job, the message that it
 * is and the message that answers it.  Whether the caller may is for the daemon
 * to say, which knows the uid at the other end of its socket.
 */
#include "cli/ctl.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/ask.h"
#include "cli/client.h"
#include "cli/fmt.h"
#include "cli/say.h"
#include "proto/clock.h"

enum { OPT_FORCE = 256, OPT_JSON, OPT_SERVER, OPT_TIMEOUT, OPT_VERSION };

static const struct option long_options[] = {
	{ "force", no_argument, NULL, OPT_FORCE },
	{ "json", no_argument, NULL, OPT_JSON },
	{ "server", required_argument, NULL, OPT_SERVER },
	{ "timeout", required_argument, NULL, OPT_TIMEOUT },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, OPT_VERSION },
	{ NULL, 0, NULL, 0 },
};

static const struct verb {
	enum ctl_verb verb;
	const char *word, *second; /* second: NULL, or a word that must follow */
	int wants_job;
	enum msg_type type, answer;
	const char *done; /* when the daemon has no words for it */
} verbs[] = {
	{ CTL_CANCEL, "cancel", NULL, 1, MSG_JOB_CANCEL, MSG_OK, "is being cancelled" },
	{ CTL_PAUSE, "pause", NULL, 1, MSG_JOB_PAUSE, MSG_OK, "is being paused" },
	{ CTL_RESUME, "resume", NULL, 1, MSG_JOB_RESUME, MSG_OK, "is resumed" },
	{ CTL_PING, "ping", NULL, 0, MSG_PING, MSG_PONG, NULL },
	{ CTL_SHOW_CONFIG, "show", "config", 0, MSG_CONFIG_GET, MSG_CONFIG_REPLY,
		NULL },
};

void ctl_options_help(FILE *out)
{
	fputs("usage: mallectl [options] VERB\n"
	      "Tell the daemon what to do, or ask how it is.\n\n"
	      "  cancel JOB [--force]   end a job, state saved; --force: at once\n"
	      "  pause JOB              take its nodes, keep its state\n"
	      "  resume JOB             let it have nodes again\n"
	      "  ping                   is the daemon there\n"
	      "  show config            the options in force\n\n"
	      "      --json             answers as JSON\n"
	      "      --server=SOCKET    of the daemon\n"
	      "      --timeout=SECONDS  for an answer, default 10\n"
	      "  -h, --help, --version\n",
		out);
}

static int parse_timeout(struct ctl_options *options, const char *text, struct err *err)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text || *end || !isfinite(value) || value < 0.1 || value > 86400)
		return err_set(err, EINVAL,
			"option --timeout: \"%s\": is not a number from 0.1 to 86400",
			text);
	options->timeout_s = value;
	return 0;
}

static int parse_option(
	struct ctl_options *options, int id, char **argv, struct err *err)
{
	switch (id) {
	case OPT_FORCE:
		options->force = 1;
		return 0;
	case OPT_JSON:
		options->json = 1;
		return 0;
	case OPT_SERVER:
		options->server = optarg;
		return 0;
	case OPT_TIMEOUT:
		return parse_timeout(options, optarg, err);
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
		if (optopt && optopt < OPT_FORCE)
			return err_set(
				err, EINVAL, "option -%c: unknown; see --help", optopt);
		return err_set(err, EINVAL, "option %s: %s; see --help",
			argv[optind - 1], optopt ? "takes no value" : "unknown");
	}
}

static const struct verb *find_verb(enum ctl_verb verb)
{
	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
		if (verbs[i].verb == verb)
			return &verbs[i];
	return NULL;
}

static int parse_verb(struct ctl_options *options, char **words, struct err *err)
{
	const size_t n = sizeof(verbs) / sizeof(verbs[0]);
	size_t i;

	if (!words[0])
		return err_set(err, EINVAL, "verb: none given; see --help");
	for (i = 0; i < n && strcmp(verbs[i].word, words[0]) != 0; i++)
		;
	if (i == n)
		return err_set(
			err, EINVAL, "verb \"%s\": unknown; see --help", words[0]);
	options->verb = verbs[i].verb;
	words++;
	if (verbs[i].second) {
		if (!words[0] || strcmp(words[0], verbs[i].second) != 0)
			return err_set(err, EINVAL, "%s: what? only %s is known",
				verbs[i].word, verbs[i].second);
		words++;
	}
	if (verbs[i].wants_job) {
		if (!words[0] || !*words[0])
			return err_set(err, EINVAL, "%s: which job?", verbs[i].word);
		options->job = *words++;
	}
	if (words[0])
		return err_set(err, EINVAL, "\"%s\": is one word too many", words[0]);
	if (options->force && options->verb != CTL_CANCEL)
		return err_set(err, EINVAL, "option --force: is for cancel only");
	return 0;
}

int ctl_options_parse(
	struct ctl_options *options, int argc, char **argv, struct err *err)
{
	int id;

	*options = (struct ctl_options){ .timeout_s = CLIENT_LIMIT_S };
	opterr = 0;
	optind = 0;
	while ((id = getopt_long(argc, argv, ":h", long_options, NULL)) != -1)
		if (parse_option(options, id, argv, err) < 0)
			return -1;
	if (options->help || options->version)
		return 0;
	return parse_verb(options, argv + optind, err);
}

/* --- doing -------------------------------------------- */

static json_t *body_of(const struct ctl_options *options)
{
	if (options->verb == CTL_CANCEL)
		return json_pack(
			"{s:s, s:b}", "job", options->job, "force", options->force);
	if (options->job)
		return json_pack("{s:s}", "job", options->job);
	return json_object();
}

static int print_ping(const struct ctl_options *options, const struct ask *ask,
	const json_t *answer, double took_s)
{
	char up[FMT_SIZE], took[FMT_SIZE];
	const char *state = fmt_str(answer, "state");
	json_t *json;
	int rc;

	if (!options->json) {
		printf("%s at %s: %s, up %s, answered in %s\n", ask_program(ask),
			ask_path(ask), state, fmt_time(fmt_num(answer, "uptime_s"), up),
			fmt_time(took_s, took));
		return 0;
	}
	json = json_pack("{s:s, s:s, s:s, s:s, s:f, s:f}", "program", ask_program(ask),
		"socket", ask_path(ask), "instance", ask_instance(ask), "state", state,
		"uptime_s", fmt_num(answer, "uptime_s"), "took_s", took_s);
	if (!json)
		return -1;
	rc = fmt_json(json, 0, stdout);
	json_decref(json);
	return rc;
}

static int print_answer(const struct ctl_options *options, const struct ask *ask,
	const json_t *answer, double took_s)
{
	const char *text = fmt_str(answer, "text");
	struct style style;

	switch (options->verb) {
	case CTL_PING:
		return print_ping(options, ask, answer, took_s);
	case CTL_SHOW_CONFIG:
		style = style_stdout();
		if (options->json)
			return fmt_json(answer, 0, stdout);
		return fmt_text_config(json_object_get(answer, "options"), &style);
	default:
		if (options->json)
			return fmt_json(answer, 0, stdout);
		if (text)
			printf("%s\n", text);
		else
			printf("job %s %s\n", options->job,
				find_verb(options->verb)->done);
		return 0;
	}
}

static int do_verb(struct ask *ask, const struct ctl_options *options)
{
	const struct verb *verb = find_verb(options->verb);
	json_t *body = body_of(options), *answer = NULL;
	double begin_s = clock_mono_s();
	struct err err;
	int code;

	if (!body) {
		say("%s: the job's id is not UTF-8", verb->word);
		return EXIT_BAD_DATA;
	}
	code = ask_daemon(ask, verb->type, body, verb->answer, &answer, &err);
	if (code != EXIT_OK) {
		say("%s", err.text);
		return code;
	}
	if (print_answer(options, ask, answer, clock_mono_s() - begin_s) < 0 &&
		!ferror(stdout)) {
		say("%s: the answer cannot be shown: %s", verb->word, strerror(errno));
		code = EXIT_INTERNAL;
	}
	json_decref(answer);
	return say_flush(code);
}

int ctl_do(const struct ctl_options *options)
{
	struct err err;
	struct ask *ask = ask_create(options->server, options->timeout_s, &err);
	int code;

	if (!ask) {
		say("%s", err.text);
		return EXIT_INTERNAL;
	}
	code = do_verb(ask, options);
	ask_destroy(ask);
	return code;
}
