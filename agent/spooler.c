/*
 * spooler.c - states of jobs to a disk, in processes of their own.
 *
 * A disk may be slow, a file server may not answer, and the agent must not wait;
 * so `malle-agent --spool` copies, with the state's file as its standard input:
 * the file may be replaced by a newer one meanwhile, the descriptor stays.
 *
 * A step that is on the disk is not copied again.
 */
#include "agent/spooler.h"

#include <errno.h>
#include <limits.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>

#include "agent/exec.h"
#include "agent/leave.h"
#include "agent/report.h"
#include "agent/store.h"
#include "proto/log.h"

struct copy {
	LIST_ENTRY(copy) entry;
	struct spooler *spooler;
	char job[STORE_ID_SIZE];
	struct store_entry state; /* being copied; its path is not kept */
	struct child *child;      /* NULL: none runs */
	int again;                /* a newer one must follow */
	long long done_step;      /* newest on the disk; -1 */
	double begun_s;
};

struct spooler {
	struct agent *agent;
	LIST_HEAD(, copy) copies; /* one for each job that ever had one */
};

static void start(struct copy *copy);

static struct copy *get(struct spooler *spooler, const char *job)
{
	struct copy *copy;

	LIST_FOREACH(copy, &spooler->copies, entry)
	if (strcmp(copy->job, job) == 0)
		return copy;
	copy = calloc(1, sizeof(*copy));
	if (!copy)
		return NULL;
	copy->spooler = spooler;
	copy->done_step = -1;
	copy->begun_s = -1e9;
	snprintf(copy->job, sizeof(copy->job), "%s", job);
	LIST_INSERT_HEAD(&spooler->copies, copy, entry);
	return copy;
}

static void ended(struct child *child, int code, void *arg)
{
	struct copy *copy = arg;
	struct agent *agent = copy->spooler->agent;

	copy->child = NULL;
	if (code == 0) {
		copy->done_step = copy->state.step;
		report_saved(agent, copy->job, &copy->state, 1);
	} else {
		log_warning("spooler",
			"job %s: the state of step %lld is not spooled code=%d",
			copy->job, copy->state.step, code);
	}
	if (copy->again) {
		copy->again = 0;
		start(copy);
	}
	leave_spooled(agent->leave, copy->job, code == 0);
}

static void run(struct copy *copy, int fd, const char *spool)
{
	struct agent *agent = copy->spooler->agent;
	char path[4200], *argv[] = { agent->self, (char *)"--spool", path,
		(char *)agent->config->claim, NULL };
	/* Errors go to the agent's log. */
	struct exec_spec spec = {
		.argv = argv,
		.env = environ,
		.in = fd,
		.out = -1,
		.err = STDERR_FILENO,
	};
	struct err err;

	snprintf(path, sizeof(path), "%s/state", spool);
	copy->child = exec_spawn(agent->exec, &spec, ended, copy, &err);
	if (!copy->child)
		log_warning("spooler", "job %s: %s", copy->job, err.text);
}

static void start(struct copy *copy)
{
	struct agent *agent = copy->spooler->agent;
	const struct store_entry *newest = store_newest(agent->store, copy->job);
	const char *spool = store_spool_of(agent->store, copy->job);
	int fd;

	if (!newest || !spool)
		return;
	if (newest->step <= copy->done_step) {
		/* Said again: whoever orders it waits for these words. */
		report_saved(agent, copy->job, newest, 1);
		return;
	}
	fd = open(newest->path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		log_warning("spooler", "%s: open: %m", newest->path);
		return;
	}
	copy->state = *newest;
	copy->state.path = NULL;
	copy->begun_s = loop_now_s(agent->loop);
	run(copy, fd, spool);
	close(fd);
}

void spooler_save(struct spooler *spooler, const char *job, int must)
{
	struct copy *copy = get(spooler, job);
	double t = loop_now_s(spooler->agent->loop);

	if (!copy)
		return;
	if (copy->child)
		copy->again |= must;
	else if (must || t - copy->begun_s >= spooler->agent->config->spool_s)
		start(copy);
}

static void destroy(struct copy *copy)
{
	LIST_REMOVE(copy, entry);
	exec_forget(copy->child);
	free(copy);
}

void spooler_forget(struct spooler *spooler, const char *job)
{
	struct copy *copy, *next;

	for (copy = LIST_FIRST(&spooler->copies); copy; copy = next) {
		next = LIST_NEXT(copy, entry);
		if (strcmp(copy->job, job) == 0)
			destroy(copy);
	}
}

int spooler_is_busy(const struct spooler *spooler)
{
	struct copy *copy;

	LIST_FOREACH(copy, &spooler->copies, entry)
	if (copy->child)
		return 1;
	return 0;
}

struct spooler *spooler_create(struct agent *agent, struct err *err)
{
	struct spooler *spooler = calloc(1, sizeof(*spooler));

	if (!spooler) {
		err_set(err, ENOMEM, "spooler: out of memory");
		return NULL;
	}
	spooler->agent = agent;
	LIST_INIT(&spooler->copies);
	return spooler;
}

void spooler_destroy(struct spooler *spooler)
{
	struct copy *copy;

	if (!spooler)
		return;
	while ((copy = LIST_FIRST(&spooler->copies)))
		destroy(copy);
	free(spooler);
}

int spooler_main(const char *path, const char *word)
{
	struct err err;

	if (store_copy(STDIN_FILENO, path, word, &err) == 0)
		return EXIT_OK;
	fprintf(stderr, "malle-agent: %s\n", err.text);
	return EXIT_WRITE_FAILED;
}

void spooler_remove(const char *spool)
{
	char path[PATH_MAX];
	char *slash;

	if (snprintf(path, sizeof(path), "%s/state", spool) >= (int)sizeof(path))
		return;
	unlink(path);
	rmdir(spool);
	snprintf(path, sizeof(path), "%s", spool);
	slash = strrchr(path, '/');
	if (!slash)
		return;
	*slash = '\0';
	if (slash - path >= 7 && !strcmp(slash - 7, "/.malle"))
		rmdir(path);
}
