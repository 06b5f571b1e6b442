/* SPDX-License-Identifier: MIT */
/* The thread that runs a loop for blocking callers; see portal.h. */
#include "portal.h"

#include <signal.h>
#include <stdlib.h>

#include "backend.h"
#include "embed.h"

/* libuv and a plugin's callbacks need little; sanitizers need more. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#  define STACK_SIZE (1024 * 1024)
#else
#  define STACK_SIZE (256 * 1024)
#endif

static void stop(pco__call *call) {
  pco__portal *portal = PCO_CONTAINER(call, pco__portal, stop_call);
  portal->stopped = true;
  uv_stop(&portal->loop.uv);
}

static void *portal_main(void *arg) {
  pco__portal *portal = (pco__portal *)arg;
  pthread_setname_np(pthread_self(), "pco-portal");
  while (!portal->stopped) /* a plugin may stop the loop, but not for ever */
    uv_run(&portal->loop.uv, UV_RUN_DEFAULT);
  pco__backend_close_all(&portal->loop);
  pco__loop_deinit(&portal->loop);
  pco__runtime *rt = portal->loop.runtime; /* lives until we are joined */
  atomic_store(&portal->finished, true);
  pco__embed_wake(atomic_load(&rt->host), rt->host_generation);
  return NULL;
}

/* All signals but those by which a thread hears of its own faults: the host may
 * have a handler that reports them. */
static void fill_mask(sigset_t *mask) {
  static const int faults[] = {SIGSEGV, SIGBUS,  SIGFPE,
                               SIGILL,  SIGTRAP, SIGSYS};
  sigfillset(mask);
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
    sigdelset(mask, faults[i]);
}

/* Starts the thread with signals blocked: they are the host's. */
static int start_thread(pco__portal *portal) {
  pthread_attr_t attr;
  int rc = pthread_attr_init(&attr);
  if (rc != 0)
    return -rc;
  sigset_t all;
  sigset_t old;
  fill_mask(&all);
  pthread_attr_setstacksize(&attr, STACK_SIZE);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  rc = pthread_create(&portal->thread, &attr, portal_main, portal);
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  pthread_attr_destroy(&attr);
  return -rc;
}

int pco__portal_open(pco__runtime *rt, bool lasting, pco__portal **out) {
  *out = NULL;
  pco__portal_reap(rt);
  pco__portal *portal = calloc(1, sizeof *portal);
  if (!portal)
    return UV_ENOMEM;
  int rc = pco__loop_init(&portal->loop, rt, true);
  if (rc < 0)
    goto out;
  rc = start_thread(portal);
  if (rc < 0) {
    pco__loop_deinit(&portal->loop);
    pthread_mutex_destroy(&portal->loop.lock);
    goto out;
  }
  portal->lasting = lasting;
  portal->refs = 1;
  pco__list_append(&rt->portals, &portal->node);
  *out = portal;
  return 0;
out:
  free(portal);
  return rc;
}

void pco__portal_stop(pco__portal *portal) {
  if (portal->stopping)
    return;
  portal->stopping = true;
  portal->stop_call.fn = stop;
  pco__loop_post(&portal->loop, &portal->stop_call);
}

void pco__portal_join(pco__portal *portal) {
  pthread_join(portal->thread, NULL);
  pco__list_remove(&portal->node);
  pco__portal_unref(portal);
}

void pco__portal_ref(pco__portal *portal) {
  if (portal)
    portal->refs++;
}

void pco__portal_unref(pco__portal *portal) {
  if (!portal || --portal->refs > 0)
    return;
  pthread_mutex_destroy(&portal->loop.lock);
  free(portal);
}

pco__portal *pco__portal_of(pco__loop *loop) {
  return loop->is_portal ? PCO_CONTAINER(loop, pco__portal, loop) : NULL;
}

void pco__portal_release(pco__portal *portal, bool wait) {
  if (--portal->users > 0 || portal->lasting)
    return;
  pco__portal_stop(portal);
  if (wait)
    pco__portal_join(portal);
}

void pco__portal_abandon(pco__portal *portal) {
  portal->lasting = false;
  if (portal->users == 0)
    pco__portal_stop(portal);
}

void pco__portal_reap(pco__runtime *rt) {
  pco__node *n = rt->portals.next;
  while (n != &rt->portals) {
    pco__portal *portal = PCO_CONTAINER(n, pco__portal, node);
    n = n->next;
    if (portal->stopping && atomic_load(&portal->finished))
      pco__portal_join(portal);
  }
}
