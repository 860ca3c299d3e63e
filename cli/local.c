/*
 * local.c - the command without a daemon, on this machine alone.
 *
 * For --fallback=local: the same command line trains on a laptop, in a test, or
 * on a cluster whose daemon is down.  There is one node, this one; its workers
 * are started as an agent would, less malle: no MALLE_SOCKET, so libmalle works
 * as a plain single run.
 *
 *	launcher mpi        we become `mpirun -n NPROC COMMAND`
 *	torch, env, 1       we become the command, with torchrun's variables
 *	torch, env, more    one child for each rank; the first that fails ends
 *	                    the others, as mpirun and torchrun do
 *
 * Workers of several ranks are given the same MASTER_PORT, free a moment ago.
 * They are in our process group, so Ctrl-C reaches them from the terminal;
 * SIGTERM and SIGHUP are passed on to them by us.
 */
#include "cli/local.h"

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/run_env.h"
#include "cli/say.h"
#include "proto/clock.h"

#define GRACE_S 10.0

struct ranks {
	pid_t *pids; /* 0: not started, or reaped */
	int count, left;
	int code;      /* of the first that failed; 0 */
	double kill_s; /* monotonic: when patience ends; 0: nobody was told to go */
};

static int cannot_start(const char *program)
{
	int code = errno == ENOENT ? 127 : 126;

	say("%s: cannot be started: %s", program, strerror(errno));
	return code;
}

/* Signals as a program expects them at its start. */
static void reset_signals(void)
{
	sigset_t none;

	signal(SIGPIPE, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static int become(char **argv)
{
	reset_signals();
	execvp(argv[0], argv);
	return cannot_start(argv[0]);
}

static int become_mpirun(const struct run_options *options)
{
	/*
	 * No binding: two such runs on one machine would both sit on core 0.
	 * More workers than cores are the user's choice.
	 */
	static const char *const fixed[] = { "mpirun", "--oversubscribe", "--bind-to",
		"none", "-n" };
	const size_t n_fixed = sizeof(fixed) / sizeof(fixed[0]);
	size_t n_command = 0, n = 0;
	char nproc[16];
	char **argv;

	while (options->command[n_command])
		n_command++;
	argv = calloc(n_fixed + n_command + 4, sizeof(*argv));
	if (!argv)
		return cannot_start("mpirun");
	for (size_t i = 0; i < n_fixed; i++)
		argv[n++] = (char *)fixed[i];
	snprintf(nproc, sizeof(nproc), "%d", options->nproc);
	argv[n++] = nproc;
	if (geteuid() == 0)
		argv[n++] = (char *)"--allow-run-as-root";
	memcpy(argv + n, options->command, n_command * sizeof(*argv));
	return become(argv);
}

/* --- torchrun's contract -------------------------------------------- */

/* A port that is free now; 29500, torchrun's, when none can be asked for. */
static int free_port(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	socklen_t size = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int port = 29500;

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd >= 0 && bind(fd, (struct sockaddr *)&address, size) == 0 &&
		getsockname(fd, (struct sockaddr *)&address, &size) == 0)
		port = ntohs(address.sin_port);
	if (fd >= 0)
		close(fd);
	return port;
}

static int set_number(const char *name, int value)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", value);
	return setenv(name, text, 1);
}

static int set_contract(int nproc)
{
	if (set_number("WORLD_SIZE", nproc) < 0 ||
		set_number("LOCAL_WORLD_SIZE", nproc) < 0 ||
		set_number("GROUP_RANK", 0) < 0 ||
		set_number("MASTER_PORT", free_port()) < 0)
		return -1;
	return setenv("MASTER_ADDR", "127.0.0.1", 1);
}

static int set_rank(int rank)
{
	return set_number("RANK", rank) < 0 ? -1 : set_number("LOCAL_RANK", rank);
}

/* --- several ranks -------------------------------------------- */

static void signal_all(const struct ranks *ranks, int signo)
{
	for (int i = 0; i < ranks->count; i++)
		if (ranks->pids[i])
			kill(ranks->pids[i], signo);
}

static void end_others(struct ranks *ranks)
{
	if (ranks->kill_s == 0)
		ranks->kill_s = clock_mono_s() + GRACE_S;
	signal_all(ranks, SIGTERM);
}

static int start_rank(struct ranks *ranks, int rank, char **command)
{
	pid_t parent = getpid();
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent || set_rank(rank) < 0)
			_exit(126);
		_exit(become(command));
	}
	if (pid < 0)
		return -1;
	ranks->pids[rank] = pid;
	ranks->left++;
	return 0;
}

static void reap(struct ranks *ranks)
{
	int status, code;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		for (int i = 0; i < ranks->count; i++)
			if (ranks->pids[i] == pid) {
				ranks->pids[i] = 0;
				ranks->left--;
			}
		code = WIFSIGNALED(status) ? 128 + WTERMSIG(status)
					   : WEXITSTATUS(status);
		if (code == 0)
			continue;
		if (ranks->code == 0)
			ranks->code = code;
		end_others(ranks);
	}
}

/* Until all are reaped.  `wanted` is blocked. */
static void attend(struct ranks *ranks, const sigset_t *wanted)
{
	while (ranks->left > 0) {
		struct timespec second = { .tv_sec = 1 };
		int signo = sigtimedwait(wanted, NULL, &second);

		if (signo == SIGTERM || signo == SIGHUP)
			end_others(ranks);
		reap(ranks);
		if (ranks->kill_s > 0 && clock_mono_s() > ranks->kill_s)
			signal_all(ranks, SIGKILL);
	}
}

static int run_ranks(const struct run_options *options)
{
	struct ranks ranks = { .count = options->nproc };
	sigset_t wanted;

	ranks.pids = calloc(ranks.count, sizeof(*ranks.pids));
	if (!ranks.pids)
		return cannot_start(options->command[0]);
	sigemptyset(&wanted);
	sigaddset(&wanted, SIGCHLD);
	sigaddset(&wanted, SIGTERM);
	sigaddset(&wanted, SIGHUP);
	sigaddset(&wanted, SIGINT); /* the children have had it too: wait for them */
	sigprocmask(SIG_BLOCK, &wanted, NULL);
	for (int rank = 0; rank < ranks.count; rank++)
		if (start_rank(&ranks, rank, options->command) < 0) {
			ranks.code = cannot_start(options->command[0]);
			end_others(&ranks);
			break;
		}
	attend(&ranks, &wanted);
	free(ranks.pids);
	return ranks.code;
}

int local_run(const struct run_options *options)
{
	int mpi = strcmp(options->launcher, "mpi") == 0;

	say("no daemon: training on this machine alone, %d worker%s%s", options->nproc,
		options->nproc == 1 ? "" : "s", mpi ? " by mpirun" : "");
	if (run_env_apply(options->ledger) < 0)
		return cannot_start(options->command[0]);
	if (mpi)
		return become_mpirun(options);
	if (set_contract(options->nproc) < 0)
		return cannot_start(options->command[0]);
	if (options->nproc > 1)
		return run_ranks(options);
	if (set_rank(0) < 0)
		return cannot_start(options->command[0]);
	return become(options->command);
}
