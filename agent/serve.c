/*
 * serve.c - a state to the agent of another node.
 *
 * In parts of CHUNK bytes, and no more than QUEUED_MAX at a time between us and
 * a peer that does not read as fast: what it has not taken is looked at every
 * look_s.  The file is held open, so that it can be sent to the end even when a
 * newer state replaces it meanwhile.
 */
#include "agent/serve.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/log.h"

enum { CHUNK = 1 << 20, QUEUED_MAX = 4 << 20, CHUNKS_PER_TURN = 8 };

static const double look_s = 0.002;

struct serve {
	struct link *link;
	uint32_t id;
	char job[STORE_ID_SIZE];
	long long step, cursor, bytes, offset;
	int fd, finished;
	struct loop_timer *timer;
	uint8_t *chunk;
};

static int send_part(struct serve *serve, size_t size)
{
	json_t *body = json_pack("{s:s, s:I, s:I, s:I}", "job", serve->job, "step",
		(json_int_t)serve->step, "offset", (json_int_t)serve->offset, "bytes",
		(json_int_t)serve->bytes);

	if (body && serve->cursor >= 0)
		json_object_set_new(body, "cursor", json_integer(serve->cursor));
	serve->offset += (long long)size;
	return link_send_raw(
		serve->link, MSG_STATE_DATA, serve->id, body, serve->chunk, size);
}

static void send_some(void *arg)
{
	struct serve *serve = arg;

	for (int i = 0; i < CHUNKS_PER_TURN && !serve->finished; i++) {
		ssize_t n;

		if (link_queued(serve->link) > QUEUED_MAX)
			break;
		n = pread(serve->fd, serve->chunk, CHUNK, serve->offset);
		if (n < 0 || (n == 0 && serve->offset < serve->bytes)) {
			link_refuse(serve->link, serve->id, EXIT_NO_INPUT,
				"the state of step %lld cannot be read", serve->step);
			serve->finished = 1;
			return;
		}
		serve->finished = send_part(serve, (size_t)n) < 0 ||
				  serve->offset >= serve->bytes;
	}
	if (!serve->finished)
		loop_timer_start(serve->timer, look_s);
}

struct serve *serve_start(struct agent *agent, struct link *link, uint32_t id,
	const char *job, const struct store_entry *state, struct err *err)
{
	struct serve *serve = calloc(1, sizeof(*serve));

	if (!serve)
		goto no_memory;
	serve->link = link;
	serve->id = id;
	serve->step = state->step;
	serve->cursor = state->cursor;
	serve->bytes = state->bytes;
	snprintf(serve->job, sizeof(serve->job), "%s", job);
	serve->fd = open(state->path, O_RDONLY | O_CLOEXEC);
	if (serve->fd < 0) {
		err_set(err, errno, "%s: open: %s", state->path, strerror(errno));
		serve_cancel(serve);
		return NULL;
	}
	serve->chunk = malloc(CHUNK);
	serve->timer = loop_timer_create(agent->loop, send_some, serve);
	if (!serve->chunk || !serve->timer)
		goto no_memory;
	loop_timer_start(serve->timer, 0);
	return serve;
no_memory:
	serve_cancel(serve);
	err_set(err, ENOMEM, "state of job %s: out of memory", job);
	return NULL;
}

void serve_cancel(struct serve *serve)
{
	if (!serve)
		return;
	loop_timer_destroy(serve->timer);
	if (serve->fd >= 0)
		close(serve->fd);
	free(serve->chunk);
	free(serve);
}
