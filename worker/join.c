/*
 * join.c - from a process and its environment to a worker of a world.
 *
 * Two worlds of names meet here.  RANK, WORLD_SIZE and LOCAL_RANK are torchrun's
 * contract, which malle-run keeps for every launcher; OMPI_COMM_WORLD_* is what
 * a bare mpirun sets.  The first pair that is there counts.  A number that is
 * half there or makes no sense is refused, not guessed: a worker with a wrong
 * rank would train on samples of another.
 *
 * MALLE_SOCKET decides whether this is a plain run.  If it is set, everything
 * else of malle has to be there, and an agent that cannot be reached is a
 * failure: one rank that fell back to a plain run would hang the others.
 */
#include "worker/client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef MALLE_VERSION
#define MALLE_VERSION "0"
#endif

#define JOIN_LIMIT_S 30

/* 1: *value is set; 0: the variable is not there, or empty; -1. */
static int number(
	const char *name, uint64_t max, uint64_t *value, struct malle_err *err)
{
	const char *text = getenv(name), *p = text;
	uint64_t v = 0;

	if (!text || !*text)
		return 0;
	for (; *p >= '0' && *p <= '9' && v <= max; p++)
		v = v * 10 + (uint64_t)(*p - '0');
	if (*p || v > max)
		return fault_set(err, EINVAL, "%s=%.32s: not a number from 0 to %llu",
			name, text, (unsigned long long)max);
	*value = v;
	return 1;
}

static int rank_and_world(struct malle *m, struct malle_err *err)
{
	static const char *const names[][3] = {
		{ "RANK", "WORLD_SIZE", "LOCAL_RANK" },
		{ "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
			"OMPI_COMM_WORLD_LOCAL_RANK" },
	};

	m->world_size = 1;
	for (int i = 0; i < 2; i++) {
		int rank = number(names[i][0], INT32_MAX, &m->rank, err);
		int size = number(names[i][1], INT32_MAX, &m->world_size, err);
		int local = number(names[i][2], INT32_MAX, &m->local_rank, err);

		if (rank < 0 || size < 0 || local < 0)
			return -1;
		if (rank != size)
			return fault_set(err, EINVAL, "%s is set and %s is not",
				names[i][!rank], names[i][!!rank]);
		if (rank && m->rank >= m->world_size)
			return fault_set(err, EINVAL, "%s=%llu is outside %s=%llu",
				names[i][0], (unsigned long long)m->rank, names[i][1],
				(unsigned long long)m->world_size);
		if (rank && m->under_malle && !local)
			return fault_set(err, EINVAL,
				"MALLE_SOCKET is set and %s is not", names[i][2]);
		if (rank)
			return 0;
	}
	if (m->under_malle)
		return fault_set(err, EINVAL, "MALLE_SOCKET is set and RANK is not");
	return 0;
}

int join_environment(struct malle *m, struct malle_err *err)
{
	const char *socket = getenv("MALLE_SOCKET"), *job = getenv("MALLE_JOB_ID");

	m->under_malle = socket && *socket;
	if (rank_and_world(m, err) < 0)
		return -1;
	if (!m->under_malle) {
		strcpy(m->job, "-");
		return 0;
	}
	if (!job || !*job || strlen(job) >= sizeof(m->job))
		return fault_set(err, EINVAL,
			"MALLE_SOCKET is set and MALLE_JOB_ID is no job's id");
	strcpy(m->job, job);
	if (number("MALLE_GENERATION", WIRE_INT_MAX, &m->generation, err) < 0 ||
		number("MALLE_RESTART_COUNT", WIRE_INT_MAX, &m->restarts, err) < 0)
		return -1;
	if (!m->generation)
		return fault_set(err, EINVAL,
			"MALLE_SOCKET is set and MALLE_GENERATION is not 1 or more");
	return 0;
}

/* Wait for one message of this type; a refusal is a failure in its words. */
static int await(
	struct malle *m, enum wire_type type, double end_s, struct malle_err *err)
{
	for (;;) {
		double left_s = end_s - client_now_s();
		int wait_ms = left_s > 0 ? (int)(left_s * 1000) + 1 : 0;
		int n = conn_recv(&m->conn, &m->msg, wait_ms, err);

		if (n < 0)
			return -1;
		if (n == 0)
			return fault_set(
				err, ETIMEDOUT, "join: the agent does not answer");
		if (m->msg.type == WIRE_REFUSE)
			return fault_set(err, EPROTO, "join: the agent refuses: %s",
				m->msg.text);
		if (m->msg.type == type)
			return 0;
	}
}

static int say_hello(struct malle *m, double end_s, struct malle_err *err)
{
	struct wire_out out;

	wire_begin(&out, WIRE_HELLO, 1);
	wire_put_str(&out, "role", "worker");
	wire_put_str(&out, "program", "libmalle " MALLE_VERSION);
	if (conn_send(&m->conn, &out, err) < 0)
		return -1;
	return await(m, WIRE_WELCOME, end_s, err);
}

static int say_join(struct malle *m, double end_s, struct malle_err *err)
{
	struct wire_out out;

	wire_begin(&out, WIRE_JOIN, 2);
	wire_put_str(&out, "job", m->job);
	wire_put_int(&out, "generation", m->generation);
	wire_put_int(&out, "rank", m->rank);
	wire_put_int(&out, "local_rank", m->local_rank);
	wire_put_int(&out, "pid", (uint64_t)getpid());
	if (conn_send(&m->conn, &out, err) < 0)
		return -1;
	return await(m, WIRE_WORLD, end_s, err);
}

int join_agent(struct malle *m, struct malle_err *err)
{
	double end_s = client_now_s() + JOIN_LIMIT_S;

	if (!m->under_malle)
		return 0;
	if (conn_open(&m->conn, getenv("MALLE_SOCKET"), JOIN_LIMIT_S * 1000, err) < 0)
		return -1;
	if (say_hello(m, end_s, err) < 0 || say_join(m, end_s, err) < 0)
		return -1;
	if (m->msg.world_size != m->world_size)
		return fault_set(err, EPROTO,
			"join: the agent's world has %llu workers, WORLD_SIZE is %llu",
			(unsigned long long)m->msg.world_size,
			(unsigned long long)m->world_size);
	if (m->msg.state_dir[0] != '/')
		return fault_set(err, EPROTO,
			"join: state directory %.64s: no absolute path",
			m->msg.state_dir);
	m->replica_s = m->msg.replica_s;
	m->state_dir = strdup(m->msg.state_dir);
	if (!m->state_dir)
		return fault_set(err, ENOMEM, "join: out of memory");
	return 0;
}
