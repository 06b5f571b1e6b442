/* SPDX-License-Identifier: MIT */
/*
 * A portal: a thread that runs one loop, so that a thread of the host can make
 * async calls and block for their results.
 *
 * Owned by the Lua state's thread: it opens, counts users and joins.  The
 * thread itself touches only the loop.  A portal made for one sandbox ends when
 * its last user goes; one that a script opened ends when the script closes it.
 * A portal whose owner was collected stops in the background and is joined by
 * the next open or by lua_close.
 */
#ifndef PCO_PORTAL_H
#define PCO_PORTAL_H

#include "loop.h"
#include "runtime.h"

typedef struct pco__portal {
  pco__loop loop;
  pthread_t thread;
  pco__node node; /* in runtime->portals */
  int refs;       /* the list's, Lua handles and ops: keep the memory */
  int users;      /* backends open on it */
  bool lasting;   /* a script opened it and closes it */
  bool stopping;
  bool stopped;         /* [loop] */
  atomic_bool finished; /* the thread is about to return */
  pco__call stop_call;
} pco__portal;

/* Starts a portal; returns 0 or a libuv error with nothing left behind. */
int pco__portal_open(pco__runtime *rt, bool lasting, pco__portal **out);
/* Tells the thread to close what is left on its loop and end; does not wait. */
void pco__portal_stop(pco__portal *portal);
/* Waits for a stopped portal's thread.  Posts to its loop fail from then on,
 * and the memory goes with the last reference. */
void pco__portal_join(pco__portal *portal);
/* Keep or let go the memory; NULL is allowed.  [the state's thread] */
void pco__portal_ref(pco__portal *portal);
void pco__portal_unref(pco__portal *portal);
/* The portal of a loop, or NULL. */
pco__portal *pco__portal_of(pco__loop *loop);
/* Notes one user less; the last one ends a portal that is not lasting, and
 * joins it if `wait`. */
void pco__portal_release(pco__portal *portal, bool wait);
/* The script that opened a lasting portal let go of it unclosed: it ends with
 * its last user. */
void pco__portal_abandon(pco__portal *portal);
/* Joins the stopped portals whose threads have finished. */
void pco__portal_reap(pco__runtime *rt);

#endif /* PCO_PORTAL_H */
