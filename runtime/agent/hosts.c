/* SPDX-License-Identifier: MIT */
/* See hosts.h. */
#include "hosts.h"

#include "agent.h"

#include <unistd.h>

#define LAST_READS 256 /* of what one that is gone had sent */

/* ---- who may say and hear what ------------------------------------------ */

bool pco_hosts_hears(const pco_agent *a, uint16_t type, uint64_t op) {
  const pco_hosts *h = &a->hosts;
  if (!h->many)
    return true;
  if (h->over || a->host.fd < 0)
    return false;
  if (op == h->greeting)
    return true;
  if (op > h->base)
    return h->greeted;
  return h->listed && (type == PCO_WIRE_OUTPUT || type == PCO_WIRE_CREDIT ||
                       type == PCO_WIRE_EXIT);
}

/* The first request of a host: its number is not counted. */
static bool greet(pco_agent *a, const pco_request *r) {
  pco_hosts *h = &a->hosts;
  h->greeted = true;
  h->base = a->last_op;
  h->greeting = r->op;
  return r->type == PCO_WIRE_HELLO;
}

/* CANCEL, DATA and the frames of relayed streams belong to an earlier request;
 * every other frame starts one and must have a new number. */
bool pco_hosts_in_order(pco_agent *a, const pco_request *r) {
  const pco_hosts *h = &a->hosts;
  if (h->many && !h->greeted)
    return greet(a, r);
  if (r->type == PCO_WIRE_CANCEL)
    return true;
  if (r->type == PCO_WIRE_DATA || r->type == PCO_WIRE_CREDIT ||
      r->type == PCO_WIRE_INPUT || r->type == PCO_WIRE_CLOSE_INPUT)
    return r->op <= a->last_op && (r->op > h->base || h->listed);
  if (r->op <= a->last_op)
    return false;
  a->last_op = r->op;
  return true;
}

/* Files are closed, and what would start now would be killed at once. */
bool pco_hosts_ignore(const pco_agent *a, const pco_request *r) {
  if (!a->hosts.over)
    return false;
  switch (r->type) {
  case PCO_WIRE_SHUTDOWN:
  case PCO_WIRE_KILL_ALL:
  case PCO_WIRE_SIGNAL:
  case PCO_WIRE_KILL:
  case PCO_WIRE_RESIZE:
  case PCO_WIRE_INPUT:
  case PCO_WIRE_CLOSE_INPUT:
  case PCO_WIRE_ADOPT:
    return false;
  default:
    return true;
  }
}

/* ---- who comes and goes ------------------------------------------------- */

void pco_hosts_init(pco_agent *a, bool many) {
  a->hosts.many = many;
  a->hosts.next = -1;
}

void pco_hosts_deinit(pco_agent *a) {
  if (a->hosts.next >= 0)
    close(a->hosts.next);
  a->hosts.next = -1;
}

void pco_hosts_gone(pco_agent *a) {
  if (a->hosts.many)
    a->hosts.over = true;
  else
    a->ending = true;
}

void pco_hosts_broken(pco_agent *a) {
  pco_hosts_gone(a);
  a->hosts.broken = true;
  if (!a->hosts.many)
    a->status = 3;
}

void pco_hosts_come(pco_agent *a, int fd) {
  pco_hosts_deinit(a); /* one that came and was not even looked at */
  a->hosts.next = fd;
  a->hosts.over = a->hosts.over || a->host.fd >= 0;
}

bool pco_hosts_pending(const pco_agent *a) {
  return a->hosts.over || a->hosts.next >= 0;
}

/* It may have ended a moment after its last words. */
static void hear_out(pco_agent *a) {
  pco_frame f;
  int rc = a->hosts.broken ? 0 : 1;
  for (int i = 0; rc == 1 && i < LAST_READS; i++) {
    while (!a->ending && !a->hosts.broken &&
           (rc = pco_channel_next(&a->host, &f)) == 1)
      pco_dispatch(a, &f);
    if (rc == 0)
      rc = pco_channel_receive(&a->host);
  }
}

static void let_go(pco_agent *a) {
  hear_out(a);
  pco_commands_let_go(a);
  pco_relays_let_go(a);
  pco_workers_let_go(a);
  pco_jobs_end(a);
  if (a->host_source.fn)
    pco_source_remove(a->epoll, &a->host_source);
  pco_channel_deinit(&a->host);
  a->hosts.over = a->hosts.broken = false;
  a->hosts.greeted = a->hosts.listed = false;
}

static void take_next(pco_agent *a) {
  int fd = a->hosts.next;
  a->hosts.next = -1;
  if (pco_agent_take_host(a, fd) != 0)
    a->hosts.over = true;
}

void pco_hosts_tick(pco_agent *a) {
  if (a->hosts.over && !a->ending)
    let_go(a);
  if (a->hosts.next >= 0 && !a->ending)
    take_next(a);
}
