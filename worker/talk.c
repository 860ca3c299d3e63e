/*
 * talk.c - what a training worker and its agent say to each other.
 *
 * All of it happens inside malle_step, between two optimiser steps, when the
 * registered buffers are complete and nobody changes them.  A step without news
 * costs one recv that finds nothing.
 *
 * Progress and states come from local rank 0 of each node only: state is equal
 * on all ranks, so one copy a node is what survives the loss of any other node.
 *
 * Waiting happens in one place, talk_settle: this worker said yes to leaving
 * at the step it has just done, and the last word is not there yet.  The agent
 * withdraws by itself when it loses the daemon, so silence means that the agent
 * is stopped or broken; after SILENCE_LIMIT_S it counts as gone.
 *
 * When the agent is gone, training goes on here, without states and without
 * progress.  The node is then lost to the job or given away, the launcher dies
 * with the agent and takes the world with it, and the job begins again from a
 * replica.  Returning MALLE_STOP instead would look tidy and hang every other
 * rank in its next collective.
 */
#include "worker/client.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define SILENCE_LIMIT_S 60
#define MESSAGES_MAX	256 /* in one step; an agent sends a handful */
#define NAME_ROOM	64

static double clock_s(clockid_t which)
{
	struct timespec ts;

	clock_gettime(which, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

double client_now_s(void)
{
	return clock_s(CLOCK_MONOTONIC);
}

double client_wall_s(void)
{
	return clock_s(CLOCK_REALTIME);
}

static enum malle_verdict verdict_of(const char *word)
{
	if (!strcmp(word, "rescale"))
		return MALLE_RESCALE;
	if (!strcmp(word, "stop"))
		return MALLE_STOP;
	return MALLE_UNSET;
}

static void answer(struct malle *m)
{
	uint64_t now = m->cursor.step;
	/* before go this worker does not know at which step it is: a no */
	enum malle_verdict verdict =
		m->phase == PHASE_JOINED ? MALLE_UNSET : verdict_of(m->msg.verdict);
	enum agree_reply reply =
		agree_propose(&m->agree, m->msg.proposal, m->msg.step, verdict, now);
	struct wire_out out;

	if (reply == AGREE_SILENT)
		return;
	wire_begin(&out, WIRE_ANSWER, 0);
	wire_put_int(&out, "proposal", m->msg.proposal);
	wire_put_bool(&out, "agreed", reply == AGREE_YES);
	wire_put_int(&out, "step", now);
	conn_send(&m->conn, &out, &m->err);
}

void talk_handle(struct malle *m)
{
	switch (m->msg.type) {
	case WIRE_PROPOSE:
		answer(m);
		break;
	case WIRE_COMMIT:
		agree_commit(&m->agree, m->msg.proposal);
		break;
	case WIRE_WITHDRAW:
		agree_withdraw(&m->agree, m->msg.proposal);
		break;
	default: /* a newer agent may say more than we know */
		break;
	}
}

void talk_listen(struct malle *m)
{
	for (int i = 0; i < MESSAGES_MAX && m->conn.fd >= 0; i++) {
		if (conn_recv(&m->conn, &m->msg, CONN_NOW, &m->err) <= 0)
			break;
		talk_handle(m);
	}
	if (m->conn.fd < 0)
		agree_gone(&m->agree);
}

enum agree_now talk_settle(struct malle *m)
{
	double end_s = client_now_s() + SILENCE_LIMIT_S;
	enum agree_now now;

	while ((now = agree_at(&m->agree, m->cursor.step)) == AGREE_WAIT) {
		double left_s = end_s - client_now_s();
		int n = left_s > 0 ? conn_recv(&m->conn, &m->msg,
					     (int)(left_s * 1000) + 1, &m->err)
				   : 0;

		if (n > 0) {
			talk_handle(m);
			continue;
		}
		if (n == 0 && left_s > 0)
			continue;
		if (n == 0)
			fault_set(&m->err, ETIMEDOUT, "the agent is silent for %d s",
				SILENCE_LIMIT_S);
		conn_close(&m->conn);
		agree_gone(&m->agree);
	}
	return now;
}

void talk_progress(struct malle *m, double now_s)
{
	struct wire_out out;

	if (m->local_rank || m->conn.fd < 0 || !pace_tell(&m->pace, now_s))
		return;
	wire_begin(&out, WIRE_PROGRESS, 0);
	wire_put_int(&out, "step", m->cursor.step);
	wire_put_int(&out, "cursor", m->cursor.consumed);
	wire_put_seconds(&out, "t_s", m->step_wall_s);
	wire_put_seconds(&out, "step_s", pace_median(&m->pace));
	conn_send_droppable(&m->conn, &out, &m->err);
}

/* Save the state of this step, once, and say so.  A failure is told by errno and
 * by no `saved`: the world can still leave, from an older state. */
static int save(struct malle *m)
{
	const struct cursor *c = &m->cursor;
	const struct state_point point = {
		.step = c->step,
		.consumed = c->consumed,
		.epoch = c->consumed / c->n_samples,
		.n_samples = c->n_samples,
		.global_batch = c->global_batch,
		.seed = c->seed,
	};
	char name[NAME_ROOM];
	struct wire_out out;
	uint64_t bytes;

	if (m->have_saved && m->saved_step == c->step)
		return 0;
	snprintf(name, sizeof(name), "state-g%llu-s%llu",
		(unsigned long long)m->generation, (unsigned long long)c->step);
	if (state_save(&m->states, &point, m->state_dir, name, &bytes, &m->err) < 0)
		return -1;
	m->have_saved = 1;
	m->saved_step = c->step;
	wire_begin(&out, WIRE_SAVED, 0);
	wire_put_int(&out, "step", c->step);
	wire_put_int(&out, "cursor", c->consumed);
	wire_put_str(&out, "file", name);
	wire_put_int(&out, "bytes", bytes);
	return conn_send(&m->conn, &out, &m->err);
}

void talk_replica(struct malle *m, double now_s)
{
	if (m->local_rank || m->conn.fd < 0 ||
		!pace_replica_due(&m->pace, now_s, m->step_wall_s))
		return;
	save(m);
	/* a failed one took its time too, and is tried again no sooner */
	pace_replica_done(&m->pace, now_s, client_now_s(), m->step_wall_s);
}

void talk_leave(struct malle *m, int finished)
{
	struct wire_out out;

	if (m->conn.fd >= 0 && m->local_rank == 0)
		save(m);
	ledger_end(&m->ledger, m->cursor.step, m->cursor.consumed, finished, &m->err);
	if (m->conn.fd < 0)
		return;
	wire_begin(&out, WIRE_LEAVE, 0);
	wire_put_int(&out, "step", m->cursor.step);
	wire_put_int(&out, "cursor", m->cursor.consumed);
	wire_put_seconds(&out, "t_s", m->step_wall_s);
	wire_put_bool(&out, "finished", finished);
	conn_send(&m->conn, &out, &m->err);
}
