/*
 * ctld.c - mallectld's parts, in the order in which they depend on each other.
 *
 * One lap: the backend's view (on_view) and the agents' words (h_agent.c) change
 * the pool; the cycle is poked, makes a problem of what is known, has it
 * solved, and turns the plan into rescales; these send orders; agents answer,
 * workers report progress, curves move, and the next problem is better.
 *
 *   sched  -> pool -> cycle -> solver (child) -> rescale -> order -> agents
 *                       ^ jobs, curves  <-  h_agent  <-  peer  <----+
 *
 * Nobody calls upstream: whoever has news pokes the cycle.  A tick of a tenth
 * of a second looks at the deadlines that no message announces.  SIGTERM ends
 * the daemon and nothing else: agents and workers go on and are found again by
 * the journal (restore.c).
 */
#include "daemon/ctld.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/random.h>

#include "daemon/cycle.h"
#include "daemon/dirs.h"
#include "daemon/life.h"
#include "daemon/order.h"
#include "daemon/peer.h"
#include "daemon/rescale.h"
#include "daemon/restore.h"
#include "daemon/sched/sched.h"
#include "proto/log.h"

#define TICK_S 0.1
#define ADOPT_S 5.0        /* for agents of before to come back */
#define ACCOUNT_S 10.0     /* between two records of the account */
#define CLAIM_AGAIN_S 0.2  /* after a claim has ended; doubled while no agent comes */
#define HELLO_LIMIT_S 30.0 /* for the agent of a claim to come */
#define RELEASE_LAST_S 1.0 /* before a deadline: then with the workers in it */

/* --- the account ------------------------------------------------------------ */

static int world_counts(const struct world *world)
{
	return world && world->phase == WORLD_RUNNING;
}

void ctld_account(struct ctld *ctld)
{
	double now = loop_now_s(ctld->loop);

	for (size_t i = 0; i < jobs_count(ctld->jobs); i++) {
		struct job *job = jobs_at(ctld->jobs, i);
		double spent = now - job->accounted_at_s;

		if (job->accounted_at_s > 0 && world_counts(job->current)) {
			double node_s = spent * (double)job->current->n_members;
			double offered = 0;

			for (size_t k = 0; k < job->current->n_members; k++)
				if (job->current->members[k].node->eligible)
					offered += spent;
			job->node_s += node_s;
			ctld->totals.node_s += node_s;
			ctld->totals.used_node_s += offered;
			if (cycle_is_probing(ctld->cycle, job)) {
				job->probe_node_s += node_s;
				ctld->totals.probe_node_s += node_s;
				prober_account(job->prober, node_s, node_s);
			} else {
				prober_account(job->prober, node_s, 0);
			}
		}
		job->accounted_at_s = now;
	}
	ctld->totals.offered_node_s =
		ctld->offered_before_s + (ctld->sched ? sched_offered_s(ctld->sched, NULL) : 0);
}

static void record_account(struct ctld *ctld)
{
	ctld->account_at_s = loop_now_s(ctld->loop);
	ctld_account(ctld);
	journal_write(ctld->journal, "account",
		json_pack("{s:f, s:f, s:f, s:f}", "offered_node_s",
			ctld->totals.offered_node_s, "used_node_s", ctld->totals.used_node_s,
			"node_s", ctld->totals.node_s, "probe_node_s",
			ctld->totals.probe_node_s));
}

/* 128 random bits: names instances and claims, which nobody is to guess. */
static void random_name(char *out)
{
	unsigned char bytes[16] = { 0 };

	if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
		log_warning("ctld", "no random bytes: %s", strerror(errno));
	for (size_t i = 0; i < sizeof(bytes); i++)
		snprintf(out + 2 * i, 3, "%02x", bytes[i]);
}

/* --- nodes ------------------------------------------------------------------- */

static void claim_node(struct ctld *ctld, struct node *node)
{
	char id[CLAIM_ID_SIZE];
	struct err err = { "" };
	double now = loop_now_s(ctld->loop);

	if (ctld->stopping || now < ctld->adopt_until_s || now < node->claim_after_s)
		return;
	random_name(id);
	if (sched_claim(ctld->sched, node->name, id, geteuid(), &err) != 0) {
		if (errno == EAGAIN || errno == EBUSY)
			return; /* the next view tells */
		log_warning("claim", "node %s: %s", node->name, err.text);
		node->claim_after_s = now + 5;
		return;
	}
	memcpy(node->claim, id, strlen(id) + 1);
	journal_write(ctld->journal, "claim",
		json_pack("{s:s, s:s, s:I}", "node", node->name, "claim", id, "uid",
			(json_int_t)geteuid()));
	node->claimed_at_s = now;
}

