/*
 * cpus.c - how much of this node's processors the agent may use.
 *
 * A quota is cpu.max in cgroup v2 ("25000 100000" or "max 100000"), in v1
 * cpu.cfs_quota_us (-1: none) with cpu.cfs_period_us.
 */
#include "agent/cpus.h"

#include <sched.h>
#include <stdio.h>
#include <unistd.h>

static int read_numbers(
	const char *dir, const char *file, const char *fmt, double *a, double *b)
{
	char path[4096];
	FILE *stream;
	int n;

	snprintf(path, sizeof(path), "%s/%s", dir, file);
	stream = fopen(path, "re");
	if (!stream)
		return 0;
	n = fscanf(stream, fmt, a, b);
	fclose(stream);
	return n;
}

/* 0: there is no quota. */
static double quota(const char *dir)
{
	double used = 0, period = 0;

	if (read_numbers(dir, "cpu.max", "%lf %lf", &used, &period) == 2)
		return period > 0 ? used / period : 0;
	if (read_numbers(dir, "cpu.cfs_quota_us", "%lf", &used, NULL) == 1 &&
		used > 0 &&
		read_numbers(dir, "cpu.cfs_period_us", "%lf", &period, NULL) == 1 &&
		period > 0)
		return used / period;
	return 0;
}

double cpus_usable(const char *cgroup)
{
	cpu_set_t set;
	double cpus = 1, limit = cgroup ? quota(cgroup) : 0;

	if (sched_getaffinity(0, sizeof(set), &set) == 0)
		cpus = CPU_COUNT(&set);
	return limit > 0 && limit < cpus ? limit : cpus;
}
