/* ctl_main.c - mallectl: options, then hand over. */
#include <stdio.h>

#include "cli/ctl.h"
#include "cli/say.h"
#include "proto/err.h"

int main(int argc, char **argv)
{
	struct ctl_options options;
	struct err err;

	say_setup();
	if (ctl_options_parse(&options, argc, argv, &err) < 0) {
		say("%s", err.text);
		return EXIT_BAD_USAGE;
	}
	if (options.help) {
		ctl_options_help(stdout);
		return say_flush(EXIT_OK);
	}
	if (options.version) {
		printf("mallectl %s\n", MALLE_VERSION);
		return say_flush(EXIT_OK);
	}
	return ctl_do(&options);
}
