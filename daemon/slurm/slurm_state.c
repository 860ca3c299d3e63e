/*
 * slurm_state.c - the one table of Slurm's state words, flags and suffixes.
 *
 * A node has one base state and any number of flags.  They come in three ways:
 * an array of words in any order (JSON of 23.02 and later), a lower-case word
 * beside an array of flags (JSON before), and one text with '+' between, or one
 * of sinfo's short forms, with suffix characters (scontrol and sinfo).  All of
 * them end here, word by word, and the first word has no rank: "DRAIN, IDLE" and
 * "IDLE+DRAIN" are the same node.
 *
 * Some words of sinfo stand for a base and a flag at once: "drng" is a node with
 * jobs that is being drained, "comp" one that ends a job, "plnd" an idle one
 * that is planned for.  Their base is what the node certainly is; where
 * the short form hides it, it is UNKNOWN, which nobody may claim.
 *
 * Words are compared whole.  Nothing here looks at the beginning of a word:
 * "IDLEX" is no idle node.  A word that is not in the table makes its node
 * strange, for good: no later word takes that back.
 */
#include "daemon/slurm/slurm_state.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

static const char *const node_states[] = {
	[SLURM_NODE_UNKNOWN] = "UNKNOWN",
	[SLURM_NODE_DOWN] = "DOWN",
	[SLURM_NODE_IDLE] = "IDLE",
	[SLURM_NODE_ALLOCATED] = "ALLOCATED",
	[SLURM_NODE_MIXED] = "MIXED",
	[SLURM_NODE_ERROR] = "ERROR",
	[SLURM_NODE_FUTURE] = "FUTURE",
};

enum { NO_BASE = -1 };

struct node_word {
	const char *word;
	int base; /* enum slurm_node_state, or NO_BASE */
	uint32_t flags;
};

