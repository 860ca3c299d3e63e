/*
 * h_client.c - what people's programs ask: malle-run, malle-status, mallectl.
 *
 * Who asks is what the kernel said, not what they say.  Anybody may submit and
 * look at the nodes; of jobs a user sees and controls their own, root and the
 * daemon's user all.  Another user's job is refused as not theirs: ids are counted
 * up, so that they exist is no secret.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "daemon/cycle.h"
#include "daemon/life.h"
#include "daemon/peer.h"
#include "daemon/status.h"
#include "proto/log.h"

static int is_admin(const struct peer *peer)
{
	uid_t uid = link_identity(peer->link)->uid;

	return uid == 0 || uid == geteuid();
}

static int may_see(const struct peer *peer, const struct job *job)
{
	return is_admin(peer) || job->request.uid == link_identity(peer->link)->uid;
}

/* The job that a message names, or NULL after a refusal was sent. */
static struct job *named_job(struct peer *peer, const struct msg *msg)
{
	struct job *job = jobs_find(peer->ctld->jobs, msg_str(msg, "job"));

	if (job && may_see(peer, job))
		return job;
	if (job)
		log_notice("client", "%s may not have job %s, denied", link_name(peer->link),
			job->id);
	link_refuse(peer->link, msg->id, job ? EXIT_NOT_ALLOWED : EXIT_BAD_DATA,
		job ? "job %s is not yours" : "job %s: there is none", msg_str(msg, "job"));
	return NULL;
}

/*
 * On this machine agents run as the daemon's user.  A root daemon that took
 * anybody's command would run it as root.
 */
static int may_submit(const struct peer *peer)
{
	return link_identity(peer->link)->uid == geteuid();
}

static struct job *accept_job(struct peer *peer, struct job_request *request, struct err *err)
{
	struct ctld *ctld = peer->ctld;
	struct job *job = jobs_add(ctld->jobs, request, NULL);
	json_t *record;

	if (!job) {
		job_request_fini(request);
		err_set(err, ENOMEM, "taking the job: out of memory");
		return NULL;
	}
	job->submit_s = loop_wall_s(ctld->loop);
	record = job_request_json(&job->request);
	json_object_set_new(record, "job", json_string(job->id));
	json_object_set_new(record, "submit_s", json_real(job->submit_s));
	if (cycle_adopt_job(ctld->cycle, job, err) != 0) {
		json_decref(record);
		jobs_drop_newest(ctld->jobs);
		return NULL;
	}
	if (journal_commit(ctld->journal, "job", record) != 0) {
		/* Whoever sends it again with its token is not to find it here. */
		err_set(err, EIO, "job %s cannot be recorded, it is not taken", job->id);
		jobs_drop_newest(ctld->jobs);
		return NULL;
	}
	return job;
}

static void on_submit(struct peer *peer, const struct msg *msg)
{
	struct ctld *ctld = peer->ctld;
	const struct identity *who = link_identity(peer->link);
	struct job_request request;
	struct err err = { "" };
	struct job *job = msg_has(msg, "token")
		? jobs_find_token(ctld->jobs, who->uid, msg_str(msg, "token"))
		: NULL;

	if (!job && !may_submit(peer)) {
		log_notice("client", "%s may not submit here, denied", link_name(peer->link));
		link_refuse(peer->link, msg->id, EXIT_NOT_ALLOWED,
			"this daemon runs jobs of uid %u only", (unsigned)geteuid());
		return;
	}
	if (!job && job_request_read(&request, msg->body, who->uid, who->gid, &err) != 0) {
		link_refuse(peer->link, msg->id, EXIT_BAD_USAGE, "%s", err.text);
		return;
	}
	if (!job)
		job = accept_job(peer, &request, &err);
	if (!job) {
		link_refuse(peer->link, msg->id, EXIT_TRY_AGAIN, "%s", err.text);
		return;
	}
	log_info("client", "job %s submitted uid=%u name=%s nodes=%d:%d", job->id, who->uid,
		job->request.name, job->request.min_nodes, job->request.max_nodes);
	link_send(peer->link, MSG_JOB_ACCEPTED, msg->id, json_pack("{s:s}", "job", job->id));
	cycle_poke(ctld->cycle, "job submitted");
}

