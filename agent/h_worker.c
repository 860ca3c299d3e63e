/*
 * h_worker.c - what workers and malle-rsh say.
 *
 * Facts go into the part; what follows from them, once all local workers have
 * said theirs, is reported.
 */
#include <string.h>
#include <unistd.h>

#include "agent/go.h"
#include "agent/report.h"
#include "agent/rsh.h"
#include "agent/spooler.h"
#include "agent/store.h"
#include "agent/worker_sock.h"
#include "proto/log.h"

static void send_world(
	struct sock_client *client, const struct msg *msg, const char *dir)
{
	struct part *part = client->worker->part;

	link_send(client->link, MSG_WORKER_WORLD, msg->id,
		json_pack("{s:I, s:s, s:f}", "world_size",
			(json_int_t)part_world_size(part), "state_dir", dir,
			"replica_s", client->agent->config->replica_s));
}

static void on_join(struct sock_client *client, const struct msg *msg)
{
	struct agent *agent = client->agent;
	struct part *part = part_find(
		agent->parts, msg_str(msg, "job"), msg_int(msg, "generation"));
	struct err err;
	const char *dir;

	if (!part) {
		link_refuse(client->link, msg->id, EXIT_BAD_DATA,
			"job %s generation %lld is not held here", msg_str(msg, "job"),
			msg_int(msg, "generation"));
		return;
	}
	dir = store_dir(agent->store, part->job, &err);
	client->worker = dir ? part_join(part, msg_int(msg, "rank"),
				       (int)msg_int(msg, "local_rank"),
				       (pid_t)msg_int(msg, "pid"), &err)
			     : NULL;
	if (!client->worker) {
		link_refuse(client->link, msg->id, EXIT_NOT_ALLOWED, "%s", err.text);
		return;
	}
	client->worker->link = client->link;
	client->role = SOCK_JOINED;
	link_set_name(client->link, "worker %.32s rank %lld", part->job,
		client->worker->rank);
	send_world(client, msg, dir);
}

static void on_ready(struct sock_client *client, const struct msg *msg)
{
	struct part *part = client->worker->part;

	part_worker_ready(client->worker);
	report_ready(part);
	go_tell(part);
}

static void on_progress(struct sock_client *client, const struct msg *msg)
{
	if (part_worker_stepped(client->worker, msg_int(msg, "step"),
		    msg_int(msg, "cursor"), msg_real(msg, "t_s")))
		report_progress(client->worker->part, msg);
}

static void on_answer(struct sock_client *client, const struct msg *msg)
{
	struct part *part = client->worker->part;
	struct part_tally tally;

	part_worker_answer(client->worker, msg_int(msg, "proposal"),
		msg_bool(msg, "agreed"), msg_int(msg, "step"));
	tally = part_tally(part);
	if (!part->proposal.number || part->proposal.answered || !tally.complete)
		return;
	part->proposal.answered = 1;
	report_answer(part, &tally);
}

static void on_saved(struct sock_client *client, const struct msg *msg)
{
	struct agent *agent = client->agent;
	struct part *part = client->worker->part;
	struct store_entry what = {
		.generation = part->generation,
		.step = msg_int(msg, "step"),
		.cursor = msg_int(msg, "cursor"),
		.bytes = msg_int(msg, "bytes"),
	};
	struct err err;

	if (store_add(agent->store, part->job, msg_str(msg, "file"), &what, &err) < 0) {
		log_warning("worker", "%s", err.text);
		return;
	}
	part->saved_step = what.step;
	part->saved_cursor = what.cursor;
	report_saved(agent, part->job, &what, 0);
	if (part_is_head(part))
		spooler_save(agent->spooler, part->job, 0);
}

static void on_leave(struct sock_client *client, const struct msg *msg)
{
	if (part_worker_left(client->worker, msg))
		report_left(client->worker->part);
}

static void on_rsh_request(struct sock_client *client, const struct msg *msg)
{
	rsh_request(client->agent->rsh, client->link, msg);
}

const struct sock_row h_worker_rows[] = {
	{ MSG_WORKER_JOIN, SOCK_WORKER, on_join },
	{ MSG_WORKER_READY, SOCK_JOINED, on_ready },
	{ MSG_WORKER_PROGRESS, SOCK_JOINED, on_progress },
	{ MSG_WORKER_ANSWER, SOCK_JOINED, on_answer },
	{ MSG_WORKER_SAVED, SOCK_JOINED, on_saved },
	{ MSG_WORKER_LEAVE, SOCK_JOINED, on_leave },
	{ MSG_RSH_REQUEST, SOCK_RSH, on_rsh_request },
	{ MSG_UNSET, 0, NULL },
};
