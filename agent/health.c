/*
 * health.c - which processes of this machine are ours, and their end.
 *
 * A node is given back when nothing of ours is left on it.  What is ours has
 * three sources, because each alone misses something:
 *
 *   descendants   the agent is a subreaper, so what a dead parent leaves, also
 *                 by setsid and double fork, is a child of the agent
 *   cgroup        what was in the agent's own cgroup; a process that was
 *                 started before an agent was, or moved there
 *   environment   MALLE_CLAIM=<claim>: finds what somebody else has adopted, a
 *                 container's init or an inner subreaper, and says whose it is:
 *                 MALLE_JOB_ID, MALLE_GENERATION
 *
 * Never by user id: the user's other processes on the machine, those of other
 * claims among them, are not ours.  The agent's ancestors are not ours either,
 * although a scheduler may have given them the same environment.
 *
 * A process is one (pid, start time).  Its signal goes through a pidfd, and the
 * start time is read again once the pidfd is held: pids are used again.
 *
 * A process that has been given another user's rights cannot be looked into; as
 * a descendant it is found nevertheless.  Zombies hold nothing and do not count.
 */
#include "agent/health.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { ENVIRON_MAX = 4 << 20 }; /* bytes; ARG_MAX is 2 MiB by default */

/* --- one process ------------------------------------------------------------ */

static ssize_t read_file(const char *path, char *buf, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n, have = 0;

	if (fd < 0)
		return -1;
	while ((n = read(fd, buf + have, size - 1 - (size_t)have)) > 0)
		have += n;
	close(fd);
	buf[have] = '\0';
	return n < 0 ? -1 : have;
}

/* -1: it is gone. */
static int read_stat(pid_t pid, struct health_proc *proc)
{
	char path[64], buf[1024], *open_, *close_;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if (read_file(path, buf, sizeof(buf)) <= 0)
		return -1;
	/* The name may hold blanks and parentheses: it ends at the last one. */
	open_ = strchr(buf, '(');
	close_ = strrchr(buf, ')');
	if (!open_ || !close_ || close_ < open_)
		return -1;
	*close_ = '\0';
	memset(proc, 0, sizeof(*proc));
	proc->pid = pid;
	snprintf(proc->name, sizeof(proc->name), "%s", open_ + 1);
	if (sscanf(close_ + 2,
		    "%c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d"
		    " %*d %*d %llu",
		    &proc->state, &proc->parent, &proc->start) != 3)
		return -1;
	return 0;
}

static const char *value_of(const char *entry, const char *name)
{
	size_t size = strlen(name);

	return strncmp(entry, name, size) == 0 && entry[size] == '=' ? entry + size + 1
								     : NULL;
}

static void take_entry(struct health_proc *proc, const char *entry, const char *claim)
{
	const char *value;

	if ((value = value_of(entry, "MALLE_CLAIM")))
		proc->marked = strcmp(value, claim) == 0;
	else if ((value = value_of(entry, "MALLE_JOB_ID")))
		snprintf(proc->job, sizeof(proc->job), "%s", value);
	else if ((value = value_of(entry, "MALLE_GENERATION")))
		proc->generation = strtoll(value, NULL, 10);
}

static void read_environ(struct health_proc *proc, const char *claim, char *buf)
{
	char path[64];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/environ", (int)proc->pid);
	n = read_file(path, buf, ENVIRON_MAX);
	for (ssize_t i = 0; i < n; i += (ssize_t)strlen(buf + i) + 1)
		if (buf[i] == 'M')
			take_entry(proc, buf + i, claim);
	if (!proc->marked) {
		proc->job[0] = '\0';
		proc->generation = 0;
	}
}

/* --- whose is it ------------------------------------------------------------ */

static struct health_proc *find(struct health_proc *procs, size_t n, pid_t pid)
{
	size_t low = 0, high = n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (procs[middle].pid == pid)
			return &procs[middle];
		if (procs[middle].pid < pid)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

static int by_pid(const void *a, const void *b)
{
	const struct health_proc *x = a, *y = b;

	return x->pid < y->pid ? -1 : x->pid > y->pid;
}

static int is_ancestor(struct health_proc *procs, size_t n,
	const struct health_proc *proc, pid_t agent)
{
	struct health_proc *at = find(procs, n, agent);

	for (size_t steps = 0; at && steps < n; steps++) {
		at = find(procs, n, at->parent);
		if (at == proc)
			return 1;
	}
	return 0;
}

/* Up the tree, to the agent or to an end. */
static void judge_one(
	struct health_proc *procs, size_t n, struct health_proc *proc, pid_t agent)
{
	struct health_proc *at = proc;
	size_t steps;

