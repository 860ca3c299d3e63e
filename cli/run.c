/*
 * run.c - a job, from its submission to its end, at a terminal.
 *
 *	searching --(daemon)--> submitting --(accepted)--> attached --(ended)--> done
 *	    |                       |   ^                    |   ^
 *	 --fallback               lost  +-- found again     lost +-- found again
 *
 * The job belongs to the daemon, not to this process: whatever happens to us or
 * to our connection, it goes on.  Only Ctrl-C and SIGTERM ask for its end:
 * politely the first time (the workers leave at a step that all agree on, and
 * the state is saved), by force the second; a third Ctrl-C takes just us away,
 * for a daemon that does not come back.  A hang-up takes only us away.
 *
 * Lost connections. The daemon may be restarted in the middle of training, so
 * we look for it for --timeout seconds and then carry on.  A submit whose
 * answer was lost is sent again with the same token and is no second job.
 * Output is counted in bytes of both streams together: what the daemon still
 * has is sent from our count on, or from its beginning when the daemon was
 * restarted and counts anew; what it has no more is reported as lost.  An
 * interrupt meanwhile is kept, and sent when the daemon is back.
 *
 * Output is passed on raw and never blocks the loop (out.c): a reader that
 * stands still makes us stop reading, not stop listening to Ctrl-C.
 */
#include "cli/run.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/client.h"
#include "cli/out.h"
#include "cli/say.h"
#include "cli/spool.h"
#include "cli/submit.h"
#include "proto/loop.h"

#define RETRY_FIRST_S 0.1
#define RETRY_MOST_S  1.0
#define QUEUE_HIGH    (1u << 20)
#define SIGNALS	      3

enum phase {
	PHASE_UNSET = 0,
	PHASE_SEARCHING,  /* no daemon has had the submit yet */
	PHASE_SUBMITTING, /* one may have had it */
	PHASE_ATTACHED,	  /* the job has an id */
	PHASE_DONE,	  /* the exit code is known; output may be queued */
};

struct run {
	const struct run_options *options;
	struct submit submit;
	struct loop *loop;
	struct client *client;
	struct out *out[2]; /* standard output, standard error */
	struct loop_signal *signals[SIGNALS];
	struct loop_timer *retry;  /* of the next try to connect */
	struct loop_timer *silent; /* since a request that must be answered */
	struct loop_timer *lost;   /* since the daemon was lost */
	double retry_s;

	enum phase phase;
	char job[65];
	char instance[65]; /* of the daemon that `offset` is about */
	long long offset;  /* bytes of output that we have */
	uint32_t request;  /* id of the open submit or attach */
	uint32_t cancel;   /* id of the last cancel */
	int interrupts;
	int said_wait, paused;
	char line[512]; /* the last on the job's state */
	int exit_code;
};

static void try_connect(void *arg);

