/* SPDX-License-Identifier: MIT */
/*
 * Core functions of Watch.
 *
 * What happened is asked for; several events come at once and are given one
 * after the other.  Between two questions they wait in the sandbox, where too
 * many of them become one event that says "rescan".  None in answer is the end:
 * what was watched is gone.
 */
#include "lua_file.h"

#include <stdlib.h>
#include <string.h>

#include "lua_args.h"
#include "lua_error.h"
#include "lua_process.h"
#include "lua_wait.h"
#include "lua_walk.h"
#include "wire.h"

#define MAX_PATTERNS 8192 /* bytes: each copies those before it */

int pco__push_watch(lua_State *L, pco__op *op) {
  return pco__push_open_object(L, op, PCO__WATCH);
}

/* ---- beginning ----------------------------------------------------------- */

/* The pattern on top. */
static const char *check_pattern(lua_State *L, const char *name,
                                 const char *key, size_t *len) {
  const char *s =
      lua_type(L, -1) == LUA_TSTRING ? lua_tolstring(L, -1, len) : NULL;
  if (!s || !*len || strlen(s) != *len || *s == '/')
    pco__bad_argument(L, name,
                      "%s must have patterns of names, or of paths below what "
                      "is watched, such as \"*.c\" or \"src/**\" (got %s)",
                      key, pco__describe(L, -1));
  return s;
}

/* Adds the option, a pattern or a sequence of them, to the op's data. */
static void add_patterns(lua_State *L, int options, pco__fs_op *o,
                         const char *key) {
  const char *name = o->op.cls->name;
  if (!pco__get_option(L, options, key))
    return;
  int top = lua_gettop(L);
  bool one = lua_type(L, top) == LUA_TSTRING;
  if (!one && !lua_istable(L, top))
    pco__bad_argument(L, name,
                      "%s must be a pattern or a sequence of them (got "
                      "%s)",
                      key, pco__describe(L, top));
  lua_Integer n = one ? 1 : pco__arg_sequence(L, top, name, key);
  for (lua_Integer i = 1; i <= n; i++) {
    size_t len = 0;
    if (one)
      lua_pushvalue(L, top);
    else
      lua_rawgeti(L, top, i);
    const char *s = check_pattern(L, name, key, &len);
    char *data = pco__arena_alloc(&o->op.arena, o->len + len + 2);
    pco__check_arena(L, name, &o->op.arena);
    if (o->len)
      memcpy(data, o->data, o->len);
    data[o->len] = key[0] == 'i' ? 'i' : 'x';
    memcpy(data + o->len + 1, s, len + 1);
    o->data = data;
    o->len += len + 2;
    lua_settop(L, top);
  }
  lua_settop(L, top - 1);
  if (o->len > MAX_PATTERNS)
    pco__bad_argument(L, name, "include and exclude are more than %d bytes",
                      MAX_PATTERNS);
}

int pco__fs_watch(lua_State *L) {
  static const char *const known[] = {"recursive", "include", "exclude",
                                      "follow",    "timeout", NULL};
  const char *name = pco__fs_watch_class.name;
  pco__handle *h = pco__open_self(L, PCO__FILESYSTEM, name);
  lua_settop(L, 3);
  pco__check_options(L, 3, name, known);
  pco__op *op =
      pco__new_op(L, &pco__fs_watch_class, sizeof(pco__fs_op), h->loop);
  pco__fs_op *o = PCO_CONTAINER(op, pco__fs_op, op);
  pco__sandbox_ref(h->sandbox);
  o->sandbox = h->sandbox;
  o->kind = PCO__FS_WATCH;
  o->mode = -1;
  o->path = pco__arg_path(L, 2, name, "the path", &op->arena);
  if (pco__opt_boolean(L, 3, name, "recursive", false))
    o->flags |= PCO_FS_RECURSIVE;
  if (!pco__opt_boolean(L, 3, name, "follow", true))
    o->flags |= PCO_FS_NOFOLLOW;
  add_patterns(L, 3, o, "include");
  add_patterns(L, 3, o, "exclude");
  op->timeout = pco__opt_seconds(L, 3, name, "timeout", -1, true);
  o->file = pco__file_new(h->sandbox, o->path, o->flags);
  if (!o->file)
    return pco__raise(L, pco__error_no_memory(), name, 1);
  return pco__await(L, 4);
}

