/*
 * slurm_read.c - one reader for every form: guess, hand on, count.
 *
 * The form is guessed by the first byte that is no blank: '{' is JSON, the rest
 * is text.  Blanks before it are held back until then.  Whether a text is one of
 * Slurm's at all is its reader's to say.
 */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/slurm/slurm_read_impl.h"

enum { GUESS_MAX = 4096 };

struct slurm_reader {
	struct slurm_sink sink;
	enum slurm_form form;
	char first[GUESS_MAX + 1]; /* while guessing; ends with a zero */
	size_t n_first;
	struct slurm_json *json;
	struct slurm_text *text;
	int failed;
};

/* --- where records go ----------------------------------------------------------- */

void slurm_sink_node(struct slurm_sink *sink, const struct slurm_node *node)
{
	sink->summary.nodes++;
	if (sink->handlers.on_node)
		sink->handlers.on_node(node, sink->arg);
}

void slurm_sink_job(struct slurm_sink *sink, const struct slurm_job *job)
{
	sink->summary.jobs++;
	if (sink->handlers.on_job)
		sink->handlers.on_job(job, sink->arg);
}

void slurm_sink_reservation(
	struct slurm_sink *sink, const struct slurm_reservation *reservation)
{
	sink->summary.reservations++;
	if (sink->handlers.on_reservation)
		sink->handlers.on_reservation(reservation, sink->arg);
}

void slurm_sink_partition(
	struct slurm_sink *sink, const struct slurm_partition *partition)
{
	sink->summary.partitions++;
	if (sink->handlers.on_partition)
		sink->handlers.on_partition(partition, sink->arg);
}

void slurm_sink_error(struct slurm_sink *sink, const char *text, int number)
{
	sink->summary.errors++;
	if (sink->handlers.on_error)
		sink->handlers.on_error(text, number, sink->arg);
}

void slurm_sink_warning(struct slurm_sink *sink, const char *fmt, ...)
{
	char text[256];
	va_list ap;

	sink->summary.warnings++;
	if (!sink->handlers.on_warning)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	sink->handlers.on_warning(text, sink->arg);
}

/* --- the reader ------------------------------------------------------------------ */

struct slurm_reader *slurm_reader_create(enum slurm_form form,
	const struct slurm_read_handlers *handlers, void *arg, struct err *err)
{
	struct slurm_reader *reader = calloc(1, sizeof(*reader));

	if (!reader) {
		err_set(err, ENOMEM, "Slurm's answer: out of memory");
		return NULL;
	}
	reader->form = form;
	reader->sink.handlers = *handlers;
	reader->sink.arg = arg;
	reader->sink.summary.last_update_s = NAN;
	return reader;
}

void slurm_reader_destroy(struct slurm_reader *reader)
{
	if (!reader)
		return;
	slurm_json_destroy(reader->json);
	slurm_text_destroy(reader->text);
	free(reader);
}

static int feed_form(
	struct slurm_reader *reader, const char *data, size_t size, struct err *err)
{
	if (reader->form == SLURM_FORM_JSON) {
		if (!reader->json)
			reader->json = slurm_json_create(&reader->sink, err);
		return reader->json ? slurm_json_feed(reader->json, data, size, err) : -1;
	}
	if (!reader->text)
		reader->text = slurm_text_create(&reader->sink, err);
	return reader->text ? slurm_text_feed(reader->text, data, size, err) : -1;
}

static void guess(struct slurm_reader *reader)
{
	size_t i = strspn(reader->first, " \t\r\n");

	if (i < reader->n_first)
		reader->form =
			reader->first[i] == '{' ? SLURM_FORM_JSON : SLURM_FORM_SCONTROL;
}

static int flush_first(struct slurm_reader *reader, struct err *err)
{
	if (reader->form == SLURM_FORM_GUESS || reader->n_first == 0)
		return 0;
	return feed_form(reader, reader->first, reader->n_first, err);
}

static int feed(struct slurm_reader *reader, const char *data, size_t size, struct err *err)
{
	while (reader->form == SLURM_FORM_GUESS && size > 0) {
		size_t n = GUESS_MAX - reader->n_first;

		if (n > size)
			n = size;
		memcpy(reader->first + reader->n_first, data, n);
		reader->n_first += n;
		data += n;
		size -= n;
		guess(reader);
		if (reader->form != SLURM_FORM_GUESS) {
			if (flush_first(reader, err) != 0)
				return -1;
		} else if (reader->n_first == GUESS_MAX) {
			return err_set(err, EPROTO, "nothing but blanks in its first %d bytes",
				GUESS_MAX);
		}
	}
	return size > 0 ? feed_form(reader, data, size, err) : 0;
}

int slurm_reader_feed(
	struct slurm_reader *reader, const void *data, size_t size, struct err *err)
{
	if (reader->failed)
		return err_set(err, EPROTO, "the answer could not be read before");
	if (feed(reader, data, size, err) == 0)
		return 0;
	reader->failed = 1;
	return -1;
}

static int finish(struct slurm_reader *reader, struct err *err)
{
	if (reader->json)
		return slurm_json_end(reader->json, err);
	if (reader->text)
		return slurm_text_end(reader->text, err);
	return err_set(err, EPROTO, "it is empty");
}

int slurm_reader_end(
	struct slurm_reader *reader, struct slurm_summary *summary, struct err *err)
{
	int rc = reader->failed
		? err_set(err, EPROTO, "the answer could not be read before")
		: finish(reader, err);

	reader->sink.summary.form = reader->form;
	*summary = reader->sink.summary;
	return rc;
}
