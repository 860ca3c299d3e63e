/*
 * shim.c - from a rank of mpirun's to a worker with torchrun's contract.
 *
 * mpirun knows ranks only when orted starts them, so the last words of their
 * environment are set here, in the process that becomes the worker.  Every node
 * has as many workers as the others, so the node's place in the world is
 * its first rank divided by their number.
 *
 * It dies with orted: a rank whose orted is gone would wait in MPI for ever
 * if it is not in a call.
 */
#include "agent/shim.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static const struct {
	const char *name, *from;
} names[] = {
	{ "RANK", "OMPI_COMM_WORLD_RANK" },
	{ "WORLD_SIZE", "OMPI_COMM_WORLD_SIZE" },
	{ "LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK" },
	{ "LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE" },
};

static int set_ranks(struct err *err)
{
	long rank, local;
	char group[24];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *value = getenv(names[i].from);

		if (!value)
			return err_set(err, EINVAL,
				"%s is not set: no rank of mpirun's", names[i].from);
		if (setenv(names[i].name, value, 1) < 0)
			return err_set(err, errno, "%s: out of memory", names[i].name);
	}
	rank = strtol(getenv("RANK"), NULL, 10);
	local = strtol(getenv("LOCAL_WORLD_SIZE"), NULL, 10);
	snprintf(group, sizeof(group), "%ld", local > 0 ? rank / local : 0);
	if (setenv("GROUP_RANK", group, 1) < 0)
		return err_set(err, errno, "GROUP_RANK: out of memory");
	return 0;
}

int shim_exec(char *const *argv, struct err *err)
{
	if (set_ranks(err) < 0)
		return EXIT_BAD_CONFIG;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	execvp(argv[0], argv);
	err_set(err, errno, "%s: execute: %s", argv[0], strerror(errno));
	return errno == ENOENT ? 127 : 126;
}
