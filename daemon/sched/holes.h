/* holes.h - when which nodes are idle: read from a file, or made. */
#ifndef DAEMON_SCHED_HOLES_H
#define DAEMON_SCHED_HOLES_H

#include <stddef.h>
#include <stdint.h>

#include "proto/err.h"

enum {
	HOLES_NODES_MAX = 65536,
	HOLES_BYTES_MAX = 256 << 20, /* of a file, decompressed */
};

/* At t_s the nodes in `leaves` stop being idle, then those in `joins` begin. */
struct hole_row {
	double t_s; /* trace seconds; never less than in the row before */
	const uint32_t *joins;
	size_t n_joins;
	const uint32_t *leaves;
	size_t n_leaves;
};

struct holes {
	size_t n_rows;
	struct hole_row *rows;
	uint32_t n_nodes;  /* indices are below this */
	double span_s;     /* length: the last row's time, or what was asked for */
	uint32_t *indices; /* what rows point into */
};

/*
 * Lines of `t_s,joins,leaves`: a time, two lists of node indices with blanks
 * between.  Lines that begin with # and empty ones are skipped, so is the
 * header.  A node that leaves must be there, one that joins must not.  NULL:
 * errno of the file, EPROTO with "NAME:LINE: what", E2BIG, ENOMEM.
 */
struct holes *holes_read(const char *path, struct err *err); /* plain or .gz */
struct holes *holes_parse(
	const char *text, size_t size, const char *name, struct err *err);

/* What the generator makes; see holes_gen.c for where its shape comes from. */
struct holes_model {
	uint32_t nodes;
	double hours;
	double idle_share; /* of the node-time: 0.001 to 0.95 */
	unsigned seed;
};

/* The same model gives the same holes.  NULL: EINVAL, ENOMEM. */
struct holes *holes_generate(const struct holes_model *model, struct err *err);

void holes_destroy(struct holes *holes);

/* Rows one by one, for those who make them; checked like a file's. */
struct holes_builder;
struct holes_builder *holes_builder_create(void);
void holes_builder_destroy(struct holes_builder *builder);
int holes_builder_row(struct holes_builder *builder, double t_s, struct err *err);
int holes_builder_leave(struct holes_builder *builder, uint32_t node, struct err *err);
int holes_builder_join(struct holes_builder *builder, uint32_t node, struct err *err);
/* The builder is consumed.  span_s 0: the time of the last row. */
struct holes *holes_builder_finish(
	struct holes_builder *builder_take, double span_s, struct err *err);

#endif
