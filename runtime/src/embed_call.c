/* SPDX-License-Identifier: MIT */
/*
 * Calls of a host in C: an op of the runtime's, the same that a script's call
 * makes, in a pending.
 *
 * On the runtime's own loop a completed op comes to loop->heard (op->pending
 * leads to the pending), and the tick tells the host.  On a portal the host
 * waits for the op itself.  A pending is freed when the call has ended and the
 * host has given it back, whichever is later.
 */
#include "embed_call.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define MAX_STRINGS 100000 /* argv, env; more is a list without its end */

static bool is_done(const pco_pending *p) {
  return atomic_load_explicit(&p->op->word, memory_order_acquire) ==
         PCO__OP_DONE;
}

int pco__call_check_pending(const pco_pending *p) {
  if (!p)
    return PCO_EINVAL;
  return p->rt ? pco__embed_check(p->rt) : 0;
}

/* ---- life ---------------------------------------------------------------- */

int pco__call_check(const pco__caller *c) {
  int rc = pco__embed_check(c->rt);
  if (rc < 0)
    return rc;
  if (c->rt->phase != PCO__LIVES)
    return pco__embed_fail(c->rt, PCO_ECLOSED, "the runtime is shutting down");
  if (c->loop->is_portal && (c->done || !c->out))
    return pco__embed_fail(c->rt, PCO_EINVAL,
                           "a call on a box with PCO_BOX_PORTAL is waited for: "
                           "pass no `done`, and `out`");
  return 0;
}

pco_pending *pco__call_new(const pco__caller *c, const pco__op_class *cls,
                           size_t size) {
  pco_pending *p = calloc(1, sizeof *p);
  if (!p)
    return NULL;
  p->op = pco__op_new(cls, size, c->loop);
  if (!p->op) {
    free(p);
    return NULL;
  }
  p->rt = c->rt;
  p->done = c->done;
  p->ud = c->ud;
  p->portal = pco__portal_of(c->loop);
  pco__portal_ref(p->portal);
  pco__list_append(&c->rt->calls, &p->node);
  return p;
}

/* The use of a portal that a creation has, until a box takes it over. */
static void end_use(pco_pending *p, bool wait) {
  if (!p->in_use)
    return;
  p->in_use = false;
  pco__portal_release(p->portal, wait);
}

static void free_pending(pco_pending *p) {
  pco__list_remove(&p->node);
  pco__list_remove(&p->op->done_node);
  pco__op_unref(p->op);
  end_use(p, false);
  pco__portal_unref(p->portal);
  pco__arena_free(&p->arena);
  pco__found_free(p->found);
  free(p->told);
  free(p);
}

int pco__call_drop(pco_pending *p, int code) {
  free_pending(p);
  return code;
}

static void submit(pco_pending *p) {
  if (p->portal) {
    pco__op_submit(p->op);
    return;
  }
  p->op->pending = p;
  uv_update_time(&p->op->loop->uv); /* the last turn may be long ago */
  pco__op_submit(p->op);
  pco__embed_touch(p->rt);
}

int pco__call_start(const pco__caller *c, pco_pending *p) {
  if (p->op->arena.failed)
    return pco__call_drop(p,
                          pco__embed_fail(c->rt, UV_ENOMEM, "out of memory"));
  p->held = c->out != NULL;
  if (!c->loop->is_portal) {
    p->counted = true;
    c->rt->n_calls++;
  }
  submit(p);
  if (c->out)
    *c->out = p;
  return 0;
}

/* Goes on to the next op of a call of several. */
static void go_on(pco_pending *p) {
  pco__op *op = p->next(p);
  if (!op) {
    p->next = NULL;
    return;
  }
  pco__list_remove(&p->op->done_node);
  pco__op_unref(p->op);
  p->op = op;
  submit(p);
}

/* Lets the op look at what it has got. */
static void look(pco_pending *p) {
  bool done = is_done(p);
  if (p->looks)
    p->op->cls->event(NULL, p->op, done);
  p->looks = p->looks && !done;
}

/* True if the call has ended, and not only one of its ops; what that has found
 * is taken here. */
static bool is_over(pco_pending *p) {
  if (!is_done(p))
    return false;
  look(p);
  if (p->next && !p->op->error && p->rt)
    go_on(p);
  else
    p->next = NULL;
  return p->next == NULL;
}

static void uncount(pco_pending *p) {
  if (!p->counted)
    return;
  p->counted = false;
  p->rt->n_calls--;
}

void pco_pending_release(pco_pending *pending) {
  if (pco__call_check_pending(pending) < 0)
    return;
  pending->held = false;
  if (!pending->counted)
    free_pending(pending);
}

/* ---- telling ------------------------------------------------------------- */

bool pco__embed_tell_calls(pco_runtime *rt) {
  pco__node *heard = &rt->lua->runtime.loop.heard;
  bool did = false;
  for (pco__node *n; (n = pco__list_shift(heard)) != NULL;) {
    pco__op *op = PCO_CONTAINER(n, pco__op, done_node);
    pco_pending *p = op->pending;
    if (!p->counted)
      continue;
    look(p);
    if (!is_over(p))
      continue;
    uncount(p);
    did = true;
    bool held = p->held;
    p->held = true; /* against a release in the callback */
    pco_done_fn done = p->done;
    p->done = NULL;
    if (done)
      done(p->ud, p);
    if (!held || !p->held)
      free_pending(p);
  }
  return did;
}

