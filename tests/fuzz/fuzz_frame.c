/* fuzz_frame.c - header bytes that came from anywhere. */
#include <stdlib.h>
#include <string.h>

#include "proto/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct frame_header header;
	uint8_t again[FRAME_HEADER_SIZE];
	struct err err;

	for (; size >= FRAME_HEADER_SIZE; data++, size--) {
		if (frame_decode(data, &header, &err) < 0)
			continue;
		frame_encode(&header, again);
		if (memcmp(data, again, sizeof(again)) ||
			header.length > FRAME_BODY_MAX)
			abort();
	}
	return 0;
}
