/*
 * schema.c - every message of the protocol, as data.
 *
 * To add a message: a number in schema.h, a table of fields and a row in
 * `schemas` here, a handler row where it is received, a section in PROTOCOL.md.
 * Bounds are there to be hit by mistakes and attacks, not by users: they are
 * far above what anybody needs.
 *
 * History of PROTO_VERSION:
 *   1  the first
 */
#include "proto/schema.h"

#define END { NULL, FIELD_NONE, 0, 0, 0, NULL, NULL }
#define REQ 1
#define OPT 0

#define ID_MAX 64     /* bytes of a job's id, a claim's id, a node's name */
#define WORD_MAX 32
#define TEXT_MAX 1024
#define PATH_BYTES 4095
#define NODES_MAX 65536
#define BIG 9007199254740991.0 /* 2^53 - 1: what a double holds exactly */

#define F_JOB { "job", FIELD_STR, REQ, 0, ID_MAX, NULL, "the job's id" }
#define F_GENERATION \
	{ "generation", FIELD_INT, REQ, 1, BIG, NULL, \
		"the world's number within the job, from 1" }
#define F_STEP(req) \
	{ "step", FIELD_INT, req, 0, BIG, NULL, "optimiser steps done" }
#define F_CURSOR(req) \
	{ "cursor", FIELD_INT, req, 0, BIG, "samples", \
		"consumed since the job began, all epochs" }
#define F_PROPOSAL \
	{ "proposal", FIELD_INT, REQ, 1, BIG, NULL, \
		"counts up within a world; only the newest is alive" }
#define F_NODE { "node", FIELD_STR, REQ, 0, ID_MAX, NULL, "a node's name" }
#define F_SESSION \
	{ "session", FIELD_INT, REQ, 1, BIG, NULL, "one remote start, daemon-wide" }
#define F_ARGV { "argv", FIELD_STRS, REQ, 1, 65536, NULL, "argument vector" }
#define F_ENV(req) { "env", FIELD_STRS, req, 0, 65536, NULL, "NAME=VALUE, each" }
#define F_CODE \
	{ "code", FIELD_INT, REQ, 0, 255, NULL, "exit code; 128+n for signal n" }

static const struct field hello[] = {
	{ "role", FIELD_STR, REQ, 0, WORD_MAX, NULL, "client, agent, worker, rsh or peer" },
	{ "program", FIELD_STR, OPT, 0, WORD_MAX, NULL, "program and version, for the log" },
	{ "credential", FIELD_STR, OPT, 0, 4096, NULL, "where authentication needs one" },
	END
};
static const struct field welcome[] = {
	{ "program", FIELD_STR, REQ, 0, WORD_MAX, NULL, "program and version" },
	{ "instance", FIELD_STR, REQ, 0, ID_MAX, NULL, "differs at each start of the server" },
	END
};
static const struct field ok[] = {
	{ "text", FIELD_STR, OPT, 0, TEXT_MAX, NULL, "what was done" },
	END
};
static const struct field refuse[] = {
	{ "code", FIELD_INT, REQ, 1, 255, NULL, "the exit code that fits" },
	{ "text", FIELD_STR, REQ, 0, TEXT_MAX, NULL, "what, to which object, why" },
	END
};
static const struct field empty[] = { END };
static const struct field pong[] = {
	{ "uptime_s", FIELD_REAL, REQ, 0, BIG, "s", "since the daemon started" },
	{ "state", FIELD_STR, REQ, 0, WORD_MAX, NULL, "ok, adopting or degraded" },
	END
};

