/* SPDX-License-Identifier: MIT */
/*
 * See ring.h.
 */
#include "ring.h"

#include "wire.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SIZE ((size_t)PCO_RELAY_CREDIT)

static size_t least(size_t a, size_t b) {
  return a < b ? a : b;
}

int pco_ring_init(pco_ring *g) {
  if (!g->data)
    g->data = malloc(SIZE);
  return g->data ? 0 : -ENOMEM;
}

void pco_ring_free(pco_ring *g) {
  free(g->data);
  *g = (pco_ring){0};
}

size_t pco_ring_add(pco_ring *g, const uint8_t *data, size_t len) {
  size_t all = g->len + len;
  size_t over = all > SIZE ? all - SIZE : 0;
  pco_ring_take(g, over);
  size_t to = (g->at + g->len) % SIZE;
  size_t first = least(SIZE - to, len);
  memcpy(g->data + to, data, first);
  memcpy(g->data, data + first, len - first);
  g->len += len;
  return over;
}

size_t pco_ring_peek(const pco_ring *g, size_t most, const uint8_t **data) {
  *data = g->data + g->at;
  return least(least(SIZE - g->at, g->len), most);
}

void pco_ring_take(pco_ring *g, size_t n) {
  g->at = (g->at + n) % SIZE;
  g->len -= n;
}
