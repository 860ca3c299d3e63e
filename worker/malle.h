/* malle.h - libmalle: training that grows and shrinks while it runs.
 *
 * A program that trains under malle-run changes this little:
 *
 *	struct malle *m = malle_join(&err);
 *	struct malle_data data = { .n_samples = 60000, .global_batch = 512,
 *				   .epochs = 4, .seed = 1 };
 *
 *	malle_data(m, &data);
 *	malle_state(m, "weights", weights, bytes);
 *	malle_mpi_attach(m, MPI_COMM_WORLD);	(malle_mpi.h; or set_broadcast)
 *	while ((got = malle_batch(m, &b)) > 0) {
 *		... gradients of b.ids[0 .. b.n - 1], summed over all ranks,
 *		... divided by b.global_n, one optimiser step ...
 *		verdict = malle_step(m);
 *		if (verdict != MALLE_GO)
 *			break;
 *	}
 *	finished = malle_finished(m);		(else: started again elsewhere)
 *	malle_leave(m);
 *
 * What it promises:
 * - The order of samples is a permutation that depends on seed, epoch and
 *   n_samples only.  Each sample comes once an epoch, whatever the world sizes
 *   were.  A batch never crosses the end of an epoch; the last one of an epoch
 *   may be smaller; nothing is padded, nothing dropped.
 * - All ranks get the same verdict at the same step.
 * - Nothing here prints, exits, aborts, raises a signal or waits for ever,
 *   but for one wait, in the first malle_batch (see there).
 *
 * Outside malle-run (no MALLE_SOCKET) everything works as a plain run: rank
 * and world size come from RANK and WORLD_SIZE, else from OMPI_COMM_WORLD_RANK
 * and _SIZE, else it is a single process; the verdict is always MALLE_GO.
 *
 * One thread calls; which one does not matter.  Of what can fail: -1 with errno and
 * malle_error().  EINVAL is a mistake of the caller and changes nothing.  A
 * struct malle that is NULL is such a mistake, save in malle_leave.
 */
#ifndef MALLE_H
#define MALLE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct malle;

/* One line without a newline: what was done, to which object, why it failed. */
struct malle_err {
	char text[256];
};

enum malle_verdict {
	MALLE_FAILED = -1, /* EINVAL: no batch is in hand; nothing changed */
	MALLE_UNSET = 0,   /* no verdict; malle_step never returns it */
	MALLE_GO = 1,      /* train on */
	MALLE_RESCALE = 2, /* leave and exit 0: training goes on in a new world */
	MALLE_STOP = 3,    /* leave and exit 0: it ends, or pauses, here */
};

/* What is trained on.  Global: the same on all ranks and in all worlds. */
struct malle_data {
	uint64_t n_samples;    /* 1 .. 2^32 - 1; ids are 0 .. n_samples - 1 */
	uint64_t global_batch; /* 1 .. 2^32 - 1, samples a step, over all ranks */
	uint64_t epochs;       /* 0: max_samples alone says when it ends */
	uint64_t max_samples;  /* of all epochs and ranks together; 0: epochs does */
	uint64_t seed;
};

/* This rank's part of one global batch. */
struct malle_batch {
	const uint32_t *ids; /* borrowed until the next call with this struct malle */
	size_t n;            /* of ids.  May be 0: the batch has fewer samples than
				there are ranks.  Take part in the step all the same. */
	size_t global_n;     /* of all ranks together; never 0 */
	size_t offset;       /* of ids within the global batch */
	uint64_t step;       /* steps done before this one, since the job began */
	uint64_t epoch;      /* from 0 */
	uint64_t cursor;     /* samples consumed before this batch, by all ranks */
};

/*
 * Become a worker of the world that this process was started for.  Takes up to
 * 30 s where the agent is slow.  The result is owned: malle_leave.
 * NULL with errno and *err (which may be NULL): EINVAL (the environment makes
 * no sense: a rank outside the world, a number that is none), ENOMEM,
 * ETIMEDOUT, EPROTO (the agent speaks another version or refuses), or why
 * connecting failed.  With MALLE_SOCKET set it never falls back to a plain
 * run.  The descriptor is close-on-exec.
 */
struct malle *malle_join(struct malle_err *err);

/*
 * Say what is trained on; *data is copied.  Once, before the first
 * malle_batch.  The smaller of epochs and max_samples ends training.
 * -1: EINVAL, EBUSY (said before).
 */
int malle_data(struct malle *m, const struct malle_data *data);