static const struct field job_submit[] = {
	{ "name", FIELD_STR, REQ, 0, ID_MAX, NULL, "for people" },
	F_ARGV,
	F_ENV(REQ),
	{ "cwd", FIELD_STR, REQ, 0, PATH_BYTES, NULL, "working directory, absolute" },
	{ "min_nodes", FIELD_INT, REQ, 1, NODES_MAX, "nodes", "fewer: paused" },
	{ "max_nodes", FIELD_INT, REQ, 1, NODES_MAX, "nodes", "never more" },
	{ "nproc", FIELD_INT, REQ, 1, 4096, NULL, "workers on each node" },
	{ "mode", FIELD_STR, REQ, 0, WORD_MAX, NULL, "live, swap or restart" },
	{ "launcher", FIELD_STR, REQ, 0, WORD_MAX, NULL, "mpi, torch or env" },
	{ "priority", FIELD_REAL, OPT, 0.001, 1000, NULL, "weight in the objective; 1" },
	{ "output", FIELD_STR, OPT, 0, PATH_BYTES, NULL,
		"file that the workers' output is appended to; %j is the job's id" },
	{ "spool", FIELD_STR, REQ, 0, PATH_BYTES, NULL,
		"directory for the state of a job without nodes, absolute" },
	{ "token", FIELD_STR, OPT, 0, ID_MAX, NULL,
		"a resent submit with the same token is the same job" },
	END
};
static const struct field job_accepted[] = { F_JOB, END };
static const struct field job_attach[] = {
	F_JOB,
	{ "offset", FIELD_INT, OPT, 0, BIG, "bytes", "of output that the client has" },
	END
};
static const struct field job_state[] = {
	F_JOB,
	{ "state", FIELD_STR, REQ, 0, WORD_MAX, NULL,
		"waiting, starting, running, pausing, paused, stopping or ended" },
	{ "generation", FIELD_INT, REQ, 0, BIG, NULL, "0: never had a world" },
	{ "nodes", FIELD_STR, REQ, 0, 1 << 20, NULL, "of the present world, folded" },
	{ "n_nodes", FIELD_INT, REQ, 0, NODES_MAX, "nodes", "how many those are" },
	{ "reason", FIELD_STR, OPT, 0, TEXT_MAX, NULL, "why it changed" },
	{ "exit_code", FIELD_INT, OPT, 0, 255, NULL, "when ended" },
	END
};
static const struct field job_output[] = {
	F_JOB,
	{ "stream", FIELD_INT, REQ, 1, 2, NULL, "1: standard output, 2: standard error" },
	{ "offset", FIELD_INT, OPT, 0, BIG, "bytes",
		"of both streams of the job together, before this; set by the daemon" },
	END
};
static const struct field job_cancel[] = {
	F_JOB,
	{ "force", FIELD_BOOL, OPT, 0, 0, NULL, "kill at once, lose what is not saved" },
	END
};
static const struct field job_only[] = { F_JOB, END };

static const struct field state_drop[] = {
	F_JOB,
	{ "spool", FIELD_STR, OPT, 0, PATH_BYTES, NULL,
		"the job ended well: remove this directory with its state" },
	END
};

static const struct field status_get[] = {
	{ "what", FIELD_STR, REQ, 0, WORD_MAX, NULL, "summary, jobs, job, nodes, node" },
	{ "id", FIELD_STR, OPT, 0, ID_MAX, NULL, "of the job or node" },
	END
};
static const struct field status_reply[] = {
	{ "data", FIELD_JSON, REQ, 0, 0, NULL, "an object; see malle-status(1)" },
	END
};
static const struct field config_reply[] = {
	{ "options", FIELD_JSON, REQ, 0, 0, NULL,
		"array of {name, value, default, unit, help}" },
	END
};

