/*
 * launch_mpi.c - how mpirun (Open MPI 4) is called, and what it calls.
 *
 * mpirun starts one daemon (orted) on each node by a program that is like
 * ssh: `malle-rsh HOST WORDS...`.  That program is ours, so a world is started
 * over the agents' connections, and each orted is a child of its node's agent,
 * in that node's environment and under its limits.
 *
 * Names of hosts: mpirun resolves each several times, and waits seconds where a
 * name server does not answer.  It has no need to: only malle-rsh uses them.  So
 * nodes are numbers of class E, 240.0.0.1 for the first, which are never
 * resolved, local, or contacted.  Ranks follow the order of --host.
 *
 * argv[0] is "mpirun" without a directory: with one, mpirun would make orted's
 * command line a shell program.  The head's node gets an orted like the others;
 * mpirun itself has no ranks.
 *
 * What mpirun hands to malle-rsh is meant to be joined by blanks for a shell:
 *
 *	[prologue] " orted" --daemonize -mca ess "env" -mca orte_node_regex
 *	"vm,[3:240].0.0.1@0(2)" ... [")"]
 *
 * The prologue reads a profile where the login shell is a plain one.  Values are
 * in one pair of '"' with nothing escaped inside.  So: begin at orted, take the
 * quotes off, leave out --daemonize (orted would leave its parent).  Should it
 * come as one string, it is split at blanks outside quotes first.  Characters
 * with which a shell would do more than that where they stand do not occur; they
 * are refused.
 */
#include "agent/launch_mpi.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- a growing vector whose words are one block ------------------------------ */

struct words {
	char *bytes;
	size_t size, room, n;
	int failed;
};

static void add_bytes(struct words *words, const char *bytes, size_t size)
{
	if (words->size + size > words->room) {
		size_t room = (words->room + size) * 2;
		char *grown = words->failed ? NULL : realloc(words->bytes, room);

		if (!grown) {
			words->failed = 1;
			return;
		}
		words->bytes = grown;
		words->room = room;
	}
	memcpy(words->bytes + words->size, bytes, size);
	words->size += size;
}

static void add(struct words *words, const char *word)
{
	add_bytes(words, word, strlen(word) + 1);
	words->n++;
}

/* Into one block that free() frees; the words are given up. */
static char **finish(struct words *words, struct err *err)
{
	size_t head = (words->n + 1) * sizeof(char *);
	char **argv = words->failed ? NULL : malloc(head + words->size);
	char *at = (char *)argv + head;

	if (argv && words->size)
		memcpy(at, words->bytes, words->size);
	free(words->bytes);
	if (!argv) {
		err_set(err, ENOMEM, "a command line: out of memory");
		return NULL;
	}
	for (size_t i = 0; i < words->n; i++) {
		argv[i] = at;
		at += strlen(at) + 1;
	}
	argv[words->n] = NULL;
	return argv;
}

/* --- mpirun ------------------------------------------------------------------ */

const char *launch_mpi_host(size_t index, char *buf)
{
	snprintf(buf, 16, "240.0.%u.%u", (unsigned)(((index + 1) >> 8) & 255),
		(unsigned)((index + 1) & 255));
	return buf;
}

int launch_mpi_index(const char *host, size_t *index)
{
	unsigned high, low;
	char tail;

	if (sscanf(host, "240.0.%u.%u%c", &high, &low, &tail) != 2 || high > 255 ||
		low > 255 || high + low == 0)
		return -1;
	*index = (size_t)high * 256 + low - 1;
	return 0;
}

static void add_hosts(struct words *words, size_t n, int nproc)
{
	char host[16], item[40];

	for (size_t i = 0; i < n; i++) {
		int size = snprintf(item, sizeof(item), "%s%s:%d", i ? "," : "",
			launch_mpi_host(i, host), nproc);

		add_bytes(words, item, (size_t)size);
	}
	add_bytes(words, "", 1);
	words->n++;
}

static void add_parameter(struct words *words, const char *name, const char *value)
{
	add(words, "--mca");
	add(words, name);
	add(words, value);
}

