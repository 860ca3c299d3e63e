/*
 * h_agent.c - what agents say.
 *
 * Each handler decodes, writes the fact down where it belongs (node, world,
 * member, copy of a state) and lets life.c or rescale.c follow it; none decides.
 *
 * An agent that connects says which node and claim it is (agent.hello), then
 * which worlds it holds (agent.world), then that this was all (agent.ready).
 * After a restart of the daemon that is how worlds are found again: a world
 * that the journal knows but a member's agent does not hold any more has
 * exited there; one that an agent holds and the journal does not want is ended.
 *
 * When an agent's connection breaks its node is not lost at once: an agent
 * comes back within a moment when it was the daemon that failed to read.  The
 * claim decides: once the backend says that the agent's process is gone, every
 * world with that node is lost.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/cycle.h"
#include "daemon/life.h"
#include "daemon/order.h"
#include "daemon/peer.h"
#include "daemon/rescale.h"
#include "proto/log.h"

/* What a worker says of its steps is divided by, and waited for. */
#define STEP_MIN_S 1e-6
#define STEP_MAX_S 3600.0

static struct world *find_world(struct peer *peer, const struct msg *msg, struct member **member)
{
	struct job *job = jobs_find(peer->ctld->jobs, msg_str(msg, "job"));
	struct world *world = job ? job_world(job, msg_int(msg, "generation")) : NULL;

	*member = world && peer->node ? world_member(world, peer->node) : NULL;
	return *member ? world : NULL;
}

static int may_serve(struct peer *peer, const struct node *node, const char *claim)
{
	uid_t uid = link_identity(peer->link)->uid;

	return node && node->claim[0] && !strcmp(node->claim, claim) &&
	       (uid == geteuid() || uid == 0);
}

static void on_hello(struct peer *peer, const struct msg *msg)
{
	struct ctld *ctld = peer->ctld;
	struct node *node = pool_find(ctld->pool, msg_str(msg, "node"));

	if (!may_serve(peer, node, msg_str(msg, "claim")) ||
		(peer->node && peer->node != node)) {
		log_warning("agent", "%s says it is node %s, claim %s: refused",
			link_name(peer->link), msg_str(msg, "node"), msg_str(msg, "claim"));
		link_refuse(peer->link, msg->id, EXIT_NOT_ALLOWED,
			"node %s has no open claim %s", msg_str(msg, "node"),
			msg_str(msg, "claim"));
		return;
	}
	if (node->link != peer->link)
		agent_close(ctld, node);
	node->link = peer->link;
	node->releasing = 0; /* an order that was on its way is given again */
	node->agent_pid = (pid_t)msg_int(msg, "pid");
	free(node->address);
	node->address = strdup(msg_str(msg, "address"));
	node->cpus = msg_real(msg, "cpus");
	node->told = node->strangers = 0;
	peer->node = node;
	link_set_name(peer->link, "agent %s", node->name);
	link_send(peer->link, MSG_OK, msg->id, NULL);
	ctld_node_changed(ctld, node);
}

static void count_ready(
	struct ctld *ctld, struct world *world, struct member *member, int ready)
{
	member->ready = ready;
	if (ready == 0)
		return;
	if (world->first_ready_at_s == 0)
		world->first_ready_at_s = loop_now_s(ctld->loop);
}

static void on_world(struct peer *peer, const struct msg *msg)
{
	struct member *member;
	struct world *world = find_world(peer, msg, &member);
	const char *phase = msg_str(msg, "phase");

	if (!peer->node)
		return;
	if (!world || member->exited || world->killed) {
		log_info("agent", "node %s holds job %s generation %lld, which nobody wants",
			peer->node->name, msg_str(msg, "job"), msg_int(msg, "generation"));
		if (world && !member->exited)
			member->told = 1; /* the node is its own until it has exited */
		else
			peer->node->strangers++;
		order_kill_unknown(peer->node, msg_str(msg, "job"), msg_int(msg, "generation"), 0);
		return;
	}
	member->told = 1;
	count_ready(peer->ctld, world, member, (int)msg_int(msg, "ready"));
	member->lacks_go = !strcmp(phase, "ready");
	if (!strcmp(phase, "left")) {
		member->left = 1;
		world->left_step = msg_int(msg, "step");
		world->left_cursor = msg_int(msg, "cursor");
	} else if (!strcmp(phase, "running")) {
		member->ready = world->job->request.nproc;
		if (world->phase == WORLD_STARTING || world->phase == WORLD_READY)
			world->phase = WORLD_RUNNING;
		if (world == world->job->current && msg_int(msg, "step") > world->job->step) {
			world->job->step = msg_int(msg, "step");
			world->job->cursor = msg_int(msg, "cursor");
		}
	}
}

