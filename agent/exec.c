/*
 * exec.c - processes that the agent starts, and their ends.
 *
 * Each is the leader of a process group, has three descriptors and no other,
 * default signals, and exactly the environment that it was given.  It gets
 * SIGKILL when the agent dies, in whatever way: the node is then given back by
 * somebody else, and must not be in use.
 *
 * The agent is a subreaper: descendants whose parents die become its children.
 * So everything is reaped here, known or not, by asking for any child; a
 * known one's end is handed on.  A pid of ours is not used again before we have
 * reaped it, and neither is its group's number, so signals to the group of a
 * child that has not ended hit nobody else.
 *
 * Between fork and exec no signal may come: libevent's handler in the child
 * would write to the pipe that it shares with the agent, which would take it
 * for a signal of its own.
 *
 * A program that cannot be executed is reported where its user looks, on its
 * standard error: waiting here for the outcome of exec would stop the agent
 * for as long as a file server does not answer.
 */
#include "agent/exec.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/queue.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/log.h"

struct child {
	LIST_ENTRY(child) entry;
	pid_t pid;
	exec_exit_f on_exit;
	void *arg;
};

struct exec {
	struct loop_signal *sigchld;
	LIST_HEAD(, child) children;
};

static struct child *find(const struct exec *exec, pid_t pid)
{
	struct child *child;

	LIST_FOREACH(child, &exec->children, entry)
	if (child->pid == pid)
		return child;
	return NULL;
}

static int code_of(int status)
{
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void reap(int signo, void *arg)
{
	struct exec *exec = arg;
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		struct child *child = find(exec, pid);

		log_debug("exec", "pid %d ended code=%d%s", (int)pid, code_of(status),
			child ? "" : " (an orphan)");
		if (!child)
			continue;
		LIST_REMOVE(child, entry);
		if (child->on_exit)
			child->on_exit(child, code_of(status), child->arg);
		free(child);
	}
}

struct exec *exec_create(struct loop *loop, struct err *err)
{
	struct exec *exec = calloc(1, sizeof(*exec));

	if (!exec)
		goto fail;
	LIST_INIT(&exec->children);
	exec->sigchld = loop_signal_create(loop, SIGCHLD, reap, exec);
	if (!exec->sigchld)
		goto fail;
	if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
		log_warning("exec", "orphans cannot be adopted: %m");
	return exec;
fail:
	exec_destroy(exec);
	err_set(err, ENOMEM, "children: out of memory");
	return NULL;
}

void exec_destroy(struct exec *exec)
{
	struct child *child;

	if (!exec)
		return;
	while ((child = LIST_FIRST(&exec->children))) {
		LIST_REMOVE(child, entry);
		free(child);
	}
	loop_signal_destroy(exec->sigchld);
	free(exec);
}

/* --- in the child: async-signal-safe calls only ----------------------------- */

static void give_up(const char *what, const char *object, int code)
{
	char line[512];
	int n = snprintf(line, sizeof(line), "malle-agent: %s: %s: %s\n", object, what,
		strerror(errno));

	if (n >= (int)sizeof(line))
		n = sizeof(line) - 1;
	if (write(STDERR_FILENO, line, (size_t)n) < 0)
		_exit(code);
	_exit(code);
}

/* Three descriptors from anywhere to 0, 1, 2, whichever they are now. */
static void place_descriptors(const struct exec_spec *spec)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC), from[3];
	const int wanted[3] = { spec->in, spec->out, spec->err };

	for (int i = 0; i < 3; i++) {
		from[i] = fcntl(wanted[i] < 0 ? null : wanted[i], F_DUPFD_CLOEXEC, 3);
		if (from[i] < 0)
			_exit(126);
	}
	for (int i = 0; i < 3; i++)
		if (dup2(from[i], i) < 0)
			_exit(126);
	close_range(3, ~0u, CLOSE_RANGE_CLOEXEC);
}

static void default_signals(void)
{
	struct sigaction sa = { .sa_handler = SIG_DFL };
	sigset_t none;

	for (int signo = 1; signo < NSIG; signo++)
		sigaction(signo, &sa, NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static void become(const struct exec_spec *spec, pid_t agent)
{
	const char *file = spec->file ? spec->file : spec->argv[0];

	setpgid(0, 0);
	place_descriptors(spec);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != agent)
		_exit(128 + SIGKILL); /* it died before we asked for the signal */
	default_signals();
	if (spec->cwd && chdir(spec->cwd) < 0)
		give_up("change to the directory", spec->cwd, 126);
	environ = (char **)spec->env;
	execvp(file, spec->argv);
	give_up("execute", file, errno == ENOENT ? 127 : 126);
}

/* --- in the agent ----------------------------------------------------------- */

static pid_t fork_without_signals(const struct exec_spec *spec)
{
	sigset_t all, old;
	pid_t agent = getpid(), pid;
	int saved;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &old);
	pid = fork();
	if (pid == 0)
		become(spec, agent);
	saved = errno;
	sigprocmask(SIG_SETMASK, &old, NULL);
	errno = saved;
	return pid;
}

struct child *exec_spawn(struct exec *exec, const struct exec_spec *spec,
	exec_exit_f on_exit, void *arg, struct err *err)
{
	struct child *child = calloc(1, sizeof(*child));

	if (!child) {
		err_set(err, ENOMEM, "%s: start: out of memory", spec->argv[0]);
		return NULL;
	}
	child->on_exit = on_exit;
	child->arg = arg;
	child->pid = fork_without_signals(spec);
	if (child->pid < 0) {
		err_set(err, errno, "%s: start: %s", spec->argv[0], strerror(errno));
		free(child);
		return NULL;
	}
	setpgid(child->pid, child->pid); /* whoever of the two comes first */
	LIST_INSERT_HEAD(&exec->children, child, entry);
	log_debug("exec", "pid %d is %s", (int)child->pid, spec->argv[0]);
	return child;
}

pid_t exec_pid(const struct child *child)
{
	return child->pid;
}

void exec_signal(const struct child *child, int signo)
{
	if (kill(-child->pid, signo) < 0)
		kill(child->pid, signo);
}

void exec_forget(struct child *child)
{
	if (child)
		child->on_exit = NULL;
}

int exec_knows(const struct exec *exec, pid_t pid)
{
	return find(exec, pid) != NULL;
}
