/*
 * problem_read.c - a problem from JSON, strictly.
 *
 * Kinds first (jobs' curves are by kind), then jobs, then nodes (which name
 * jobs), limits last.  Every object is checked against the keys it may have; the
 * place where a reader is travels with it as a path, so that the sentence can
 * say "jobs[3].curve[1]: rate is negative".  Paths count as the input does,
 * although everything is sorted in the end: so all that needs an index of the
 * input is checked before its array is sorted.
 *
 * A job's `curve` counts on every kind that its `curves` does not name.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "allocator/field.h"
#include "allocator/problem.h"

#define RATE_MAX    1e15
#define SPEEDUP_MAX 1e12 /* against one node; keeps all sums finite */
#define KINDS_MAX   256
#define SECONDS_MAX 1e9

static int no_memory(struct err *err)
{
	return err_set(err, ENOMEM, "reading the problem: out of memory");
}

/* A string of an object in an array, and which one. */
struct named {
	const char *name;
	size_t index;
};

static int by_name_then_index(const void *a, const void *b)
{
	const struct named *x = a, *y = b;
	int order = strcmp(x->name, y->name);

	return order ? order : x->index < y->index ? -1 : x->index > y->index;
}

/* No two objects of the array have the same string under this key. */
static int check_unique(
	const json_t *array, const char *what, const char *key, struct err *err)
{
	size_t n = json_array_size(array), twin = 0;
	struct named *all = calloc(n + 1, sizeof(*all));

	if (!all)
		return no_memory(err);
	for (size_t i = 0; i < n; i++)
		all[i] = (struct named){json_string_value(json_object_get(
						json_array_get(array, i), key)),
			i};
	qsort(all, n, sizeof(*all), by_name_then_index);
	for (size_t i = 1; i < n; i++)
		if (!strcmp(all[i - 1].name, all[i].name) &&
			(!twin || all[i].index < all[twin].index))
			twin = i;
	if (twin)
		err_set(err, EINVAL, "%s[%zu].%s: is a duplicate of %s[%zu]", what,
			all[twin].index, key, what, all[twin - 1].index);
	free(all);
	return twin ? -1 : 0;
}

