/*
 * begin.c - from a joined worker to the first batch.
 *
 *	worker.ready -> (the old world trains on, agrees, leaves) -> worker.go
 *
 * go says whether the world resumes, the same to all ranks; only the node of
 * rank 0 has the file.  Rank 0 loads it and tells the others in one small
 * broadcast how that went, before anybody waits for a buffer: a file that is
 * damaged makes all ranks fail in the same words, instead of one failing and
 * the rest waiting.  Then every buffer follows, in order.
 *
 * The small broadcast carries a digest of names and sizes too.  A rank that
 * registered something else fails alone, which only a program with a bug does;
 * it has to end the world (see malle_batch).
 *
 * Without a state to resume the buffers are broadcast all the same, where
 * there is a way to: ranks that began with different weights would train
 * different models and never know.
 *
 * All that may fail on one rank alone, memory above all, is done before the
 * broadcast, and the ledger after it, because it tells where the world begins.
 */
#include "worker/client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OPENING_MAGIC 0x6d616c6c652d6f70ULL

/* Broadcast from rank 0; all ranks are machines of one kind. */
struct opening {
	uint64_t magic;
	uint64_t failed; /* errno of rank 0, or 0 */
	uint64_t step, consumed;
	uint64_t digest; /* of rank 0's buffers */
	char text[sizeof(((struct malle_err *)0)->text)];
};

static int wait_for_go(struct malle *m, int *resume, char **file)
{
	struct wire_out out;
	int n;

	*resume = 0;
	if (!m->under_malle)
		return 0;
	wire_begin(&out, WIRE_READY, 0);
	if (conn_send(&m->conn, &out, &m->err) < 0)
		return -1;
	for (;;) {
		n = conn_recv(&m->conn, &m->msg, CONN_FOREVER, &m->err);
		if (n < 0)
			return -1;
		if (n && m->msg.type == WIRE_GO)
			break;
		if (n)
			talk_handle(m);
	}
	*resume = m->msg.resume;
	if (!m->msg.state[0])
		return 0;
	if (asprintf(file, "%s%s%s", m->msg.state[0] == '/' ? "" : m->state_dir,
		    m->msg.state[0] == '/' ? "" : "/", m->msg.state) < 0) {
		*file = NULL;
		return fault_set(&m->err, ENOMEM, "begin: out of memory");
	}
	return 0;
}

/* Rank 0: the state of the world before, into buffers and cursor. */
static int load(struct malle *m, const char *file)
{
	struct state_point point = {
		.n_samples = m->cursor.n_samples,
		.seed = m->cursor.seed,
	};

	if (!file)
		return fault_set(&m->err, EBADMSG,
			"begin: the world resumes and rank 0 was given no state");
	if (state_load(&m->states, file, &point, &m->err) < 0)
		return -1;
	if (cursor_seek(&m->cursor, point.step, point.consumed) < 0)
		return fault_set(&m->err, EBADMSG,
			"state %s: it lies past the end of this program's training",
			file);
	m->saved_step = point.step;
	m->have_saved = 1;
	return 0;
}

static int broadcast(struct malle *m, void *buffer, size_t bytes, const char *what)
{
	if (!bytes || m->broadcast(m->broadcast_arg, buffer, bytes) == 0)
		return 0;
	return fault_set(&m->err, errno ? errno : EIO, "broadcast of %s: %s", what,
		errno ? strerror(errno) : "it failed");
}

/* Rank 0 tells how it went; the others learn it. */
static int share_opening(struct malle *m, struct opening *o)
{
	if (broadcast(m, o, sizeof(*o), "where training begins") < 0)
		return -1;
	if (o->magic != OPENING_MAGIC)
		return fault_set(&m->err, EBADMSG,
			"broadcast: what rank 0 sent did not arrive; is it the root?");
	o->text[sizeof(o->text) - 1] = 0;
	if (o->failed)
		return fault_set(&m->err, (int)o->failed, "%s", o->text);
	if (o->digest != state_digest(&m->states))
		return fault_set(&m->err, EINVAL,
			"rank %llu registered other buffers than rank 0",
			(unsigned long long)m->rank);
	if (cursor_seek(&m->cursor, o->step, o->consumed) < 0)
		return fault_set(&m->err, EINVAL,
			"rank %llu was told of other data than rank 0",
			(unsigned long long)m->rank);
	return 0;
}

static int share(struct malle *m, int failed)
{
	struct opening o = {
		.magic = m->rank == 0 ? OPENING_MAGIC : 0,
		.failed = (uint64_t)failed,
		.step = m->cursor.step,
		.consumed = m->cursor.consumed,
		.digest = state_digest(&m->states),
	};

	if (failed)
		memcpy(o.text, m->err.text, sizeof(o.text));
	if (share_opening(m, &o) < 0)
		return -1;
	for (size_t i = 0; i < m->states.n; i++) {
		const struct state_buffer *b = &m->states.buffers[i];

		if (broadcast(m, b->bytes, b->n, b->name) < 0)
			return -1;
	}
	return 0;
}

static int take_state(struct malle *m, int resume, const char *file)
{
	int failed = 0;

	if (resume && m->world_size > 1 && !m->broadcast)
		return fault_set(&m->err, ENOTSUP,
			"begin: %llu ranks cannot resume without malle_set_broadcast",
			(unsigned long long)m->world_size);
	if (resume && m->rank == 0 && load(m, file) < 0)
		failed = errno;
	if (m->world_size > 1 && m->broadcast)
		return share(m, failed);
	if (failed)
		errno = failed;
	return failed ? -1 : 0;
}

static int open_ledger(struct malle *m, size_t most)
{
	const char *dir = getenv("MALLE_LEDGER");
	struct ledger_head head = {
		.generation = m->generation,
		.rank = m->rank,
		.world = m->world_size,
		.step = m->cursor.step,
		.cursor = m->cursor.consumed,
		.n_samples = m->cursor.n_samples,
		.global_batch = m->cursor.global_batch,
		.total = m->cursor.total,
		.seed = m->cursor.seed,
		.job = m->job,
	};

	if (!dir || !*dir)
		return 0;
	return ledger_open(&m->ledger, dir, &head, most, &m->err);
}

int begin_training(struct malle *m)
{
	uint64_t most = m->cursor.global_batch;
	char *file = NULL;
	int resume, status;

	if (!m->have_data)
		return fault_set(
			&m->err, EINVAL, "malle_batch: malle_data comes first");
	if (most > m->cursor.n_samples)
		most = m->cursor.n_samples;
	most = most / m->world_size + 1;
	m->ids = malloc(most * sizeof(*m->ids));
	if (!m->ids)
		return fault_set(&m->err, ENOMEM, "malle_batch: out of memory");
	status = wait_for_go(m, &resume, &file);
	if (!status)
		status = take_state(m, resume, file);
	free(file);
	if (!status)
		status = open_ledger(m, most);
	if (!status)
		pace_init(&m->pace, m->replica_s, client_now_s(), client_wall_s());
	return status;
}