static const struct field agent_hello[] = {
	F_NODE,
	{ "claim", FIELD_STR, REQ, 0, ID_MAX, NULL, "the claim it was started for" },
	{ "pid", FIELD_INT, REQ, 1, BIG, NULL, "of the agent" },
	{ "address", FIELD_STR, REQ, 0, PATH_BYTES, NULL, "where peers fetch states" },
	{ "cpus", FIELD_REAL, OPT, 0, 65536, NULL, "usable, quota included" },
	END
};
static const struct field agent_world[] = {
	F_JOB,
	F_GENERATION,
	{ "world_nodes", FIELD_STRS, REQ, 1, NODES_MAX, NULL, "in the order of ranks" },
	{ "phase", FIELD_STR, REQ, 0, WORD_MAX, NULL,
		"starting, ready, running, left or exiting" },
	{ "ready", FIELD_INT, REQ, 0, 4096, NULL, "local workers that wait for go" },
	F_STEP(REQ),
	F_CURSOR(REQ),
	END
};
static const struct field node_notice[] = {
	{ "grace_s", FIELD_REAL, REQ, 0, 86400, "s", "until the agent must be gone" },
	{ "reason", FIELD_STR, OPT, 0, TEXT_MAX, NULL, "what told it" },
	END
};
static const struct field node_release[] = {
	{ "grace_s", FIELD_REAL, REQ, 0, 86400, "s", "until everything must be gone" },
	{ "reason", FIELD_STR, OPT, 0, TEXT_MAX, NULL, "for the log" },
	{ "spool", FIELD_STRS, OPT, 0, 4096, NULL,
		"jobs whose newest state must be in their spool before the agent goes" },
	END
};
static const struct field node_released[] = {
	{ "clean", FIELD_BOOL, REQ, 0, 0, NULL, "nothing of ours was left at the end" },
	{ "killed", FIELD_INT, REQ, 0, BIG, NULL, "processes that had to be killed" },
	{ "took_s", FIELD_REAL, REQ, 0, BIG, "s", "from the order to this" },
	{ "left", FIELD_STR, OPT, 0, TEXT_MAX, NULL, "what was left, if anything" },
	END
};

static const struct field world_start[] = {
	F_JOB,
	F_GENERATION,
	{ "world_nodes", FIELD_STRS, REQ, 1, NODES_MAX, NULL,
		"in the order of ranks; the first one launches" },
	{ "nproc", FIELD_INT, REQ, 1, 4096, NULL, "workers on each node" },
	{ "restarts", FIELD_INT, REQ, 0, BIG, NULL, "failures of the job so far" },
	{ "launcher", FIELD_STR, REQ, 0, WORD_MAX, NULL, "mpi, torch or env" },
	{ "mode", FIELD_STR, REQ, 0, WORD_MAX, NULL, "live, swap or restart" },
	F_ARGV,
	F_ENV(REQ),
	{ "cwd", FIELD_STR, REQ, 0, PATH_BYTES, NULL, "working directory" },
	{ "min_nodes", FIELD_INT, REQ, 1, NODES_MAX, "nodes", "the job's bounds" },
	{ "max_nodes", FIELD_INT, REQ, 1, NODES_MAX, "nodes", "the job's bounds" },
	{ "output", FIELD_STR, OPT, 0, PATH_BYTES, NULL, "file to append output to" },
	{ "spool", FIELD_STR, REQ, 0, PATH_BYTES, NULL, "for states that must last" },
	{ "master_addr", FIELD_STR, OPT, 0, 255, NULL, "rendezvous" },
	{ "master_port", FIELD_INT, OPT, 0, 65535, NULL, "rendezvous; 0: agent picks" },
	END
};
static const struct field world_started[] = {
	F_JOB,
	F_GENERATION,
	{ "pid", FIELD_INT, REQ, 0, BIG, NULL, "of the launcher; 0: not launched here" },
	END
};
static const struct field world_ready[] = {
	F_JOB,
	F_GENERATION,
	{ "ready", FIELD_INT, REQ, 0, 4096, NULL, "local workers that wait for go" },
	END
};
static const struct field world_go[] = {
	F_JOB,
	F_GENERATION,
	{ "state_step", FIELD_INT, OPT, 0, BIG, NULL, "of the state to take; absent: none" },
	{ "state_node", FIELD_STR, OPT, 0, ID_MAX, NULL, "that holds it; absent: the spool" },
	{ "state_address", FIELD_STR, OPT, 0, PATH_BYTES, NULL, "that node's agent" },
	END
};
static const struct field world_progress[] = {
	F_JOB,
	F_GENERATION,
	F_STEP(REQ),
	F_CURSOR(REQ),
	{ "t_s", FIELD_REAL, REQ, 0, BIG, "s", "wall clock of the node at that step's end" },
	{ "step_s", FIELD_REAL, OPT, 0, BIG, "s", "median time of a step lately" },
	END
};
static const struct field world_propose[] = {
	F_JOB,
	F_GENERATION,
	F_PROPOSAL,
	F_STEP(REQ),
	{ "verdict", FIELD_STR, REQ, 0, WORD_MAX, NULL, "rescale or stop" },
	END
};
static const struct field world_answer[] = {
	F_JOB,
	F_GENERATION,
	F_PROPOSAL,
	{ "agreed", FIELD_BOOL, REQ, 0, 0, NULL, "all local workers are before the step" },
	F_STEP(REQ),
	END
};
static const struct field world_commit[] = { F_JOB, F_GENERATION, F_PROPOSAL, END };
static const struct field world_left[] = {
	F_JOB,
	F_GENERATION,
	F_STEP(REQ),
	F_CURSOR(REQ),
	{ "t_s", FIELD_REAL, REQ, 0, BIG, "s", "wall clock at the end of the last step" },
	{ "saved", FIELD_BOOL, REQ, 0, 0, NULL, "this node holds the state of that step" },
	{ "finished", FIELD_BOOL, REQ, 0, 0, NULL, "the training is complete" },
	END
};
static const struct field world_kill[] = {
	F_JOB,
	F_GENERATION,
	{ "grace_s", FIELD_REAL, REQ, 0, 86400, "s", "between SIGTERM and SIGKILL" },
	END
};
static const struct field world_exited[] = {
	F_JOB,
	F_GENERATION,
	F_CODE,
	{ "launcher", FIELD_BOOL, REQ, 0, 0, NULL, "code is the launcher's" },
	{ "reason", FIELD_STR, OPT, 0, TEXT_MAX, NULL, "why, where the agent knows" },
	END
};
static const struct field state_saved[] = {
	F_JOB,
	F_GENERATION,
	F_STEP(REQ),
	F_CURSOR(REQ),
	{ "bytes", FIELD_INT, REQ, 0, BIG, "bytes", "of the state" },
	{ "spooled", FIELD_BOOL, OPT, 0, 0, NULL, "it lies in the job's spool" },
	END
};
static const struct field rsh_request[] = {
	F_JOB,
	F_GENERATION,
	F_NODE,
	F_ARGV,
	F_ENV(OPT),
	END
};
static const struct field rsh_start[] = {
	F_JOB,
	F_GENERATION,
	F_SESSION,
	F_ARGV,
	F_ENV(OPT),
	END
};
static const struct field rsh_exited[] = { F_SESSION, F_CODE, END };
static const struct field rsh_session[] = { F_SESSION, END };

