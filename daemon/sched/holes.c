/*
 * holes.c - idle nodes over time, and the reader of their files.
 *
 * A file has a line for each moment at which something changes:
 *
 *	# comment
 *	t_s,joins,leaves
 *	0,10 28 33,
 *	51,543,10 28
 *
 * It is small compressed and large otherwise, so it is read whole, through
 * zlib, which takes plain files as they are.  Reading is strict, because a wrong
 * trace gives plausible and wrong results: times go forward, a node joins only
 * when it is away and leaves only when it is there, and the sentence names the
 * line.  A compressed file that was cut off is no shorter trace, but a failure.
 *
 * Rows point into one array of indices.  While it grows they are kept as
 * offsets, and become pointers at the end.
 */
#include "daemon/sched/holes.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

struct offsets {
	double t_s;
	size_t joins, leaves; /* where they begin; leaves come first */
	size_t n_joins, n_leaves;
};

struct holes_builder {
	struct offsets *rows;
	size_t n_rows, room_rows;
	uint32_t *indices;
	size_t n_indices, room_indices;
	uint32_t n_nodes;
	uint8_t there[HOLES_NODES_MAX];
};

void holes_destroy(struct holes *holes)
{
	int saved = errno;

	if (!holes)
		return;
	free(holes->rows);
	free(holes->indices);
	free(holes);
	errno = saved;
}

/* --- building --------------------------------------------------------------- */

struct holes_builder *holes_builder_create(void)
{
	return calloc(1, sizeof(struct holes_builder));
}

void holes_builder_destroy(struct holes_builder *builder)
{
	int saved = errno;

	if (!builder)
		return;
	free(builder->rows);
	free(builder->indices);
	free(builder);
	errno = saved;
}

/* The array with room for one more item of `size` bytes; NULL: ENOMEM. */
static void *grown(void *array, size_t count, size_t *room, size_t size)
{
	size_t wanted = *room ? 2 * *room : 64;
	void *more;

	if (count < *room)
		return array;
	more = reallocarray(array, wanted, size);
	if (more)
		*room = wanted;
	return more;
}

int holes_builder_row(struct holes_builder *builder, double t_s, struct err *err)
{
	size_t n = builder->n_rows;
	struct offsets *more;

	if (!isfinite(t_s) || t_s < 0)
		return err_set(err, EPROTO, "%g is no time", t_s);
	if (n && t_s < builder->rows[n - 1].t_s)
		return err_set(err, EPROTO, "time goes back from %.3f to %.3f",
			builder->rows[n - 1].t_s, t_s);
	more = grown(builder->rows, n, &builder->room_rows, sizeof(*more));
	if (!more)
		return err_set(err, ENOMEM, "out of memory");
	builder->rows = more;
	builder->rows[builder->n_rows++] = (struct offsets){
		.t_s = t_s,
		.leaves = builder->n_indices,
		.joins = builder->n_indices,
	};
	return 0;
}

static int add_index(struct holes_builder *builder, uint32_t node, struct err *err)
{
	uint32_t *more = grown(builder->indices, builder->n_indices,
		&builder->room_indices, sizeof(*more));

	if (!more)
		return err_set(err, ENOMEM, "out of memory");
	builder->indices = more;
	builder->indices[builder->n_indices++] = node;
	return 0;
}

int holes_builder_leave(struct holes_builder *builder, uint32_t node, struct err *err)
{
	struct offsets *row = builder->rows + builder->n_rows - 1;

	if (node >= HOLES_NODES_MAX || !builder->there[node])
		return err_set(err, EPROTO, "node %u leaves and is not there", node);
	if (row->n_joins)
		return err_set(err, EINVAL, "a row has its leaves first");
	if (add_index(builder, node, err) < 0)
		return -1;
	builder->there[node] = 0;
	row->n_leaves++;
	row->joins = builder->n_indices;
	return 0;
}

