/* run_main.c - malle-run: options, then hand over. */
#include <errno.h>
#include <stdio.h>

#include "cli/local.h"
#include "cli/run.h"
#include "cli/run_options.h"
#include "cli/say.h"
#include "proto/err.h"

int main(int argc, char **argv)
{
	struct run_options options;
	struct err err;
	int code;

	say_setup();
	if (run_options_parse(&options, argc, argv, &err) < 0) {
		say("%s", err.text);
		return EXIT_BAD_USAGE;
	}
	if (options.help) {
		run_options_help(stdout);
		return say_flush(EXIT_OK);
	}
	if (options.version) {
		printf("malle-run %s\n", MALLE_VERSION);
		return say_flush(EXIT_OK);
	}
	code = run_job(&options);
	return code == RUN_LOCALLY ? local_run(&options) : code;
}