/* The first word of a flag is the one that we print. */
static const struct node_word node_words[] = {
	{ "UNKNOWN", SLURM_NODE_UNKNOWN, 0 },
	{ "DOWN", SLURM_NODE_DOWN, 0 },
	{ "IDLE", SLURM_NODE_IDLE, 0 },
	{ "ALLOCATED", SLURM_NODE_ALLOCATED, 0 },
	{ "MIXED", SLURM_NODE_MIXED, 0 },
	{ "ERROR", SLURM_NODE_ERROR, 0 },
	{ "FUTURE", SLURM_NODE_FUTURE, 0 },

	{ "CLOUD", NO_BASE, SLURM_FLAG_CLOUD },
	{ "DYNAMIC_NORM", NO_BASE, SLURM_FLAG_DYNAMIC_NORM },
	{ "PLANNED", NO_BASE, SLURM_FLAG_PLANNED },
	{ "RESERVED", NO_BASE, SLURM_FLAG_RESERVED },
	{ "DRAIN", NO_BASE, SLURM_FLAG_DRAIN },
	{ "COMPLETING", NO_BASE, SLURM_FLAG_COMPLETING },
	{ "NOT_RESPONDING", NO_BASE, SLURM_FLAG_NOT_RESPONDING },
	{ "NO_RESPOND", NO_BASE, SLURM_FLAG_NOT_RESPONDING },
	{ "POWERED_DOWN", NO_BASE, SLURM_FLAG_POWERED_DOWN },
	{ "POWERING_UP", NO_BASE, SLURM_FLAG_POWERING_UP },
	{ "POWERING_DOWN", NO_BASE, SLURM_FLAG_POWERING_DOWN },
	{ "POWER_DOWN", NO_BASE, SLURM_FLAG_POWER_DOWN },
	{ "POWER_UP", NO_BASE, SLURM_FLAG_POWER_UP },
	{ "POWER_DRAIN", NO_BASE, SLURM_FLAG_POWER_DRAIN },
	{ "MAINTENANCE", NO_BASE, SLURM_FLAG_MAINTENANCE },
	{ "MAINT", NO_BASE, SLURM_FLAG_MAINTENANCE },
	{ "REBOOT_REQUESTED", NO_BASE, SLURM_FLAG_REBOOT_REQUESTED },
	{ "REBOOT", NO_BASE, SLURM_FLAG_REBOOT_REQUESTED },
	{ "REBOOT_ISSUED", NO_BASE, SLURM_FLAG_REBOOT_ISSUED },
	{ "REBOOT_CANCELED", NO_BASE, SLURM_FLAG_REBOOT_CANCELED },
	{ "REBOOT_CANCEL", NO_BASE, SLURM_FLAG_REBOOT_CANCELED },
	{ "FAIL", NO_BASE, SLURM_FLAG_FAIL },
	{ "UNDRAIN", NO_BASE, SLURM_FLAG_UNDRAIN },
	{ "RESUME", NO_BASE, SLURM_FLAG_RESUME },
	{ "INVALID_REG", NO_BASE, SLURM_FLAG_INVALID_REG },
	{ "DYNAMIC_FUTURE", NO_BASE, SLURM_FLAG_DYNAMIC_FUTURE },
	{ "BLOCKED", NO_BASE, SLURM_FLAG_BLOCKED },
	{ "INVALID", NO_BASE, SLURM_FLAG_INVALID },
	{ "EXTERNAL", NO_BASE, SLURM_FLAG_EXTERNAL },

	/* sinfo's forms */
	{ "UNK", SLURM_NODE_UNKNOWN, 0 },
	{ "ALLOC", SLURM_NODE_ALLOCATED, 0 },
	{ "MIX", SLURM_NODE_MIXED, 0 },
	{ "ERR", SLURM_NODE_ERROR, 0 },
	{ "FUTR", SLURM_NODE_FUTURE, 0 },
	{ "PLND", SLURM_NODE_IDLE, SLURM_FLAG_PLANNED },
	{ "RESV", NO_BASE, SLURM_FLAG_RESERVED },
	{ "COMP", SLURM_NODE_ALLOCATED, SLURM_FLAG_COMPLETING },
	{ "DRAINING", SLURM_NODE_ALLOCATED, SLURM_FLAG_DRAIN },
	{ "DRNG", SLURM_NODE_ALLOCATED, SLURM_FLAG_DRAIN },
	{ "DRAINED", SLURM_NODE_IDLE, SLURM_FLAG_DRAIN },
	{ "FAILING", SLURM_NODE_ALLOCATED, SLURM_FLAG_FAIL },
	{ "FAILG", SLURM_NODE_ALLOCATED, SLURM_FLAG_FAIL },
	{ "NPC", SLURM_NODE_UNKNOWN, SLURM_FLAG_BLOCKED },
	{ "PERFCTRS", SLURM_NODE_UNKNOWN, SLURM_FLAG_BLOCKED },
	{ "INVAL", NO_BASE, SLURM_FLAG_INVALID_REG },
	{ "BOOT", NO_BASE, SLURM_FLAG_REBOOT_ISSUED },
	{ "POW_DN", NO_BASE, SLURM_FLAG_POWERING_DOWN },
	{ "POW_UP", NO_BASE, SLURM_FLAG_POWERING_UP },
	{ "BLOCK", NO_BASE, SLURM_FLAG_BLOCKED },
};

/* Of sinfo and scontrol, behind a state (sinfo(1), NODE STATE CODES). */
static const struct {
	char suffix;
	uint32_t flag;
} suffixes[] = {
	{ '*', SLURM_FLAG_NOT_RESPONDING },
	{ '~', SLURM_FLAG_POWERED_DOWN },
	{ '#', SLURM_FLAG_POWERING_UP },
	{ '!', SLURM_FLAG_POWER_DOWN },
	{ '%', SLURM_FLAG_POWERING_DOWN },
	{ '$', SLURM_FLAG_MAINTENANCE },
	{ '@', SLURM_FLAG_REBOOT_REQUESTED },
	{ '^', SLURM_FLAG_REBOOT_ISSUED },
	{ '-', SLURM_FLAG_PLANNED },
};

static int is_word(const char *word, const char *text, size_t size)
{
	/* The size first: a text may have a zero byte in it. */
	return strlen(word) == size && !strncasecmp(word, text, size);
}

static void be_strange(struct slurm_state *state, const char *word, size_t size)
{
	if (!(state->flags & SLURM_FLAG_STRANGE))
		snprintf(state->strange, sizeof(state->strange), "%.*s", (int)size, word);
	state->flags |= SLURM_FLAG_STRANGE;
}