/* Worlds that should be on this node but that its agent did not tell of. */
static void drop_untold(struct ctld *ctld, struct node *node)
{
	for (size_t i = 0; i < jobs_count(ctld->jobs); i++) {
		struct job *job = jobs_at(ctld->jobs, i);
		struct world *next;

		for (struct world *world = job->worlds; world; world = next) {
			struct member *member = world_member(world, node);

			next = world->next;
			if (!member || member->told || member->exited)
				continue;
			world_member_exited(member);
			if (world->phase != WORLD_LEFT && !world->killed)
				life_world_lost(ctld, world, "a node's agent lost it", 1);
			else
				life_world_changed(ctld, world);
		}
	}
}

/* Worlds that it told of: what was said follows.  The next one has to tell anew. */
static void follow_told(struct ctld *ctld, struct node *node)
{
	for (size_t i = 0; i < jobs_count(ctld->jobs); i++) {
		struct world *next;

		for (struct world *world = jobs_at(ctld->jobs, i)->worlds; world; world = next) {
			struct member *member = world_member(world, node);

			next = world->next;
			if (!member)
				continue;
			member->told = 0;
			if (ctld->adopt_until_s <= 0)
				rescale_tell_again(ctld, world, member);
			life_world_changed(ctld, world);
		}
	}
}

static void on_ready(struct peer *peer, const struct msg *msg)
{
	struct ctld *ctld = peer->ctld;
	struct node *node = peer->node;

	if (!node)
		return;
	node->told = node->came = 1;
	log_info("agent", "node %s is there claim=%s pid=%d", node->name, node->claim,
		(int)node->agent_pid);
	drop_untold(ctld, node);
	follow_told(ctld, node);
	ctld_node_changed(ctld, node);
	cycle_poke(ctld->cycle, "node joined");
}

static void on_notice(struct peer *peer, const struct msg *msg)
{
	struct node *node = peer->node;

	if (!node)
		return;
	node->due_s = fmin(node->due_s,
		loop_now_s(peer->ctld->loop) + msg_real(msg, "grace_s"));
	log_info("agent", "node %s is wanted back grace_s=%.1f", node->name,
		msg_real(msg, "grace_s"));
	ctld_node_changed(peer->ctld, node);
}

static void on_released(struct peer *peer, const struct msg *msg)
{
	struct node *node = peer->node;

	if (!node)
		return;
	journal_write(peer->ctld->journal, "released",
		json_pack("{s:s, s:s, s:b, s:I, s:f}", "node", node->name, "claim", node->claim,
			"clean", msg_bool(msg, "clean"), "killed",
			(json_int_t)msg_int(msg, "killed"), "took_s", msg_real(msg, "took_s")));
	if (!msg_bool(msg, "clean"))
		log_err("agent", "node %s is not clean: %s", node->name,
			msg_has(msg, "left") ? msg_str(msg, "left") : "unknown");
	else
		log_info("agent", "node %s is clean killed=%lld took_s=%.3f", node->name,
			msg_int(msg, "killed"), msg_real(msg, "took_s"));
}

static void on_started(struct peer *peer, const struct msg *msg)
{
	struct member *member;
	struct world *world = find_world(peer, msg, &member);

	if (world && msg_int(msg, "pid") > 0)
		log_debug("agent", "job %s generation %lld launched pid=%lld",
			world->job->id, world->generation, msg_int(msg, "pid"));
}

static void on_world_ready(struct peer *peer, const struct msg *msg)
{
	struct member *member;
	struct world *world = find_world(peer, msg, &member);

	if (!world)
		return;
	count_ready(peer->ctld, world, member, (int)msg_int(msg, "ready"));
	life_world_changed(peer->ctld, world);
}

static void observe(struct ctld *ctld, struct world *world, const struct msg *msg)
{
	struct job *job = world->job;
	struct sample sample = {
		.t_s = msg_real(msg, "t_s"),
		.arrived_s = loop_now_s(ctld->loop),
		.nodes = (int)world->n_members,
		.generation = world->generation,
		.cursor = msg_int(msg, "cursor"),
		.step = msg_int(msg, "step"),
	};

	if (sample.cursor > job->cursor) {
		job->progress_at_s = loop_now_s(ctld->loop);
		job->restarts = 0;
	}
	job->step = sample.step;
	job->cursor = sample.cursor;
	if (msg_has(msg, "step_s"))
		job->step_s = fmin(fmax(msg_real(msg, "step_s"), STEP_MIN_S), STEP_MAX_S);
	cycle_observe(ctld->cycle, job, &sample);
}

