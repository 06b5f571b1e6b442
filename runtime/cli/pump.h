/* SPDX-License-Identifier: MIT */
/*
 * Bytes between this program's stdin, stdout and stderr and the pipes of a
 * command, each stream by a thread of its own; see pump.c.
 */
#ifndef PCO_CLI_PUMP_H
#define PCO_CLI_PUMP_H

#include <stdbool.h>
#include <sys/types.h>

/* What pump_finish found. */
enum {
  PUMP_DONE,       /* all that the command wrote was passed on */
  PUMP_LATE,       /* the time is over */
  PUMP_INTERRUPTED /* a signal was handled */
};

/* Makes 0 to 2 descriptors that exist, so that nothing else gets the number of
 * a closed one; reads and writes fail there as before.  Returns 0, or a
 * negative errno. */
int pump_hold_stdio(void);
/* False if descriptor `fd` of 0 to 2 is as good as closed: stdin cannot be read
 * at all, or the others written. */
bool pump_can(int fd);

/* Starts to pass bytes on: stdin to pipes[0], pipes[1] to stdout, pipes[2] to
 * stderr; -1 for none.  Owns the pipes, also on failure.  Returns 0, or a
 * negative errno.  Once in a program, on the main thread. */
int pump_start(const int pipes[3]);

/* Tells that the command has ended, and waits until what it wrote has been
 * passed on, however slow the reader, and its pipes have ended or some moments
 * have passed; at most `seconds` (negative: no limit). */
int pump_finish(double seconds);

/* What could not be read or written ("cannot write to stdout: No space left on
 * device"), or NULL.  The main thread gets a SIGURG when it comes up. */
const char *pump_failure(void);

/* Starts a thread that takes no signals and ends with the program.  Returns 0,
 * or a negative errno. */
int pump_thread(void *(*run)(void *arg), void *arg);

/* As read(2), also of a descriptor that somebody has made non-blocking. */
ssize_t pump_read(int fd, char *data, size_t size);

#endif /* PCO_CLI_PUMP_H */
