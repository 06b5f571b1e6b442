/* SPDX-License-Identifier: MIT */
/*
 * The Iterator of FileSystem:walk: a tree, directory by directory.
 *
 * Each directory is one list, asked for when the script comes to it, so a walk
 * that is left early has cost little and one that is not taken further holds
 * nothing open inside.  Links are told of and never entered.  What is held are
 * the entries not given yet of the directories above, which is bounded.
 *
 * Everything here is for the caller's thread.
 */
#include "lua_walk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lua_args.h"
#include "lua_error.h"
#include "lua_fs.h"
#include "lua_process.h"
#include "lua_wait.h"

#define WALK_BYTES (128u * 1024 * 1024) /* of entries that wait */

/* A directory that was listed; the entries that were not given yet. */
typedef struct level {
  struct level *up;
  char *path;
  pco__entry *entries; /* in byte order */
} level;

typedef struct pco__walk {
  level *top;
  char *next;       /* the directory that is to be listed now; or NULL */
  uint64_t depth;   /* levels at most */
  uint64_t n;       /* levels now */
  size_t bytes;     /* of all entries */
  uint32_t flags;   /* for the first directory */
  bool skips;       /* directories that may not be read */
  pco__op *listing; /* a reference: what the last caller waits for, or NULL */
} pco__walk;

/* ---- levels -------------------------------------------------------------- */

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

static void end_listing(pco__walk *w) {
  if (w->listing)
    pco__op_unref(w->listing);
  w->listing = NULL;
}

void pco__walk_free(pco__walk *w) {
  if (!w)
    return;
  end_listing(w);
  while (w->top)
    drop_level(w);
  free(w->next);
  free(w);
}

char *pco__join_path(const char *directory, const char *name) {
  size_t len = strlen(directory);
  while (len > 1 && directory[len - 1] == '/')
    len--;
  if (len == 0 || (len == 1 && directory[0] == '.'))
    return strdup(name);
  bool root = len == 1 && directory[0] == '/';
  size_t size = len + strlen(name) + 2;
  char *path = malloc(size);
  if (path)
    snprintf(path, size, "%.*s%s%s", (int)len, directory, root ? "" : "/",
             name);
  return path;
}

/* ---- giving -------------------------------------------------------------- */

void pco__walk_close(lua_State *L, pco__handle *it) {
  pco__walk_free(it->walk);
  it->walk = NULL;
  pco__mark_closed(L, 1);
}

static int fail(lua_State *L, pco__handle *it, pco__error *err) {
  pco__walk_close(L, it);
  return pco__raise(L, err, "fs.walk", 1);
}

