/*
 * hostlist_main.c - malle-hostlist: the node-set code as a tool.
 *
 * Both commands read all of their operands first and print afterwards, so
 * that a malformed operand (or line of standard input) leaves no partial
 * output behind.  Every operand is an expression, also those of compress: a
 * plain name is the simplest expression there is, and `compress n[1-3] n4`
 * is n[1-4].
 */
#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/err.h"
#include "proto/hostlist.h"
#include "proto/nodeset.h"

static const char usage[] =
	"usage: malle-hostlist [OPTION...] expand EXPR...\n"
	"       malle-hostlist [OPTION...] compress [NAME...]\n"
	"\n"
	"expand prints the node names of host list expressions, one a line, in\n"
	"their order and with duplicates; compress prints one expression that\n"
	"stands for the names.  The operand - is standard input, line by line.\n"
	"\n"
	"  -s, --set      as a set: in natural order, each name once\n"
	"  -l, --limit N  refuse more than N names (default 65536)\n"
	"  -j, --json     one JSON object\n"
	"  -h, --help\n"
	"      --version\n";

static const struct option long_options[] = {
	{ "set", no_argument, NULL, 's' },
	{ "limit", required_argument, NULL, 'l' },
	{ "json", no_argument, NULL, 'j' },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'V' },
	{ NULL, 0, NULL, 0 },
};

struct options {
	bool compress;
	bool set;
	bool json;
	size_t limit;
	char **operands;
};

