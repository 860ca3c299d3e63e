/* log.h - one line for people: level, module, sentence, key=value tail. */
#ifndef PROTO_LOG_H
#define PROTO_LOG_H

/* The levels of syslog that are in use, most urgent first. */
enum log_level {
	LOG_UNSET = 0,
	LOG_LEVEL_ERR,
	LOG_LEVEL_WARNING,
	LOG_LEVEL_NOTICE,
	LOG_LEVEL_INFO,
	LOG_LEVEL_DEBUG,
};

/*
 * Only programs and the daemons' own modules log; proto, jpa and allocator
 * return their sentence instead.
 *
 * Start logging as `program` at `level` to standard error (journald takes it
 * from there) or, with a path, to the end of that file.  Borrowed: program.
 * Returns 0, or -1 with errno when the file cannot be opened.
 */
int log_open(const char *program, enum log_level level, const char *path);

void log_set_level(enum log_level level);

/* "err", "warning", "notice", "info" or "debug"; LOG_UNSET for another word. */
enum log_level log_level_parse(const char *word);
const char *log_level_name(enum log_level level);

/* Non-zero when a line of this level would be written. */
int log_wants(enum log_level level);

/* `module` is a short token such as "pool".  No newline at the end. */
void log_line(enum log_level level, const char *module, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#define log_err(module, ...) log_line(LOG_LEVEL_ERR, module, __VA_ARGS__)
#define log_warning(module, ...) log_line(LOG_LEVEL_WARNING, module, __VA_ARGS__)
#define log_notice(module, ...) log_line(LOG_LEVEL_NOTICE, module, __VA_ARGS__)
#define log_info(module, ...) log_line(LOG_LEVEL_INFO, module, __VA_ARGS__)
#define log_debug(module, ...) log_line(LOG_LEVEL_DEBUG, module, __VA_ARGS__)

#endif
