/*
 * launch.c - the processes of a world on this node, from nothing to running.
 *
 * Launcher mpi: the head starts mpirun, which starts orted on every node
 * through malle-rsh and the agents (rsh.c); orted starts the shim (shim.c), which
 * becomes the worker.  So the others start nothing here.  Launchers env and
 * torch: every node starts its own workers with torchrun's contract, and there is
 * no launcher; a worker that fails fails the node's part, and by the daemon the
 * world.
 *
 * The environment is the same for all of them; ranks are added last.  Markers in
 * it (MALLE_CLAIM, MALLE_JOB_ID, MALLE_GENERATION) are how health.c finds
 * processes again.
 *
 * Temporary files get a directory for each world: Open MPI's session
 * directories of two nodes on one machine would clash, and what a killed one
 * leaves is removed with it.  The same for its shared-memory segments.
 *
 * The rendezvous port, where the daemon names none, follows from job and
 * generation: all nodes know those, none has to be asked.  It lies below the
 * ports that the kernel gives out.
 */
#include "agent/launch.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/ending.h"
#include "agent/exec.h"
#include "agent/launch_mpi.h"
#include "agent/output.h"
#include "agent/store.h"
#include "agent/uplink.h"
#include "proto/log.h"

enum {
	FIRST_PORT = 20000,
	N_PORTS = 12000,
	TMPDIR_MAX = 60,      /* bytes; Open MPI appends to it */
	QUEUED_MAX = 1 << 20, /* bytes on their way: output waits */
};

/* --- environment ------------------------------------------------------------ */

static int usual_port(const struct part *part)
{
	unsigned long long h = 14695981039346656037ull; /* FNV-1a */

	for (const char *at = part->job; *at; at++)
		h = (h ^ (unsigned char)*at) * 1099511628211ull;
	h = (h ^ (unsigned long long)part->generation) * 1099511628211ull;
	return FIRST_PORT + (int)((h ^ (h >> 32)) % N_PORTS);
}

static const char *usual_address(const struct part *part)
{
	/* Nodes that share a loopback interface share a machine. */
	return strcmp(part->agent->config->interface, "lo") == 0 ? "127.0.0.1"
								 : part->nodes[0];
}

