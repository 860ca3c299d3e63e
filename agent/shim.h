/* shim.h - from a rank of mpirun's to a worker with torchrun's contract. */
#ifndef AGENT_SHIM_H
#define AGENT_SHIM_H

#include "proto/err.h"

/*
 * Set RANK, WORLD_SIZE and the others from mpirun's variables and become
 * argv.  Returns only when it fails, with an exit code: 78 (this is no rank of
 * mpirun's), 126, 127 as shells do.
 */
int shim_exec(char *const *argv, struct err *err);

#endif
