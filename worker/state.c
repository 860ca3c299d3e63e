/*
 * state.c - the state of training: registered buffers, to a file and back.
 *
 * The file carries a model from one world to the next, through memory of the
 * node (a tmpfs) and, where rank 0 moves, over the agents' sockets.  Numbers are
 * little-endian:
 *
 *	  0  8 bytes  "MALLE-ST"
 *	  8  u32      version of this format and of the order of samples, 1
 *	 12  u32      n, number of buffers
 *	 16  u64 x 6  step, samples consumed, epoch, n_samples, global batch, seed
 *	 64  u64      size of the file in bytes
 *	 72  n times  name (64 bytes, NUL to its end), u64 bytes
 *	     ...      contents of the buffers, in order, nothing between
 *	     u64      XXH64 of everything before
 *
 * Contents are what lies in memory: states move between machines of one kind.
 *
 * Saving: a temporary name, all bytes, fsync, rename.  Whenever the process
 * dies, the name holds a whole file or what it held before.
 *
 * Loading reads the file twice, first for the checksum, then into the buffers,
 * so that a bad file changes nothing and a good one needs no second copy of the
 * model in memory.  The second read can only fail if the medium does; then the
 * buffers are lost, and so is the world, which fails in malle_batch.
 */
#include "worker/state.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "worker/sum.h"

#define MAGIC "MALLE-ST"
#define VERSION 1
#define HEAD_SIZE 72
#define ENTRY_SIZE (STATE_NAME_MAX + 1 + 8)
#define SUM_SIZE 8
#define CHUNK (64u << 10)
#define BUFFERS_MAX 65536

int state_add(struct state_table *table, const char *name, void *ptr, size_t bytes,
	struct malle_err *err)
{
	struct state_buffer *grown;
	size_t length = name ? strlen(name) : 0;

	if (!length || length > STATE_NAME_MAX || (!ptr && bytes))
		return fault_set(err, EINVAL, "state: a buffer without %s",
			length && length <= STATE_NAME_MAX ? "an address"
							   : "a name of 1 to 63 bytes");
	for (size_t i = 0; i < table->n; i++)
		if (!strcmp(table->buffers[i].name, name))
			return fault_set(
				err, EEXIST, "state %s: registered twice", name);
	if (table->n >= BUFFERS_MAX)
		return fault_set(
			err, EINVAL, "state %s: over %d buffers", name, BUFFERS_MAX);
	grown = realloc(table->buffers, (table->n + 1) * sizeof(*grown));
	if (!grown)
		return fault_set(err, ENOMEM, "state %s: out of memory", name);
	table->buffers = grown;
	grown += table->n++;
	memset(grown, 0, sizeof(*grown));
	memcpy(grown->name, name, length);
	grown->bytes = ptr;
	grown->n = bytes;
	return 0;
}

void state_fini(struct state_table *table)
{
	free(table->buffers);
	*table = (struct state_table){ NULL, 0 };
}

static void put32(uint8_t *p, uint32_t v)
{
	v = htole32(v);
	memcpy(p, &v, sizeof(v));
}

static void put64(uint8_t *p, uint64_t v)
{
	v = htole64(v);
	memcpy(p, &v, sizeof(v));
}

static uint32_t get32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return le32toh(v);
}

static uint64_t get64(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return le64toh(v);
}

static size_t head_size(const struct state_table *table)
{
	return HEAD_SIZE + table->n * ENTRY_SIZE;
}

static uint64_t file_size(const struct state_table *table)
{
	uint64_t size = head_size(table) + SUM_SIZE;

	for (size_t i = 0; i < table->n; i++)
		size += table->buffers[i].n;
	return size;
}

/* Everything before the contents; owned. */
static uint8_t *head_new(const struct state_table *table, const struct state_point *at)
{
	uint8_t *head = calloc(1, head_size(table)), *entry;
	const uint64_t numbers[] = { at->step, at->consumed, at->epoch, at->n_samples,
		at->global_batch, at->seed, file_size(table) };

	if (!head)
		return NULL;
	memcpy(head, MAGIC, 8);
	put32(head + 8, VERSION);
	put32(head + 12, (uint32_t)table->n);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		put64(head + 16 + 8 * i, numbers[i]);
	entry = head + HEAD_SIZE;
	for (size_t i = 0; i < table->n; i++, entry += ENTRY_SIZE) {
		memcpy(entry, table->buffers[i].name, STATE_NAME_MAX + 1);
		put64(entry + STATE_NAME_MAX + 1, table->buffers[i].n);
	}
	return head;
}

