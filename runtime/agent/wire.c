/* SPDX-License-Identifier: MIT */
/*
 * Encoding and decoding of frames; see wire.h for the format.
 *
 * Invariants: an encoder never grows past PCO_WIRE_MAX_PAYLOAD, a decoder never
 * reads past the payload it was given and never allocates.
 */
#include "wire.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FIELD_HEADER 8u

static void put16(uint8_t *p, uint16_t v) {
  p[0] = (uint8_t)v;
  p[1] = (uint8_t)(v >> 8);
}

static void put32(uint8_t *p, uint32_t v) {
  put16(p, (uint16_t)v);
  put16(p + 2, (uint16_t)(v >> 16));
}

static void put64(uint8_t *p, uint64_t v) {
  put32(p, (uint32_t)v);
  put32(p + 4, (uint32_t)(v >> 32));
}

static uint16_t get16(const uint8_t *p) {
  return (uint16_t)(p[0] | p[1] << 8);
}

static uint32_t get32(const uint8_t *p) {
  return get16(p) | (uint32_t)get16(p + 2) << 16;
}

static uint64_t get64(const uint8_t *p) {
  return get32(p) | (uint64_t)get32(p + 4) << 32;
}

/* ---- encoding ----------------------------------------------------------- */

/* Makes room for `more` bytes; false (and b->error) if there is none. */
static bool reserve(pco_wire_buf *b, size_t more) {
  if (b->error != 0)
    return false;
  if (more > PCO_WIRE_HEADER + PCO_WIRE_MAX_PAYLOAD - b->len) {
    b->error = -EMSGSIZE;
    return false;
  }
  size_t need = b->len + more;
  if (need <= b->cap)
    return true;
  size_t cap = b->cap ? b->cap : 256;
  while (cap < need)
    cap *= 2;
  uint8_t *data = realloc(b->data, cap);
  if (!data) {
    b->error = -ENOMEM;
    return false;
  }
  b->data = data;
  b->cap = cap;
  return true;
}

void pco_wire_begin(pco_wire_buf *b, uint16_t type, uint8_t flags,
                    uint64_t op) {
  b->len = 0;
  b->nest = 0;
  b->error = 0;
  if (!reserve(b, PCO_WIRE_HEADER))
    return;
  put32(b->data, 0);
  put16(b->data + 4, type);
  b->data[6] = 0;
  b->data[7] = flags;
  put64(b->data + 8, op);
  b->len = PCO_WIRE_HEADER;
}

static uint8_t *field(pco_wire_buf *b, uint16_t tag, size_t len) {
  if (len > PCO_WIRE_MAX_PAYLOAD) {
    b->error = b->error ? b->error : -EMSGSIZE;
    return NULL;
  }
  if (!reserve(b, FIELD_HEADER + len))
    return NULL;
  uint8_t *p = b->data + b->len;
  put16(p, tag);
  put16(p + 2, 0);
  put32(p + 4, (uint32_t)len);
  b->len += FIELD_HEADER + len;
  return p + FIELD_HEADER;
}

void pco_wire_number(pco_wire_buf *b, uint16_t tag, uint64_t value) {
  uint8_t *p = field(b, tag, 8);
  if (p)
    put64(p, value);
}

void pco_wire_bytes(pco_wire_buf *b, uint16_t tag, const void *p, size_t len) {
  if (PCO_TAG_KIND(tag) == PCO_TAG_STRING && len && memchr(p, 0, len)) {
    b->error = b->error ? b->error : -EINVAL;
    return;
  }
  uint8_t *to = field(b, tag, len);
  if (to && len)
    memcpy(to, p, len);
}

void pco_wire_string(pco_wire_buf *b, uint16_t tag, const char *s) {
  pco_wire_bytes(b, tag, s, strlen(s));
}

void pco_wire_nest_begin(pco_wire_buf *b, uint16_t tag) {
  if (field(b, tag, 0))
    b->nest = b->len - 4;
}

