/*
 * rsh.c - remote starts: those we ask for, and those that run here.
 *
 *	mpirun - malle-rsh - agent of the head - mallectld - agent of the node - orted
 *
 * A request of malle-rsh goes on to the daemon, which knows the node's agent.  Its
 * ok (the start is on its way) or refusal, and later the end of what was started,
 * come back under the request's id.  When malle-rsh goes, mpirun wants that
 * orted ended: rsh.hangup.
 *
 * Only orted of a world that this node is part of is ever started; its
 * environment and directory are the world's, not the requester's.
 *
 * A daemon that goes away takes with it the requests that it had not answered
 * (malle-rsh fails, mpirun gives the world up, the daemon starts another); what
 * already runs goes on, and nobody is told of its end: mpirun and its orteds
 * have connections of their own and notice.
 */
#include "agent/rsh.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "agent/ending.h"
#include "agent/exec.h"
#include "agent/launch.h"
#include "agent/launch_mpi.h"
#include "agent/leave.h"
#include "agent/output.h"
#include "agent/uplink.h"
#include "proto/log.h"

static const double hangup_grace_s = 1;

/* Of a malle-rsh on this node. */
struct request {
	LIST_ENTRY(request) entry;
	struct rsh *rsh;
	const struct part *part;
	struct link *link; /* of malle-rsh */
	uint32_t its_id, our_id;
	int accepted;
};

/* Running here. */
struct session {
	LIST_ENTRY(session) entry;
	struct rsh *rsh;
	struct part *part;
	long long id;
	struct child *child;
	struct loop_timer *kill;
};

struct rsh {
	struct agent *agent;
	LIST_HEAD(, request) requests;
	LIST_HEAD(, session) sessions;
};

/* --- we ask ----------------------------------------------------------------- */

static void forget_request(struct request *request)
{
	LIST_REMOVE(request, entry);
	free(request);
}

/* mpirun knows nodes by number, people by name. */
static const char *node_of(const struct part *part, const char *host)
{
	size_t index;

	if (launch_mpi_index(host, &index) == 0)
		return index < part->n_nodes ? part->nodes[index] : NULL;
	for (size_t i = 0; i < part->n_nodes; i++)
		if (strcmp(part->nodes[i], host) == 0)
			return part->nodes[i];
	return NULL;
}

static int pass_on(struct request *request, const struct msg *msg, const char *node)
{
	struct link *link = uplink_link(request->rsh->agent->uplink);
	json_t *body = json_pack("{s:s, s:I, s:s, s:O}", "job", msg_str(msg, "job"),
		"generation", (json_int_t)msg_int(msg, "generation"), "node", node,
		"argv", msg_json(msg, "argv"));

	request->our_id = link_next_id(link);
	return link_send(link, MSG_RSH_REQUEST, request->our_id, body);
}

void rsh_request(struct rsh *rsh, struct link *link, const struct msg *msg)
{
	struct part *part = part_find(
		rsh->agent->parts, msg_str(msg, "job"), msg_int(msg, "generation"));
	const char *node = part ? node_of(part, msg_str(msg, "node")) : NULL;
	struct request *request;

	if (!node || part->ending != ENDING_NO) {
		link_refuse(link, msg->id, EXIT_NO_DAEMON,
			"job %s generation %lld has no node %s now",
			msg_str(msg, "job"), msg_int(msg, "generation"),
			msg_str(msg, "node"));
		return;
	}
	if (!uplink_link(rsh->agent->uplink)) {
		link_refuse(link, msg->id, EXIT_NO_DAEMON, "the daemon is not there");
		return;
	}
	request = calloc(1, sizeof(*request));
	if (!request) {
		link_refuse(link, msg->id, EXIT_INTERNAL, "out of memory");
		return;
	}
	*request = (struct request){
		.rsh = rsh,
		.part = part,
		.link = link,
		.its_id = msg->id,
	};
	LIST_INSERT_HEAD(&rsh->requests, request, entry);
	if (pass_on(request, msg, node) < 0) {
		link_refuse(
			link, msg->id, EXIT_NO_DAEMON, "the daemon cannot be asked");
		forget_request(request);
	}
}

void rsh_answered(struct rsh *rsh, const struct msg *msg)
{
	struct request *request;

	LIST_FOREACH(request, &rsh->requests, entry)
	if (msg->id && request->our_id == msg->id)
		break;
	if (!request)
		return;
	if (msg->type == MSG_OK) {
		request->accepted = 1;
		link_send(request->link, MSG_OK, request->its_id, NULL);
		return;
	}
	if (msg->type == MSG_REFUSE)
		link_refuse(request->link, request->its_id, (int)msg_int(msg, "code"),
			"%s", msg_str(msg, "text"));
	else
		link_send(request->link, MSG_RSH_EXITED, request->its_id,
			json_pack("{s:I, s:I}", "session",
				(json_int_t)msg_int(msg, "session"), "code",
				(json_int_t)msg_int(msg, "code")));
	forget_request(request);
}

void rsh_link_gone(struct rsh *rsh, struct link *link)
{
	struct link *daemon = uplink_link(rsh->agent->uplink);
	struct request *request, *next;

	for (request = LIST_FIRST(&rsh->requests); request; request = next) {
		next = LIST_NEXT(request, entry);
		if (request->link != link)
			continue;
		/* 0: the daemon was away and has never heard of it. */
		if (daemon && request->our_id)
			link_send(daemon, MSG_RSH_HANGUP, request->our_id,
				json_pack("{s:I}", "session",
					(json_int_t)request->our_id));
		forget_request(request);
	}
}

