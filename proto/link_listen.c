/*
 * link_listen.c - a unix socket that links come in by.
 *
 * Who connects is identified before a byte of theirs is read (methods that need
 * a credential look at nothing else of the hello); then its hello is checked and
 * answered, and only then does the listener's owner learn of it.
 *
 * The socket file: one that nobody answers at is left over from a program that
 * was killed, and is replaced; one that somebody answers at is in use.  Asking,
 * replacing and listening happen under a lock on the directory, so that of two
 * programs that start at once one is told.  The file is removed at the end only
 * if it is still the one that was made.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "proto/link.h"
#include "proto/link_sock.h"
#include "proto/log.h"

enum {
	BACKLOG = 512,
	GREETINGS_MAX = 512, /* peers that have not said hello yet */
	ACCEPTS_PER_TURN = 64,
};

static const double hello_limit_s = 10;
static const double no_descriptors_pause_s = 0.2;

struct link_listener {
	struct loop *loop;
	int fd;
	struct loop_io *io;
	struct loop_timer *pause; /* runs while no descriptors are to be had */
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
	dev_t dev; /* of the socket file that we made */
	ino_t ino;
	const struct auth_method *auth;
	char instance[65];
	link_accept_f on_link;
	void *arg;
	TAILQ_HEAD(, sock_link) greetings; /* the oldest first */
	size_t n_greetings;
};

/* --- addresses ------------------------------------------------------------- */

static int make_address(const char *path, struct sockaddr_un *addr, struct err *err)
{
	size_t size = strlen(path);

	memset(addr, 0, sizeof(*addr));
	addr->sun_family = AF_UNIX;
	if (size == 0)
		return err_set(err, EINVAL, "socket: its path is empty");
	if (size >= sizeof(addr->sun_path))
		return err_set(err, ENAMETOOLONG,
			"%s: %zu bytes are over %zu, the most a "
			"socket's path may have",
			path, size, sizeof(addr->sun_path) - 1);
	memcpy(addr->sun_path, path, size);
	return 0;
}

static int make_socket(const char *path, struct err *err)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		err_set(err, errno, "%s: socket: %s", path, strerror(errno));
	return fd;
}

int sock_connect(const char *path, struct err *err)
{
	struct sockaddr_un addr;
	int fd;

	if (make_address(path, &addr, err) < 0)
		return -1;
	fd = make_socket(path, err);
	if (fd < 0)
		return -1;
	if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0) {
		int saved = errno;

		close(fd);
		return err_set(err, saved, "%s: connect: %s", path, strerror(saved));
	}
	return fd;
}

/* --- greetings ------------------------------------------------------------- */

void link_listener_forget(struct link_listener *listener, struct sock_link *sl)
{
	TAILQ_REMOVE(&listener->greetings, sl, greeting);
	listener->n_greetings--;
	sl->listener = NULL;
}

static void not_let_in(struct sock_link *sl, uint32_t id, int code, const char *why)
{
	log_notice("link", "%s is not let in: %s", sl->link.name, why);
	link_refuse(&sl->link, id, code, "%s", why);
	link_close(&sl->link);
}

static int send_welcome(const struct link_listener *listener, struct link *link)
{
	char program[40];
	json_t *welcome = json_pack("{s:s, s:s}", "program",
		link_program(program, sizeof(program)), "instance", listener->instance);

	if (!welcome)
		return -1;
	return link_send(link, MSG_WELCOME, 0, welcome);
}

void link_listener_greet(
	struct link_listener *listener, struct sock_link *sl, const struct msg *msg)
{
	struct err err;

	if (msg->type != MSG_HELLO) {
		not_let_in(sl, msg->id, EXIT_BAD_DATA, "the first message is no hello");
		return;
	}
	if (listener->auth->needs_credential &&
		listener->auth->identify(sl->fd, msg_str(msg, "credential"),
			&sl->link.identity, &err) < 0) {
		not_let_in(sl, msg->id, EXIT_NOT_ALLOWED, err.text);
		return;
	}
	link_set_name(
		&sl->link, "%s %d", msg_str(msg, "role"), (int)sl->link.identity.pid);
	if (send_welcome(listener, &sl->link) < 0) {
		not_let_in(sl, msg->id, EXIT_TRY_AGAIN, "no memory for a welcome");
		return;
	}
	link_listener_forget(listener, sl);
	loop_timer_stop(sl->timer);
	sl->state = SOCK_OPEN;
	listener->on_link(&sl->link, msg, listener->arg);
}

static void let_greet(struct link_listener *listener, int fd_take)
{
	struct sock_link *sl, *oldest = TAILQ_FIRST(&listener->greetings);
	struct err err;

	if (listener->n_greetings >= GREETINGS_MAX)
		not_let_in(oldest, 0, EXIT_TRY_AGAIN, "too many came after it");
	sl = sock_link_create(listener->loop, fd_take, SOCK_GREETING, &err);
	if (!sl) {
		log_warning("link", "%s: a peer is turned away: %s", listener->path,
			err.text);
		return;
	}
	sl->listener = listener;
	TAILQ_INSERT_TAIL(&listener->greetings, sl, greeting);
	listener->n_greetings++;
	loop_timer_start(sl->timer, hello_limit_s);
	link_set_name(&sl->link, "new peer");
	if (listener->auth->needs_credential)
		return;
	if (listener->auth->identify(fd_take, NULL, &sl->link.identity, &err) < 0)
		not_let_in(sl, 0, EXIT_NOT_ALLOWED, err.text);
	else
		link_set_name(&sl->link, "new peer %d", (int)sl->link.identity.pid);
}

