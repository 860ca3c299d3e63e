/*
 * peer.c - connections to mallectld.
 *
 * Everybody comes to one socket.  The kernel says who they are (link_sock.c has
 * asked before it read anything), hello says in which role they speak, and the
 * handler rows say what that role may send.  A message for which there is no
 * row is refused by name, so that a mistake is seen by who made it.
 *
 * Clients are any users of the machine; agents must come as the user that the
 * daemon started them as (or root, who could pose as them), and name a claim that
 * is open (h_agent.c).
 *
 * A client that reads more slowly than its job writes is waited for, by not
 * reading what the job's agent says: the agent waits for us in its turn, and the
 * job for it.  But agents have more to say than output.  So that lasts
 * PATIENCE_S; then the client is on its own, until it has caught up, and is let
 * go when QUEUE_MAX is reached.  One that asks and does not read the answers is
 * let go sooner, and nobody but root and our own user, whom we need, gets more
 * than CLIENTS_MAX connections.
 */
#include "daemon/peer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/rescale.h"
#include "proto/log.h"
#include "proto/nodeset.h"

#define QUEUE_MAX (8u << 20)   /* bytes; a client that does not read is let go */
#define ANSWERS_MAX (1u << 20) /* the same, for one that only asks */
#define BEHIND_FROM (2u << 20)
#define BEHIND_TO (1u << 20)
#define PATIENCE_S 0.5
#define FLOW_S 0.01
#define CLIENTS_MAX 256 /* of one user */

struct peers {
	struct ctld *ctld;
	struct link_listener *listener;
	struct peer *peers;
	struct peer *closed; /* by us; freed at the end of the turn */
	struct rsh_session *sessions;
	long long last_session;
	struct loop_timer *flow; /* runs while agents wait */
};

static void unlink_peer(struct peer *peer)
{
	struct peers *peers = peer->ctld->peers;

	for (struct peer **at = &peers->peers; *at; at = &(*at)->next)
		if (*at == peer) {
			*at = peer->next;
			break;
		}
}

static void free_closed(void *arg)
{
	struct peers *peers = arg;

	while (peers->closed) {
		struct peer *peer = peers->closed;

		peers->closed = peer->next;
		free(peer);
	}
}

/* Its handler may be at work, further up: it and its link stay for this turn. */
static void close_peer(struct peer *peer)
{
	struct peers *peers = peer->ctld->peers;

	link_close(peer->link);
	unlink_peer(peer);
	peer->next = peers->closed;
	peers->closed = peer;
	/* Without memory for this they wait for the next one, or for the end. */
	loop_defer(peers->ctld->loop, free_closed, peers);
}

void peers_close(struct peers *peers, struct link *link)
{
	for (struct peer *peer = peers->peers; peer; peer = peer->next)
		if (peer->link == link) {
			close_peer(peer);
			return;
		}
}

static void let_go(struct peer *peer)
{
	log_warning("peer", "%s does not read, let go", link_name(peer->link));
	close_peer(peer);
}

/* --- a client that is behind ------------------------------------------------- */

/* It has much to read, and is still waited for. */
static int is_behind(struct peer *peer)
{
	size_t queued = link_queued(peer->link);
	double now = loop_now_s(peer->ctld->loop);

	if (queued < BEHIND_TO)
		peer->behind_since_s = 0;
	else if (queued > BEHIND_FROM && peer->behind_since_s == 0)
		peer->behind_since_s = now;
	return peer->behind_since_s > 0 && now - peer->behind_since_s < PATIENCE_S;
}

void peer_waits(struct peer *agent)
{
	agent->waits = 1;
	link_pause(agent->link);
	loop_timer_start(agent->ctld->peers->flow, FLOW_S);
}

static void on_flow(void *arg)
{
	struct peers *peers = arg;
	int behind = 0;

	for (struct peer *peer = peers->peers; peer; peer = peer->next)
		behind |= peer->attached && is_behind(peer);
	if (behind) {
		loop_timer_start(peers->flow, FLOW_S);
		return;
	}
	for (struct peer *peer = peers->peers; peer; peer = peer->next)
		if (peer->waits) {
			peer->waits = 0;
			link_resume(peer->link);
		}
}

/* --- messages ---------------------------------------------------------------- */

static const struct handler *find_handler(const struct handler *rows, enum msg_type type)
{
	for (; rows->type != MSG_UNSET; rows++)
		if (rows->type == type)
			return rows;
	return NULL;
}

static void on_msg(struct link *link, const struct msg *msg, void *arg)
{
	struct peer *peer = arg;
	const struct handler *row = find_handler(
		peer->role == PEER_AGENT ? agent_handlers : client_handlers, msg->type);

	if (peer->role == PEER_CLIENT &&
		link_queued(link) > (peer->attached ? 2 * QUEUE_MAX : ANSWERS_MAX)) {
		let_go(peer);
		return;
	}
	if (row && (row->roles & peer->role)) {
		row->take(peer, msg);
		return;
	}
	log_warning("peer", "%s may not send %s, refused", link_name(link),
		schema_name(msg->type));
	link_refuse(link, msg->id, EXIT_NOT_ALLOWED, "%s is not for you to send",
		schema_name(msg->type));
}

static void on_gone(struct link *link, const char *why, void *arg)
{
	struct peer *peer = arg;

	log_debug("peer", "%s is gone: %s", link_name(link), why);
	if (peer->role == PEER_AGENT)
		agent_gone(peer, why);
	unlink_peer(peer);
	free(peer);
}

