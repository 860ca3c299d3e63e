/*
 * problem_read.c - a problem from JSON, strictly.
 *
 * Kinds first (jobs' curves are by kind), then jobs, then nodes (which name
 * jobs).  Every object is checked against the keys it may have; the place where
 * a reader is travels with it as a path, so that the sentence can say
 * "jobs[3].curve[1]: rate is negative".
 */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allocator/problem.h"

#define NAME_BYTES 255
#define VALUE_MAX 1e15

struct path {
	char text[160];
};

static struct path at(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

static struct path at(const char *fmt, ...)
{
	struct path path;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(path.text, sizeof(path.text), fmt, ap);
	va_end(ap);
	return path;
}

static int fault(struct err *err, struct path path, const char *why)
{
	return err_set(err, EINVAL, "%s: %s", path.text, why);
}

static int no_memory(struct err *err)
{
	return err_set(err, ENOMEM, "reading the problem: out of memory");
}

static int known_keys(const json_t *object, const char *prefix, const char *const *keys,
	struct err *err)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)object, key, value)
	{
		const char *const *k = keys;

		while (*k && strcmp(*k, key))
			k++;
		if (!*k)
			return fault(err, at("%s%.60s", prefix, key), "unknown key");
	}
	return 0;
}

/* A number of the range; absent: *out stays, when it may be. */
static int take_real(const json_t *object, const char *prefix, const char *key, int required,
	double min, double max, double *out, struct err *err)
{
	const json_t *value = json_object_get(object, key);
	double number;

	if (!value && !required)
		return 0;
	if (!value)
		return fault(err, at("%s%s", prefix, key), "is missing");
	if (!json_is_number(value))
		return fault(err, at("%s%s", prefix, key), "is not a number");
	number = json_number_value(value);
	if (!isfinite(number) || number < min || number > max)
		return err_set(err, EINVAL, "%s%s: %g is not between %g and %g", prefix, key,
			number, min, max);
	*out = number;
	return 0;
}

static int take_int(const json_t *object, const char *prefix, const char *key, int required,
	int min, int max, int *out, struct err *err)
{
	const json_t *value = json_object_get(object, key);
	double number = 0;

	if (value && json_is_real(value))
		return fault(err, at("%s%s", prefix, key), "is not a whole number");
	if (take_real(object, prefix, key, required, min, max, &number, err) != 0)
		return -1;
	if (value)
		*out = (int)number;
	return 0;
}

static int take_name(const json_t *object, const char *prefix, const char *key, int required,
	char **out, struct err *err)
{
	const json_t *value = json_object_get(object, key);
	const char *text = json_string_value(value);

	if ((!value || json_is_null(value)) && !required)
		return 0;
	if (!value)
		return fault(err, at("%s%s", prefix, key), "is missing");
	if (!text)
		return fault(err, at("%s%s", prefix, key), "is not a string");
	if (!text[0] || strlen(text) > NAME_BYTES || strlen(text) != json_string_length(value))
		return fault(err, at("%s%s", prefix, key), "is no name of 1 to 255 bytes");
	*out = strdup(text);
	return *out ? 0 : no_memory(err);
}