int holes_builder_join(struct holes_builder *builder, uint32_t node, struct err *err)
{
	struct offsets *row = builder->rows + builder->n_rows - 1;

	if (node >= HOLES_NODES_MAX)
		return err_set(
			err, E2BIG, "node %u is over %d", node, HOLES_NODES_MAX - 1);
	if (builder->there[node])
		return err_set(err, EPROTO, "node %u joins and is there already", node);
	if (add_index(builder, node, err) < 0)
		return -1;
	builder->there[node] = 1;
	row->n_joins++;
	if (node >= builder->n_nodes)
		builder->n_nodes = node + 1;
	return 0;
}

struct holes *holes_builder_finish(
	struct holes_builder *builder_take, double span_s, struct err *err)
{
	struct holes_builder *builder = builder_take;
	struct holes *holes = calloc(1, sizeof(*holes));
	size_t n = builder->n_rows;

	if (!holes || !(holes->rows = calloc(n ? n : 1, sizeof(*holes->rows)))) {
		free(holes);
		holes_builder_destroy(builder);
		err_set(err, ENOMEM, "out of memory");
		return NULL;
	}
	holes->indices = builder->indices;
	builder->indices = NULL;
	holes->n_rows = n;
	holes->n_nodes = builder->n_nodes;
	for (size_t i = 0; i < n; i++) {
		const struct offsets *from = &builder->rows[i];

		holes->rows[i] = (struct hole_row){
			.t_s = from->t_s,
			.joins = holes->indices ? holes->indices + from->joins : NULL,
			.n_joins = from->n_joins,
			.leaves = holes->indices ? holes->indices + from->leaves : NULL,
			.n_leaves = from->n_leaves,
		};
	}
	holes->span_s = span_s > 0 ? span_s : n ? holes->rows[n - 1].t_s : 0;
	holes_builder_destroy(builder);
	return holes;
}

/* --- reading ---------------------------------------------------------------- */

/* The text between two commas; not NUL-terminated. */
struct column {
	const char *at, *end;
};

static int split(
	const char *line, const char *end, struct column columns[3], struct err *err)
{
	for (int i = 0; i < 3; i++) {
		const char *comma = memchr(line, ',', (size_t)(end - line));

		if (i == 2 && comma)
			return err_set(err, EPROTO, "more than three columns");
		if (i < 2 && !comma)
			return err_set(
				err, EPROTO, "%d columns, not t_s,joins,leaves", i + 1);
		columns[i].at = line;
		columns[i].end = comma ? comma : end;
		line = comma ? comma + 1 : end;
	}
	return 0;
}

static int parse_time(const struct column *column, double *t_s, struct err *err)
{
	size_t size = (size_t)(column->end - column->at);
	char text[32], *rest;

	if (size == 0 || size >= sizeof(text))
		return err_set(err, EPROTO, "%zu bytes are no time", size);
	memcpy(text, column->at, size);
	text[size] = '\0';
	if (strspn(text, "0123456789.eE+-") != size)
		return err_set(err, EPROTO, "the time is no number");
	*t_s = strtod(text, &rest);
	if (rest == text || *rest)
		return err_set(err, EPROTO, "\"%s\" is no time", text);
	return 0;
}

/* The next index of a list: 1, 0 at its end, -1. */
static int parse_index(struct column *column, uint32_t *node, struct err *err)
{
	uint32_t value = 0;

	while (column->at < column->end && *column->at == ' ')
		column->at++;
	if (column->at == column->end)
		return 0;
	for (; column->at < column->end && *column->at != ' '; column->at++) {
		if (*column->at < '0' || *column->at > '9')
			return err_set(
				err, EPROTO, "a list has something besides indices");
		value = value * 10 + (uint32_t)(*column->at - '0');
		if (value >= HOLES_NODES_MAX)
			return err_set(err, E2BIG, "a node's index is over %d",
				HOLES_NODES_MAX - 1);
	}
	*node = value;
	return 1;
}

