/*
 * schema_tables.c - the message tables as PROTOCOL.md prints them.
 *
 * `make protocol` puts its output between the two marks in PROTOCOL.md; lint
 * says when the document and the tables differ.
 */
#include <math.h>
#include <stdio.h>

#include "proto/schema.h"

static const char *const kinds[] = {
	[FIELD_INT] = "integer",
	[FIELD_REAL] = "number",
	[FIELD_BOOL] = "boolean",
	[FIELD_STR] = "string",
	[FIELD_STRS] = "array of strings",
	[FIELD_JSON] = "any",
};

static void print_range(const struct field *field)
{
	if (field->kind == FIELD_INT || field->kind == FIELD_REAL) {
		if (field->max >= 9e15)
			printf("%.0f..", field->min);
		else
			printf("%.12g..%.12g", field->min, field->max);
	} else if (field->kind == FIELD_STR) {
		printf("up to %.0f bytes", field->max);
	} else if (field->kind == FIELD_STRS) {
		printf("%.0f to %.0f", field->min, field->max);
	}
}

static void print_message(const struct schema *schema)
{
	printf("#### %d `%s`\n\nFrom %s: %s.%s\n\n", schema->type, schema->name, schema->from,
		schema->help, schema->raw ? " Raw bytes follow." : "");
	if (schema->fields[0].kind == FIELD_NONE)
		return;
	printf("| field | kind | | range | unit | |\n|---|---|---|---|---|---|\n");
	for (const struct field *field = schema->fields; field->kind != FIELD_NONE; field++) {
		printf("| %s | %s | %s | ", field->name, kinds[field->kind],
			field->required ? "REQUIRED" : "OPTIONAL");
		print_range(field);
		printf(" | %s | %s |\n", field->unit ? field->unit : "", field->help);
	}
	printf("\n");
}

int main(void)
{
	size_t n;
	const struct schema *all = schema_all(&n);

	for (size_t i = 0; i < n; i++)
		print_message(&all[i]);
	return 0;
}
