/*
 * restore.c - the daemon of before, rebuilt from its journal.
 *
 * Reading gives what was decided: jobs, their worlds with the nodes in order,
 * which of them was told to go, claims and the processes they were started as.
 * What is true now is told by the agents when they come back (h_agent.c).  The
 * two are brought together when all agents have come, or at the end of a short
 * time: restore_finish.
 *
 *   the current world, all members there      -> goes on
 *   a member has not come                     -> the world is lost, by a node
 *   a next world and the current one trains   -> the next is ended (rolled back)
 *   a next world and the current one has left -> the transaction is taken up
 *
 * A crash between writing a record and acting on it leaves a world that no
 * agent knows: no member tells of it, so it is lost, and nothing else is.
 */
#include "daemon/restore.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/cycle.h"
#include "daemon/life.h"
#include "daemon/rescale.h"
#include "proto/log.h"
#include "proto/msg.h"

struct reading {
	struct ctld *ctld;
	struct restored *restored;
	struct err *err;
};

static const char *str(const json_t *record, const char *key)
{
	const char *text = json_string_value(json_object_get(record, key));

	return text ? text : "";
}

static long long num(const json_t *record, const char *key)
{
	return json_integer_value(json_object_get(record, key));
}

static double real(const json_t *record, const char *key)
{
	return json_number_value(json_object_get(record, key));
}

static struct job *job_of(struct reading *reading, const json_t *record)
{
	return jobs_find(reading->ctld->jobs, str(record, "job"));
}

static int on_start(struct reading *reading, const json_t *record)
{
	struct restored *restored = reading->restored;

	restored->origin_wall_s = real(record, "origin");
	snprintf(restored->instance, sizeof(restored->instance), "%s", str(record, "name"));
	return 0;
}

/* A job was taken as job.submit, and is held to the same table. */
static int check_submit(const json_t *record, struct err *err)
{
	char *text = json_dumps(record, JSON_COMPACT);
	struct msg msg;
	int rc;

	if (!text)
		return err_set(err, ENOMEM, "restoring jobs: out of memory");
	rc = msg_decode(&msg, MSG_JOB_SUBMIT, 0, (const uint8_t *)text, strlen(text), err);
	if (rc == 0)
		msg_fini(&msg);
	else if (errno != ENOMEM)
		errno = EINVAL;
	free(text);
	return rc;
}

static int on_job(struct reading *reading, const json_t *record)
{
	struct job_request request;
	struct job *job;

	if (!str(record, "job")[0] || job_of(reading, record))
		return err_set(reading->err, EINVAL, "job %s: no id of a new job",
			str(record, "job"));
	if (check_submit(record, reading->err) != 0 ||
		job_request_read(&request, record, (uid_t)num(record, "uid"),
			(gid_t)num(record, "gid"), reading->err) != 0)
		return -1;
	job = jobs_add(reading->ctld->jobs, &request, str(record, "job"));
	if (!job) {
		job_request_fini(&request);
		return err_set(reading->err, ENOMEM, "restoring jobs: out of memory");
	}
	job->submit_s = real(record, "submit_s");
	return cycle_adopt_job(reading->ctld->cycle, job, reading->err);
}

static struct node *node_named(struct reading *reading, const json_t *name)
{
	const char *text = json_string_value(name);
	struct node *node;

	if (!text || !text[0] || strlen(text) >= NODE_NAME_SIZE) {
		err_set(reading->err, EINVAL, "\"%.80s\" is no name of a node",
			text ? text : "");
		return NULL;
	}
	node = pool_node(reading->ctld->pool, text);
	if (!node)
		err_set(reading->err, ENOMEM, "restoring nodes: out of memory");
	return node;
}

static int on_world(struct reading *reading, const json_t *record)
{
	struct job *job = job_of(reading, record);
	const json_t *names = json_object_get(record, "nodes");
	size_t n = json_array_size(names);
	struct node **nodes;
	struct world *world;

	if (!job || n == 0)
		return 0;
	nodes = calloc(n, sizeof(*nodes));
	if (!nodes)
		return err_set(reading->err, ENOMEM, "restoring worlds: out of memory");
	for (size_t i = 0; i < n; i++) {
		nodes[i] = node_named(reading, json_array_get(names, i));
		if (!nodes[i]) {
			int saved = errno;

			free(nodes);
			errno = saved;
			return -1;
		}
	}
	world = world_create(job, num(record, "generation"), nodes, n);
	free(nodes);
	if (!world)
		return err_set(reading->err, ENOMEM, "restoring worlds: out of memory");
	job->generation = world->generation;
	world->named_at_wall_s = real(record, "t");
	return 0;
}

