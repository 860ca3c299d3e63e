/*
 * client.c - the calls of malle.h, and the phases that they go through.
 *
 *	joined --first malle_batch--> between <-malle_batch/malle_step-> in hand
 *	between --verdict--> left        between --all consumed--> finished
 *	any failure of malle_batch --> failed
 *
 * A call that does not fit the phase is a mistake of the caller: EINVAL, and
 * nothing changes.  left, finished and failed are final; only malle_leave
 * follows.  The work itself is elsewhere: join.c, begin.c, talk.c.
 *
 * This runs inside somebody's training process.  It owns one descriptor, the
 * ledger's besides, and a few kilobytes; it installs no handler, starts no
 * thread, prints nothing, and out of memory is a failure like any other.
 */
#include "worker/client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct malle *malle_join(struct malle_err *err)
{
	struct malle *m = calloc(1, sizeof(*m));

	if (!m) {
		fault_set(err, ENOMEM, "join: out of memory");
		return NULL;
	}
	conn_init(&m->conn, -1);
	m->ledger.fd = -1;
	if (join_environment(m, err) < 0 || join_agent(m, err) < 0) {
		malle_leave(m);
		return NULL;
	}
	m->phase = PHASE_JOINED;
	return m;
}

void malle_leave(struct malle *m)
{
	int keep = errno;

	if (!m)
		return;
	conn_close(&m->conn);
	ledger_close(&m->ledger);
	state_fini(&m->states);
	free(m->state_dir);
	free(m->ids);
	free(m);
	errno = keep;
}

/* A mistake of the caller; m may be NULL. */
static int misuse(struct malle *m, const char *why)
{
	return fault_set(m ? &m->err : NULL, EINVAL, "%s", why);
}

/* Samples at which training is complete; 0: the numbers make no sense. */
static uint64_t total_of(const struct malle_data *d)
{
	uint64_t total = d->max_samples;

	if (!d->n_samples || d->n_samples > UINT32_MAX || !d->global_batch ||
		d->global_batch > UINT32_MAX)
		return 0;
	if (d->epochs) {
		if (d->epochs > WIRE_INT_MAX / d->n_samples)
			return 0;
		if (!total || d->epochs * d->n_samples < total)
			total = d->epochs * d->n_samples;
	}
	return total <= WIRE_INT_MAX ? total : 0;
}

int malle_data(struct malle *m, const struct malle_data *data)
{
	uint64_t total;

	if (!m || !data)
		return misuse(m, "malle_data: NULL");
	if (m->have_data || m->phase != PHASE_JOINED)
		return fault_set(&m->err, EBUSY, "malle_data: it has been said");
	total = total_of(data);
	if (!total)
		return misuse(m,
			"malle_data: n_samples and global_batch are 1 to 2^32 - 1,"
			" epochs or max_samples 1 or more, all samples below 2^53");
	cursor_init(&m->cursor, data->n_samples, data->global_batch, total, data->seed);
	m->have_data = 1;
	return 0;
}

int malle_state(struct malle *m, const char *name, void *ptr, size_t bytes)
{
	if (!m)
		return misuse(m, "malle_state: NULL");
	if (m->phase != PHASE_JOINED)
		return fault_set(&m->err, EBUSY, "malle_state: training has begun");
	return state_add(&m->states, name, ptr, bytes, &m->err);
}

int malle_set_broadcast(struct malle *m, malle_broadcast_f broadcast, void *arg)
{
	if (!m)
		return misuse(m, "malle_set_broadcast: NULL");
	if (m->phase != PHASE_JOINED)
		return fault_set(
			&m->err, EBUSY, "malle_set_broadcast: training has begun");
	m->broadcast = broadcast;
	m->broadcast_arg = arg;
	return 0;
}

int malle_expect_world(struct malle *m, int rank, int size)
{
	if (!m)
		return misuse(m, "malle_expect_world: NULL");
	if (rank == malle_rank(m) && size == malle_world_size(m))
		return 0;
	return fault_set(&m->err, EINVAL,
		"communicator: rank %d of %d, where the environment says %d of %d",
		rank, size, malle_rank(m), malle_world_size(m));
}

