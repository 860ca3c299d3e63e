/*
 * auth_peer.c - the kernel's word for who made the other end of a unix socket.
 *
 * The credentials are those at the time of connect(), so a program that
 * changes its uid later keeps the identity it connected with.  Nothing is sent,
 * nothing is read.  In a foreign pid namespace the pid is 0: not known.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "proto/auth.h"

static int peer_identify(
	int fd, const char *credential, struct identity *who, struct err *err)
{
	struct ucred cred;
	socklen_t size = sizeof(cred);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &size) < 0)
		return err_set(
			err, EACCES, "credentials of the peer: %s", strerror(errno));
	/* What the kernel says of a socket that has no peer. */
	if (cred.uid == (uid_t)-1)
		return err_set(err, EACCES, "credentials of the peer: it has none");
	*who = (struct identity){
		.uid = cred.uid,
		.gid = cred.gid,
		.pid = cred.pid,
		.how = "peer",
	};
	return 0;
}

static char *peer_credential(struct err *err)
{
	return NULL;
}

const struct auth_method auth_peer = {
	.name = "peer",
	.needs_credential = 0,
	.identify = peer_identify,
	.credential = peer_credential,
};
