/* SPDX-License-Identifier: MIT */
/*
 * A lock that a forked child finds open, for what the instances of a plugin
 * share.
 *
 * A host may fork while another of its threads holds a lock; that thread is not
 * in the child, so nobody would ever unlock it there.  This one lies in a page
 * that the kernel empties in the child, and an empty page is an open mutex.
 * What it guards must therefore be whole at each step: link a thing in when it
 * is complete.
 *
 * Like plugin_util.h it is static inline, no part of the ABI, and compiles as
 * C11 and C++17.  It needs -pthread, and the declarations that strict C11
 * hides: include it first, or define _DEFAULT_SOURCE or _GNU_SOURCE.
 */
#ifndef PORTICO_PLUGIN_LOCK_H
#define PORTICO_PLUGIN_LOCK_H

#if !defined _DEFAULT_SOURCE && !defined _GNU_SOURCE
#  define _DEFAULT_SOURCE 1
#endif

#include <pthread.h>
#include <stddef.h>
#include <sys/mman.h>

#ifndef MAP_ANONYMOUS
#  error "portico/plugin_lock.h: define _DEFAULT_SOURCE, or include it first"
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pco_lock {
  pthread_mutex_t *mutex; /* of the first use on; atomic */
  pthread_mutex_t spare;  /* where there is no page to be had */
} pco_lock;

/* For a static one.  It is never destroyed. */
#define PCO_LOCK_INIT                                                          \
  { NULL, PTHREAD_MUTEX_INITIALIZER }

/* The page is the process's for good, as the library is.  [any] */
static inline pthread_mutex_t *pco_lock_mutex(pco_lock *l) {
  pthread_mutex_t *mutex = __atomic_load_n(&l->mutex, __ATOMIC_ACQUIRE);
  if (mutex)
    return mutex;
  void *page = mmap(NULL, sizeof *mutex, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  pthread_mutex_t *mine =
      page == MAP_FAILED ? &l->spare : (pthread_mutex_t *)page;
#ifdef MADV_WIPEONFORK
  if (page != MAP_FAILED)
    madvise(page, sizeof *mutex, MADV_WIPEONFORK);
#endif
  if (__atomic_compare_exchange_n(&l->mutex, &mutex, mine, 0, __ATOMIC_ACQ_REL,
                                  __ATOMIC_ACQUIRE))
    return mine;
  if (page != MAP_FAILED)
    munmap(page, sizeof *mutex);
  return mutex; /* another thread's */
}

static inline void pco_lock_take(pco_lock *l) {
  pthread_mutex_lock(pco_lock_mutex(l));
}

static inline void pco_lock_give(pco_lock *l) {
  pthread_mutex_unlock(pco_lock_mutex(l));
}

#ifdef __cplusplus
}
#endif
#endif /* PORTICO_PLUGIN_LOCK_H */