/* Nobody is in it: give it back at once.  Somebody is: shortly before the end. */
static void release_node(struct ctld *ctld, struct node *node)
{
	double left_s = node->due_s - loop_now_s(ctld->loop);

	if (node->worlds == 0 || left_s < RELEASE_LAST_S)
		order_node_release(node, ctld->pool, ctld->jobs, left_s,
			"the scheduler wants it");
}

void ctld_node_changed(struct ctld *ctld, struct node *node)
{
	enum node_state before = node->state;

	pool_settle(ctld->pool, node);
	if (node->state == NODE_HOLE)
		claim_node(ctld, node);
	if (node->state == NODE_LEAVING) {
		/* Not before all have come back: restore_finish does it then. */
		if (before != NODE_LEAVING && ctld->adopt_until_s <= 0) {
			for (size_t i = 0; i < jobs_count(ctld->jobs); i++)
				life_job_give_back(ctld, jobs_at(ctld->jobs, i));
			cycle_poke(ctld->cycle, "node leaves");
		}
		release_node(ctld, node);
	}
	pool_settle(ctld->pool, node);
	if (node->state == NODE_IDLE && before != NODE_IDLE)
		cycle_poke(ctld->cycle, "node is free");
}

static void record_view(struct ctld *ctld, const struct node *node)
{
	journal_write(ctld->journal, "node",
		json_pack("{s:s, s:b, s:s, s:i}", "node", node->name, "eligible",
			node->eligible, "reason", node->reason, "group", node->group));
}

static void on_view(const struct sched_view *view, void *arg)
{
	struct ctld *ctld = arg;

	ctld->fresh = view->quality == SCHED_FRESH;
	if (view->quality == SCHED_UNKNOWN)
		return; /* unknown is never idle, and never busy */
	ctld_account(ctld);
	for (size_t i = 0; i < view->n_nodes; i++) {
		const struct sched_node *seen = &view->nodes[i];
		struct node *node = pool_node(ctld->pool, seen->name);
		int news;

		if (!node)
			continue;
		news = node->eligible != seen->eligible;
		node->eligible = seen->eligible;
		node->until_s = seen->until_s;
		node->group = seen->group;
		snprintf(node->reason, sizeof(node->reason), "%s", seen->reason);
		if (node->claim[0] && isfinite(seen->deadline_s))
			node->due_s = fmin(node->due_s, seen->deadline_s);
		if (news)
			record_view(ctld, node);
		ctld_node_changed(ctld, node);
	}
}

static void lose_node(struct ctld *ctld, struct node *node, const char *why)
{
	agent_close(ctld, node);
	for (size_t i = 0; i < jobs_count(ctld->jobs); i++) {
		struct job *job = jobs_at(ctld->jobs, i);
		struct world *next;

		job_copy_forget(job, node->name);
		for (struct world *world = job->worlds; world; world = next) {
			struct member *member = world_member(world, node);

			next = world->next;
			if (!member || member->exited)
				continue;
			world_member_exited(member);
			if (world->phase != WORLD_LEFT && !world->killed)
				life_world_lost(ctld, world, why, 1);
			else if (world->finished) /* the others wait for it in vain */
				life_world_end(ctld, world, why);
			life_world_changed(ctld, world);
		}
	}
}

static void claim_over(struct ctld *ctld, struct node *node, const struct sched_claim *claim)
{
	log_info("claim", "node %s: claim %s killed=%u %s", node->name,
		claim->event == SCHED_FAILED ? "failed" : "ended", claim->killed,
		claim->why ? claim->why : "");
	journal_write(ctld->journal, "claim_end", json_pack("{s:s}", "claim", claim->id));
	lose_node(ctld, node, "a node was lost");
	/* An agent that never came will not come at once: wait longer each time. */
	node->barren = node->came ? 0 : node->barren + 1;
	node->claim_after_s = loop_now_s(ctld->loop) +
		fmin(CLAIM_AGAIN_S * (1 << (node->barren < 9 ? node->barren : 9)), 60);
	node_forget_claim(node);
	ctld_node_changed(ctld, node);
	cycle_poke(ctld->cycle, "node left");
}

static void on_claim(const struct sched_claim *claim, void *arg)
{
	struct ctld *ctld = arg;
	struct node *node = pool_find_claim(ctld->pool, claim->id);

	if (!node)
		return;
	switch (claim->event) {
	case SCHED_STARTED:
		node->agent_pid = claim->pid;
		node->agent_ticks = claim->start_ticks;
		journal_write(ctld->journal, "claim",
			json_pack("{s:s, s:s, s:I, s:I, s:I}", "node", node->name, "claim",
				claim->id, "uid", (json_int_t)geteuid(), "pid",
				(json_int_t)claim->pid, "ticks",
				(json_int_t)claim->start_ticks));
		break;
	case SCHED_NOTICE:
		node->due_s = fmin(node->due_s, claim->deadline_s);
		ctld_node_changed(ctld, node);
		break;
	case SCHED_FAILED:
	case SCHED_ENDED:
		claim_over(ctld, node, claim);
		break;
	case SCHED_EVENT_NONE:
		break;
	}
}

