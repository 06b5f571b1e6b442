/* SPDX-License-Identifier: MIT */
/*
 * Who waits for frames of an agent: requests for their answers, streams for
 * what answers none.  Both are found by the number of the request.
 */
#include "link_parts.h"

#include <unistd.h>

void pco__link_pending_init(pco__link *link) {
  for (unsigned i = 0; i < PCO__LINK_BUCKETS; i++) {
    pco__list_init(&link->requests[i]);
    pco__list_init(&link->streams[i]);
  }
}

/* ---- requests ------------------------------------------------------------ */

static pco__node *bucket(pco__link *link, uint64_t id) {
  return &link->requests[id % PCO__LINK_BUCKETS];
}

pco__link_request *pco__link_find(pco__link *link, uint64_t id) {
  pco__node *list = bucket(link, id);
  for (pco__node *n = list->next; n != list; n = n->next) {
    pco__link_request *r = PCO_CONTAINER(n, pco__link_request, node);
    if (r->id == id)
      return r;
  }
  return NULL;
}

void pco__link_drop(pco__link_request *r) {
  pco__link_answered(r);
  pco__list_remove(&r->node);
  r->link->n_pending--;
}

void pco__link_forget(pco__link_request *r) {
  if (!pco__list_empty(&r->node))
    pco__link_drop(r);
}

uint64_t pco__link_next(pco__link *link) {
  return ++link->next_id;
}

void pco__link_go_on_after(pco__link *link, uint64_t last) {
  if (link->next_id < last)
    link->next_id = last;
}

void pco__link_request_await(pco__link *link, pco__link_request *r) {
  r->link = link;
  pco__link_deadline_init(r);
  pco__list_append(bucket(link, r->id), &r->node);
  link->n_pending++;
  pco__link_watch(link);
}

void pco__link_request_send(pco__link *link, pco__link_request *r,
                            pco_wire_buf *frame, const int *fds, uint8_t n_fds,
                            bool prompt) {
  pco__link_request_await(link, r);
  if (link->fd < 0) {
    for (uint8_t i = 0; i < n_fds; i++)
      close(fds[i]);
    pco_wire_buf_free(frame);
    pco__link_queue_dead(link);
    return;
  }
  if (prompt)
    pco__link_expect(r, 0);
  pco__link_queue(link, frame, fds, n_fds);
}

/* ---- streams ------------------------------------------------------------- */

void pco__link_stream_open(pco__link *link, pco__link_stream *s) {
  s->link = link;
  pco__list_append(&link->streams[s->id % PCO__LINK_BUCKETS], &s->node);
}

void pco__link_stream_close(pco__link_stream *s) {
  pco__list_remove(&s->node);
}

pco__link_stream *pco__link_stream_find(pco__link *link, uint64_t id) {
  pco__node *list = &link->streams[id % PCO__LINK_BUCKETS];
  for (pco__node *n = list->next; n != list; n = n->next) {
    pco__link_stream *s = PCO_CONTAINER(n, pco__link_stream, node);
    if (s->id == id)
      return s;
  }
  return NULL;
}

/* ---- the end ------------------------------------------------------------- */

static void lose_requests(pco__link *link) {
  for (unsigned i = 0; i < PCO__LINK_BUCKETS; i++)
    for (pco__node *n; (n = link->requests[i].next) != &link->requests[i];) {
      pco__link_request *r = PCO_CONTAINER(n, pco__link_request, node);
      pco__link_drop(r);
      r->lost(r, link->why);
    }
}

static void lose_streams(pco__link *link) {
  for (unsigned i = 0; i < PCO__LINK_BUCKETS; i++)
    for (pco__node *n; (n = pco__list_shift(&link->streams[i])) != NULL;) {
      pco__link_stream *s = PCO_CONTAINER(n, pco__link_stream, node);
      s->lost(s);
    }
}

void pco__link_tell_all(pco__link *link) {
  lose_requests(link);
  lose_streams(link);
}