static int fail(struct malle *m)
{
	m->phase = PHASE_FAILED;
	return -1;
}

static void finish(struct malle *m)
{
	talk_listen(m);
	talk_leave(m, 1);
	m->phase = PHASE_FINISHED;
}

static int hand_out(struct malle *m, struct malle_batch *b)
{
	uint64_t offset, n;

	m->batch = cursor_next(&m->cursor);
	if (!m->batch.n) {
		finish(m);
		return 0;
	}
	n = cursor_slice(m->batch.n, m->rank, m->world_size, &offset);
	cursor_ids(&m->cursor, &m->batch, offset, n, m->ids);
	if (ledger_batch(&m->ledger, m->cursor.step, m->cursor.consumed, m->batch.n,
		    m->ids, n, &m->err) < 0)
		return fail(m);
	*b = (struct malle_batch){
		.ids = m->ids,
		.n = n,
		.global_n = m->batch.n,
		.offset = offset,
		.step = m->cursor.step,
		.epoch = m->batch.epoch,
		.cursor = m->cursor.consumed,
	};
	m->phase = PHASE_IN_HAND;
	return 1;
}

int malle_batch(struct malle *m, struct malle_batch *b)
{
	if (!m || !b)
		return misuse(m, "malle_batch: NULL");
	switch (m->phase) {
	case PHASE_JOINED:
		if (!m->have_data)
			return misuse(m, "malle_batch: malle_data comes first");
		if (begin_training(m) < 0)
			return fail(m);
		m->phase = PHASE_BETWEEN;
		return hand_out(m, b);
	case PHASE_BETWEEN:
		return hand_out(m, b);
	case PHASE_IN_HAND:
		return misuse(m, "malle_batch: the batch before was not stepped");
	case PHASE_LEFT:
	case PHASE_FINISHED:
		return 0;
	default:
		errno = EINVAL;
		return -1;
	}
}

enum malle_verdict malle_step(struct malle *m)
{
	double now_s;

	if (m && m->phase == PHASE_LEFT)
		return m->verdict;
	if (!m || m->phase != PHASE_IN_HAND)
		return (enum malle_verdict)misuse(m, "malle_step: no batch is in hand");
	now_s = client_now_s();
	m->step_wall_s = client_wall_s();
	cursor_step(&m->cursor, &m->batch);
	pace_step(&m->pace, now_s);
	m->phase = PHASE_BETWEEN;
	m->verdict = MALLE_GO;
	talk_listen(m);
	if (talk_settle(m) == AGREE_LEAVE) {
		m->verdict = m->agree.verdict;
		talk_leave(m, 0);
		m->phase = PHASE_LEFT;
		return m->verdict;
	}
	talk_progress(m, now_s);
	talk_replica(m, client_now_s());
	pace_resume(&m->pace, client_now_s());
	return MALLE_GO;
}

int malle_finish(struct malle *m)
{
	if (!m || m->phase != PHASE_BETWEEN)
		return misuse(
			m, "malle_finish: not between malle_step and malle_batch");
	finish(m);
	return 0;
}

int malle_rank(const struct malle *m)
{
	return m ? (int)m->rank : -1;
}

int malle_local_rank(const struct malle *m)
{
	return m ? (int)m->local_rank : -1;
}

int malle_world_size(const struct malle *m)
{
	return m ? (int)m->world_size : -1;
}

uint64_t malle_generation(const struct malle *m)
{
	return m ? m->generation : 0;
}

uint64_t malle_restarts(const struct malle *m)
{
	return m ? m->restarts : 0;
}

uint64_t malle_steps(const struct malle *m)
{
	return m ? m->cursor.step : 0;
}

uint64_t malle_cursor(const struct malle *m)
{
	return m ? m->cursor.consumed : 0;
}

int malle_finished(const struct malle *m)
{
	return m && m->phase == PHASE_FINISHED;
}

const char *malle_error(const struct malle *m)
{
	return m ? m->err.text : "malle is NULL";
}
