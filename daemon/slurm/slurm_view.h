/* slurm_view.h - one captured answer of Slurm, normalised, as JSON. */
#ifndef DAEMON_SLURM_SLURM_VIEW_H
#define DAEMON_SLURM_SLURM_VIEW_H

#include <jansson.h>

#include "proto/err.h"

/*
 * Read the answer in a file (plain or gzip; "-": standard input):
 *
 *   {"source": "json, Slurm 22.05.8", "nodes": [{"name", "state", "flags",
 *   "eligible", "reason", "partitions"}], "jobs": [...], "reservations": [...],
 *   "partitions": [...], "errors": ["..."]}
 *
 * Nodes in natural order, each once.  Times in wall seconds, null: not known.
 * The verdict is slurm_rules_plain.  *usable is 0 for what is no answer of
 * Slurm, was cut off, or holds errors and no record: then the sentence is the
 * last of errors[], and no node is eligible.  Owned.  NULL: the errno of reading the
 * file, ENOMEM.
 */
json_t *slurm_view_read(const char *path, int *usable, struct err *err);

#endif
