/* peer.h - who is connected to mallectld, and what they may ask.
 *
 * A handler row names a message, the role that may send it, and the function
 * that takes it: the row is the access rule.
 */
#ifndef DAEMON_PEER_H
#define DAEMON_PEER_H

#include "daemon/ctld.h"
#include "proto/link.h"
#include "proto/msg.h"

enum peer_role { PEER_UNSET = 0, PEER_CLIENT = 1, PEER_AGENT = 2 };

struct peer {
	struct peer *next;
	struct ctld *ctld;
	struct link *link;      /* never NULL */
	enum peer_role role;
	struct node *node;      /* of an agent that has said hello */
	struct job *attached;   /* of a client that watches a job */
	double behind_since_s;  /* monotonic: of a client with much to read; 0: not */
	int waits;              /* an agent whose output such a client gets: not read */
};

struct handler {
	enum msg_type type;
	unsigned roles; /* an or of peer_role */
	void (*take)(struct peer *peer, const struct msg *msg);
};

/* Rows of h_agent.c and h_client.c; each ends with MSG_UNSET. */
extern const struct handler agent_handlers[];
extern const struct handler client_handlers[];

struct peers *peers_create(struct ctld *ctld, struct err *err);
void peers_destroy(struct peers *peers);

/*
 * Close a link of ours: what is queued is sent, nothing of it comes any more.  Its
 * peer lives to the end of the turn, and may be sent to (in vain) until then.
 */
void peers_close(struct peers *peers, struct link *link);

/* To every client that is attached to the job. */
void peers_tell_state(struct peers *peers, const struct job *job);

/* Returns non-zero when one of them is behind: whoever brought this should wait. */
int peers_tell_output(
	struct peers *peers, struct job *job, int stream, const void *data, size_t size);

/* Its link is not read until no client is behind that is still waited for. */
void peer_waits(struct peer *agent);

/* The body of job.state. */
json_t *peer_job_state(const struct job *job);

/* The agent's link is gone (h_agent.c). */
void agent_gone(struct peer *peer, const char *why);

/* Nobody listens to the node's agent any more: close its link, if it has one. */
void agent_close(struct ctld *ctld, struct node *node);

/* Remote starts that wait for their end, by session (h_agent.c). */
struct rsh_session {
	struct rsh_session *next;
	long long id;
	uint32_t request;       /* id of rsh.request, on the origin's link */
	struct node *origin, *target;
};
struct rsh_session **peers_rsh_sessions(struct peers *peers);
long long peers_next_session(struct peers *peers); /* unique, over restarts too */

#endif
