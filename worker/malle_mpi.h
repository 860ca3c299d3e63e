/* malle_mpi.h - libmalle over MPI: link libmalle_mpi before libmalle. */
#ifndef MALLE_MPI_H
#define MALLE_MPI_H

#include <mpi.h>

#include "malle.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Broadcast states over comm, from its rank 0.  After MPI_Init, before the
 * first malle_batch.  comm is borrowed until malle_leave, which comes before
 * MPI_Finalize.  While it waits it naps instead of polling.
 * -1 with errno: EINVAL (comm is not the world that m is in: other rank or
 * size), EPROTO (MPI would not say).
 */
int malle_mpi_attach(struct malle *m, MPI_Comm comm);

#ifdef __cplusplus
}
#endif

#endif
