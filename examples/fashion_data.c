/*
 * fashion_data.c - reads Fashion-MNIST, an image set of ten kinds of clothes.
 *
 * The set is four IDX files.  An IDX file is a header of big-endian 32-bit
 * words and then one byte per value: the magic word 0x0800 + number of
 * dimensions (0x08 says "unsigned bytes"), and the length of each dimension.
 * Images have three dimensions (samples, 28, 28), labels one.
 *
 * Debian ships the files compressed.  Uncompressing the 47 MB of training
 * images takes some tenths of a second of CPU in every process, which a worker
 * that joins a running job on a slow node would feel; hence plain files, where
 * they exist, are preferred and only mapped.
 *
 * A file is believed only if its length is exactly what its header says and
 * every label names a class, because a label is used as an index later on.
 */
#include "fashion_data.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#define IDX_UBYTE 0x0800
#define IDX_MAX_BYTES ((size_t)1 << 30)	/* of one uncompressed file */
#define SIDE 28

__attribute__((format(printf, 3, 4)))
static int fail(struct fashion_why *why, int errnum, const char *fmt, ...)
{
	if (why) {
		va_list ap;

		va_start(ap, fmt);
		vsnprintf(why->text, sizeof(why->text), fmt, ap);
		va_end(ap);
	}
	errno = errnum;
	return -1;
}

static void file_close(struct fashion_file *file)
{
	if (file->mapped)
		munmap(file->base, file->bytes);
	else
		free(file->base);
	memset(file, 0, sizeof(*file));
}

/* 1 mapped, 0 there is no such file, -1 failed. */
static int file_map(struct fashion_file *file, const char *path,
		    struct fashion_why *why)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	void *base = MAP_FAILED;

	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd < 0)
		return fail(why, errno, "open %s: %s", path, strerror(errno));
	if (fstat(fd, &st) == 0) {
		if (st.st_size <= 0 || (size_t)st.st_size > IDX_MAX_BYTES)
			errno = EINVAL;
		else
			base = mmap(NULL, st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	}
	if (base == MAP_FAILED) {
		int saved = errno;

		close(fd);
		return fail(why, saved, "map %s: %s", path, strerror(saved));
	}
	close(fd);
	file->base = base;
	file->bytes = st.st_size;
	file->mapped = 1;
	return 1;
}

/* Make room for as much again; the sets are few, so doubling is cheap. */
static int file_grow(struct fashion_file *file, size_t *room)
{
	size_t more = *room ? *room * 2 : (size_t)1 << 20;
	uint8_t *base;

	if (more > IDX_MAX_BYTES) {
		errno = EFBIG;
		return -1;
	}
	base = realloc(file->base, more);
	if (!base)
		return -1;
	file->base = base;
	*room = more;
	return 0;
}

static int file_inflate(struct fashion_file *file, const char *path,
			struct fashion_why *why)
{
	gzFile gz = gzopen(path, "rbe");
	size_t room = 0;
	int got;

	if (!gz)
		return fail(why, errno, "open %s: %s", path, strerror(errno));
	gzbuffer(gz, 1 << 17);
	do {
		if (file->bytes == room && file_grow(file, &room)) {
			int saved = errno;

			gzclose(gz);
			return fail(why, saved, "read %s: %s", path,
				    strerror(saved));
		}
		got = gzread(gz, file->base + file->bytes, room - file->bytes);
		if (got > 0)
			file->bytes += got;
	} while (got > 0);
	/* A cut stream shows only here: gzread gives what there was of it. */
	if (got < 0 || gzclose(gz) != Z_OK) {
		if (got < 0)
			gzclose(gz);
		return fail(why, EINVAL, "read %s: not a whole gzip file", path);
	}
	return 0;
}

static uint32_t word(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | p[1] << 16 | p[2] << 8 | p[3];
}

static int file_parse(struct fashion_file *file, const char *name, int dims,
		      struct fashion_why *why)
{
	size_t head = 4 + 4 * (size_t)dims;
	size_t each = dims == 3 ? FASHION_PIXELS : 1;

	if (file->bytes < head)
		return fail(why, EINVAL, "%s: %zu bytes, too short for IDX", name,
			    file->bytes);
	if (word(file->base) != IDX_UBYTE + (uint32_t)dims)
		return fail(why, EINVAL, "%s: magic is 0x%08x, not 0x%08x", name,
			    word(file->base), IDX_UBYTE + dims);
	if (dims == 3 && (word(file->base + 8) != SIDE ||
			  word(file->base + 12) != SIDE))
		return fail(why, EINVAL, "%s: images are not %d x %d", name, SIDE,
			    SIDE);
	file->count = word(file->base + 4);
	if (!file->count || file->bytes - head != each * (size_t)file->count)
		return fail(why, EINVAL, "%s: %zu bytes for %u records", name,
			    file->bytes, file->count);
	file->values = file->base + head;
	return 0;
}

static int file_load(struct fashion_file *file, const char *dir,
		     const char *name, int dims, struct fashion_why *why)
{
	char plain[4096], packed[4096 + 3];
	int found;

	if (snprintf(plain, sizeof(plain), "%s/%s", dir, name) >=
	    (int)sizeof(plain))
		return fail(why, ENAMETOOLONG, "%s: name is too long", name);
	snprintf(packed, sizeof(packed), "%s.gz", plain);
	found = file_map(file, plain, why);
	if (found < 0 || (!found && file_inflate(file, packed, why)))
		return -1;
	return file_parse(file, name, dims, why);
}

static int labels_check(const struct fashion_file *labels,
			struct fashion_why *why)
{
	for (uint32_t i = 0; i < labels->count; i++)
		if (labels->values[i] >= FASHION_CLASSES)
			return fail(why, EINVAL, "label %u is %u, not below %d", i,
				    labels->values[i], FASHION_CLASSES);
	return 0;
}

int fashion_load(struct fashion_set *set, const char *dir,
		 enum fashion_part part, struct fashion_why *why)
{
	int train = part == FASHION_TRAIN;
	const char *images = train ? "train-images-idx3-ubyte"
				   : "t10k-images-idx3-ubyte";
	const char *labels = train ? "train-labels-idx1-ubyte"
				   : "t10k-labels-idx1-ubyte";
	int saved;

	memset(set, 0, sizeof(*set));
	if (file_load(&set->images, dir, images, 3, why) ||
	    file_load(&set->labels, dir, labels, 1, why) ||
	    labels_check(&set->labels, why))
		goto out;
	if (set->images.count != set->labels.count) {
		fail(why, EINVAL, "%s: %u images but %u labels", dir,
		     set->images.count, set->labels.count);
		goto out;
	}
	set->count = set->images.count;
	return 0;
out:
	saved = errno;
	fashion_unload(set);
	errno = saved;
	return -1;
}

void fashion_unload(struct fashion_set *set)
{
	file_close(&set->images);
	file_close(&set->labels);
	set->count = 0;
}
