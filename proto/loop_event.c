/*
 * loop_event.c - the loop, with libevent behind it.
 *
 * A turn is one pass of libevent: wait until something is ready, call back for
 * everything that is, then call what was deferred.  So a decision that was
 * deferred by the first of ten messages sees all ten.  While calls are deferred
 * the pass does not wait.
 *
 * Time is read once a turn, by the first callback of it, so that everything of
 * one turn happens at the same moment; outside of loop_run it is read afresh.
 * Timers count from that moment too (libevent caches it the same way), with
 * the precision of the kernel's timers, not of milliseconds.
 *
 * libevent keeps events in lists of its own, so an object may be destroyed in
 * its own callback: we touch nothing of it after the call.
 *
 * One loop a process may watch signals: libevent has one handler for all.
 * SIGPIPE is left alone: links send with MSG_NOSIGNAL, and programs that write
 * to pipes decide for themselves.
 */
#include "proto/loop.h"

#include <errno.h>
#include <event2/event.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "proto/clock.h"

struct deferral {
	TAILQ_ENTRY(deferral) entry;
	loop_f fn;
	void *arg;
};
TAILQ_HEAD(deferral_list, deferral);

struct loop_end {
	TAILQ_ENTRY(loop_end) entry;
	struct loop *loop;
	loop_f fn;
	void *arg;
};
TAILQ_HEAD(end_list, loop_end);

struct loop {
	struct event_base *base;
	struct deferral_list deferred; /* asked for since the last run of them */
	struct deferral_list due;      /* being called now */
	struct end_list ends;
	int running, stop;
	int fresh; /* now_s and wall_s are those of this turn */
	double now_s, wall_s;
};

struct loop_timer {
	struct loop *loop;
	struct event *event;
	loop_f fn;
	void *arg;
};

struct loop_io {
	struct loop *loop;
	struct event *event;
	int fd;
	unsigned interest;
	loop_io_f fn;
	void *arg;
};

struct loop_signal {
	struct loop *loop;
	struct event *event;
	loop_signal_f fn;
	void *arg;
};

static void read_clocks(struct loop *loop)
{
	if (loop->fresh)
		return;
	loop->now_s = clock_mono_s();
	loop->wall_s = clock_wall_s();
	loop->fresh = 1;
}

static struct event_base *make_base(void)
{
	struct event_config *config = event_config_new();
	struct event_base *base = NULL;

	if (!config)
		return NULL;
	if (!event_config_set_flag(
		    config, EVENT_BASE_FLAG_PRECISE_TIMER | EVENT_BASE_FLAG_NOLOCK))
		base = event_base_new_with_config(config);
	event_config_free(config);
	return base;
}

struct loop *loop_create(struct err *err)
{
	struct loop *loop = calloc(1, sizeof(*loop));

	if (!loop || !(loop->base = make_base())) {
		free(loop);
		err_set(err, ENOMEM, "event loop: out of memory or descriptors");
		return NULL;
	}
	TAILQ_INIT(&loop->deferred);
	TAILQ_INIT(&loop->due);
	TAILQ_INIT(&loop->ends);
	return loop;
}

/* Only what was there at the start: a call that defers itself waits a turn. */
static void run_deferred(struct loop *loop)
{
	struct deferral *d;

	TAILQ_CONCAT(&loop->due, &loop->deferred, entry);
	while ((d = TAILQ_FIRST(&loop->due))) {
		TAILQ_REMOVE(&loop->due, d, entry);
		d->fn(d->arg);
		free(d);
	}
}

static void drop_deferred(struct deferral_list *list, loop_f fn, void *arg)
{
	struct deferral *d, *next;

	for (d = TAILQ_FIRST(list); d; d = next) {
		next = TAILQ_NEXT(d, entry);
		if (fn && (d->fn != fn || d->arg != arg))
			continue;
		TAILQ_REMOVE(list, d, entry);
		free(d);
	}
}

void loop_destroy(struct loop *loop)
{
	int saved = errno;
	struct loop_end *end;

	if (!loop)
		return;
	run_deferred(loop);
	while ((end = TAILQ_FIRST(&loop->ends))) {
		loop_f fn = end->fn;
		void *arg = end->arg;

		loop_end_destroy(end);
		fn(arg);
	}
	drop_deferred(&loop->deferred, NULL, NULL);
	event_base_free(loop->base);
	free(loop);
	errno = saved;
}

int loop_run(struct loop *loop)
{
	int rc = 0;

	loop->running = 1;
	while (!loop->stop && rc >= 0) {
		int idle = TAILQ_EMPTY(&loop->deferred);

		loop->fresh = 0;
		rc = event_base_loop(
			loop->base, EVLOOP_ONCE | (idle ? 0 : EVLOOP_NONBLOCK));
		if (rc > 0 && idle)
			break; /* no event is left, and none could come */
		if (rc >= 0) {
			read_clocks(loop);
			run_deferred(loop);
		}
	}
	loop->running = 0;
	loop->stop = 0;
	return rc < 0 ? -1 : 0;
}

void loop_stop(struct loop *loop)
{
	loop->stop = 1;
}

double loop_now_s(const struct loop *loop)
{
	return loop->running && loop->fresh ? loop->now_s : clock_mono_s();
}

double loop_wall_s(const struct loop *loop)
{
	return loop->running && loop->fresh ? loop->wall_s : clock_wall_s();
}

/* --- timers ---------------------------------------------------------------- */

static void timer_fired(evutil_socket_t fd, short what, void *arg)
{
	struct loop_timer *timer = arg;

	read_clocks(timer->loop);
	timer->fn(timer->arg);
}

