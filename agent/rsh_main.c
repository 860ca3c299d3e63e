/*
 * rsh_main.c - malle-rsh: what mpirun takes for ssh.
 *
 *	malle-rsh [OPTION...] HOST WORD...
 *
 * Asks the agent of this node (MALLE_SOCKET) to have the words started on HOST,
 * and stays until what was started ends; its exit code is then ours.  When it
 * is killed its connection ends, and so does what it has started.  No shell is
 * ever involved: launch_mpi_orted takes mpirun's quoting apart.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/launch_mpi.h"
#include "proto/link.h"
#include "proto/log.h"

static const char usage[] =
	"usage: malle-rsh HOST COMMAND...\n"
	"\n"
	"Start mpirun's daemon on a node, through the agents.  Called by mpirun.\n"
	"\n"
	"  -h, --help\n"
	"      --version\n";

/* For the agent's answer; after it there is no limit. */
static const double answer_limit_s = 30;

struct rsh_client {
	struct loop *loop;
	struct link *link; /* NULL: gone */
	struct loop_timer *limit;
	const char *host, *job;
	long long generation;
	char **argv;
	uint32_t id;
	int code;
	char why[512]; /* "": nothing to say */
};

static void stop(struct rsh_client *client, int code, const char *why)
{
	client->code = code;
	snprintf(client->why, sizeof(client->why), "%s", why ? why : "");
	loop_stop(client->loop);
}

static void send_request(struct rsh_client *client, struct link *link)
{
	json_t *argv = json_array();

	for (char **at = client->argv; argv && *at; at++)
		json_array_append_new(argv, json_string(*at));
	client->id = link_next_id(link);
	if (link_send(link, MSG_RSH_REQUEST, client->id,
		    json_pack("{s:s, s:I, s:s, s:o}", "job", client->job, "generation",
			    (json_int_t)client->generation, "node", client->host,
			    "argv", argv)) < 0)
		stop(client, EXIT_INTERNAL, "the request cannot be sent");
}

static void on_msg(struct link *link, const struct msg *msg, void *arg)
{
	struct rsh_client *client = arg;

	switch ((int)msg->type) {
	case MSG_WELCOME:
		send_request(client, link);
		break;
	case MSG_OK:
		loop_timer_stop(client->limit);
		break;
	case MSG_RSH_EXITED:
		stop(client, (int)msg_int(msg, "code"), NULL);
		break;
	case MSG_REFUSE:
		stop(client, (int)msg_int(msg, "code"), msg_str(msg, "text"));
		break;
	default:
		break;
	}
}

static void on_gone(struct link *link, const char *why, void *arg)
{
	struct rsh_client *client = arg;

	client->link = NULL;
	stop(client, EXIT_NO_DAEMON, why);
}

static void too_late(void *arg)
{
	stop(arg, EXIT_NO_DAEMON, "no answer in time");
}

static const struct link_handlers handlers = { on_msg, on_gone };

static int run(struct rsh_client *client, const char *path, struct err *err)
{
	client->loop = loop_create(err);
	if (!client->loop)
		return EXIT_INTERNAL;
	client->limit = loop_timer_create(client->loop, too_late, client);
	if (client->limit)
		client->link =
			link_connect(client->loop, path, "rsh", &handlers, client, err);
	else
		err_set(err, ENOMEM, "out of memory");
	if (client->link) {
		loop_timer_start(client->limit, answer_limit_s);
		loop_run(client->loop);
		link_close(client->link);
	} else {
		client->code = EXIT_NO_DAEMON;
		snprintf(client->why, sizeof(client->why), "%s", err->text);
	}
	loop_timer_destroy(client->limit);
	loop_destroy(client->loop);
	return client->code;
}

static int fail(int code, const char *object, const char *why)
{
	fprintf(stderr, "malle-rsh: %s: %s\n", object, why);
	return code;
}

/* -1: go on, *first is the index of HOST; else exit with this code. */
static int parse(int argc, char **argv, int *first)
{
	int i = 1;

	for (; i < argc && argv[i][0] == '-'; i++) {
		int help = !strcmp(argv[i], "--help") || !strcmp(argv[i], "-h");

		if (!help && strcmp(argv[i], "--version") != 0)
			return fail(
				EXIT_BAD_USAGE, argv[i], "no such option, see --help");
		if (fputs(help ? usage : "malle-rsh " MALLE_VERSION "\n", stdout) < 0 ||
			fflush(stdout) != 0)
			return fail(
				EXIT_WRITE_FAILED, "standard output", strerror(errno));
		return EXIT_OK;
	}
	*first = i;
	if (argc - i < 2)
		return fail(EXIT_BAD_USAGE, "arguments",
			"a host and a command are needed, "
			"see --help");
	return -1;
}

static const char *need(const char *name)
{
	const char *value = getenv(name);

	if (value && value[0])
		return value;
	fprintf(stderr, "malle-rsh: environment: %s is not set\n", name);
	return NULL;
}

int main(int argc, char **argv)
{
	struct rsh_client client = { 0 };
	struct err err;
	const char *path, *generation;
	int code, first;

	code = parse(argc, argv, &first);
	if (code >= 0)
		return code;
	if (!(path = need("MALLE_SOCKET")) || !(client.job = need("MALLE_JOB_ID")) ||
		!(generation = need("MALLE_GENERATION")))
		return EXIT_BAD_CONFIG;
	client.generation = strtoll(generation, NULL, 10);
	client.host = argv[first];
	client.argv =
		launch_mpi_orted(argv + first + 1, (size_t)(argc - first - 1), &err);
	if (!client.argv)
		return fail(EXIT_BAD_USAGE, client.host, err.text);
	log_open("malle-rsh", LOG_LEVEL_WARNING, NULL);
	code = run(&client, path, &err);
	free(client.argv);
	return client.why[0] ? fail(code, client.host, client.why) : code;
}
