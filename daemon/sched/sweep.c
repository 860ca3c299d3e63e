/*
 * sweep.c - find and kill what belongs to a claim, and nothing else.
 *
 * Processes get away from their parents (a double fork, a session of their
 * own), but not from their control group, and not from their environment: the
 * agent has MALLE_CLAIM in it and hands it to everything it starts.  Either
 * mark is enough.  Never by uid alone: the user may have work of their own here.
 *
 * Pids are reused.  A process is looked at only after its pidfd was opened, so
 * what we saw is of the process that the pidfd means, or that process has
 * ended and the signal reaches nobody.
 *
 * One pass is not enough: killed processes need a moment, and one that was just
 * forking may have been missed.  The caller repeats passes until one finds
 * nothing.  Zombies have no environment and are nothing.
 */
#include "daemon/sched/sweep.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/sched/cgroup.h"

void sweep_fini(struct sweep *sweep)
{
	free(sweep->pids);
	*sweep = (struct sweep){ .pids = NULL };
}

/* Count each pid once.  Without memory the count is what suffers. */
static void remember(struct sweep *sweep, pid_t pid)
{
	for (size_t i = 0; i < sweep->count; i++)
		if (sweep->pids[i] == pid)
			return;
	sweep->killed++;
	if (sweep->count == sweep->room) {
		size_t room = sweep->room ? 2 * sweep->room : 16;
		pid_t *more = reallocarray(sweep->pids, room, sizeof(*more));

		if (!more)
			return;
		sweep->pids = more;
		sweep->room = room;
	}
	sweep->pids[sweep->count++] = pid;
}

static void kill_one(pid_t pid, int pidfd, void *arg)
{
	if (pid == getpid())
		return;
	if (pidfd_send_signal(pidfd, SIGKILL, NULL, 0) == 0)
		remember(arg, pid);
}

/* Is this NAME=VALUE one of the strings that fd gives, each ended by a NUL? */
static int stream_has(int fd, const char *wanted)
{
	char bytes[16384];
	size_t size = strlen(wanted), at = 0;
	int same = 1;
	ssize_t n;

	while ((n = read(fd, bytes, sizeof(bytes))) > 0) {
		for (ssize_t i = 0; i < n; i++) {
			if (bytes[i] == '\0') {
				if (same && at == size)
					return 1;
				at = 0;
				same = 1;
			} else if (same && at < size && bytes[i] == wanted[at]) {
				at++;
			} else {
				same = 0;
			}
		}
	}
	return same && at == size;
}

static int has_mark(int proc, const char *pid, const char *mark)
{
	char path[280];
	int fd, found;

	snprintf(path, sizeof(path), "%s/environ", pid);
	fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	found = stream_has(fd, mark);
	close(fd);
	return found;
}

/* Returns 1 when the process was one of the claim's. */
static int look_at(
	struct sweep *sweep, int proc, const char *name, const char *mark, uid_t uid)
{
	pid_t pid = (pid_t)atol(name);
	struct stat st;
	int pidfd, found;

	if (pid <= 0 || pid == getpid())
		return 0;
	if (fstatat(proc, name, &st, 0) < 0 || st.st_uid != uid)
		return 0;
	pidfd = pidfd_open(pid, 0);
	if (pidfd < 0)
		return 0;
	found = has_mark(proc, name, mark);
	if (found)
		kill_one(pid, pidfd, sweep);
	close(pidfd);
	return found;
}

static int sweep_marked(struct sweep *sweep, const char *claim, uid_t uid)
{
	char mark[128];
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	int count = 0;

	if (!proc)
		return 0;
	snprintf(mark, sizeof(mark), "MALLE_CLAIM=%s", claim);
	while ((entry = readdir(proc)))
		if (isdigit((unsigned char)entry->d_name[0]))
			count += look_at(sweep, dirfd(proc), entry->d_name, mark, uid);
	closedir(proc);
	return count;
}

int sweep_once(struct sweep *sweep, struct cgroups *cgroups, const char *node,
	const char *claim, uid_t uid)
{
	return cgroups_each(cgroups, node, kill_one, sweep) +
	       sweep_marked(sweep, claim, uid);
}

unsigned long long sweep_start_ticks(pid_t pid)
{
	char path[64], text[1024], *at;
	unsigned long long ticks = 0;
	char state;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return 0;
	text[n] = '\0';
	/* The name is in parentheses and may hold any byte, also those. */
	at = strrchr(text, ')');
	if (!at || sscanf(at + 1,
			   " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u "
			   "%*d %*d %*d %*d %*d %*d %llu",
			   &state, &ticks) != 2)
		return 0;
	return state == 'Z' || state == 'X' ? 0 : ticks;
}
