/* SPDX-License-Identifier: MIT */
/* Walking through a tree, list by list; see fs_walk.h. */
#include "fs_walk.h"

#include <stdlib.h>
#include <string.h>

#define WALK_BYTES (128u * 1024 * 1024) /* of entries that wait */

/* A directory that was listed; the entries that were not given yet. */
typedef struct pco__walk_level {
  struct pco__walk_level *up;
  char *path;
  pco__entry *entries; /* in byte order */
} level;

pco__walk *pco__walk_new(const pco__walk *options, const char *path) {
  pco__walk *w = calloc(1, sizeof *w);
  if (!w)
    return NULL;
  w->depth = options->depth;
  w->flags = options->flags;
  w->skips = options->skips;
  w->next = strdup(path);
  if (w->next)
    return w;
  free(w);
  return NULL;
}

static size_t entry_size(const pco__entry *e) {
  return sizeof *e + strlen(e->name) + (e->link ? strlen(e->link) : 0) + 2;
}

static void drop_first(pco__walk *w) {
  pco__entry *e = w->top->entries;
  w->top->entries = e->next;
  w->bytes -= entry_size(e);
  free(e);
}

static void drop_level(pco__walk *w) {
  level *l = w->top;
  while (l->entries)
    drop_first(w);
  w->top = l->up;
  w->n--;
  free(l->path);
  free(l);
}

void pco__walk_free(pco__walk *w) {
  if (!w)
    return;
  if (w->listing)
    pco__op_unref(w->listing);
  while (w->top)
    drop_level(w);
  free(w->next);
  free(w);
}

/* ---- listing ------------------------------------------------------------- */

void pco__walk_aim(pco__walk *w, pco__fs_op *o) {
  o->kind = PCO__FS_LIST;
  o->mode = -1;
  o->length = UINT64_MAX;
  o->path = pco__arena_string(&o->op.arena, w->next);
  o->flags = w->n ? PCO_FS_NOFOLLOW : w->flags;
  o->forgives = (w->n ? PCO__FORGIVES_MISSING : 0u) |
                (w->skips ? PCO__FORGIVES_DENIED : 0u);
  free(w->next);
  w->next = NULL;
}

/* Takes the entries of an op, in byte order; false without memory. */
static bool take_sorted(pco__fs_op *o, level *l) {
  pco__entry **sorted = malloc((o->n_entries + 1) * sizeof *sorted);
  size_t n = 0;
  if (!sorted)
    return false;
  for (pco__entry *e = o->entries; e; e = e->next)
    sorted[n++] = e;
  o->entries = NULL;
  qsort(sorted, n, sizeof *sorted, pco__by_name);
  sorted[n] = NULL;
  for (size_t i = 0; i < n; i++)
    sorted[i]->next = sorted[i + 1];
  l->entries = sorted[0];
  free(sorted);
  return true;
}

static pco__error *too_much(const char *path) {
  pco__error *err = pco__error_new(PCO_ELIMIT, PCO_SOURCE_HOST, path,
                                   "too many entries to walk through them");
  err->limit = "walk";
  return err;
}

int pco__walk_take(pco__walk *w, pco__fs_op *o, pco__error **err) {
  level *l = calloc(1, sizeof *l);
  char *path = strdup(o->path);
  if (!l || !path || !take_sorted(o, l)) {
    free(path);
    free(l);
    *err = pco__error_no_memory();
    return UV_ENOMEM;
  }
  l->path = path;
  l->up = w->top;
  w->top = l;
  w->n++;
  for (const pco__entry *e = l->entries; e; e = e->next)
    w->bytes += entry_size(e);
  if (w->bytes <= WALK_BYTES)
    return 0;
  *err = too_much(l->path);
  return PCO_ELIMIT;
}

/* ---- giving -------------------------------------------------------------- */

const pco__entry *pco__walk_look(pco__walk *w, const char **path) {
  *path = "";
  while (w->top && !w->top->entries)
    drop_level(w);
  if (!w->top)
    return NULL;
  const pco__entry *e = w->top->entries;
  free(w->next);
  *path = w->next = pco__join_path(w->top->path, e->name);
  return w->next ? e : NULL;
}

void pco__walk_forward(pco__walk *w) {
  const pco__entry *e = w->top->entries;
  if (e->type != PCO_DIRECTORY || w->n >= w->depth) {
    free(w->next);
    w->next = NULL;
  }
  drop_first(w);
}
