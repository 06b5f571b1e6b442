/* SPDX-License-Identifier: MIT */
/*
 * The end of a runtime, while the host goes on ticking:
 *
 *   PCO__LIVES -> PCO__CANCELS -> PCO__CLOSES -> PCO__ENDED
 *
 * Tasks and calls are cancelled; when they have ended, or the grace is over,
 * what is left of them is dropped and all backends are closed; that takes
 * CLOSE_LIMIT_NS at most.  Each phase has its time, and a timer that makes the
 * host tick then.  It has ended only when the host was told of every task.
 */
#include "embed.h"
#include "lua_task.h"

#define CLOSE_LIMIT_NS (20u * UINT64_C(1000000000))

static void on_phase_timer(pco__timer *timer) {
  (void)timer; /* that it made the host tick is enough */
}

static void begin_phase(pco_runtime *rt, int phase, uint64_t ns) {
  uint64_t now = uv_hrtime();
  rt->phase = phase;
  rt->phase_at = ns > UINT64_MAX - now ? UINT64_MAX : now + ns;
  rt->phase_timer.fn = on_phase_timer;
  pco__timer_start(&rt->lua->runtime.loop, &rt->phase_timer, ns);
}

int pco_shutdown(pco_runtime *rt, uint64_t grace_ns) {
  int rc = pco__embed_check(rt);
  if (rc < 0 || rt->phase != PCO__LIVES)
    return rc;
  begin_phase(rt, PCO__CANCELS, grace_ns);
  pco__embed_cancel_tasks(rt);
  pco__embed_cancel_calls(rt);
  pco__embed_touch(rt);
  return 0;
}

int pco_shutdown_done(pco_runtime *rt) {
  int rc = pco__embed_check(rt);
  return rc < 0 ? rc : rt->phase == PCO__ENDED;
}

static void close_all(pco_runtime *rt) {
  pco__node *backends = &rt->lua->runtime.loop.backends;
  pco__node *portals = &rt->lua->runtime.portals;
  pco__embed_kill_tasks(rt);
  pco__embed_close_boxes(rt);
  begin_phase(rt, PCO__CLOSES, CLOSE_LIMIT_NS);
  for (pco__node *n = backends->next; n != backends;) {
    pco__backend *b = PCO_CONTAINER(n, pco__backend, node);
    n = n->next;
    pco__backend_abandon(b);
  }
  for (pco__node *n = portals->next; n != portals; n = n->next)
    pco__portal_stop(PCO_CONTAINER(n, pco__portal, node));
}

static bool is_closed(pco_runtime *rt) {
  const pco__node *portals = &rt->lua->runtime.portals;
  for (pco__node *n = portals->next; n != portals; n = n->next)
    if (!atomic_load(&PCO_CONTAINER(n, pco__portal, node)->finished))
      return false;
  return pco__list_empty(&rt->lua->runtime.loop.backends) && rt->n_calls == 0;
}

static bool is_late(const pco_runtime *rt) {
  return uv_hrtime() >= rt->phase_at;
}

/* One phase may follow the other at once: if nothing is open, no event would
 * come to make the host tick again. */
bool pco__embed_shutdown_step(pco_runtime *rt) {
  bool moved = false;
  if (rt->phase == PCO__CANCELS &&
      (is_late(rt) || (rt->lua->n_tasks == 0 && rt->n_calls == 0))) {
    close_all(rt);
    moved = true;
  }
  if (rt->phase == PCO__CLOSES && pco__list_empty(&rt->finished) &&
      (is_late(rt) || is_closed(rt))) {
    pco__timer_stop(&rt->lua->runtime.loop, &rt->phase_timer);
    rt->phase = PCO__ENDED;
    moved = true;
  }
  return moved;
}