/*
 * Register a buffer that is part of the state of training: weights, momenta,
 * random generators, whatever the next step depends on and is equal on all
 * ranks between steps.  Before the first malle_batch; the same names and sizes
 * in the same order on all ranks and in all worlds of the job.  name: 1 to 63
 * bytes, copied, unique.  ptr: borrowed, read and written by malle_batch and
 * malle_step, until malle_leave.  bytes may be 0.
 * -1: EINVAL, EEXIST (the name is taken), EBUSY (training has begun), ENOMEM.
 */
int malle_state(struct malle *m, const char *name, void *ptr, size_t bytes);

/*
 * Copy bytes from rank 0's buffer into that of every other rank; called on all
 * ranks, in the same order and with the same sizes, from the first malle_batch
 * only.  0, or -1 with errno.  arg is borrowed until malle_leave.
 * A world of one rank needs none.  A larger one without it can begin, but not
 * resume: malle_batch then fails with ENOTSUP.
 */
typedef int (*malle_broadcast_f)(void *arg, void *buffer, size_t bytes);
int malle_set_broadcast(struct malle *m, malle_broadcast_f broadcast, void *arg);

/*
 * For an adapter of some library of collectives: is a communicator in which
 * this process has this rank of so many the world that m is in, rank by rank?
 * 0, or -1 with EINVAL and malle_error.
 */
int malle_expect_world(struct malle *m, int rank, int size);

/*
 * The next batch: 1 with *b filled; 0 when there is none; -1.
 *
 * 0 means that all samples are consumed, or that malle_step gave a verdict
 * other than MALLE_GO, or malle_finish was called; malle_finished tells.
 *
 * The first call tells the agent that this worker is ready and waits until the
 * whole world may go.  That wait has no limit (the old world still trains
 * meanwhile), costs no processor time, and ends when the agent does.  Then the
 * state of the world before, if any, is checked, loaded by rank 0 and
 * broadcast.  When the call returns 1 or 0, every registered buffer holds on
 * all ranks what it holds on rank 0, if there is a broadcast function.
 *
 * -1: EINVAL (no malle_data; the batch before was not stepped), ENOTSUP,
 * ENOMEM, ECONNRESET (the agent is gone before go), EBADMSG (the state is
 * damaged or not of this program: buffers are untouched), or what reading the
 * state, the broadcast, or the ledger met.  Except for EINVAL it fails from then
 * on.  A program whose malle_batch fails ends with a non-zero code, and under
 * MPI by MPI_Abort: other ranks may be waiting for it.
 */
int malle_batch(struct malle *m, struct malle_batch *b);

/*
 * The batch went into the model, on this rank, and so the state is complete.
 * Costs microseconds, but: at times the state is copied to memory (never more
 * than a twentieth of the time goes there), and a world that is about to leave
 * may wait here for the last word, which comes within seconds.
 *
 * After MALLE_RESCALE and MALLE_STOP the state has been saved; the program
 * calls malle_leave and exits 0 soon.  The same verdict at every further call.
 *
 * If the agent is gone, this goes on with MALLE_GO: its node is lost or given
 * away, and the launcher ends the whole world.  One rank leaving alone would
 * hang the others.
 */
enum malle_verdict malle_step(struct malle *m);

/*
 * Training is complete before all samples are consumed.  All ranks call it at
 * the same step, between malle_step and malle_batch.  -1: EINVAL.
 */
int malle_finish(struct malle *m);

/*
 * Forget everything and free; registered buffers are not touched.  In the
 * middle of training it says nothing to the agent: the exit code does.  NULL
 * is welcome.  Keeps errno.
 */
void malle_leave(struct malle *m);

/* Ranks are 0 .. world_size - 1.  Constant from malle_join on; -1 for NULL. */
int malle_rank(const struct malle *m);
int malle_local_rank(const struct malle *m);
int malle_world_size(const struct malle *m);

/* The world's number within the job, from 1; 0 in a plain run. */
uint64_t malle_generation(const struct malle *m);

/* Failures of the job so far; rescales do not count. */
uint64_t malle_restarts(const struct malle *m);

/* Steps done and samples consumed since the job began; true from the first
 * malle_batch on, 0 before. */
uint64_t malle_steps(const struct malle *m);
uint64_t malle_cursor(const struct malle *m);

/* 1 once malle_batch has returned 0 because training is complete, or
 * malle_finish was called; else 0. */
int malle_finished(const struct malle *m);

/* What failed last, "" when nothing has.  Borrowed, until the next call. */
const char *malle_error(const struct malle *m);

#ifdef __cplusplus
}
#endif

#endif
