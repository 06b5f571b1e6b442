/* SPDX-License-Identifier: MIT */
/*
 * What File and Watch have in common: objects of something that is open in a
 * sandbox.  See lua_file.h.
 */
#include <stdlib.h>
#include <string.h>

#include "lua_args.h"
#include "lua_error.h"
#include "lua_file.h"
#include "lua_process.h"
#include "lua_wait.h"

void pco__opened_free(pco__opened *o) {
  if (!o)
    return;
  while (o->events) {
    pco__entry *next = o->events->next;
    free(o->events);
    o->events = next;
  }
  if (o->call)
    pco__op_unref(o->call);
  pco__file_unref(o->file);
  free(o->buffer);
  free(o);
}

const char *pco__opened_path(const pco__opened *o) {
  return o ? o->file->path : "?";
}

int pco__push_open_object(lua_State *L, pco__op *op, int kind) {
  pco__fs_op *o = PCO_CONTAINER(op, pco__fs_op, op);
  lua_pushliteral(L, "sandbox");
  lua_rawget(L, 1);
  pco__handle *owner = pco__handle_at(L, -1);
  pco__handle *h =
      pco__push_object(L, kind, owner->lua, owner->loop, owner->sync);
  h->allow_in_tasks = owner->allow_in_tasks;
  pco__sandbox_ref(o->sandbox);
  h->sandbox = o->sandbox;
  h->opened = calloc(1, sizeof *h->opened);
  if (!h->opened)
    return pco__raise(L, pco__error_no_memory(), op->cls->name, 1);
  pco__file_ref(o->file);
  h->opened->file = o->file;
  lua_pushstring(L, o->file->path);
  lua_setfield(L, -2, "path");
  lua_insert(L, -2);
  lua_setfield(L, -2, "sandbox");
  lua_pushboolean(L, 0);
  lua_setfield(L, -2, "closed");
  return 1;
}

pco__fs_op *pco__opened_op(lua_State *L, pco__handle *h,
                           const pco__op_class *cls, int kind, int at) {
  lua_settop(L, at - 1);
  pco__op *op = pco__new_op(L, cls, sizeof(pco__fs_op), h->loop);
  pco__fs_op *o = PCO_CONTAINER(op, pco__fs_op, op);
  pco__sandbox_ref(h->sandbox);
  o->sandbox = h->sandbox;
  pco__file_ref(h->opened->file);
  o->file = h->opened->file;
  o->kind = kind;
  o->mode = -1;
  o->max_size = SIZE_MAX / 4;
  o->path = h->opened->file->path;
  return o;
}

bool pco__opened_is_busy(const pco__opened *o) {
  return o->call && atomic_load(&o->call->word) != PCO__OP_DONE;
}

void pco__opened_replace(pco__opened *o, pco__op *next) {
  if (o->call)
    pco__op_unref(o->call);
  atomic_fetch_add_explicit(&next->refs, 1, memory_order_relaxed);
  o->call = next;
}

void pco__opened_claim(lua_State *L, pco__handle *h, pco__fs_op *o) {
  pco__opened *f = h->opened;
  const char *name = o->op.cls->name;
  if (!h->sync)
    pco__check_wait(L, o->op.cls);
  if (pco__opened_is_busy(f))
    pco__raise_new(L, PCO_EBUSY, name,
                   "another call on this %s has not ended yet",
                   h->kind == PCO__FILE ? "file" : "watch");
  pco__opened_replace(f, &o->op);
}

/* ---- iterators ----------------------------------------------------------- */

pco__handle *pco__push_opened_iterator(lua_State *L, pco__handle *h,
                                       const char *field, int format) {
  pco__handle *it =
      pco__push_object(L, PCO__ITERATOR, h->lua, h->loop, h->sync);
  it->allow_in_tasks = h->allow_in_tasks;
  it->format = format;
  pco__sandbox_ref(h->sandbox);
  it->sandbox = h->sandbox;
  lua_pushvalue(L, 1);
  lua_setfield(L, -2, field);
  lua_pushboolean(L, 0);
  lua_setfield(L, -2, "closed");
  lua_pushnil(L);
  lua_pushnil(L);
  lua_pushvalue(L, -3);
  return it;
}

pco__handle *pco__iterated(lua_State *L, int kind, const char *name) {
  lua_pushstring(L, kind == PCO__FILE ? "file" : "watch");
  lua_rawget(L, 1);
  pco__handle *h = pco__handle_at(L, -1);
  lua_pop(L, 1); /* the object at 1 keeps it */
  if (h && h->kind == kind && !h->closed)
    return h;
  pco__raise_new(L, PCO_ECLOSED, name, "the %s is closed",
                 kind == PCO__FILE ? "file" : "watch");
  return NULL;
}

/* ---- the end ------------------------------------------------------------- */

int pco__push_shut(lua_State *L, pco__op *op) {
  (void)op;
  lua_pushboolean(L, 1);
  return 1;
}

int pco__opened_close(lua_State *L, int kind, const pco__op_class *cls,
                      const char *const *known) {
  pco__handle *h = pco__self_to_close(L, kind, cls->name);
  pco__check_options(L, 2, cls->name, known);
  int64_t timeout = pco__opt_seconds(L, 2, cls->name, "timeout", -1, true);
  if (h->closed) {
    lua_pushboolean(L, 0);
    return 1;
  }
  if (pco__closed_part(L, h, kind)) { /* its sandbox ended it */
    pco__mark_closed(L, 1);
    lua_pushboolean(L, 1);
    return 1;
  }
  pco__fs_op *o = pco__opened_op(L, h, cls, PCO__FILE_CLOSE, 2);
  o->op.timeout = timeout;
  pco__mark_closed(L, 1);
  return pco__await(L, 2);
}
