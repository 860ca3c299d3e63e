/*
 * status.c - what is going on, as JSON.
 *
 * Built from the daemon's memory alone: asking costs the scheduler nothing.
 * malle-status prints it as tables or as it is.
 */
#include "daemon/status.h"

#include <errno.h>
#include <math.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/cycle.h"
#include "daemon/rescale.h"

const char *status_daemon_state(const struct ctld *ctld)
{
	if (loop_now_s(ctld->loop) < ctld->adopt_until_s)
		return "adopting";
	return ctld->fresh ? "ok" : "degraded";
}

static json_t *names_json(const struct world *world)
{
	json_t *names = json_array();

	for (size_t i = 0; world && i < world->n_members; i++)
		json_array_append_new(names, json_string(world->members[i].node->name));
	return names;
}

static json_t *counts_json(const unsigned *counts)
{
	json_t *object = json_object();

	for (int i = 0; i < N_COUNTS; i++)
		json_object_set_new(object, rescale_count_name(i), json_integer(counts[i]));
	return object;
}

static json_t *pauses_json(const struct job_pauses *pauses)
{
	size_t n = pauses->n;

	return json_pack("{s:f, s:f, s:f, s:I}", "last", n ? pauses->s[n - 1] : 0.0, "p50",
		pauses_quantile(pauses, 0.5), "max", pauses_quantile(pauses, 1), "n",
		(json_int_t)n);
}

static json_t *curve_json(const struct curve *curve)
{
	json_t *points = json_array();

	for (size_t i = 0; i < curve->n_points; i++)
		json_array_append_new(points,
			json_pack("[i, f, f]", curve->points[i].nodes,
				curve->points[i].rate_per_s, curve->points[i].ci_per_s));
	return points;
}

static const char *user_name(uid_t uid, char *buf, size_t size)
{
	struct passwd *who = getpwuid(uid);

	snprintf(buf, size, "%u", (unsigned)uid);
	return who ? who->pw_name : buf;
}

static json_t *job_json(struct ctld *ctld, const struct job *job)
{
	const struct job_request *request = &job->request;
	const struct world *shown = rescale_shown_world(job);
	char uid[16];
	json_t *object = json_pack("{s:s, s:s, s:s, s:I, s:s, s:s, s:i, s:i, s:i, s:s, s:s, s:f}",
		"id", job->id, "name", request->name, "user",
		user_name(request->uid, uid, sizeof(uid)), "uid", (json_int_t)request->uid,
		"state", job_state_name(job->state), "reason", job->reason, "min_nodes",
		request->min_nodes, "max_nodes", request->max_nodes, "nproc", request->nproc,
		"mode", request->mode, "launcher", request->launcher, "priority",
		request->priority);
	json_t *more = json_pack(
		"{s:I, s:i, s:o, s:i, s:f, s:I, s:I, s:f, s:f, s:f, s:i, s:f, s:f, s:o, s:o, s:o, "
		"s:o, s:o}",
		"generation", (json_int_t)job->generation, "restarts", job->failures, "nodes",
		names_json(shown), "n_nodes", shown ? (int)shown->n_members : 0, "rate_per_s",
		cycle_rate(ctld->cycle, job), "cursor", (json_int_t)job->cursor, "step",
		(json_int_t)job->step, "submit_s", job->submit_s, "start_s", job->start_s,
		"end_s", job->end_s, "exit_code", job->exit_code, "node_s", job->node_s,
		"probe_node_s", job->probe_node_s, "rescales", counts_json(job->counts),
		"pause_s", pauses_json(&job->pauses), "transaction",
		job->rescale ? rescale_json(job->rescale) : json_null(), "probe",
		cycle_probe_json(ctld->cycle, job), "curve", curve_json(&job->curve));

	json_object_update(object, more);
	json_decref(more);
	return object;
}

/* Claims are what agents prove themselves with: only for those who run the daemon. */
static json_t *node_json(struct ctld *ctld, const struct node *node, uid_t only)
{
	double now = loop_now_s(ctld->loop);
	double end = isfinite(node->due_s) ? node->due_s : node->until_s;

	return json_pack("{s:s, s:s, s:o, s:s, s:o, s:s, s:i, s:f}", "name", node->name,
		"state", node_state_name(node->state), "job",
		node->job ? json_string(node->job->id) : json_null(), "claim",
		only == (uid_t)-1 ? node->claim : "",
		"until_s", isfinite(end) ? json_real(end > now ? end - now : 0) : json_null(),
		"reason", node->reason, "agent_pid", (int)node->agent_pid, "cpus", node->cpus);
}

