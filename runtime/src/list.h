/* SPDX-License-Identifier: MIT */
/*
 * Intrusive lists: a circular doubly linked one for objects that may leave
 * from the middle, and PCO_CONTAINER to get from a node to its object.
 *
 * Invariant: a node that is in no list points to itself, so removing twice is
 * harmless.
 */
#ifndef PCO_LIST_H
#define PCO_LIST_H

#include <stdbool.h>
#include <stddef.h>

/* The object of `type` whose member `member` is at `ptr`. */
#define PCO_CONTAINER(ptr, type, member)                                       \
  ((type *)((char *)(ptr)-offsetof(type, member)))

typedef struct pco__node {
  struct pco__node *next;
  struct pco__node *prev;
} pco__node;

static inline void pco__list_init(pco__node *n) {
  n->next = n->prev = n;
}

static inline bool pco__list_empty(const pco__node *list) {
  return list->next == list;
}

static inline void pco__list_remove(pco__node *n) {
  n->prev->next = n->next;
  n->next->prev = n->prev;
  pco__list_init(n);
}

/* Puts n at the end of list; n is in no list. */
static inline void pco__list_append(pco__node *list, pco__node *n) {
  n->prev = list->prev;
  n->next = list;
  list->prev->next = n;
  list->prev = n;
}

/* Takes the first node out, or returns NULL. */
static inline pco__node *pco__list_shift(pco__node *list) {
  if (pco__list_empty(list))
    return NULL;
  pco__node *n = list->next;
  pco__list_remove(n);
  return n;
}

#endif /* PCO_LIST_H */
