/*
 * config.c - the options of mallectld.
 *
 * `options` below is the one place where an option exists: its name, kind,
 * default, range, unit and help, and where it lives in struct config.  The
 * syntax is libconfuse's: `name = value`, # comments, strings in quotes.
 *
 * A file is read into a fresh struct, all of it is checked, and only then does
 * it replace the old one: a bad file changes nothing.  libconfuse knows the
 * line of a mistake, config_text.c finds the column, since operators fix files
 * by looking at them.
 */
#include "daemon/config.h"

#include <confuse.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/config_text.h"
#include "proto/nodeset.h"

enum option_kind { OPTION_STR, OPTION_REAL, OPTION_INT, OPTION_BOOL };

struct option {
	const char *name;
	enum option_kind kind;
	size_t offset;
	const char *initial;
	double min, max;
	const char *words; /* for strings: "a|b|c", or NULL for any */
	const char *unit;
	const char *help;
};

#define AT(field) offsetof(struct config, field)

static const struct option options[] = {
	{ "backend", OPTION_STR, AT(backend), "trace", 0, 0, "trace|static", "",
		"where nodes come from: holes of a trace, or a fixed list; "
		"both run agents on this machine" },
	{ "nodes", OPTION_STR, AT(nodes), "n[1-6]", 0, 0, NULL, "hostlist",
		"names of the nodes" },
	{ "node_cpus", OPTION_REAL, AT(node_cpus), "0.25", 0, 1024, NULL, "CPUs",
		"quota of each node where the kernel allows it; 0: none" },
	{ "trace_file", OPTION_STR, AT(trace_file), "", 0, 0, NULL, "path",
		"idle events (t_s,joins,leaves; .gz too); empty: generated" },
	{ "trace_seed", OPTION_INT, AT(trace_seed), "1", 0, INT_MAX, NULL, "",
		"of the generated holes" },
	{ "trace_idle_share", OPTION_REAL, AT(trace_idle_share), "0.6", 0.01, 1, NULL, "",
		"of the generated holes: share of node-time that is idle" },
	{ "trace_hours", OPTION_REAL, AT(trace_hours), "24", 0.1, 100000, NULL, "h",
		"of generated trace" },
	{ "trace_speedup", OPTION_REAL, AT(trace_speedup), "1", 0.001, 100000, NULL, "",
		"trace seconds that pass in one second" },
	{ "trace_loop", OPTION_BOOL, AT(trace_loop), "true", 0, 0, NULL, "",
		"begin the trace again at its end" },
	{ "grace_s", OPTION_REAL, AT(grace_s), "30", 0.1, 3600, NULL, "s",
		"from the notice of a closing hole to the end of all in it" },
	{ "objective", OPTION_STR, AT(objective), "speedup", 0, 0, "speedup|throughput", "",
		"what is maximised: speed-up (slow models are not starved) or samples/s" },
	{ "solver", OPTION_STR, AT(solver), "milp", 0, 0, "milp|dp|greedy|auto", "",
		"of the allocation problem" },
	{ "horizon_s", OPTION_REAL, AT(horizon_s), "120", 1, 86400, NULL, "s",
		"a rescale must pay for itself within this time" },
	{ "solver_limit_s", OPTION_REAL, AT(solver_limit_s), "2", 0.01, 600, NULL, "s",
		"wall limit of one solve; the best plan so far counts then" },
	{ "settle_s", OPTION_REAL, AT(settle_s), "0.3", 0, 60, NULL, "s",
		"events within this delay make one plan" },
	{ "min_interval_s", OPTION_REAL, AT(min_interval_s), "10", 0, 3600, NULL, "s",
		"between two voluntary rescales of a job" },
	{ "probe", OPTION_BOOL, AT(probe), "true", 0, 0, NULL, "",
		"measure jobs of unknown scalability in inverse order" },
	{ "probe_budget", OPTION_REAL, AT(probe_budget), "0.1", 0, 1, NULL, "",
		"share of a job's node-seconds that probing may take" },
	{ "prepare_limit_s", OPTION_REAL, AT(prepare_limit_s), "30", 0.5, 3600, NULL, "s",
		"for joiners to be ready; then the rescale is rolled back" },
	{ "stall_s", OPTION_REAL, AT(stall_s), "60", 1, 86400, NULL, "s",
		"without a step: the world is ended and started anew" },
	{ "max_restarts", OPTION_INT, AT(max_restarts), "3", 0, INT_MAX, NULL, "",
		"failures in a row without progress, then the job ends" },
	{ "replica_s", OPTION_REAL, AT(replica_s), "5", 0, 86400, NULL, "s",
		"between states kept in memory for the case of loss; 0: none" },
	{ "socket", OPTION_STR, AT(socket), NULL, 0, 0, NULL, "path",
		"where clients and agents find the daemon" },
	{ "run_dir", OPTION_STR, AT(run_dir), NULL, 0, 0, NULL, "path",
		"sockets and logs of agents" },
	{ "state_dir", OPTION_STR, AT(state_dir), NULL, 0, 0, NULL, "path",
		"the journal" },
	{ "agent", OPTION_STR, AT(agent), NULL, 0, 0, NULL, "path",
		"the malle-agent program" },
	{ "log_level", OPTION_STR, AT(log_level), "info", 0, 0,
		"err|warning|notice|info|debug", "", "least urgent line that is logged" },
	{ "log_file", OPTION_STR, AT(log_file), "", 0, 0, NULL, "path",
		"empty: standard error" },
};
#define N_OPTIONS (sizeof(options) / sizeof(options[0]))

