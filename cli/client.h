/* client.h - a client's connection to the daemon: find it, keep it. */
#ifndef CLI_CLIENT_H
#define CLI_CLIENT_H

#include <jansson.h>
#include <stdint.h>

#include "proto/err.h"
#include "proto/loop.h"
#include "proto/msg.h"

struct client;

/* Seconds that a daemon has for an answer before it counts as unreachable. */
#define CLIENT_LIMIT_S 10.0

struct client_handlers {
	/* The daemon has answered our hello. */
	void (*on_up)(void *arg);
	/* Any later message.  Borrowed for the call. */
	void (*on_msg)(const struct msg *msg, void *arg);
	/*
	 * Connected no more.  code is an exit code of the contract: what the
	 * daemon refused us with, EXIT_NO_DAEMON before on_up, EXIT_TRY_AGAIN
	 * after it.  client_connect may be called from here.
	 */
	void (*on_down)(int code, const char *why, void *arg);
};

/*
 * Where to look, in order: `server` if given, else $MALLE_SERVER, else
 * /run/malle/ctld.sock and $XDG_RUNTIME_DIR/malle/ctld.sock.  The daemon has
 * limit_s seconds to answer hello.  Connects to nobody yet.  NULL: ENOMEM.
 */
struct client *client_create(struct loop *loop, const char *server, double limit_s,
	const struct client_handlers *handlers, void *arg, struct err *err);
void client_destroy(struct client *client);

/*
 * One try to connect; on_up or on_down follows.  -1 when nobody listens, with
 * errno (client_code gives the exit code) and no callback.
 */
int client_connect(struct client *client, struct err *err);

/* The exit code for the errno of client_connect: EXIT_NOT_ALLOWED or
 * EXIT_NO_DAEMON. */
int client_code(int errnum);

/* Hang up, quietly. */
void client_drop(struct client *client);

int client_is_up(const struct client *client);

/* The daemon's instance, program and socket; "" before the first on_up. */
const char *client_instance(const struct client *client);
const char *client_program(const struct client *client);
const char *client_path(const struct client *client);

/* Send a request; body is consumed.  Its id, or 0 with errno. */
uint32_t client_send(struct client *client, enum msg_type type, json_t *body_take);

/* Stop or resume reading. */
void client_pause(struct client *client, int pause);

#endif