static void peers_wait(int fd, unsigned ready, void *arg)
{
	struct link_listener *listener = arg;

	for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
		int peer = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (peer >= 0) {
			let_greet(listener, peer);
			continue;
		}
		if (errno == EINTR || errno == ECONNABORTED)
			continue;
		if (errno == EAGAIN)
			return;
		/* Descriptors or memory: the socket stays readable, so wait. */
		log_warning("link", "%s: accept: %m", listener->path);
		loop_io_set(listener->io, LOOP_NONE);
		loop_timer_start(listener->pause, no_descriptors_pause_s);
		return;
	}
}

static void accept_again(void *arg)
{
	struct link_listener *listener = arg;

	if (loop_io_set(listener->io, LOOP_READ) < 0)
		loop_timer_start(listener->pause, no_descriptors_pause_s);
}

/* --- the socket file ------------------------------------------------------- */

static int lock_directory(const char *path, struct err *err)
{
	char dir[sizeof(((struct sockaddr_un *)0)->sun_path)];
	char *slash;
	int fd;

	snprintf(dir, sizeof(dir), "%s", path);
	slash = strrchr(dir, '/');
	if (slash)
		slash[slash == dir] = '\0';
	fd = open(slash ? dir : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return err_set(
			err, errno, "%s: open: %s", slash ? dir : ".", strerror(errno));
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		int saved = errno == EWOULDBLOCK ? EADDRINUSE : errno;

		close(fd);
		return err_set(
			err, saved, "%s: another program is starting there", path);
	}
	return fd;
}

/* Make way for a new socket file. */
static int clear_path(const char *path, struct err *err)
{
	struct stat st;
	int fd;

	if (lstat(path, &st) < 0) {
		if (errno == ENOENT)
			return 0;
		return err_set(err, errno, "%s: %s", path, strerror(errno));
	}
	if (!S_ISSOCK(st.st_mode))
		return err_set(err, EEXIST, "%s: it is there and is no socket", path);
	fd = sock_connect(path, err);
	if (fd >= 0)
		close(fd);
	if (fd >= 0 || errno == EAGAIN)
		return err_set(err, EADDRINUSE, "%s: somebody listens there", path);
	if (errno != ECONNREFUSED && errno != ENOENT)
		return -1;
	if (unlink(path) < 0 && errno != ENOENT)
		return err_set(err, errno, "%s: unlink: %s", path, strerror(errno));
	return 0;
}

static int bind_and_listen(
	struct link_listener *listener, unsigned mode, struct err *err)
{
	struct sockaddr_un addr;
	struct stat st;
	mode_t old;
	int rc;

	if (make_address(listener->path, &addr, err) < 0)
		return -1;
	listener->fd = make_socket(listener->path, err);
	if (listener->fd < 0)
		return -1;
	/* The file is never there with other bits than these. */
	old = umask((mode_t)(~mode & 0777));
	rc = bind(listener->fd, (struct sockaddr *)&addr, sizeof(addr));
	umask(old);
	if (rc < 0)
		return err_set(
			err, errno, "%s: bind: %s", listener->path, strerror(errno));
	if (lstat(listener->path, &st) == 0) {
		listener->dev = st.st_dev;
		listener->ino = st.st_ino;
	}
	if (listen(listener->fd, BACKLOG) < 0)
		return err_set(
			err, errno, "%s: listen: %s", listener->path, strerror(errno));
	return 0;
}

static int open_listener(struct link_listener *listener, unsigned mode, struct err *err)
{
	int lock = lock_directory(listener->path, err), rc, saved;

	if (lock < 0)
		return -1;
	rc = clear_path(listener->path, err);
	if (rc == 0)
		rc = bind_and_listen(listener, mode, err);
	saved = errno;
	close(lock);
	errno = saved;
	return rc;
}

struct link_listener *link_listen(struct loop *loop, const char *path, unsigned mode,
	const struct auth_method *auth, const char *instance, link_accept_f on_link,
	void *arg, struct err *err)
{
	struct link_listener *listener = calloc(1, sizeof(*listener));
	struct sockaddr_un addr;

	if (!listener) {
		err_set(err, ENOMEM, "%s: out of memory", path);
		return NULL;
	}
	listener->loop = loop;
	listener->fd = -1;
	listener->auth = auth;
	listener->on_link = on_link;
	listener->arg = arg;
	TAILQ_INIT(&listener->greetings);
	snprintf(listener->instance, sizeof(listener->instance), "%s", instance);
	if (make_address(path, &addr, err) < 0)
		goto fail;
	snprintf(listener->path, sizeof(listener->path), "%s", path);
	if (open_listener(listener, mode, err) < 0)
		goto fail;
	listener->pause = loop_timer_create(loop, accept_again, listener);
	listener->io =
		loop_io_create(loop, listener->fd, LOOP_READ, peers_wait, listener);
	if (listener->pause && listener->io)
		return listener;
	err_set(err, ENOMEM, "%s: out of memory", path);
fail:
	link_listener_destroy(listener);
	return NULL;
}

static void remove_file(const struct link_listener *listener)
{
	struct stat st;

	if (listener->ino && lstat(listener->path, &st) == 0 &&
		st.st_dev == listener->dev && st.st_ino == listener->ino)
		unlink(listener->path);
}

void link_listener_destroy(struct link_listener *listener)
{
	int saved = errno;
	struct sock_link *sl;

	if (!listener)
		return;
	while ((sl = TAILQ_FIRST(&listener->greetings))) {
		link_close(&sl->link);
		if (sl->listener)
			link_listener_forget(listener, sl);
	}
	loop_io_destroy(listener->io);
	loop_timer_destroy(listener->pause);
	remove_file(listener);
	if (listener->fd >= 0)
		close(listener->fd);
	free(listener);
	errno = saved;
}
