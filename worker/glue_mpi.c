/*
 * glue_mpi.c - states go out to the ranks by MPI.
 *
 * A collective that waits in Open MPI polls, and a rank that polls away its
 * share of a processor slows the rank it waits for, above all under a CPU quota.
 * A state is broadcast once a world, while rank 0 may still be reading it, so
 * this starts a non-blocking broadcast and naps between looks; the naps grow to
 * a millisecond, which is lost at most once a piece.
 *
 * Counts of MPI are int, so large buffers go in pieces.  The communicator
 * travels in the callback's argument itself: nothing to allocate, nothing to
 * free.
 */
#include "worker/malle_mpi.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#define PIECE	   (512u << 20) /* bytes */
#define NAP_MIN_NS 20000
#define NAP_MAX_NS 1000000

_Static_assert(sizeof(MPI_Comm) <= sizeof(void *), "a communicator fits a pointer");

static int settle(MPI_Request *request)
{
	struct timespec nap = { .tv_nsec = NAP_MIN_NS };
	int done = 0;

	for (;;) {
		if (MPI_Test(request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS)
			return -1;
		if (done)
			return 0;
		nanosleep(&nap, NULL);
		if (nap.tv_nsec < NAP_MAX_NS)
			nap.tv_nsec *= 2;
	}
}

static int broadcast(void *arg, void *buffer, size_t bytes)
{
	char *p = buffer;
	MPI_Request request;
	MPI_Comm comm;

	memcpy(&comm, &arg, sizeof(comm));
	while (bytes) {
		size_t n = bytes < PIECE ? bytes : PIECE;

		if (MPI_Ibcast(p, (int)n, MPI_BYTE, 0, comm, &request) != MPI_SUCCESS ||
			settle(&request) < 0) {
			errno = EIO;
			return -1;
		}
		p += n;
		bytes -= n;
	}
	return 0;
}

int malle_mpi_attach(struct malle *m, MPI_Comm comm)
{
	int rank, size;
	void *arg = NULL;

	if (MPI_Comm_rank(comm, &rank) != MPI_SUCCESS ||
		MPI_Comm_size(comm, &size) != MPI_SUCCESS) {
		errno = EPROTO;
		return -1;
	}
	if (malle_expect_world(m, rank, size) < 0)
		return -1;
	memcpy(&arg, &comm, sizeof(comm));
	return malle_set_broadcast(m, broadcast, arg);
}
