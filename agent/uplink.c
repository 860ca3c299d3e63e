/*
 * uplink.c - the agent's connection to mallectld.
 *
 *	away     no connection; the next try comes after retry_s
 *	asking   connected, agent.hello sent
 *	told     the daemon has said ok: orders come, reports go
 *
 * A daemon that restarts must find its worlds as they were, so a lost connection
 * changes nothing here: workers go on, what they say is remembered in the parts,
 * and after the next ok all of it is told again, whole (report_everything).
 *
 * Two things have an end.  At the start a daemon must answer within
 * start_limit_s, or there was a mistake.  Later, without a daemon for
 * orphan_s, the agent gives up: nobody would ever take the node back from it.
 * A daemon that refuses us says that the claim is over: then everything ends at
 * once.
 *
 * A proposal that was open when the daemon went may never be decided.  Workers
 * that agreed and reach its step wait there; so after undecided_limit_s it is
 * withdrawn, and at once when another daemon is there.
 */
#include "agent/uplink.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/cpus.h"
#include "agent/h_daemon.h"
#include "agent/leave.h"
#include "agent/report.h"
#include "agent/rsh.h"
#include "proto/log.h"

static const double start_limit_s = 10;
static const double first_retry_s = 0.2;
static const double last_retry_s = 1;
static const double undecided_limit_s = 5;
static const double answer_limit_s = 10;

struct uplink {
	struct agent *agent;
	struct link *link;
	int told, ever_told;
	uint32_t hello_id;
	char instance[65];   /* of the daemon that knew us last */
	char greeted_by[65]; /* of the one that we are connected to */
	double retry_s;
	struct loop_timer *retry, *patience, *undecided;
	struct err last; /* why the last try failed */
};

static void lost(struct uplink *uplink, const char *why)
{
	struct agent *agent = uplink->agent;

	uplink->link = NULL;
	if (uplink->told) {
		log_notice("uplink", "the daemon is gone: %s", why);
		uplink->told = 0;
		uplink->retry_s = first_retry_s;
		loop_timer_start(uplink->patience, agent->config->orphan_s);
		loop_timer_start(uplink->undecided, undecided_limit_s);
		rsh_daemon_gone(agent->rsh);
		leave_daemon_gone(agent->leave);
	} else {
		snprintf(uplink->last.text, sizeof(uplink->last.text), "%s: %s",
			agent->config->ctld, why);
	}
	loop_timer_start(uplink->retry, uplink->retry_s);
}

static void send_hello(struct uplink *uplink)
{
	const struct agent_config *config = uplink->agent->config;
	json_t *body = json_pack("{s:s, s:s, s:I, s:s, s:f}", "node", config->node,
		"claim", config->claim, "pid", (json_int_t)getpid(), "address",
		uplink->agent->socket, "cpus", cpus_usable(config->cgroup));

	uplink->hello_id = link_next_id(uplink->link);
	link_send(uplink->link, MSG_AGENT_HELLO, uplink->hello_id, body);
}

static void be_told(struct uplink *uplink)
{
	struct agent *agent = uplink->agent;

	uplink->told = uplink->ever_told = 1;
	uplink->retry_s = first_retry_s;
	loop_timer_stop(uplink->patience);
	loop_timer_stop(uplink->undecided);
	if (strcmp(uplink->instance, uplink->greeted_by) != 0)
		report_withdraw_all(agent);
	memcpy(uplink->instance, uplink->greeted_by, sizeof(uplink->instance));
	log_info("uplink", "the daemon knows node %s claim=%s", agent->config->node,
		agent->config->claim);
	report_everything(agent);
	leave_daemon_there(agent->leave);
}

static void be_refused(struct uplink *uplink, const struct msg *msg)
{
	link_close(uplink->link);
	uplink->link = NULL;
	agent_fail(uplink->agent, EXIT_NOT_ALLOWED, "%s: refused: %s",
		uplink->agent->config->ctld, msg_str(msg, "text"));
}

