/* SPDX-License-Identifier: MIT */
/* Open files and watches; see fs_file.h. */
#include "fs_file.h"

#include <stdlib.h>
#include <string.h>

uint32_t pco__file_mode(const char *s) {
  uint32_t flags = 0;
  bool plus = false;
  switch (*s++) {
  case 'r':
    flags = PCO_OPEN_READ;
    break;
  case 'w':
    flags = PCO_OPEN_WRITE | PCO_OPEN_CREATE | PCO_OPEN_TRUNCATE;
    break;
  case 'a':
    flags = PCO_OPEN_WRITE | PCO_OPEN_CREATE | PCO_FS_APPEND;
    break;
  default:
    return 0;
  }
  for (; *s; s++) {
    if (*s == '+' && !plus)
      plus = true;
    else if (*s == 'x' && flags & PCO_OPEN_TRUNCATE)
      flags = (flags | PCO_OPEN_EXCLUSIVE) & ~(uint32_t)PCO_OPEN_TRUNCATE;
    else if (*s != 'b' || s[1])
      return 0;
  }
  return plus ? flags | PCO_OPEN_READ | PCO_OPEN_WRITE : flags;
}

pco__file *pco__file_new(pco__sandbox *sb, const char *path, uint32_t flags) {
  size_t size = strlen(path) + 1;
  pco__file *f = calloc(1, sizeof *f + size);
  if (!f)
    return NULL;
  atomic_init(&f->refs, 1);
  pco__sandbox_ref(sb);
  f->sandbox = sb;
  f->flags = flags;
  memcpy(f->path, path, size);
  return f;
}

void pco__file_ref(pco__file *f) {
  atomic_fetch_add_explicit(&f->refs, 1, memory_order_relaxed);
}

bool pco__file_is_alive(const pco__file *f) {
  return f->sandbox->state == PCO__SANDBOX_RUNNING;
}

static void destroy(pco__file *f) {
  while (f->late) {
    pco__entry *next = f->late->next;
    free(f->late);
    f->late = next;
  }
  pco__sandbox_unref(f->sandbox);
  free(f);
}

/* ---- closing in the background ------------------------------------------- */

static int on_closed(pco__link_request *r, const pco_wire_header *h,
                     const uint8_t *payload) {
  (void)h;
  (void)payload;
  destroy(PCO_CONTAINER(r, pco__file, request));
  return 0;
}

static void on_lost(pco__link_request *r, const pco__error *err) {
  (void)err;
  destroy(PCO_CONTAINER(r, pco__file, request));
}

static void close_now(pco__call *call) {
  pco__file *f = PCO_CONTAINER(call, pco__file, closing);
  pco__link *link = f->sandbox->link;
  if (!pco__file_is_alive(f) || !link || !f->id) {
    destroy(f);
    return;
  }
  pco_wire_buf frame = {0};
  f->request.id = pco__link_next(link);
  f->request.type = PCO_WIRE_FILE_CLOSE;
  f->request.frame = on_closed;
  f->request.lost = on_lost;
  pco_wire_begin(&frame, PCO_WIRE_FILE_CLOSE, 0, f->request.id);
  pco_wire_number(&frame, PCO_TAG_TARGET, f->id);
  pco__link_request_send(link, &f->request, &frame, NULL, 0, false);
}

void pco__file_unref(pco__file *f) {
  if (!f || atomic_fetch_sub_explicit(&f->refs, 1, memory_order_acq_rel) != 1)
    return;
  f->closing.fn = close_now;
  if (!f->open || pco__loop_post(f->sandbox->loop, &f->closing) < 0)
    destroy(f);
}

/* ---- events -------------------------------------------------------------- */

bool pco__file_take_late(pco__fs_op *o) {
  o->entries = o->file->late;
  o->file->late = NULL;
  return o->entries != NULL;
}

void pco__file_keep_late(pco__fs_op *o) {
  pco__entry **end = &o->file->late;
  while (*end)
    end = &(*end)->next;
  *end = o->entries;
  o->entries = NULL;
}