static const struct field state_fetch[] = { F_JOB, F_STEP(REQ), END };
static const struct field state_data[] = {
	F_JOB,
	F_STEP(REQ),
	{ "offset", FIELD_INT, REQ, 0, BIG, "bytes", "of these raw bytes" },
	{ "bytes", FIELD_INT, REQ, 0, BIG, "bytes", "of the whole" },
	F_CURSOR(OPT),
	END
};

static const struct field worker_join[] = {
	F_JOB,
	F_GENERATION,
	{ "rank", FIELD_INT, REQ, 0, BIG, NULL, "in the world" },
	{ "local_rank", FIELD_INT, REQ, 0, 4095, NULL, "on the node" },
	{ "pid", FIELD_INT, REQ, 1, BIG, NULL, "of the worker" },
	END
};
static const struct field worker_world[] = {
	{ "world_size", FIELD_INT, REQ, 1, BIG, NULL, "workers" },
	{ "state_dir", FIELD_STR, REQ, 0, PATH_BYTES, NULL,
		"memory-backed directory to leave states in" },
	{ "replica_s", FIELD_REAL, REQ, 0, 86400, "s",
		"between states saved for the case of loss; 0: none" },
	END
};
static const struct field worker_go[] = {
	{ "state", FIELD_STR, OPT, 0, PATH_BYTES, NULL,
		"file to load, for the rank that has one on its node" },
	{ "resume", FIELD_BOOL, REQ, 0, 0, NULL,
		"the world continues a state (rank 0 has the file)" },
	END
};
static const struct field worker_progress[] = {
	F_STEP(REQ),
	F_CURSOR(REQ),
	{ "t_s", FIELD_REAL, REQ, 0, BIG, "s", "wall clock at that step's end" },
	{ "step_s", FIELD_REAL, OPT, 0, BIG, "s", "median time of a step lately" },
	END
};
static const struct field worker_propose[] = {
	F_PROPOSAL,
	F_STEP(REQ),
	{ "verdict", FIELD_STR, REQ, 0, WORD_MAX, NULL, "rescale or stop" },
	END
};
static const struct field worker_answer[] = {
	F_PROPOSAL,
	{ "agreed", FIELD_BOOL, REQ, 0, 0, NULL, "it is before the step" },
	F_STEP(REQ),
	END
};
static const struct field worker_proposal[] = { F_PROPOSAL, END };
static const struct field worker_saved[] = {
	F_STEP(REQ),
	F_CURSOR(REQ),
	{ "file", FIELD_STR, REQ, 0, 255, NULL, "name within the state directory" },
	{ "bytes", FIELD_INT, REQ, 0, BIG, "bytes", "of the file" },
	END
};
static const struct field worker_leave[] = {
	F_STEP(REQ),
	F_CURSOR(REQ),
	{ "t_s", FIELD_REAL, REQ, 0, BIG, "s", "wall clock at the end of the last step" },
	{ "finished", FIELD_BOOL, REQ, 0, 0, NULL, "the training is complete" },
	END
};

