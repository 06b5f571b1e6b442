/* SPDX-License-Identifier: MIT */
/* Finding what matches a pattern, op by op; see fs_glob.h. */
#include "fs_glob.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "glob.h"

#define GLOB_BYTES (64u << 20) /* of paths, found and to be looked at */

/* A path, found or to be looked at. */
typedef struct place {
  struct place *next;
  int part;   /* which part its entries are matched with */
  bool below; /* "**" came by: a link that it became is not entered */
  char path[];
} place;

typedef struct pco__glob {
  atomic_uint refs; /* of ops, which may end on the loop's thread */
  char *pattern;    /* owned; the parts point into it */
  pco__glob_part parts[PCO__GLOB_MAX_PARTS];
  int n_parts;
  bool hidden;
  bool directories; /* the pattern ends with "/" */
  uint64_t until;   /* uv_hrtime(), or 0 */
  place *todo;
  place *found;
  size_t n_found;
  size_t bytes;
  place **paths; /* owned; the found ones, once all are there */
  place *now;    /* what is being looked at */
  bool failed;   /* no memory, or too much */
  bool too_much;
} pco__glob;

static void free_places(place *p) {
  while (p) {
    place *next = p->next;
    free(p);
    p = next;
  }
}

void pco__glob_unref(pco__glob *g) {
  if (!g || atomic_fetch_sub_explicit(&g->refs, 1, memory_order_acq_rel) != 1)
    return;
  free_places(g->todo);
  free_places(g->found);
  free(g->now);
  free(g->paths);
  free(g->pattern);
  free(g);
}

static void drop_place(pco__glob *g, place *p) {
  g->bytes -= sizeof *p + strlen(p->path);
  free(p);
}

static place *new_place(pco__glob *g, const char *path, int part, bool below) {
  size_t len = strlen(path);
  place *p = malloc(sizeof *p + len + 1);
  g->bytes += sizeof *p + len;
  g->too_much |= g->bytes > GLOB_BYTES;
  g->failed |= !p || g->too_much;
  if (!p)
    return NULL;
  p->part = part;
  p->below = below;
  memcpy(p->path, path, len + 1);
  return p;
}

static void put(place **list, place *p) {
  if (!p)
    return;
  p->next = *list;
  *list = p;
}

static void add_todo(pco__glob *g, const char *path, int part, bool below) {
  put(&g->todo, new_place(g, path, part, below));
}

static void add_found(pco__glob *g, const char *path) {
  put(&g->found, new_place(g, path, 0, false));
  g->n_found++;
}

/* ---- matching ------------------------------------------------------------ */

/* An entry of a directory whose name matched the part before `part`. */
static void take_match(pco__glob *g, const char *path, int part,
                       const pco__entry *e) {
  if (part < g->n_parts) {
    if (e->type == PCO_DIRECTORY || e->type == PCO_SYMLINK)
      add_todo(g, path, part, false);
  } else if (!g->directories || e->type == PCO_DIRECTORY) {
    add_found(g, path);
  }
}

static void take_entry(pco__glob *g, const pco__entry *e) {
  int part = g->now->part;
  bool any = g->parts[part].kind == PCO__GLOB_ANY_DEPTH;
  if (!any && !pco__glob_matches(&g->parts[part], e->name, g->hidden))
    return;
  char *path = pco__join_path(g->now->path, e->name);
  if (!path) {
    g->failed = true;
    return;
  }
  if (!any) {
    take_match(g, path, part + 1, e);
  } else {
    bool last = part + 1 == g->n_parts;
    bool shown = pco__glob_matches(&g->parts[part], e->name, g->hidden);
    if (shown && e->type == PCO_DIRECTORY)
      add_todo(g, path, part, true);
    if (last ? shown
             : pco__glob_matches(&g->parts[part + 1], e->name, g->hidden))
      take_match(g, path, last ? part + 1 : part + 2, e);
  }
  free(path);
}

/* What an op found: entries of a directory, or the path itself. */
static void take(pco__glob *g, const pco__fs_op *o) {
  if (o->kind == PCO__FS_STAT) {
    const pco__entry *e = o->entries;
    if (e && (!g->directories || e->type == PCO_DIRECTORY))
      add_found(g, g->now->path);
  } else {
    for (const pco__entry *e = o->entries; e && !g->failed; e = e->next)
      take_entry(g, e);
  }
  drop_place(g, g->now);
  g->now = NULL;
}

/* Takes the next place into g->now, with its literal parts added; false: there
 * is none. */