/* Gives the next entry that is there, or nil at the end. */
static int give(lua_State *L, pco__handle *it) {
  pco__walk *w = it->walk;
  while (w->top && !w->top->entries)
    drop_level(w);
  if (!w->top) {
    pco__walk_close(L, it);
    lua_pushnil(L);
    return 1;
  }
  const pco__entry *e = w->top->entries;
  char *path = pco__join_path(w->top->path, e->name);
  if (!path)
    return fail(L, it, pco__error_no_memory());
  /* The walk owns the path while it is pushed, which may raise. */
  free(w->next);
  w->next = path;
  pco__push_stat(L, e);
  lua_pushstring(L, path);
  lua_setfield(L, -2, "path");
  if (e->type != PCO_DIRECTORY || w->n >= w->depth) {
    free(w->next);
    w->next = NULL;
  }
  drop_first(w);
  return 1;
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

/* A directory was listed: its entries come next. */
int pco__push_walk(lua_State *L, pco__op *op) {
  pco__fs_op *o = PCO_CONTAINER(op, pco__fs_op, op);
  pco__handle *it = pco__handle_at(L, 1);
  pco__walk *w = it->walk;
  if (!w) { /* closed meanwhile */
    lua_pushnil(L);
    return 1;
  }
  end_listing(w);
  level *l = calloc(1, sizeof *l);
  char *path = strdup(o->path);
  if (!l || !path || !take_sorted(o, l)) {
    free(path);
    free(l);
    return fail(L, it, pco__error_no_memory());
  }
  l->path = path;
  l->up = w->top;
  w->top = l;
  w->n++;
  for (const pco__entry *e = l->entries; e; e = e->next)
    w->bytes += entry_size(e);
  if (w->bytes <= WALK_BYTES)
    return give(L, it);
  pco__error *err = pco__error_new(PCO_ELIMIT, PCO_SOURCE_HOST, l->path,
                                   "too many entries to walk through them");
  err->limit = "walk";
  return fail(L, it, err);
}

static int list_next(lua_State *L, pco__handle *it) {
  pco__walk *w = it->walk;
  pco__op *op =
      pco__new_op(L, &pco__fs_walk_class, sizeof(pco__fs_op), it->loop);
  pco__fs_op *o = PCO_CONTAINER(op, pco__fs_op, op);
  pco__sandbox_ref(it->sandbox);
  o->sandbox = it->sandbox;
  o->kind = PCO__FS_LIST;
  o->mode = -1;
  o->length = UINT64_MAX;
  o->path = pco__arena_string(&op->arena, w->next);
  pco__check_arena(L, "fs.walk", &op->arena);
  o->flags = w->n ? PCO_FS_NOFOLLOW : w->flags;
  o->forgives = (w->n ? PCO__FORGIVES_MISSING : 0u) |
                (w->skips ? PCO__FORGIVES_DENIED : 0u);
  op->timeout = it->timeout;
  free(w->next);
  w->next = NULL;
  w->listing = op;
  atomic_fetch_add(&op->refs, 1);
  return pco__await(L, 2);
}

/* True until the last caller has got what he waits for; what failed, or whose
 * caller is gone, is nobody's any more. */
static bool is_busy(const pco__walk *w) {
  const pco__op *op = w->listing;
  if (!op || atomic_load(&op->refs) == 1)
    return false;
  return atomic_load(&op->word) != PCO__OP_DONE ||
         PCO_CONTAINER(op, const pco__fs_op, op)->succeeded;
}

/* Entries come in order, so there is one who waits for the next. */
static void check_alone(lua_State *L, pco__walk *w) {
  if (is_busy(w))
    pco__raise(L,
               pco__error_new(PCO_EBUSY, PCO_SOURCE_HOST, NULL,
                              "another task waits for the next entry of this "
                              "walk: give each a walk of its own, or one that "
                              "walks and sends entries to the others"),
               pco__fs_walk_class.name, 1);
  end_listing(w);
}

int pco__walk_next(lua_State *L, pco__handle *it) {
  lua_pushliteral(L, "sandbox");
  lua_rawget(L, 1);
  const pco__handle *owner = pco__handle_at(L, -1);
  lua_settop(L, 1);
  if (!owner || owner->closed)
    return pco__raise(L,
                      pco__error_new(PCO_ECLOSED, PCO_SOURCE_HOST, NULL,
                                     "the sandbox is closed"),
                      "iterator.next", 1);
  if (!it->sync)
    pco__check_wait(L, &pco__fs_walk_class);
  check_alone(L, it->walk);
  return it->walk->next ? list_next(L, it) : give(L, it);
}

/* ---- the call ------------------------------------------------------------ */

static void parse(lua_State *L, pco__walk *w) {
  static const char *const choices[] = {"raise", "skip", NULL};
  static const char *const known[] = {"depth", "on_error", "follow", "timeout",
                                      NULL};
  const char *name = pco__fs_walk_class.name;
  pco__check_options(L, 3, name, known);
  w->depth = pco__opt_size(L, 3, name, "depth", UINT64_MAX, UINT64_MAX);
  if (w->depth == 0)
    pco__bad_argument(L, name, "depth must be 1 or more (got 0)");
  w->skips = pco__opt_choice(L, 3, name, "on_error", choices, 0) == 1;
  if (!pco__opt_boolean(L, 3, name, "follow", true))
    w->flags |= PCO_FS_NOFOLLOW;
}

int pco__fs_walk(lua_State *L) {
  const char *name = pco__fs_walk_class.name;
  pco__handle *h = pco__open_self(L, PCO__FILESYSTEM, name);
  pco__walk options = {0};
  lua_settop(L, 3);
  parse(L, &options);
  int64_t timeout = pco__opt_seconds(L, 3, name, "timeout", -1, true);
  pco__check_path(L, 2, name, "the path");
  pco__handle *it =
      pco__push_object(L, PCO__ITERATOR, h->lua, h->loop, h->sync);
  it->allow_in_tasks = h->allow_in_tasks;
  it->format = PCO__ITERATE_WALK;
  it->timeout = timeout;
  pco__sandbox_ref(h->sandbox);
  it->sandbox = h->sandbox;
  it->walk = malloc(sizeof *it->walk);
  if (!it->walk)
    return pco__raise(L, pco__error_no_memory(), name, 1);
  *it->walk = options;
  it->walk->next = strdup(lua_tostring(L, 2));
  if (!it->walk->next)
    return pco__raise(L, pco__error_no_memory(), name, 1);
  lua_pushliteral(L, "sandbox");
  lua_rawget(L, 1);
  lua_setfield(L, -2, "sandbox");
  lua_pushboolean(L, 0);
  lua_setfield(L, -2, "closed");
  lua_pushnil(L);
  lua_pushnil(L);
  lua_pushvalue(L, -3);
  return 4;
}
