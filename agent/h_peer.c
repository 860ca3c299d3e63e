/*
 * h_peer.c - what agents of other nodes ask for.
 */
#include "agent/serve.h"
#include "agent/worker_sock.h"

static void on_fetch(struct sock_client *client, const struct msg *msg)
{
	struct agent *agent = client->agent;
	const char *job = msg_str(msg, "job");
	const struct store_entry *state =
		store_find(agent->store, job, msg_int(msg, "step"));
	struct err err;

	if (!state) {
		link_refuse(client->link, msg->id, EXIT_NO_INPUT,
			"node %s has no state of step %lld", agent->config->node,
			msg_int(msg, "step"));
		return;
	}
	serve_cancel(client->serve);
	client->serve = serve_start(agent, client->link, msg->id, job, state, &err);
	if (!client->serve)
		link_refuse(client->link, msg->id, EXIT_NO_INPUT, "%s", err.text);
}

const struct sock_row h_peer_rows[] = {
	{ MSG_STATE_FETCH, SOCK_PEER, on_fetch },
	{ MSG_UNSET, 0, NULL },
};
