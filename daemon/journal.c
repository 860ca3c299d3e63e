/*
 * journal.c - the append-only record.
 *
 * One line a record, written by a single write(2): after a kill -9 the file
 * ends in a whole line or in a torn one, and the torn one was never acted on,
 * since records are written before what they say is done.  Only promises to
 * users (an accepted job) wait for the disk; the rest survives a crash of the
 * daemon by being in the kernel.
 *
 * journal_open keeps an exclusive lock for its life: two daemons on one journal
 * would each undo the other's worlds.
 */
#include "daemon/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "daemon/dirs.h"
#include "proto/log.h"

#define LOCK_TRIES 50 /* of a hundredth of a second */

struct journal {
	char path[PATH_MAX];
	int fd;
	struct loop *loop;
	unsigned failures;
};

/* A crash in the middle of a write leaves a line without its end. */
static int cut_torn_line(struct journal *journal, struct err *err)
{
	off_t size = lseek(journal->fd, 0, SEEK_END), end = size;
	char c = '\n';

	while (end > 0 && pread(journal->fd, &c, 1, end - 1) == 1 && c != '\n')
		end--;
	if (end == size)
		return 0;
	log_warning("journal", "last record is torn, cut off path=%s bytes=%lld",
		journal->path, (long long)(size - end));
	if (ftruncate(journal->fd, end) != 0)
		return err_set(
			err, errno, "cutting %s: %s", journal->path, strerror(errno));
	return 0;
}

/* A daemon that was killed may leave a child that has not become an agent yet: it
 * has our descriptors until it does. */
static int lock_soon(int fd)
{
	const struct timespec pause = { 0, 10000000 };

	for (int tries = 0; flock(fd, LOCK_EX | LOCK_NB) != 0; tries++) {
		if (errno != EWOULDBLOCK || tries == LOCK_TRIES)
			return -1;
		nanosleep(&pause, NULL);
	}
	return 0;
}

static int open_locked(struct journal *journal, struct err *err)
{
	journal->fd = open(journal->path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (journal->fd < 0)
		return err_set(
			err, errno, "opening %s: %s", journal->path, strerror(errno));
	if (lock_soon(journal->fd) != 0)
		return err_set(err, errno, "%s: %s", journal->path,
			errno == EWOULDBLOCK ? "another mallectld is using it"
					     : strerror(errno));
	return cut_torn_line(journal, err);
}

struct journal *journal_open(const char *dir, struct loop *loop, struct err *err)
{
	struct journal *journal;

	if (dirs_make(dir, 0700, err) != 0)
		return NULL;
	journal = calloc(1, sizeof(*journal));
	if (!journal) {
		err_set(err, ENOMEM, "opening the journal: out of memory");
		return NULL;
	}
	journal->loop = loop;
	journal->fd = -1;
	if (snprintf(journal->path, sizeof(journal->path), "%s/journal.jsonl", dir) >=
		(int)sizeof(journal->path)) {
		err_set(err, ENAMETOOLONG, "%s: too long", dir);
		journal_close(journal);
		return NULL;
	}
	if (open_locked(journal, err) != 0) {
		journal_close(journal);
		return NULL;
	}
	return journal;
}

void journal_close(struct journal *journal)
{
	int saved = errno;

	if (!journal)
		return;
	if (journal->fd >= 0)
		close(journal->fd);
	free(journal);
	errno = saved;
}

static int read_line(const char *line, size_t size, long number, const char *path,
	journal_read_f fn, void *arg, struct err *err)
{
	json_error_t why;
	json_t *record = json_loadb(line, size, 0, &why);
	const char *event = json_string_value(json_object_get(record, "event"));
	int rc;

	if (!record || !event) {
		json_decref(record);
		return err_set(err, EBADMSG, "%s:%ld: %s", path, number,
			record ? "record has no event" : why.text);
	}
	rc = fn(event, record, arg, err);
	json_decref(record);
	if (rc == 0)
		return 0;
	if (errno == EINVAL)
		errno = EBADMSG;
	return err_prefix(err, "%s:%ld", path, number);
}

int journal_read(struct journal *journal, journal_read_f fn, void *arg, struct err *err)
{
	FILE *in = fopen(journal->path, "re");
	char *line = NULL;
	size_t room = 0;
	ssize_t n;
	long number = 0;
	int rc = 0, saved;

	if (!in)
		return err_set(
			err, errno, "reading %s: %s", journal->path, strerror(errno));
	while (rc == 0 && (n = getline(&line, &room, in)) >= 0)
		rc = read_line(line, n, ++number, journal->path, fn, arg, err);
	if (rc == 0 && ferror(in))
		rc = err_set(err, EIO, "reading %s: %s", journal->path, strerror(EIO));
	saved = errno;
	free(line);
	fclose(in);
	errno = saved;
	return rc;
}

static int write_failed(struct journal *journal, const char *event, const char *why)
{
	if (journal->failures++ == 0)
		log_err("journal", "cannot record %s: %s path=%s", event, why, journal->path);
	return -1;
}

static char *record_line(struct journal *journal, const char *event, json_t *record)
{
	json_t *whole = json_pack("{s:f, s:s}", "t", loop_wall_s(journal->loop), "event", event);
	char *text = NULL;

	if (whole && json_object_update(whole, record) == 0)
		text = json_dumps(whole, JSON_COMPACT | JSON_REAL_PRECISION(15));
	json_decref(whole);
	return text;
}

int journal_write(struct journal *journal, const char *event, json_t *record_take)
{
	char *text = record_take ? record_line(journal, event, record_take) : NULL;
	size_t size;
	ssize_t n;

	json_decref(record_take);
	if (!text)
		return write_failed(journal, event, "out of memory");
	size = strlen(text);
	text[size++] = '\n';
	n = write(journal->fd, text, size);
	if (n >= 0 && (size_t)n < size) {
		/* A full disk: take the part back, so that no line is torn. */
		if (ftruncate(journal->fd, lseek(journal->fd, 0, SEEK_END) - n) == 0)
			errno = ENOSPC;
		n = -1;
	}
	free(text);
	if (n < 0)
		return write_failed(journal, event, strerror(errno));
	if (journal->failures) {
		log_notice("journal", "records again, %u were lost", journal->failures);
		journal->failures = 0;
	}
	return 0;
}

int journal_commit(struct journal *journal, const char *event, json_t *record_take)
{
	if (journal_write(journal, event, record_take) != 0)
		return -1;
	if (fdatasync(journal->fd) != 0)
		return write_failed(journal, event, strerror(errno));
	return 0;
}
