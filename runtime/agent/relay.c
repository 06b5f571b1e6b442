/* SPDX-License-Identifier: MIT */
/*
 * The life of relays: the list, what becomes of one with its command, and the
 * loop's side.
 */
#include "relay_parts.h"

#include "agent.h"
#include "terminal.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- the list ----------------------------------------------------------- */

pco_relay *pco_relay_find(const pco_agent *a, uint64_t op) {
  pco_relay *r = a->relays.live;
  while (r && r->op != op)
    r = r->next;
  return r;
}

pco_relay *pco_relay_create(pco_agent *a, uint64_t op) {
  pco_relay *r = calloc(1, sizeof *r);
  if (!r)
    return NULL;
  r->agent = a;
  r->op = op;
  r->slave = -1;
  pco_relay_in_init(&r->in, r);
  for (uint8_t i = 0; i < 2; i++)
    pco_relay_out_init(&r->out[i], r, i + 1);
  r->next = a->relays.live;
  if (r->next)
    r->next->prev = r;
  a->relays.live = r;
  return r;
}

/* Its memory lives to the end of the turn: a source of it may be called. */
static void discard(pco_relay *r) {
  pco_relays *all = &r->agent->relays;
  if (r->next)
    r->next->prev = r->prev;
  if (r->prev)
    r->prev->next = r->next;
  else
    all->live = r->next;
  r->next = all->gone;
  r->prev = NULL;
  all->gone = r;
}

void pco_relay_close_source(pco_agent *a, pco_source *s, bool *watched) {
  if (s->fd < 0)
    return;
  if (*watched)
    pco_source_remove(a->epoll, s);
  *watched = false;
  s->fn = NULL;
  close(s->fd);
  s->fd = -1;
}

static void close_slave(pco_relay *r) {
  if (r->slave >= 0)
    close(r->slave);
  r->slave = -1;
}

static void close_all(pco_relay *r) {
  for (int i = 0; i < 2; i++)
    pco_relay_close_source(r->agent, &r->out[i].source, &r->out[i].watched);
  pco_relay_close_source(r->agent, &r->in.source, &r->in.watched);
  close_slave(r);
}

void pco_relay_discard_if_ended(pco_relay *r) {
  if (!pco_relay_out_is_open(&r->out[0]) &&
      !pco_relay_out_is_open(&r->out[1]) && r->in.source.fd < 0) {
    close_slave(r);
    discard(r);
  }
}

bool pco_relay_watch(pco_agent *a, pco_source *s, bool *watched, bool wanted,
                     uint32_t events) {
  if (s->fd < 0 || wanted == *watched)
    return true;
  void (*fn)(void *, uint32_t) = s->fn;
  if (!wanted)
    pco_source_remove(a->epoll, s);
  bool good = !wanted || pco_source_add(a->epoll, s, events) == 0;
  s->fn = fn;
  *watched = wanted && good;
  return good;
}

/* ---- the command -------------------------------------------------------- */

void pco_relay_started(pco_agent *a, uint64_t op) {
  pco_relay *r = pco_relay_find(a, op);
  if (!r)
    return;
  r->started = true;
  for (int i = 0; i < 2; i++)
    pco_relay_out_watch(&r->out[i]);
  pco_relay_in_pass(&r->in);
}

void pco_relay_exited(pco_agent *a, uint64_t op) {
  pco_relay *r = pco_relay_find(a, op);
  if (r)
    close_slave(r);
}

void pco_relay_drop(pco_agent *a, uint64_t op) {
  pco_relay *r = pco_relay_find(a, op);
  if (!r)
    return;
  close_all(r);
  discard(r);
}

void pco_relay_resize(pco_agent *a, const pco_request *q) {
  pco_relay *r = pco_relay_find(a, pco_request_number(q, PCO_TAG_TARGET));
  int error = ESRCH;
  if (r && !r->terminal)
    error = ENOTTY;
  else if (r && r->out[0].source.fd >= 0)
    error = -pco_terminal_resize(r->out[0].source.fd,
                                 (uint16_t)pco_request_number(q, PCO_TAG_COLS),
                                 (uint16_t)pco_request_number(q, PCO_TAG_ROWS));
  if (error)
    pco_answer_error(a, q->op, error, NULL, NULL);
  else
    pco_answer_empty(a, q->op);
}

/* ---- one host after the other ------------------------------------------- */

void pco_relay_look(const pco_agent *a, uint64_t op, pco_relay_state *out) {
  const pco_relay *r = pco_relay_find(a, op);
  *out = (pco_relay_state){0};
  if (!r)
    return;
  out->out = pco_relay_out_is_open(&r->out[0]);
  out->err = pco_relay_out_is_open(&r->out[1]);
  out->in = r->in.source.fd >= 0 && !r->in.ending;
  out->out_offset = r->out[0].offset;
  out->err_offset = r->out[1].offset;
  out->in_room = PCO_RELAY_CREDIT - (r->in.len - r->in.at);
}

void pco_relay_give_up(pco_agent *a, uint64_t op) {
  pco_relay *r = pco_relay_find(a, op);
  for (int i = 0; r && i < 2; i++)
    pco_relay_out_give_up(&r->out[i]);
}

/* One that has not started is ended by who kills its command. */
void pco_relays_let_go(pco_agent *a) {
  for (pco_relay *r = a->relays.live, *next; r; r = next) {
    next = r->next;
    if (!pco_records_has(a, r->op))
      pco_relay_drop(a, r->op);
    for (int i = 0; i < 2 && r->started; i++)
      pco_relay_out_let_go(&r->out[i]);
  }
}

/* ---- the loop's side ---------------------------------------------------- */

static void free_gone(pco_relays *all) {
  for (pco_relay *r; (r = all->gone);) {
    all->gone = r->next;
    free(r->in.data);
    pco_ring_free(&r->out[0].ring);
    pco_ring_free(&r->out[1].ring);
    free(r);
  }
}

bool pco_relays_tick(pco_agent *a) {
  pco_relays *all = &a->relays;
  bool was_clogged = all->clogged;
  bool clogged = pco_channel_queued(&a->host) > PCO_OUT_LOW;
  all->clogged = clogged;
  if (clogged != was_clogged) {
    for (pco_relay *r = all->live, *next; r; r = next) {
      next = r->next;
      for (int i = 0; i < 2; i++)
        pco_relay_out_go_on(&r->out[i]);
    }
  }
  free_gone(all);
  return was_clogged && !clogged;
}

void pco_relays_deinit(pco_agent *a) {
  for (pco_relay *r; (r = a->relays.live);) {
    close_all(r);
    discard(r);
  }
  free_gone(&a->relays);
}
