/*
 * slurm_rules.c - may this node be claimed.
 *
 * What is not known to be harmless says no.  `harmless` are the flags that an
 * idle node may have: how it came into being (CLOUD, DYNAMIC_NORM) and that a
 * job is expected on it later (PLANNED).  Every other flag says no, also one
 * that was added to Slurm after this was written: it came as a word that nobody
 * knows, and makes its node, and only its node, ineligible.
 *
 * Where several say no, people want to hear the one to act on: a node that is
 * drained and does not respond is drained.  So flags are asked in the order of
 * `gravest`, and only then the state.
 */
#include "daemon/slurm/slurm_rules.h"

#include "daemon/slurm/slurm_state.h"

static const uint32_t harmless =
	SLURM_FLAG_CLOUD | SLURM_FLAG_DYNAMIC_NORM | SLURM_FLAG_PLANNED;

static const uint32_t gravest[] = {
	SLURM_FLAG_STRANGE,
	SLURM_FLAG_DRAIN,
	SLURM_FLAG_MAINTENANCE,
	SLURM_FLAG_FAIL,
	SLURM_FLAG_INVALID,
	SLURM_FLAG_INVALID_REG,
	SLURM_FLAG_NOT_RESPONDING,
	SLURM_FLAG_REBOOT_ISSUED,
	SLURM_FLAG_REBOOT_REQUESTED,
	SLURM_FLAG_POWERED_DOWN,
	SLURM_FLAG_POWERING_DOWN,
	SLURM_FLAG_POWER_DOWN,
	SLURM_FLAG_POWER_DRAIN,
	SLURM_FLAG_POWERING_UP,
	SLURM_FLAG_POWER_UP,
	SLURM_FLAG_DYNAMIC_FUTURE,
	SLURM_FLAG_BLOCKED,
	SLURM_FLAG_COMPLETING,
	SLURM_FLAG_RESERVED,
};
#define N_GRAVEST (sizeof(gravest) / sizeof(gravest[0]))

struct slurm_verdict slurm_rules_plain(const struct slurm_node *node)
{
	uint32_t against = node->flags & ~harmless;

	for (size_t i = 0; i < N_GRAVEST; i++)
		if (against & gravest[i])
			return (struct slurm_verdict){ 0, slurm_flag_name(gravest[i]) };
	if (against) /* REBOOT_CANCELED, UNDRAIN, RESUME, EXTERNAL: the lowest */
		return (struct slurm_verdict){ 0, slurm_flag_name(against & -against) };
	if (node->reservation[0])
		return (struct slurm_verdict){ 0, "RESERVED" };
	if (node->state != SLURM_NODE_IDLE)
		return (struct slurm_verdict){ 0, slurm_node_state_name(node->state) };
	return (struct slurm_verdict){ 1, "" };
}
