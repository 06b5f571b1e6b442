/* SPDX-License-Identifier: MIT */
/* Pieces of output; see chunk.h. */
#include "chunk.h"

#include <stdlib.h>
#include <string.h>
#include <uv.h>

void pco__chunks_init(pco__chunks *q) {
  *q = (pco__chunks){.last = &q->first};
}

void pco__chunks_append(pco__chunks *q, pco__chunk *c) {
  c->next = NULL;
  *q->last = c;
  q->last = &c->next;
  q->bytes += c->len - c->start;
  q->count++;
}

const char *pco__stream_name(uint8_t stream) {
  static const char *const names[] = {"stdout", "stderr", "pty"};
  return names[stream];
}

pco__chunk *pco__chunk_new(uint8_t stream, size_t size) {
  pco__chunk *c = malloc(sizeof *c + size);
  if (!c)
    return NULL;
  *c = (pco__chunk){.stream = stream, .len = size};
  return c;
}

pco__chunk *pco__chunk_trim(pco__chunk *c, size_t len) {
  pco__chunk *smaller = len < c->len / 2 ? realloc(c, sizeof *c + len) : NULL;
  c = smaller ? smaller : c;
  c->len = len;
  return c;
}

int pco__chunks_add(pco__chunks *q, uint8_t stream, const void *data,
                    size_t len) {
  pco__chunk *c = pco__chunk_new(stream, len);
  if (!c)
    return UV_ENOMEM;
  memcpy(c->data, data, len);
  pco__chunks_append(q, c);
  return 0;
}

pco__chunk *pco__chunks_shift(pco__chunks *q) {
  pco__chunk *c = q->first;
  if (!c)
    return NULL;
  q->first = c->next;
  if (!q->first)
    q->last = &q->first;
  q->bytes -= c->len - c->start;
  q->count--;
  return c;
}

void pco__chunks_move(pco__chunks *q, pco__chunks *from) {
  if (!from->first)
    return;
  *q->last = from->first;
  q->last = from->last;
  q->bytes += from->bytes;
  q->count += from->count;
  pco__chunks_init(from);
}

void pco__chunks_move_front(pco__chunks *q, pco__chunks *from) {
  pco__chunks rest;
  pco__chunks_init(&rest);
  pco__chunks_move(&rest, q);
  pco__chunks_move(q, from);
  pco__chunks_move(q, &rest);
}

void pco__chunks_free(pco__chunks *q) {
  for (pco__chunk *c; (c = pco__chunks_shift(q)) != NULL;)
    free(c);
}