uint64_t state_digest(const struct state_table *table)
{
	struct sum sum;
	uint8_t n[8];

	sum_init(&sum);
	for (size_t i = 0; i < table->n; i++) {
		sum_add(&sum, table->buffers[i].name, STATE_NAME_MAX + 1);
		put64(n, table->buffers[i].n);
		sum_add(&sum, n, sizeof(n));
	}
	return sum_value(&sum);
}

/* --- saving --------------------------------------------------------------- */

static int write_all(int fd, const void *bytes, uint64_t n)
{
	const uint8_t *p = bytes;

	while (n) {
		/* Linux takes at most 2 GiB at a time */
		ssize_t done = write(fd, p, n < 1u << 30 ? n : 1u << 30);

		if (done < 0 && errno != EINTR)
			return -1;
		if (done > 0) {
			p += done;
			n -= (uint64_t)done;
		}
	}
	return 0;
}

static int write_summed(int fd, struct sum *sum, const void *bytes, uint64_t n)
{
	sum_add(sum, bytes, n);
	return write_all(fd, bytes, n);
}

static int write_file(int fd, const struct state_table *table, const uint8_t *head)
{
	struct sum sum;
	uint8_t end[SUM_SIZE];

	sum_init(&sum);
	if (write_summed(fd, &sum, head, head_size(table)) < 0)
		return -1;
	for (size_t i = 0; i < table->n; i++)
		if (write_summed(
			    fd, &sum, table->buffers[i].bytes, table->buffers[i].n) < 0)
			return -1;
	put64(end, sum_value(&sum));
	if (write_all(fd, end, sizeof(end)) < 0)
		return -1;
	return fsync(fd);
}

static int save_as(const struct state_table *table, const uint8_t *head,
	const char *tmp, const char *path, struct malle_err *err)
{
	int fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600), bad;

	if (fd < 0)
		return fault_set(
			err, errno, "state %s: create: %s", tmp, strerror(errno));
	bad = write_file(fd, table, head) < 0 ? errno : 0;
	if (close(fd) < 0 && !bad)
		bad = errno;
	if (!bad && rename(tmp, path) < 0)
		bad = errno;
	if (!bad)
		return 0;
	unlink(tmp);
	return fault_set(err, bad, "state %s: write: %s", path, strerror(bad));
}

int state_save(const struct state_table *table, const struct state_point *point,
	const char *dir, const char *name, uint64_t *bytes, struct malle_err *err)
{
	uint8_t *head = head_new(table, point);
	char *path = NULL, *tmp = NULL;
	int status = -1;

	if (!head || asprintf(&path, "%s/%s", dir, name) < 0) {
		path = NULL;
		fault_set(err, ENOMEM, "state %s: out of memory", name);
		goto out;
	}
	if (asprintf(&tmp, "%s/.%s.%ld", dir, name, (long)getpid()) < 0) {
		tmp = NULL;
		fault_set(err, ENOMEM, "state %s: out of memory", name);
		goto out;
	}
	status = save_as(table, head, tmp, path, err);
	if (!status)
		*bytes = file_size(table);
out:
	free(tmp);
	free(path);
	free(head);
	return status;
}

/* --- loading -------------------------------------------------------------- */

/* A file being read, and what to say about it. */
struct source {
	int fd;
	const char *path;
	struct malle_err *err;
};

static int refuse(const struct source *s, const char *why)
{
	return fault_set(s->err, EBADMSG, "state %s: %s", s->path, why);
}

static int read_at(const struct source *s, void *to, uint64_t n, uint64_t offset)
{
	uint8_t *p = to;

	while (n) {
		ssize_t got =
			pread(s->fd, p, n < 1u << 30 ? n : 1u << 30, (off_t)offset);

		if (got < 0 && errno != EINTR)
			return fault_set(s->err, errno, "state %s: read: %s", s->path,
				strerror(errno));
		if (got == 0)
			return refuse(s, "it is cut short");
		if (got > 0) {
			p += got;
			n -= (uint64_t)got;
			offset += (uint64_t)got;
		}
	}
	return 0;
}

