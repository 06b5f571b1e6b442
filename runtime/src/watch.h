/* SPDX-License-Identifier: MIT */
/*
 * Waiting until a descriptor can be read or written.
 *
 * By a uv_poll_t, or, while the system gives none (the user's share of
 * fs.epoll.max_user_watches is used up, no memory), by looking every TICK_NS:
 * the owner only ever sees later what it would have seen at once.
 *
 * Invariant: the callback may come for nothing, so the owner's descriptor does
 * not block.  Everything here is for the loop's thread.
 */
#ifndef PCO_WATCH_H
#define PCO_WATCH_H

#include "loop.h"

typedef struct pco__watch {
  pco__loop *loop; /* borrowed */
  int fd;          /* the owner's */
  int events;      /* UV_READABLE or UV_WRITABLE */
  /* status: an error of the descriptor, else 0.  May close the watch. */
  void (*fn)(struct pco__watch *w, int status);
  uv_poll_t *poll;  /* NULL before it is waited for, and while there is none */
  pco__timer timer; /* in its place */
} pco__watch;

/* Makes nothing yet: each watcher costs six system calls. */
void pco__watch_init(pco__watch *w, pco__loop *loop, int fd, int events,
                     void (*fn)(pco__watch *w, int status));
/* Begins to wait; 0, or an error if it cannot wait in either way. */
int pco__watch_start(pco__watch *w);
void pco__watch_stop(pco__watch *w);
/* Ends it, before the descriptor is closed; again: nothing. */
void pco__watch_close(pco__watch *w);

#endif /* PCO_WATCH_H */