void pco_wire_nest_end(pco_wire_buf *b) {
  if (b->error == 0 && b->nest)
    put32(b->data + b->nest, (uint32_t)(b->len - b->nest - 4));
  b->nest = 0;
}

int pco_wire_end(pco_wire_buf *b, uint8_t n_fds) {
  if (b->error != 0)
    return b->error;
  put32(b->data, (uint32_t)(b->len - PCO_WIRE_HEADER));
  b->data[PCO_WIRE_N_FDS_AT] = n_fds;
  return 0;
}

void pco_wire_buf_free(pco_wire_buf *b) {
  free(b->data);
  memset(b, 0, sizeof *b);
}

/* ---- decoding ----------------------------------------------------------- */

int pco_wire_header_read(const uint8_t bytes[16], pco_wire_header *out) {
  out->size = get32(bytes);
  out->type = get16(bytes + 4);
  out->n_fds = bytes[PCO_WIRE_N_FDS_AT];
  out->flags = bytes[7];
  out->op = get64(bytes + 8);
  if (out->size > PCO_WIRE_MAX_PAYLOAD || out->n_fds > PCO_WIRE_MAX_FDS ||
      (out->flags & ~PCO_WIRE_MORE) || out->op == 0)
    return -EPROTO;
  return 0;
}

void pco_wire_iter_init(pco_wire_iter *it, const void *payload, size_t len) {
  it->at = payload;
  it->end = it->at + len;
  it->nested = false;
}

/* The rules of a field's kind. */
static bool valid(const pco_wire_iter *it, const pco_wire_field *f) {
  switch (PCO_TAG_KIND(f->tag)) {
  case PCO_TAG_NUMBER:
    return f->len == 8;
  case PCO_TAG_STRING:
    return f->len == 0 || !memchr(f->data, 0, f->len);
  case PCO_TAG_BYTES:
    return true;
  case PCO_TAG_NEST:
    return !it->nested;
  default:
    return false;
  }
}

int pco_wire_next(pco_wire_iter *it, pco_wire_field *out) {
  size_t left = (size_t)(it->end - it->at);
  if (left == 0)
    return 0;
  if (left < FIELD_HEADER)
    return -EPROTO;
  out->tag = get16(it->at);
  out->len = get32(it->at + 4);
  out->data = it->at + FIELD_HEADER;
  out->number = 0;
  if (get16(it->at + 2) != 0 || out->len > left - FIELD_HEADER ||
      !valid(it, out))
    return -EPROTO;
  if (PCO_TAG_KIND(out->tag) == PCO_TAG_NUMBER)
    out->number = get64(out->data);
  it->at = out->data + out->len;
  return 1;
}

void pco_wire_enter(pco_wire_iter *it, const pco_wire_field *nest) {
  pco_wire_iter_init(it, nest->data, nest->len);
  it->nested = true;
}

static int check(pco_wire_iter it) {
  pco_wire_field f;
  int rc;
  while ((rc = pco_wire_next(&it, &f)) == 1) {
    if (PCO_TAG_KIND(f.tag) != PCO_TAG_NEST)
      continue;
    pco_wire_iter inner;
    pco_wire_enter(&inner, &f);
    pco_wire_field g;
    int inner_rc;
    while ((inner_rc = pco_wire_next(&inner, &g)) == 1)
      ;
    if (inner_rc < 0)
      return inner_rc;
  }
  return rc;
}

int pco_wire_check(const void *payload, size_t len) {
  pco_wire_iter it;
  pco_wire_iter_init(&it, payload, len);
  return check(it);
}

bool pco_wire_is_entry_name(const pco_wire_field *f) {
  const char *s = (const char *)f->data;
  if (f->len == 0 || memchr(s, '/', f->len))
    return false;
  return !(s[0] == '.' && (f->len == 1 || (f->len == 2 && s[1] == '.')));
}