void launch_environ(const struct part *part, struct environ_list *list)
{
	const struct agent *agent = part->agent;

	environ_init(list, environ, part->env);
	if (!environ_get(list->entries, "PATH"))
		environ_set(list, "PATH", "/usr/local/bin:/usr/bin:/bin");
	environ_set(list, "MALLE_SOCKET", "%s", agent->socket);
	environ_set(list, "MALLE_JOB_ID", "%s", part->job);
	environ_set(list, "MALLE_GENERATION", "%lld", part->generation);
	environ_set(list, "MALLE_MIN_NODES", "%d", part->min_nodes);
	environ_set(list, "MALLE_MAX_NODES", "%d", part->max_nodes);
	environ_set(list, "MALLE_RESTART_COUNT", "%d", part->restarts);
	environ_set(list, "MALLE_NODE", "%s", agent->config->node);
	environ_set(list, "MALLE_CLAIM", "%s", agent->config->claim);
	environ_set(list, "MASTER_ADDR", "%s",
		part->master_addr ? part->master_addr : usual_address(part));
	environ_set(list, "MASTER_PORT", "%d",
		part->master_port ? part->master_port : usual_port(part));
	environ_set(list, "TMPDIR", "%s", part->tmpdir);
	if (part->launcher != PART_MPI)
		return;
	/* Harmless for users, necessary for root. */
	environ_set(list, "OMPI_ALLOW_RUN_AS_ROOT", "1");
	environ_set(list, "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
}

static void add_ranks(
	const struct part *part, struct environ_list *list, int local_rank)
{
	environ_set(list, "RANK", "%zu",
		part->index * (size_t)part->nproc + (size_t)local_rank);
	environ_set(list, "WORLD_SIZE", "%lld", part_world_size(part));
	environ_set(list, "LOCAL_RANK", "%d", local_rank);
	environ_set(list, "LOCAL_WORLD_SIZE", "%d", part->nproc);
	environ_set(list, "GROUP_RANK", "%zu", part->index);
}

/* --- directories ------------------------------------------------------------ */

static char *make_dir(const char *parent, const char *prefix, int n, struct err *err)
{
	char *path;

	if (asprintf(&path, "%s/%s%d", parent, prefix, n) < 0) {
		err_set(err, ENOMEM, "%s: out of memory", parent);
		return NULL;
	}
	if (mkdir(path, 0700) < 0) {
		err_set(err, errno, "%s: mkdir: %s", path, strerror(errno));
		free(path);
		return NULL;
	}
	return path;
}

static char *make_short_dir(struct err *err)
{
	char *path = strdup("/tmp/malle-XXXXXX");

	if (path && mkdtemp(path))
		return path;
	err_set(err, errno, "/tmp: a directory for a world: %s", strerror(errno));
	free(path);
	return NULL;
}

static int make_dirs(struct part *part, struct err *err)
{
	struct agent *agent = part->agent;
	const char *states = store_dir(agent->store, part->job, err);
	int n = ++agent->n_dirs;

	if (!states)
		return -1;
	part->tmpdir = strlen(agent->config->rundir) > TMPDIR_MAX - 8
			       ? make_short_dir(err)
			       : make_dir(agent->config->rundir, "t", n, err);
	if (!part->tmpdir)
		return -1;
	part->shmdir = make_dir(states, ".world", n, err);
	return part->shmdir ? 0 : -1;
}

static int remove_one(
	const char *path, const struct stat *st, int type, struct FTW *where)
{
	remove(path);
	return 0;
}

void launch_clean(struct part *part)
{
	if (part->tmpdir)
		nftw(part->tmpdir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	if (part->shmdir)
		nftw(part->shmdir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* --- output ----------------------------------------------------------------- */

static int hand_on(
	const char *job, int stream, const void *bytes, size_t size, void *arg)
{
	struct agent *agent = arg;
	struct link *link = uplink_link(agent->uplink);

	if (!link || link_queued(link) > QUEUED_MAX) {
		errno = link ? EAGAIN : ENOTCONN;
		return -1;
	}
	return link_send_raw(link, MSG_JOB_OUTPUT, 0,
		json_pack("{s:s, s:i}", "job", job, "stream", stream), bytes, size);
}

static int make_output(struct part *part, struct err *err)
{
	struct output_config config = {
		.job = part->job,
		.path = part->output_path,
		.from_mpirun = part->launcher == PART_MPI && part_is_head(part),
		.hand_on = hand_on,
		.arg = part->agent,
	};

	part->output = output_create(part->agent->loop, &config, err);
	return part->output ? 0 : -1;
}

/* --- processes -------------------------------------------------------------- */

static void mpirun_ended(struct child *child, int code, void *arg)
{
	struct part *part = arg;

	part->mpirun = NULL;
	if (!part->reason[0]) /* else it was ended for a reason with its own code */
		part->code = code;
	ending_by_itself(part);
}

/* The exit of a worker that was asked to leave, or said it leaves, is just that. */
static int exit_counts(const struct part *part, int local_rank)
{
	if (part->asked || part->left)
		return 0;
	for (const struct part_worker *w = part->workers; w; w = w->next)
		if (w->local_rank == local_rank && w->left)
			return 0;
	return 1;
}

static void worker_ended(struct child *child, int code, void *arg)
{
	struct part *part = arg;
	int local_rank = 0;

	while (part->locals[local_rank] != child)
		local_rank++;
	part->locals[local_rank] = NULL;
	part->n_locals--;
	if (code && !part->code && exit_counts(part, local_rank)) {
		part->code = code;
		snprintf(part->reason, sizeof(part->reason),
			"a worker on %s ended with %d", part->agent->config->node,
			code);
		ending_failed(part);
	}
	if (part->n_locals == 0)
		ending_by_itself(part);
}

static struct child *spawn(struct part *part, const char *file, char *const *argv,
	const struct environ_list *env, exec_exit_f on_exit, struct err *err)
{
	struct exec_spec spec = {
		.file = file,
		.argv = argv,
		.env = env->entries,
		.cwd = part->cwd,
		.in = -1,
		.out = output_fd(part->output, 1),
		.err = output_fd(part->output, 2),
	};

	if (env->failed) {
		err_set(err, ENOMEM, "job %s: environment: out of memory", part->job);
		return NULL;
	}
	return exec_spawn(part->agent->exec, &spec, on_exit, part, err);
}

static int start_mpirun(struct part *part, struct err *err)
{
	struct launch_mpi what = {
		.agent = part->agent->self,
		.rsh = part->agent->rsh_path,
		.interface = part->agent->config->interface,
		.n_nodes = part->n_nodes,
		.nproc = part->nproc,
		.argv = part->argv,
	};
	char **argv = launch_mpi_argv(&what, err);
	struct environ_list env;

	if (!argv)
		return -1;
	launch_environ(part, &env);
	part->mpirun = spawn(part, NULL, argv, &env, mpirun_ended, err);
	environ_fini(&env);
	free(argv);
	return part->mpirun ? 0 : -1;
}

static int start_worker(struct part *part, int local_rank, struct err *err)
{
	struct environ_list env;
	struct child *child;

	launch_environ(part, &env);
	add_ranks(part, &env, local_rank);
	child = spawn(part, NULL, part->argv, &env, worker_ended, err);
	environ_fini(&env);
	if (!child)
		return -1;
	part->locals[local_rank] = child;
	part->n_locals++;
	return 0;
}

static int start_workers(struct part *part, struct err *err)
{
	part->locals = calloc((size_t)part->nproc, sizeof(*part->locals));
	if (!part->locals)
		return err_set(
			err, ENOMEM, "job %s: workers: out of memory", part->job);
	for (int i = 0; i < part->nproc; i++)
		if (start_worker(part, i, err) < 0)
			return -1;
	return 0;
}

int launch_start(struct part *part, pid_t *pid, struct err *err)
{
	*pid = 0;
	if (make_dirs(part, err) < 0 || make_output(part, err) < 0)
		return -1;
	if (part->launcher != PART_MPI) {
		if (start_workers(part, err) < 0)
			return -1;
		*pid = part_is_head(part) ? exec_pid(part->locals[0]) : 0;
	} else if (part_is_head(part)) {
		if (start_mpirun(part, err) < 0)
			return -1;
		*pid = exec_pid(part->mpirun);
	}
	return 0;
}
