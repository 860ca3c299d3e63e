/* report.h - what the daemon is told about parts of worlds. */
#ifndef AGENT_REPORT_H
#define AGENT_REPORT_H

#include "agent/agent.h"
#include "agent/store.h"

/* Each is sent if the daemon is there; else report_everything makes up for it. */
void report_started(struct part *part, pid_t pid);
void report_ready(struct part *part);
void report_left(struct part *part);
void report_answer(struct part *part, const struct part_tally *tally);
void report_progress(struct part *part, const struct msg *progress);
void report_saved(struct agent *agent, const char *job, const struct store_entry *entry,
	int spooled);

/* The part is gone: 0 when the daemon was told. */
int report_exited(struct part *part);

/* A world that we do not hold is gone, with this code and reason (or NULL). */
void report_exited_unknown(struct agent *agent, const char *job, long long generation,
	int code, int launcher, const char *reason);

/* All that this node holds, for a daemon that is new or came back. */
void report_everything(struct agent *agent);

/* No open proposal will be decided: the workers are told to go on. */
void report_withdraw_all(struct agent *agent);

#endif
