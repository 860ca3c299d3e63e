/*
 * problem.c - the problem as values, and what a size is worth.
 *
 * f_j(k) = T * v_j(k) - cost_j(k), with v the (weighted) rate or speed-up and
 * the cost of growing, shrinking, starting or changing the kind of node, each in
 * seconds of what the job makes before (or, at a start, after) the change.
 *
 * Speed-up is against one node of the kind on which one node is fastest, so
 * that a job's values on two kinds can be compared.
 */
#include "allocator/problem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static double unit_rate(const struct problem *problem, const struct problem_job *job)
{
	double best = 0;

	for (size_t t = 0; t < problem->n_kinds; t++) {
		double rate = curve_rate(&job->curves[t], 1);

		best = rate > best ? rate : best;
	}
	return best;
}

static double speed(const struct problem *problem, const struct problem_job *job,
	int kind, int nodes)
{
	double rate = job->weight * curve_rate(&job->curves[kind], nodes);

	return problem->objective == OBJECTIVE_THROUGHPUT ? rate
							  : rate / job->unit_rate;
}

static int limit_of(const struct problem *problem, const char *user)
{
	for (size_t i = 0; user && i < problem->n_limits; i++)
		if (!strcmp(problem->limits[i].user, user))
			return (int)i;
	return -1;
}

void problem_finish(struct problem *problem)
{
	for (size_t j = 0; j < problem->n_jobs; j++) {
		struct problem_job *job = &problem->jobs[j];

		job->limit = limit_of(problem, job->user);
		job->unit_rate = unit_rate(problem, job);
		job->present_speed =
			speed(problem, job, job->present_kind, job->present);
	}
}

double problem_value(const struct problem *problem, size_t j, int kind, int nodes)
{
	const struct problem_job *job = &problem->jobs[j];
	double before = job->present_speed;
	double after = speed(problem, job, kind, nodes);
	double cost = 0;

	if (job->present > 0 && nodes > 0 && kind != job->present_kind)
		cost = job->shrink_s * before + job->start_s * after;
	else if (job->present == 0)
		cost = nodes > 0 ? job->start_s * after : 0;
	else if (nodes > job->present)
		cost = job->grow_s * before;
	else if (nodes < job->present)
		cost = job->shrink_s * before;
	return problem->horizon_s * after - cost;
}

int problem_allows(const struct problem *problem, size_t j, int kind, int nodes)
{
	const struct problem_job *job = &problem->jobs[j];

	if (nodes == 0)
		return 1;
	return nodes >= job->min_nodes && nodes <= job->max_nodes &&
	       nodes <= problem->kind_nodes[kind] && job->curves[kind].n_points > 0;
}

int problem_top(const struct problem *problem, size_t j, int kind)
{
	const struct problem_job *job = &problem->jobs[j];
	int top = job->max_nodes;

	if (top > problem->kind_nodes[kind])
		top = problem->kind_nodes[kind];
	return job->curves[kind].n_points == 0 ? 0 : top;
}

int problem_only_kind(const struct problem *problem)
{
	int only = 0, used = 0;

	for (size_t t = 0; t < problem->n_kinds; t++)
		if (problem->kind_nodes[t] > 0) {
			only = (int)t;
			used++;
		}
	return used > 1 ? -1 : only;
}

void problem_destroy(struct problem *problem)
{
	int saved = errno;

	if (!problem)
		return;
	for (size_t i = 0; i < problem->n_nodes; i++)
		free(problem->nodes[i].name);
	for (size_t i = 0; i < problem->n_jobs; i++) {
		struct problem_job *job = &problem->jobs[i];

		for (size_t t = 0; job->curves && t < problem->n_kinds; t++)
			curve_fini(&job->curves[t]);
		free(job->curves);
		free(job->id);
		free(job->user);
	}
	for (size_t i = 0; i < problem->n_limits; i++)
		free(problem->limits[i].user);
	for (size_t i = 0; i < problem->n_kinds; i++)
		free(problem->kinds[i]);
	free(problem->nodes);
	free(problem->jobs);
	free(problem->limits);
	free(problem->kinds);
	free(problem->kind_nodes);
	free(problem);
	errno = saved;
}
