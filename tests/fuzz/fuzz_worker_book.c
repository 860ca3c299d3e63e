/* fuzz_worker_book.c - a rank's ledger file that was damaged in any way. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "worker/book.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct book *book)
{
	for (size_t i = 0; i < book->n; i++) {
		const struct book_record *r = &book->records[i];
		const char *at = r->ids;

		if (!r->global_n || r->cursor > book->total)
			abort();
		for (uint64_t k = 0; k < r->n; k++)
			if (book_next_id(&at) >= book->n_samples)
				abort();
		if (*at != '\n')
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = memfd_create("book", 0);
	struct malle_err err;
	struct book book;
	char path[64];

	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (book_read(&book, path, &err) == 0) {
		if (!book.blank && (book.rank >= book.world || !book.n_samples))
			abort();
		check(&book);
		book_fini(&book);
	}
	close(fd);
	return 0;
}
