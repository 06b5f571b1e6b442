/* SPDX-License-Identifier: MIT */
/*
 * A runtime on a loop of the host's: one uv_poll_t there watches the poll
 * descriptor and ticks.  Nothing else of ours is on that loop, so none of its
 * rules bind plugins, and it may end when it likes.
 *
 * The handle's memory is the loop's until its close callback.  A host that
 * closes all handles of its loop closes this one, too, with a callback of its
 * own or none, and we never learn when the loop lets go of it: then the memory
 * stays, which is noticed by the next tick.
 */
#include <stdlib.h>

#include "embed.h"

typedef struct pco__attached {
  uv_poll_t poll;
  pco_runtime *rt; /* NULL: detached */
  uint64_t budget_ns;
  struct pco__attached *next; /* in strays */
} pco__attached;

/* Those whose loops closed them by themselves: in use for as long as we know.
 */
static pco__attached *_Atomic strays;

static void on_poll(uv_poll_t *poll, int status, int events) {
  pco__attached *a = PCO_CONTAINER(poll, pco__attached, poll);
  (void)events;
  if (status < 0 || !a->rt)
    return;
  /* In a forked child it says so, and no more is done: to stop the handle there
   * would take it from the parent's epoll set. */
  pco_tick(a->rt, a->budget_ns, NULL);
}

static void on_closed(uv_handle_t *handle) {
  uv_poll_t *poll = (uv_poll_t *)handle;
  free(PCO_CONTAINER(poll, pco__attached, poll));
}

int pco_attach_uv(pco_runtime *rt, uv_loop_t *loop, uint64_t budget_ns) {
  int rc = pco__embed_check(rt);
  if (rc < 0)
    return rc;
  if (!loop || loop == &rt->lua->runtime.loop.uv)
    return PCO_EINVAL;
  if (rt->attached)
    return PCO_EBUSY;
  pco__attached *a = calloc(1, sizeof *a);
  if (!a)
    return UV_ENOMEM;
  a->rt = rt;
  a->budget_ns = budget_ns;
  rc = uv_poll_init(loop, &a->poll, rt->poll_fd);
  if (rc < 0) {
    free(a);
    return rc;
  }
  rc = uv_poll_start(&a->poll, UV_READABLE, on_poll);
  if (rc < 0) {
    uv_close((uv_handle_t *)&a->poll, on_closed);
    return rc;
  }
  rt->attached = a;
  pco__embed_touch(rt); /* the first tick adapts the reference */
  return 0;
}

int pco_detach_uv(pco_runtime *rt) {
  int rc = pco__embed_check(rt);
  bool state_gone =
      rc == PCO_ECLOSED && rt && atomic_load(&rt->slot) == PCO__SLOT_OPEN;
  if (rc < 0 && !state_gone)
    return rc;
  pco__attached *a = rt->attached;
  if (!a)
    return 0;
  rt->attached = NULL;
  a->rt = NULL;
  if (uv_is_closing((uv_handle_t *)&a->poll)) { /* by the host: see above */
    a->next = atomic_load(&strays);
    while (!atomic_compare_exchange_weak(&strays, &a->next, a))
      ;
    return PCO_ELOOP;
  }
  uv_close((uv_handle_t *)&a->poll, on_closed);
  return 0;
}

void pco__embed_hold_loop(pco_runtime *rt) {
  if (rt->attached && !uv_is_closing((uv_handle_t *)&rt->attached->poll))
    uv_ref((uv_handle_t *)&rt->attached->poll);
}

int pco__embed_attached(pco_runtime *rt, bool busy) {
  if (!rt->attached)
    return 0;
  uv_handle_t *handle = (uv_handle_t *)&rt->attached->poll;
  if (uv_is_closing(handle))
    return pco_detach_uv(rt);
  if (busy)
    uv_ref(handle);
  else
    uv_unref(handle);
  return 0;
}
