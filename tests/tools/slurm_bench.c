/*
 * slurm_bench.c - how long an answer of Slurm takes to read, in pieces as they come.
 *
 *	slurm_bench FILE    prints CPU ms, longest piece ms, peak RSS in MB, nodes
 *	slurm_bench -j FILE the same for jansson's json_load_file
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/slurm/slurm_read.h"
#include "daemon/slurm/slurm_rules.h"

static double now_ms(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* Of this program alone: getrusage counts what its parent had before exec. */
static double peak_mb(void)
{
	FILE *file = fopen("/proc/self/status", "r");
	char line[256];
	long kb = 0;

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "VmHWM: %ld kB", &kb) == 1)
			break;
	if (file)
		fclose(file);
	return (double)kb / 1024;
}

static void on_node(const struct slurm_node *node, void *arg)
{
	*(size_t *)arg += (size_t)slurm_rules_plain(node).eligible;
}

static double read_pieces(FILE *file, size_t *nodes)
{
	static const struct slurm_read_handlers handlers = { .on_node = on_node };
	static char piece[64 << 10];
	struct err err = { "" };
	size_t eligible = 0, n;
	struct slurm_reader *reader =
		slurm_reader_create(SLURM_FORM_GUESS, &handlers, &eligible, &err);
	struct slurm_summary summary;
	double longest = 0;

	while (reader && (n = fread(piece, 1, sizeof(piece), file)) > 0) {
		double from = now_ms(CLOCK_MONOTONIC);

		if (slurm_reader_feed(reader, piece, n, &err) != 0)
			break;
		if (now_ms(CLOCK_MONOTONIC) - from > longest)
			longest = now_ms(CLOCK_MONOTONIC) - from;
	}
	if (!reader || slurm_reader_end(reader, &summary, &err) != 0) {
		fprintf(stderr, "slurm_bench: %s\n", err.text);
		exit(1);
	}
	slurm_reader_destroy(reader);
	*nodes = summary.nodes;
	return longest;
}

int main(int argc, char **argv)
{
	int jansson = argc == 3 && !strcmp(argv[1], "-j");
	FILE *file = argc < 2 ? NULL : fopen(argv[argc - 1], "rb");
	double from = now_ms(CLOCK_PROCESS_CPUTIME_ID), longest = 0;
	size_t nodes = 0;
	json_t *json = NULL;

	if (!file) {
		fprintf(stderr, "slurm_bench: no file\n");
		return 66;
	}
	if (jansson) {
		json = json_loadf(file, 0, NULL);
		nodes = json_array_size(json_object_get(json, "nodes"));
	} else {
		longest = read_pieces(file, &nodes);
	}
	printf("%.1f %.2f %.1f %zu\n", now_ms(CLOCK_PROCESS_CPUTIME_ID) - from, longest,
		peak_mb(), nodes);
	json_decref(json);
	fclose(file);
	return 0;
}
