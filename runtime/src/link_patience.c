/* SPDX-License-Identifier: MIT */
/*
 * How long an agent is waited for: what it has to answer at once has a
 * deadline, which moves on while the agent is busy with others, up to a bound;
 * and while anybody waits for anything, one that is silent is asked whether it
 * lives: a command without a time limit would else wait for a stopped agent for
 * ever.
 */
#include "link_parts.h"

/* With an agent that is busy. */
#define MOST_PATIENCE (10 * pco__link_patience)

uint64_t pco__link_patience = 30u * UINT64_C(1000000000);

/* ---- deadlines ----------------------------------------------------------- */

void pco__link_answered(pco__link_request *r) {
  if (r->link)
    pco__timer_stop(r->link->loop, &r->deadline);
}

/* That the agent answers a PING says that it lives, not that it gets on. */
void pco__link_heard(pco__link *link, uint16_t type) {
  if (type != PCO_WIRE_PING)
    link->heard_at = uv_hrtime();
}

static uint64_t earlier(uint64_t a, uint64_t b) {
  return a < b ? a : b;
}

/* How long a busy agent still has for a request; 0: it is not busy, or has been
 * for too long. */
static uint64_t respite(const pco__link_request *r) {
  uint64_t now = uv_hrtime();
  uint64_t until =
      r->link->heard_at ? r->link->heard_at + pco__link_patience : 0;
  until = earlier(until, r->longest);
  return until > now ? until - now : 0;
}

/* Timers run before the sockets are read: if it was this loop that did not turn
 * for so long, the answer may lie there already.  So there is a second chance,
 * a short one. */
static void on_deadline(pco__timer *timer) {
  pco__link_request *r = PCO_CONTAINER(timer, pco__link_request, deadline);
  uint64_t more = respite(r);
  if (more) {
    r->overdue = false;
    pco__timer_start(r->link->loop, timer, more);
    return;
  }
  if (!r->overdue) {
    r->overdue = true;
    pco__timer_start(r->link->loop, timer, PCO__LINK_MOMENT);
    return;
  }
  pco__link_fail(r->link, pco__error_new(PCO_ECONN, PCO_SOURCE_AGENT, NULL,
                                         "the agent did not answer in time"));
}

void pco__link_deadline_init(pco__link_request *r) {
  r->deadline.fn = on_deadline;
  r->deadline.index = 0;
}

void pco__link_expect(pco__link_request *r, uint64_t after) {
  if (!r->link || r->link->fd < 0 || pco__list_empty(&r->node))
    return;
  uint64_t now = uv_hrtime();
  uint64_t most = UINT64_MAX - now - MOST_PATIENCE;
  after = earlier(after, most);
  uint64_t longest = now + after + MOST_PATIENCE;
  after += pco__link_patience;
  if (r->deadline.index && r->deadline.at <= now + after)
    return;
  r->overdue = false;
  r->longest = r->deadline.index ? earlier(r->longest, longest) : longest;
  pco__timer_start(r->link->loop, &r->deadline, after);
}

/* ---- watching ------------------------------------------------------------ */

static int on_pong(pco__link_request *r, const pco_wire_header *h,
                   const uint8_t *payload) {
  (void)r;
  (void)payload;
  return h->type == PCO_WIRE_REPLY ? 0 : -EPROTO;
}

static void on_pong_lost(pco__link_request *r, const pco__error *err) {
  (void)r;
  (void)err;
}

static void ping(pco__link *link) {
  pco_wire_buf frame = {0};
  link->ping.id = pco__link_next(link);
  link->ping.type = PCO_WIRE_PING;
  link->ping.frame = on_pong;
  link->ping.lost = on_pong_lost;
  pco_wire_begin(&frame, PCO_WIRE_PING, 0, link->ping.id);
  pco__link_request_send(link, &link->ping, &frame, NULL, 0, true);
}

static void on_watch(pco__timer *timer) {
  pco__link *link = PCO_CONTAINER(timer, pco__link, watch);
  bool asked = !pco__list_empty(&link->ping.node);
  if (link->fd < 0 || link->n_pending == 0)
    return;
  if (!link->heard && !asked)
    ping(link);
  link->heard = false;
  pco__link_watch(link);
}

void pco__link_watch(pco__link *link) {
  if (link->fd < 0 || link->watch.index)
    return;
  link->watch.fn = on_watch;
  pco__timer_start(link->loop, &link->watch, pco__link_patience / 2);
}