static void on_msg(struct link *link, const struct msg *msg, void *arg)
{
	struct uplink *uplink = arg;

	if (uplink->told) {
		h_daemon_msg(uplink->agent, link, msg);
	} else if (msg->type == MSG_WELCOME) {
		snprintf(uplink->greeted_by, sizeof(uplink->greeted_by), "%s",
			msg_str(msg, "instance"));
		send_hello(uplink);
	} else if (msg->type == MSG_OK && msg->id == uplink->hello_id) {
		be_told(uplink);
	} else if (msg->type == MSG_REFUSE && msg_int(msg, "code") != EXIT_TRY_AGAIN) {
		be_refused(uplink, msg);
	}
}

static void on_gone(struct link *link, const char *why, void *arg)
{
	lost(arg, why);
}

static const struct link_handlers handlers = { on_msg, on_gone };

static void try_connect(void *arg)
{
	struct uplink *uplink = arg;
	struct agent *agent = uplink->agent;

	if (uplink->link) {
		/* It has not answered in time. */
		link_close(uplink->link);
		lost(uplink, "no answer");
		return;
	}
	uplink->link = link_connect(agent->loop, agent->config->ctld, "agent",
		&handlers, uplink, &uplink->last);
	if (uplink->link)
		link_set_name(uplink->link, "daemon");
	else if (uplink->ever_told || uplink->retry_s < last_retry_s)
		log_debug("uplink", "%s", uplink->last.text);
	/* While asking, this is the limit for the answer. */
	loop_timer_start(
		uplink->retry, uplink->link ? answer_limit_s : uplink->retry_s);
	if (!uplink->link && (uplink->retry_s *= 1.5) > last_retry_s)
		uplink->retry_s = last_retry_s;
}

static void retry(void *arg)
{
	struct uplink *uplink = arg;

	if (!uplink->told)
		try_connect(uplink);
}

static void patience_ends(void *arg)
{
	struct uplink *uplink = arg;

	agent_fail(uplink->agent, EXIT_NO_DAEMON, "no daemon for %.0f s: %s",
		uplink->ever_told ? uplink->agent->config->orphan_s : start_limit_s,
		uplink->last.text[0] ? uplink->last.text : "it is gone");
}

static void undecided_ends(void *arg)
{
	struct uplink *uplink = arg;

	report_withdraw_all(uplink->agent);
}

struct uplink *uplink_create(struct agent *agent, struct err *err)
{
	struct uplink *uplink = calloc(1, sizeof(*uplink));

	if (!uplink)
		goto fail;
	uplink->agent = agent;
	uplink->retry_s = first_retry_s;
	uplink->retry = loop_timer_create(agent->loop, retry, uplink);
	uplink->patience = loop_timer_create(agent->loop, patience_ends, uplink);
	uplink->undecided = loop_timer_create(agent->loop, undecided_ends, uplink);
	if (!uplink->retry || !uplink->patience || !uplink->undecided)
		goto fail;
	loop_timer_start(uplink->retry, 0);
	loop_timer_start(uplink->patience, start_limit_s);
	return uplink;
fail:
	uplink_destroy(uplink);
	err_set(err, ENOMEM, "connection to the daemon: out of memory");
	return NULL;
}

void uplink_destroy(struct uplink *uplink)
{
	if (!uplink)
		return;
	link_close(uplink->link);
	loop_timer_destroy(uplink->retry);
	loop_timer_destroy(uplink->patience);
	loop_timer_destroy(uplink->undecided);
	free(uplink);
}

struct link *uplink_link(const struct uplink *uplink)
{
	return uplink && uplink->told ? uplink->link : NULL;
}

int uplink_send(struct uplink *uplink, enum msg_type type, json_t *body_take)
{
	struct link *link = uplink_link(uplink);

	if (!link) {
		json_decref(body_take);
		return -1;
	}
	return link_send(link, type, 0, body_take);
}

size_t uplink_queued(const struct uplink *uplink)
{
	return uplink && uplink->link ? link_queued(uplink->link) : 0;
}