static int fail(int code, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static int fail(int code, const char *fmt, ...)
{
	va_list ap;

	fputs("malle-hostlist: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	return code;
}

/* EXIT_OK only when all of the output is where it was to go. */
static int flush_out(void)
{
	if (fflush(stdout) || ferror(stdout))
		return fail(EXIT_WRITE_FAILED, "write to standard output: %s",
			    strerror(errno));
	return EXIT_OK;
}

static int code_of(int errnum)
{
	return errnum == ENOMEM ? EXIT_INTERNAL : EXIT_BAD_DATA;
}

/* --- options -------------------------------------------------------------- */

static int parse_limit(const char *text, size_t *limit)
{
	unsigned long long value;
	char *end;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (*text < '0' || *text > '9' || *end || errno || !value || value > SIZE_MAX)
		return -1;
	*limit = value;
	return 0;
}

static int parse_command(char **argv, struct options *options)
{
	const char *command = argv[optind];

	if (!command)
		return fail(EXIT_BAD_USAGE,
			    "no command: expand or compress; see --help");
	options->operands = argv + optind + 1;
	if (!strcmp(command, "compress")) {
		options->compress = true;
		return -1;
	}
	if (strcmp(command, "expand"))
		return fail(EXIT_BAD_USAGE,
			    "%s: no such command, there are expand and compress",
			    command);
	if (!*options->operands)
		return fail(EXIT_BAD_USAGE, "expand: no expression; see --help");
	return -1;
}

/* What getopt's '?' means is in optopt. */
static int bad_option(const char *word)
{
	if (!optopt)
		return fail(EXIT_BAD_USAGE, "%s: unknown or ambiguous option; "
			    "see --help", word);
	if (!strncmp(word, "--", 2))
		return fail(EXIT_BAD_USAGE, "%s: the option takes no value", word);
	return fail(EXIT_BAD_USAGE, "-%c: unknown option; see --help", optopt);
}

/* -1: go on; else exit with this code. */
static int parse(int argc, char **argv, struct options *options)
{
	int c;

	opterr = 0;
	while ((c = getopt_long(argc, argv, ":sl:jh", long_options, NULL)) != -1) {
		switch (c) {
		case 's':
			options->set = true;
			break;
		case 'l':
			if (parse_limit(optarg, &options->limit))
				return fail(EXIT_BAD_USAGE, "--limit %s: not a number "
					    "of names above 0", optarg);
			break;
		case 'j':
			options->json = true;
			break;
		case 'h':
			fputs(usage, stdout);
			return flush_out();
		case 'V':
			puts("malle-hostlist " MALLE_VERSION);
			return flush_out();
		case ':':
			return fail(EXIT_BAD_USAGE, "%s: a value is missing; see --help",
				    argv[optind - 1]);
		default:
			return bad_option(argv[optind - 1]);
		}
	}
	return parse_command(argv, options);
}

/* --- reading -------------------------------------------------------------- */

/* The start of an expression, safe to show on a terminal. */
static void shorten(char *buf, size_t size, const char *expr)
{
	size_t len = strlen(expr), shown = len < size ? len : size - 4;

	for (size_t i = 0; i < shown; i++)
		buf[i] = (unsigned char)expr[i] < ' ' || expr[i] == 0x7f ? '?' : expr[i];
	strcpy(buf + shown, len < size ? "" : "...");
}

static int read_operand(struct hostlist *list, const char *expr, size_t limit)
{
	struct err err = { "" };
	char shown[72];

	if (!hostlist_expand(list, expr, limit, &err))
		return EXIT_OK;
	shorten(shown, sizeof(shown), expr);
	return fail(code_of(errno), "%s: %s", shown, err.text);
}

static int read_line(struct hostlist *list, char *line, size_t len, size_t number,
		     size_t limit)
{
	struct err err = { "" };
	size_t text_len = strlen(line);

	if (text_len != len)
		return fail(EXIT_BAD_DATA, "standard input: line %zu: column %zu: "
			    "zero byte in a name", number, text_len + 1);
	if (!hostlist_expand(list, line, limit, &err))
		return EXIT_OK;
	return fail(code_of(errno), "standard input: line %zu: %s", number, err.text);
}

static int read_lines(struct hostlist *list, FILE *in, size_t limit)
{
	char *line = NULL;
	size_t room = 0, number = 0;
	ssize_t len;
	int code = EXIT_OK;

	errno = 0;
	while (code == EXIT_OK && (len = getline(&line, &room, in)) >= 0) {
		if (len && line[len - 1] == '\n')
			line[--len] = '\0';
		code = read_line(list, line, len, ++number, limit);
		errno = 0;
	}
	if (code == EXIT_OK && !feof(in))
		code = fail(errno == ENOMEM ? EXIT_INTERNAL : EXIT_NO_INPUT,
			    "read of standard input: %s", strerror(errno));
	free(line);
	return code;
}

static int read_all(struct hostlist *list, const struct options *options)
{
	int code = EXIT_OK;

	for (char **word = options->operands; *word && code == EXIT_OK; word++) {
		if (!strcmp(*word, "-"))
			code = read_lines(list, stdin, options->limit);
		else
			code = read_operand(list, *word, options->limit);
	}
	return code;
}

/* --- printing ------------------------------------------------------------- */

static json_t *names_json(const struct hostlist *list)
{
	json_t *array = json_array();

	for (size_t i = 0; array && i < list->count; i++) {
		if (json_array_append_new(array, json_string(list->names[i]))) {
			json_decref(array);
			array = NULL;
		}
	}
	return array;
}

/* expr is NULL for expand. */
static int print_json(const struct hostlist *list, const char *expr)
{
	json_t *content = expr ? json_string(expr) : names_json(list);
	json_t *object;
	int code;

	if (!content)
		return fail(EXIT_BAD_DATA, "--json: a name is not UTF-8");
	object = json_pack("{s:I, s:o}", "count", (json_int_t)list->count,
			   expr ? "expression" : "hosts", content);
	if (!object || json_dumpf(object, stdout, JSON_COMPACT))
		code = fail(EXIT_WRITE_FAILED, "write to standard output: %s",
			    strerror(errno));
	else
		code = putchar('\n') == EOF ? flush_out() : EXIT_OK;
	json_decref(object);
	return code;
}

static int print_names(const struct hostlist *list)
{
	for (size_t i = 0; i < list->count; i++)
		if (puts(list->names[i]) == EOF)
			break;
	return EXIT_OK; /* the flush tells */
}

static int print(const struct hostlist *list, const struct options *options)
{
	char *expr = NULL;
	int code;

	if (options->compress) {
		struct err err = { "" };

		expr = hostlist_compress((const char *const *)list->names, list->count,
					 &err);
		if (!expr)
			return fail(code_of(errno), "compress: %s", err.text);
	}
	if (options->json)
		code = print_json(list, expr);
	else if (expr)
		code = puts(expr) == EOF ? flush_out() : EXIT_OK;
	else
		code = print_names(list);
	free(expr);
	return code == EXIT_OK ? flush_out() : code;
}

int main(int argc, char **argv)
{
	struct options options = { .limit = HOSTLIST_MAX_NAMES };
	struct hostlist list;
	int code = parse(argc, argv, &options);

	if (code >= 0)
		return code;
	hostlist_init(&list);
	code = read_all(&list, &options);
	if (code == EXIT_OK) {
		if (options.set)
			nodeset_normalise(&list);
		code = print(&list, &options);
	}
	hostlist_fini(&list);
	return code;
}
