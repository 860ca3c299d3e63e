/*
 * fuzz_slurm.c - answers of Slurm that came from anywhere.
 *
 * Whole or in pieces of any size, an answer reads to the same records.  An
 * eligible node is IDLE and has no flag but the three that are harmless, and
 * stands in no reservation.  Every text of a record is there.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/slurm/slurm_read.h"
#include "daemon/slurm/slurm_rules.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int ok)
{
	if (!ok)
		abort();
}

static void on_node(const struct slurm_node *node, void *arg)
{
	const uint32_t harmless =
		SLURM_FLAG_CLOUD | SLURM_FLAG_DYNAMIC_NORM | SLURM_FLAG_PLANNED;
	struct slurm_verdict verdict = slurm_rules_plain(node);

	must(node->name && node->name[0] && node->strange && node->partitions &&
		node->features && node->reason && node->gres && node->reservation);
	must(verdict.eligible == (verdict.reason[0] == '\0'));
	if (verdict.eligible)
		must(node->state == SLURM_NODE_IDLE && !(node->flags & ~harmless) &&
			!node->reservation[0]);
	++*(size_t *)arg;
}

static void on_job(const struct slurm_job *job, void *arg)
{
	must(job->id > 0 && job->name && job->nodes && job->user && job->state_word);
	++*(size_t *)arg;
}

static const struct slurm_read_handlers handlers = { .on_node = on_node, .on_job = on_job };

static int read_in_pieces(const uint8_t *data, size_t size, size_t piece,
	struct slurm_summary *summary)
{
	struct err err = { "" };
	size_t calls = 0;
	struct slurm_reader *reader =
		slurm_reader_create(SLURM_FORM_GUESS, &handlers, &calls, &err);
	int rc = 0;

	must(reader != NULL);
	for (size_t at = 0; at < size && rc == 0; at += piece)
		rc = slurm_reader_feed(
			reader, data + at, size - at < piece ? size - at : piece, &err);
	rc |= slurm_reader_end(reader, summary, &err);
	must(rc == 0 || err.text[0]);
	must(calls == summary->nodes + summary->jobs);
	slurm_reader_destroy(reader);
	return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct slurm_summary whole, pieces;
	size_t piece;

	if (size < 2)
		return 0;
	piece = (size_t)data[0] % 40 + 1;
	must(read_in_pieces(data + 1, size - 1, size, &whole) ==
		read_in_pieces(data + 1, size - 1, piece, &pieces));
	must(whole.nodes == pieces.nodes && whole.jobs == pieces.jobs &&
		whole.errors == pieces.errors && whole.warnings == pieces.warnings);
	return 0;
}
