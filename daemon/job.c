/*
 * job.c - malleable jobs.
 *
 * The table of jobs and what is known of each.  What happens to a job is
 * decided elsewhere: by people (h_client.c), by the cycle (cycle.c) and by its
 * open transaction (rescale.c).  Ended jobs stay in the table for those who ask
 * afterwards.
 */
#include "daemon/job.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/msg.h"

struct jobs {
	struct job **jobs;
	size_t n_jobs;
	unsigned long last_id;
};

static const char *const state_names[] = {
	[JOB_UNSET] = "unset",
	[JOB_WAITING] = "waiting",
	[JOB_STARTING] = "starting",
	[JOB_RUNNING] = "running",
	[JOB_PAUSING] = "pausing",
	[JOB_PAUSED] = "paused",
	[JOB_STOPPING] = "stopping",
	[JOB_ENDED] = "ended",
};

static const char *const count_names[] = {
	[COUNT_GROW] = "grow",
	[COUNT_SHRINK] = "shrink",
	[COUNT_FORCED] = "forced",
	[COUNT_MOVED] = "moved",
	[COUNT_FAILED] = "failed",
};

const char *job_state_name(enum job_state state)
{
	return state_names[state];
}

const char *rescale_count_name(enum rescale_count count)
{
	return count_names[count];
}

struct jobs *jobs_create(void)
{
	return calloc(1, sizeof(struct jobs));
}

static void job_destroy(struct job *job)
{
	if (!job)
		return;
	while (job->worlds)
		world_destroy(job->worlds);
	job_request_fini(&job->request);
	sampler_destroy(job->sampler);
	prober_destroy(job->prober);
	curve_fini(&job->curve);
	free(job->copies);
	free(job->pauses.s);
	free(job->tail);
	free(job);
}

void jobs_destroy(struct jobs *jobs)
{
	if (!jobs)
		return;
	for (size_t i = 0; i < jobs->n_jobs; i++)
		job_destroy(jobs->jobs[i]);
	free(jobs->jobs);
	free(jobs);
}

void job_request_fini(struct job_request *request)
{
	free(request->name);
	free(request->argv);
	free(request->env);
	free(request->cwd);
	free(request->mode);
	free(request->launcher);
	free(request->output);
	free(request->spool);
	free(request->token);
	memset(request, 0, sizeof(*request));
}

/* "%j" in the name of the output file is the job's id. */
static int expand_output(struct job *job)
{
	char *mark, *whole;

	while (job->request.output && (mark = strstr(job->request.output, "%j"))) {
		if (asprintf(&whole, "%.*s%s%s", (int)(mark - job->request.output),
			    job->request.output, job->id, mark + 2) < 0)
			return -1;
		free(job->request.output);
		job->request.output = whole;
	}
	return 0;
}

struct job *jobs_add(struct jobs *jobs, struct job_request *request_take, const char *id)
{
	struct job **grown = realloc(jobs->jobs, (jobs->n_jobs + 1) * sizeof(*grown));
	struct job *job = calloc(1, sizeof(*job));
	unsigned long number = id ? strtoul(id, NULL, 10) : jobs->last_id + 1;

	if (grown)
		jobs->jobs = grown;
	if (!grown || !job) {
		free(job);
		errno = ENOMEM;
		return NULL;
	}
	snprintf(job->id, sizeof(job->id), "%lu", number);
	job->state = JOB_WAITING;
	curve_init(&job->curve);
	job->request = *request_take;
	if (expand_output(job) != 0) {
		*request_take = job->request;
		free(job);
		errno = ENOMEM;
		return NULL;
	}
	memset(request_take, 0, sizeof(*request_take));
	if (number > jobs->last_id)
		jobs->last_id = number;
	grown[jobs->n_jobs++] = job;
	return job;
}

void jobs_drop_newest(struct jobs *jobs)
{
	job_destroy(jobs->jobs[--jobs->n_jobs]);
}