static bool next_place(pco__glob *g) {
  place *p = g->todo;
  if (!p || g->failed)
    return false;
  g->todo = p->next;
  while (p->part < g->n_parts && g->parts[p->part].kind == PCO__GLOB_LITERAL) {
    char *path = pco__join_path(p->path, g->parts[p->part].text);
    place *longer = path ? new_place(g, path, p->part + 1, p->below) : NULL;
    g->failed |= !longer;
    free(path);
    drop_place(g, p);
    if (!longer)
      return false;
    p = longer;
  }
  g->now = p;
  return true;
}

/* ---- ops ----------------------------------------------------------------- */

/* Fills in what the op is to look at. */
static void aim(pco__fs_op *o) {
  pco__glob *g = o->glob;
  bool whole = g->now->part == g->n_parts;
  o->kind = whole ? PCO__FS_STAT : PCO__FS_LIST;
  o->mode = -1;
  o->length = UINT64_MAX;
  o->forgives = PCO__FORGIVES_MISSING | PCO__FORGIVES_DENIED;
  /* What is looked for may be a link that leads nowhere. */
  if (whole ? !g->directories : g->now->below)
    o->flags |= PCO_FS_NOFOLLOW;
  o->path = pco__arena_string(&o->op.arena, g->now->path);
  if (g->until) {
    uint64_t now = uv_hrtime();
    o->op.timeout = now < g->until ? (int64_t)(g->until - now) : 0;
  }
}

pco__op *pco__glob_again(const pco__op *op) {
  const pco__fs_op *old = (const pco__fs_op *)(const void *)op; /* its first */
  pco__op *next = pco__op_new(op->cls, sizeof *old, op->loop);
  if (!next)
    return NULL;
  pco__fs_op *o = PCO_CONTAINER(next, pco__fs_op, op);
  pco__sandbox_ref(old->sandbox);
  o->sandbox = old->sandbox;
  o->op.timeout = -1;
  o->glob = old->glob;
  atomic_fetch_add_explicit(&o->glob->refs, 1, memory_order_relaxed);
  aim(o);
  if (o->path)
    return next;
  pco__op_unref(next);
  return NULL;
}

static int by_path(const void *a, const void *b) {
  const place *const *x = (const place *const *)a;
  const place *const *y = (const place *const *)b;
  return strcmp((*x)->path, (*y)->path);
}

/* Puts what was found in order, each once; false without memory. */
static bool put_in_order(pco__glob *g) {
  size_t n = 0;
  size_t kept = 0;
  g->paths = malloc((g->n_found + 1) * sizeof(place *));
  if (!g->paths)
    return false;
  for (place *p = g->found; p; p = p->next)
    g->paths[n++] = p;
  qsort(g->paths, n, sizeof(place *), by_path);
  for (size_t i = 0; i < n; i++)
    if (kept == 0 || strcmp(g->paths[i]->path, g->paths[kept - 1]->path) != 0)
      g->paths[kept++] = g->paths[i];
  g->n_found = kept;
  return true;
}

size_t pco__glob_count(const pco__glob *g) {
  return g->paths ? g->n_found : 0;
}

const char *pco__glob_path(const pco__glob *g, size_t i) {
  return i < pco__glob_count(g) ? g->paths[i]->path : NULL;
}

static pco__error *too_much(void) {
  pco__error *err =
      pco__error_new(PCO_ELIMIT, PCO_SOURCE_HOST, NULL,
                     "too many paths to look at for this pattern");
  err->limit = "glob";
  return err;
}

int pco__glob_take(pco__fs_op *o, pco__error **err) {
  pco__glob *g = o->glob;
  take(g, o);
  if (next_place(g))
    return 1;
  if (!g->failed && put_in_order(g))
    return 0;
  *err = g->too_much ? too_much() : pco__error_no_memory();
  return (*err)->code;
}

int pco__glob_begin(pco__fs_op *o, const char *pattern, bool hidden) {
  pco__glob *g = o->glob = calloc(1, sizeof *g);
  if (!g)
    return UV_ENOMEM;
  atomic_init(&g->refs, 1);
  g->pattern = strdup(pattern);
  if (!g->pattern)
    return UV_ENOMEM;
  g->hidden = hidden;
  g->directories = pattern[strlen(pattern) - 1] == '/';
  g->n_parts = pco__glob_split(g->pattern, g->parts, PCO__GLOB_MAX_PARTS);
  if (g->n_parts < 0)
    return PCO_EINVAL;
  if (o->op.timeout >= 0)
    g->until = uv_hrtime() + (uint64_t)o->op.timeout + 1;
  add_todo(g, *pattern == '/' ? "/" : ".", 0, false);
  if (!next_place(g))
    return UV_ENOMEM;
  aim(o);
  return o->op.arena.failed ? UV_ENOMEM : 0;
}
