/* worker_sock.h - the agent's own socket: workers, malle-rsh, agents of peers. */
#ifndef AGENT_WORKER_SOCK_H
#define AGENT_WORKER_SOCK_H

#include "agent/agent.h"

struct serve;
struct worker_sock;

enum sock_role {
	SOCK_ROLE_UNSET = 0,
	SOCK_WORKER = 1,
	SOCK_JOINED = 2, /* a worker that has joined */
	SOCK_RSH = 4,
	SOCK_PEER = 8,
};

/* Somebody who is connected. */
struct sock_client {
	struct sock_client *next;
	struct agent *agent;
	struct worker_sock *sock;
	struct link *link;
	enum sock_role role;
	struct part_worker *worker; /* SOCK_JOINED */
	struct serve *serve;        /* SOCK_PEER, while it fetches */
};

/* A message that is accepted, and from whom: the row is the access rule. */
struct sock_row {
	enum msg_type type;
	unsigned roles; /* an or of sock_role */
	void (*handle)(struct sock_client *client, const struct msg *msg);
};
extern const struct sock_row h_worker_rows[], h_peer_rows[]; /* end with type 0 */

/* Listens at agent->socket.  NULL: see link_listen. */
struct worker_sock *worker_sock_create(struct agent *agent, struct err *err);
void worker_sock_destroy(struct worker_sock *sock);

/* The part is gone: its workers' connections are closed. */
void worker_sock_forget(struct worker_sock *sock, const struct part *part);

#endif
