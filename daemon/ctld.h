/* ctld.h - the composition root: one pointer for each part of mallectld. */
#ifndef DAEMON_CTLD_H
#define DAEMON_CTLD_H

#include "daemon/config.h"
#include "daemon/job.h"
#include "daemon/journal.h"
#include "daemon/pool.h"
#include "proto/loop.h"

struct cycle;
struct peers;
struct sched;

/* Owned by ctld_create/ctld_destroy; parts borrow it and each other. */
struct ctld {
	struct config config;
	struct loop *loop;
	struct journal *journal;
	struct pool *pool;
	struct jobs *jobs;
	struct sched *sched;
	struct peers *peers;
	struct cycle *cycle;
	struct loop_timer *tick; /* deadlines that no message announces */
	char instance[33];       /* differs at each start */
	double started_s;        /* monotonic */
	double adopt_until_s;    /* monotonic: agents of before may still come back */
	struct loop_signal *sigterm, *sigint;
	double account_at_s;     /* monotonic: last record of the account */
	double offered_before_s; /* node-seconds before this start */
	char cgroup_name[33];    /* instance of the first start on this journal */
	struct world *buried;    /* to be freed when nobody holds them: at a tick */
	int fresh;               /* the scheduler answers */
	int stopping;
	struct {
		double probe_node_s, node_s, used_node_s, offered_node_s;
	} totals;
};

/* Built in order, undone in reverse.  The configuration is taken. */
struct ctld *ctld_create(struct config *config_take, struct err *err);
void ctld_destroy(struct ctld *ctld);

/* Serve until SIGTERM or SIGINT: workers and agents stay. */
int ctld_run(struct ctld *ctld);

/* Node-seconds up to now, per job and in all; called before sizes change. */
void ctld_account(struct ctld *ctld);

/* The pool may have changed around this node: settle it, act on deadlines. */
void ctld_node_changed(struct ctld *ctld, struct node *node);

#endif
