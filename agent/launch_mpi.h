/* launch_mpi.h - how mpirun is called, and what it calls.  Pure. */
#ifndef AGENT_LAUNCH_MPI_H
#define AGENT_LAUNCH_MPI_H

#include <stddef.h>

#include "proto/err.h"

struct launch_mpi {
	const char *agent;     /* path of malle-agent, absolute */
	const char *rsh;       /* path of malle-rsh, absolute, without blanks */
	const char *interface; /* network interface between nodes */
	size_t n_nodes;        /* 1 .. LAUNCH_MPI_NODES_MAX */
	int nproc;             /* on each */
	char *const *argv;     /* of a worker */
};

enum { LAUNCH_MPI_NODES_MAX = 65535 };

/* mpirun's argument vector, one malloc for all: free().  NULL: EINVAL, ENOMEM. */
char **launch_mpi_argv(const struct launch_mpi *what, struct err *err);

/* The name that node `index` has for mpirun.  buf of 16 bytes. */
const char *launch_mpi_host(size_t index, char *buf);

/* Back from such a name.  -1: it is none. */
int launch_mpi_index(const char *host, size_t *index);

/*
 * From what mpirun hands to its remote-start program to a vector that can be
 * executed: args are the words after HOST.  Undoes mpirun's quoting for a shell;
 * refuses what only a shell could make sense of.  One malloc: free().  NULL:
 * EINVAL, ENOMEM.
 */
char **launch_mpi_orted(char *const *args, size_t n, struct err *err);

#endif