char **launch_mpi_argv(const struct launch_mpi *what, struct err *err)
{
	struct words words = { 0 };
	char total[24];

	if (what->n_nodes == 0 || what->n_nodes > LAUNCH_MPI_NODES_MAX) {
		err_set(err, EINVAL, "mpirun: %zu nodes, not 1 to %d", what->n_nodes,
			LAUNCH_MPI_NODES_MAX);
		return NULL;
	}
	if (strchr(what->rsh, ' ')) {
		err_set(err, EINVAL,
			"mpirun: a blank in \"%s\", which it would split at",
			what->rsh);
		return NULL;
	}
	snprintf(total, sizeof(total), "%zu", what->n_nodes * (size_t)what->nproc);
	add(&words, "mpirun");
	add(&words, "--host");
	add_hosts(&words, what->n_nodes, what->nproc);
	add(&words, "-np");
	add(&words, total);
	/* Pinning would put the ranks of several worlds on the same cores. */
	add(&words, "--bind-to");
	add(&words, "none");
	add_parameter(&words, "plm_rsh_agent", what->rsh);
	add_parameter(&words, "plm_rsh_no_tree_spawn", "1");
	/* With more nodes than this it would wait for ever. */
	add_parameter(&words, "plm_rsh_num_concurrent", "65535");
	add_parameter(&words, "ras", "^slurm");
	add_parameter(&words, "plm", "^slurm");
	add_parameter(&words, "oob_tcp_if_include", what->interface);
	add_parameter(&words, "btl_tcp_if_include", what->interface);
	add_parameter(&words, "btl", "self,vader,tcp");
	add_parameter(&words, "pml", "ob1");
	add_parameter(&words, "mpi_yield_when_idle", "1");
	/* Else every end takes seconds. */
	add_parameter(&words, "odls_base_sigkill_timeout", "0");
	add(&words, what->agent);
	add(&words, "--exec");
	add(&words, "--");
	for (char *const *at = what->argv; *at; at++)
		add(&words, *at);
	return finish(&words, err);
}

/* --- orted ------------------------------------------------------------------- */

/* Whether a word, without blanks around it, is orted or a path to it. */
static int is_orted(const char *word, size_t *begin)
{
	size_t lead = strspn(word, " "), size = strlen(word);
	const char *name;

	while (size > lead && word[size - 1] == ' ')
		size--;
	if (size < lead + 5 || strncmp(word + size - 5, "orted", 5) != 0)
		return 0;
	name = word + size - 5;
	*begin = lead;
	return (name == word + lead || name[-1] == '/') && word[size] == '\0';
}

/* No shell will see the word; one that a shell would have read otherwise is refused
 * all the same, since mpirun would have meant something else by it. */
static int check_plain(const char *word, size_t size, int quoted, struct err *err)
{
	const char *meta = quoted ? "`$\\\n\"" : "`$;&|<>\\\n\"'";

	for (size_t i = 0; i < size; i++)
		if (strchr(meta, word[i]) && word[i])
			return err_set(err, EINVAL,
				"remote start: \"%.80s\": a shell's character %c", word,
				word[i]);
	return 0;
}

/* One word, its quotes taken off. */
static int add_unquoted(struct words *words, const char *word, struct err *err)
{
	size_t size = strlen(word);
	int quoted = size >= 2 && word[0] == '"' && word[size - 1] == '"';

	if (quoted) {
		word++;
		size -= 2;
	}
	if (check_plain(word, size, quoted, err) < 0)
		return -1;
	add_bytes(words, word, size);
	add_bytes(words, "", 1);
	words->n++;
	return 0;
}

/* One string: split at blanks that are outside of '"', which stay. */
static char **split(const char *line, struct err *err)
{
	struct words words = { 0 };
	int quoted = 0, inside = 0;

	for (; *line; line++) {
		if (*line == '"')
			quoted = !quoted;
		if (*line == ' ' && !quoted) {
			if (inside)
				add_bytes(&words, "", 1);
			inside = 0;
			continue;
		}
		words.n += (size_t)!inside;
		inside = 1;
		add_bytes(&words, line, 1);
	}
	if (inside)
		add_bytes(&words, "", 1);
	if (quoted) {
		free(words.bytes);
		err_set(err, EINVAL, "remote start: a quote that does not end");
		return NULL;
	}
	return finish(&words, err);
}

static char **unquote(char *const *args, size_t n, struct err *err)
{
	struct words words = { 0 };
	size_t i = 0, begin = 0;

	while (i < n && !is_orted(args[i], &begin))
		i++;
	if (i == n) {
		err_set(err, EINVAL, "remote start: no orted to start");
		return NULL;
	}
	if (check_plain(args[i], strlen(args[i]), 0, err) < 0)
		return NULL;
	add(&words, "orted"); /* by PATH, as mpirun is */
	for (i++; i < n; i++) {
		if (strcmp(args[i], "--daemonize") == 0)
			continue;
		if (i == n - 1 && strcmp(args[i], ")") == 0)
			continue;
		if (add_unquoted(&words, args[i], err) < 0) {
			int saved = errno;

			free(words.bytes);
			errno = saved;
			return NULL;
		}
	}
	return finish(&words, err);
}

char **launch_mpi_orted(char *const *args, size_t n, struct err *err)
{
	char **parts, **argv;
	size_t count = 0;

	if (n != 1)
		return unquote(args, n, err);
	parts = split(args[0], err);
	if (!parts)
		return NULL;
	while (parts[count])
		count++;
	argv = unquote(parts, count, err);
	free(parts);
	return argv;
}