	for (steps = 0; at && at->pid != agent && steps < n; steps++) {
		if (at->marked && at->job[0] && !proc->job[0]) {
			memcpy(proc->job, at->job, sizeof(proc->job));
			proc->generation = at->generation;
		}
		at = find(procs, n, at->parent);
	}
	proc->ours = proc->marked || proc->in_cgroup || (at && at->pid == agent);
}

void health_judge(struct health_proc *procs, size_t n, pid_t agent)
{
	qsort(procs, n, sizeof(*procs), by_pid);
	for (size_t i = 0; i < n; i++) {
		if (procs[i].pid == agent)
			continue;
		judge_one(procs, n, &procs[i], agent);
		if (procs[i].ours && is_ancestor(procs, n, &procs[i], agent))
			procs[i].ours = 0;
	}
}

/* --- all of them ------------------------------------------------------------ */

static struct health_proc *grow(struct health_set *set)
{
	struct health_proc *grown;

	if (set->n == set->size) {
		size_t size = set->size ? set->size * 2 : 256;

		grown = realloc(set->procs, size * sizeof(*grown));
		if (!grown)
			return NULL;
		set->procs = grown;
		set->size = size;
	}
	return &set->procs[set->n++];
}

static int is_of_uid(pid_t pid, uid_t uid)
{
	char path[64];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	return stat(path, &st) == 0 && st.st_uid == uid;
}

static int take_pid(
	const struct health_who *who, struct health_set *set, pid_t pid, char *buf)
{
	struct health_proc seen, *proc;

	if (read_stat(pid, &seen) < 0)
		return 0;
	if (pid != who->agent && is_of_uid(pid, geteuid()))
		read_environ(&seen, who->claim, buf);
	proc = grow(set);
	if (!proc)
		return -1;
	*proc = seen;
	return 0;
}

static int take_all(const struct health_who *who, struct health_set *set, DIR *dir)
{
	char *buf = malloc(ENVIRON_MAX);
	struct dirent *entry;
	int rc = buf ? 0 : -1;

	while (rc == 0 && (entry = readdir(dir)))
		if (isdigit((unsigned char)entry->d_name[0]))
			rc = take_pid(who, set, (pid_t)atoi(entry->d_name), buf);
	free(buf);
	return rc;
}

static void mark_cgroup(const struct health_who *who, struct health_set *set)
{
	char path[4096];
	FILE *file;
	int pid;

	if (!who->cgroup)
		return;
	snprintf(path, sizeof(path), "%s/cgroup.procs", who->cgroup);
	file = fopen(path, "re");
	if (!file)
		return;
	while (fscanf(file, "%d", &pid) == 1) {
		struct health_proc *proc = find(set->procs, set->n, pid);

		if (proc)
			proc->in_cgroup = 1;
	}
	fclose(file);
}

static void keep_ours(struct health_set *set, pid_t agent)
{
	size_t kept = 0;

	for (size_t i = 0; i < set->n; i++) {
		const struct health_proc *proc = &set->procs[i];

		if (proc->ours && proc->pid != agent && proc->state != 'Z' &&
			proc->state != 'X')
			set->procs[kept++] = *proc;
	}
	set->n = kept;
}

int health_scan(const struct health_who *who, struct health_set *set, struct err *err)
{
	DIR *dir = opendir("/proc");
	struct health_set found = { 0 };
	int rc;

	if (!dir)
		return err_set(err, errno, "/proc: open: %s", strerror(errno));
	rc = take_all(who, &found, dir);
	closedir(dir);
	if (rc < 0) {
		health_fini(&found);
		return err_set(err, ENOMEM, "processes of this node: out of memory");
	}
	qsort(found.procs, found.n, sizeof(*found.procs), by_pid);
	mark_cgroup(who, &found);
	health_judge(found.procs, found.n, who->agent);
	keep_ours(&found, who->agent);
	*set = found;
	return 0;
}

void health_fini(struct health_set *set)
{
	free(set->procs);
	memset(set, 0, sizeof(*set));
}

int health_signal(const struct health_proc *proc, int signo)
{
	int fd = (int)syscall(SYS_pidfd_open, proc->pid, 0), rc, saved;
	struct health_proc now;

	if (fd < 0)
		return errno == ESRCH ? 0 : -1;
	if (read_stat(proc->pid, &now) < 0 || now.start != proc->start) {
		close(fd);
		return 0;
	}
	rc = (int)syscall(SYS_pidfd_send_signal, fd, signo, NULL, 0);
	saved = errno;
	close(fd);
	errno = saved;
	if (rc == 0)
		return 1;
	return errno == ESRCH ? 0 : -1;
}

const char *health_describe(const struct health_set *set, char *buf, size_t size)
{
	size_t used = 0, i;

	buf[0] = '\0';
	for (i = 0; i < set->n && i < 4 && used < size; i++)
		used += (size_t)snprintf(buf + used, size - used, "%s%.31s[%d]",
			i ? ", " : "", set->procs[i].name, (int)set->procs[i].pid);
	if (i < set->n && used < size)
		snprintf(buf + used, size - used, " and %zu more", set->n - i);
	return buf;
}
