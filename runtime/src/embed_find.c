/* SPDX-License-Identifier: MIT */
/*
 * glob and walk of a host in C: calls of several ops.  Each is taken by the
 * runtime's thread when it has ended, in the tick or in the wait that hears of
 * it, which makes the next one.
 */
#include <stdlib.h>
#include <string.h>

#include "embed_file.h"
#include "fs_glob.h"
#include "fs_walk.h"

#define DEFAULT_MAX (64u << 20) /* bytes of what a walk has found */

/* ---- glob ---------------------------------------------------------------- */

static pco__op *fail(pco__op *op, pco__error *err) {
  op->error = err;
  return NULL;
}

static pco__op *next_glob(pco_pending *p) {
  pco__error *err = NULL;
  int rc = pco__glob_take(pco__file_op_of(p), &err);
  if (rc <= 0)
    return fail(p->op, err);
  pco__op *next = pco__glob_again(p->op);
  return next ? next : fail(p->op, pco__error_no_memory());
}

int pco_file_glob(pco_box *box, const char *pattern, const pco_file_opts *opts,
                  pco_done_fn done, void *ud, pco_pending **out) {
  static const pco__file_call call = {&pco__fs_glob_class, PCO__FS_LIST,
                                      PCO_FILE_HIDDEN, 0};
  pco__caller c = pco__call_from(done, ud, out);
  pco_file_opts own;
  pco_pending *p;
  int rc = pco__file_op(box, &call, pattern, opts, &own, &c, &p);
  if (rc < 0)
    return rc;
  p->next = next_glob;
  rc = pco__glob_begin(pco__file_op_of(p), pattern,
                       (own.flags & PCO_FILE_HIDDEN) != 0);
  if (rc == PCO_EINVAL)
    return pco__call_drop(
        p, pco__embed_fail(c.rt, rc, "the pattern has more than %d components",
                           PCO__GLOB_MAX_PARTS));
  if (rc < 0)
    p->op->arena.failed = true;
  return pco__call_start(&c, p);
}

int pco_pending_path(pco_pending *pending, size_t i, const char **path) {
  if (!path)
    return PCO_EINVAL;
  *path = NULL;
  int rc = pco_pending_code(pending);
  if (rc < 0)
    return rc;
  if (!pco__call_is(pending, &pco__fs_glob_class))
    return UV_ENOENT;
  *path = pco__glob_path(pco__file_op_of(pending)->glob, i);
  return *path ? 1 : 0;
}

/* ---- walk ---------------------------------------------------------------- */

/* The entries are p->entries, in its arena, with room for `room`. */
typedef struct pco__found {
  pco__walk *walk; /* owned */
  size_t room;
  size_t bytes;
  size_t most;
  uint64_t until; /* uv_hrtime(), or 0 */
} pco__found;

void pco__found_free(pco__found *f) {
  if (!f)
    return;
  pco__walk_free(f->walk);
  free(f);
}

static bool make_room(pco_pending *p) {
  pco__found *f = p->found;
  if (p->n_entries < f->room)
    return true;
  size_t room = f->room ? f->room * 2 : 64;
  pco__entry **entries =
      pco__arena_alloc(&p->arena, room * sizeof(pco__entry *));
  if (!entries)
    return false;
  if (p->n_entries)
    memcpy(entries, p->entries, p->n_entries * sizeof(pco__entry *));
  p->entries = entries;
  f->room = room;
  return true;
}

/* Keeps an entry under its path: 0, PCO_ELIMIT or UV_ENOMEM. */
static int keep(pco_pending *p, const pco__entry *e, const char *path) {
  pco__entry *copy = pco__arena_alloc(&p->arena, sizeof *copy);
  char *name = pco__arena_string(&p->arena, path);
  if (!copy || !name || !make_room(p))
    return UV_ENOMEM;
  *copy = *e;
  copy->next = NULL;
  copy->name = name;
  copy->link = e->link ? pco__arena_string(&p->arena, e->link) : NULL;
  p->entries[p->n_entries++] = copy;
  p->found->bytes += sizeof *copy + strlen(path) + 1;
  return p->found->bytes > p->found->most ? PCO_ELIMIT : 0;
}

