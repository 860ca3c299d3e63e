/*
 * part.c - what this node holds of a world: facts, and what follows from them.
 *
 * Phases only go forward:
 *
 *	            all ready  go       all left  ends     gone
 *	starting    ready      running  left      exiting  exited
 *	ready       -          running  left      exiting  exited
 *	running     -          -        left      exiting  exited
 *	left        -          -        -         -        exited
 *	exiting     -          -        -         -        exited
 *
 * A part that has left stays "left" while its processes end: the exit of a
 * worker that was asked to leave never counts.
 *
 * The daemon hears of workers only in sum: how many wait, whether all agree to
 * a proposal, that all have left.  A proposal is answered when every local
 * worker has answered it; one worker that said no, or is not there any more, does
 * not cut this short, because the answer carries the furthest step, from which
 * the next proposal is made.  Only when a worker is missing for good is the
 * answer given without it: it cannot be yes.
 *
 * Numbers of proposals count up within a world for the workers, which answer the
 * newest only.  A daemon that was started anew may count from one again, so
 * workers get numbers of ours.
 *
 * Nothing here sends, waits or looks at a clock.
 */
#include "agent/part.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const enum part_phase next_phase[PART_N_PHASES][PART_N_EVENTS] = {
	[PART_STARTING] = {
		[PART_ALL_READY] = PART_READY,
		[PART_GO] = PART_RUNNING,
		[PART_ALL_LEFT] = PART_LEFT,
		[PART_ENDS] = PART_EXITING,
		[PART_GONE] = PART_EXITED,
	},
	[PART_READY] = {
		[PART_GO] = PART_RUNNING,
		[PART_ALL_LEFT] = PART_LEFT,
		[PART_ENDS] = PART_EXITING,
		[PART_GONE] = PART_EXITED,
	},
	[PART_RUNNING] = {
		[PART_ALL_LEFT] = PART_LEFT,
		[PART_ENDS] = PART_EXITING,
		[PART_GONE] = PART_EXITED,
	},
	[PART_LEFT] = { [PART_GONE] = PART_EXITED },
	[PART_EXITING] = { [PART_GONE] = PART_EXITED },
};

const char *part_phase_name(enum part_phase phase)
{
	static const char *const names[PART_N_PHASES] = {
		[PART_UNSET] = "unset",
		[PART_STARTING] = "starting",
		[PART_READY] = "ready",
		[PART_RUNNING] = "running",
		[PART_LEFT] = "left",
		[PART_EXITING] = "exiting",
		[PART_EXITED] = "exiting", /* the daemon has no other word */
	};

	return names[phase];
}

int part_event(struct part *part, enum part_event event)
{
	enum part_phase next = next_phase[part->phase][event];

	if (next == PART_UNSET)
		return 0;
	part->phase = next;
	return 1;
}

/* --- birth and death -------------------------------------------------------- */

static int parse_launcher(struct part *part, const char *word, struct err *err)
{
	static const char *const words[] = {
		[PART_MPI] = "mpi",
		[PART_TORCH] = "torch",
		[PART_ENV] = "env",
	};

	for (int i = PART_MPI; i <= PART_ENV; i++)
		if (strcmp(word, words[i]) == 0) {
			part->launcher = (enum part_launcher)i;
			return 0;
		}
	return err_set(err, EINVAL, "launcher \"%s\": there is no such", word);
}

static int find_self(struct part *part, const char *self, struct err *err)
{
	for (; part->nodes[part->n_nodes]; part->n_nodes++)
		if (strcmp(part->nodes[part->n_nodes], self) == 0)
			part->index = part->n_nodes + 1;
	if (!part->index)
		return err_set(err, EINVAL, "job %s: node %s is not one of its world",
			part->job, self);
	part->index--;
	return 0;
}

static char *copy(const struct msg *msg, const char *field)
{
	const char *value = msg_str(msg, field);

	return value ? strdup(value) : NULL;
}

static void take_numbers(struct part *part, const struct msg *start)
{
	part->generation = msg_int(start, "generation");
	part->nproc = (int)msg_int(start, "nproc");
	part->restarts = (int)msg_int(start, "restarts");
	part->min_nodes = (int)msg_int(start, "min_nodes");
	part->max_nodes = (int)msg_int(start, "max_nodes");
	part->master_port = (int)msg_int(start, "master_port");
	part->saved_step = part->saved_cursor = -1;
	part->state_step = -1;
	part->phase = PART_STARTING;
}

struct part *part_create(const struct msg *start, const char *self, struct err *err)
{
	struct part *part = calloc(1, sizeof(*part));

	if (!part) {
		err_set(err, ENOMEM, "world: out of memory");
		return NULL;
	}
	snprintf(part->job, sizeof(part->job), "%s", msg_str(start, "job"));
	take_numbers(part, start);
	part->nodes = msg_strv(start, "world_nodes");
	part->argv = msg_strv(start, "argv");
	part->env = msg_strv(start, "env");
	part->cwd = copy(start, "cwd");
	part->spool = copy(start, "spool");
	part->output_path = copy(start, "output");
	part->master_addr = copy(start, "master_addr");
	if (!part->nodes || !part->argv || !part->env || !part->cwd || !part->spool) {
		err_set(err, ENOMEM, "job %s: its world: out of memory", part->job);
		goto fail;
	}
	if (parse_launcher(part, msg_str(start, "launcher"), err) < 0 ||
		find_self(part, self, err) < 0)
		goto fail;
	return part;
fail:
	part_destroy(part);
	return NULL;
}

