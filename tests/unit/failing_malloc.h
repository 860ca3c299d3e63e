/*
 * failing_malloc.h - an allocator that fails when it is told to.
 *
 * For one check program: the allocation functions defined here replace those
 * of libc for everything that is linked in, and count.  After
 * failing_malloc_arm(n) the nth allocation from then on returns NULL with
 * ENOMEM, once; failing_malloc_disarm() says whether that happened.  A test
 * that must hold at every allocation is a loop:
 *
 *	for (long n = 1, failed = 1; failed; n++) {
 *		failing_malloc_arm(n);
 *		... call, remember what it returned ...
 *		failed = failing_malloc_disarm();
 *		... check: right, or refused and unchanged ...
 *	}
 *
 * The real functions are found behind ours, so the address sanitizer's
 * allocator keeps working when it is there.  The functions that allocate
 * inside libc are written out, because the sanitizer has its own of them
 * which would not come by here.
 */
#ifndef TESTS_FAILING_MALLOC_H
#define TESTS_FAILING_MALLOC_H

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/*
 * clang links its sanitizer's allocator into the program, where ours would
 * take its place; there nothing ever fails, and such loops run once.
 */
#if defined(__clang__) && defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FAILING_MALLOC_OFF
#endif
#endif

static struct {
	void *(*malloc)(size_t size);
	void *(*calloc)(size_t count, size_t size);
	void *(*realloc)(void *old, size_t size);
	bool looking; /* dlsym() may allocate, and does without when refused */
	long left; /* allocations until the one that fails; 0: none will */
	bool failed;
} failing_malloc;

static inline void failing_malloc_arm(long nth)
{
	failing_malloc.failed = false;
	failing_malloc.left = nth;
}

static inline bool failing_malloc_disarm(void)
{
	failing_malloc.left = 0;
	return failing_malloc.failed;
}

#ifndef FAILING_MALLOC_OFF

/* Called before the sanitizer has made its tables, so not to be checked. */
#define FAILING_MALLOC_EARLY __attribute__((no_sanitize("address")))

FAILING_MALLOC_EARLY static bool failing_malloc_refuses(void)
{
	if (!failing_malloc.realloc && !failing_malloc.looking) {
		failing_malloc.looking = true;
		*(void **)&failing_malloc.malloc = dlsym(RTLD_NEXT, "malloc");
		*(void **)&failing_malloc.calloc = dlsym(RTLD_NEXT, "calloc");
		*(void **)&failing_malloc.realloc = dlsym(RTLD_NEXT, "realloc");
		failing_malloc.looking = false;
	}
	if (failing_malloc.realloc &&
	    (!failing_malloc.left || --failing_malloc.left))
		return false;
	failing_malloc.failed = true;
	errno = ENOMEM;
	return true;
}

FAILING_MALLOC_EARLY void *malloc(size_t size)
{
	return failing_malloc_refuses() ? NULL : failing_malloc.malloc(size);
}

FAILING_MALLOC_EARLY void *calloc(size_t count, size_t size)
{
	return failing_malloc_refuses() ? NULL : failing_malloc.calloc(count, size);
}

FAILING_MALLOC_EARLY void *realloc(void *old, size_t size)
{
	return failing_malloc_refuses() ? NULL : failing_malloc.realloc(old, size);
}

void *reallocarray(void *old, size_t count, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(count, size, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	return realloc(old, bytes);
}

char *strndup(const char *text, size_t size)
{
	size_t len = strnlen(text, size);
	char *copy = malloc(len + 1);

	if (copy) {
		memcpy(copy, text, len);
		copy[len] = '\0';
	}
	return copy;
}

char *strdup(const char *text)
{
	return strndup(text, strlen(text));
}

#endif

#endif