static json_t *jobs_json(struct ctld *ctld, uid_t only)
{
	json_t *list = json_array();

	for (size_t i = 0; i < jobs_count(ctld->jobs); i++) {
		const struct job *job = jobs_at(ctld->jobs, i);

		if (only == (uid_t)-1 || job->request.uid == only)
			json_array_append_new(list, job_json(ctld, job));
	}
	return list;
}

static json_t *nodes_json(struct ctld *ctld, uid_t only)
{
	json_t *list = json_array();

	for (size_t i = 0; i < pool_count(ctld->pool); i++)
		json_array_append_new(list, node_json(ctld, pool_at(ctld->pool, i), only));
	return list;
}

static json_t *totals_json(struct ctld *ctld)
{
	unsigned counts[N_COUNTS] = { 0 };
	struct job_pauses all = { NULL, 0 };
	json_t *pauses;

	ctld_account(ctld);
	for (size_t i = 0; i < jobs_count(ctld->jobs); i++) {
		const struct job *job = jobs_at(ctld->jobs, i);

		for (int k = 0; k < N_COUNTS; k++)
			counts[k] += job->counts[k];
		for (size_t k = 0; k < job->pauses.n; k++)
			pauses_add(&all, job->pauses.s[k]);
	}
	pauses = pauses_json(&all);
	free(all.s);
	return json_pack("{s:f, s:f, s:f, s:f, s:o, s:o}", "offered_node_s",
		ctld->totals.offered_node_s, "used_node_s", ctld->totals.used_node_s, "node_s",
		ctld->totals.node_s, "probe_node_s", ctld->totals.probe_node_s, "rescales",
		counts_json(counts), "pause_s", pauses);
}

static json_t *daemon_json(struct ctld *ctld)
{
	return json_pack("{s:s, s:s, s:f, s:s, s:s, s:s}", "version", MALLE_VERSION, "instance",
		ctld->instance, "uptime_s", loop_now_s(ctld->loop) - ctld->started_s, "state",
		status_daemon_state(ctld), "backend", ctld->config.backend, "socket",
		ctld->config.socket);
}

static json_t *one_job(struct ctld *ctld, const char *id, uid_t only, struct err *err)
{
	const struct job *job = jobs_find(ctld->jobs, id);

	if (!job) {
		err_set(err, EINVAL, "job %s: there is none", id);
		return NULL;
	}
	if (only != (uid_t)-1 && job->request.uid != only) {
		err_set(err, EACCES, "job %s is not yours", id);
		return NULL;
	}
	return json_pack("{s:o}", "job", job_json(ctld, job));
}

static json_t *one_node(struct ctld *ctld, const char *id, uid_t only, struct err *err)
{
	const struct node *node = pool_find(ctld->pool, id);

	if (!node) {
		err_set(err, EINVAL, "node %s: there is none", id);
		return NULL;
	}
	return json_pack("{s:o}", "node", node_json(ctld, node, only));
}

json_t *status_json(struct ctld *ctld, const char *what, const char *id, uid_t only,
	struct err *err)
{
	if (!strcmp(what, "summary"))
		return json_pack("{s:o, s:o, s:o, s:o}", "daemon", daemon_json(ctld), "jobs",
			jobs_json(ctld, only), "nodes", nodes_json(ctld, only), "totals",
			totals_json(ctld));
	if (!strcmp(what, "jobs"))
		return json_pack("{s:o}", "jobs", jobs_json(ctld, only));
	if (!strcmp(what, "nodes"))
		return json_pack("{s:o}", "nodes", nodes_json(ctld, only));
	if (!strcmp(what, "job"))
		return one_job(ctld, id ? id : "", only, err);
	if (!strcmp(what, "node"))
		return one_node(ctld, id ? id : "", only, err);
	err_set(err, EINVAL, "%s: there is no such view", what);
	return NULL;
}
