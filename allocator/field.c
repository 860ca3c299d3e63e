/*
 * field.c - fields of a JSON object, strictly.
 *
 * A reader that refuses has to say where: every function takes the path so far
 * as a prefix and puts the key behind it.  What comes from the input and goes
 * into a sentence is cut and made printable first, because a program prints it
 * as one line.
 */
#include "allocator/field.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_BYTES 255

void field_make_printable(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 127)
			*text = '?';
}

struct path path_at(const char *fmt, ...)
{
	struct path path;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(path.text, sizeof(path.text), fmt, ap);
	va_end(ap);
	field_make_printable(path.text);
	return path;
}

int field_fault(struct err *err, struct path path, const char *why)
{
	return err_set(err, EINVAL, "%s: %s", path.text, why);
}

int field_known(const json_t *object, const char *prefix, const char *const *keys,
	struct err *err)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)object, key, value)
	{
		const char *const *k = keys;

		while (*k && strcmp(*k, key))
			k++;
		if (!*k)
			return field_fault(
				err, path_at("%s%.60s", prefix, key), "unknown key");
	}
	return 0;
}

int field_real(const json_t *object, const char *prefix, const char *key, int required,
	double min, double max, double *out, struct err *err)
{
	const json_t *value = json_object_get(object, key);
	struct path path = path_at("%s%s", prefix, key);
	double number;

	if (!value)
		return required ? field_fault(err, path, "is missing") : 0;
	if (!json_is_number(value))
		return field_fault(err, path, "is not a number");
	number = json_number_value(value);
	if (!isfinite(number) || number < min || number > max)
		return err_set(err, EINVAL, "%s: %.15g is not between %g and %g",
			path.text, number, min, max);
	*out = number;
	return 0;
}

int field_int(const json_t *object, const char *prefix, const char *key, int required,
	int min, int max, int *out, struct err *err)
{
	const json_t *value = json_object_get(object, key);
	double number = *out;

	if (value && json_is_real(value))
		return field_fault(
			err, path_at("%s%s", prefix, key), "is not a whole number");
	if (field_real(object, prefix, key, required, min, max, &number, err) != 0)
		return -1;
	*out = (int)number;
	return 0;
}

int field_name(const json_t *object, const char *prefix, const char *key, int required,
	char **out, struct err *err)
{
	const json_t *value = json_object_get(object, key);
	const char *text = json_string_value(value);
	struct path path = path_at("%s%s", prefix, key);

	if ((!value || json_is_null(value)) && !required)
		return 0;
	if (!value)
		return field_fault(err, path, "is missing");
	if (!text)
		return field_fault(err, path, "is not a string");
	if (!text[0] || strlen(text) > NAME_BYTES)
		return field_fault(err, path, "is no name of 1 to 255 bytes");
	*out = strdup(text);
	if (!*out)
		return err_set(err, ENOMEM, "reading the problem: out of memory");
	return 0;
}
