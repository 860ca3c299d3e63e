/*
 * report.c - what the daemon is told about parts of worlds.
 *
 * Reports are facts and safe to repeat.  While the daemon is away nothing is
 * queued: a part remembers what it has to say, and a daemon that comes (back) is
 * told all of it, agent.world by agent.world, with what happened meanwhile behind
 * each: left, exited.  agent.ready ends the telling; what is not in it does not
 * exist.
 */
#include "agent/report.h"

#include <string.h>

#include "agent/output.h"
#include "agent/uplink.h"

/* The launcher's code is the head's.  With launcher env every node launches: a
 * failure on any of them is the world's. */
static int code_counts(const struct part *part)
{
	return part_is_head(part) ||
	       (part->launcher != PART_MPI && part->code != 0 && !part->asked);
}

static int send(struct part *part, enum msg_type type, json_t *body_take)
{
	if (body_take) {
		json_object_set_new(body_take, "job", json_string(part->job));
		json_object_set_new(
			body_take, "generation", json_integer(part->generation));
	}
	return uplink_send(part->agent->uplink, type, body_take);
}

void report_started(struct part *part, pid_t pid)
{
	send(part, MSG_WORLD_STARTED, json_pack("{s:I}", "pid", (json_int_t)pid));
}

void report_ready(struct part *part)
{
	send(part, MSG_WORLD_READY,
		json_pack("{s:i}", "ready", part_count_ready(part)));
}

void report_left(struct part *part)
{
	send(part, MSG_WORLD_LEFT,
		json_pack("{s:I, s:I, s:f, s:b, s:b}", "step", (json_int_t)part->step,
			"cursor", (json_int_t)part->cursor, "t_s", part->left_t_s,
			"saved", part->saved_step == part->step, "finished",
			part->left_finished));
}

void report_answer(struct part *part, const struct part_tally *tally)
{
	send(part, MSG_WORLD_ANSWER,
		json_pack("{s:I, s:b, s:I}", "proposal",
			(json_int_t)part->proposal.number, "agreed", tally->agreed,
			"step", (json_int_t)tally->step));
}

void report_progress(struct part *part, const struct msg *progress)
{
	json_t *body = json_pack("{s:I, s:I, s:f}", "step",
		(json_int_t)msg_int(progress, "step"), "cursor",
		(json_int_t)msg_int(progress, "cursor"), "t_s",
		msg_real(progress, "t_s"));

	if (body && msg_has(progress, "step_s"))
		json_object_set_new(
			body, "step_s", json_real(msg_real(progress, "step_s")));
	send(part, MSG_WORLD_PROGRESS, body);
}

void report_saved(struct agent *agent, const char *job, const struct store_entry *entry,
	int spooled)
{
	if (entry->cursor < 0)
		return; /* fetched from a node that did not say: the daemon knows more
			 */
	uplink_send(agent->uplink, MSG_STATE_SAVED,
		json_pack("{s:s, s:I, s:I, s:I, s:I, s:b}", "job", job, "generation",
			(json_int_t)entry->generation, "step", (json_int_t)entry->step,
			"cursor", (json_int_t)entry->cursor, "bytes",
			(json_int_t)entry->bytes, "spooled", spooled));
}

int report_exited(struct part *part)
{
	json_t *body = json_pack("{s:i, s:b}", "code",
		code_counts(part) ? part->code : 0, "launcher", code_counts(part));

	if (body && part->reason[0])
		json_object_set_new(body, "reason", json_string(part->reason));
	return send(part, MSG_WORLD_EXITED, body);
}

void report_exited_unknown(struct agent *agent, const char *job, long long generation,
	int code, int launcher, const char *reason)
{
	json_t *body = json_pack("{s:s, s:I, s:i, s:b}", "job", job, "generation",
		(json_int_t)generation, "code", code, "launcher", launcher);

	if (body && reason)
		json_object_set_new(body, "reason", json_string(reason));
	uplink_send(agent->uplink, MSG_WORLD_EXITED, body);
}

static json_t *node_list(const struct part *part)
{
	json_t *list = json_array();

	for (size_t i = 0; list && i < part->n_nodes; i++)
		json_array_append_new(list, json_string(part->nodes[i]));
	return list;
}

static void tell_part(struct part *part)
{
	enum part_phase phase = part->left ? PART_LEFT : part->phase;

	send(part, MSG_AGENT_WORLD,
		json_pack("{s:o, s:s, s:i, s:I, s:I}", "world_nodes", node_list(part),
			"phase", part_phase_name(phase), "ready",
			part_count_ready(part), "step", (json_int_t)part->step,
			"cursor", (json_int_t)part->cursor));
	if (part->left)
		report_left(part);
	if (part->phase == PART_EXITED) {
		output_flush(part->output);
		part->reported = report_exited(part) == 0;
	}
}

static void tell_state(const char *job, const struct store_entry *entry, void *arg)
{
	report_saved(arg, job, entry, 0);
}

void report_everything(struct agent *agent)
{
	for (struct part *part = agent->parts; part; part = part->next)
		tell_part(part);
	store_each(agent->store, tell_state, agent);
	uplink_send(agent->uplink, MSG_AGENT_READY, NULL);
}

void report_withdraw_all(struct agent *agent)
{
	for (struct part *part = agent->parts; part; part = part->next) {
		if (!part->proposal.number || part->proposal.committed)
			continue;
		for (struct part_worker *w = part->workers; w; w = w->next)
			if (w->link)
				link_send(w->link, MSG_WORKER_WITHDRAW, 0,
					json_pack("{s:I}", "proposal",
						(json_int_t)part->proposal.local));
		part_unpropose(part);
	}
}