struct job *jobs_find(const struct jobs *jobs, const char *id)
{
	for (size_t i = 0; i < jobs->n_jobs; i++)
		if (!strcmp(jobs->jobs[i]->id, id))
			return jobs->jobs[i];
	return NULL;
}

struct job *jobs_find_token(const struct jobs *jobs, uid_t uid, const char *token)
{
	for (size_t i = 0; i < jobs->n_jobs; i++) {
		const struct job_request *request = &jobs->jobs[i]->request;

		if (request->uid == uid && request->token && !strcmp(request->token, token))
			return jobs->jobs[i];
	}
	return NULL;
}

size_t jobs_count(const struct jobs *jobs)
{
	return jobs->n_jobs;
}

struct job *jobs_at(const struct jobs *jobs, size_t i)
{
	return jobs->jobs[i];
}

/* Fields were checked by their table: copying can only run out of memory. */
static char *copy_str(const json_t *fields, const char *name, int *failed)
{
	const char *text = json_string_value(json_object_get(fields, name));
	char *copy = text ? strdup(text) : NULL;

	if (text && !copy)
		*failed = 1;
	return copy;
}

static char **copy_strv(const json_t *fields, const char *name, int *failed)
{
	struct msg view = { .body = (json_t *)fields };
	char **copy = msg_strv(&view, name);

	if (!copy)
		*failed = 1;
	return copy;
}

static int judge(const struct job_request *request, struct err *err)
{
	if (request->min_nodes > request->max_nodes)
		return err_set(err, EINVAL, "min_nodes: %d is more than max_nodes %d",
			request->min_nodes, request->max_nodes);
	if (request->cwd[0] != '/')
		return err_set(err, EINVAL, "cwd: %s is not absolute", request->cwd);
	if (request->spool[0] != '/')
		return err_set(err, EINVAL, "spool: %s is not absolute", request->spool);
	if (strcmp(request->mode, "swap") != 0)
		return err_set(err, EINVAL, "mode: %s is not offered, only swap",
			request->mode);
	if (strcmp(request->launcher, "mpi") && strcmp(request->launcher, "env") &&
		strcmp(request->launcher, "torch"))
		return err_set(err, EINVAL, "launcher: %s is not mpi, torch or env",
			request->launcher);
	return 0;
}

int job_request_read(struct job_request *request, const json_t *fields, uid_t uid,
	gid_t gid, struct err *err)
{
	int failed = 0;
	json_t *priority = json_object_get(fields, "priority");

	memset(request, 0, sizeof(*request));
	request->name = copy_str(fields, "name", &failed);
	request->argv = copy_strv(fields, "argv", &failed);
	request->env = copy_strv(fields, "env", &failed);
	request->cwd = copy_str(fields, "cwd", &failed);
	request->mode = copy_str(fields, "mode", &failed);
	request->launcher = copy_str(fields, "launcher", &failed);
	request->output = copy_str(fields, "output", &failed);
	request->spool = copy_str(fields, "spool", &failed);
	request->token = copy_str(fields, "token", &failed);
	request->min_nodes = (int)json_integer_value(json_object_get(fields, "min_nodes"));
	request->max_nodes = (int)json_integer_value(json_object_get(fields, "max_nodes"));
	request->nproc = (int)json_integer_value(json_object_get(fields, "nproc"));
	request->priority = priority ? json_number_value(priority) : 1.0;
	request->uid = uid;
	request->gid = gid;
	if (failed)
		err_set(err, ENOMEM, "reading the request: out of memory");
	else if (judge(request, err) == 0)
		return 0;
	failed = errno;
	job_request_fini(request);
	errno = failed;
	return -1;
}

static json_t *strv_json(char *const *strv)
{
	json_t *list = json_array();

	for (; list && *strv; strv++)
		json_array_append_new(list, json_string(*strv));
	return list;
}