static int by_str(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* --- kinds -------------------------------------------------------------------- */

static int add_kind(struct problem *problem, const char *name, struct err *err)
{
	char **grown;

	for (size_t i = 0; i < problem->n_kinds; i++)
		if (!strcmp(problem->kinds[i], name))
			return 0;
	if (problem->n_kinds == KINDS_MAX)
		return err_set(err, EINVAL, "nodes: more than %d kinds", KINDS_MAX);
	grown = realloc(problem->kinds, (problem->n_kinds + 1) * sizeof(*grown));
	if (!grown)
		return no_memory(err);
	problem->kinds = grown;
	grown[problem->n_kinds] = strdup(name);
	if (!grown[problem->n_kinds])
		return no_memory(err);
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
static int collect_kinds(struct problem *problem, const json_t *nodes,
	const json_t *jobs, struct err *err)
{
	size_t i;
	json_t *item, *curve;
	const char *key;

	json_array_foreach((json_t *)nodes, i, item)
	{
		const char *kind = json_string_value(json_object_get(item, "kind"));

		if (add_kind(problem, kind ? kind : "", err) != 0)
			return -1;
	}
	json_array_foreach((json_t *)jobs, i, item)
	{
		json_object_foreach(json_object_get(item, "curves"), key, curve)
		{
			if (add_kind(problem, key, err) != 0)
				return -1;
		}
	}
	if (problem->n_kinds == 0 && add_kind(problem, "", err) != 0)
		return -1;
	qsort(problem->kinds, problem->n_kinds, sizeof(char *), by_str);
	problem->kind_nodes = calloc(problem->n_kinds, sizeof(int));
	return problem->kind_nodes ? 0 : no_memory(err);
}

/* --- jobs --------------------------------------------------------------------- */

static int read_point(
	const json_t *pair, struct path path, struct curve *curve, struct err *err)
{
	const json_t *nodes = json_array_get(pair, 0), *rate = json_array_get(pair, 1);
	const struct curve_point *last = curve->points + curve->n_points - 1;
	struct curve_point point = {0, 0, 0};

	if (json_array_size(pair) != 2 || !json_is_integer(nodes) ||
		!json_is_number(rate))
		return field_fault(err, path, "is not [nodes, rate]");
	if (json_integer_value(nodes) < 1 ||
		json_integer_value(nodes) > PROBLEM_NODES_MAX)
		return field_fault(err, path, "nodes are not between 1 and 100000");
	point.nodes = (int)json_integer_value(nodes);
	point.rate_per_s = json_number_value(rate);
	if (point.rate_per_s < 0)
		return field_fault(err, path, "rate is negative");
	if (!(point.rate_per_s <= RATE_MAX))
		return field_fault(err, path, "rate is over 1e15");
	if (curve->n_points > 0 && last->nodes >= point.nodes)
		return field_fault(err, path, "nodes do not ascend");
	curve->points[curve->n_points++] = point;
	return 0;
}

static int read_curve(
	const json_t *points, struct path path, struct curve *curve, struct err *err)
{
	size_t n = json_array_size(points);

	if (!json_is_array(points))
		return field_fault(err, path, "is not an array of [nodes, rate]");
	if (n == 0)
		return field_fault(err, path, "is empty");
	curve->points = calloc(n, sizeof(*curve->points));
	if (!curve->points)
		return no_memory(err);
	for (size_t i = 0; i < n; i++)
		if (read_point(json_array_get(points, i),
			    path_at("%s[%zu]", path.text, i), curve, err) != 0)
			return -1;
	return 0;
}

/* Speed-up divides by the rate of one node. */
static int check_unit(const struct problem *problem, struct path path,
	const struct curve *curve, struct err *err)
{
	double unit = curve_rate(curve, 1);

	if (problem->objective != OBJECTIVE_SPEEDUP)
		return 0;
	if (unit <= 0)
		return field_fault(err, path,
			"rate of one node is 0, there is no speed-up over it");
	for (size_t i = 0; i < curve->n_points; i++)
		if (!(curve->points[i].rate_per_s / unit <= SPEEDUP_MAX))
			return field_fault(
				err, path, "speed-up over one node is over 1e12");
	return 0;
}

/* The job's one curve, for every kind that has none of its own. */
static int read_common_curve(const struct problem *problem, const json_t *points,
	struct path path, struct problem_job *job, struct err *err)
{
	struct curve curve;
	int rc;

	curve_init(&curve);
	rc = read_curve(points, path, &curve, err);
	if (rc == 0)
		rc = check_unit(problem, path, &curve, err);
	for (size_t t = 0; rc == 0 && t < problem->n_kinds; t++)
		if (job->curves[t].n_points == 0 &&
			curve_copy(&job->curves[t], &curve) != 0)
			rc = no_memory(err);
	curve_fini(&curve);
	return rc;
}

static int read_curves(const struct problem *problem, const json_t *object,
	const char *prefix, struct problem_job *job, struct err *err)
{
	json_t *one = json_object_get(object, "curve");
	json_t *many = json_object_get(object, "curves"), *points;
	const char *kind;

	if (!one && !many)
		return field_fault(err, path_at("%scurve", prefix), "is missing");
	if (many && json_object_size(many) == 0)
		return field_fault(
			err, path_at("%scurves", prefix), "is not an object of curves");
	json_object_foreach(many, kind, points)
	{
		struct path path = path_at("%scurves.%.60s", prefix, kind);
		struct curve *curve = &job->curves[find_kind(problem, kind)];

		if (read_curve(points, path, curve, err) != 0 ||
			check_unit(problem, path, curve, err) != 0)
			return -1;
	}
	return one ? read_common_curve(
			     problem, one, path_at("%scurve", prefix), job, err)
		   : 0;
}

static int read_job(const struct problem *problem, const json_t *object,
	const char *prefix, struct problem_job *job, struct err *err)
{
	static const char *const keys[] = {"id", "weight", "min_nodes", "max_nodes",
		"curve", "curves", "grow_s", "shrink_s", "start_s", "user", NULL};

	if (!json_is_object(object))
		return err_set(err, EINVAL, "%.*s: is not an object",
			(int)strlen(prefix) - 1, prefix);
	job->curves = calloc(problem->n_kinds, sizeof(*job->curves));
	if (!job->curves)
		return no_memory(err);
	job->weight = 1;
	if (field_known(object, prefix, keys, err) != 0 ||
		field_name(object, prefix, "id", 1, &job->id, err) != 0 ||
		field_name(object, prefix, "user", 0, &job->user, err) != 0 ||
		field_real(object, prefix, "weight", 0, 0, 1e9, &job->weight, err) !=
			0 ||
		field_int(object, prefix, "min_nodes", 1, 1, PROBLEM_NODES_MAX,
			&job->min_nodes, err) != 0 ||
		field_int(object, prefix, "max_nodes", 1, 1, PROBLEM_NODES_MAX,
			&job->max_nodes, err) != 0 ||
		field_real(object, prefix, "grow_s", 0, 0, SECONDS_MAX, &job->grow_s,
			err) != 0 ||
		field_real(object, prefix, "shrink_s", 0, 0, SECONDS_MAX,
			&job->shrink_s, err) != 0 ||
		field_real(object, prefix, "start_s", 0, 0, SECONDS_MAX, &job->start_s,
			err) != 0)
		return -1;
	if (job->min_nodes > job->max_nodes)
		return field_fault(
			err, path_at("%smin_nodes", prefix), "is more than max_nodes");
	return read_curves(problem, object, prefix, job, err);
}

static int by_id(const void *a, const void *b)
{
	const struct problem_job *x = a, *y = b;

	return strcmp(x->id, y->id);
}

static int find_job(const struct problem *problem, const char *id)
{
	struct problem_job key = {.id = (char *)id};
	struct problem_job *job =
		bsearch(&key, problem->jobs, problem->n_jobs, sizeof(key), by_id);

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
		if (read_job(problem, json_array_get(array, i),
			    path_at("jobs[%zu].", i).text, &problem->jobs[i], err) != 0)
			return -1;
	}
	if (check_unique(array, "jobs", "id", err) != 0)
		return -1;
	qsort(problem->jobs, n, sizeof(*problem->jobs), by_id);
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
		return field_fault(
			err, path_at("%sjob", prefix), "is neither an id nor null");
	node->job = find_job(problem, json_string_value(owner));
	if (node->job < 0)
		return field_fault(err, path_at("%sjob", prefix), "is an unknown id");
	job = &problem->jobs[node->job];
	if (job->present > 0 && job->present_kind != node->kind)
		return field_fault(
			err, path_at("%skind", prefix), "its job runs on another kind");
	if (job->curves[node->kind].n_points == 0)
		return field_fault(
			err, path_at("%skind", prefix), "its job has no curve for it");
	job->present++;
	job->present_kind = node->kind;
	return 0;
}

static int read_node(struct problem *problem, const json_t *object, const char *prefix,
	struct problem_node *node, struct err *err)
{
	static const char *const keys[] = {"name", "job", "kind", "group", NULL};
	char *kind = NULL;

	if (!json_is_object(object))
		return err_set(err, EINVAL, "%.*s: is not an object",
			(int)strlen(prefix) - 1, prefix);
	if (field_known(object, prefix, keys, err) != 0 ||
		field_name(object, prefix, "name", 1, &node->name, err) != 0 ||
		field_int(object, prefix, "group", 0, 0, 1 << 30, &node->group, err) !=
			0 ||
		field_name(object, prefix, "kind", 0, &kind, err) != 0)
		return -1;
	node->kind = find_kind(problem, kind ? kind : "");
	free(kind);
	problem->kind_nodes[node->kind]++;
	return own(problem, object, prefix, node, err);
}

static int by_name(const void *a, const void *b)
{
	const struct problem_node *x = a, *y = b;

	return strcmp(x->name, y->name);
}

static int read_nodes(struct problem *problem, const json_t *array, struct err *err)
{
	size_t n = json_array_size(array);

	problem->nodes = calloc(n ? n : 1, sizeof(*problem->nodes));
	if (!problem->nodes)
		return no_memory(err);
	for (size_t i = 0; i < n; i++) {
		problem->n_nodes = i + 1;
		if (read_node(problem, json_array_get(array, i),
			    path_at("nodes[%zu].", i).text, &problem->nodes[i],
			    err) != 0)
			return -1;
	}
	if (check_unique(array, "nodes", "name", err) != 0)
		return -1;
	qsort(problem->nodes, n, sizeof(*problem->nodes), by_name);
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
	static const char *const keys[] = {"user", "max_nodes", NULL};
	size_t n = json_array_size(array);

	problem->limits = calloc(n ? n : 1, sizeof(*problem->limits));
	if (!problem->limits)
		return no_memory(err);
	for (size_t i = 0; i < n; i++) {
		const json_t *object = json_array_get(array, i);
		struct path prefix = path_at("limits[%zu].", i);
		struct problem_limit *limit = &problem->limits[i];

		problem->n_limits = i + 1;
		if (!json_is_object(object))
			return field_fault(
				err, path_at("limits[%zu]", i), "is not an object");
		if (field_known(object, prefix.text, keys, err) != 0 ||
			field_name(object, prefix.text, "user", 1, &limit->user, err) !=
				0 ||
			field_int(object, prefix.text, "max_nodes", 1, 0,
				PROBLEM_NODES_MAX, &limit->max_nodes, err) != 0)
			return -1;
	}
	if (check_unique(array, "limits", "user", err) != 0)
		return -1;
	qsort(problem->limits, n, sizeof(*problem->limits), by_user);
	return 0;
}

static int read_header(struct problem *problem, const json_t *root, struct err *err)
{
	static const char *const keys[] = {
		"version", "objective", "horizon_s", "nodes", "jobs", "limits", NULL};
	const json_t *objective = json_object_get(root, "objective");
	const char *word = json_string_value(objective);
	int version = 0;

	if (field_known(root, "", keys, err) != 0 ||
		field_int(root, "", "version", 1, 1, 1, &version, err) != 0)
		return -1;
	problem->horizon_s = 120;
	problem->objective = OBJECTIVE_SPEEDUP;
	if (word && !strcmp(word, "throughput"))
		problem->objective = OBJECTIVE_THROUGHPUT;
	else if (objective && (!word || strcmp(word, "speedup")))
		return field_fault(
			err, path_at("objective"), "is not speedup or throughput");
	return field_real(
		root, "", "horizon_s", 0, 1e-3, SECONDS_MAX, &problem->horizon_s, err);
}

static int check_array(
	const json_t *root, const char *key, int required, size_t max, struct err *err)
{
	const json_t *array = json_object_get(root, key);

	if (!array && !required)
		return 0;
	if (!array)
		return field_fault(err, path_at("%s", key), "is missing");
	if (!json_is_array(array))
		return field_fault(err, path_at("%s", key), "is not an array");
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
	if (read_limits(problem, json_object_get(root, "limits"), err) != 0)
		return -1;
	problem_finish(problem);
	return 0;
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
		field_make_printable(why.text);
		err_set(err, EINVAL, "line %d column %d: %s", why.line, why.column,
			why.text);
		return NULL;
	}
	problem = problem_read(root, err);
	json_decref(root);
	return problem;
}
