/*
 * fuzz_worker_state.c - a state file that was damaged in any way.
 *
 * The last eight bytes are made right first, or no input would ever get past
 * the checksum.  A refused file changes no buffer.
 */
#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "worker/state.h"
#include "worker/sum.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int file_of(const uint8_t *data, size_t size)
{
	int fd = memfd_create("state", 0);
	struct sum sum;
	uint64_t end;

	sum_init(&sum);
	sum_add(&sum, data, size);
	end = htole64(sum_value(&sum));
	if (fd < 0 || write(fd, data, size) != (ssize_t)size ||
		write(fd, &end, sizeof(end)) != sizeof(end))
		abort();
	return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct state_point point = { .n_samples = 10, .seed = 3 };
	uint8_t a[5] = { 1, 2, 3, 4, 5 }, before[5] = { 1, 2, 3, 4, 5 };
	struct state_table table = { NULL, 0 };
	struct malle_err err;
	char path[64];
	int fd = file_of(data, size), bad;

	state_add(&table, "a", a, sizeof(a), NULL);
	state_add(&table, "none", NULL, 0, NULL);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	bad = state_load(&table, path, &point, &err) < 0;
	if (bad && memcmp(a, before, sizeof(a)))
		abort();
	if (!bad && (point.n_samples != 10 || point.seed != 3))
		abort();
	state_fini(&table);
	close(fd);
	return 0;
}