static void on_progress(struct peer *peer, const struct msg *msg)
{
	struct member *member;
	struct world *world = find_world(peer, msg, &member);

	if (!world || world != world->job->current)
		return;
	observe(peer->ctld, world, msg);
	rescale_progress(world, msg_int(msg, "step"), msg_real(msg, "t_s"));
}

static void on_answer(struct peer *peer, const struct msg *msg)
{
	struct member *member;
	struct world *world = find_world(peer, msg, &member);

	if (world)
		rescale_answered(world, member, (int)msg_int(msg, "proposal"),
			msg_bool(msg, "agreed"), msg_int(msg, "step"));
}

static void on_left(struct peer *peer, const struct msg *msg)
{
	struct member *member;
	struct world *world = find_world(peer, msg, &member);
	struct job *job;

	if (!world)
		return;
	job = world->job;
	member->left = 1;
	world->left_step = msg_int(msg, "step");
	world->left_cursor = msg_int(msg, "cursor");
	world->left_at_wall_s = fmax(world->left_at_wall_s, msg_real(msg, "t_s"));
	if (msg_bool(msg, "saved"))
		job_copy_add(job, peer->node->name, world->left_step, world->left_cursor);
	if (world->left_step >= job->step) {
		job->step = world->left_step;
		job->cursor = world->left_cursor;
	}
	if (msg_bool(msg, "finished") && !job->finished) {
		job->finished = world->finished = 1;
		if (world_all_left(world))
			world->phase = WORLD_LEFT;
		rescale_drop(job, "the training is complete");
	}
	life_world_changed(peer->ctld, world);
}

/* Of a world that nobody wanted: the last of them makes the node free. */
static void stranger_exited(struct peer *peer)
{
	struct node *node = peer->node;

	if (!node || node->strangers == 0 || --node->strangers > 0)
		return;
	ctld_node_changed(peer->ctld, node);
}

static void on_exited(struct peer *peer, const struct msg *msg)
{
	struct member *member;
	struct world *world = find_world(peer, msg, &member);

	if (!world) {
		stranger_exited(peer);
		return;
	}
	if (msg_bool(msg, "launcher")) {
		world->launcher_exited = 1;
		world->code = (int)msg_int(msg, "code");
		if (msg_has(msg, "reason"))
			log_notice("agent", "job %s generation %lld exited code=%d: %s",
				world->job->id, world->generation, world->code,
				msg_str(msg, "reason"));
	}
	world_member_exited(member);
	/* Where each node launches its own, the head's end is not the last. */
	if (strcmp(world->job->request.launcher, "mpi") && world->code == 0)
		world->launcher_exited = world_all_exited(world);
	ctld_node_changed(peer->ctld, peer->node);
	life_world_changed(peer->ctld, world);
}

static void on_saved(struct peer *peer, const struct msg *msg)
{
	struct job *job = jobs_find(peer->ctld->jobs, msg_str(msg, "job"));

	if (!job || !peer->node)
		return;
	job_copy_add(job, msg_bool(msg, "spooled") ? "" : peer->node->name,
		msg_int(msg, "step"), msg_int(msg, "cursor"));
	if (msg_bool(msg, "spooled"))
		journal_write(peer->ctld->journal, "spooled",
			json_pack("{s:s, s:I, s:I}", "job", job->id, "step",
				(json_int_t)msg_int(msg, "step"), "cursor",
				(json_int_t)msg_int(msg, "cursor")));
}

static void on_output(struct peer *peer, const struct msg *msg)
{
	struct job *job = jobs_find(peer->ctld->jobs, msg_str(msg, "job"));

	if (job && peers_tell_output(peer->ctld->peers, job, (int)msg_int(msg, "stream"),
			   msg->raw, msg->raw_size))
		peer_waits(peer);
}

/* --- remote start ---------------------------------------------------------- */

