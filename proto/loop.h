/* loop.h - timers, readiness, signals, end of turn.
 *
 * The interface everything in a daemon waits through.  loop_event.c has
 * libevent behind it; a program that links another implementation of the same
 * functions first (a simulator's virtual clock) gets that one.
 */
#ifndef PROTO_LOOP_H
#define PROTO_LOOP_H

#include "proto/err.h"

struct loop;
struct loop_timer;
struct loop_io;
struct loop_signal;
struct loop_end;

typedef void (*loop_f)(void *arg);
typedef void (*loop_io_f)(int fd, unsigned ready, void *arg);
typedef void (*loop_signal_f)(int signo, void *arg);

enum loop_ready { LOOP_NONE = 0, LOOP_READ = 1, LOOP_WRITE = 2 };

struct loop *loop_create(struct err *err);

/*
 * Everything made on the loop must be destroyed before it, or by a loop_end.
 * What is deferred still is done, in one last turn without input.  NULL is fine.
 */
void loop_destroy(struct loop *loop);

/*
 * Turn until loop_stop (which ends this turn, deferred calls included), or
 * until nothing is left to wait for.  A stop before it makes it return at once.
 * Returns 0, or -1 with errno.
 */
int loop_run(struct loop *loop);
void loop_stop(struct loop *loop);

/* Monotonic and wall seconds at the start of this turn; outside loop_run: now. */
double loop_now_s(const struct loop *loop);
double loop_wall_s(const struct loop *loop);

/*
 * One-shot timers: they fire once, after `after_s` seconds (0: next turn), and
 * may be started again at any time, also from their own callback.  Starting a
 * running one moves it.  NULL with errno ENOMEM on failure.
 */
struct loop_timer *loop_timer_create(struct loop *loop, loop_f fn, void *arg);
void loop_timer_start(struct loop_timer *timer, double after_s);
void loop_timer_stop(struct loop_timer *timer);
int loop_timer_pending(const struct loop_timer *timer);
void loop_timer_destroy(struct loop_timer *timer);

/*
 * Call `fn` whenever fd is ready for `interest` (an or of loop_ready), level
 * triggered.  The fd stays the caller's.  May be destroyed in its callback.
 */
struct loop_io *loop_io_create(
	struct loop *loop, int fd, unsigned interest, loop_io_f fn, void *arg);
int loop_io_set(struct loop_io *io, unsigned interest); /* -1: errno */
void loop_io_destroy(struct loop_io *io);

struct loop_signal *loop_signal_create(
	struct loop *loop, int signo, loop_signal_f fn, void *arg);
void loop_signal_destroy(struct loop_signal *sig);

/*
 * Call `fn` once, after all input of this turn was taken in: where decisions
 * are made and where the dead are buried.  In order of request; a request made
 * meanwhile waits for the next turn.  loop_undefer takes back every request
 * with this fn and arg.  Returns 0, or -1 with ENOMEM.
 */
int loop_defer(struct loop *loop, loop_f fn, void *arg);
void loop_undefer(struct loop *loop, loop_f fn, void *arg);

/*
 * Call `fn` when the loop is destroyed: for what its owner has let go of and
 * nobody else can bury (a link that is sending its last words).  The call ends
 * the loop_end itself.  NULL: ENOMEM.
 */
struct loop_end *loop_end_create(struct loop *loop, loop_f fn, void *arg);
void loop_end_destroy(struct loop_end *end);

#endif
