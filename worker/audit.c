/*
 * audit.c - the books of all ranks of all worlds of a job, added up.
 *
 * Which records count.  A world of generation g begins at step s(g), from a
 * state in which exactly the steps before s(g) are contained.  So a world voids
 * what older ones recorded at s(g) and later: those steps were undone by a loss
 * and done again.  Record (g, step) counts if no later generation began at or
 * before that step.  That is the only rule, and needs nobody's word for which
 * world was lost and which one left in order.
 *
 * The very last step of the last world may be under way when everything ends:
 * if not all ranks have its record and none has an end record behind it, it is
 * left out.  Every other step that counts was completed by all ranks: a rank
 * that has no record of it lost its samples.
 *
 * What is expected.  The highest cursor that counts is how many samples the job
 * says it has consumed.  Each epoch below it must have seen as many different
 * ids as it had places, and none twice.  This is deliberately not a comparison
 * with the order that the workers computed: a fault in that order, in the slices
 * or in the cursor of a resumed world must show, so nothing of theirs is used
 * here.  Which id is lost is known once its epoch is complete; before, only how
 * many.
 */
#include "worker/audit.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/book.h"

#define EPOCHS_MAX (1u << 20)
#define SUFFIX	   ".ledger"

/* A step whose ranks recorded fewer samples than the batch had. */
struct deficit {
	uint64_t epoch, step, rank;
};

struct audit {
	struct book *books; /* by generation and rank */
	size_t n_books;
	struct book_record *records; /* those that count, by step and rank */
	size_t n;
	uint64_t reached; /* the highest cursor that counts */
	uint64_t n_epochs;
	uint8_t **seen;	    /* a bit a sample, for each epoch */
	uint64_t *distinct; /* bits set, for each epoch */
	struct deficit deficits[AUDIT_EXAMPLES];
	size_t n_deficits;
	struct audit_report *report;
};

/* --- reading -------------------------------------------------------------- */

static int compare_books(const void *a, const void *b)
{
	const struct book *x = a, *y = b;

	if (x->generation != y->generation)
		return x->generation < y->generation ? -1 : 1;
	return x->rank < y->rank ? -1 : x->rank > y->rank;
}

static int add_book(struct audit *a, const char *path, struct malle_err *err)
{
	struct book book, *more;

	if (book_read(&book, path, err) < 0)
		return -1;
	a->report->files++;
	a->report->torn += (uint64_t)book.torn;
	if (book.blank) {
		book_fini(&book);
		return 0;
	}
	more = realloc(a->books, (a->n_books + 1) * sizeof(*more));
	if (!more) {
		book_fini(&book);
		return fault_set(err, ENOMEM, "%s: out of memory", path);
	}
	a->books = more;
	a->books[a->n_books++] = book;
	return 0;
}

static int is_ledger(const char *name)
{
	size_t n = strlen(name), s = strlen(SUFFIX);

	return n > s && !strcmp(name + n - s, SUFFIX);
}

static int read_books(struct audit *a, const char *dir, struct malle_err *err)
{
	DIR *d = opendir(dir);
	struct dirent *entry;
	int status = 0;

	if (!d)
		return fault_set(err, errno, "%s: open: %s", dir, strerror(errno));
	while (!status && (entry = readdir(d))) {
		char *path;

		if (!is_ledger(entry->d_name))
			continue;
		if (asprintf(&path, "%s/%s", dir, entry->d_name) < 0) {
			status = fault_set(err, ENOMEM, "%s: out of memory", dir);
			break;
		}
		status = add_book(a, path, err);
		free(path);
	}
	closedir(d);
	if (status)
		return status;
	if (!a->report->files)
		return fault_set(err, ENODATA, "%s: there is no ledger in it", dir);
	qsort(a->books, a->n_books, sizeof(*a->books), compare_books);
	return 0;
}

static int disagree(const struct book *x, const struct book *y, const char *what,
	struct malle_err *err)
{
	return fault_set(err, EBADMSG,
		"generation %llu rank %llu and generation %llu rank %llu: %s",
		(unsigned long long)x->generation, (unsigned long long)x->rank,
		(unsigned long long)y->generation, (unsigned long long)y->rank, what);
}

static int check_books(const struct audit *a, struct malle_err *err)
{
	for (size_t i = 1; i < a->n_books; i++) {
		const struct book *x = &a->books[i - 1], *y = &a->books[i];

		if (strcmp(x->job, y->job))
			return disagree(x, y, "not of one job", err);
		if (x->n_samples != y->n_samples || x->seed != y->seed ||
			x->total != y->total)
			return disagree(x, y, "not of one training", err);
		if (x->generation != y->generation)
			continue;
		if (x->rank == y->rank)
			return disagree(x, y, "the same rank twice", err);
		if (x->world != y->world || x->step != y->step ||
			x->cursor != y->cursor)
			return disagree(x, y, "not of one world", err);
	}
	return 0;
}

