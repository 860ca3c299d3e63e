/*
 * cgroup.c - a control group for each node of this machine.
 *
 * A group does two things for us: a CPU quota makes a part of a machine behave
 * like a node of its own, so that a job on four of them really is four times
 * as fast; and whatever a claim starts stays in it, so that it can be found.
 *
 * Version 2 is tried first, where a cgroup2 file system has the cpu controller:
 * below our own group (a service with Delegate=yes), then at the top.  Else
 * version 1, the hierarchy of the cpu controller, in the same order.  A group
 * counts only if a group in it can be made and has the quota's file; a
 * machine where that fails (no permission, controller elsewhere) runs without,
 * and cgroups_describe says so.
 *
 * The period is 20 ms, not the kernel's 100: a worker that has used its quota
 * stops for less than a step's time.
 *
 * A pid read from cgroup.procs may be another process a moment later.  So the
 * pidfd is opened first and then it is asked whether that pid still is in the
 * group: if it is, the pidfd is of a process of the group, or of one that ended
 * meanwhile, and then signals to it reach nobody.
 */
#include "daemon/sched/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PERIOD_US = 20000, QUOTA_MIN_US = 1000 };

struct cgroups {
	int version;        /* 0: none */
	char top[PATH_MAX]; /* malle-INSTANCE */
	char inside[256];   /* how /proc/PID/cgroup shows it: "/malle-INSTANCE/" */
	double cpus;
	char text[512];
};

