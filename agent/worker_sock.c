/*
 * worker_sock.c - the agent's own socket: workers, malle-rsh, agents of peers.
 *
 * One socket in the agent's directory.  Who connects says its role in its hello;
 * it must be a process of our own user (or root's): nobody else has business
 * with this claim.  What each role may say is in rows (h_worker.c, h_peer.c).
 */
#include "agent/worker_sock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/report.h"
#include "agent/rsh.h"
#include "agent/serve.h"
#include "proto/log.h"

struct worker_sock {
	struct agent *agent;
	struct link_listener *listener;
	struct sock_client *clients;
};

static void forget(struct sock_client *client)
{
	struct sock_client **at = &client->sock->clients;

	while (*at != client)
		at = &(*at)->next;
	*at = client->next;
	serve_cancel(client->serve);
	free(client);
}

/* --- what comes in ---------------------------------------------------------- */

static const struct sock_row *find_row(enum msg_type type)
{
	static const struct sock_row *const tables[] = { h_worker_rows, h_peer_rows };

	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
		for (const struct sock_row *row = tables[i]; row->type; row++)
			if (row->type == type)
				return row;
	return NULL;
}

static void on_msg(struct link *link, const struct msg *msg, void *arg)
{
	struct sock_client *client = arg;
	const struct sock_row *row = find_row(msg->type);

	if (row && (row->roles & client->role))
		row->handle(client, msg);
	else
		link_refuse(link, msg->id, EXIT_NOT_ALLOWED, "%s is not yours to send",
			schema_name(msg->type));
}

/* A worker that is gone cannot agree any more; its process says the rest. */
static void worker_gone(struct part_worker *worker)
{
	struct part *part = worker->part;

	worker->link = NULL;
	log_debug("worker", "job %s rank %lld is gone", part->job, worker->rank);
	if (part->phase == PART_STARTING || part->phase == PART_READY)
		report_ready(part);
	if (part->proposal.number && !part->proposal.answered) {
		struct part_tally tally = part_tally(part);

		if (!tally.complete)
			return;
		part->proposal.answered = 1;
		report_answer(part, &tally);
	}
}

static void on_gone(struct link *link, const char *why, void *arg)
{
	struct sock_client *client = arg;

	if (client->role == SOCK_RSH)
		rsh_link_gone(client->agent->rsh, link);
	if (client->worker)
		worker_gone(client->worker);
	forget(client);
}

static const struct link_handlers handlers = { on_msg, on_gone };

/* --- who comes in ----------------------------------------------------------- */

static enum sock_role parse_role(const char *word)
{
	if (strcmp(word, "worker") == 0)
		return SOCK_WORKER;
	if (strcmp(word, "rsh") == 0)
		return SOCK_RSH;
	return strcmp(word, "peer") == 0 ? SOCK_PEER : SOCK_ROLE_UNSET;
}

static void turn_away(struct link *link, const char *why)
{
	link_refuse(link, 0, EXIT_NOT_ALLOWED, "%s", why);
	link_close(link);
}

static void on_link(struct link *link, const struct msg *hello, void *arg)
{
	struct worker_sock *sock = arg;
	enum sock_role role = parse_role(msg_str(hello, "role"));
	uid_t uid = link_identity(link)->uid;
	struct sock_client *client;

	if (uid != geteuid() && uid != 0) {
		turn_away(link, "this agent serves another user");
		return;
	}
	if (role == SOCK_ROLE_UNSET) {
		turn_away(link, "an agent serves workers, rsh and peers");
		return;
	}
	client = calloc(1, sizeof(*client));
	if (!client) {
		turn_away(link, "out of memory");
		return;
	}
	client->agent = sock->agent;
	client->sock = sock;
	client->link = link;
	client->role = role;
	client->next = sock->clients;
	sock->clients = client;
	link_set_handlers(link, &handlers, client);
}

struct worker_sock *worker_sock_create(struct agent *agent, struct err *err)
{
	struct worker_sock *sock = calloc(1, sizeof(*sock));

	if (!sock) {
		err_set(err, ENOMEM, "%s: out of memory", agent->socket);
		return NULL;
	}
	sock->agent = agent;
	sock->listener = link_listen(agent->loop, agent->socket, 0600, &auth_peer,
		agent->config->claim, on_link, sock, err);
	if (sock->listener)
		return sock;
	worker_sock_destroy(sock);
	return NULL;
}

void worker_sock_destroy(struct worker_sock *sock)
{
	if (!sock)
		return;
	while (sock->clients) {
		link_close(sock->clients->link);
		forget(sock->clients);
	}
	link_listener_destroy(sock->listener);
	free(sock);
}

void worker_sock_forget(struct worker_sock *sock, const struct part *part)
{
	struct sock_client *next;

	for (struct sock_client *client = sock->clients; client; client = next) {
		next = client->next;
		if (!client->worker || client->worker->part != part)
			continue;
		client->worker->link = NULL;
		link_close(client->link);
		forget(client);
	}
}
