/*
 * ask.c - one question to the daemon, one answer.
 *
 * malle-status and mallectl have nothing to do while they wait, so for them
 * the loop is turned inside a call: until the answer with the id of the
 * question is there, the connection goes, or the time is up.  A daemon that
 * cannot be reached is EXIT_NO_DAEMON; one that was reached and then went or
 * fell silent is EXIT_TRY_AGAIN, because asking again may well help.
 *
 * A connection is kept between questions.  Messages with another id are left
 * alone: an answer that comes after its time was up must not be taken for the
 * answer to the next question.
 */
#include "cli/ask.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/client.h"

struct ask {
	struct loop *loop;
	struct client *client;
	struct loop_timer *timer;
	double limit_s;

	int done; /* what the loop was turned for has come about */
	int code; /* EXIT_OK, or why not, with the sentence in err */
	struct err err;
	uint32_t id; /* of the open question; 0: none */
	enum msg_type want;
	json_t *answer;
};

static void finish(struct ask *ask, int code)
{
	ask->code = code;
	ask->done = 1;
	ask->id = 0;
	loop_stop(ask->loop);
}

static void on_up(void *arg)
{
	finish(arg, EXIT_OK);
}

static void on_msg(const struct msg *msg, void *arg)
{
	struct ask *ask = arg;

	if (!ask->id || msg->id != ask->id)
		return;
	if (msg->type == MSG_REFUSE) {
		err_set(&ask->err, EPERM, "%s", msg_str(msg, "text"));
		finish(ask, msg_int(msg, "code"));
	} else if (msg->type == ask->want) {
		ask->answer = json_incref(msg->body);
		finish(ask, EXIT_OK);
	} else {
		err_set(&ask->err, EPROTO, "daemon at %s: answered with %s",
			client_path(ask->client), schema_name(msg->type));
		finish(ask, EXIT_INTERNAL);
	}
}

static void on_down(int code, const char *why, void *arg)
{
	struct ask *ask = arg;

	err_set(&ask->err, ECONNRESET, "daemon at %s: %s", client_path(ask->client),
		why);
	finish(ask, code);
}

static void on_timer(void *arg)
{
	struct ask *ask = arg;

	err_set(&ask->err, ETIMEDOUT, "daemon at %s: no answer in %g s",
		client_path(ask->client), ask->limit_s);
	finish(ask, EXIT_TRY_AGAIN);
}

struct ask *ask_create(const char *server, double limit_s, struct err *err)
{
	static const struct client_handlers handlers = { on_up, on_msg, on_down };
	struct ask *ask = calloc(1, sizeof(*ask));

	if (!ask) {
		err_set(err, ENOMEM, "question to the daemon: out of memory");
		return NULL;
	}
	ask->limit_s = limit_s;
	ask->loop = loop_create(err);
	if (!ask->loop)
		goto fail;
	ask->client = client_create(ask->loop, server, limit_s, &handlers, ask, err);
	if (!ask->client)
		goto fail;
	ask->timer = loop_timer_create(ask->loop, on_timer, ask);
	if (!ask->timer) {
		err_set(err, ENOMEM, "question to the daemon: out of memory");
		goto fail;
	}
	return ask;

fail:
	ask_destroy(ask);
	return NULL;
}

void ask_destroy(struct ask *ask)
{
	if (!ask)
		return;
	client_destroy(ask->client);
	loop_timer_destroy(ask->timer);
	loop_destroy(ask->loop);
	free(ask);
}

static int turn(struct ask *ask, struct err *err)
{
	ask->done = 0;
	while (!ask->done)
		if (loop_run(ask->loop) < 0) {
			err_set(err, errno, "waiting for the daemon: %s",
				strerror(errno));
			return EXIT_INTERNAL;
		}
	loop_timer_stop(ask->timer);
	if (ask->code != EXIT_OK && err)
		*err = ask->err;
	return ask->code;
}

static int ensure_up(struct ask *ask, struct err *err)
{
	if (client_is_up(ask->client))
		return EXIT_OK;
	if (client_connect(ask->client, err) < 0)
		return client_code(errno);
	return turn(ask, err);
}

int ask_daemon(struct ask *ask, enum msg_type type, json_t *body_take,
	enum msg_type want, json_t **answer, struct err *err)
{
	int code = ensure_up(ask, err);

	if (code != EXIT_OK) {
		json_decref(body_take);
		return code;
	}
	ask->want = want;
	ask->id = client_send(ask->client, type, body_take);
	if (!ask->id) {
		err_set(err, errno, "%s: cannot be sent: %s", schema_name(type),
			strerror(errno));
		return errno == EINVAL ? EXIT_BAD_DATA : EXIT_TRY_AGAIN;
	}
	loop_timer_start(ask->timer, ask->limit_s);
	code = turn(ask, err);
	if (code == EXIT_OK) {
		*answer = ask->answer;
		ask->answer = NULL;
	}
	return code;
}

void ask_sleep(struct ask *ask, double seconds)
{
	double end_s = loop_now_s(ask->loop) + seconds;
	struct err ignored;

	while (seconds > 0) {
		loop_timer_start(ask->timer, seconds);
		turn(ask, &ignored);
		/* It may have been the connection that ended the turn. */
		seconds = end_s - loop_now_s(ask->loop);
	}
}

const char *ask_program(const struct ask *ask)
{
	return client_program(ask->client);
}

const char *ask_path(const struct ask *ask)
{
	return client_path(ask->client);
}

const char *ask_instance(const struct ask *ask)
{
	return client_instance(ask->client);
}
