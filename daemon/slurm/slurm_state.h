/* slurm_state.h - the one table of Slurm's state words, flags and suffixes. */
#ifndef DAEMON_SLURM_SLURM_STATE_H
#define DAEMON_SLURM_SLURM_STATE_H

#include "daemon/slurm/slurm.h"

/* A node's state as it is being read: begin with { 0 }. */
struct slurm_state {
	enum slurm_node_state state;
	int has_base; /* one was said */
	uint32_t flags;
	char strange[32]; /* the first word that nobody knows */
};

/*
 * Take one more word, of any version, in any case: "IDLE", "drain", "MAINT",
 * "PLANNED".  A second base state that contradicts the first is strange.
 */
void slurm_state_word(struct slurm_state *state, const char *word, size_t size);

/*
 * Take a text as scontrol and sinfo print it: "IDLE+DRAIN+PLANNED", "idle*",
 * "mix-", "drng", "alloc#": words with '+' between, suffixes at the end.
 */
void slurm_state_text(struct slurm_state *state, const char *text);

const char *slurm_node_state_name(enum slurm_node_state state); /* "IDLE" */
/* The word of one flag: "DRAIN".  bit: exactly one of enum slurm_node_flag. */
const char *slurm_flag_name(uint32_t bit);

/* "RUNNING", "R", "cg", "CANCELLED by 1000".  Anything else is UNKNOWN. */
enum slurm_job_state slurm_job_state_parse(const char *word);

#endif