static void *slot(const struct config *config, const struct option *option)
{
	return (char *)config + option->offset;
}

static const char *xdg(const char *name, const char *fallback, char *buf, size_t size)
{
	const char *dir = getenv(name);
	const char *home = getenv("HOME");

	if (dir && dir[0] == '/')
		return dir;
	snprintf(buf, size, "%s/%s", home && home[0] ? home : "/tmp", fallback);
	return buf;
}

static void beside_us(const char *program, char *buf, size_t size)
{
	ssize_t n = readlink("/proc/self/exe", buf, size - 1);
	char *slash;

	buf[n > 0 ? n : 0] = '\0';
	slash = strrchr(buf, '/');
	if (!slash)
		slash = buf;
	snprintf(slash, size - (slash - buf), "/%s", program);
	if (access(buf, X_OK) != 0 && slash - buf > 5 && !memcmp(slash - 5, "/sbin", 5))
		snprintf(slash - 4, size - (slash - 4 - buf), "bin/%s", program);
}

/* As packages have them; not those of who prints, so that the example is one. */
static const char *root_path(const char *name)
{
	if (!strcmp(name, "socket"))
		return "/run/malle/ctld.sock";
	if (!strcmp(name, "run_dir"))
		return "/run/malle";
	if (!strcmp(name, "state_dir"))
		return "/var/lib/malle";
	return "/usr/bin/malle-agent";
}

/* Defaults that depend on who runs the daemon, and from where. */
static void initial_path(const char *name, char *buf, size_t size)
{
	char home[PATH_MAX - 64];
	const char *run = xdg("XDG_RUNTIME_DIR", ".cache", home, sizeof(home));

	if (!strcmp(name, "agent"))
		beside_us("malle-agent", buf, size);
	else if (geteuid() == 0)
		snprintf(buf, size, "%s", root_path(name));
	else if (!strcmp(name, "socket"))
		snprintf(buf, size, "%s/malle/ctld.sock", run);
	else if (!strcmp(name, "run_dir"))
		snprintf(buf, size, "%s/malle", run);
	else
		snprintf(buf, size, "%s/malle",
			xdg("XDG_STATE_HOME", ".local/state", home, sizeof(home)));
}

static const char *initial(const struct option *option, char *buf, size_t size)
{
	if (option->initial)
		return option->initial;
	initial_path(option->name, buf, size);
	return buf;
}

static int word_in(const char *words, const char *word)
{
	size_t n = strlen(word);

	for (const char *p = words; p; p = strchr(p, '|')) {
		if (*p == '|')
			p++;
		if (!strncmp(p, word, n) && (p[n] == '|' || p[n] == '\0'))
			return 1;
	}
	return 0;
}

static int set_number(struct config *config, const struct option *option, double value,
	struct err *err)
{
	if (!isfinite(value) || value < option->min || value > option->max)
		return err_set(err, EINVAL, "%s: %g is not between %g and %g", option->name,
			value, option->min, option->max);
	if (option->kind == OPTION_INT)
		*(int *)slot(config, option) = (int)value;
	else
		*(double *)slot(config, option) = value;
	return 0;
}

