/* SPDX-License-Identifier: MIT */
/*
 * The memory of runtimes.  A slot is never freed: when its runtime is gone it
 * serves the next one, so a stale pointer finds a closed runtime and not
 * whatever malloc gave that memory to.  The list only grows, and slots are
 * claimed without a lock, which a forked child might find held.
 */
#include <stdlib.h>
#include <string.h>

#include "embed.h"

static pco_runtime *_Atomic first_slot;

/* Zeroes what does not outlive a runtime. */
static void clear(pco_runtime *rt) {
  size_t from = offsetof(pco_runtime, thread);
  memset((char *)rt + from, 0, sizeof *rt - from);
}

static bool claim(pco_runtime *rt) {
  int free_slot = PCO__SLOT_FREE;
  return atomic_compare_exchange_strong(&rt->slot, &free_slot, PCO__SLOT_DEAD);
}

static pco_runtime *add_slot(void) {
  pco_runtime *rt = calloc(1, sizeof *rt);
  if (!rt)
    return NULL;
  if (pthread_mutex_init(&rt->lock, NULL) != 0) {
    free(rt);
    return NULL;
  }
  atomic_init(&rt->slot, PCO__SLOT_DEAD);
  rt->next_slot = atomic_load(&first_slot);
  while (!atomic_compare_exchange_weak(&first_slot, &rt->next_slot, rt))
    ;
  return rt;
}

/* Sees to the page that tells of a fork: one that the parent mapped is empty
 * here. */
static bool is_ours(pco_runtime *rt) {
  if (rt->not_forked && *(volatile unsigned char *)rt->not_forked)
    return true;
  return pco__map_fork_page(&rt->not_forked) == 0;
}

pco_runtime *pco__slot_take(void) {
  pco_runtime *rt = atomic_load(&first_slot);
  while (rt && !claim(rt))
    rt = rt->next_slot;
  if (!rt)
    rt = add_slot();
  if (!rt || !is_ours(rt)) {
    if (rt)
      pco__slot_give(rt);
    return NULL;
  }
  clear(rt);
  pthread_mutex_lock(&rt->lock);
  rt->posts = NULL;
  rt->last_post = &rt->posts;
  rt->closed = false;
  atomic_fetch_add(&rt->generation, 1);
  pthread_mutex_unlock(&rt->lock);
  return rt;
}

void pco__slot_give(pco_runtime *rt) {
  atomic_store(&rt->slot, PCO__SLOT_FREE);
}
