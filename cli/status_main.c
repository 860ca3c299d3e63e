/* status_main.c - malle-status: options, then hand over. */
#include <stdio.h>

#include "cli/say.h"
#include "cli/status.h"
#include "proto/err.h"

int main(int argc, char **argv)
{
	struct status_options options;
	struct err err;

	say_setup();
	if (status_options_parse(&options, argc, argv, &err) < 0) {
		say("%s", err.text);
		return EXIT_BAD_USAGE;
	}
	if (options.help) {
		status_options_help(stdout);
		return say_flush(EXIT_OK);
	}
	if (options.version) {
		printf("malle-status %s\n", MALLE_VERSION);
		return say_flush(EXIT_OK);
	}
	return status_show(&options);
}