void rsh_daemon_gone(struct rsh *rsh)
{
	struct request *request, *next;

	for (request = LIST_FIRST(&rsh->requests); request; request = next) {
		next = LIST_NEXT(request, entry);
		/* Ids of that connection mean nothing on the next one. */
		request->our_id = 0;
		if (request->accepted)
			continue;
		link_refuse(request->link, request->its_id, EXIT_NO_DAEMON,
			"the daemon is gone");
		forget_request(request);
	}
}

/* --- it runs here ----------------------------------------------------------- */

static void tell_exited(struct rsh *rsh, long long session, int code)
{
	uplink_send(rsh->agent->uplink, MSG_RSH_EXITED,
		json_pack("{s:I, s:i}", "session", (json_int_t)session, "code", code));
}

static void session_ended(struct child *child, int code, void *arg)
{
	struct session *session = arg;
	struct part *part = session->part;

	tell_exited(session->rsh, session->id, code);
	LIST_REMOVE(session, entry);
	loop_timer_destroy(session->kill);
	free(session);
	/* The head's part ends with mpirun. */
	if (--part->n_sessions == 0 && !part_is_head(part))
		ending_by_itself(part);
}

static void kill_now(void *arg)
{
	struct session *session = arg;

	exec_signal(session->child, SIGKILL);
}

static int is_orted(const char *file)
{
	const char *slash = strrchr(file, '/');

	return strcmp(slash ? slash + 1 : file, "orted") == 0;
}

static int run(struct session *session, char **argv, struct err *err)
{
	struct part *part = session->part;
	struct environ_list env;
	struct exec_spec spec = {
		.argv = argv,
		.cwd = part->cwd,
		.in = -1,
		.out = output_fd(part->output, 1),
		.err = output_fd(part->output, 2),
	};

	launch_environ(part, &env);
	/* Two nodes on one machine may not share it, so mpirun, which would pass its
	 * own on, has none. */
	environ_set(&env, "OMPI_MCA_btl_vader_backing_directory", "%s", part->shmdir);
	spec.env = env.entries;
	if (env.failed)
		err_set(err, ENOMEM, "orted: environment: out of memory");
	else
		session->child = exec_spawn(
			part->agent->exec, &spec, session_ended, session, err);
	environ_fini(&env);
	return session->child ? 0 : -1;
}

static int start(struct rsh *rsh, struct part *part, const struct msg *msg, char **argv,
	struct err *err)
{
	struct session *session = calloc(1, sizeof(*session));

	if (!session)
		return err_set(err, ENOMEM, "orted: out of memory");
	session->rsh = rsh;
	session->part = part;
	session->id = msg_int(msg, "session");
	session->kill = loop_timer_create(rsh->agent->loop, kill_now, session);
	if (!session->kill || run(session, argv, err) < 0) {
		loop_timer_destroy(session->kill);
		free(session);
		return -1;
	}
	LIST_INSERT_HEAD(&rsh->sessions, session, entry);
	part->n_sessions++;
	part->had_sessions = 1;
	return 0;
}

void rsh_start(struct rsh *rsh, const struct msg *msg)
{
	struct part *part = part_find(
		rsh->agent->parts, msg_str(msg, "job"), msg_int(msg, "generation"));
	char **argv = msg_strv(msg, "argv");
	struct err err = { "out of memory" };
	int rc = -1;

	if (!part || part->ending != ENDING_NO || leave_is_on(rsh->agent->leave))
		err_set(&err, ESRCH, "job %s generation %lld is not held here",
			msg_str(msg, "job"), msg_int(msg, "generation"));
	else if (argv && !is_orted(argv[0]))
		err_set(&err, EPERM, "%.100s: only orted is started for others",
			argv[0]);
	else if (argv)
		rc = start(rsh, part, msg, argv, &err);
	free(argv);
	if (rc == 0)
		return;
	log_warning("rsh", "a remote start fails: %s", err.text);
	tell_exited(rsh, msg_int(msg, "session"), EXIT_NO_DAEMON);
}

void rsh_hangup(struct rsh *rsh, const struct msg *msg)
{
	struct session *session;

	LIST_FOREACH(session, &rsh->sessions, entry)
	if (session->id == msg_int(msg, "session") &&
		!loop_timer_pending(session->kill)) {
		exec_signal(session->child, SIGTERM);
		loop_timer_start(session->kill, hangup_grace_s);
	}
}

/* --- life ------------------------------------------------------------------- */

void rsh_forget_part(struct rsh *rsh, const struct part *part)
{
	struct request *request, *next;

	for (request = LIST_FIRST(&rsh->requests); request; request = next) {
		next = LIST_NEXT(request, entry);
		if (request->part == part)
			forget_request(request);
	}
}

struct rsh *rsh_create(struct agent *agent, struct err *err)
{
	struct rsh *rsh = calloc(1, sizeof(*rsh));

	if (!rsh) {
		err_set(err, ENOMEM, "remote starts: out of memory");
		return NULL;
	}
	rsh->agent = agent;
	LIST_INIT(&rsh->requests);
	LIST_INIT(&rsh->sessions);
	return rsh;
}

void rsh_destroy(struct rsh *rsh)
{
	struct request *request;
	struct session *session;

	if (!rsh)
		return;
	while ((request = LIST_FIRST(&rsh->requests)))
		forget_request(request);
	while ((session = LIST_FIRST(&rsh->sessions))) {
		LIST_REMOVE(session, entry);
		exec_forget(session->child);
		loop_timer_destroy(session->kill);
		free(session);
	}
	free(rsh);
}