json_t *job_request_json(const struct job_request *request)
{
	return json_pack("{s:s, s:o, s:o, s:s, s:s, s:s, s:s*, s:s, s:s*, s:i, s:i, s:i, s:f, "
			 "s:I, s:I}",
		"name", request->name, "argv", strv_json(request->argv), "env",
		strv_json(request->env), "cwd", request->cwd, "mode", request->mode, "launcher",
		request->launcher, "output", request->output, "spool", request->spool, "token",
		request->token, "min_nodes", request->min_nodes, "max_nodes",
		request->max_nodes, "nproc", request->nproc, "priority", request->priority,
		"uid", (json_int_t)request->uid, "gid", (json_int_t)request->gid);
}

int job_wants_nodes(const struct job *job)
{
	return job->state != JOB_ENDED && !job->held && !job->cancelled && !job->finished;
}

struct world *job_world(const struct job *job, long long generation)
{
	for (struct world *world = job->worlds; world; world = world->next)
		if (world->generation == generation)
			return world;
	return NULL;
}

int job_copy_add(struct job *job, const char *node, long long step, long long cursor)
{
	struct job_copy *grown;

	for (size_t i = 0; i < job->n_copies; i++)
		if (!strcmp(job->copies[i].node, node)) {
			job->copies[i].step = step;
			job->copies[i].cursor = cursor;
			return 0;
		}
	grown = realloc(job->copies, (job->n_copies + 1) * sizeof(*grown));
	if (!grown)
		return -1;
	job->copies = grown;
	grown += job->n_copies++;
	snprintf(grown->node, sizeof(grown->node), "%s", node);
	grown->step = step;
	grown->cursor = cursor;
	return 0;
}

void job_copy_forget(struct job *job, const char *node)
{
	for (size_t i = 0; i < job->n_copies; i++)
		if (!strcmp(job->copies[i].node, node)) {
			job->copies[i] = job->copies[--job->n_copies];
			return;
		}
}

const struct job_copy *job_copy_newest(const struct job *job, const char *prefer)
{
	const struct job_copy *best = NULL;

	for (size_t i = 0; i < job->n_copies; i++) {
		const struct job_copy *copy = &job->copies[i];

		if (!best || copy->step > best->step ||
			(copy->step == best->step && prefer &&
				!strcmp(copy->node, prefer)) ||
			(copy->step == best->step && !best->node[0]))
			best = copy;
	}
	return best;
}

int pauses_add(struct job_pauses *pauses, double pause_s)
{
	double *grown = realloc(pauses->s, (pauses->n + 1) * sizeof(*grown));

	if (!grown)
		return -1;
	pauses->s = grown;
	grown[pauses->n++] = pause_s;
	return 0;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double pauses_quantile(const struct job_pauses *pauses, double q)
{
	double *sorted, value;

	if (pauses->n == 0)
		return 0;
	sorted = malloc(pauses->n * sizeof(*sorted));
	if (!sorted)
		return 0;
	memcpy(sorted, pauses->s, pauses->n * sizeof(*sorted));
	qsort(sorted, pauses->n, sizeof(*sorted), by_value);
	value = sorted[(size_t)(q * (double)(pauses->n - 1) + 0.5)];
	free(sorted);
	return value;
}

void job_output_keep(struct job *job, const void *data, size_t size)
{
	const char *bytes = data;

	job->output_bytes += (long long)size;
	if (!job->tail)
		job->tail = malloc(JOB_OUTPUT_KEEP);
	if (!job->tail)
		return;
	if (size > JOB_OUTPUT_KEEP) {
		bytes += size - JOB_OUTPUT_KEEP;
		size = JOB_OUTPUT_KEEP;
	}
	if (job->tail_size + size > JOB_OUTPUT_KEEP) {
		size_t drop = job->tail_size + size - JOB_OUTPUT_KEEP;

		memmove(job->tail, job->tail + drop, job->tail_size - drop);
		job->tail_size -= drop;
	}
	memcpy(job->tail + job->tail_size, bytes, size);
	job->tail_size += size;
}
