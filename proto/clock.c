/*
 * clock.c - seconds, as the machine counts them.
 */
#include "proto/clock.h"

#include <math.h>
#include <stdio.h>
#include <time.h>

static double clock_read(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

double clock_mono_s(void)
{
	return clock_read(CLOCK_BOOTTIME);
}

double clock_wall_s(void)
{
	return clock_read(CLOCK_REALTIME);
}

char *clock_iso(double wall_s, char *buf, size_t size)
{
	double whole = floor(wall_s);
	int ms = (int)((wall_s - whole) * 1000);
	time_t t = (time_t)whole;
	struct tm tm;

	if (!gmtime_r(&t, &tm)) {
		snprintf(buf, size, "-");
		return buf;
	}
	snprintf(buf, size, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", tm.tm_year + 1900,
		tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, ms);
	return buf;
}
