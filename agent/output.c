/*
 * output.c - what the processes of a world write, to a file and to the daemon.
 *
 * Pipes must be drained, or workers stop: in a write, in the middle of a step,
 * with all other ranks waiting for them.  A daemon that is there but reads more
 * slowly than they write is waited for all the same, patience_s at a time, as a
 * terminal would make them wait: its users want all of the output.  One that
 * takes nothing for longer, or is away, is not: what cannot be handed on is kept,
 * up to RING_MAX; beyond that the oldest goes, and a line in its place says how
 * much went.  The file gets everything.
 *
 * One pair of pipes serves all processes of the world on this node, and we keep
 * the writing ends, so that a process that is started later gets them too.  So
 * there is no end of file; who knows that no process is left calls
 * output_finish.
 *
 * mpirun says two things on its standard error about its own remote start that
 * are harmless and cannot be turned off (a race that it expects, a login shell that
 * it does not know).  A user would take them for trouble, so these lines are left
 * out.  Only a beginning of a line that may become one of them is held back.
 */
#include "agent/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>

#include "proto/log.h"

enum {
	CHUNK_MAX = 64 << 10,
	RING_MAX = 256 << 10,
	READS_PER_TURN = 8,
	LINE_MAX_ = 512, /* lines of mpirun's that are looked at are shorter */
};

static const double retry_s = 0.05;
static const double retry_soon_s = 0.01; /* while workers wait */
static const double patience_s = 1;

struct chunk {
	STAILQ_ENTRY(chunk) entry;
	int stream;
	size_t size;
	char bytes[];
};

struct stream {
	struct output *output;
	int number; /* 1 or 2 */
	int read_fd, write_fd;
	struct loop_io *io;
	char held[LINE_MAX_]; /* a line that may have to be left out */
	size_t n_held;
};

struct output {
	struct loop *loop;
	char *job, *path;
	int filter, file_fd, file_failed;
	output_f hand_on;
	void *arg;
	struct stream streams[2];
	STAILQ_HEAD(, chunk) ring;
	size_t in_ring, dropped;
	struct loop_timer *retry;
	double slow_since_s; /* monotonic: nothing was taken; 0: all is */
	int paused;          /* the pipes are not read */
};

/* --- to the file ------------------------------------------------------------ */

static void file_fails(struct output *output, const char *what)
{
	log_warning("output", "%s: %s: %m", output->path, what);
	output->file_failed = 1;
}

static void append(struct output *output, const char *bytes, size_t size)
{
	if (!output->path || output->file_failed)
		return;
	if (output->file_fd < 0)
		output->file_fd = open(output->path,
			O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY |
				O_NONBLOCK,
			0644);
	if (output->file_fd < 0) {
		file_fails(output, "open");
		return;
	}
	while (size > 0) {
		ssize_t n = write(output->file_fd, bytes, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			file_fails(output, "write");
			return;
		}
		bytes += n;
		size -= (size_t)n;
	}
}

/* --- to the daemon ---------------------------------------------------------- */

static void drop_oldest(struct output *output)
{
	struct chunk *chunk = STAILQ_FIRST(&output->ring);

	STAILQ_REMOVE_HEAD(&output->ring, entry);
	output->in_ring -= chunk->size;
	output->dropped += chunk->size;
	free(chunk);
}

static void keep(struct output *output, int stream, const char *bytes, size_t size)
{
	struct chunk *chunk = malloc(sizeof(*chunk) + size);

	if (!chunk) {
		output->dropped += size;
		return;
	}
	chunk->stream = stream;
	chunk->size = size;
	memcpy(chunk->bytes, bytes, size);
	STAILQ_INSERT_TAIL(&output->ring, chunk, entry);
	output->in_ring += size;
	while (output->in_ring > RING_MAX)
		drop_oldest(output);
}

static int tell_dropped(struct output *output)
{
	char line[80];
	int n;

	if (!output->dropped)
		return 0;
	n = snprintf(line, sizeof(line), "[malle: %zu bytes of output dropped]\n",
		output->dropped);
	if (output->hand_on(output->job, 2, line, (size_t)n, output->arg) < 0)
		return -1;
	output->dropped = 0;
	return 0;
}

int output_flush(struct output *output)
{
	struct chunk *chunk;

	if (!output)
		return 1;
	if (tell_dropped(output) < 0)
		return 0;
	while ((chunk = STAILQ_FIRST(&output->ring))) {
		if (output->hand_on(output->job, chunk->stream, chunk->bytes,
			    chunk->size, output->arg) < 0)
			return 0;
		STAILQ_REMOVE_HEAD(&output->ring, entry);
		output->in_ring -= chunk->size;
		free(chunk);
	}
	return 1;
}

static void pause_reading(struct output *output, int paused)
{
	if (output->paused == paused)
		return;
	output->paused = paused;
	for (int i = 0; i < 2; i++)
		loop_io_set(output->streams[i].io, paused ? LOOP_NONE : LOOP_READ);
}

/* After something could not be handed on; errno is of that. */
static void be_patient(struct output *output)
{
	double now_s = loop_now_s(output->loop);
	int slow = errno == EAGAIN;

	if (slow && output->slow_since_s == 0)
		output->slow_since_s = now_s;
	pause_reading(output, slow && now_s - output->slow_since_s < patience_s);
	loop_timer_start(output->retry, output->paused ? retry_soon_s : retry_s);
}

static void retry_flush(void *arg)
{
	struct output *output = arg;
	size_t before = output->in_ring;
	int all = output_flush(output);

	if (output->in_ring < before)
		output->slow_since_s = 0;
	if (all)
		pause_reading(output, 0);
	else
		be_patient(output);
}

