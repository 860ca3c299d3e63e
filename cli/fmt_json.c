/* fmt_json.c - what the daemon says, for programs. */
#include "cli/fmt.h"

int fmt_json(const json_t *data, int lines, FILE *out)
{
	size_t flags = lines ? JSON_COMPACT : JSON_INDENT(2);

	if (json_dumpf(data, out, flags | JSON_PRESERVE_ORDER) < 0)
		return -1;
	return fputc('\n', out) == EOF ? -1 : 0;
}
