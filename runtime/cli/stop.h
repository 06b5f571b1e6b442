/* SPDX-License-Identifier: MIT */
/* The signals that end `portico exec`, and what they interrupt; see stop.c. */
#ifndef PCO_CLI_STOP_H
#define PCO_CLI_STOP_H

#include <lua.h>
#include <poll.h>

/* Takes over SIGINT, SIGTERM, SIGHUP and SIGQUIT, but for those that are
 * ignored; and SIGURG, by which threads of ours wake the main thread.  Which
 * is the thread of L, its main state. */
void stop_watch(lua_State *L);

/* Another signal that interrupts, and ends nothing. */
void stop_wake_on(int signo);

/* The first of those signals that came, or 0. */
int stop_signal(void);

/* A C function for Lua: attempt(fn, ...) calls fn and returns true and its
 * results, or false and its error; nothing if a signal came since the last
 * attempt was interrupted, or comes meanwhile.  What is attempted must be begun
 * again after a while: a signal in the very moment in which a wait begins does
 * not end that one. */
int stop_attempt(lua_State *L);

/* As poll(2) of one descriptor, on the main thread; -1 as well if a signal has
 * come since the last interruption. */
int stop_poll(struct pollfd *fd, int ms);

#endif /* PCO_CLI_STOP_H */
