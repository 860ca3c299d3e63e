/* slurm_rules.h - may this node be claimed: the rules, each with a name.
 *
 * The one place where that is decided.  Rules are asked in order; the first that
 * says no is the reason, and its name is what people see.
 */
#ifndef DAEMON_SLURM_SLURM_RULES_H
#define DAEMON_SLURM_SLURM_RULES_H

#include "daemon/slurm/slurm.h"

struct slurm_verdict {
	int eligible;
	const char *reason; /* static: a flag's, a rule's or a state's name; "" */
};

/*
 * By the node's own record alone: state IDLE, no flag but CLOUD, DYNAMIC_NORM or
 * PLANNED, no reservation.  The reason is the gravest flag ("UNKNOWN_FLAG" for
 * a word that nobody knows, "DRAIN", ...), else "RESERVED", else the state.
 */
struct slurm_verdict slurm_rules_plain(const struct slurm_node *node);

#endif