static const struct link_handlers handlers = { on_msg, on_gone };

static int may_come(const struct peers *peers, const struct link *link)
{
	uid_t uid = link_identity(link)->uid;
	int n = 0;

	if (uid == 0 || uid == geteuid())
		return 1;
	for (const struct peer *peer = peers->peers; peer; peer = peer->next)
		n += link_identity(peer->link)->uid == uid;
	return n < CLIENTS_MAX;
}

static void on_link(struct link *link, const struct msg *hello, void *arg)
{
	struct peers *peers = arg;
	const char *role = msg_str(hello, "role");
	struct peer *peer;

	if (strcmp(role, "client") && strcmp(role, "agent")) {
		link_refuse(link, hello->id, EXIT_NOT_ALLOWED,
			"role %s has no business here", role);
		link_close(link);
		return;
	}
	if (!may_come(peers, link)) {
		link_refuse(link, hello->id, EXIT_TRY_AGAIN,
			"uid %u has %d connections already", link_identity(link)->uid,
			CLIENTS_MAX);
		link_close(link);
		return;
	}
	peer = calloc(1, sizeof(*peer));
	if (!peer) {
		link_close(link);
		return;
	}
	peer->ctld = peers->ctld;
	peer->link = link;
	peer->role = !strcmp(role, "agent") ? PEER_AGENT : PEER_CLIENT;
	peer->next = peers->peers;
	peers->peers = peer;
	link_set_name(link, "%s uid=%u pid=%d", role, link_identity(link)->uid,
		(int)link_identity(link)->pid);
	link_set_handlers(link, &handlers, peer);
}

struct peers *peers_create(struct ctld *ctld, struct err *err)
{
	struct peers *peers = calloc(1, sizeof(*peers));

	if (!peers) {
		err_set(err, ENOMEM, "listening: out of memory");
		return NULL;
	}
	peers->ctld = ctld;
	/* Agents still have sessions of the daemon of before: never the same number. */
	peers->last_session = (long long)(loop_wall_s(ctld->loop) * 1000);
	peers->flow = loop_timer_create(ctld->loop, on_flow, peers);
	if (peers->flow)
		peers->listener = link_listen(ctld->loop, ctld->config.socket, 0666,
			&auth_peer, ctld->instance, on_link, peers, err);
	else
		err_set(err, ENOMEM, "listening: out of memory");
	if (!peers->listener) {
		peers_destroy(peers);
		return NULL;
	}
	return peers;
}

void peers_destroy(struct peers *peers)
{
	if (!peers)
		return;
	link_listener_destroy(peers->listener);
	loop_timer_destroy(peers->flow);
	while (peers->peers) {
		struct peer *peer = peers->peers;

		peers->peers = peer->next;
		link_close(peer->link);
		free(peer);
	}
	loop_undefer(peers->ctld->loop, free_closed, peers);
	free_closed(peers);
	while (peers->sessions) {
		struct rsh_session *session = peers->sessions;

		peers->sessions = session->next;
		free(session);
	}
	free(peers);
}

struct rsh_session **peers_rsh_sessions(struct peers *peers)
{
	return &peers->sessions;
}

long long peers_next_session(struct peers *peers)
{
	return ++peers->last_session;
}

json_t *peer_job_state(const struct job *job)
{
	const struct world *world = rescale_shown_world(job);
	json_t *body;
	size_t n = world ? world->n_members : 0;
	struct nodeset *set = nodeset_create();
	char *folded = NULL;

	for (size_t i = 0; set && i < n; i++)
		nodeset_add(set, world->members[i].node->name);
	if (set)
		folded = nodeset_fold(set);
	body = json_pack("{s:s, s:s, s:I, s:s, s:i, s:s}", "job", job->id, "state",
		job_state_name(job->state), "generation",
		(json_int_t)(world ? world->generation : job->generation), "nodes",
		folded ? folded : "", "n_nodes", (int)n, "reason", job->reason);
	if (job->state == JOB_ENDED)
		json_object_set_new(body, "exit_code", json_integer(job->exit_code));
	free(folded);
	nodeset_destroy(set);
	return body;
}

static void send_to_client(struct peer *peer, enum msg_type type, json_t *body_take,
	const void *raw, size_t size)
{
	if (link_queued(peer->link) > QUEUE_MAX) {
		json_decref(body_take);
		let_go(peer);
		return;
	}
	link_send_raw(peer->link, type, 0, body_take, raw, size);
}

void peers_tell_state(struct peers *peers, const struct job *job)
{
	struct peer *next;

	for (struct peer *peer = peers ? peers->peers : NULL; peer; peer = next) {
		next = peer->next;
		if (peer->attached == job)
			send_to_client(peer, MSG_JOB_STATE, peer_job_state(job), NULL, 0);
	}
}

int peers_tell_output(
	struct peers *peers, struct job *job, int stream, const void *data, size_t size)
{
	long long offset = job->output_bytes;
	struct peer *next;
	int behind = 0;

	job_output_keep(job, data, size);
	for (struct peer *peer = peers->peers; peer; peer = next) {
		next = peer->next;
		if (peer->attached != job)
			continue;
		behind |= is_behind(peer);
		send_to_client(peer, MSG_JOB_OUTPUT,
			json_pack("{s:s, s:i, s:I}", "job", job->id, "stream", stream,
				"offset", (json_int_t)offset),
			data, size);
	}
	return behind;
}
