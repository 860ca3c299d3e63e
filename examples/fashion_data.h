/* fashion_data.h - the Fashion-MNIST images and labels. */
#ifndef FASHION_DATA_H
#define FASHION_DATA_H

#include <stddef.h>
#include <stdint.h>

#define FASHION_PIXELS 784	/* 28 rows of 28 grey values */
#define FASHION_CLASSES 10
#define FASHION_DIR "/usr/share/datasets/fashion-mnist"

enum fashion_part {
	FASHION_UNSET,
	FASHION_TRAIN,	/* 60,000 samples in the published set */
	FASHION_TEST,	/* 10,000 */
};

/* One IDX file: its values, and the storage that they live in. */
struct fashion_file {
	const uint8_t *values;	/* behind the header */
	uint32_t count;		/* records: images or labels */
	uint8_t *base;		/* whole file, header included */
	size_t bytes;
	int mapped;		/* base is from mmap, not from malloc */
};

struct fashion_set {
	struct fashion_file images;	/* FASHION_PIXELS bytes a sample */
	struct fashion_file labels;	/* one byte a sample, < FASHION_CLASSES */
	uint32_t count;			/* samples */
};

/* Why a set could not be read: one line, no newline. */
struct fashion_why {
	char text[256];
};

/*
 * Read one part from a directory with the published file names.  A plain file
 * is mapped, so that all processes of a machine share it; where there is only
 * NAME.gz it is uncompressed into memory.  Returns 0; -1 with errno and *why
 * (EINVAL: not such a file), and then *set is empty.
 */
int fashion_load(struct fashion_set *set, const char *dir,
		 enum fashion_part part, struct fashion_why *why);

/* Give the storage back; an empty set is welcome. */
void fashion_unload(struct fashion_set *set);

#endif
