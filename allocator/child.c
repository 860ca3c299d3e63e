/*
 * child.c - a solve in a process of its own.
 *
 * GLPK aborts the process on its own errors and looks at the clock when it likes;
 * the daemon can afford neither.  So each solve is a fork: the child has the
 * problem already, solves, and writes solutions to a pipe, each a fixed header
 * and one share a job, in this machine's own layout (it is the same program).
 * A pipe that ends without a final record is a child that died: what it had
 * found before still counts.
 *
 * The child closes every other descriptor it inherited, so that a lock or a
 * socket of the daemon does not live on in it, and leaves by _exit.  GLPK prints
 * before it aborts, whatever it was told: into /dev/null, not into a plan.
 *
 * A solution that came is what it said it was, also when the child was killed
 * after it: the DP's, which milp starts from, is optimal already.
 */
#include "allocator/child.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/clock.h"

struct record {
	int final;
	enum solve_status status;
	enum solver solver;
	double objective, bound;
};

struct child {
	const struct problem *problem;
	pid_t pid;
	int fd;
	double started_s;
	int has_best, final;
	struct solution best;
	char *buffer; /* one record and its shares */
	size_t filled, size;
};

static void send_record(int fd, const struct solution *solution, int final)
{
	struct record record = {final, solution->status, solution->solver,
		solution->objective, solution->bound};
	size_t head = sizeof(record), tail = solution->n_shares * sizeof(struct share);
	char *whole = malloc(head + tail), *p = whole;

	if (!whole)
		_exit(1);
	memcpy(whole, &record, head);
	memcpy(whole + head, solution->shares, tail);
	for (size_t left = head + tail; left > 0;) {
		ssize_t n = write(fd, p, left);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			_exit(1);
		p += n;
		left -= (size_t)n;
	}
	free(whole);
}

static void on_better(const struct solution *better, void *arg)
{
	send_record(*(int *)arg, better, 0);
}

/* The pipe as descriptor 3, nothing behind it, and nowhere to write before it. */
static int keep_only(int fd)
{
	int nowhere;

	if (fd != 3 && dup2(fd, 3) != 3)
		_exit(1);
	close_range(4, ~0u, 0);
	nowhere = open("/dev/null", O_RDWR);
	for (int i = 0; i < 3; i++)
		if (nowhere < 0 || dup2(nowhere, i) != i)
			close(i);
	if (nowhere > 3)
		close(nowhere);
	return 3;
}

static void be_child(const struct problem *problem, enum solver solver, double limit_s,
	int fd) __attribute__((noreturn));

static void be_child(
	const struct problem *problem, enum solver solver, double limit_s, int fd)
{
	struct solution solution;
	sigset_t none;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (int signo = 1; signo < NSIG; signo++)
		signal(signo, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	fd = keep_only(fd);
	if (solution_init(&solution, problem->n_jobs) != 0 ||
		solve(problem, solver, limit_s, on_better, &fd, &solution, NULL) != 0)
		_exit(1);
	send_record(fd, &solution, 1);
	_exit(0);
}

struct child *child_start(const struct problem *problem, enum solver solver,
	double limit_s, struct err *err)
{
	struct child *child = calloc(1, sizeof(*child));
	int fds[2] = {-1, -1};

	if (!child || solution_init(&child->best, problem->n_jobs) != 0)
		goto no_memory;
	child->problem = problem;
	child->started_s = clock_mono_s();
	child->size = sizeof(struct record) + problem->n_jobs * sizeof(struct share);
	child->buffer = malloc(child->size);
	if (!child->buffer)
		goto no_memory;
	if (pipe2(fds, O_CLOEXEC) != 0)
		goto failed;
	child->pid = fork();
	if (child->pid == 0)
		be_child(problem, solver, limit_s, fds[1]);
	if (child->pid < 0)
		goto failed;
	close(fds[1]);
	child->fd = fds[0];
	fcntl(child->fd, F_SETFL, O_NONBLOCK);
	return child;
no_memory:
	errno = ENOMEM;
failed:
	err_set(err, errno, "starting a solver: %s", strerror(errno));
	if (fds[0] >= 0) {
		close(fds[0]);
		close(fds[1]);
	}
	if (child) {
		solution_fini(&child->best);
		free(child->buffer);
	}
	free(child);
	return NULL;
}

int child_fd(const struct child *child)
{
	return child->fd;
}

static void take_record(struct child *child)
{
	struct record record;

	memcpy(&record, child->buffer, sizeof(record));
	memcpy(child->best.shares, child->buffer + sizeof(record),
		child->size - sizeof(record));
	child->best.status = record.status;
	child->best.solver = record.solver;
	child->best.objective = record.objective;
	child->best.bound = record.bound;
	child->has_best = 1;
	child->final = record.final;
}

int child_read(struct child *child)
{
	for (;;) {
		ssize_t n = read(child->fd, child->buffer + child->filled,
			child->size - child->filled);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? 0 : 1;
		if (n == 0)
			return 1;
		child->filled += (size_t)n;
		if (child->filled < child->size)
			continue;
		child->filled = 0;
		take_record(child);
		if (child->final)
			return 1;
	}
}

static void reap(struct child *child)
{
	if (!child->final)
		kill(child->pid, SIGKILL);
	while (waitpid(child->pid, NULL, 0) < 0 && errno == EINTR)
		;
	close(child->fd);
}

struct plan *child_finish(struct child *child, struct err *err)
{
	struct plan *plan = NULL;
	int rc = 0;

	child_read(child);
	reap(child);
	if (!child->has_best) {
		rc = solve_greedy(child->problem, &child->best, err);
		child->best.status = SOLVE_FALLBACK;
	}
	if (rc == 0)
		plan = plan_place(child->problem, &child->best, err);
	if (plan)
		plan->solve_ms = 1000 * (clock_mono_s() - child->started_s);
	solution_fini(&child->best);
	free(child->buffer);
	free(child);
	return plan;
}

struct plan *child_solve(const struct problem *problem, enum solver solver,
	double limit_s, struct err *err)
{
	struct child *child = child_start(problem, solver, limit_s, err);
	double until_s = clock_mono_s() + limit_s;

	if (!child)
		return NULL;
	while (!child_read(child)) {
		double left_s = until_s - clock_mono_s();
		struct pollfd ready = {.fd = child->fd, .events = POLLIN};

		if (left_s <= 0)
			break;
		poll(&ready, 1, isfinite(left_s) ? (int)ceil(1000 * left_s) : -1);
	}
	return child_finish(child, err);
}
