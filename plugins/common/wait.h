/* SPDX-License-Identifier: MIT */
/*
 * Waiting for a process of the host, with a deadline, on a plugin's loop.
 *
 * For plugins whose sandboxes end with a process: an end must not fail, so a
 * wait works without a descriptor to spare too.
 */
#ifndef PLUGIN_WAIT_H
#define PLUGIN_WAIT_H

#include <stdbool.h>
#include <uv.h>

typedef struct plugin_wait plugin_wait;

/* Lives in its owner, who keeps it until fn was called. */
struct plugin_wait {
  uv_poll_t poll;
  uv_timer_t timer;
  int pidfd;         /* borrowed */
  int poll_fd;       /* our duplicate: a loop polls a descriptor once; or -1 */
  uint64_t deadline; /* of uv_now */
  unsigned handles;  /* to close */
  bool blind;        /* the poll did not start */
  bool ended;
  void (*fn)(plugin_wait *w, bool ended);
};

/* Calls fn once, when libuv has given the handles back: `ended` is true if the
 * process has ended, false at the deadline.  Where no descriptor is left to
 * poll, a timer looks every 20 ms. */
void plugin_wait_start(plugin_wait *w, uv_loop_t *loop, int pidfd, unsigned ms,
                       void (*fn)(plugin_wait *w, bool ended));
/* Ends the wait now; fn is still called. */
void plugin_wait_stop(plugin_wait *w);

/* True if the process behind pidfd has ended. */
bool plugin_has_ended(int pidfd);
/* Reaps what has ended: *code is -1 if a signal did it, *signo 0 if not.  False
 * if its status is not known: it lives, or somebody else has reaped it. */
bool plugin_reap(int pidfd, int *code, int *signo);
void plugin_kill(int pidfd, int signo);

#endif /* PLUGIN_WAIT_H */