static int on_go(struct reading *reading, const json_t *record)
{
	struct job *job = job_of(reading, record);
	struct world *world = job ? job_world(job, num(record, "generation")) : NULL;

	if (!world)
		return 0;
	if (job->start_s == 0)
		job->start_s = real(record, "t");
	job->current = world;
	world->phase = WORLD_RUNNING;
	job->step = num(record, "step");
	job->cursor = num(record, "cursor");
	return 0;
}

static int on_gone(struct reading *reading, const json_t *record)
{
	struct job *job = job_of(reading, record);

	if (job)
		world_destroy(job_world(job, num(record, "generation")));
	return 0;
}

static int on_lost(struct reading *reading, const json_t *record)
{
	struct job *job = job_of(reading, record);
	struct world *world = job ? job_world(job, num(record, "generation")) : NULL;

	if (!world)
		return 0;
	job->failures++;
	world->killed = 2;
	world->phase = WORLD_EXITING;
	if (job->current == world)
		job->current = NULL;
	return 0;
}

static int on_spooled(struct reading *reading, const json_t *record)
{
	struct job *job = job_of(reading, record);

	if (job)
		job_copy_add(job, "", num(record, "step"), num(record, "cursor"));
	return 0;
}

static int on_state(struct reading *reading, const json_t *record)
{
	struct job *job = job_of(reading, record);

	if (!job)
		return 0;
	job->held = json_is_true(json_object_get(record, "held"));
	for (enum job_state state = JOB_WAITING; state < JOB_ENDED; state++)
		if (!strcmp(job_state_name(state), str(record, "state")))
			job->state = state;
	snprintf(job->reason, sizeof(job->reason), "%s", str(record, "reason"));
	return 0;
}

static int on_cancel(struct reading *reading, const json_t *record)
{
	struct job *job = job_of(reading, record);

	if (job)
		job->cancelled = json_is_true(json_object_get(record, "force")) ? 2 : 1;
	return 0;
}

static int on_end(struct reading *reading, const json_t *record)
{
	struct job *job = job_of(reading, record);

	if (!job)
		return 0;
	while (job->worlds)
		world_destroy(job->worlds);
	job->state = JOB_ENDED;
	job->exit_code = (int)num(record, "code");
	job->cursor = num(record, "cursor");
	job->end_s = real(record, "t");
	snprintf(job->reason, sizeof(job->reason), "%s", str(record, "reason"));
	return 0;
}

static void count_rescale(struct job *job, const json_t *record)
{
	const char *kind = str(record, "kind"), *result = str(record, "result");

	if (!strcmp(result, "failed"))
		job->counts[COUNT_FAILED]++;
	if (strcmp(result, "done"))
		return;
	if (json_is_true(json_object_get(record, "forced")))
		job->counts[COUNT_FORCED]++;
	if (!strcmp(kind, "grow"))
		job->counts[COUNT_GROW]++;
	else if (!strcmp(kind, "shrink") || (!strcmp(kind, "pause") && num(record, "from") > 0))
		job->counts[COUNT_SHRINK]++;
	else if (!strcmp(kind, "move"))
		job->counts[COUNT_MOVED]++;
	if (num(record, "from") > 0 && num(record, "to") > 0)
		pauses_add(&job->pauses, real(record, "pause_s"));
}

static int on_rescale(struct reading *reading, const json_t *record)
{
	struct job *job = job_of(reading, record);

	if (job)
		count_rescale(job, record);
	return 0;
}

static int on_curve(struct reading *reading, const json_t *record)
{
	struct job *job = job_of(reading, record);
	const json_t *points = json_object_get(record, "points");

	for (size_t i = 0; job && i < json_array_size(points); i++) {
		const json_t *point = json_array_get(points, i);
		struct curve_point at = {
			.nodes = (int)json_integer_value(json_array_get(point, 0)),
			.rate_per_s = json_number_value(json_array_get(point, 1)),
			.ci_per_s = json_number_value(json_array_get(point, 2)),
		};

		if (curve_set(&job->curve, at) != 0)
			return err_set(reading->err, errno, "restoring curves: %s",
				strerror(errno));
	}
	return 0;
}

static int on_claim(struct reading *reading, const json_t *record)
{
	struct node *node = node_named(reading, json_object_get(record, "node"));

	if (!node)
		return -1;
	snprintf(node->claim, sizeof(node->claim), "%s", str(record, "claim"));
	node->agent_pid = (pid_t)num(record, "pid");
	node->agent_ticks = (unsigned long long)num(record, "ticks");
	return 0;
}

static int on_claim_end(struct reading *reading, const json_t *record)
{
	struct node *node = pool_find_claim(reading->ctld->pool, str(record, "claim"));

	if (node)
		node_forget_claim(node);
	return 0;
}

