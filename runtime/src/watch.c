/* SPDX-License-Identifier: MIT */
/* Waiting until a descriptor is ready; see watch.h. */
#include "watch.h"

#include <stdlib.h>
#include <string.h>

#include "sys/claim_watch.h"

#define TICK_NS UINT64_C(20000000)

static void on_poll(uv_poll_t *poll, int status, int events) {
  pco__watch *w = (pco__watch *)poll->data;
  (void)events;
  w->fn(w, status);
}

static void drop_poll(pco__watch *w) {
  if (w->poll)
    uv_close((uv_handle_t *)w->poll, pco__free_handle);
  w->poll = NULL;
}

static int make_poll(pco__watch *w) {
  if (w->poll)
    return 0;
  uv_poll_t *poll = calloc(1, sizeof *poll);
  int rc = poll ? uv_poll_init(&w->loop->uv, poll, w->fd) : UV_ENOMEM;
  if (rc < 0) {
    free(poll);
    return rc;
  }
  poll->data = w;
  w->poll = poll;
  return 0;
}

static int start_poll(pco__watch *w) {
  int rc = make_poll(w);
  if (rc == 0)
    rc = uv_poll_start(w->poll, w->events, on_poll);
  if (rc == 0)
    rc = pco__claim_watch(&w->loop->uv, w->fd);
  if (rc < 0)
    drop_poll(w);
  return rc;
}

/* Looks, and tries again to get what need not look. */
static void on_tick(pco__timer *timer) {
  pco__watch *w = PCO_CONTAINER(timer, pco__watch, timer);
  if (start_poll(w) < 0)
    pco__timer_start(w->loop, timer, TICK_NS); /* its place is still there */
  w->fn(w, 0);
}

void pco__watch_init(pco__watch *w, pco__loop *loop, int fd, int events,
                     void (*fn)(pco__watch *w, int status)) {
  memset(w, 0, sizeof *w);
  w->loop = loop;
  w->fd = fd;
  w->events = events;
  w->fn = fn;
  w->timer.fn = on_tick;
}

int pco__watch_start(pco__watch *w) {
  if (start_poll(w) == 0)
    return 0;
  return pco__timer_start(w->loop, &w->timer, TICK_NS);
}

void pco__watch_stop(pco__watch *w) {
  if (w->poll)
    uv_poll_stop(w->poll);
  if (w->loop)
    pco__timer_stop(w->loop, &w->timer);
}

void pco__watch_close(pco__watch *w) {
  drop_poll(w);
  if (w->loop)
    pco__timer_stop(w->loop, &w->timer);
}