struct loop_timer *loop_timer_create(struct loop *loop, loop_f fn, void *arg)
{
	struct loop_timer *timer = calloc(1, sizeof(*timer));

	if (!timer)
		return NULL;
	*timer = (struct loop_timer){ .loop = loop, .fn = fn, .arg = arg };
	timer->event = event_new(loop->base, -1, 0, timer_fired, timer);
	if (!timer->event) {
		free(timer);
		errno = ENOMEM;
		return NULL;
	}
	return timer;
}

static struct timeval to_timeval(double s)
{
	struct timeval tv;

	s = s > 0 ? s : 0; /* also what is no number */
	if (s > 1e9)       /* thirty years: libevent adds it to the present */
		s = 1e9;
	/* Rounded up: a timer never fires before its time. */
	tv.tv_sec = (time_t)s;
	tv.tv_usec = (suseconds_t)ceil((s - (double)tv.tv_sec) * 1e6);
	if (tv.tv_usec >= 1000000) {
		tv.tv_sec++;
		tv.tv_usec -= 1000000;
	}
	return tv;
}

void loop_timer_start(struct loop_timer *timer, double after_s)
{
	struct timeval tv = to_timeval(after_s);

	event_add(timer->event, &tv);
}

void loop_timer_stop(struct loop_timer *timer)
{
	event_del(timer->event);
}

int loop_timer_pending(const struct loop_timer *timer)
{
	return event_pending(timer->event, EV_TIMEOUT, NULL) != 0;
}

void loop_timer_destroy(struct loop_timer *timer)
{
	int saved = errno;

	if (!timer)
		return;
	event_free(timer->event);
	free(timer);
	errno = saved;
}

/* --- readiness ------------------------------------------------------------- */

static void io_ready(evutil_socket_t fd, short what, void *arg)
{
	struct loop_io *io = arg;
	unsigned ready = (what & EV_READ ? LOOP_READ : LOOP_NONE) |
			 (what & EV_WRITE ? LOOP_WRITE : LOOP_NONE);

	read_clocks(io->loop);
	io->fn(fd, ready, io->arg);
}

int loop_io_set(struct loop_io *io, unsigned interest)
{
	short what = (short)((interest & LOOP_READ ? EV_READ : 0) |
			     (interest & LOOP_WRITE ? EV_WRITE : 0));

	if (interest == io->interest)
		return 0;
	event_del(io->event);
	io->interest = LOOP_NONE;
	if (interest == LOOP_NONE)
		return 0;
	event_assign(io->event, io->loop->base, io->fd, (short)(what | EV_PERSIST),
		io_ready, io);
	if (event_add(io->event, NULL) < 0)
		return -1;
	io->interest = interest;
	return 0;
}

struct loop_io *loop_io_create(
	struct loop *loop, int fd, unsigned interest, loop_io_f fn, void *arg)
{
	struct loop_io *io = calloc(1, sizeof(*io));

	if (!io)
		return NULL;
	*io = (struct loop_io){ .loop = loop, .fd = fd, .fn = fn, .arg = arg };
	io->event = event_new(loop->base, fd, EV_READ | EV_PERSIST, io_ready, io);
	if (!io->event || loop_io_set(io, interest) < 0) {
		int saved = io->event ? errno : ENOMEM;

		loop_io_destroy(io);
		errno = saved;
		return NULL;
	}
	return io;
}

void loop_io_destroy(struct loop_io *io)
{
	int saved = errno;

	if (!io)
		return;
	if (io->event)
		event_free(io->event);
	free(io);
	errno = saved;
}

/* --- signals --------------------------------------------------------------- */

static void signal_came(evutil_socket_t signo, short what, void *arg)
{
	struct loop_signal *sig = arg;

	read_clocks(sig->loop);
	sig->fn((int)signo, sig->arg);
}

struct loop_signal *loop_signal_create(
	struct loop *loop, int signo, loop_signal_f fn, void *arg)
{
	struct loop_signal *sig = calloc(1, sizeof(*sig));

	if (!sig)
		return NULL;
	*sig = (struct loop_signal){ .loop = loop, .fn = fn, .arg = arg };
	sig->event =
		event_new(loop->base, signo, EV_SIGNAL | EV_PERSIST, signal_came, sig);
	if (!sig->event || event_add(sig->event, NULL) < 0) {
		loop_signal_destroy(sig);
		errno = ENOMEM;
		return NULL;
	}
	return sig;
}

void loop_signal_destroy(struct loop_signal *sig)
{
	int saved = errno;

	if (!sig)
		return;
	if (sig->event)
		event_free(sig->event);
	free(sig);
	errno = saved;
}

/* --- end of turn, end of loop ---------------------------------------------- */

int loop_defer(struct loop *loop, loop_f fn, void *arg)
{
	struct deferral *d = malloc(sizeof(*d));

	if (!d)
		return -1;
	d->fn = fn;
	d->arg = arg;
	TAILQ_INSERT_TAIL(&loop->deferred, d, entry);
	return 0;
}

void loop_undefer(struct loop *loop, loop_f fn, void *arg)
{
	drop_deferred(&loop->deferred, fn, arg);
	drop_deferred(&loop->due, fn, arg);
}

struct loop_end *loop_end_create(struct loop *loop, loop_f fn, void *arg)
{
	struct loop_end *end = malloc(sizeof(*end));

	if (!end)
		return NULL;
	*end = (struct loop_end){ .loop = loop, .fn = fn, .arg = arg };
	TAILQ_INSERT_TAIL(&loop->ends, end, entry);
	return end;
}

void loop_end_destroy(struct loop_end *end)
{
	if (!end)
		return;
	TAILQ_REMOVE(&end->loop->ends, end, entry);
	free(end);
}