static int set_string(struct config *config, const struct option *option,
	const char *value, struct err *err)
{
	char **at = slot(config, option);
	char *copy;

	if (option->words && !word_in(option->words, value))
		return err_set(err, EINVAL, "%s: \"%s\" is not one of %s", option->name,
			value, option->words);
	copy = strdup(value);
	if (!copy)
		return err_set(err, ENOMEM, "%s: out of memory", option->name);
	free(*at);
	*at = copy;
	return 0;
}

static int set_text(struct config *config, const struct option *option, const char *text,
	struct err *err)
{
	switch (option->kind) {
	case OPTION_STR:
		return set_string(config, option, text, err);
	case OPTION_BOOL:
		*(int *)slot(config, option) = !strcmp(text, "true");
		return 0;
	case OPTION_INT:
	case OPTION_REAL:
		break;
	}
	return set_number(config, option, strtod(text, NULL), err);
}

int config_init(struct config *config, struct err *err)
{
	char buf[PATH_MAX];

	memset(config, 0, sizeof(*config));
	for (size_t i = 0; i < N_OPTIONS; i++) {
		const char *text = initial(&options[i], buf, sizeof(buf));

		if (set_text(config, &options[i], text, err) != 0) {
			config_fini(config);
			return -1;
		}
	}
	return 0;
}

void config_fini(struct config *config)
{
	for (size_t i = 0; i < N_OPTIONS; i++)
		if (options[i].kind == OPTION_STR)
			free(*(char **)slot(config, &options[i]));
	memset(config, 0, sizeof(*config));
}

/* libconfuse reports by a callback without an argument; parsing is not
 * re-entrant in this daemon, so the first complaint is kept here. */
static struct {
	int line;
	char text[160];
} complaint;

static void complain(cfg_t *cfg, const char *fmt, va_list ap)
{
	if (complaint.text[0])
		return;
	complaint.line = cfg && cfg->line > 0 ? cfg->line : 1;
	vsnprintf(complaint.text, sizeof(complaint.text), fmt, ap);
	complaint.text[strcspn(complaint.text, "\n")] = '\0';
}

/* The word that a sentence puts in quotes, or that stands at its start. */
static void offending_word(const char *text, char *word, size_t size)
{
	const char *quote = strpbrk(text, "'\"`");
	const char *from = quote ? quote + 1 : text;

	snprintf(word, size, "%.*s", (int)strcspn(from, quote ? "'\"`" : " :"), from);
}

static const struct option *find_option(const char *name)
{
	for (size_t i = 0; i < N_OPTIONS; i++)
		if (!strcmp(options[i].name, name))
			return &options[i];
	return NULL;
}

static int fail_at(const struct config_text *source, int line, const char *text,
	struct err *err)
{
	char word[64];

	offending_word(text, word, sizeof(word));
	return err_set(err, EINVAL, "%s:%d:%d: %s", source->path, line,
		config_text_column(source, line, word, find_option(word) != NULL), text);
}

/* What can be known to be wrong before anything is started. */
static int check_string(const struct option *option, const char *value, struct err *err)
{
	struct nodeset *nodes;
	struct err why = { "" };

	if (option->initial == NULL && value[0] != '/')
		return err_set(err, EINVAL, "%s: \"%s\" does not begin with /", option->name,
			value);
	if (strcmp(option->name, "nodes"))
		return 0;
	nodes = nodeset_parse(value, &why);
	if (!nodes)
		return err_set(err, EINVAL, "nodes: \"%.80s\": %s", value, why.text);
	nodeset_destroy(nodes);
	return 0;
}

static int take_string(struct config *config, const struct option *option,
	const char *value, struct err *err)
{
	if (check_string(option, value, err) != 0)
		return -1;
	return set_string(config, option, value, err);
}

static int take_values(struct config *config, cfg_t *cfg,
	const struct config_text *source, struct err *err)
{
	for (size_t i = 0; i < N_OPTIONS; i++) {
		const struct option *option = &options[i];
		struct err why = { "" };
		int rc = 0;

		if (cfg_size(cfg, option->name) == 0)
			continue;
		if (option->kind == OPTION_STR)
			rc = take_string(config, option, cfg_getstr(cfg, option->name), &why);
		else if (option->kind == OPTION_BOOL)
			*(int *)slot(config, option) = cfg_getbool(cfg, option->name);
		else if (option->kind == OPTION_INT)
			rc = set_number(config, option, cfg_getint(cfg, option->name), &why);
		else
			rc = set_number(config, option, cfg_getfloat(cfg, option->name), &why);
		if (rc != 0)
			return fail_at(source, config_text_line_of(source, option->name),
				why.text, err);
	}
	return 0;
}

