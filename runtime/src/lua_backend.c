/* SPDX-License-Identifier: MIT */
/* Core functions of Backend but for create: probe, list, destroy, reap,
 * close. */
#include "lua_sandbox.h"

#include "lua_args.h"
#include "lua_state.h"
#include "lua_wait.h"

pco__backend_op *pco__new_backend_op(lua_State *L, pco__handle *h,
                                     const pco__op_class *cls, int options) {
  pco__check_options(L, options, cls->name, pco__timeout_only);
  int64_t timeout =
      pco__opt_seconds(L, options, cls->name, "timeout", -1, true);
  pco__op *op = pco__new_op(L, cls, sizeof(pco__backend_op), h->loop);
  pco__backend_op *o = PCO_CONTAINER(op, pco__backend_op, op);
  pco__backend_ref(h->backend);
  o->backend = h->backend;
  op->timeout = timeout;
  return o;
}

static int backend_probe(lua_State *L) {
  pco__handle *h = pco__open_self(L, PCO__BACKEND, "backend.probe");
  lua_settop(L, 2);
  pco__new_backend_op(L, h, &pco__probe_class, 2);
  return pco__await(L, 3);
}

static int backend_list(lua_State *L) {
  pco__handle *h = pco__open_self(L, PCO__BACKEND, "backend.list");
  lua_settop(L, 2);
  pco__new_backend_op(L, h, &pco__list_class, 2);
  return pco__await(L, 3);
}

static int backend_destroy(lua_State *L) {
  const char *name = "backend.destroy";
  pco__handle *h = pco__open_self(L, PCO__BACKEND, name);
  lua_settop(L, 3);
  pco__backend_op *o = pco__new_backend_op(L, h, &pco__destroy_class, 3);
  o->id = pco__arg_path(L, 2, name, "the sandbox's id", &o->op.arena);
  if (pco__close_child(L, 1, o->id)) {
    lua_pushboolean(L, 1);
    return 1;
  }
  return pco__await(L, 4);
}

static int backend_reap(lua_State *L) {
  pco__handle *h = pco__open_self(L, PCO__BACKEND, "backend.reap");
  lua_settop(L, 2);
  pco__new_backend_op(L, h, &pco__reap_class, 2);
  return pco__await(L, 3);
}

static int backend_close(lua_State *L) {
  pco__handle *h = pco__self_to_close(L, PCO__BACKEND, "backend.close");
  lua_settop(L, 2);
  if (h->closed) {
    lua_pushboolean(L, 0);
    return 1;
  }
  pco__new_backend_op(L, h, &pco__backend_close_class, 2);
  pco__close_children(L, 1);
  pco__mark_closed(L, 1);
  return pco__await(L, 3);
}

static const char *const level_names[] = {"missing", "emulated", "native"};

int pco__push_probe(lua_State *L, pco__op *op) {
  pco__backend_op *o = PCO_CONTAINER(op, pco__backend_op, op);
  lua_newtable(L);
  lua_newtable(L);
  for (pco__capability *c = o->capabilities; c; c = c->next) {
    lua_createtable(L, 0, 2);
    lua_pushstring(L, level_names[c->level < 3 ? c->level : 0]);
    lua_setfield(L, -2, "level");
    lua_pushstring(L, c->reason);
    lua_setfield(L, -2, "reason");
    lua_setfield(L, -2, c->name);
  }
  lua_setfield(L, -2, "capabilities");
  lua_pushstring(L, o->detail);
  lua_setfield(L, -2, "detail");
  return 1;
}

static const char *const state_names[] = {"unknown", "running", "paused",
                                          "dead", "detached"};

void pco__set_labels(lua_State *L, const pco_pair *labels, size_t n) {
  lua_createtable(L, 0, (int)n);
  for (size_t i = 0; i < n; i++) {
    lua_pushstring(L, labels[i].value);
    lua_setfield(L, -2, labels[i].key);
  }
  lua_setfield(L, -2, "labels");
}

int pco__push_listed(lua_State *L, pco__op *op) {
  pco__backend_op *o = PCO_CONTAINER(op, pco__backend_op, op);
  lua_Integer i = 0;
  lua_newtable(L);
  for (pco__listed *l = o->listed; l; l = l->next) {
    lua_createtable(L, 0, 9);
    lua_pushstring(L, l->id);
    lua_setfield(L, -2, "id");
    lua_pushstring(L, l->name);
    lua_setfield(L, -2, "name");
    lua_pushstring(L, l->image);
    lua_setfield(L, -2, "image");
    lua_pushstring(L, o->backend->info->id);
    lua_setfield(L, -2, "backend");
    lua_pushstring(L, state_names[l->state < 5 ? l->state : 0]);
    lua_setfield(L, -2, "state");
    lua_pushstring(L, l->owner);
    lua_setfield(L, -2, "owner");
    pco__set_time(L, "created", l->created);
    pco__set_time(L, "expires", l->expires);
    pco__set_labels(L, l->labels, l->n_labels);
    lua_rawseti(L, -2, ++i);
  }
  return 1;
}

int pco__push_reaped(lua_State *L, pco__op *op) {
  pco__backend_op *o = PCO_CONTAINER(op, pco__backend_op, op);
  lua_Integer i = 0;
  lua_newtable(L);
  for (pco__listed *l = o->listed; l; l = l->next) {
    lua_pushstring(L, l->id);
    lua_rawseti(L, -2, ++i);
  }
  return 1;
}

int pco__push_acted(lua_State *L, pco__op *op) {
  lua_pushboolean(L, PCO_CONTAINER(op, pco__backend_op, op)->acted);
  return 1;
}

/* After a close: the portal of the object at 1 may go. */
int pco__push_true(lua_State *L, pco__op *op) {
  (void)op;
  pco__handle *h = pco__handle_at(L, 1);
  if (h && h->uses_portal) {
    h->uses_portal = false;
    pco__portal_release(h->portal, true);
  }
  lua_pushboolean(L, 1);
  return 1;
}

const pco__core_function pco__backend_functions[] = {
    {"backend_probe", backend_probe},     {"backend_list", backend_list},
    {"backend_destroy", backend_destroy}, {"backend_reap", backend_reap},
    {"backend_close", backend_close},     {NULL, NULL}};
