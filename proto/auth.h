/* auth.h - who is at the other end of a connection. */
#ifndef PROTO_AUTH_H
#define PROTO_AUTH_H

#include <sys/types.h>

#include "proto/err.h"

/* What authentication has established.  `how` names the method that did. */
struct identity {
	uid_t uid;
	gid_t gid;
	pid_t pid; /* 0 where the method cannot know */
	const char *how;
};

/*
 * A method of authentication.  One by peer credentials is here; methods that
 * need a credential in the peer's first message (munge) get it in
 * `credential` and are asked before that message is looked at any further.
 */
struct auth_method {
	const char *name;
	int needs_credential;
	/* Fill *who.  -1 with EACCES and a sentence when it cannot vouch. */
	int (*identify)(int fd, const char *credential, struct identity *who,
		struct err *err);
	/* A fresh credential for our own first message, malloc'd; NULL: none. */
	char *(*credential)(struct err *err);
};

/* SO_PEERCRED of a unix socket: the kernel's word, nothing to send. */
extern const struct auth_method auth_peer;

#endif
