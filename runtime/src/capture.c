/* SPDX-License-Identifier: MIT */
/* Head and tail of a stream within a bound; see capture.h. */
#include "capture.h"

#include <stdlib.h>
#include <string.h>
#include <uv.h>

void pco__capture_init(pco__capture *c, size_t max) {
  *c = (pco__capture){.max = max, .ring = max - max / 2};
}

size_t pco__capture_head(const pco__capture *c) {
  return c->max - c->max / 2;
}

static int reserve(pco__capture *c, size_t need) {
  if (need <= c->cap)
    return 0;
  size_t cap = c->cap ? c->cap : 4096;
  while (cap < need)
    cap *= 2;
  cap = cap < c->max ? cap : c->max;
  char *data = realloc(c->data, cap);
  if (!data)
    return UV_ENOMEM;
  c->data = data;
  c->cap = cap;
  return 0;
}

/* Overwrites the oldest bytes of the tail; the buffer is full. */
static void add_to_ring(pco__capture *c, const char *data, size_t len) {
  size_t head = pco__capture_head(c);
  size_t size = c->max - head;
  c->dropped += len;
  if (size == 0)
    return;
  if (len > size) {
    data += len - size;
    len = size;
  }
  size_t at_end = c->max - c->ring;
  size_t first = len < at_end ? len : at_end;
  memcpy(c->data + c->ring, data, first);
  memcpy(c->data + head, data + first, len - first);
  c->ring = first == at_end ? head + (len - first) : c->ring + first;
}

int pco__capture_add(pco__capture *c, const char *data, size_t len) {
  size_t room = c->max - c->len;
  size_t first = len < room ? len : room;
  if (first) {
    if (reserve(c, c->len + first) < 0) {
      c->dropped += len;
      return UV_ENOMEM;
    }
    memcpy(c->data + c->len, data, first);
    c->len += first;
  }
  if (len > first)
    add_to_ring(c, data + first, len - first);
  return 0;
}

static void reverse(char *from, char *to) {
  while (from < to) {
    char byte = *from;
    *from++ = *--to;
    *to = byte;
  }
}

void pco__capture_finish(pco__capture *c) {
  size_t head = pco__capture_head(c);
  if (!c->dropped || c->ring == head || c->len < c->max)
    return;
  /* Rotate [head, max) left to where the oldest byte is, by three reversals. */
  reverse(c->data + head, c->data + c->ring);
  reverse(c->data + c->ring, c->data + c->max);
  reverse(c->data + head, c->data + c->max);
  c->ring = head;
}

void pco__capture_free(pco__capture *c) {
  free(c->data);
  *c = (pco__capture){0};
}
