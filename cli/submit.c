/* submit.c - the description of a job that malle-run hands over. */
#include "cli/submit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "cli/run_env.h"
#include "cli/spool.h"

#define TOKEN_SIZE 33

/* A submit that is sent again after a lost answer must not be a second job. */
static void make_token(char token[TOKEN_SIZE])
{
	unsigned char bytes[(TOKEN_SIZE - 1) / 2];

	if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
		memset(bytes, 0, sizeof(bytes)); /* cannot be: under 256 bytes */
	for (size_t i = 0; i < sizeof(bytes); i++)
		sprintf(token + 2 * i, "%02x", bytes[i]);
}

static json_t *command_json(char *const *command, struct err *err)
{
	json_t *list = json_array();

	for (size_t i = 0; list && command[i]; i++)
		if (json_array_append_new(list, json_string(command[i])) < 0) {
			err_set(err, EILSEQ,
				"command: argument %zu: is not UTF-8, and cannot be "
				"sent",
				i);
			json_decref(list);
			return NULL;
		}
	return list;
}

/* Where output goes, absolute; NULL with *rc 0: to us alone. */
static char *output_path(const struct run_options *options, const char *cwd, int *rc)
{
	const char *name = options->output;
	char *path;

	*rc = 0;
	if (!name && !options->detach)
		return NULL;
	if (!name)
		name = "malle-%j.out";
	*rc = name[0] == '/' ? asprintf(&path, "%s", name)
			     : asprintf(&path, "%s/%s", cwd, name);
	return *rc < 0 ? NULL : path;
}

static int fill_body(struct submit *submit, const struct run_options *options,
	const char *cwd, const char *token, struct err *err)
{
	json_t *argv = command_json(options->command, err);
	json_t *env = NULL;
	char *output = NULL;
	int rc;

	if (!argv)
		return -1;
	env = run_env_json(environ, options->ledger, &submit->left_out);
	output = output_path(options, cwd, &rc);
	if (env && rc >= 0)
		submit->body = json_pack(
			"{s:s, s:O, s:O, s:s, s:i, s:i, s:i, s:s, s:s, s:f, s:s, s:s}",
			"name", options->name, "argv", argv, "env", env, "cwd", cwd,
			"min_nodes", options->min_nodes, "max_nodes",
			options->max_nodes, "nproc", options->nproc, "mode",
			options->mode, "launcher", options->launcher, "priority",
			options->priority, "spool", submit->spool, "token", token);
	if (submit->body && output &&
		json_object_set_new(submit->body, "output", json_string(output)) < 0) {
		json_decref(submit->body);
		submit->body = NULL;
	}
	json_decref(argv);
	json_decref(env);
	free(output);
	return submit->body ? 0
			    : err_set(err, EILSEQ,
				      "job %s: a name or a path is not UTF-8, and "
				      "cannot be sent",
				      options->name);
}

int submit_init(
	struct submit *submit, const struct run_options *options, struct err *err)
{
	char token[TOKEN_SIZE];
	char *cwd = getcwd(NULL, 0);
	int code = EXIT_OK;

	memset(submit, 0, sizeof(*submit));
	if (!cwd) {
		err_set(err, errno, "working directory: %s", strerror(errno));
		return EXIT_NO_INPUT;
	}
	make_token(token);
	submit->spool = spool_create(options->spool, cwd, token, err);
	if (!submit->spool)
		code = errno == EACCES || errno == EPERM ? EXIT_NOT_ALLOWED
							 : EXIT_WRITE_FAILED;
	else if (fill_body(submit, options, cwd, token, err) < 0)
		code = EXIT_BAD_DATA;
	if (code == EXIT_BAD_DATA)
		spool_remove(submit->spool, 1);
	free(cwd);
	return code;
}

void submit_fini(struct submit *submit)
{
	json_decref(submit->body);
	free(submit->spool);
	memset(submit, 0, sizeof(*submit));
}