/* A line between the lines of the job's standard error. */
static void tell(struct run *run, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
static void tell(struct run *run, const char *fmt, ...)
{
	char line[1500];
	va_list ap;
	size_t size;

	va_start(ap, fmt);
	size = say_format(line, sizeof(line), fmt, ap);
	va_end(ap);
	if (!out_at_line_start(run->out[1]))
		out_write(run->out[1], "\n", 1);
	out_write(run->out[1], line, size);
}

/* --- the end -------------------------------------------- */

static void stop_when_written(struct run *run)
{
	if (run->phase == PHASE_DONE && !out_queued(run->out[0]) &&
		!out_queued(run->out[1]))
		loop_stop(run->loop);
}

static void finish(struct run *run, int code)
{
	if (run->phase == PHASE_DONE)
		return;
	run->phase = PHASE_DONE;
	run->exit_code = code;
	client_drop(run->client);
	loop_timer_stop(run->retry);
	loop_timer_stop(run->silent);
	loop_timer_stop(run->lost);
	stop_when_written(run);
}

/* After something was written, or could not be. */
static void on_written(void *arg)
{
	struct run *run = arg;
	int failed = out_failed(run->out[0]);
	int full = out_queued(run->out[0]) + out_queued(run->out[1]) > QUEUE_HIGH;

	if (failed && run->phase != PHASE_DONE) {
		tell(run, "standard output: cannot be written: %s; job %s goes on",
			strerror(failed), run->job);
		finish(run, EXIT_WRITE_FAILED);
	} else if (failed) {
		run->exit_code = EXIT_WRITE_FAILED;
	}
	if (full != run->paused) {
		run->paused = full;
		client_pause(run->client, full);
	}
	stop_when_written(run);
}

static void job_ended(struct run *run, int code)
{
	if (spool_remove(run->submit.spool, code == 0))
		tell(run, "job %s: its state is kept in %s", run->job,
			run->submit.spool);
	finish(run, code);
}

static void refused(struct run *run, int code, const char *text)
{
	tell(run, "%s", text);
	if (!run->job[0] && run->submit.spool)
		spool_remove(run->submit.spool, 1);
	finish(run, code);
}

/* --- requests -------------------------------------------- */

static void expect_answer(struct run *run, uint32_t id)
{
	run->request = id;
	loop_timer_start(run->silent, CLIENT_LIMIT_S);
}

static void answered(struct run *run)
{
	loop_timer_stop(run->silent);
	if (loop_timer_pending(run->lost))
		tell(run, "daemon: there again");
	loop_timer_stop(run->lost);
	run->retry_s = RETRY_FIRST_S;
}

static void send_cancel(struct run *run)
{
	run->cancel = client_send(run->client, MSG_JOB_CANCEL,
		json_pack("{s:s, s:b}", "job", run->job, "force", run->interrupts > 1));
}

/* Not before there is a daemon: nothing is made for a job that will not be. */
static int describe(struct run *run)
{
	struct err err;
	int code;

	if (run->submit.body)
		return 0;
	code = submit_init(&run->submit, run->options, &err);
	if (code != EXIT_OK) {
		tell(run, "%s", err.text);
		finish(run, code);
		return -1;
	}
	if (run->submit.left_out)
		tell(run, "environment: %zu variables are not UTF-8, and are left out",
			run->submit.left_out);
	return 0;
}

static void send_submit(struct run *run)
{
	char why[200];
	uint32_t id;

	if (describe(run) < 0)
		return;
	id = client_send(run->client, MSG_JOB_SUBMIT, json_incref(run->submit.body));
	if (!id && errno != EPIPE) {
		snprintf(why, sizeof(why), "job %s: cannot be sent: %s",
			run->options->name,
			errno == EMSGSIZE ? "command and environment are too large"
					  : strerror(errno));
		refused(run, EXIT_BAD_DATA, why);
		return;
	}
	run->phase = PHASE_SUBMITTING;
	expect_answer(run, id);
}

static void send_attach(struct run *run)
{
	if (strcmp(run->instance, client_instance(run->client)) != 0) {
		/* This daemon has not counted what the other one sent. */
		snprintf(run->instance, sizeof(run->instance), "%s",
			client_instance(run->client));
		run->offset = 0;
	}
	expect_answer(run, client_send(run->client, MSG_JOB_ATTACH,
				   json_pack("{s:s, s:I}", "job", run->job, "offset",
					   (json_int_t)run->offset)));
	if (run->interrupts)
		send_cancel(run);
}

/* --- what the daemon says -------------------------------------------- */

static void take_accepted(struct run *run, const struct msg *msg)
{
	answered(run);
	snprintf(run->job, sizeof(run->job), "%s", msg_str(msg, "job"));
	run->phase = PHASE_ATTACHED;
	if (!run->options->detach) {
		send_attach(run);
		return;
	}
	if (run->interrupts)
		send_cancel(run);
	out_write(run->out[0], run->job, strlen(run->job));
	out_write(run->out[0], "\n", 1);
	on_written(run);
	finish(run, EXIT_OK);
}

static void state_line(const struct msg *msg, char *line, size_t size)
{
	const char *reason = msg_str(msg, "reason");
	long long n = msg_int(msg, "n_nodes");
	size_t used;

	used = snprintf(line, size, "%s", msg_str(msg, "state"));
	if (msg_has(msg, "exit_code"))
		used += snprintf(line + used, size - used, ", exit code %lld",
			msg_int(msg, "exit_code"));
	if (n > 0)
		used += snprintf(line + used, size - used,
			" on %.200s (%lld node%s), generation %lld",
			msg_str(msg, "nodes"), n, n == 1 ? "" : "s",
			msg_int(msg, "generation"));
	if (reason && *reason)
		snprintf(line + used, size - used, ": %.150s", reason);
}

static void take_state(struct run *run, const struct msg *msg)
{
	char line[sizeof(run->line)];

	if (strcmp(msg_str(msg, "job"), run->job) != 0)
		return;
	answered(run);
	state_line(msg, line, sizeof(line));
	/* After a lost connection all of it is told again. */
	if (strcmp(line, run->line) != 0 && !run->options->quiet)
		tell(run, "job %s: %s", run->job, line);
	strcpy(run->line, line);
	if (strcmp(msg_str(msg, "state"), "ended") == 0)
		job_ended(run, msg_int(msg, "exit_code"));
}

static void take_output(struct run *run, const struct msg *msg)
{
	const uint8_t *raw = msg->raw;
	size_t size = msg->raw_size;
	long long begin = run->offset;

	if (strcmp(msg_str(msg, "job"), run->job) != 0)
		return;
	if (msg_has(msg, "offset"))
		begin = msg_int(msg, "offset");
	if (begin > run->offset) {
		tell(run, "job %s: %lld bytes of output were lost", run->job,
			begin - run->offset);
		run->offset = begin;
	}
	if (begin + (long long)size <= run->offset)
		return; /* we have it all */
	raw += run->offset - begin;
	size -= run->offset - begin;
	run->offset += size;
	out_write(run->out[msg_int(msg, "stream") == 1 ? 0 : 1], raw, size);
	on_written(run);
}

static void take_refusal(struct run *run, const struct msg *msg)
{
	if (msg->id && msg->id == run->request)
		refused(run, msg_int(msg, "code"), msg_str(msg, "text"));
	else
		tell(run, "%s", msg_str(msg, "text"));
}

static void on_msg(const struct msg *msg, void *arg)
{
	struct run *run = arg;

	if (run->phase == PHASE_DONE)
		return;
	if (msg->type == MSG_JOB_ACCEPTED && run->phase == PHASE_SUBMITTING)
		take_accepted(run, msg);
	else if (msg->type == MSG_JOB_STATE)
		take_state(run, msg);
	else if (msg->type == MSG_JOB_OUTPUT)
		take_output(run, msg);
	else if (msg->type == MSG_REFUSE)
		take_refusal(run, msg);
}

/* --- the daemon comes and goes -------------------------------------------- */

static void on_up(void *arg)
{
	struct run *run = arg;

	/* Not paused again before the answer: on_written will do it. */
	run->paused = 0;
	if (run->job[0])
		send_attach(run);
	else
		send_submit(run);
}

static void try_later(struct run *run)
{
	loop_timer_start(run->retry, run->retry_s);
	run->retry_s *= 1.5;
	if (run->retry_s > RETRY_MOST_S)
		run->retry_s = RETRY_MOST_S;
}

/* There was no daemon to begin with. */
static void absent(struct run *run, int code, const char *why)
{
	enum run_fallback fallback = run->options->fallback;
	char text[400];

	if (code == EXIT_NO_DAEMON && fallback == FALLBACK_LOCAL) {
		finish(run, RUN_LOCALLY);
	} else if (code == EXIT_NO_DAEMON && fallback == FALLBACK_WAIT) {
		if (!run->said_wait)
			tell(run, "%s; waiting for it", why);
		run->said_wait = 1;
		try_later(run);
	} else if (code == EXIT_NO_DAEMON) {
		snprintf(text, sizeof(text),
			"%s; with --fallback=local it would be trained on this machine",
			why);
		refused(run, code, text);
	} else {
		refused(run, code, why);
	}
}

static void lost(struct run *run, int code, const char *why)
{
	if (code != EXIT_NO_DAEMON && code != EXIT_TRY_AGAIN) {
		refused(run, code, why);
		return;
	}
	loop_timer_stop(run->silent);
	if (!loop_timer_pending(run->lost)) {
		tell(run, "daemon: %s; looking for it for %g s", why,
			run->options->timeout_s);
		loop_timer_start(run->lost, run->options->timeout_s);
	}
	try_later(run);
}

static void on_down(int code, const char *why, void *arg)
{
	struct run *run = arg;
	char text[300];

	if (run->phase == PHASE_DONE)
		return;
	if (run->phase != PHASE_SEARCHING) {
		lost(run, code, why);
		return;
	}
	snprintf(text, sizeof(text), "daemon at %s: %s", client_path(run->client), why);
	absent(run, code, text);
}

static void try_connect(void *arg)
{
	struct run *run = arg;
	struct err err;

	if (client_connect(run->client, &err) == 0)
		return;
	if (run->phase == PHASE_SEARCHING)
		absent(run, client_code(errno), err.text);
	else
		lost(run, EXIT_NO_DAEMON, err.text);
}

static void on_silent(void *arg)
{
	struct run *run = arg;

	client_drop(run->client);
	lost(run, EXIT_TRY_AGAIN, "no answer");
}

static void on_lost(void *arg)
{
	struct run *run = arg;

	if (run->job[0])
		tell(run,
			"daemon: lost for %g s; job %s may go on, see malle-status job "
			"%s",
			run->options->timeout_s, run->job, run->job);
	else
		tell(run, "daemon: lost for %g s; it may have taken job %s",
			run->options->timeout_s, run->options->name);
	finish(run, EXIT_TRY_AGAIN);
}

/* --- signals -------------------------------------------- */

/* How a shell reports a program that died by this signal. */
static int code_of_signal(int signo)
{
	return 128 + signo;
}

static void cancel(struct run *run, int signo)
{
	static const char *const asks[] = {
		"asking it to save its state and end; Ctrl-C again kills it",
		"killing it; Ctrl-C again leaves it alone",
	};
	const char *away =
		client_is_up(run->client) ? "" : " (when the daemon is back)";

	if (run->interrupts < 3)
		run->interrupts++;
	if (run->interrupts == 3) {
		tell(run, "job %s: may go on", run->job);
		finish(run, code_of_signal(signo));
		return;
	}
	tell(run, "job %s: %s%s", run->job[0] ? run->job : run->options->name,
		asks[run->interrupts - 1], away);
	if (run->job[0] && client_is_up(run->client))
		send_cancel(run);
}

static void on_signal(int signo, void *arg)
{
	struct run *run = arg;

	if (run->phase == PHASE_DONE) {
		/* Only a reader that stands still can keep us. */
		if (out_queued(run->out[0]) || out_queued(run->out[1]))
			run->exit_code = EXIT_WRITE_FAILED;
		loop_stop(run->loop);
	} else if (run->phase == PHASE_SEARCHING) {
		refused(run, code_of_signal(signo),
			"interrupted before a daemon was there");
	} else if (signo == SIGHUP) {
		tell(run, "job %s: goes on without this terminal", run->job);
		finish(run, code_of_signal(signo));
	} else if (signo == SIGINT || run->interrupts == 0) {
		cancel(run, signo);
	}
}

/* nohup and `malle-run ... &` in a script ignore some: leave those ignored. */
static int watch_signals(struct run *run)
{
	static const int wanted[SIGNALS] = { SIGINT, SIGTERM, SIGHUP };

	for (int i = 0; i < SIGNALS; i++) {
		struct sigaction old;

		if (sigaction(wanted[i], NULL, &old) == 0 && old.sa_handler == SIG_IGN)
			continue;
		run->signals[i] =
			loop_signal_create(run->loop, wanted[i], on_signal, run);
		if (!run->signals[i])
			return -1;
	}
	return 0;
}

/* --- all of it -------------------------------------------- */

static int build(struct run *run, struct err *err)
{
	static const struct client_handlers handlers = { on_up, on_msg, on_down };
	double limit_s = run->options->timeout_s;

	run->loop = loop_create(err);
	if (!run->loop)
		return -1;
	run->client = client_create(run->loop, run->options->server,
		limit_s < CLIENT_LIMIT_S ? limit_s : CLIENT_LIMIT_S, &handlers, run,
		err);
	if (!run->client)
		return -1;
	run->out[0] = out_create(run->loop, STDOUT_FILENO, on_written, run);
	run->out[1] = out_create(run->loop, STDERR_FILENO, on_written, run);
	run->retry = loop_timer_create(run->loop, try_connect, run);
	run->silent = loop_timer_create(run->loop, on_silent, run);
	run->lost = loop_timer_create(run->loop, on_lost, run);
	if (!run->out[0] || !run->out[1] || !run->retry || !run->silent || !run->lost ||
		watch_signals(run) < 0)
		return err_set(
			err, ENOMEM, "job %s: out of memory", run->options->name);
	return 0;
}

static void teardown(struct run *run)
{
	client_destroy(run->client);
	for (int i = 0; i < SIGNALS; i++)
		loop_signal_destroy(run->signals[i]);
	loop_timer_destroy(run->retry);
	loop_timer_destroy(run->silent);
	loop_timer_destroy(run->lost);
	out_destroy(run->out[0]);
	out_destroy(run->out[1]);
	loop_destroy(run->loop);
	submit_fini(&run->submit);
}

static int run_through(struct run *run)
{
	struct err err;

	if (build(run, &err) < 0) {
		say("%s", err.text);
		return EXIT_INTERNAL;
	}
	run->phase = PHASE_SEARCHING;
	run->retry_s = RETRY_FIRST_S;
	try_connect(run);
	if (loop_run(run->loop) < 0)
		return EXIT_INTERNAL;
	return run->exit_code;
}

int run_job(const struct run_options *options)
{
	struct run run = { .options = options };
	int code = run_through(&run);

	teardown(&run);
	return code;
}