/* --- time -------------------------------------------------------------------- */

static int all_are_back(struct ctld *ctld)
{
	for (size_t i = 0; i < pool_count(ctld->pool); i++)
		if (pool_at(ctld->pool, i)->claim[0] && !pool_at(ctld->pool, i)->told)
			return 0;
	return 1;
}

/* Its process is there and does not speak: give the claim up, the next may do. */
static void end_silent_claim(struct ctld *ctld, struct node *node)
{
	struct err err = { "" };
	double now = loop_now_s(ctld->loop);

	if (node->link || node->came || now - node->claimed_at_s < HELLO_LIMIT_S)
		return;
	log_warning("claim", "node %s: no agent for %.0f s, given up claim=%s", node->name,
		now - node->claimed_at_s, node->claim);
	node->claimed_at_s = now;
	if (sched_release(ctld->sched, node->claim, &err) != 0)
		log_warning("claim", "node %s: %s", node->name, err.text);
}

static void free_buried(struct ctld *ctld)
{
	while (ctld->buried) {
		struct world *world = ctld->buried;

		ctld->buried = world->next;
		world_destroy(world);
	}
}

static void on_tick(void *arg)
{
	struct ctld *ctld = arg;
	double now = loop_now_s(ctld->loop);

	loop_timer_start(ctld->tick, TICK_S);
	free_buried(ctld);
	if (ctld->adopt_until_s > 0) {
		if (now < ctld->adopt_until_s && !all_are_back(ctld))
			return;
		ctld->adopt_until_s = 0;
		restore_finish(ctld);
	}
	for (size_t i = 0; i < jobs_count(ctld->jobs); i++)
		life_job_tick(ctld, jobs_at(ctld->jobs, i));
	for (size_t i = 0; i < pool_count(ctld->pool); i++) {
		struct node *node = pool_at(ctld->pool, i);

		if (node->state == NODE_HOLE || node->state == NODE_LEAVING)
			ctld_node_changed(ctld, node);
		if (node->claim[0])
			end_silent_claim(ctld, node);
	}
	if (now - ctld->account_at_s > ACCOUNT_S)
		record_account(ctld);
}

static void on_signal(int signo, void *arg)
{
	struct ctld *ctld = arg;

	log_notice("ctld", "signal %d: going, agents and workers stay", signo);
	ctld->stopping = 1;
	record_account(ctld);
	loop_stop(ctld->loop);
}

/* --- building ---------------------------------------------------------------- */

static int create_sched(struct ctld *ctld, const struct restored *restored, struct err *err)
{
	const struct config *config = &ctld->config;
	char replica[64], grace[64], level[64];
	const char *const env[] = { replica, grace, level, NULL };
	static const struct sched_handlers handlers = { on_view, on_claim };
	struct sched_config sched = {
		.backend = config->backend,
		.nodes = config->nodes,
		.node_cpus = config->node_cpus,
		.trace_file = config->trace_file[0] ? config->trace_file : NULL,
		.seed = (unsigned)config->trace_seed,
		.idle_share = config->trace_idle_share,
		.hours = config->trace_hours,
		.speedup = config->trace_speedup,
		.end = !config->trace_loop,
		.grace_s = config->grace_s,
		.origin_s = restored->origin_wall_s,
		.agent = config->agent,
		.run_dir = config->run_dir,
		.socket = config->socket,
		.instance = ctld->cgroup_name,
		.env = env,
	};

	snprintf(replica, sizeof(replica), "MALLE_REPLICA_S=%g", config->replica_s);
	snprintf(grace, sizeof(grace), "MALLE_GRACE_S=%g", config->grace_s);
	snprintf(level, sizeof(level), "MALLE_LOG=%s", config->log_level);
	ctld->sched = sched_create(&sched, ctld->loop, &handlers, ctld, err);
	return ctld->sched ? 0 : -1;
}

