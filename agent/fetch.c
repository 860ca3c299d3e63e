/*
 * fetch.c - a state from the agent of another node.
 *
 * One connection for one state: hello (peer), state.fetch, then state.data in
 * order until all bytes are there.  They go to a new file in the job's
 * directory, which is renamed when it is complete; so a state that was
 * cut off is never taken for one.  The name carries our pid, so that
 * store_sweep removes what a killed agent has left.
 *
 * A sender that is silent for silence_limit_s has failed.
 */
#include "agent/fetch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/store.h"
#include "proto/log.h"

static const double silence_limit_s = 10;

struct fetch {
	struct agent *agent;
	char job[STORE_ID_SIZE];
	struct store_entry what;
	struct link *link;
	uint32_t id;
	struct loop_timer *silence;
	char *fresh;   /* being written */
	char name[64]; /* in the end */
	int fd;
	long long have;
	fetch_f done;
	void *arg;
};

static void destroy(struct fetch *fetch)
{
	link_close(fetch->link);
	loop_timer_destroy(fetch->silence);
	if (fetch->fd >= 0)
		close(fetch->fd);
	if (fetch->fresh)
		unlink(fetch->fresh);
	free(fetch->fresh);
	free(fetch);
}

static void end(struct fetch *fetch, const char *path, const char *why)
{
	fetch_f done = fetch->done;
	void *arg = fetch->arg;
	char reason[256], *copy = path ? strdup(path) : NULL;

	if (why)
		snprintf(reason, sizeof(reason),
			"job %.64s: state of step %lld: %.160s", fetch->job,
			fetch->what.step, why);
	destroy(fetch);
	done(copy, why ? reason : copy ? NULL : "out of memory", arg);
	free(copy);
}

static void complete(struct fetch *fetch)
{
	struct agent *agent = fetch->agent;
	const struct store_entry *entry;
	char path[4200];
	struct err err;

	snprintf(path, sizeof(path), "%s/%s", store_dir(agent->store, fetch->job, NULL),
		fetch->name);
	if (rename(fetch->fresh, path) < 0) {
		end(fetch, NULL, strerror(errno));
		return;
	}
	fetch->what.bytes = fetch->have;
	if (store_add(agent->store, fetch->job, fetch->name, &fetch->what, &err) < 0) {
		end(fetch, NULL, err.text);
		return;
	}
	entry = store_find(agent->store, fetch->job, fetch->what.step);
	end(fetch, entry ? entry->path : NULL,
		entry ? NULL : "two newer ones are here");
}

static int write_all(int fd, const uint8_t *bytes, size_t size)
{
	while (size > 0) {
		ssize_t n = write(fd, bytes, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		bytes += n;
		size -= (size_t)n;
	}
	return 0;
}

static void take_data(struct fetch *fetch, const struct msg *msg)
{
	long long whole = msg_int(msg, "bytes");
	const json_t *cursor = json_object_get(msg->body, "cursor");

	if (msg_int(msg, "offset") != fetch->have ||
		fetch->have + (long long)msg->raw_size > whole) {
		end(fetch, NULL, "its parts do not come in order");
		return;
	}
	if (write_all(fetch->fd, msg->raw, msg->raw_size) < 0) {
		end(fetch, NULL, strerror(errno));
		return;
	}
	if (json_is_integer(cursor))
		fetch->what.cursor = json_integer_value(cursor);
	fetch->have += (long long)msg->raw_size;
	loop_timer_start(fetch->silence, silence_limit_s);
	if (fetch->have == whole)
		complete(fetch);
}

static void on_msg(struct link *link, const struct msg *msg, void *arg)
{
	struct fetch *fetch = arg;

	if (msg->type == MSG_WELCOME) {
		fetch->id = link_next_id(link);
		link_send(link, MSG_STATE_FETCH, fetch->id,
			json_pack("{s:s, s:I}", "job", fetch->job, "step",
				(json_int_t)fetch->what.step));
	} else if (msg->type == MSG_REFUSE) {
		end(fetch, NULL, msg_str(msg, "text"));
	} else if (msg->type == MSG_STATE_DATA && msg->id == fetch->id) {
		take_data(fetch, msg);
	}
}

static void on_gone(struct link *link, const char *why, void *arg)
{
	struct fetch *fetch = arg;

	fetch->link = NULL;
	end(fetch, NULL, why);
}

static const struct link_handlers handlers = { on_msg, on_gone };

static void silent(void *arg)
{
	end(arg, NULL, "the node that holds it is silent");
}

static int open_fresh(struct fetch *fetch, struct err *err)
{
	const char *dir = store_dir(fetch->agent->store, fetch->job, err);

	if (!dir)
		return -1;
	snprintf(fetch->name, sizeof(fetch->name), "fetched-%lld-%lld",
		fetch->what.generation, fetch->what.step);
	if (asprintf(&fetch->fresh, "%s/.%s.%ld", dir, fetch->name, (long)getpid()) <
		0) {
		fetch->fresh = NULL;
		return err_set(
			err, ENOMEM, "states of job %s: out of memory", fetch->job);
	}
	fetch->fd = open(fetch->fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fetch->fd < 0)
		return err_set(
			err, errno, "%s: create: %s", fetch->fresh, strerror(errno));
	return 0;
}

struct fetch *fetch_start(struct agent *agent, const char *address, const char *job,
	long long generation, long long step, fetch_f done, void *arg, struct err *err)
{
	struct fetch *fetch = calloc(1, sizeof(*fetch));

	if (!fetch) {
		err_set(err, ENOMEM, "states of job %s: out of memory", job);
		return NULL;
	}
	fetch->agent = agent;
	fetch->what = (struct store_entry){
		.generation = generation,
		.step = step,
		.cursor = -1,
	};
	fetch->done = done;
	fetch->arg = arg;
	fetch->fd = -1;
	snprintf(fetch->job, sizeof(fetch->job), "%s", job);
	if (open_fresh(fetch, err) < 0)
		goto fail;
	fetch->silence = loop_timer_create(agent->loop, silent, fetch);
	if (!fetch->silence) {
		err_set(err, ENOMEM, "states of job %s: out of memory", job);
		goto fail;
	}
	fetch->link = link_connect(agent->loop, address, "peer", &handlers, fetch, err);
	if (!fetch->link)
		goto fail;
	loop_timer_start(fetch->silence, silence_limit_s);
	return fetch;
fail:
	destroy(fetch);
	return NULL;
}

void fetch_cancel(struct fetch *fetch)
{
	if (fetch)
		destroy(fetch);
}