void pco__embed_cancel_calls(pco_runtime *rt) {
  for (pco__node *n = rt->calls.next; n != &rt->calls;) {
    pco_pending *p = PCO_CONTAINER(n, pco_pending, node);
    n = n->next;
    if (!is_over(p))
      pco__op_cancel(p->op, PCO_ECANCELED);
  }
}

void pco__embed_orphan_calls(pco_runtime *rt) {
  for (pco__node *n; (n = pco__list_shift(&rt->calls)) != NULL;) {
    pco_pending *p = PCO_CONTAINER(n, pco_pending, node);
    end_use(p, true);
    bool lost = p->counted && !p->held;
    p->counted = false;
    p->op->pending = NULL;
    p->rt = NULL;
    p->looks = false;
    if (p->next && is_done(p) && !p->op->error) /* there was more to do */
      p->op->error = pco__error_new(PCO_ECLOSED, PCO_SOURCE_HOST, NULL, NULL);
    p->next = NULL;
    if (!p->portal && is_done(p) && p->op->cls->leave)
      p->op->cls->leave(p->op);
    if (lost)
      free_pending(p);
  }
}

/* ---- waiting ------------------------------------------------------------- */

static int wait_on_portal(pco_pending *p, int64_t ns) {
  uint64_t end = ns < 0 ? UINT64_MAX : uv_hrtime() + (uint64_t)ns;
  while (!is_over(p)) {
    uint64_t now = uv_hrtime();
    int64_t left = now < end ? (int64_t)(end - now) : 0;
    int rc = pco__op_wait(p->op, ns < 0 ? -1 : left);
    if (rc < 0)
      return rc == -ETIMEDOUT ? PCO_ECALLTIMEOUT : rc;
    if (rc == PCO__OP_EVENT)
      look(p);
  }
  return 0;
}

/* Waits for a call of the runtime's own loop by ticking. */
static int wait_in_ticks(pco_pending *p, int64_t ns) {
  pco_runtime *rt = p->rt;
  uint64_t end = ns < 0 ? UINT64_MAX : uv_hrtime() + (uint64_t)ns;
  while (p->counted) {
    int rc = pco_tick(rt, 10000000, NULL);
    if (rc < 0 && rc != UV_ENOMEM)
      return rc;
    uint64_t now = uv_hrtime();
    if (!p->counted)
      return 0;
    if (now >= end)
      return PCO_ECALLTIMEOUT;
    uint64_t ms = end == UINT64_MAX ? 1000000 : (end - now) / 1000000 + 1;
    struct pollfd fd = {.fd = rt->poll_fd, .events = POLLIN};
    if (poll(&fd, 1, ms > 1000000 ? 1000000 : (int)ms) < 0 && errno != EAGAIN)
      return -errno;
  }
  return 0;
}

int pco_pending_wait(pco_pending *pending, int64_t timeout_ns) {
  int rc = pco__call_check_pending(pending);
  if (rc < 0 || !pending->rt)
    return rc;
  if (pending->portal)
    return wait_on_portal(pending, timeout_ns);
  if (!pending->counted)
    return 0;
  return pending->rt->inside ? PCO_EREENTRANT
                             : wait_in_ticks(pending, timeout_ns);
}

int pco_pending_cancel(pco_pending *pending) {
  int rc = pco__call_check_pending(pending);
  if (rc < 0 || !pending->rt || is_over(pending))
    return rc;
  pco__op_cancel(pending->op, PCO_ECANCELED);
  if (!pending->portal)
    pco__embed_touch(pending->rt);
  return 0;
}

/* ---- outcomes ------------------------------------------------------------ */

int pco__call_ended(pco_pending *p) {
  int rc = pco__call_check_pending(p);
  return rc < 0 ? rc : is_over(p) ? 0 : PCO_EBUSY;
}

int pco_pending_code(pco_pending *pending) {
  int rc = pco__call_ended(pending);
  if (rc < 0)
    return rc;
  return pending->op->error ? pending->op->error->code : 0;
}

/* The chain of an error, as plugin.h has it. */
static const pco_error *copy_error(pco__arena *arena, const pco__error *err) {
  pco_error *first = NULL;
  const pco_error **link = NULL;
  for (; err; err = err->cause) {
    pco_error *e = pco__arena_alloc(arena, sizeof *e);
    if (!e)
      break;
    *e = (pco_error){.struct_size = sizeof *e,
                     .code = err->code,
                     .source = err->source,
                     .flags = err->retryable ? PCO_ERROR_RETRYABLE : 0,
                     .message = err->message ? err->message
                                             : pco__code_text(err->code),
                     .path = err->path};
    if (link)
      *link = e;
    else
      first = e;
    link = &e->cause;
  }
  return first;
}

const pco_error *pco_pending_error(pco_pending *pending) {
  if (pco__call_ended(pending) < 0)
    return NULL;
  if (!pending->error)
    pending->error = copy_error(&pending->arena, pending->op->error);
  return pending->error;
}

/* ---- copying ------------------------------------------------------------- */

const char *pco__call_copy(pco_pending *p, const char *s) {
  return s ? pco__arena_string(&p->op->arena, s) : NULL;
}

char **pco__call_copy_list(pco_pending *p, const char *const *list) {
  size_t n = 0;
  if (!list)
    return NULL;
  while (list[n])
    if (++n > MAX_STRINGS) {
      p->op->arena.failed = true;
      return NULL;
    }
  char **copy = pco__arena_alloc(&p->op->arena, (n + 1) * sizeof *copy);
  for (size_t i = 0; copy && i < n; i++)
    copy[i] = pco__arena_string(&p->op->arena, list[i]);
  return copy;
}
