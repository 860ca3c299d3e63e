/*
 * spawn.c - start one agent on this machine.
 *
 * The agent must outlive the daemon and owe it nothing: a session of its own,
 * default signals, no descriptors but /dev/null and its log, the root as its
 * working directory, the claim's user as its identity, and an environment built
 * from scratch (what the daemon was started with is nobody's business):
 *
 *	HOME USER LOGNAME SHELL PATH	of the user
 *	MALLE_CTLD			the daemon's socket
 *	MALLE_NODE MALLE_CLAIM		what it was started for; MALLE_CLAIM also
 *					marks everything that the claim starts
 *	MALLE_RUNDIR			its runtime directory, mode 0700
 *	MALLE_CGROUP			its control group, where there is one
 *	MALLE_GRACE_S			from a notice to the kill
 *
 * The child enters its control group before anything else of it runs, so
 * nothing can escape.  What fails between fork and exec is written to a pipe
 * that exec closes: end of file means that the agent runs.  The daemon has one
 * thread, so the child may use the C library in between.  Signals are blocked
 * over the fork until their dispositions are the default ones: a SIGTERM for the
 * child must not run a handler of the daemon, whose loop would hear of it.
 */
#include "daemon/sched/spawn.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char default_path[] =
	"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

enum {
	OWN_VARIABLES = 11,
	DEPTH_MAX = 32, /* of directories to remove: each holds a descriptor */
};

/* --- directories ------------------------------------------------------------ */

static int remove_at(int parent, const char *name, int depth);

static int empty_dir(int fd, int depth)
{
	DIR *dir = fdopendir(fd);
	struct dirent *entry;
	int rc = 0;

	if (!dir) {
		close(fd);
		return -1;
	}
	while ((entry = readdir(dir))) {
		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		if (remove_at(fd, entry->d_name, depth + 1) < 0)
			rc = -1;
	}
	closedir(dir);
	return rc;
}

static int remove_at(int parent, const char *name, int depth)
{
	int fd;

	if (unlinkat(parent, name, 0) == 0 || errno == ENOENT)
		return 0;
	if ((errno != EISDIR && errno != EPERM) || depth > DEPTH_MAX)
		return -1;
	/* Not through a link that somebody puts there now. */
	fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || empty_dir(fd, depth) < 0)
		return -1;
	return unlinkat(parent, name, AT_REMOVEDIR);
}

int spawn_remove_dir(const char *path)
{
	return remove_at(AT_FDCWD, path, 0);
}

static int make_dir(const struct spawn *spawn, gid_t gid, struct err *err)
{
	if (spawn_remove_dir(spawn->dir) < 0 || mkdir(spawn->dir, 0700) < 0 ||
		(geteuid() == 0 && lchown(spawn->dir, spawn->uid, gid) < 0))
		return err_set(err, errno, "%s: %s", spawn->dir, strerror(errno));
	return 0;
}

/* --- environment ------------------------------------------------------------ */

struct env {
	char **vars; /* NULL at the end; the vector and its strings are ours */
	size_t count;
};

static void env_fini(struct env *env)
{
	for (size_t i = 0; i < env->count; i++)
		free(env->vars[i]);
	free(env->vars);
}

static int env_add(struct env *env, const char *name, const char *value)
{
	if (asprintf(&env->vars[env->count], "%s=%s", name, value) < 0) {
		env->vars[env->count] = NULL;
		return -1;
	}
	env->count++;
	return 0;
}

static int env_make(struct env *env, const struct spawn *spawn, const struct passwd *pw)
{
	size_t extra = 0;
	char grace[32];
	int rc = 0;

	while (spawn->env && spawn->env[extra])
		extra++;
	env->count = 0;
	env->vars = calloc(OWN_VARIABLES + extra + 1, sizeof(*env->vars));
	if (!env->vars)
		return -1;
	snprintf(grace, sizeof(grace), "%.3f", spawn->grace_s);
	rc |= env_add(env, "MALLE_CLAIM", spawn->claim);
	rc |= env_add(env, "MALLE_NODE", spawn->node);
	rc |= env_add(env, "MALLE_CTLD", spawn->socket);
	rc |= env_add(env, "MALLE_RUNDIR", spawn->dir);
	rc |= env_add(env, "MALLE_GRACE_S", grace);
	if (spawn->cgroup)
		rc |= env_add(env, "MALLE_CGROUP", spawn->cgroup);
	rc |= env_add(env, "HOME", pw->pw_dir);
	rc |= env_add(env, "USER", pw->pw_name);
	rc |= env_add(env, "LOGNAME", pw->pw_name);
	rc |= env_add(env, "SHELL", *pw->pw_shell ? pw->pw_shell : "/bin/sh");
	rc |= env_add(env, "PATH", default_path);
	for (size_t i = 0; i < extra && rc == 0; i++) {
		env->vars[env->count] = strdup(spawn->env[i]);
		rc = env->vars[env->count] ? 0 : -1;
		env->count += rc == 0;
	}
	return rc;
}