/* --- which records count -------------------------------------------------- */

static void reach(struct audit *a, uint64_t cursor)
{
	if (cursor > a->reached)
		a->reached = cursor;
}

/* Its records before `end`; *last: behind the last of those that are void. */
static int keep_book(
	struct audit *a, const struct book *b, uint64_t end, uint64_t *last)
{
	struct book_record *more =
		realloc(a->records, (a->n + b->n + 1) * sizeof(*more));

	if (!more)
		return -1;
	a->records = more;
	if (b->step <= end)
		reach(a, b->cursor);
	if (b->ended && b->end_step <= end)
		reach(a, b->end_cursor);
	for (size_t i = 0; i < b->n; i++) {
		if (b->records[i].step < end)
			a->records[a->n++] = b->records[i];
		else if (b->records[i].step >= *last)
			*last = b->records[i].step + 1;
	}
	return 0;
}

static int compare_records(const void *a, const void *b)
{
	const struct book_record *x = a, *y = b;

	if (x->step != y->step)
		return x->step < y->step ? -1 : 1;
	return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* Newest world first, so that `end` is where a later one has begun. */
static int keep_records(struct audit *a, struct malle_err *err)
{
	uint64_t end = UINT64_MAX;
	size_t from = a->n_books;

	while (from) {
		size_t to = from--;
		uint64_t last = end;

		while (from &&
			a->books[from - 1].generation == a->books[from].generation)
			from--;
		for (size_t i = from; i < to; i++)
			if (keep_book(a, &a->books[i], end, &last) < 0)
				return fault_set(err, ENOMEM, "ledger: out of memory");
		a->report->generations++;
		a->report->redone_steps += last - end;
		if (a->books[from].step < end)
			end = a->books[from].step;
	}
	if (a->n)
		qsort(a->records, a->n, sizeof(*a->records), compare_records);
	return 0;
}

/* World of the last generation, and the step at which a rank of it ended. */
static void last_world(const struct audit *a, uint64_t *world, uint64_t *ended)
{
	const struct book *b = &a->books[a->n_books - 1];
	uint64_t generation = b->generation;

	*world = b->world;
	*ended = 0;
	for (size_t i = a->n_books; i-- && a->books[i].generation == generation;) {
		b = &a->books[i];
		if (b->ended && b->end_step > *ended)
			*ended = b->end_step;
		if (b->finished)
			a->report->finished = 1;
	}
}

/* Leave out the last step where it was still under way. */
static void drop_open_step(struct audit *a)
{
	uint64_t world, ended, step, ranks = 0;
	size_t from = a->n;

	last_world(a, &world, &ended);
	if (!a->n)
		return;
	step = a->records[a->n - 1].step;
	for (; from && a->records[from - 1].step == step; from--)
		if (from == a->n || a->records[from].rank != a->records[from - 1].rank)
			ranks++;
	if (step >= a->books[a->n_books - 1].step && step >= ended && ranks < world)
		a->n = from;
}

/* --- adding up ------------------------------------------------------------ */

static void example(struct audit *a, struct audit_example what)
{
	struct audit_report *r = a->report;

	if (r->n_examples < AUDIT_EXAMPLES)
		r->examples[r->n_examples++] = what;
}

static int make_epochs(struct audit *a, struct malle_err *err)
{
	uint64_t n_samples = a->report->n_samples;

	for (size_t i = 0; i < a->n; i++)
		reach(a, a->records[i].cursor + a->records[i].global_n);
	if (a->reached / n_samples >= EPOCHS_MAX)
		return fault_set(err, EBADMSG, "ledger: over %u epochs", EPOCHS_MAX);
	a->n_epochs = a->reached / n_samples + 1;
	a->seen = calloc(a->n_epochs, sizeof(*a->seen));
	a->distinct = calloc(a->n_epochs, sizeof(*a->distinct));
	if (!a->seen || !a->distinct)
		return fault_set(err, ENOMEM, "ledger: out of memory");
	return 0;
}

static int mark_record(
	struct audit *a, const struct book_record *r, struct malle_err *err)
{
	uint64_t epoch = r->cursor / a->report->n_samples;
	const char *at = r->ids;
	uint8_t *seen = a->seen[epoch];

	if (!seen) {
		seen = a->seen[epoch] = calloc(1, a->report->n_samples / 8 + 1);
		if (!seen)
			return fault_set(err, ENOMEM, "ledger: out of memory");
	}
	for (uint64_t i = 0; i < r->n; i++) {
		uint32_t id = book_next_id(&at);
		uint8_t bit = (uint8_t)(1 << id % 8);

		a->report->samples++;
		if (!(seen[id / 8] & bit)) {
			seen[id / 8] |= bit;
			a->distinct[epoch]++;
			continue;
		}
		a->report->repeated++;
		example(a, (struct audit_example){
				   AUDIT_REPEATED, id, epoch, r->step, r->rank });
	}
	return 0;
}

/* records[from .. to - 1] are one step */
static void check_step(struct audit *a, size_t from, size_t to)
{
	uint64_t n = 0, rank = AUDIT_UNKNOWN, next = 0;
	const struct book_record *r = &a->records[from];

	a->report->steps++;
	for (size_t i = from; i < to; i++) {
		n += a->records[i].n;
		if (a->records[i].rank > next && rank == AUDIT_UNKNOWN)
			rank = next; /* it has no record of this step */
		next = a->records[i].rank + 1;
	}
	if (rank == AUDIT_UNKNOWN && next < r->world)
		rank = next;
	if (n < r->global_n && a->n_deficits < AUDIT_EXAMPLES)
		a->deficits[a->n_deficits++] =
			(struct deficit){ r->cursor / a->report->n_samples, r->step,
				rank };
}

static int mark_all(struct audit *a, struct malle_err *err)
{
	size_t from = 0;

	for (size_t i = 0; i < a->n; i++) {
		if (mark_record(a, &a->records[i], err) < 0)
			return -1;
		if (i + 1 == a->n || a->records[i + 1].step != a->records[i].step) {
			check_step(a, from, i + 1);
			from = i + 1;
		}
	}
	return 0;
}

/* Name lost samples of an epoch: ids if it is complete, steps as far as known. */
static void name_lost(struct audit *a, uint64_t epoch, int complete)
{
	struct audit_example e = { AUDIT_LOST, AUDIT_UNKNOWN, epoch, AUDIT_UNKNOWN,
		AUDIT_UNKNOWN };
	const uint8_t *seen = a->seen[epoch];

	for (size_t i = 0; i < a->n_deficits; i++) {
		if (a->deficits[i].epoch != epoch)
			continue;
		e.step = a->deficits[i].step;
		e.rank = a->deficits[i].rank;
		break;
	}
	if (!complete) {
		example(a, e);
		return;
	}
	for (e.id = 0; e.id < a->report->n_samples; e.id++)
		if (!seen || !(seen[e.id / 8] & 1 << e.id % 8))
			example(a, e);
}

static void count_lost(struct audit *a)
{
	uint64_t n_samples = a->report->n_samples;

	for (uint64_t epoch = 0; epoch < a->n_epochs; epoch++) {
		uint64_t expected = a->reached - epoch * n_samples;

		if (expected > n_samples)
			expected = n_samples;
		/* more ids than places: taken from where they do not belong */
		if (a->distinct[epoch] > expected)
			a->report->repeated += a->distinct[epoch] - expected;
		if (a->distinct[epoch] >= expected)
			continue;
		a->report->lost += expected - a->distinct[epoch];
		name_lost(a, epoch, expected == n_samples);
	}
	a->report->epochs = a->reached / n_samples;
}

static void audit_fini(struct audit *a)
{
	for (size_t i = 0; i < a->n_books; i++)
		book_fini(&a->books[i]);
	for (uint64_t i = 0; a->seen && i < a->n_epochs; i++)
		free(a->seen[i]);
	free(a->seen);
	free(a->distinct);
	free(a->records);
	free(a->books);
}

int audit_dir(const char *dir, struct audit_report *report, struct malle_err *err)
{
	struct audit a = { .report = report };
	int status = -1, keep;

	*report = (struct audit_report){ .files = 0 };
	if (read_books(&a, dir, err) < 0 || check_books(&a, err) < 0)
		goto out;
	if (!a.n_books) { /* every rank died within its first line */
		status = 0;
		goto out;
	}
	strcpy(report->job, a.books[0].job);
	report->n_samples = a.books[0].n_samples;
	if (keep_records(&a, err) < 0)
		goto out;
	drop_open_step(&a);
	if (make_epochs(&a, err) < 0 || mark_all(&a, err) < 0)
		goto out;
	count_lost(&a);
	status = 0;
out:
	keep = errno;
	audit_fini(&a);
	errno = keep;
	return status;
}