static int write_file(const char *dir, const char *file, const char *text)
{
	char path[PATH_MAX];
	size_t size = strlen(text);
	int fd, rc;

	if (snprintf(path, sizeof(path), "%s/%s", dir, file) >= (int)sizeof(path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	rc = write(fd, text, size) == (ssize_t)size ? 0 : -1;
	if (close(fd) < 0)
		rc = -1;
	return rc;
}

static int set_quota(int version, const char *dir, double cpus)
{
	long quota = (long)(cpus * PERIOD_US);
	char text[64];

	if (cpus <= 0)
		return 0;
	quota = quota < QUOTA_MIN_US ? QUOTA_MIN_US : quota;
	if (version == 2) {
		snprintf(text, sizeof(text), "%ld %d", quota, PERIOD_US);
		return write_file(dir, "cpu.max", text);
	}
	snprintf(text, sizeof(text), "%d", PERIOD_US);
	if (write_file(dir, "cpu.cfs_period_us", text) < 0)
		return -1;
	snprintf(text, sizeof(text), "%ld", quota);
	return write_file(dir, "cpu.cfs_quota_us", text);
}

static int make_dir(const char *path)
{
	return mkdir(path, 0755) < 0 && errno != EEXIST ? -1 : 0;
}

/* The group of all nodes; with a quota its children need the controller. */
static int make_top(const struct cgroups *cg, int version)
{
	if (make_dir(cg->top) < 0)
		return -1;
	if (version == 2 && cg->cpus > 0)
		return write_file(cg->top, "cgroup.subtree_control", "+cpu");
	return 0;
}

/* Name `top` below `parent`, make it, and prove that nodes can live there. */
static int try_parent(
	struct cgroups *cg, int version, const char *parent, const char *instance)
{
	char probe[PATH_MAX];
	int rc, saved;

	if (snprintf(cg->top, sizeof(cg->top), "%s/malle-%s", parent, instance) >=
			(int)sizeof(cg->top) ||
		snprintf(probe, sizeof(probe), "%s/.probe", cg->top) >=
			(int)sizeof(probe)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	/* May be on already, or refused because processes are here: see below. */
	if (version == 2)
		write_file(parent, "cgroup.subtree_control", "+cpu");
	rc = make_top(cg, version);
	if (rc == 0)
		rc = make_dir(probe);
	if (rc == 0)
		rc = set_quota(version, probe, cg->cpus);
	saved = errno;
	rmdir(probe);
	if (rc == 0)
		cg->version = version;
	else
		rmdir(cg->top);
	errno = saved;
	return rc;
}

/* A word of a list that commas separate. */
static int has_word(const char *list, const char *word)
{
	size_t size = strlen(word);

	for (const char *at = list; at; at = strchr(at, ',')) {
		at += *at == ',';
		if (!strncmp(at, word, size) && (at[size] == ',' || at[size] == '\0'))
			return 1;
	}
	return 0;
}

/* Where the hierarchy is mounted: version 2, or 1 with the cpu controller. */
static int find_mount(int version, char *dir, size_t size)
{
	FILE *mounts = fopen("/proc/self/mounts", "re");
	char at[512], type[64], options[512];
	int found = 0;

	if (!mounts)
		return 0;
	while (!found && fscanf(mounts, "%*s %511s %63s %511s %*[^\n]", at, type,
				 options) == 3) {
		if (version == 2)
			found = !strcmp(type, "cgroup2");
		else
			found = !strcmp(type, "cgroup") && has_word(options, "cpu");
	}
	fclose(mounts);
	if (found)
		snprintf(dir, size, "%s", at);
	return found;
}

/* Our own group in that hierarchy: "/" at the top. */
static int find_own(int version, char *own, size_t size)
{
	FILE *groups = fopen("/proc/self/cgroup", "re");
	char line[1024];
	int found = 0;

	if (!groups)
		return 0;
	while (!found && fgets(line, sizeof(line), groups)) {
		char *controllers = strchr(line, ':');
		char *path = controllers ? strchr(controllers + 1, ':') : NULL;

		if (!path)
			continue;
		*path++ = '\0';
		path[strcspn(path, "\n")] = '\0';
		found = version == 2 ? controllers[1] == '\0'
				     : has_word(controllers + 1, "cpu");
		if (found)
			snprintf(own, size, "%s", strcmp(path, "/") ? path : "");
	}
	fclose(groups);
	return found;
}

static int try_version(struct cgroups *cg, int version, const char *instance)
{
	char mount[512], own[512], parent[1100];

	if (!find_mount(version, mount, sizeof(mount))) {
		errno = ENOENT;
		return -1;
	}
	if (find_own(version, own, sizeof(own)) && *own) {
		snprintf(parent, sizeof(parent), "%s%s", mount, own);
		if (try_parent(cg, version, parent, instance) == 0)
			return 0;
	}
	return try_parent(cg, version, mount, instance);
}

struct cgroups *cgroups_create(const char *instance, double cpus, struct err *err)
{
	struct cgroups *cg = calloc(1, sizeof(*cg));
	int why;

	if (!cg) {
		err_set(err, ENOMEM, "cgroups: out of memory");
		return NULL;
	}
	cg->cpus = cpus;
	if (try_version(cg, 2, instance) < 0 && try_version(cg, 1, instance) < 0) {
		why = errno;
		snprintf(cg->text, sizeof(cg->text),
			"no cgroups (%s): nodes share all CPUs%s", strerror(why),
			cpus > 0 ? ", the quota is not kept" : "");
		return cg;
	}
	snprintf(cg->inside, sizeof(cg->inside), "/malle-%.200s/", instance);
	if (cpus > 0)
		snprintf(cg->text, sizeof(cg->text),
			"cgroup v%d %.300s, %g CPUs a node", cg->version, cg->top,
			cpus);
	else
		snprintf(cg->text, sizeof(cg->text), "cgroup v%d %.300s, no quota",
			cg->version, cg->top);
	return cg;
}

void cgroups_destroy(struct cgroups *cgroups)
{
	int saved = errno;

	if (cgroups && cgroups->version)
		rmdir(cgroups->top); /* not while a node is in it */
	free(cgroups);
	errno = saved;
}

const char *cgroups_describe(const struct cgroups *cgroups)
{
	return cgroups->text;
}

const char *cgroups_path(
	const struct cgroups *cgroups, const char *node, char *buf, size_t size)
{
	if (!cgroups->version ||
		snprintf(buf, size, "%s/%s", cgroups->top, node) >= (int)size)
		return NULL;
	return buf;
}

int cgroups_make(struct cgroups *cgroups, const char *node, struct err *err)
{
	char path[PATH_MAX];

	if (!cgroups_path(cgroups, node, path, sizeof(path)))
		return 0;
	/* An earlier daemon's end may have removed what was empty. */
	if (make_top(cgroups, cgroups->version) < 0 || make_dir(path) < 0 ||
		set_quota(cgroups->version, path, cgroups->cpus) < 0)
		return err_set(err, errno, "%s: %s", path, strerror(errno));
	return 0;
}

int cgroups_remove(struct cgroups *cgroups, const char *node)
{
	char path[PATH_MAX];

	if (!cgroups_path(cgroups, node, path, sizeof(path)))
		return 1;
	return rmdir(path) == 0 || errno != EBUSY;
}

/* Is the process in that node's group, by its own account? */
static int is_inside(const struct cgroups *cg, const char *node, pid_t pid)
{
	char path[64], line[1024], wanted[400];
	size_t size =
		(size_t)snprintf(wanted, sizeof(wanted), "%s%s", cg->inside, node);
	int inside = 0;
	FILE *groups;

	snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)pid);
	groups = fopen(path, "re");
	if (!groups)
		return 0;
	while (!inside && fgets(line, sizeof(line), groups)) {
		const char *at = strstr(line, wanted);

		inside = at && strchr("\n/", at[size]) != NULL;
	}
	fclose(groups);
	return inside;
}

int cgroups_each(struct cgroups *cgroups, const char *node,
	void (*fn)(pid_t pid, int pidfd, void *arg), void *arg)
{
	char path[PATH_MAX], procs[PATH_MAX + 16];
	int pid, count = 0;
	FILE *file;

	if (!cgroups_path(cgroups, node, path, sizeof(path)))
		return 0;
	snprintf(procs, sizeof(procs), "%s/cgroup.procs", path);
	file = fopen(procs, "re");
	if (!file)
		return 0;
	while (fscanf(file, "%d", &pid) == 1) {
		int pidfd = pid > 0 ? pidfd_open(pid, 0) : -1;

		if (pidfd < 0)
			continue;
		if (is_inside(cgroups, node, pid)) {
			count++;
			fn(pid, pidfd, arg);
		}
		close(pidfd);
	}
	fclose(file);
	return count;
}