static int by_str(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* --- kinds -------------------------------------------------------------------- */

static int add_kind(struct problem *problem, const char *name)
{
	char **grown;

	for (size_t i = 0; i < problem->n_kinds; i++)
		if (!strcmp(problem->kinds[i], name))
			return 0;
	grown = realloc(problem->kinds, (problem->n_kinds + 1) * sizeof(*grown));
	if (!grown)
		return -1;
	problem->kinds = grown;
	grown[problem->n_kinds] = strdup(name);
	if (!grown[problem->n_kinds])
		return -1;
	problem->n_kinds++;
	return 0;
}

static int find_kind(const struct problem *problem, const char *name)
{
	for (size_t i = 0; i < problem->n_kinds; i++)
		if (!strcmp(problem->kinds[i], name))
			return (int)i;
	return -1;
}

/* Kinds are those of nodes and of curves; a curve's kind may have no node. */
static int collect_kinds(struct problem *problem, const json_t *nodes, const json_t *jobs,
	struct err *err)
{
	size_t i;
	json_t *item, *curve;
	const char *key;

	json_array_foreach((json_t *)nodes, i, item)
	{
		const char *kind = json_string_value(json_object_get(item, "kind"));

		if (add_kind(problem, kind ? kind : "") != 0)
			return no_memory(err);
	}
	json_array_foreach((json_t *)jobs, i, item)
	{
		json_object_foreach(json_object_get(item, "curves"), key, curve)
		{
			if (add_kind(problem, key) != 0)
				return no_memory(err);
		}
	}
	if (problem->n_kinds == 0 && add_kind(problem, "") != 0)
		return no_memory(err);
	qsort(problem->kinds, problem->n_kinds, sizeof(char *), by_str);
	problem->kind_nodes = calloc(problem->n_kinds, sizeof(int));
	return problem->kind_nodes ? 0 : no_memory(err);
}

/* --- jobs --------------------------------------------------------------------- */

static int read_point(const json_t *pair, struct path path, struct curve *curve,
	struct err *err)
{
	const json_t *nodes = json_array_get(pair, 0), *rate = json_array_get(pair, 1);
	struct curve_point point = { 0, 0, 0 };

	if (json_array_size(pair) != 2 || !json_is_integer(nodes) || !json_is_number(rate))
		return fault(err, path, "is not [nodes, rate]");
	if (json_integer_value(nodes) < 1 || json_integer_value(nodes) > PROBLEM_NODES_MAX)
		return fault(err, path, "nodes are not between 1 and 100000");
	point.nodes = (int)json_integer_value(nodes);
	point.rate_per_s = json_number_value(rate);
	if (point.rate_per_s < 0)
		return fault(err, path, "rate is negative");
	if (!isfinite(point.rate_per_s) || point.rate_per_s > VALUE_MAX)
		return fault(err, path, "rate is too large");
	if (curve->n_points > 0 && curve->points[curve->n_points - 1].nodes >= point.nodes)
		return fault(err, path, "nodes do not ascend");
	return curve_set(curve, point) == 0 ? 0 : no_memory(err);
}

static int read_curve(const struct problem *problem, const json_t *points, struct path path,
	struct curve *curve, struct err *err)
{
	size_t i;
	json_t *pair;

	if (!json_is_array(points))
		return fault(err, path, "is not an array of [nodes, rate]");
	if (json_array_size(points) == 0)
		return fault(err, path, "is empty");
	json_array_foreach((json_t *)points, i, pair)
	{
		if (read_point(pair, at("%s[%zu]", path.text, i), curve, err) != 0)
			return -1;
	}
	if (problem->objective == OBJECTIVE_SPEEDUP && curve_rate(curve, 1) <= 0)
		return fault(err, path, "rate of one node is 0, there is no speed-up over it");
	return 0;
}

static int read_curves(const struct problem *problem, const json_t *object,
	const char *prefix, struct problem_job *job, struct err *err)
{
	json_t *one = json_object_get(object, "curve"), *many = json_object_get(object, "curves");
	const char *kind;
	json_t *points;

	if (!one == !many)
		return fault(err, at("%scurve", prefix),
			one ? "there is also curves" : "is missing");
	if (one) {
		/* One curve for a job that does not care about kinds. */
		for (size_t t = 0; t < problem->n_kinds; t++)
			if (read_curve(problem, one, at("%scurve", prefix), &job->curves[t],
				    err) != 0)
				return -1;
		return 0;
	}
	if (!json_is_object(many) || json_object_size(many) == 0)
		return fault(err, at("%scurves", prefix), "is not an object of curves");
	json_object_foreach(many, kind, points)
	{
		if (read_curve(problem, points, at("%scurves.%.60s", prefix, kind),
			    &job->curves[find_kind(problem, kind)], err) != 0)
			return -1;
	}
	return 0;
}

static int read_job(const struct problem *problem, const json_t *object, const char *prefix,
	struct problem_job *job, struct err *err)
{
	static const char *const keys[] = { "id", "weight", "min_nodes", "max_nodes", "curve",
		"curves", "grow_s", "shrink_s", "start_s", "user", NULL };

	if (!json_is_object(object))
		return err_set(err, EINVAL, "%.*s: is not an object",
			(int)strlen(prefix) - 1, prefix);
	job->curves = calloc(problem->n_kinds, sizeof(*job->curves));
	if (!job->curves)
		return no_memory(err);
	job->weight = 1;
	if (known_keys(object, prefix, keys, err) != 0 ||
		take_name(object, prefix, "id", 1, &job->id, err) != 0 ||
		take_name(object, prefix, "user", 0, &job->user, err) != 0 ||
		take_real(object, prefix, "weight", 0, 1e-9, 1e9, &job->weight, err) != 0 ||
		take_int(object, prefix, "min_nodes", 1, 1, PROBLEM_NODES_MAX,
			&job->min_nodes, err) != 0 ||
		take_int(object, prefix, "max_nodes", 1, 1, PROBLEM_NODES_MAX,
			&job->max_nodes, err) != 0 ||
		take_real(object, prefix, "grow_s", 0, 0, 1e9, &job->grow_s, err) != 0 ||
		take_real(object, prefix, "shrink_s", 0, 0, 1e9, &job->shrink_s, err) != 0 ||
		take_real(object, prefix, "start_s", 0, 0, 1e9, &job->start_s, err) != 0)
		return -1;
	if (job->min_nodes > job->max_nodes)
		return fault(err, at("%smin_nodes", prefix), "is more than max_nodes");
	return read_curves(problem, object, prefix, job, err);
}

static int by_id(const void *a, const void *b)
{
	const struct problem_job *x = a, *y = b;

	return strcmp(x->id, y->id);
}

static int find_job(const struct problem *problem, const char *id)
{
	struct problem_job key = { .id = (char *)id };
	struct problem_job *job = bsearch(
		&key, problem->jobs, problem->n_jobs, sizeof(key), by_id);

	return job ? (int)(job - problem->jobs) : -1;
}

static int read_jobs(struct problem *problem, const json_t *array, struct err *err)
{
	size_t n = json_array_size(array);

	problem->jobs = calloc(n ? n : 1, sizeof(*problem->jobs));
	if (!problem->jobs)
		return no_memory(err);
	for (size_t i = 0; i < n; i++) {
		problem->n_jobs = i + 1;
		if (read_job(problem, json_array_get(array, i), at("jobs[%zu].", i).text,
			    &problem->jobs[i], err) != 0)
			return -1;
		for (size_t k = 0; n <= 64 && k < i; k++)
			if (!strcmp(problem->jobs[k].id, problem->jobs[i].id))
				return fault(err, at("jobs[%zu].id", i), "is a duplicate");
	}
	qsort(problem->jobs, n, sizeof(*problem->jobs), by_id);
	for (size_t i = 1; i < n; i++)
		if (!strcmp(problem->jobs[i - 1].id, problem->jobs[i].id))
			return fault(err, at("jobs: id %.60s", problem->jobs[i].id),
				"is a duplicate");
	return 0;
}

/* --- nodes -------------------------------------------------------------------- */

static int own(struct problem *problem, const json_t *object, const char *prefix,
	struct problem_node *node, struct err *err)
{
	const json_t *owner = json_object_get(object, "job");
	struct problem_job *job;

	node->job = -1;
	if (!owner || json_is_null(owner))
		return 0;
	if (!json_is_string(owner))
		return fault(err, at("%sjob", prefix), "is neither an id nor null");
	node->job = find_job(problem, json_string_value(owner));
	if (node->job < 0)
		return fault(err, at("%sjob", prefix), "is an unknown id");
	job = &problem->jobs[node->job];
	if (job->present > 0 && job->present_kind != node->kind)
		return fault(err, at("%skind", prefix), "its job runs on another kind");
	if (job->curves[node->kind].n_points == 0)
		return fault(err, at("%skind", prefix), "its job has no curve for it");
	job->present++;
	job->present_kind = node->kind;
	return 0;
}

static int read_node(struct problem *problem, const json_t *object, const char *prefix,
	struct problem_node *node, struct err *err)
{
	static const char *const keys[] = { "name", "job", "kind", "group", NULL };
	char *kind = NULL;

	if (!json_is_object(object))
		return err_set(err, EINVAL, "%.*s: is not an object",
			(int)strlen(prefix) - 1, prefix);
	if (known_keys(object, prefix, keys, err) != 0 ||
		take_name(object, prefix, "name", 1, &node->name, err) != 0 ||
		take_int(object, prefix, "group", 0, 0, 1 << 30, &node->group, err) != 0 ||
		take_name(object, prefix, "kind", 0, &kind, err) != 0)
		return -1;
	node->kind = find_kind(problem, kind ? kind : "");
	free(kind);
	problem->kind_nodes[node->kind]++;
	return own(problem, object, prefix, node, err);
}

static int by_name(const void *a, const void *b)
{
	const struct problem_node *x = a, *y = b;
	int order = strverscmp(x->name, y->name);

	return order ? order : strcmp(x->name, y->name);
}

static int read_nodes(struct problem *problem, const json_t *array, struct err *err)
{
	size_t n = json_array_size(array);

	problem->nodes = calloc(n ? n : 1, sizeof(*problem->nodes));
	if (!problem->nodes)
		return no_memory(err);
	for (size_t i = 0; i < n; i++) {
		problem->n_nodes = i + 1;
		if (read_node(problem, json_array_get(array, i), at("nodes[%zu].", i).text,
			    &problem->nodes[i], err) != 0)
			return -1;
	}
	qsort(problem->nodes, n, sizeof(*problem->nodes), by_name);
	for (size_t i = 1; i < n; i++)
		if (!strcmp(problem->nodes[i - 1].name, problem->nodes[i].name))
			return fault(err, at("nodes: name %.60s", problem->nodes[i].name),
				"is a duplicate");
	return 0;
}

/* --- limits and the whole ------------------------------------------------------- */

static int by_user(const void *a, const void *b)
{
	const struct problem_limit *x = a, *y = b;

	return strcmp(x->user, y->user);
}

static int read_limits(struct problem *problem, const json_t *array, struct err *err)
{
	static const char *const keys[] = { "user", "max_nodes", NULL };
	size_t n = json_array_size(array);

	problem->limits = calloc(n ? n : 1, sizeof(*problem->limits));
	if (!problem->limits)
		return no_memory(err);
	for (size_t i = 0; i < n; i++) {
		const json_t *object = json_array_get(array, i);
		struct path prefix = at("limits[%zu].", i);
		struct problem_limit *limit = &problem->limits[i];

		problem->n_limits = i + 1;
		if (!json_is_object(object))
			return fault(err, at("limits[%zu]", i), "is not an object");
		if (known_keys(object, prefix.text, keys, err) != 0 ||
			take_name(object, prefix.text, "user", 1, &limit->user, err) != 0 ||
			take_int(object, prefix.text, "max_nodes", 1, 0, PROBLEM_NODES_MAX,
				&limit->max_nodes, err) != 0)
			return -1;
	}
	qsort(problem->limits, n, sizeof(*problem->limits), by_user);
	for (size_t i = 1; i < n; i++)
		if (!strcmp(problem->limits[i - 1].user, problem->limits[i].user))
			return fault(err, at("limits: user %.60s", problem->limits[i].user),
				"is a duplicate");
	return 0;
}

static int read_header(struct problem *problem, const json_t *root, struct err *err)
{
	static const char *const keys[] = { "version", "objective", "horizon_s", "nodes",
		"jobs", "limits", NULL };
	const json_t *objective = json_object_get(root, "objective");
	const char *word = json_string_value(objective);
	int version = 0;

	if (known_keys(root, "", keys, err) != 0 ||
		take_int(root, "", "version", 1, 1, 1, &version, err) != 0)
		return -1;
	problem->horizon_s = 120;
	problem->objective = OBJECTIVE_SPEEDUP;
	if (word && !strcmp(word, "throughput"))
		problem->objective = OBJECTIVE_THROUGHPUT;
	else if (objective && (!word || strcmp(word, "speedup")))
		return fault(err, at("objective"), "is not speedup or throughput");
	return take_real(root, "", "horizon_s", 0, 1e-3, 1e9, &problem->horizon_s, err);
}

static int check_array(const json_t *root, const char *key, int required, size_t max,
	struct err *err)
{
	const json_t *array = json_object_get(root, key);

	if (!array && !required)
		return 0;
	if (!array)
		return fault(err, at("%s", key), "is missing");
	if (!json_is_array(array))
		return fault(err, at("%s", key), "is not an array");
	if (json_array_size(array) > max)
		return err_set(err, EINVAL, "%s: more than %zu", key, max);
	return 0;
}

static int read_all(struct problem *problem, const json_t *root, struct err *err)
{
	const json_t *nodes = json_object_get(root, "nodes");
	const json_t *jobs = json_object_get(root, "jobs");

	if (read_header(problem, root, err) != 0 ||
		check_array(root, "nodes", 1, PROBLEM_NODES_MAX, err) != 0 ||
		check_array(root, "jobs", 1, PROBLEM_JOBS_MAX, err) != 0 ||
		check_array(root, "limits", 0, PROBLEM_JOBS_MAX, err) != 0 ||
		collect_kinds(problem, nodes, jobs, err) != 0)
		return -1;
	if (read_jobs(problem, jobs, err) != 0 || read_nodes(problem, nodes, err) != 0)
		return -1;
	return read_limits(problem, json_object_get(root, "limits"), err);
}

struct problem *problem_read(const json_t *root, struct err *err)
{
	struct problem *problem;

	if (!json_is_object(root)) {
		err_set(err, EINVAL, "the problem is not a JSON object");
		return NULL;
	}
	problem = calloc(1, sizeof(*problem));
	if (!problem) {
		no_memory(err);
		return NULL;
	}
	if (read_all(problem, root, err) != 0) {
		problem_destroy(problem);
		return NULL;
	}
	return problem;
}

struct problem *problem_parse(const char *text, size_t size, struct err *err)
{
	json_error_t why;
	json_t *root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &why);
	struct problem *problem;

	if (!root) {
		err_set(err, EINVAL, "line %d column %d: %s", why.line, why.column, why.text);
		return NULL;
	}
	problem = problem_read(root, err);
	json_decref(root);
	return problem;
}
