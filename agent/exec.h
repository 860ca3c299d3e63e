/* exec.h - processes that the agent starts, and their ends. */
#ifndef AGENT_EXEC_H
#define AGENT_EXEC_H

#include <sys/types.h>

#include "proto/err.h"
#include "proto/loop.h"

struct exec;
struct child;

/* code: its exit code, or 128 + the signal.  The child is freed after the call. */
typedef void (*exec_exit_f)(struct child *child, int code, void *arg);

struct exec_spec {
	const char *file;  /* to execute, looked up in env's PATH; NULL: argv[0] */
	char *const *argv; /* never seen by a shell */
	char *const *env;  /* all of it */
	const char *cwd;   /* NULL: the agent's */
	int in, out, err;  /* borrowed; -1: /dev/null */
};

/* Begins to reap every child of this process, adopted orphans too. */
struct exec *exec_create(struct loop *loop, struct err *err);

/* Lets go of what still runs, without a word to it. */
void exec_destroy(struct exec *exec);

/*
 * Start a process in a process group of its own, which dies with the agent.
 * NULL: fork failed.  That the program cannot be executed is said on its
 * standard error and ends it with 126 or 127, as shells do.
 */
struct child *exec_spawn(struct exec *exec, const struct exec_spec *spec,
	exec_exit_f on_exit, void *arg, struct err *err);

pid_t exec_pid(const struct child *child);

/* Signal its process group. */
void exec_signal(const struct child *child, int signo);

/* Nobody waits for its end any more; it is reaped all the same. */
void exec_forget(struct child *child);

/* Non-zero: pid is a child that was started by exec_spawn and has not ended. */
int exec_knows(const struct exec *exec, pid_t pid);

#endif
