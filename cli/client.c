/*
 * client.c - a client's connection to the daemon: find it, keep it.
 *
 * A client looks in at most two places, because there are two ways to run the
 * daemon: the site's, under /run, and a user's own, under XDG_RUNTIME_DIR.  The
 * first that somebody listens at is taken; a place that was named, by option
 * or by MALLE_SERVER, is the only one, so that a mistyped name never reaches
 * another daemon.
 *
 * A connection is up once the daemon has answered hello.  Until then a refusal
 * is about us (wrong version, wrong user) and ends the try with its code, and
 * silence for limit_s ends it too: a process that listens and does not answer
 * is as unreachable as none.
 *
 *	connect: --(nobody)--> -1
 *	         --> hello sent --(welcome)--> up --(gone)--> down, try again
 *	                        --(refuse)---> down, the refusal's code
 *	                        --(silence, gone, anything else)--> down, no daemon
 *
 * Whether to try again, how often and for how long, is for the caller to say:
 * malle-status gives up at once, malle-run does not.
 */
#include "cli/client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/link.h"

#define SITE_SOCKET "/run/malle/ctld.sock"

struct client {
	struct loop *loop;
	char *paths[2];
	size_t n_paths;
	double limit_s;
	struct client_handlers handlers;
	void *arg;
	struct link *link;
	struct loop_timer *silence; /* since hello was sent */
	int up;
	const char *path; /* one of paths */
	char instance[65];
	char program[65];
};

static void on_link_msg(struct link *link, const struct msg *msg, void *arg);
static void on_link_gone(struct link *link, const char *why, void *arg);

static const struct link_handlers link_handlers = {
	.on_msg = on_link_msg,
	.on_gone = on_link_gone,
};

static int add_path(struct client *client, const char *path)
{
	char *copy = strdup(path);

	if (!copy)
		return -1;
	client->paths[client->n_paths++] = copy;
	return 0;
}

static int find_paths(struct client *client, const char *server)
{
	const char *named = server ? server : getenv("MALLE_SERVER");
	const char *runtime = getenv("XDG_RUNTIME_DIR");
	char *own;

	if (named && (server || *named))
		return add_path(client, named);
	if (add_path(client, SITE_SOCKET) < 0)
		return -1;
	if (!runtime || !*runtime)
		return 0;
	if (asprintf(&own, "%s/malle/ctld.sock", runtime) < 0)
		return -1;
	client->paths[client->n_paths++] = own;
	return 0;
}

/* The try, or the connection, is over. */
static void go_down(struct client *client, int code, const char *why)
{
	client_drop(client);
	client->handlers.on_down(code, why, client->arg);
}

static void on_silence(void *arg)
{
	struct client *client = arg;
	char why[64];

	snprintf(why, sizeof(why), "no answer to hello in %g s", client->limit_s);
	go_down(client, EXIT_NO_DAEMON, why);
}

static void take_welcome(struct client *client, const struct msg *msg)
{
	loop_timer_stop(client->silence);
	client->up = 1;
	snprintf(client->instance, sizeof(client->instance), "%s",
		msg_str(msg, "instance"));
	snprintf(client->program, sizeof(client->program), "%s",
		msg_str(msg, "program"));
	client->handlers.on_up(client->arg);
}

static void on_link_msg(struct link *link, const struct msg *msg, void *arg)
{
	struct client *client = arg;
	char why[96];

	if (link != client->link)
		return;
	if (client->up) {
		client->handlers.on_msg(msg, client->arg);
	} else if (msg->type == MSG_WELCOME) {
		take_welcome(client, msg);
	} else if (msg->type == MSG_REFUSE) {
		go_down(client, msg_int(msg, "code"), msg_str(msg, "text"));
	} else {
		snprintf(why, sizeof(why), "said %s before welcome",
			schema_name(msg->type));
		go_down(client, EXIT_NO_DAEMON, why);
	}
}

static void on_link_gone(struct link *link, const char *why, void *arg)
{
	struct client *client = arg;

	if (link != client->link)
		return;
	client->link = NULL;
	go_down(client, client->up ? EXIT_TRY_AGAIN : EXIT_NO_DAEMON, why);
}

struct client *client_create(struct loop *loop, const char *server, double limit_s,
	const struct client_handlers *handlers, void *arg, struct err *err)
{
	struct client *client = calloc(1, sizeof(*client));

	if (!client)
		goto fail;
	client->loop = loop;
	client->limit_s = limit_s;
	client->handlers = *handlers;
	client->arg = arg;
	client->silence = loop_timer_create(loop, on_silence, client);
	if (!client->silence || find_paths(client, server) < 0)
		goto fail;
	client->path = client->paths[0];
	return client;

fail:
	client_destroy(client);
	err_set(err, ENOMEM, "connection to the daemon: out of memory");
	return NULL;
}

void client_destroy(struct client *client)
{
	if (!client)
		return;
	client_drop(client);
	loop_timer_destroy(client->silence);
	for (size_t i = 0; i < client->n_paths; i++)
		free(client->paths[i]);
	free(client);
}

static int nobody(const struct client *client, int errnum, struct err *err)
{
	if (client->n_paths == 1 || errnum != ECONNREFUSED)
		return err_set(err, errnum, "daemon at %s: cannot be reached: %s",
			client->path, strerror(errnum));
	return err_set(err, errnum, "daemon: nobody answers at %s or %s",
		client->paths[0], client->paths[1]);
}

int client_connect(struct client *client, struct err *err)
{
	int errnum = ECONNREFUSED;

	client_drop(client);
	for (size_t i = 0; i < client->n_paths; i++) {
		client->link = link_connect(client->loop, client->paths[i], "client",
			&link_handlers, client, NULL);
		if (client->link) {
			client->path = client->paths[i];
			loop_timer_start(client->silence, client->limit_s);
			return 0;
		}
		/* Not being allowed in tells more than nobody being there. */
		if (client->n_paths == 1 ||
			(errno != ENOENT && errno != ECONNREFUSED)) {
			client->path = client->paths[i];
			errnum = errno;
		}
	}
	return nobody(client, errnum, err);
}

int client_code(int errnum)
{
	return errnum == EACCES || errnum == EPERM ? EXIT_NOT_ALLOWED : EXIT_NO_DAEMON;
}

void client_drop(struct client *client)
{
	if (client->link)
		link_close(client->link);
	client->link = NULL;
	client->up = 0;
	loop_timer_stop(client->silence);
}

int client_is_up(const struct client *client)
{
	return client->up;
}

const char *client_instance(const struct client *client)
{
	return client->instance;
}

const char *client_program(const struct client *client)
{
	return client->program;
}

const char *client_path(const struct client *client)
{
	return client->path;
}

uint32_t client_send(struct client *client, enum msg_type type, json_t *body_take)
{
	uint32_t id;

	if (!client->up) {
		json_decref(body_take);
		errno = ENOTCONN;
		return 0;
	}
	id = link_next_id(client->link);
	return link_send(client->link, type, id, body_take) < 0 ? 0 : id;
}

void client_pause(struct client *client, int pause)
{
	if (!client->link)
		return;
	if (pause)
		link_pause(client->link);
	else
		link_resume(client->link);
}