static void on_attach(struct peer *peer, const struct msg *msg)
{
	struct job *job = named_job(peer, msg);
	long long kept_from, offset;

	if (!job)
		return;
	peer->attached = job;
	/* What it missed first, so that an ended job's output comes before its end. */
	kept_from = job->output_bytes - (long long)job->tail_size;
	offset = msg_int(msg, "offset");
	if (offset < kept_from)
		offset = kept_from;
	if (offset < job->output_bytes)
		link_send_raw(peer->link, MSG_JOB_OUTPUT, 0,
			json_pack("{s:s, s:i, s:I}", "job", job->id, "stream", 1, "offset",
				(json_int_t)offset),
			job->tail + (offset - kept_from), (size_t)(job->output_bytes - offset));
	link_send(peer->link, MSG_JOB_STATE, msg->id, peer_job_state(job));
}

static void answer(struct peer *peer, const struct msg *msg, int rc, const struct err *err)
{
	if (rc != 0)
		link_refuse(peer->link, msg->id, EXIT_BAD_DATA, "%s", err->text);
	else
		link_send(peer->link, MSG_OK, msg->id, NULL);
}

static void on_cancel(struct peer *peer, const struct msg *msg)
{
	struct job *job = named_job(peer, msg);
	struct err err = { "" };

	if (job)
		answer(peer, msg,
			life_job_cancel(peer->ctld, job, msg_bool(msg, "force"), &err), &err);
}

static void on_pause(struct peer *peer, const struct msg *msg)
{
	struct job *job = named_job(peer, msg);
	struct err err = { "" };

	if (job)
		answer(peer, msg, life_job_pause(peer->ctld, job, &err), &err);
}

static void on_resume(struct peer *peer, const struct msg *msg)
{
	struct job *job = named_job(peer, msg);
	struct err err = { "" };

	if (job)
		answer(peer, msg, life_job_resume(peer->ctld, job, &err), &err);
}

static void on_ping(struct peer *peer, const struct msg *msg)
{
	struct ctld *ctld = peer->ctld;

	link_send(peer->link, MSG_PONG, msg->id,
		json_pack("{s:f, s:s}", "uptime_s", loop_now_s(ctld->loop) - ctld->started_s,
			"state", status_daemon_state(ctld)));
}

static void on_status(struct peer *peer, const struct msg *msg)
{
	uid_t only = is_admin(peer) ? (uid_t)-1 : link_identity(peer->link)->uid;
	struct err err = { "" };
	json_t *data = status_json(peer->ctld, msg_str(msg, "what"), msg_str(msg, "id"), only, &err);

	if (!data)
		link_refuse(peer->link, msg->id,
			errno == EACCES ? EXIT_NOT_ALLOWED : EXIT_BAD_DATA, "%s", err.text);
	else
		link_send(peer->link, MSG_STATUS_REPLY, msg->id, json_pack("{s:o}", "data", data));
}

static void on_config(struct peer *peer, const struct msg *msg)
{
	link_send(peer->link, MSG_CONFIG_REPLY, msg->id,
		json_pack("{s:o}", "options", config_json(&peer->ctld->config)));
}

const struct handler client_handlers[] = {
	{ MSG_JOB_SUBMIT, PEER_CLIENT, on_submit },
	{ MSG_JOB_ATTACH, PEER_CLIENT, on_attach },
	{ MSG_JOB_CANCEL, PEER_CLIENT, on_cancel },
	{ MSG_JOB_PAUSE, PEER_CLIENT, on_pause },
	{ MSG_JOB_RESUME, PEER_CLIENT, on_resume },
	{ MSG_PING, PEER_CLIENT, on_ping },
	{ MSG_STATUS_GET, PEER_CLIENT, on_status },
	{ MSG_CONFIG_GET, PEER_CLIENT, on_config },
	{ MSG_UNSET, 0, NULL },
};