static int parse_row(struct holes_builder *builder, const char *line, const char *end,
	struct err *err)
{
	struct column columns[3];
	double t_s = 0;
	uint32_t node = 0;
	int more;

	if (split(line, end, columns, err) < 0 ||
		parse_time(&columns[0], &t_s, err) < 0 ||
		holes_builder_row(builder, t_s, err) < 0)
		return -1;
	while ((more = parse_index(&columns[2], &node, err)) > 0)
		if (holes_builder_leave(builder, node, err) < 0)
			return -1;
	if (more < 0)
		return -1;
	while ((more = parse_index(&columns[1], &node, err)) > 0)
		if (holes_builder_join(builder, node, err) < 0)
			return -1;
	return more;
}

static int is_skipped(const char *line, const char *end, int n_rows)
{
	static const char header[] = "t_s,joins,leaves";

	if (line == end || *line == '#')
		return 1;
	return n_rows == 0 && (size_t)(end - line) == sizeof(header) - 1 &&
	       !memcmp(line, header, sizeof(header) - 1);
}

struct holes *holes_parse(
	const char *text, size_t size, const char *name, struct err *err)
{
	struct holes_builder *builder = holes_builder_create();
	const char *end = text + size;
	unsigned number = 0;
	struct holes *holes;

	if (!builder) {
		err_set(err, ENOMEM, "%s: out of memory", name);
		return NULL;
	}
	while (text < end) {
		const char *stop = memchr(text, '\n', (size_t)(end - text));
		const char *line = text;

		stop = stop ? stop : end;
		text = stop < end ? stop + 1 : end;
		number++;
		if (stop > line && stop[-1] == '\r')
			stop--;
		if (is_skipped(line, stop, builder->n_rows > 0))
			continue;
		if (parse_row(builder, line, stop, err) < 0) {
			err_prefix(err, "%s:%u", name, number);
			holes_builder_destroy(builder);
			return NULL;
		}
	}
	holes = holes_builder_finish(builder, 0, err);
	if (!holes)
		err_prefix(err, "%s", name);
	return holes;
}

/* The whole file, decompressed; NUL is not added. */
static char *slurp(gzFile file, size_t *size, const char *path, struct err *err)
{
	size_t room = 1 << 20, used = 0;
	char *text = malloc(room);
	int n = 0, code;

	while (text && (n = gzread(file, text + used, (unsigned)(room - used))) > 0) {
		used += (size_t)n;
		if (used > HOLES_BYTES_MAX) {
			err_set(err, E2BIG, "%s: it is over %d bytes", path,
				HOLES_BYTES_MAX);
			goto fail;
		}
		if (used == room) {
			char *more = realloc(text, room *= 2);

			if (!more)
				free(text);
			text = more;
		}
	}
	if (!text) {
		err_set(err, ENOMEM, "%s: out of memory", path);
		return NULL;
	}
	/* A file that was cut off ends like a whole one, except for this. */
	gzerror(file, &code);
	if (n < 0 || (code != Z_OK && code != Z_STREAM_END)) {
		err_set(err, code == Z_ERRNO ? errno : EPROTO, "%s: %s", path,
			code == Z_ERRNO ? strerror(errno)
					: "its compressed data is damaged or cut off");
		goto fail;
	}
	*size = used;
	return text;
fail:
	free(text);
	return NULL;
}

struct holes *holes_read(const char *path, struct err *err)
{
	struct holes *holes = NULL;
	gzFile file;
	size_t size;
	char *text;

	errno = 0;
	file = gzopen(path, "rbe");
	if (!file) {
		int saved = errno ? errno : ENOMEM;

		err_set(err, saved, "%s: open: %s", path, strerror(saved));
		return NULL;
	}
	text = slurp(file, &size, path, err);
	if (text) {
		holes = holes_parse(text, size, path, err);
		free(text);
	}
	gzclose_r(file);
	return holes;
}
