/* SPDX-License-Identifier: MIT */
/*
 * What other threads may do with a runtime: post a function, wake its host.
 * Only the lock, the posts, `signalled` and wake_fd are touched here, and the
 * host's `wakeup`, which is called without the lock.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "embed.h"

bool pco__embed_forked(const pco_runtime *rt) {
  return *(volatile unsigned char *)rt->not_forked == 0;
}

/* Makes the descriptor readable; true if it was not.  Under the lock, by which
 * the descriptors live. */
static bool signal_tick(pco_runtime *rt) {
  if (atomic_exchange(&rt->signalled, true))
    return false;
  uint64_t one = 1;
  ssize_t n = write(rt->wake_fd, &one, sizeof one);
  return n == (ssize_t)sizeof one;
}

/* Why nothing can be posted, or 0. */
static int check_open(pco_runtime *rt) {
  if (!rt)
    return PCO_EINVAL;
  if (atomic_load(&rt->slot) != PCO__SLOT_OPEN)
    return PCO_ECLOSED;
  return pco__embed_forked(rt) ? PCO_EFORKED : 0;
}

/* Appends a post (NULL: only wakes). */
static int append(pco_runtime *rt, unsigned generation, pco__post *p) {
  pthread_mutex_lock(&rt->lock);
  bool closed = rt->closed || atomic_load(&rt->generation) != generation;
  if (!closed && p) {
    *rt->last_post = p;
    rt->last_post = &p->next;
  }
  bool news = !closed && signal_tick(rt);
  pco_wakeup_fn wakeup = news ? rt->config.wakeup : NULL;
  void *ud = rt->config.ud;
  pthread_mutex_unlock(&rt->lock);
  if (wakeup)
    wakeup(ud);
  return closed ? PCO_ECLOSED : 0;
}

int pco__embed_post(pco_runtime *rt, unsigned generation, pco_posted_fn fn,
                    void *ud) {
  int rc = check_open(rt);
  if (rc < 0)
    return rc;
  pco__post *p = malloc(sizeof *p);
  if (!p)
    return UV_ENOMEM;
  *p = (pco__post){.fn = fn, .ud = ud};
  rc = append(rt, generation, p);
  if (rc < 0)
    free(p);
  return rc;
}

int pco_post(pco_runtime *rt, pco_posted_fn fn, void *ud) {
  if (!rt || !fn)
    return PCO_EINVAL;
  return pco__embed_post(rt, atomic_load(&rt->generation), fn, ud);
}

int pco_wake(pco_runtime *rt) {
  int rc = check_open(rt);
  return rc < 0 ? rc : append(rt, atomic_load(&rt->generation), NULL);
}

void pco__embed_wake(pco_runtime *rt, unsigned generation) {
  if (check_open(rt) == 0)
    append(rt, generation, NULL);
}

void pco__embed_touch(pco_runtime *rt) {
  if (rt->inside)
    return;
  signal_tick(rt);
  pco__embed_hold_loop(rt);
}

static pco__post *take(pco_runtime *rt, bool close_it) {
  pthread_mutex_lock(&rt->lock);
  pco__post *first = rt->posts;
  rt->posts = NULL;
  rt->last_post = &rt->posts;
  rt->closed |= close_it;
  if (atomic_exchange(&rt->signalled, false) && !close_it) {
    uint64_t n;
    while (read(rt->wake_fd, &n, sizeof n) < 0 && errno == EINTR)
      ;
  }
  pthread_mutex_unlock(&rt->lock);
  return first;
}

static void run(pco_runtime *rt, pco__post *p) {
  while (p) {
    pco__post *next = p->next;
    pco__post copy = *p;
    free(p);
    copy.fn(rt, copy.ud);
    p = next;
  }
}

bool pco__embed_run_posts(pco_runtime *rt) {
  if (!atomic_load_explicit(&rt->signalled, memory_order_acquire))
    return false;
  pco__post *first = take(rt, false);
  for (pco__post *p = first; p; p = p->next)
    rt->stats.posts++;
  run(rt, first);
  return first != NULL;
}

void pco__embed_close_posts(pco_runtime *rt) {
  run(NULL, take(rt, true));
}