void slurm_state_word(struct slurm_state *state, const char *word, size_t size)
{
	for (size_t i = 0; i < ARRAY_SIZE(node_words); i++) {
		const struct node_word *row = &node_words[i];

		if (!is_word(row->word, word, size))
			continue;
		state->flags |= row->flags;
		if (row->base == NO_BASE)
			return;
		/* Two that contradict each other: nobody knows what it is. */
		if (state->has_base && (int)state->state != row->base)
			be_strange(state, word, size);
		else
			state->state = (enum slurm_node_state)row->base;
		state->has_base = 1;
		return;
	}
	be_strange(state, word, size);
}

/* Takes suffixes off; returns what is left of the word. */
static size_t take_suffixes(struct slurm_state *state, const char *word, size_t size)
{
	while (size > 0) {
		size_t i = 0;

		while (i < ARRAY_SIZE(suffixes) && suffixes[i].suffix != word[size - 1])
			i++;
		if (i == ARRAY_SIZE(suffixes))
			break;
		state->flags |= suffixes[i].flag;
		size--;
	}
	return size;
}

void slurm_state_text(struct slurm_state *state, const char *text)
{
	for (;;) {
		size_t whole = strcspn(text, "+");
		size_t size = take_suffixes(state, text, whole);

		slurm_state_word(state, text, size);
		if (text[whole] == '\0')
			return;
		text += whole + 1;
	}
}

const char *slurm_node_state_name(enum slurm_node_state state)
{
	return (size_t)state < ARRAY_SIZE(node_states) ? node_states[state] : "UNKNOWN";
}

const char *slurm_flag_name(uint32_t bit)
{
	for (size_t i = 0; i < ARRAY_SIZE(node_words); i++)
		if (node_words[i].base == NO_BASE && node_words[i].flags == bit)
			return node_words[i].word;
	return "UNKNOWN_FLAG";
}

/* --- jobs ---------------------------------------------------------------------- */

static const struct {
	const char *word, *brief;
	enum slurm_job_state state;
} job_words[] = {
	{ "PENDING", "PD", SLURM_JOB_PENDING },
	{ "CONFIGURING", "CF", SLURM_JOB_CONFIGURING },
	{ "POWER_UP_NODE", NULL, SLURM_JOB_CONFIGURING },
	{ "RUNNING", "R", SLURM_JOB_RUNNING },
	{ "SUSPENDED", "S", SLURM_JOB_SUSPENDED },
	{ "STOPPED", "ST", SLURM_JOB_SUSPENDED },
	{ "RESIZING", "RS", SLURM_JOB_SUSPENDED },
	{ "SIGNALING", "SI", SLURM_JOB_RUNNING },
	{ "COMPLETING", "CG", SLURM_JOB_COMPLETING },
	{ "STAGE_OUT", "SO", SLURM_JOB_COMPLETING },
	{ "REQUEUED", "RQ", SLURM_JOB_REQUEUED },
	{ "REQUEUE_FED", "RF", SLURM_JOB_REQUEUED },
	{ "REQUEUE_HOLD", "RH", SLURM_JOB_REQUEUED },
	{ "SPECIAL_EXIT", "SE", SLURM_JOB_REQUEUED },
	{ "RESV_DEL_HOLD", "RD", SLURM_JOB_PENDING },
	{ "COMPLETED", "CD", SLURM_JOB_OVER },
	{ "CANCELLED", "CA", SLURM_JOB_OVER },
	{ "FAILED", "F", SLURM_JOB_OVER },
	{ "TIMEOUT", "TO", SLURM_JOB_OVER },
	{ "NODE_FAIL", "NF", SLURM_JOB_OVER },
	{ "PREEMPTED", "PR", SLURM_JOB_OVER },
	{ "BOOT_FAIL", "BF", SLURM_JOB_OVER },
	{ "DEADLINE", "DL", SLURM_JOB_OVER },
	{ "OUT_OF_MEMORY", "OOM", SLURM_JOB_OVER },
	{ "REVOKED", "RV", SLURM_JOB_OVER },
	{ "LAUNCH_FAILED", NULL, SLURM_JOB_OVER },
	{ "RECONFIG_FAIL", NULL, SLURM_JOB_OVER },
};

enum slurm_job_state slurm_job_state_parse(const char *word)
{
	size_t size = strcspn(word, " "); /* "CANCELLED by 1000" */

	for (size_t i = 0; i < ARRAY_SIZE(job_words); i++)
		if (is_word(job_words[i].word, word, size) ||
			(job_words[i].brief && is_word(job_words[i].brief, word, size)))
			return job_words[i].state;
	return SLURM_JOB_UNKNOWN;
}