static int on_account(struct reading *reading, const json_t *record)
{
	struct restored *restored = reading->restored;

	restored->offered_node_s = real(record, "offered_node_s");
	restored->used_node_s = real(record, "used_node_s");
	restored->node_s = real(record, "node_s");
	restored->probe_node_s = real(record, "probe_node_s");
	return 0;
}

/* Events that are not here (plan, released, commit ...) are for people and the
 * simulator: a restart does not need them. */
static const struct {
	const char *event;
	int (*take)(struct reading *reading, const json_t *record);
} rows[] = {
	{ "start", on_start },
	{ "job", on_job },
	{ "world", on_world },
	{ "go", on_go },
	{ "gone", on_gone },
	{ "lost", on_lost },
	{ "spooled", on_spooled },
	{ "state", on_state },
	{ "cancel", on_cancel },
	{ "end", on_end },
	{ "rescale", on_rescale },
	{ "curve", on_curve },
	{ "claim", on_claim },
	{ "claim_end", on_claim_end },
	{ "account", on_account },
};

static int on_record(const char *event, const json_t *record, void *arg, struct err *err)
{
	struct reading *reading = arg;

	reading->err = err;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (!strcmp(rows[i].event, event))
			return rows[i].take(reading, record);
	return 0;
}

int restore_read(struct ctld *ctld, struct restored *restored, struct err *err)
{
	struct reading reading = { ctld, restored, NULL };

	memset(restored, 0, sizeof(*restored));
	return journal_read(ctld->journal, on_record, &reading, err);
}

/* After a restart: the current world has all its members, or it is lost. */
static void settle_current(struct ctld *ctld, struct world *world)
{
	for (size_t i = 0; i < world->n_members; i++) {
		struct member *member = &world->members[i];

		if (!member->exited && !member->node->link) {
			life_world_lost(ctld, world, "a node did not come back", 1);
			return;
		}
	}
	world->job->progress_at_s = loop_now_s(ctld->loop);
	for (size_t i = 0; i < world->n_members; i++)
		rescale_tell_again(ctld, world, &world->members[i]);
}

static int all_are_there(const struct world *world)
{
	for (size_t i = 0; i < world->n_members; i++)
		if (!world->members[i].exited && !world->members[i].node->link)
			return 0;
	return 1;
}

/*
 * A world that came up without us.  mpirun needed us for its remote starts, so of
 * its worlds only those go on that had joined, or had been there for so long
 * that they never will: programs without libmalle.
 */
static int came_up(struct ctld *ctld, const struct world *world)
{
	double age_s = loop_wall_s(ctld->loop) - world->named_at_wall_s;

	return job_wants_nodes(world->job) && all_are_there(world) &&
	       (strcmp(world->job->request.launcher, "mpi") || world_any_ready(world) ||
		       age_s > ctld->config.prepare_limit_s);
}

static void settle_next(struct ctld *ctld, struct job *job, struct world *next)
{
	struct world *from = job->current;

	if (from ? from->phase == WORLD_LEFT : came_up(ctld, next))
		rescale_adopt(ctld, job, from, next);
	else
		life_world_end(ctld, next, "the daemon was restarted while it came up");
}

static void settle_job(struct ctld *ctld, struct job *job)
{
	struct world *next;

	prober_seed(job->prober, &job->curve);
	if (job->current)
		settle_current(ctld, job->current);
	for (struct world *world = job->worlds; world; world = next) {
		next = world->next;
		if (world == job->current || (job->rescale && job->rescale->to == world))
			continue;
		if (!world->killed && world->generation == job->generation && !job->rescale)
			settle_next(ctld, job, world);
		else if (!world->killed)
			life_world_end(ctld, world, "it is of before a restart");
	}
	for (struct world *world = job->worlds; world; world = next) {
		next = world->next;
		for (size_t i = 0; i < world->n_members; i++)
			if (!world->members[i].node->claim[0])
				world_member_exited(&world->members[i]);
		life_world_changed(ctld, world);
	}
	if (job->cancelled && !job->worlds)
		life_job_end(ctld, job, EXIT_PREEMPTED, "cancelled");
	if (job->state != JOB_ENDED)
		life_job_runs(ctld, job, NULL);
}

void restore_finish(struct ctld *ctld)
{
	log_notice("restore", "agents of before have come back, or will not");
	for (size_t i = 0; i < jobs_count(ctld->jobs); i++)
		if (jobs_at(ctld->jobs, i)->state != JOB_ENDED)
			settle_job(ctld, jobs_at(ctld->jobs, i));
	for (size_t i = 0; i < jobs_count(ctld->jobs); i++)
		life_job_give_back(ctld, jobs_at(ctld->jobs, i));
	cycle_poke(ctld->cycle, "restored");
}