void part_destroy(struct part *part)
{
	int saved = errno;
	struct part_worker *worker;

	if (!part)
		return;
	while ((worker = part->workers)) {
		part->workers = worker->next;
		free(worker);
	}
	free(part->nodes);
	free(part->argv);
	free(part->env);
	free(part->cwd);
	free(part->spool);
	free(part->output_path);
	free(part->master_addr);
	free(part->state_path);
	free(part->tmpdir);
	free(part->shmdir);
	free(part->locals);
	free(part);
	errno = saved;
}

struct part *part_find(struct part *list, const char *job, long long generation)
{
	while (list && (list->generation != generation || strcmp(list->job, job) != 0))
		list = list->next;
	return list;
}

int part_is_head(const struct part *part)
{
	return part->index == 0;
}

long long part_world_size(const struct part *part)
{
	return (long long)part->n_nodes * part->nproc;
}

/* --- workers ---------------------------------------------------------------- */

static int check_rank(
	const struct part *part, long long rank, int local_rank, struct err *err)
{
	long long wanted = (long long)part->index * part->nproc + local_rank;

	if (local_rank >= part->nproc || rank != wanted)
		return err_set(err, EINVAL,
			"job %s: rank %lld, local rank %d: not of this node", part->job,
			rank, local_rank);
	if (part->phase >= PART_LEFT || part->ending != ENDING_NO)
		return err_set(err, EBUSY, "job %s generation %lld: it is ending",
			part->job, part->generation);
	return 0;
}

struct part_worker *part_join(
	struct part *part, long long rank, int local_rank, pid_t pid, struct err *err)
{
	struct part_worker **at = &part->workers, *worker;

	if (check_rank(part, rank, local_rank, err) < 0)
		return NULL;
	while (*at && (*at)->local_rank < local_rank)
		at = &(*at)->next;
	if (*at && (*at)->local_rank == local_rank) {
		err_set(err, EEXIST, "job %s: rank %lld is there already", part->job,
			rank);
		return NULL;
	}
	worker = calloc(1, sizeof(*worker));
	if (!worker) {
		err_set(err, ENOMEM, "job %s: a worker: out of memory", part->job);
		return NULL;
	}
	*worker = (struct part_worker){
		.next = *at,
		.part = part,
		.rank = rank,
		.local_rank = local_rank,
		.pid = pid,
	};
	*at = worker;
	return worker;
}

struct part_worker *part_rank_zero(const struct part *part)
{
	return part->workers && part->workers->rank == 0 ? part->workers : NULL;
}

int part_count_ready(const struct part *part)
{
	int n = 0;

	for (const struct part_worker *w = part->workers; w; w = w->next)
		n += w->ready && w->link;
	return n;
}

int part_worker_ready(struct part_worker *worker)
{
	worker->ready = 1;
	return part_count_ready(worker->part) == worker->part->nproc &&
	       part_event(worker->part, PART_ALL_READY);
}

int part_worker_stepped(
	struct part_worker *worker, long long step, long long cursor, double t_s)
{
	struct part *part = worker->part;

	worker->step = step;
	worker->cursor = cursor;
	worker->t_s = t_s;
	if (step > part->step) {
		part->step = step;
		part->cursor = cursor;
	}
	return worker->rank == 0;
}

static int all_left(const struct part *part)
{
	int n = 0;

	for (const struct part_worker *w = part->workers; w; w = w->next)
		n += w->left;
	return n == part->nproc;
}

int part_worker_left(struct part_worker *worker, const struct msg *leave)
{
	struct part *part = worker->part;

	part_worker_stepped(worker, msg_int(leave, "step"), msg_int(leave, "cursor"),
		msg_real(leave, "t_s"));
	worker->left = 1;
	worker->finished = msg_bool(leave, "finished");
	if (part->left || !all_left(part))
		return 0;
	part->left = part->left_finished = 1;
	for (const struct part_worker *w = part->workers; w; w = w->next) {
		part->left_finished &= w->finished;
		if (w->t_s > part->left_t_s)
			part->left_t_s = w->t_s;
	}
	part_event(part, PART_ALL_LEFT);
	return 1;
}

/* --- agreeing --------------------------------------------------------------- */

int part_propose(
	struct part *part, long long number, long long step, const char *verdict)
{
	if (number <= part->proposal.number || part->proposal.committed)
		return 0;
	part->proposal = (struct part_proposal){
		.number = number,
		.local = ++part->n_proposals,
		.step = step,
	};
	snprintf(part->proposal.verdict, sizeof(part->proposal.verdict), "%s", verdict);
	return 1;
}

void part_worker_answer(
	struct part_worker *worker, long long local, int agreed, long long step)
{
	if (local != worker->part->proposal.local)
		return; /* of one that was replaced */
	worker->answered = local;
	worker->agreed = agreed;
	worker->answer_step = step;
}

void part_unpropose(struct part *part)
{
	memset(&part->proposal, 0, sizeof(part->proposal));
}

struct part_tally part_tally(const struct part *part)
{
	struct part_tally tally = { .complete = 1, .agreed = 1, .step = part->step };
	int n = 0;

	for (const struct part_worker *w = part->workers; w; w = w->next) {
		int answered = w->answered == part->proposal.local;

		n++;
		if (answered && w->answer_step > tally.step)
			tally.step = w->answer_step;
		if (answered ? !w->agreed : !w->link || w->left)
			tally.agreed = 0;
		else if (!answered)
			tally.complete = 0;
	}
	if (n < part->nproc || part->phase != PART_RUNNING)
		tally.agreed = 0;
	/* Nobody will answer for a part that does not train. */
	if (part->phase != PART_RUNNING)
		tally.complete = 1;
	return tally;
}
