/* clock.h - seconds, as the machine counts them. */
#ifndef PROTO_CLOCK_H
#define PROTO_CLOCK_H

#include <stddef.h>

/*
 * Only the loop (loop_now_s, loop_wall_s) and programs without a loop ask the
 * machine; all else is handed its time, so that a simulator can supply it.
 */
double clock_mono_s(void); /* since boot; never goes back */
double clock_wall_s(void); /* since 1970-01-01 UTC */

/* "2026-01-31T12:00:00.123Z" into buf of at least CLOCK_ISO_SIZE.  Returns buf. */
#define CLOCK_ISO_SIZE 32
char *clock_iso(double wall_s, char *buf, size_t size);

#endif