/* --- the child -------------------------------------------------------------- */

static void child_fail(int report, const char *what)
{
	struct spawn_failure failure = { .errnum = errno };

	snprintf(failure.what, sizeof(failure.what), "%s", what);
	if (write(report, &failure, sizeof(failure)) < 0)
		_exit(126);
	_exit(127);
}

static void reset_signals(void)
{
	struct sigaction action = { .sa_handler = SIG_DFL };
	sigset_t none;

	for (int signo = 1; signo < NSIG; signo++)
		sigaction(signo, &action, NULL); /* not all can: no matter */
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static int enter_cgroup(const char *dir)
{
	char path[PATH_MAX];
	int fd, rc;

	snprintf(path, sizeof(path), "%s/cgroup.procs", dir);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	rc = write(fd, "0", 1) == 1 ? 0 : -1;
	close(fd);
	return rc;
}

static int become(const struct passwd *pw)
{
	if (geteuid() != 0 || pw->pw_uid == 0)
		return 0;
	if (initgroups(pw->pw_name, pw->pw_gid) < 0 ||
		setresgid(pw->pw_gid, pw->pw_gid, pw->pw_gid) < 0)
		return -1;
	return setresuid(pw->pw_uid, pw->pw_uid, pw->pw_uid);
}

static void child(const struct spawn *spawn, const struct passwd *pw, char **env,
	int log, int report)
{
	char *argv[] = { (char *)(size_t)spawn->agent, NULL };
	int null = open("/dev/null", O_RDONLY);

	setsid();
	reset_signals();
	if (spawn->cgroup && enter_cgroup(spawn->cgroup) < 0)
		child_fail(report, "enter its control group");
	if (null < 0 || dup2(null, 0) < 0 || dup2(log, 1) < 0 || dup2(log, 2) < 0)
		child_fail(report, "open /dev/null");
	if (close_range(3, ~0U, CLOSE_RANGE_CLOEXEC) < 0)
		child_fail(report, "close descriptors");
	if (become(pw) < 0)
		child_fail(report, "become the user");
	umask(022);
	if (chdir("/") < 0)
		child_fail(report, "change to /");
	execve(spawn->agent, argv, env);
	child_fail(report, "run the agent");
}

/* --- the parent ------------------------------------------------------------- */

static const struct passwd *find_user(uid_t uid, struct err *err)
{
	const struct passwd *pw;

	if (geteuid() != 0 && uid != geteuid()) {
		err_set(err, EPERM, "uid %u: only root starts agents of other users",
			(unsigned)uid);
		return NULL;
	}
	errno = 0;
	pw = getpwuid(uid);
	if (!pw)
		err_set(err, EPERM, "uid %u: no such user", (unsigned)uid);
	return pw;
}

pid_t spawn_agent(const struct spawn *spawn, int *started, struct err *err)
{
	const struct passwd *pw = find_user(spawn->uid, err);
	struct env env = { .vars = NULL };
	int report[2] = { -1, -1 }, log = -1, saved;
	sigset_t all, old;
	pid_t pid = -1;

	if (!pw || make_dir(spawn, pw->pw_gid, err) < 0)
		return -1;
	if (env_make(&env, spawn, pw) < 0) {
		err_set(err, ENOMEM, "environment of the agent: out of memory");
		goto done;
	}
	log = open(spawn->log, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC,
		0640);
	if (log < 0) {
		err_set(err, errno, "%s: open: %s", spawn->log, strerror(errno));
		goto done;
	}
	if (pipe2(report, O_CLOEXEC | O_NONBLOCK) < 0) {
		err_set(err, errno, "pipe to the agent: %s", strerror(errno));
		goto done;
	}
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &old);
	pid = fork();
	if (pid == 0)
		child(spawn, pw, env.vars, log, report[1]);
	saved = errno;
	sigprocmask(SIG_SETMASK, &old, NULL);
	errno = saved;
	if (pid < 0) {
		err_set(err, errno, "fork: %s", strerror(errno));
		close(report[0]);
	} else {
		*started = report[0];
	}
	saved = errno;
	close(report[1]);
	errno = saved;
done:
	saved = errno;
	if (log >= 0)
		close(log);
	env_fini(&env);
	errno = saved;
	return pid;
}
