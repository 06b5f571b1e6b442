/* SPDX-License-Identifier: MIT */
/*
 * A descriptor that the loop watches, and whom to tell.
 *
 * Invariant: a source that was removed during a turn is not called any more in
 * that turn (its fn is NULL); its memory must live to the end of the turn.
 */
#ifndef PCO_SOURCE_H
#define PCO_SOURCE_H

#include <errno.h>
#include <stdint.h>
#include <sys/epoll.h>

typedef struct pco_source {
  int fd;
  uint32_t events; /* what is asked for now */
  void (*fn)(void *arg, uint32_t events);
  void *arg;
} pco_source;

/* Starts watching for `events`: 0 or a negative errno. */
static inline int pco_source_add(int epoll, pco_source *s, uint32_t events) {
  struct epoll_event e = {.events = events, .data = {.ptr = s}};
  s->events = events;
  return epoll_ctl(epoll, EPOLL_CTL_ADD, s->fd, &e) == 0 ? 0 : -errno;
}

/* Changes what is watched for; hang-ups are always told. */
static inline void pco_source_want(int epoll, pco_source *s, uint32_t events) {
  if (s->events == events || !s->fn)
    return;
  struct epoll_event e = {.events = events, .data = {.ptr = s}};
  s->events = events;
  epoll_ctl(epoll, EPOLL_CTL_MOD, s->fd, &e);
}

static inline void pco_source_remove(int epoll, pco_source *s) {
  epoll_ctl(epoll, EPOLL_CTL_DEL, s->fd, NULL);
  s->fn = NULL;
}

#endif /* PCO_SOURCE_H */