static int check_table(const struct source *s, const struct state_table *table)
{
	uint8_t entry[ENTRY_SIZE];

	for (size_t i = 0; i < table->n; i++) {
		const struct state_buffer *b = &table->buffers[i];
		uint64_t n;

		if (read_at(s, entry, sizeof(entry), HEAD_SIZE + i * ENTRY_SIZE) < 0)
			return -1;
		n = get64(entry + STATE_NAME_MAX + 1);
		if (memcmp(entry, b->name, STATE_NAME_MAX + 1))
			return fault_set(s->err, EBADMSG,
				"state %s: buffer %zu is %.63s, the program's is %s",
				s->path, i, (const char *)entry, b->name);
		if (n != b->n)
			return fault_set(s->err, EBADMSG,
				"state %s: %s is %llu bytes, the program's %llu",
				s->path, b->name, (unsigned long long)n,
				(unsigned long long)b->n);
	}
	return 0;
}

static int check_head(const struct source *s, const struct state_table *table,
	const struct state_point *want, struct state_point *point)
{
	uint8_t head[HEAD_SIZE];
	struct stat st;

	if (fstat(s->fd, &st) < 0)
		return fault_set(
			s->err, errno, "state %s: stat: %s", s->path, strerror(errno));
	if (st.st_size < HEAD_SIZE + SUM_SIZE)
		return refuse(s, "it is cut short");
	if (read_at(s, head, sizeof(head), 0) < 0)
		return -1;
	if (memcmp(head, MAGIC, 8))
		return refuse(s, "it is not a state");
	if (get32(head + 8) != VERSION)
		return fault_set(s->err, EBADMSG, "state %s: version %u, this is %d",
			s->path, get32(head + 8), VERSION);
	if (get64(head + 64) != (uint64_t)st.st_size)
		return refuse(s, "its size is not what it says");
	if (get32(head + 12) != table->n)
		return fault_set(s->err, EBADMSG,
			"state %s: it has %u buffers, the program %zu", s->path,
			get32(head + 12), table->n);
	if (check_table(s, table) < 0)
		return -1;
	if ((uint64_t)st.st_size != file_size(table))
		return refuse(s, "its size does not fit its table");
	*point = (struct state_point){
		.step = get64(head + 16),
		.consumed = get64(head + 24),
		.epoch = get64(head + 32),
		.n_samples = get64(head + 40),
		.global_batch = get64(head + 48),
		.seed = get64(head + 56),
	};
	if (point->n_samples != want->n_samples)
		return refuse(s, "n_samples is not the program's");
	if (point->seed != want->seed)
		return refuse(s, "seed is not the program's");
	return 0;
}

static int check_sum(const struct source *s, uint64_t size)
{
	uint8_t *chunk = malloc(CHUNK), end[SUM_SIZE];
	struct sum sum;
	int status = -1;

	if (!chunk)
		return fault_set(s->err, ENOMEM, "state %s: out of memory", s->path);
	sum_init(&sum);
	for (uint64_t at = 0; at < size - SUM_SIZE;) {
		uint64_t n = size - SUM_SIZE - at;

		n = n < CHUNK ? n : CHUNK;
		if (read_at(s, chunk, n, at) < 0)
			goto out;
		sum_add(&sum, chunk, n);
		at += n;
	}
	if (read_at(s, end, sizeof(end), size - SUM_SIZE) < 0)
		goto out;
	status = get64(end) == sum_value(&sum) ? 0 : refuse(s, "its checksum is wrong");
out:
	free(chunk);
	return status;
}

static int fill_buffers(const struct source *s, const struct state_table *table)
{
	uint64_t at = head_size(table);

	for (size_t i = 0; i < table->n; i++) {
		if (read_at(s, table->buffers[i].bytes, table->buffers[i].n, at) < 0)
			return -1;
		at += table->buffers[i].n;
	}
	return 0;
}

int state_load(const struct state_table *table, const char *path,
	struct state_point *point, struct malle_err *err)
{
	struct source s = { open(path, O_RDONLY | O_CLOEXEC), path, err };
	struct state_point found;
	int status = -1, keep;

	if (s.fd < 0)
		return fault_set(
			err, errno, "state %s: open: %s", path, strerror(errno));
	if (check_head(&s, table, point, &found) == 0 &&
		check_sum(&s, file_size(table)) == 0 && fill_buffers(&s, table) == 0) {
		*point = found;
		status = 0;
	}
	keep = errno;
	close(s.fd);
	errno = keep;
	return status;
}
