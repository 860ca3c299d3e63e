/* slurm_read_impl.h - between slurm_read.c and the readers of each form. */
#ifndef DAEMON_SLURM_SLURM_READ_IMPL_H
#define DAEMON_SLURM_SLURM_READ_IMPL_H

#include "daemon/slurm/slurm_read.h"

/* Where records go: counted, then handed to whoever asked for them. */
struct slurm_sink {
	struct slurm_read_handlers handlers;
	void *arg;
	struct slurm_summary summary;
};

void slurm_sink_node(struct slurm_sink *sink, const struct slurm_node *node);
void slurm_sink_job(struct slurm_sink *sink, const struct slurm_job *job);
void slurm_sink_reservation(
	struct slurm_sink *sink, const struct slurm_reservation *reservation);
void slurm_sink_partition(
	struct slurm_sink *sink, const struct slurm_partition *partition);
void slurm_sink_error(struct slurm_sink *sink, const char *text, int number);
void slurm_sink_warning(struct slurm_sink *sink, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Each form: as slurm_reader_*, the sink is borrowed. */
struct slurm_json;
struct slurm_json *slurm_json_create(struct slurm_sink *sink, struct err *err);
int slurm_json_feed(
	struct slurm_json *json, const char *data, size_t size, struct err *err);
int slurm_json_end(struct slurm_json *json, struct err *err);
void slurm_json_destroy(struct slurm_json *json);

struct slurm_text;
struct slurm_text *slurm_text_create(struct slurm_sink *sink, struct err *err);
int slurm_text_feed(
	struct slurm_text *text, const char *data, size_t size, struct err *err);
int slurm_text_end(struct slurm_text *text, struct err *err);
void slurm_text_destroy(struct slurm_text *text);

#endif
