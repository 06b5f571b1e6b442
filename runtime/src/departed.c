/* SPDX-License-Identifier: MIT */
/* Exit statuses that are kept; see departed.h. */
#include "departed.h"

#include <string.h>

static size_t weight(const pco__process *p) {
  size_t n = 0;
  for (char **s = p->argv; *s; s++)
    n += strlen(*s) + 1 + sizeof *s;
  return n;
}

static void forget(pco__sandbox *sb, pco__process *p) {
  pco__list_remove(&p->departed_node);
  sb->n_departed--;
  sb->departed_bytes -= weight(p);
  pco__process_unref(p);
}

static pco__process *oldest(const pco__sandbox *sb) {
  return PCO_CONTAINER(sb->departed.next, pco__process, departed_node);
}

/* What it wrote was thrown away, or is with whoever waited for it. */
static void drop_output(pco__process *p) {
  pco__result_unref(p->result);
  p->result = NULL;
  for (int i = 0; i < 2; i++)
    pco__capture_free(&p->captures[i]);
}

/* Handles go in any order; the list is in that of the ends. */
static void insert(pco__sandbox *sb, pco__process *p) {
  pco__node *n = sb->departed.prev;
  while (n != &sb->departed &&
         PCO_CONTAINER(n, pco__process, departed_node)->nth_exit > p->nth_exit)
    n = n->prev;
  pco__list_append(n->next, &p->departed_node);
}

void pco__departed_keep(pco__process *p) {
  pco__sandbox *sb = p->sandbox;
  drop_output(p);
  insert(sb, p);
  sb->n_departed++;
  sb->departed_bytes += weight(p);
  while (sb->n_departed > PCO__DEPARTED_COUNT ||
         sb->departed_bytes > PCO__DEPARTED_BYTES)
    forget(sb, oldest(sb));
}

pco__process *pco__departed_find(const pco__sandbox *sb, int64_t pid) {
  for (pco__node *n = sb->departed.prev; n != &sb->departed; n = n->prev) {
    pco__process *p = PCO_CONTAINER(n, pco__process, departed_node);
    if (p->pid == pid)
      return p;
  }
  return NULL;
}

void pco__departed_forget_all(pco__sandbox *sb) {
  while (!pco__list_empty(&sb->departed))
    forget(sb, oldest(sb));
}