static void adopt_claims(struct ctld *ctld)
{
	for (size_t i = 0; i < pool_count(ctld->pool); i++) {
		struct node *node = pool_at(ctld->pool, i);
		struct sched_adoption claim = { node->claim, node->name, geteuid(),
			node->agent_pid, node->agent_ticks };
		struct err err = { "" };

		if (!node->claim[0])
			continue;
		node->claimed_at_s = loop_now_s(ctld->loop);
		if (sched_adopt(ctld->sched, &claim, &err) != 0) {
			log_warning("claim", "node %s: %s", node->name, err.text);
			node_forget_claim(node);
		}
	}
	/* Jobs of before are taken up also where no agent is left to wait for. */
	if (jobs_count(ctld->jobs) > 0 || !all_are_back(ctld))
		ctld->adopt_until_s = loop_now_s(ctld->loop) + ADOPT_S;
}

static int restore(struct ctld *ctld, struct restored *restored, struct err *err)
{
	if (restore_read(ctld, restored, err) != 0)
		return -1;
	ctld->offered_before_s = restored->offered_node_s;
	ctld->totals.used_node_s = restored->used_node_s;
	ctld->totals.node_s = restored->node_s;
	ctld->totals.probe_node_s = restored->probe_node_s;
	snprintf(ctld->cgroup_name, sizeof(ctld->cgroup_name), "%s",
		restored->instance[0] ? restored->instance : ctld->instance);
	return 0;
}

static int build(struct ctld *ctld, struct err *err)
{
	struct restored restored;

	ctld->loop = loop_create(err);
	if (!ctld->loop || dirs_make_for(ctld->config.socket, 0755, err) != 0 ||
		dirs_make(ctld->config.run_dir, 0755, err) != 0)
		return -1;
	ctld->started_s = loop_now_s(ctld->loop);
	ctld->journal = journal_open(ctld->config.state_dir, ctld->loop, err);
	ctld->pool = pool_create();
	ctld->jobs = jobs_create();
	if (!ctld->journal)
		return -1;
	if (!ctld->pool || !ctld->jobs)
		return err_set(err, ENOMEM, "starting: out of memory");
	ctld->cycle = cycle_create(ctld, err);
	if (!ctld->cycle || restore(ctld, &restored, err) != 0 ||
		create_sched(ctld, &restored, err) != 0)
		return -1;
	ctld->peers = peers_create(ctld, err);
	ctld->tick = loop_timer_create(ctld->loop, on_tick, ctld);
	ctld->sigterm = loop_signal_create(ctld->loop, SIGTERM, on_signal, ctld);
	ctld->sigint = loop_signal_create(ctld->loop, SIGINT, on_signal, ctld);
	if (!ctld->peers)
		return -1;
	if (!ctld->tick || !ctld->sigterm || !ctld->sigint)
		return err_set(err, ENOMEM, "starting: out of memory");
	return journal_commit(ctld->journal, "start",
		       json_pack("{s:s, s:s, s:f}", "instance", ctld->instance, "name",
			       ctld->cgroup_name, "origin",
			       sched_origin_s(ctld->sched))) == 0
		? 0
		: err_set(err, EIO, "%s: the journal cannot be written",
			  ctld->config.state_dir);
}

struct ctld *ctld_create(struct config *config_take, struct err *err)
{
	struct ctld *ctld = calloc(1, sizeof(*ctld));

	if (!ctld) {
		err_set(err, ENOMEM, "starting: out of memory");
		return NULL;
	}
	ctld->config = *config_take;
	memset(config_take, 0, sizeof(*config_take));
	random_name(ctld->instance);
	if (build(ctld, err) != 0) {
		ctld_destroy(ctld);
		return NULL;
	}
	adopt_claims(ctld);
	return ctld;
}

void ctld_destroy(struct ctld *ctld)
{
	int saved = errno;

	if (!ctld)
		return;
	loop_signal_destroy(ctld->sigint);
	loop_signal_destroy(ctld->sigterm);
	loop_timer_destroy(ctld->tick);
	for (size_t i = 0; ctld->jobs && i < jobs_count(ctld->jobs); i++)
		rescale_abandon(jobs_at(ctld->jobs, i));
	free_buried(ctld);
	peers_destroy(ctld->peers);
	sched_destroy(ctld->sched);
	cycle_destroy(ctld->cycle);
	jobs_destroy(ctld->jobs);
	pool_destroy(ctld->pool);
	journal_close(ctld->journal);
	loop_destroy(ctld->loop);
	config_fini(&ctld->config);
	free(ctld);
	errno = saved;
}

int ctld_run(struct ctld *ctld)
{
	/* Not before: a start that is refused has one line to say. */
	log_notice("sched", "%s", sched_isolation(ctld->sched));
	log_notice("ctld", "serving socket=%s backend=%s jobs=%zu", ctld->config.socket,
		ctld->config.backend, jobs_count(ctld->jobs));
	sched_poll(ctld->sched);
	loop_timer_start(ctld->tick, TICK_S);
	return loop_run(ctld->loop);
}