static pco__error *keep_error(const pco_pending *p, int rc) {
  if (rc != PCO_ELIMIT)
    return pco__error_no_memory();
  pco__error *err = pco__error_new(
      rc, PCO_SOURCE_HOST, NULL,
      "there is more than max_size = %zu bytes of entries", p->found->most);
  err->limit = "max_size";
  return err;
}

/* Keeps what comes until a directory is to be listed, or the end. */
static pco__error *keep_all(pco_pending *p) {
  pco__walk *w = p->found->walk;
  const char *path;
  const pco__entry *e = NULL;
  while (!w->next && (e = pco__walk_look(w, &path)) != NULL) {
    int rc = keep(p, e, path);
    if (rc < 0)
      return keep_error(p, rc);
    pco__walk_forward(w);
  }
  return !w->next && !path ? pco__error_no_memory() : NULL;
}

/* Fills in what an op of a walk lists. */
static void aim(pco_pending *p, pco__fs_op *o) {
  pco__found *f = p->found;
  pco__walk_aim(f->walk, o);
  if (!f->until)
    return;
  uint64_t now = uv_hrtime();
  o->op.timeout = now < f->until ? (int64_t)(f->until - now) : 0;
}

static pco__op *next_walk(pco_pending *p) {
  pco__fs_op *o = pco__file_op_of(p);
  pco__error *err = NULL;
  if (pco__walk_take(p->found->walk, o, &err) == 0)
    err = keep_all(p);
  if (err || !p->found->walk->next)
    return fail(p->op, err);
  pco__op *op = pco__op_new(p->op->cls, sizeof *o, p->op->loop);
  if (!op)
    return fail(p->op, pco__error_no_memory());
  pco__fs_op *next = PCO_CONTAINER(op, pco__fs_op, op);
  pco__sandbox_ref(o->sandbox);
  next->sandbox = o->sandbox;
  op->timeout = -1;
  aim(p, next);
  if (!op->arena.failed)
    return op;
  pco__op_unref(op);
  return fail(p->op, pco__error_no_memory());
}

static pco__found *new_found(const pco_file_opts *own, const char *path) {
  const pco__walk options = {
      .depth = own->depth ? own->depth : UINT64_MAX,
      .flags = own->flags & PCO_FS_NOFOLLOW,
      .skips = (own->flags & PCO_FILE_SKIP) != 0,
  };
  pco__found *f = calloc(1, sizeof *f);
  if (!f)
    return NULL;
  f->walk = pco__walk_new(&options, path);
  f->most = own->max_size ? own->max_size : DEFAULT_MAX;
  if (own->timeout_ns)
    f->until = uv_hrtime() + (uint64_t)own->timeout_ns;
  if (f->walk)
    return f;
  free(f);
  return NULL;
}

int pco_file_walk(pco_box *box, const char *path, const pco_file_opts *opts,
                  pco_done_fn done, void *ud, pco_pending **out) {
  static const pco__file_call call = {&pco__fs_walk_class, PCO__FS_LIST,
                                      PCO_FS_NOFOLLOW | PCO_FILE_SKIP,
                                      PCO__TAKES_MAX_SIZE | PCO__TAKES_DEPTH};
  pco__caller c = pco__call_from(done, ud, out);
  pco_file_opts own;
  pco_pending *p;
  int rc = pco__file_op(box, &call, path, opts, &own, &c, &p);
  if (rc < 0)
    return rc;
  p->next = next_walk;
  p->found = new_found(&own, path);
  if (p->found)
    aim(p, pco__file_op_of(p));
  else
    p->op->arena.failed = true;
  return pco__call_start(&c, p);
}
