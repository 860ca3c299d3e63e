/* fmt_value.c - single values of status answers as text. */
#include "cli/fmt.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "proto/hostlist.h"

const char *fmt_str(const json_t *object, const char *field)
{
	return json_string_value(json_object_get(object, field));
}

double fmt_num(const json_t *object, const char *field)
{
	const json_t *value = json_object_get(object, field);

	return json_is_number(value) ? json_number_value(value) : NAN;
}

char *fmt_count(double value, char buf[FMT_SIZE])
{
	static const char units[] = { 'k', 'M', 'G', 'T', 'P' };
	int unit = -1;

	if (!isfinite(value))
		return strcpy(buf, "-");
	if (fabs(value) < 10 && value != floor(value)) {
		snprintf(buf, FMT_SIZE, "%.1f", value);
		return buf;
	}
	if (fabs(value) < 999.5) {
		snprintf(buf, FMT_SIZE, "%.0f", value);
		return buf;
	}
	/* 999.95 would be printed as 1000. */
	while (fabs(value) >= 999.5 && unit < (int)sizeof(units) - 1) {
		value /= 1000;
		unit++;
	}
	snprintf(buf, FMT_SIZE, "%.*f%c", fabs(value) < 9.995 ? 2 : fabs(value) < 99.95,
		value, units[unit]);
	return buf;
}

char *fmt_time(double seconds, char buf[FMT_SIZE])
{
	long long whole = (long long)(isfinite(seconds) ? seconds + 0.5 : 0);

	if (!isfinite(seconds) || fabs(seconds) > 1e12)
		return strcpy(buf, "-");
	if (seconds <= 0)
		return strcpy(buf, "0s");
	if (seconds < 0.00995)
		snprintf(buf, FMT_SIZE, "%.1fms", seconds * 1000);
	else if (seconds < 0.9995)
		snprintf(buf, FMT_SIZE, "%.0fms", seconds * 1000);
	else if (seconds < 9.95)
		snprintf(buf, FMT_SIZE, "%.1fs", seconds);
	else if (whole < 60)
		snprintf(buf, FMT_SIZE, "%llds", whole);
	else if (whole < 3600)
		snprintf(buf, FMT_SIZE, "%lldm%02llds", whole / 60, whole % 60);
	else if (whole < 86400)
		snprintf(buf, FMT_SIZE, "%lldh%02lldm", whole / 3600, whole / 60 % 60);
	else
		snprintf(buf, FMT_SIZE, "%lldd%02lldh", whole / 86400,
			whole / 3600 % 24);
	return buf;
}

char *fmt_moment(double wall_s, char buf[FMT_SIZE])
{
	time_t t;
	struct tm tm;

	if (!isfinite(wall_s) || wall_s <= 0 || wall_s > 1e12)
		return strcpy(buf, "-");
	t = (time_t)wall_s;
	if (!localtime_r(&t, &tm) || !strftime(buf, FMT_SIZE, "%Y-%m-%d %H:%M:%S", &tm))
		strcpy(buf, "-");
	return buf;
}

char *fmt_nodes(const json_t *list)
{
	size_t n = json_array_size(list), used = 0;
	const char **names;
	char *text;

	if (!json_is_array(list))
		return NULL;
	names = calloc(n + 1, sizeof(*names));
	if (!names)
		return NULL;
	for (size_t i = 0; i < n; i++) {
		const char *name = json_string_value(json_array_get(list, i));

		if (name && hostlist_name_ok(name))
			names[used++] = name;
	}
	text = hostlist_compress(names, used, NULL);
	free(names);
	return text;
}