static void hand_on(struct output *output, int stream, const char *bytes, size_t size)
{
	if (size == 0)
		return;
	append(output, bytes, size);
	if (output_flush(output) &&
		output->hand_on(output->job, stream, bytes, size, output->arg) == 0) {
		output->slow_since_s = 0;
		return;
	}
	be_patient(output);
	keep(output, stream, bytes, size);
}

/* --- mpirun's two lines ----------------------------------------------------- */

/* Lines that begin like one of these may be meant: "[host:123] plm:rsh: ..." */
static int may_be_meant(const char *bytes, size_t size)
{
	static const char warning[] = "WARNING: local probe";
	size_t n = size < sizeof(warning) - 1 ? size : sizeof(warning) - 1;

	return bytes[0] == '[' || memcmp(bytes, warning, n) == 0;
}

static int is_meant(const char *line, size_t size)
{
	return memmem(line, size, "plm:rsh: Warning: setpgid(", 26) ||
	       memmem(line, size, "WARNING: local probe returned unhandled shell", 45);
}

size_t output_judge(const char *bytes, size_t size, int *stays)
{
	size_t done = 0;

	*stays = 1;
	while (done < size) {
		const char *line = bytes + done;
		const char *end = memchr(line, '\n', size - done);
		size_t n = end ? (size_t)(end - line) + 1 : size - done;
		int meant = may_be_meant(line, n) && n < LINE_MAX_;

		if (meant && (!end || is_meant(line, n))) {
			/* What is before it goes first. */
			if (done)
				return done;
			*stays = 0;
			return end ? n : 0;
		}
		done += n;
	}
	return done;
}

/* held is the beginning of a line; the rest of it is at the front of bytes. */
static void filter(struct stream *s, const char *bytes, size_t size)
{
	char all[LINE_MAX_ + CHUNK_MAX];
	size_t n = s->n_held, done = 0, used;
	int stays;

	memcpy(all, s->held, n);
	memcpy(all + n, bytes, size);
	n += size;
	while (done < n && (used = output_judge(all + done, n - done, &stays)) > 0) {
		if (stays)
			hand_on(s->output, s->number, all + done, used);
		done += used;
	}
	s->n_held = n - done;
	memcpy(s->held, all + done, s->n_held);
}

/* --- the pipes -------------------------------------------------------------- */

/* 1: something came, 0: nothing now. */
static int read_some(struct stream *s)
{
	char bytes[CHUNK_MAX];
	ssize_t n = read(s->read_fd, bytes, sizeof(bytes));

	if (n <= 0)
		return n < 0 && errno == EINTR;
	if (s->output->filter && s->number == 2)
		filter(s, bytes, (size_t)n);
	else
		hand_on(s->output, s->number, bytes, (size_t)n);
	return 1;
}

static void readable(int fd, unsigned ready, void *arg)
{
	const struct stream *s = arg;

	for (int i = 0; i < READS_PER_TURN && !s->output->paused && read_some(arg); i++)
		;
}

void output_finish(struct output *output)
{
	if (!output)
		return;
	for (int i = 0; i < 2; i++) {
		struct stream *s = &output->streams[i];

		while (read_some(s))
			;
		hand_on(output, s->number, s->held, s->n_held);
		s->n_held = 0;
	}
	output_flush(output);
}

int output_fd(const struct output *output, int stream)
{
	return output->streams[stream - 1].write_fd;
}

static int open_stream(struct output *output, int number, struct err *err)
{
	struct stream *s = &output->streams[number - 1];
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_set(err, errno, "output of job %s: pipe: %s", output->job,
			strerror(errno));
	*s = (struct stream){
		.output = output,
		.number = number,
		.read_fd = fds[0],
		.write_fd = fds[1],
	};
	/* Only our end: children share the other, and expect it to wait. */
	fcntl(s->read_fd, F_SETFL, O_NONBLOCK);
	s->io = loop_io_create(output->loop, s->read_fd, LOOP_READ, readable, s);
	return s->io ? 0
		     : err_set(err, ENOMEM, "output of job %s: out of memory",
			       output->job);
}

struct output *output_create(
	struct loop *loop, const struct output_config *config, struct err *err)
{
	struct output *output = calloc(1, sizeof(*output));

	if (!output) {
		err_set(err, ENOMEM, "output of job %s: out of memory", config->job);
		return NULL;
	}
	STAILQ_INIT(&output->ring);
	output->loop = loop;
	output->filter = config->from_mpirun;
	output->hand_on = config->hand_on;
	output->arg = config->arg;
	output->file_fd = -1;
	for (int i = 0; i < 2; i++)
		output->streams[i].read_fd = output->streams[i].write_fd = -1;
	output->job = strdup(config->job);
	output->path = config->path ? strdup(config->path) : NULL;
	output->retry = loop_timer_create(loop, retry_flush, output);
	if (!output->job || (config->path && !output->path) || !output->retry)
		err_set(err, ENOMEM, "output of job %s: out of memory", config->job);
	else if (open_stream(output, 1, err) == 0 && open_stream(output, 2, err) == 0)
		return output;
	output_destroy(output);
	return NULL;
}

void output_destroy(struct output *output)
{
	int saved = errno;

	if (!output)
		return;
	for (int i = 0; i < 2; i++) {
		struct stream *s = &output->streams[i];

		loop_io_destroy(s->io);
		if (s->read_fd >= 0)
			close(s->read_fd);
		if (s->write_fd >= 0)
			close(s->write_fd);
	}
	while (!STAILQ_EMPTY(&output->ring))
		drop_oldest(output);
	if (output->file_fd >= 0)
		close(output->file_fd);
	loop_timer_destroy(output->retry);
	free(output->job);
	free(output->path);
	free(output);
	errno = saved;
}
