/* ledger_main.c - malle-ledger: were all samples trained on exactly once? */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/audit.h"

#ifndef MALLE_VERSION
#define MALLE_VERSION "0"
#endif

/* The contract's codes; worker/ stands alone, so they are said again here. */
enum {
	CODE_OK = 0,
	CODE_USAGE = 64,
	CODE_DATA = 65,
	CODE_INPUT = 66,
	CODE_INTERNAL = 70,
	CODE_WRITE = 74,
};

static const char *name_of(enum audit_what what)
{
	return what == AUDIT_LOST ? "lost" : "repeated";
}

static void print_string(const char *s)
{
	putchar('"');
	for (; *s; s++) {
		if (*s == '"' || *s == '\\')
			putchar('\\');
		putchar(*s);
	}
	putchar('"');
}

static void print_field(const char *name, uint64_t v)
{
	if (v == AUDIT_UNKNOWN)
		printf(",\"%s\":null", name);
	else
		printf(",\"%s\":%llu", name, (unsigned long long)v);
}

static void print_json(const struct audit_report *r)
{
	printf("{\"version\":1,\"job\":");
	print_string(r->job);
	print_field("files", r->files);
	print_field("generations", r->generations);
	print_field("n_samples", r->n_samples);
	print_field("steps", r->steps);
	print_field("samples", r->samples);
	print_field("epochs", r->epochs);
	print_field("lost", r->lost);
	print_field("repeated", r->repeated);
	print_field("redone_steps", r->redone_steps);
	print_field("torn", r->torn);
	printf(",\"finished\":%s,\"examples\":[", r->finished ? "true" : "false");
	for (size_t i = 0; i < r->n_examples; i++) {
		const struct audit_example *e = &r->examples[i];

		printf("%s{\"what\":\"%s\"", i ? "," : "", name_of(e->what));
		print_field("id", e->id);
		print_field("epoch", e->epoch);
		print_field("step", e->step);
		print_field("rank", e->rank);
		printf("}");
	}
	printf("]}\n");
}

static void print_known(const char *name, uint64_t v)
{
	if (v != AUDIT_UNKNOWN)
		printf(" %s %llu", name, (unsigned long long)v);
}

static void print_text(const struct audit_report *r)
{
	printf("job %s: %llu generations, %llu files, %s\n", r->job,
		(unsigned long long)r->generations, (unsigned long long)r->files,
		r->finished ? "finished" : "not finished");
	printf("steps %llu, redone %llu\n", (unsigned long long)r->steps,
		(unsigned long long)r->redone_steps);
	printf("samples %llu, complete epochs %llu of %llu\n",
		(unsigned long long)r->samples, (unsigned long long)r->epochs,
		(unsigned long long)r->n_samples);
	printf("lost %llu\nrepeated %llu\n", (unsigned long long)r->lost,
		(unsigned long long)r->repeated);
	for (size_t i = 0; i < r->n_examples; i++) {
		const struct audit_example *e = &r->examples[i];

		printf("  %s:", name_of(e->what));
		print_known("id", e->id);
		print_known("epoch", e->epoch);
		print_known("step", e->step);
		print_known("rank", e->rank);
		printf("\n");
	}
}

static void usage(FILE *to)
{
	fputs("usage: malle-ledger check DIR [--json]\n"
	      "Adds up what the workers of a job recorded in DIR (MALLE_LEDGER): "
	      "samples,\n"
	      "lost and repeated ones.  Exit 0: none of those; 65: some, or a bad "
	      "file.\n",
		to);
}

static int end_output(int code)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return code;
	fprintf(stderr, "malle-ledger: standard output: write: %s\n", strerror(errno));
	return CODE_WRITE;
}

static int check(const char *dir, int json)
{
	struct audit_report report;
	struct malle_err err;

	if (audit_dir(dir, &report, &err) < 0) {
		int code = errno == EBADMSG  ? CODE_DATA
			   : errno == ENOMEM ? CODE_INTERNAL
					     : CODE_INPUT;

		fprintf(stderr, "malle-ledger: %s\n", err.text);
		return code;
	}
	if (json)
		print_json(&report);
	else
		print_text(&report);
	return end_output(report.lost || report.repeated ? CODE_DATA : CODE_OK);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "json", no_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ NULL, 0, NULL, 0 },
	};
	int json = 0, which;

	opterr = 0; /* getopt would begin its line with a path */
	while ((which = getopt_long(argc, argv, "hV", options, NULL)) != -1) {
		switch (which) {
		case 'j':
			json = 1;
			break;
		case 'h':
			usage(stdout);
			return end_output(CODE_OK);
		case 'V':
			puts("malle-ledger " MALLE_VERSION);
			return end_output(CODE_OK);
		default:
			fprintf(stderr, "malle-ledger: option %s: unknown\n",
				argv[optind - 1]);
			return CODE_USAGE;
		}
	}
	if (argc - optind != 2 || strcmp(argv[optind], "check")) {
		fprintf(stderr, "malle-ledger: arguments: not `check DIR'\n");
		return CODE_USAGE;
	}
	return check(argv[optind + 1], json);
}