static void on_rsh_request(struct peer *peer, const struct msg *msg)
{
	struct node *target = pool_find(peer->ctld->pool, msg_str(msg, "node"));
	struct member *member;
	struct world *world = find_world(peer, msg, &member);
	struct rsh_session *session;
	long long id = peers_next_session(peer->ctld->peers);
	json_t *body;

	if (!world || !target || !target->link || !world_member(world, target)) {
		link_refuse(peer->link, msg->id, EXIT_NO_DAEMON,
			"node %s is not there for this world", msg_str(msg, "node"));
		return;
	}
	session = calloc(1, sizeof(*session));
	body = json_pack("{s:s, s:I, s:I, s:O}", "job", world->job->id, "generation",
		(json_int_t)world->generation, "session", (json_int_t)id,
		"argv", msg_json(msg, "argv"));
	if (!session || !body) {
		free(session);
		json_decref(body);
		link_refuse(peer->link, msg->id, EXIT_INTERNAL, "out of memory");
		return;
	}
	if (msg_has(msg, "env"))
		json_object_set(body, "env", (json_t *)msg_json(msg, "env"));
	session->id = id;
	session->request = msg->id;
	session->origin = peer->node;
	session->target = target;
	session->next = *peers_rsh_sessions(peer->ctld->peers);
	*peers_rsh_sessions(peer->ctld->peers) = session;
	link_send(target->link, MSG_RSH_START, 0, body);
	link_send(peer->link, MSG_OK, msg->id,
		json_pack("{s:s}", "text", "started"));
}

static struct rsh_session *take_session(struct peer *peer, long long id)
{
	struct rsh_session *found;

	for (struct rsh_session **at = peers_rsh_sessions(peer->ctld->peers); *at;
		at = &(*at)->next)
		if ((*at)->id == id && (*at)->target == peer->node) {
			found = *at;
			*at = found->next;
			return found;
		}
	return NULL;
}

static void end_session(struct rsh_session *session, int code)
{
	if (session->origin->link)
		link_send(session->origin->link, MSG_RSH_EXITED, session->request,
			json_pack("{s:I, s:i}", "session", (json_int_t)session->id, "code",
				code));
	free(session);
}

static void on_rsh_exited(struct peer *peer, const struct msg *msg)
{
	struct rsh_session *session = take_session(peer, msg_int(msg, "session"));

	if (session)
		end_session(session, (int)msg_int(msg, "code"));
}

static void on_rsh_hangup(struct peer *peer, const struct msg *msg)
{
	/* The origin names its request; the session is the daemon's number. */
	for (struct rsh_session *s = *peers_rsh_sessions(peer->ctld->peers); s; s = s->next)
		if (s->origin == peer->node && s->request == msg->id && s->target->link) {
			link_send(s->target->link, MSG_RSH_HANGUP, 0,
				json_pack("{s:I}", "session", (json_int_t)s->id));
			return;
		}
}

static void end_sessions_of(struct ctld *ctld, const struct node *node)
{
	struct rsh_session **at = peers_rsh_sessions(ctld->peers);

	while (*at) {
		struct rsh_session *session = *at;

		if (session->target != node && session->origin != node) {
			at = &session->next;
			continue;
		}
		*at = session->next;
		end_session(session, 137);
	}
}

static void unlink_agent(struct ctld *ctld, struct node *node)
{
	node->link = NULL;
	node->told = 0;
	end_sessions_of(ctld, node);
}

void agent_close(struct ctld *ctld, struct node *node)
{
	struct link *link = node->link;

	if (!link)
		return;
	unlink_agent(ctld, node);
	peers_close(ctld->peers, link);
}

void agent_gone(struct peer *peer, const char *why)
{
	struct node *node = peer->node;

	if (!node || node->link != peer->link)
		return;
	unlink_agent(peer->ctld, node);
	log_info("agent", "node %s: connection ended: %s", node->name, why);
	ctld_node_changed(peer->ctld, node);
}

const struct handler agent_handlers[] = {
	{ MSG_AGENT_HELLO, PEER_AGENT, on_hello },
	{ MSG_AGENT_WORLD, PEER_AGENT, on_world },
	{ MSG_AGENT_READY, PEER_AGENT, on_ready },
	{ MSG_NODE_NOTICE, PEER_AGENT, on_notice },
	{ MSG_NODE_RELEASED, PEER_AGENT, on_released },
	{ MSG_WORLD_STARTED, PEER_AGENT, on_started },
	{ MSG_WORLD_READY, PEER_AGENT, on_world_ready },
	{ MSG_WORLD_PROGRESS, PEER_AGENT, on_progress },
	{ MSG_WORLD_ANSWER, PEER_AGENT, on_answer },
	{ MSG_WORLD_LEFT, PEER_AGENT, on_left },
	{ MSG_WORLD_EXITED, PEER_AGENT, on_exited },
	{ MSG_STATE_SAVED, PEER_AGENT, on_saved },
	{ MSG_JOB_OUTPUT, PEER_AGENT, on_output },
	{ MSG_RSH_REQUEST, PEER_AGENT, on_rsh_request },
	{ MSG_RSH_EXITED, PEER_AGENT, on_rsh_exited },
	{ MSG_RSH_HANGUP, PEER_AGENT, on_rsh_hangup },
	{ MSG_UNSET, 0, NULL },
};