static void describe_to_confuse(cfg_opt_t *opts)
{
	for (size_t i = 0; i < N_OPTIONS; i++) {
		const char *name = options[i].name;
		cfg_opt_t str = CFG_STR(name, NULL, CFGF_NODEFAULT);
		cfg_opt_t boolean = CFG_BOOL(name, cfg_false, CFGF_NODEFAULT);
		cfg_opt_t integer = CFG_INT(name, 0, CFGF_NODEFAULT);
		cfg_opt_t real = CFG_FLOAT(name, 0, CFGF_NODEFAULT);

		opts[i] = options[i].kind == OPTION_STR ? str
			: options[i].kind == OPTION_BOOL ? boolean
			: options[i].kind == OPTION_INT ? integer : real;
	}
	opts[N_OPTIONS] = (cfg_opt_t)CFG_END();
}

static int parse(struct config *fresh, const struct config_text *source, struct err *err)
{
	cfg_opt_t opts[N_OPTIONS + 1];
	char *plain = config_text_without_comments_new(source, err);
	cfg_t *cfg;
	int rc;

	if (!plain)
		return -1;
	describe_to_confuse(opts);
	cfg = cfg_init(opts, CFGF_NONE);
	if (!cfg) {
		free(plain);
		return err_set(err, ENOMEM, "%s: out of memory", source->path);
	}
	memset(&complaint, 0, sizeof(complaint));
	cfg_set_error_function(cfg, complain);
	if (cfg_parse_buf(cfg, plain) != CFG_SUCCESS)
		rc = fail_at(source, complaint.line ? complaint.line : 1,
			complaint.text[0] ? complaint.text : "cannot be parsed", err);
	else
		rc = take_values(fresh, cfg, source, err);
	free(plain);
	cfg_free(cfg);
	return rc;
}

int config_read(struct config *config, const char *path, struct err *err)
{
	struct config_text source;
	struct config fresh;
	int rc, saved;

	if (config_text_read(&source, path, err) != 0)
		return -1;
	rc = config_init(&fresh, err);
	if (rc == 0) {
		rc = parse(&fresh, &source, err);
		saved = errno;
		if (rc == 0) {
			config_fini(config);
			*config = fresh;
		} else {
			config_fini(&fresh);
		}
		errno = saved;
	}
	config_text_fini(&source);
	return rc;
}

static json_t *value_json(const struct config *config, const struct option *option)
{
	void *at = slot(config, option);

	switch (option->kind) {
	case OPTION_STR:
		return json_string(*(char **)at);
	case OPTION_BOOL:
		return json_boolean(*(int *)at);
	case OPTION_INT:
		return json_integer(*(int *)at);
	case OPTION_REAL:
		break;
	}
	return json_real(*(double *)at);
}

json_t *config_json(const struct config *config)
{
	struct config plain;
	json_t *list = json_array();

	if (config_init(&plain, NULL) != 0)
		return list;
	for (size_t i = 0; i < N_OPTIONS; i++)
		json_array_append_new(list,
			json_pack("{s:s, s:o, s:o, s:s, s:s}", "name", options[i].name, "value",
				value_json(config, &options[i]), "default",
				value_json(&plain, &options[i]), "unit", options[i].unit,
				"help", options[i].help));
	config_fini(&plain);
	return list;
}

int config_write_example(FILE *out)
{
	fputs("# malle.conf - options of mallectld(8), each at its default.\n"
	      "# Paths are those of root; without root they are XDG's.  See malle.conf(5).\n",
		out);
	for (size_t i = 0; i < N_OPTIONS; i++) {
		const struct option *option = &options[i];
		const char *quote = option->kind == OPTION_STR ? "\"" : "";

		fprintf(out, "\n# %s", option->help);
		if (option->unit[0])
			fprintf(out, " [%s]", option->unit);
		if (option->words)
			fprintf(out, " (%s)", option->words);
		else if (option->kind == OPTION_REAL || option->kind == OPTION_INT)
			fprintf(out, " (%.12g to %.12g)", option->min, option->max);
		fprintf(out, "\n# %s = %s%s%s\n", option->name, quote,
			option->initial ? option->initial : root_path(option->name), quote);
	}
	return ferror(out) ? -1 : 0;
}
