/* SPDX-License-Identifier: MIT */
/*
 * The Iterator of FileSystem:walk; see fs_walk.h.  Everything here is for the
 * caller's thread.
 */
#include "lua_walk.h"

#include "fs_walk.h"
#include "lua_args.h"
#include "lua_error.h"
#include "lua_fs.h"
#include "lua_process.h"
#include "lua_wait.h"

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
  const char *path;
  /* The walk owns the path while it is pushed, which may raise. */
  const pco__entry *e = pco__walk_look(it->walk, &path);
  if (!path)
    return fail(L, it, pco__error_no_memory());
  if (!e) {
    pco__walk_close(L, it);
    lua_pushnil(L);
    return 1;
  }
  pco__push_stat(L, e);
  lua_pushstring(L, path);
  lua_setfield(L, -2, "path");
  pco__walk_forward(it->walk);
  return 1;
}

static void end_listing(pco__walk *w) {
  if (w->listing)
    pco__op_unref(w->listing);
  w->listing = NULL;
}

/* A directory was listed: its entries come next. */
int pco__push_walk(lua_State *L, pco__op *op) {
  pco__handle *it = pco__handle_at(L, 1);
  pco__walk *w = it->walk;
  pco__error *err = NULL;
  if (!w) { /* closed meanwhile */
    lua_pushnil(L);
    return 1;
  }
  end_listing(w);
  if (pco__walk_take(w, PCO_CONTAINER(op, pco__fs_op, op), &err) < 0)
    return fail(L, it, err);
  return give(L, it);
}

static int list_next(lua_State *L, pco__handle *it) {
  pco__walk *w = it->walk;
  pco__op *op =
      pco__new_op(L, &pco__fs_walk_class, sizeof(pco__fs_op), it->loop);
  pco__fs_op *o = PCO_CONTAINER(op, pco__fs_op, op);
  pco__sandbox_ref(it->sandbox);
  o->sandbox = it->sandbox;
  pco__walk_aim(w, o);
  pco__check_arena(L, "fs.walk", &op->arena);
  op->timeout = it->timeout;
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
  it->walk = pco__walk_new(&options, lua_tostring(L, 2));
  if (!it->walk)
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
