/* config.h - the options of mallectld: one table, many views. */
#ifndef DAEMON_CONFIG_H
#define DAEMON_CONFIG_H

#include <jansson.h>
#include <stdio.h>

#include "proto/err.h"

/*
 * Every option in force.  Strings are owned; "" where an option has no value.
 * The table in config.c says what each is, its unit, range and default; the
 * parser, `mallectld -t`, `mallectl show config` and the commented example are
 * views of that table.
 */
struct config {
	char *backend;
	char *nodes;
	double node_cpus;
	char *trace_file;
	int trace_seed;
	double trace_idle_share;
	double trace_hours;
	double trace_speedup;
	int trace_loop;
	double grace_s;

	char *objective;
	char *solver;
	double horizon_s;
	double solver_limit_s;
	double settle_s;
	double min_interval_s;

	int probe;
	double probe_budget;

	double prepare_limit_s;
	double stall_s;
	int max_restarts;
	double replica_s;

	char *socket;
	char *run_dir;
	char *state_dir;
	char *agent;
	char *log_level;
	char *log_file;
};

/* Every option at its default for this user (root: /run, /var; else XDG). */
int config_init(struct config *config, struct err *err);
void config_fini(struct config *config);

/*
 * Read `path` over the defaults into *config, which is left as it was when
 * anything is wrong.  The sentence is "PATH:LINE:COLUMN: what"; unknown options
 * are errors.  EINVAL for the content; else the errno of opening the file.
 */
int config_read(struct config *config, const char *path, struct err *err);

/* Array of {name, value, default, unit, help} for `mallectl show config`. */
json_t *config_json(const struct config *config);

/* The commented example: every option with its default and help. */
int config_write_example(FILE *out);

#endif