static const struct schema schemas[] = {
	{ MSG_HELLO, "hello", "any", "first message of who connects", 0, hello },
	{ MSG_WELCOME, "welcome", "server", "answer to hello", 0, welcome },
	{ MSG_OK, "ok", "any", "the request was carried out", 0, ok },
	{ MSG_REFUSE, "refuse", "any", "the request was not, and why", 0, refuse },
	{ MSG_PING, "ping", "any", "are you there", 0, empty },
	{ MSG_PONG, "pong", "any", "yes", 0, pong },

	{ MSG_JOB_SUBMIT, "job.submit", "client", "a new job", 0, job_submit },
	{ MSG_JOB_ACCEPTED, "job.accepted", "daemon", "its id", 0, job_accepted },
	{ MSG_JOB_ATTACH, "job.attach", "client", "state and output from now on", 0,
		job_attach },
	{ MSG_JOB_STATE, "job.state", "daemon", "whole at first, then at each change", 0,
		job_state },
	{ MSG_JOB_OUTPUT, "job.output", "agent, daemon", "what workers wrote", 1,
		job_output },
	{ MSG_JOB_CANCEL, "job.cancel", "client", "end the job", 0, job_cancel },
	{ MSG_JOB_PAUSE, "job.pause", "client", "take its nodes, keep its state", 0,
		job_only },
	{ MSG_JOB_RESUME, "job.resume", "client", "let it have nodes again", 0, job_only },

	{ MSG_STATUS_GET, "status.get", "client", "ask what is going on", 0, status_get },
	{ MSG_STATUS_REPLY, "status.reply", "daemon", "the answer", 0, status_reply },
	{ MSG_CONFIG_GET, "config.get", "client", "ask for the options in force", 0, empty },
	{ MSG_CONFIG_REPLY, "config.reply", "daemon", "the answer", 0, config_reply },

	{ MSG_AGENT_HELLO, "agent.hello", "agent", "who it is and for which claim", 0,
		agent_hello },
	{ MSG_AGENT_WORLD, "agent.world", "agent", "a world that it holds", 0, agent_world },
	{ MSG_AGENT_READY, "agent.ready", "agent", "it has told all it holds", 0, empty },
	{ MSG_NODE_NOTICE, "node.notice", "agent", "the scheduler wants the node", 0,
		node_notice },
	{ MSG_NODE_RELEASE, "node.release", "daemon", "end everything and go", 0,
		node_release },
	{ MSG_NODE_RELEASED, "node.released", "agent", "the last word of an agent", 0,
		node_released },

	{ MSG_WORLD_START, "world.start", "daemon", "be part of a new world", 0,
		world_start },
	{ MSG_WORLD_STARTED, "world.started", "agent", "it is", 0, world_started },
	{ MSG_WORLD_READY, "world.ready", "agent", "local workers wait for go", 0,
		world_ready },
	{ MSG_WORLD_GO, "world.go", "daemon", "take this state and train", 0, world_go },
	{ MSG_WORLD_PROGRESS, "world.progress", "agent", "from the node of rank 0", 0,
		world_progress },
	{ MSG_WORLD_PROPOSE, "world.propose", "daemon", "leave after this step?", 0,
		world_propose },
	{ MSG_WORLD_ANSWER, "world.answer", "agent", "yes, or it is too late", 0,
		world_answer },
	{ MSG_WORLD_COMMIT, "world.commit", "daemon", "all agreed: do", 0, world_commit },
	{ MSG_WORLD_WITHDRAW, "world.withdraw", "daemon", "do not", 0, world_commit },
	{ MSG_WORLD_LEFT, "world.left", "agent", "all local workers left at that step", 0,
		world_left },
	{ MSG_WORLD_KILL, "world.kill", "daemon", "end the world's local part", 0,
		world_kill },
	{ MSG_WORLD_EXITED, "world.exited", "agent", "no process of it is left here", 0,
		world_exited },
	{ MSG_STATE_SAVED, "state.saved", "agent", "a state lies on this node", 0,
		state_saved },
	{ MSG_STATE_DROP, "state.drop", "daemon", "forget the states of a job", 0,
		state_drop },

	{ MSG_RSH_REQUEST, "rsh.request", "rsh, agent", "start this on that node", 0,
		rsh_request },
	{ MSG_RSH_START, "rsh.start", "daemon", "start this on your node", 0, rsh_start },
	{ MSG_RSH_EXITED, "rsh.exited", "agent, daemon", "it ended", 0, rsh_exited },
	{ MSG_RSH_HANGUP, "rsh.hangup", "agent, daemon", "end it", 0, rsh_session },

	{ MSG_STATE_FETCH, "state.fetch", "peer", "send me that state", 0, state_fetch },
	{ MSG_STATE_DATA, "state.data", "agent", "a part of it", 1, state_data },

	{ MSG_WORKER_JOIN, "worker.join", "worker", "a worker is there", 0, worker_join },
	{ MSG_WORKER_WORLD, "worker.world", "agent", "what it is part of", 0, worker_world },
	{ MSG_WORKER_READY, "worker.ready", "worker", "it waits for go", 0, empty },
	{ MSG_WORKER_GO, "worker.go", "agent", "load and train", 0, worker_go },
	{ MSG_WORKER_PROGRESS, "worker.progress", "worker", "a step was done", 0,
		worker_progress },
	{ MSG_WORKER_PROPOSE, "worker.propose", "agent", "leave after this step?", 0,
		worker_propose },
	{ MSG_WORKER_ANSWER, "worker.answer", "worker", "yes, or it is too late", 0,
		worker_answer },
	{ MSG_WORKER_COMMIT, "worker.commit", "agent", "all agreed: do", 0,
		worker_proposal },
	{ MSG_WORKER_WITHDRAW, "worker.withdraw", "agent", "do not", 0, worker_proposal },
	{ MSG_WORKER_SAVED, "worker.saved", "worker", "a state is complete", 0,
		worker_saved },
	{ MSG_WORKER_LEAVE, "worker.leave", "worker", "it trains no more", 0,
		worker_leave },
};

const struct schema *schema_find(unsigned type)
{
	for (size_t i = 0; i < sizeof(schemas) / sizeof(schemas[0]); i++)
		if (schemas[i].type == type)
			return &schemas[i];
	return NULL;
}

const char *schema_name(unsigned type)
{
	const struct schema *schema = schema_find(type);

	return schema ? schema->name : "unknown";
}

const struct schema *schema_all(size_t *n)
{
	*n = sizeof(schemas) / sizeof(schemas[0]);
	return schemas;
}