/* ---- events -------------------------------------------------------------- */

/* Sets a path below what is watched, as the script would name it. */
static void set_path(lua_State *L, const char *field, const char *base,
                     const char *below) {
  char *path = *below ? pco__join_path(base, below) : NULL;
  lua_pushstring(L, *below && path ? path : base);
  free(path);
  lua_setfield(L, -2, field);
}

/* Pushes the first event, or nil at the end. */
static int give_event(lua_State *L, pco__opened *w) {
  static const char *const types[] = {"create", "modify",    "remove",
                                      "rename", "attribute", "rescan"};
  pco__entry *e = w->events;
  if (!e) {
    lua_pushnil(L);
    return 1;
  }
  lua_createtable(L, 0, 3);
  lua_pushstring(L, types[e->type]);
  lua_setfield(L, -2, "type");
  set_path(L, "path", w->file->path, e->name);
  if (e->link)
    set_path(L, "from", w->file->path, e->link);
  w->events = e->next;
  free(e);
  return 1;
}

int pco__push_event(lua_State *L, pco__op *op) {
  pco__fs_op *o = PCO_CONTAINER(op, pco__fs_op, op);
  pco__handle *h = pco__handle_at(L, 1);
  if (h->kind != PCO__WATCH)
    h = pco__iterated(L, PCO__WATCH, op->cls->name);
  pco__entry **end = &h->opened->events;
  while (*end)
    end = &(*end)->next;
  *end = o->entries;
  o->entries = NULL;
  return give_event(L, h->opened);
}

static int next_event(lua_State *L, pco__handle *h, const pco__op_class *cls,
                      int64_t timeout) {
  if (!h->sync)
    pco__check_wait(L, cls);
  lua_settop(L, 1);
  if (h->opened->events && !pco__opened_is_busy(h->opened))
    return give_event(L, h->opened);
  pco__fs_op *o = pco__opened_op(L, h, cls, PCO__WATCH_EVENTS, 2);
  o->op.timeout = timeout;
  pco__opened_claim(L, h, o);
  return pco__await(L, 2);
}

int pco__watch_next(lua_State *L) {
  const char *name = pco__watch_next_class.name;
  pco__handle *h = pco__open_self(L, PCO__WATCH, name);
  lua_settop(L, 2);
  pco__check_options(L, 2, name, pco__timeout_only);
  int64_t timeout = pco__opt_seconds(L, 2, name, "timeout", -1, true);
  return next_event(L, h, &pco__watch_next_class, timeout);
}

int pco__watch_events(lua_State *L) {
  const char *name = pco__watch_events_class.name;
  pco__handle *h = pco__open_self(L, PCO__WATCH, name);
  lua_settop(L, 2);
  pco__check_options(L, 2, name, pco__timeout_only);
  int64_t timeout = pco__opt_seconds(L, 2, name, "timeout", -1, true);
  pco__push_opened_iterator(L, h, "watch", PCO__ITERATE_EVENTS)->timeout =
      timeout;
  return 4;
}

int pco__events_next(lua_State *L, pco__handle *it) {
  pco__handle *h = pco__iterated(L, PCO__WATCH, "watch.events");
  return next_event(L, h, &pco__watch_events_class, it->timeout);
}

int pco__close_watch(lua_State *L) {
  static const char *const none[] = {NULL};
  return pco__opened_close(L, PCO__WATCH, &pco__watch_close_class, none);
}
