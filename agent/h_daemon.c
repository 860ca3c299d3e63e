/*
 * h_daemon.c - what the daemon orders.
 *
 * Orders carry no id: what became of one is a fact that is reported.  Orders
 * about a world that is not held here are answered by "it has exited" where
 * somebody waits for that, else they are late and mean nothing.
 */
#include "agent/h_daemon.h"

#include <string.h>

#include "agent/ending.h"
#include "agent/go.h"
#include "agent/leave.h"
#include "agent/report.h"
#include "agent/rsh.h"
#include "agent/spooler.h"
#include "agent/store.h"
#include "proto/log.h"

static struct part *find(struct agent *agent, const struct msg *msg)
{
	return part_find(agent->parts, msg_str(msg, "job"), msg_int(msg, "generation"));
}

static int launches(const struct agent *agent, const struct msg *start)
{
	const json_t *nodes = msg_json(start, "world_nodes");

	return strcmp(json_string_value(json_array_get(nodes, 0)),
		       agent->config->node) == 0;
}

static void on_start(struct agent *agent, const struct msg *msg)
{
	struct err err;

	if (leave_is_on(agent->leave))
		err_set(&err, 0, "node %s is being left", agent->config->node);
	else if (agent_hold(agent, msg, &err) == 0)
		return;
	log_warning("world", "job %s generation %lld is not held: %s",
		msg_str(msg, "job"), msg_int(msg, "generation"), err.text);
	report_exited_unknown(agent, msg_str(msg, "job"), msg_int(msg, "generation"),
		EXIT_TRY_AGAIN, launches(agent, msg), err.text);
}

static void on_go(struct agent *agent, const struct msg *msg)
{
	struct part *part = find(agent, msg);

	if (part)
		go_ordered(part, msg);
}

static void tell_workers(struct part *part, enum msg_type type, int whole)
{
	for (struct part_worker *w = part->workers; w; w = w->next) {
		json_t *body;

		if (!w->link)
			continue;
		body = json_pack("{s:I}", "proposal", (json_int_t)part->proposal.local);
		if (body && whole) {
			json_object_set_new(
				body, "step", json_integer(part->proposal.step));
			json_object_set_new(
				body, "verdict", json_string(part->proposal.verdict));
		}
		link_send(w->link, type, 0, body);
	}
}

static void on_propose(struct agent *agent, const struct msg *msg)
{
	struct part *part = find(agent, msg);
	struct part_tally tally;

	if (!part || !part_propose(part, msg_int(msg, "proposal"), msg_int(msg, "step"),
			     msg_str(msg, "verdict")))
		return;
	tell_workers(part, MSG_WORKER_PROPOSE, 1);
	tally = part_tally(part);
	if (!tally.complete)
		return;
	part->proposal.answered = 1;
	report_answer(part, &tally);
}

static void on_commit(struct agent *agent, const struct msg *msg)
{
	struct part *part = find(agent, msg);

	if (!part || part->proposal.number != msg_int(msg, "proposal"))
		return;
	part->proposal.committed = 1;
	tell_workers(part, MSG_WORKER_COMMIT, 0);
}

static void on_withdraw(struct agent *agent, const struct msg *msg)
{
	struct part *part = find(agent, msg);

	if (!part || part->proposal.number != msg_int(msg, "proposal") ||
		part->proposal.committed)
		return;
	tell_workers(part, MSG_WORKER_WITHDRAW, 0);
	part->proposal.answered = 1; /* no answer is wanted any more */
}

static void on_kill(struct agent *agent, const struct msg *msg)
{
	struct part *part = find(agent, msg);

	if (!part)
		report_exited_unknown(agent, msg_str(msg, "job"),
			msg_int(msg, "generation"), 0, 0, NULL);
	else if (part->phase == PART_EXITED)
		part->reported = report_exited(part) == 0;
	else
		ending_ordered(part, msg_real(msg, "grace_s"));
}

static void on_drop(struct agent *agent, const struct msg *msg)
{
	store_drop(agent->store, msg_str(msg, "job"));
	spooler_forget(agent->spooler, msg_str(msg, "job"));
	if (msg_has(msg, "spool"))
		spooler_remove(msg_str(msg, "spool"));
}

static void on_release(struct agent *agent, const struct msg *msg)
{
	leave_ordered(agent->leave, msg);
}

static void on_rsh_start(struct agent *agent, const struct msg *msg)
{
	rsh_start(agent->rsh, msg);
}

static void on_rsh_hangup(struct agent *agent, const struct msg *msg)
{
	rsh_hangup(agent->rsh, msg);
}

static void on_rsh_answer(struct agent *agent, const struct msg *msg)
{
	rsh_answered(agent->rsh, msg);
}

static const struct {
	enum msg_type type;
	void (*handle)(struct agent *agent, const struct msg *msg);
} rows[] = {
	{ MSG_WORLD_START, on_start },
	{ MSG_WORLD_GO, on_go },
	{ MSG_WORLD_PROPOSE, on_propose },
	{ MSG_WORLD_COMMIT, on_commit },
	{ MSG_WORLD_WITHDRAW, on_withdraw },
	{ MSG_WORLD_KILL, on_kill },
	{ MSG_STATE_DROP, on_drop },
	{ MSG_NODE_RELEASE, on_release },
	{ MSG_RSH_START, on_rsh_start },
	{ MSG_RSH_HANGUP, on_rsh_hangup },
	{ MSG_RSH_EXITED, on_rsh_answer },
	{ MSG_OK, on_rsh_answer },
	{ MSG_REFUSE, on_rsh_answer },
};

void h_daemon_msg(struct agent *agent, struct link *link, const struct msg *msg)
{
	if (msg->type == MSG_PING) {
		link_send(link, MSG_PONG, msg->id,
			json_pack("{s:f, s:s}", "uptime_s",
				loop_now_s(agent->loop) - agent->began_s, "state",
				"ok"));
		return;
	}
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (rows[i].type == msg->type) {
			rows[i].handle(agent, msg);
			return;
		}
	log_debug("uplink", "%s means nothing to an agent", schema_name(msg->type));
}
