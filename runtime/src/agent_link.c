/* SPDX-License-Identifier: MIT */
/*
 * The life of a link: it is opened, dies once, and is closed; see agent_link.h.
 */
#include "agent_link.h"

#include <stdlib.h>
#include <unistd.h>

#include "link_parts.h"
#include "sys/claim_watch.h"

/* ---- descriptors and poll ------------------------------------------------ */

static void close_fd(pco__link *link) {
  if (link->fd < 0)
    return;
  uv_poll_stop(link->poll);
  uv_close((uv_handle_t *)link->poll, pco__free_handle);
  link->poll = NULL;
  close(link->fd);
  link->fd = -1;
  pco__timer_stop(link->loop, &link->watch);
}

static void on_poll(uv_poll_t *poll, int status, int events) {
  pco__link *link = (pco__link *)poll->data;
  if (status < 0) {
    pco__link_fail(link, pco__error_new(PCO_ECONN, PCO_SOURCE_AGENT, NULL,
                                        "watching the agent: %s",
                                        uv_strerror(status)));
    return;
  }
  if (events & UV_WRITABLE)
    pco__link_flush(link);
  if (link->fd >= 0)
    pco__link_drain_if_writable(link);
  if (link->fd >= 0 && (events & (UV_READABLE | UV_DISCONNECT)))
    pco__link_receive(link);
}

void pco__link_set_events(pco__link *link, int events) {
  if (link->fd < 0 || link->events == events)
    return;
  link->events = events;
  int rc = uv_poll_start(link->poll, events, on_poll);
  if (rc == 0)
    rc = pco__claim_watch(&link->loop->uv, link->fd);
  if (rc < 0)
    pco__link_fail(link,
                   pco__error_new(PCO_ECONN, PCO_SOURCE_HOST, NULL,
                                  "watching the agent: %s", uv_strerror(rc)));
}

/* ---- death --------------------------------------------------------------- */

static void free_link(pco__link *link) {
  pco__error_free(link->why);
  free(link->in);
  free(link);
}

static void on_dead(pco__call *call) {
  pco__link *link = PCO_CONTAINER(call, pco__link, dead_call);
  link->dead_queued = false;
  if (link->closed) {
    pco__link_tell_all(link);
    pco__link_drain(link);
    free_link(link);
  } else if (link->dead) {
    void (*dead)(pco__link *, const pco__error *) = link->dead;
    link->dead = NULL;
    dead(link, link->why);
  }
}

void pco__link_queue_dead(pco__link *link) {
  if (link->dead_queued)
    return;
  link->dead_queued = true;
  link->dead_call.fn = on_dead;
  pco__loop_defer(link->loop, &link->dead_call);
}

void pco__link_fail(pco__link *link, pco__error *why) {
  if (link->fd < 0) {
    pco__error_free(why);
    return;
  }
  link->why = why;
  close_fd(link);
  pco__link_drop_output(link);
  pco__timer_stop(link->loop, &link->retry);
  pco__link_queue_dead(link);
}

void pco__link_hang_up(pco__link *link) {
  link->dead = NULL;
  pco__link_fail(link, NULL);
}

void pco__link_close(pco__link *link, pco__error *err) {
  /* What is queued (a SHUTDOWN) gets one chance; the end of the stream says
   * the same. */
  link->closed = true;
  pco__link_fail(link, NULL);
  pco__error_free(link->why);
  link->why = err;
  pco__link_queue_dead(link);
}

/* ---- life ---------------------------------------------------------------- */

int pco__link_open(pco__loop *loop, int fd,
                   void (*dead)(pco__link *link, const pco__error *err),
                   pco__link **out) {
  *out = NULL;
  pco__link *link = calloc(1, sizeof *link);
  uv_poll_t *poll = calloc(1, sizeof *poll);
  int rc = link && poll ? uv_poll_init(&loop->uv, poll, fd) : UV_ENOMEM;
  if (rc < 0) {
    free(link);
    free(poll);
    close(fd);
    return rc;
  }
  link->loop = loop;
  link->fd = fd;
  link->poll = poll;
  link->poll->data = link;
  pco__link_send_init(link);
  pco__link_pending_init(link);
  pco__list_init(&link->ping.node);
  link->dead = dead;
  pco__link_set_events(link, UV_READABLE);
  *out = link;
  return 0;
}

void pco__link_set_owner(pco__link *link, struct pco__sandbox *owner) {
  link->owner = owner;
}

struct pco__sandbox *pco__link_owner(const pco__link *link) {
  return link->owner;
}
