/* SPDX-License-Identifier: MIT */
/*
 * Objects of the facades and their handles; see lua_state.h.
 *
 * A handle's __gc never blocks and never waits: it posts what is to be let go
 * to the loop, which closes it in the background.
 */
#include <stdlib.h>
#include <string.h>

#include "farewell.h"
#include "fs_walk.h"
#include "lua_error.h"
#include "lua_file.h"
#include "lua_lines.h"
#include "lua_state.h"
#include "lua_table.h"
#include "lua_task.h"
#include "process_ops.h"

#define FIRST_COLLECTION 32 /* see pco__collect_unclosed */

const char *const pco__class_names[PCO__N_CLASSES] = {
    "Backend",    "Sandbox", "Process",   "Iterator", "Portal",
    "FileSystem", "Result",  "File",      "Watch",    "Task",
    "Scope",      "Event",   "Semaphore", "Permit",   "Channel"};

static const char handle_key = 0;   /* in an object: its handle */
static const char children_key = 0; /* in a Backend: its Sandboxes, weakly */
static const char handle_meta = 0;  /* in the registry: metatable of handles */
static const char classes_key[2];   /* in the registry: by facade */

pco__lua *pco__lua_of(lua_State *L) {
  return (pco__lua *)lua_touserdata(L, lua_upvalueindex(1));
}

bool pco__is_sync(lua_State *L) {
  return lua_toboolean(L, lua_upvalueindex(2));
}

/* ---- letting go ---------------------------------------------------------- */

/* Gives what the handle holds to its loop. */
static void leave(pco__handle *h) {
  bool iterated = h->kind == PCO__ITERATOR && !h->closed && h->process;
  bool ends_backend =
      ((h->kind == PCO__BACKEND && !h->shared) || h->owns_backend) &&
      !h->closed;
  pco__farewell what = {.how = PCO__FAREWELL_RELEASE};
  if (iterated) {
    h->process->iterated = false;
    what.how = PCO__FAREWELL_READER;
  }
  if (iterated || h->kind == PCO__PROCESS)
    what.process = h->process;
  if (h->kind == PCO__SANDBOX && !h->closed)
    what.sandbox = h->sandbox;
  if (ends_backend)
    what.backend = h->backend;
  /* References that need no farewell go at once. */
  if (!what.process)
    pco__process_unref(h->process);
  if (!what.sandbox)
    pco__sandbox_unref(h->sandbox);
  if (!what.backend)
    pco__backend_unref(h->backend);
  pco__say_farewell(h->loop, what);
}

/* Tells the logger and, where the script has them on, Lua's warnings. */
static void warn_unclosed(lua_State *L, const pco__handle *h) {
  if (h->kind != PCO__SANDBOX || h->closed)
    return;
  bool stays = h->sandbox->stays;
  pco__log_write(&h->lua->runtime.log, PCO_LOG_WARNING,
                 stays ? "sandbox %s was neither detached nor closed; it is "
                         "left running now that it was collected"
                       : "sandbox %s was not closed; it is closed now that it "
                         "was collected",
                 h->sandbox->id);
  lua_warning(L, "portico: sandbox ", 1);
  lua_warning(L, h->sandbox->id, 1);
  lua_warning(L, stays ? " was neither detached nor closed" : " was not closed",
              0);
}

static void let_go(lua_State *L, pco__handle *h) {
  warn_unclosed(L, h);
  leave(h);
  if (h->uses_portal)
    pco__portal_release(h->portal, false);
  if (h->kind == PCO__PORTAL && !h->closed)
    pco__portal_abandon(h->portal);
  pco__portal_unref(h->portal);
}

static bool is_heavy(const pco__handle *h) {
  return h->kind == PCO__SANDBOX || h->kind == PCO__BACKEND ||
         h->kind == PCO__PORTAL;
}

/* Closed now, for whoever asks and for the count. */
static void note_closed(pco__handle *h) {
  if (is_heavy(h) && !h->closed && !pco__is_parents(h->lua, h->generation))
    h->lua->unclosed--;
  h->closed = true;
}

void pco__collect_unclosed(lua_State *L, pco__lua *lua) {
  if (lua->collect_at == 0)
    lua->collect_at = FIRST_COLLECTION;
  if (lua->unclosed < lua->collect_at || !lua_gc(L, LUA_GCISRUNNING))
    return;
  lua_gc(L, LUA_GCCOLLECT);
  lua->collect_at = lua->unclosed < FIRST_COLLECTION / 2 ? FIRST_COLLECTION
                                                         : 2 * lua->unclosed;
}

/* Afterwards the handle is closed and empty: another object's __gc may still
 * call methods of what is collected together with it. */
static int handle_gc(lua_State *L) {
  pco__handle *h = (pco__handle *)lua_touserdata(L, 1);
  if (h->collected)
    return 0;
  pco__chunks_free(&h->unread);
  pco__lines_free(h->lines);
  pco__walk_free(h->walk);
  if (h->opened && !pco__is_parents(h->lua, h->generation))
    pco__opened_free(h->opened);
  h->opened = NULL;
  if (!pco__is_parents(h->lua, h->generation))
    let_go(L, h);
  h->collected = true;
  note_closed(h);
  h->lines = NULL;
  h->walk = NULL;
  h->process = NULL;
  h->sandbox = NULL;
  h->backend = NULL;
  h->portal = NULL;
  return 0;
}

/* ---- classes ------------------------------------------------------------- */

void pco__push_metatable(lua_State *L, int kind, bool sync) {
  const char *key = &classes_key[sync];
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, key) != LUA_TTABLE) {
    lua_pop(L, 1);
    lua_createtable(L, PCO__N_CLASSES, 0);
    lua_pushvalue(L, -1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, key);
  }
  if (lua_rawgeti(L, -1, kind + 1) != LUA_TTABLE) {
    lua_pop(L, 1);
    lua_createtable(L, 0, 4);
    lua_pushfstring(L, "portico.%s", pco__class_names[kind]);
    lua_setfield(L, -2, "__name");
    lua_newtable(L);
    lua_setfield(L, -2, "__index");
    lua_pushvalue(L, -1);
    lua_rawseti(L, -3, kind + 1);
  }
  lua_remove(L, -2);
}

static void push_handle_metatable(lua_State *L) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &handle_meta) == LUA_TTABLE)
    return;
  lua_pop(L, 1);
  lua_createtable(L, 0, 2);
  lua_pushcfunction(L, handle_gc);
  lua_setfield(L, -2, "__gc");
  lua_pushboolean(L, 0);
  lua_setfield(L, -2, "__metatable");
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &handle_meta);
}

pco__handle *pco__push_object(lua_State *L, int kind, pco__lua *lua,
                              pco__loop *loop, bool sync) {
  luaL_checkstack(L, 6, "out of stack");
  lua_createtable(L, 0, 6);
  pco__handle *h = lua_newuserdatauv(L, sizeof *h, 0);
  memset(h, 0, sizeof *h);
  h->kind = kind;
  h->lua = lua;
  h->loop = loop;
  h->generation = lua->runtime.generation;
  h->sync = sync;
  pco__chunks_init(&h->unread);
  push_handle_metatable(L);
  lua_setmetatable(L, -2);
  lua->unclosed += is_heavy(h); /* from here its __gc will run */
  if (loop && loop->is_portal) {
    h->portal = pco__portal_of(loop);
    pco__portal_ref(h->portal);
  }
  lua_rawsetp(L, -2, &handle_key);
  pco__push_metatable(L, kind, sync);
  lua_setmetatable(L, -2);
  return h;
}

void pco__set_class(lua_State *L, int kind) {
  pco__push_metatable(L, kind, false);
  lua_setmetatable(L, -2);
}

void *pco__userdata_at(lua_State *L, int idx, int kind) {
  void *p = lua_touserdata(L, idx);
  if (!p || lua_type(L, idx) != LUA_TUSERDATA || !lua_getmetatable(L, idx))
    return NULL;
  pco__push_metatable(L, kind, false);
  bool same = lua_rawequal(L, -1, -2);
  lua_pop(L, 2);
  return same ? p : NULL;
}

void *pco__check_userdata(lua_State *L, int kind, const char *operation) {
  void *p = pco__userdata_at(L, 1, kind);
  const char *dot = strrchr(operation, '.');
  if (!p)
    pco__raise_new(L, PCO_EDOT, operation,
                   "called without its %s: write object:%s(...), with a colon",
                   pco__class_names[kind], dot ? dot + 1 : operation);
  return p;
}

pco__handle *pco__handle_at(lua_State *L, int idx) {
  if (!lua_istable(L, idx))
    return NULL;
  lua_rawgetp(L, idx, &handle_key);
  pco__handle *h = (pco__handle *)lua_touserdata(L, -1);
  lua_pop(L, 1);
  return h;
}

/* ---- sandboxes of a backend ---------------------------------------------- */

void pco__add_child(lua_State *L, int parent) {
  parent = lua_absindex(L, parent);
  if (lua_rawgetp(L, parent, &children_key) != LUA_TTABLE) {
    lua_pop(L, 1);
    pco__push_weak_keyed(L);
    lua_pushvalue(L, -1);
    lua_rawsetp(L, parent, &children_key);
  }
  lua_pushvalue(L, -2);
  lua_pushboolean(L, 1);
  lua_rawset(L, -3);
  lua_pop(L, 1);
}

/* Closes the Sandbox on top, of the Backend whose handle is h; its own loop
 * closes what is there by the backend's op. */
static void close_child(lua_State *L, const pco__handle *h) {
  pco__handle *child = pco__handle_at(L, -1);
  if (child->closed)
    return;
  if (child->loop == h->loop) {
    pco__mark_closed(L, -1);
    if (child->uses_portal) /* the backend uses it still */
      pco__portal_release(child->portal, false);
    child->uses_portal = false;
    return;
  }
  lua_getfield(L, -1, "close");
  lua_pushvalue(L, -2);
  lua_call(L, 1, 0);
}

/* Pushes the table of children, or returns false. */
static bool push_children(lua_State *L, int parent) {
  if (lua_rawgetp(L, parent, &children_key) == LUA_TTABLE)
    return true;
  lua_pop(L, 1);
  return false;
}

void pco__close_children(lua_State *L, int parent) {
  pco__handle *h = pco__handle_at(L, parent);
  if (!push_children(L, parent))
    return;
  int table = lua_gettop(L);
  lua_pushnil(L);
  while (lua_next(L, table)) {
    lua_pop(L, 1);
    close_child(L, h);
  }
  lua_settop(L, table - 1);
}

bool pco__close_child(lua_State *L, int parent, const char *id) {
  pco__handle *h = pco__handle_at(L, parent);
  bool elsewhere = false;
  if (!push_children(L, parent))
    return false;
  int table = lua_gettop(L);
  lua_pushnil(L);
  while (lua_next(L, table)) {
    lua_pop(L, 1);
    pco__handle *child = pco__handle_at(L, -1);
    if (child->closed || strcmp(child->sandbox->id, id) != 0)
      continue;
    elsewhere = child->loop != h->loop;
    close_child(L, h);
  }
  lua_settop(L, table - 1);
  return elsewhere;
}

/* ---- checks -------------------------------------------------------------- */

static bool has_class(lua_State *L, int idx, int kind, bool sync) {
  if (!lua_getmetatable(L, idx))
    return false;
  pco__push_metatable(L, kind, sync);
  bool same = lua_rawequal(L, -1, -2);
  lua_pop(L, 2);
  return same;
}

/* Not an object of the class: tells the usual mistakes apart. */
static void wrong_self(lua_State *L, int kind, const char *operation) {
  bool sync = pco__is_sync(L);
  if (lua_istable(L, 1) && has_class(L, 1, kind, !sync))
    pco__raise_new(L, PCO_EFACADE, operation,
                   "this %s belongs to the other facade: use the one of %s",
                   pco__class_names[kind],
                   sync ? "require \"portico.sync\"" : "require \"portico\"");
  const char *dot = strrchr(operation, '.');
  pco__raise_new(L, PCO_EDOT, operation,
                 "called without its %s: write object:%s(...), with a colon",
                 pco__class_names[kind], dot ? dot + 1 : operation);
}

bool pco__is_parents(const pco__lua *lua, unsigned generation) {
  return generation != lua->runtime.generation ||
         pco__runtime_forked(&lua->runtime);
}

/* In a forked child: the tasks are the parent's, too. */
static void begin_anew(lua_State *L, pco__lua *lua, const char *operation) {
  if (lua->driving)
    pco__raise_new(L, PCO_EFORKED, operation,
                   "this program was forked inside of run, which belongs to "
                   "the parent process: let it end in the child, then start "
                   "anew");
  int rc = pco__runtime_renew(&lua->runtime);
  if (rc < 0)
    pco__raise(L, pco__error_new(rc, PCO_SOURCE_HOST, NULL, NULL), operation,
               0);
  pco__list_init(&lua->ready);
  pco__list_init(&lua->tasks);
  lua->n_tasks = 0;
  lua->unclosed = 0;
}

void pco__check_caller(lua_State *L, const char *operation, bool allow) {
  pco__lua *lua = pco__lua_of(L);
  if (!lua->main) /* a finalizer that lua_close calls after ours */
    pco__raise_new(L, PCO_ECLOSED, operation, "the Lua state is being closed");
  if (pco__runtime_forked(&lua->runtime))
    begin_anew(L, lua, operation);
  if (pco__is_sync(L) && lua->current && !allow)
    pco__raise_new(L, PCO_ESYNC, operation,
                   "%s of portico.sync was called inside an async task, where "
                   "it would stop all other tasks: use %s of require "
                   "\"portico\", or pass allow_in_tasks = true when you "
                   "create the sandbox",
                   operation, operation);
}

/* Checks what argument 1 is. */
static pco__handle *find_self(lua_State *L, int kind, const char *operation) {
  if (!lua_istable(L, 1) || !has_class(L, 1, kind, pco__is_sync(L)))
    wrong_self(L, kind, operation);
  int at = 1;
  if (kind == PCO__FILESYSTEM) {
    lua_pushliteral(L, "sandbox");
    lua_rawget(L, 1);
    at = lua_gettop(L);
  }
  pco__handle *h = pco__handle_at(L, at);
  if (!h || h->kind != (kind == PCO__FILESYSTEM ? PCO__SANDBOX : kind))
    wrong_self(L, kind, operation);
  lua_settop(L, kind == PCO__FILESYSTEM ? at - 1 : lua_gettop(L));
  return h;
}

static void refuse_parents(lua_State *L, const pco__handle *h,
                           const char *operation) {
  pco__lua *lua = pco__lua_of(L);
  if (lua->main && pco__is_parents(lua, h->generation))
    pco__raise_new(L, PCO_EFORKED, operation,
                   "this program was forked, and this %s belongs to the "
                   "parent process: make a new one in the child",
                   pco__class_names[h->kind]);
}

pco__handle *pco__self(lua_State *L, int kind, const char *operation) {
  pco__handle *h = find_self(L, kind, operation);
  refuse_parents(L, h, operation);
  pco__check_caller(L, operation, h->allow_in_tasks);
  return h;
}

pco__handle *pco__self_to_close(lua_State *L, int kind, const char *operation) {
  pco__handle *h = find_self(L, kind, operation);
  if (pco__lua_of(L)->main && pco__is_parents(h->lua, h->generation))
    pco__mark_closed(L, 1);
  else
    pco__check_caller(L, operation, h->allow_in_tasks);
  return h;
}

const char *pco__closed_part(lua_State *L, const pco__handle *h, int kind) {
  static const char *const words[] = {
      [PCO__BACKEND] = "backend", [PCO__SANDBOX] = "sandbox",
      [PCO__PROCESS] = "process", [PCO__ITERATOR] = "iterator",
      [PCO__PORTAL] = "portal",   [PCO__FILESYSTEM] = "sandbox",
      [PCO__RESULT] = "result",   [PCO__FILE] = "file",
      [PCO__WATCH] = "watch"};
  if (h->closed)
    return words[kind];
  if (kind != PCO__PROCESS && kind != PCO__FILE && kind != PCO__WATCH)
    return NULL;
  lua_pushliteral(L, "sandbox");
  lua_rawget(L, 1);
  const pco__handle *owner = pco__handle_at(L, -1);
  lua_pop(L, 1);
  return owner && owner->closed ? "sandbox" : NULL;
}

pco__handle *pco__open_self(lua_State *L, int kind, const char *operation) {
  pco__handle *h = pco__self(L, kind, operation);
  const char *closed = pco__closed_part(L, h, kind);
  if (closed)
    pco__raise(L,
               pco__error_new(PCO_ECLOSED, PCO_SOURCE_HOST, NULL,
                              "the %s is closed", closed),
               operation, 1);
  return h;
}

void pco__mark_closed(lua_State *L, int idx) {
  idx = lua_absindex(L, idx);
  note_closed(pco__handle_at(L, idx));
  lua_pushliteral(L, "closed");
  lua_pushboolean(L, 1);
  lua_rawset(L, idx);
}

/* ---- tostring ------------------------------------------------------------ */

static const char *state_text(const pco__handle *h) {
  return h->closed ? ", closed" : "";
}

/* How an object without a handle shows: a Result, a FileSystem. */
static int plain_tostring(lua_State *L) {
  if (has_class(L, 1, PCO__RESULT, pco__is_sync(L))) {
    lua_getfield(L, 1, "reason");
    lua_getfield(L, 1, "code");
    lua_getfield(L, 1, "stdout_bytes");
    lua_getfield(L, 1, "stderr_bytes");
    lua_pushfstring(L, "portico.Result(%s %s, stdout %s, stderr %s bytes)",
                    luaL_tolstring(L, 2, NULL), luaL_tolstring(L, 3, NULL),
                    luaL_tolstring(L, 4, NULL), luaL_tolstring(L, 5, NULL));
    return 1;
  }
  lua_pushliteral(L, "sandbox");
  pco__handle *h = lua_istable(L, 1) && lua_rawget(L, 1) == LUA_TTABLE
                       ? pco__handle_at(L, -1)
                       : NULL;
  if (h && h->sandbox)
    lua_pushfstring(L, "portico.FileSystem(of %s%s)", h->sandbox->id,
                    state_text(h));
  else
    lua_pushfstring(L, "portico: %p", lua_topointer(L, 1));
  return 1;
}

/* core.tostring(self): kind, id, state; no secrets: of a command only the
 * program. */
static int object_tostring(lua_State *L) {
  pco__handle *h = pco__handle_at(L, 1);
  if (!h)
    return plain_tostring(L);
  const char *class_name = pco__class_names[h->kind];
  const char *state = state_text(h);
  switch (h->collected ? PCO__RESULT : h->kind) {
  case PCO__BACKEND:
    lua_pushfstring(L, "portico.%s(%s%s)", class_name, h->backend->info->id,
                    state);
    break;
  case PCO__SANDBOX:
    lua_pushfstring(L, "portico.%s(%s%s)", class_name, h->sandbox->id, state);
    break;
  case PCO__PROCESS:
  case PCO__ITERATOR:
    if (!h->process) { /* of files */
      lua_pushfstring(L, "portico.%s(of files in %s%s)", class_name,
                      h->sandbox->id, state);
      break;
    }
    lua_pushfstring(L, "portico.%s(%s%I %s in %s%s)", class_name,
                    h->kind == PCO__ITERATOR ? "of " : "",
                    (lua_Integer)h->process->pid, h->process->argv[0],
                    h->process->sandbox->id, state);
    break;
  case PCO__FILE:
  case PCO__WATCH:
    lua_pushfstring(L, "portico.%s(%s in %s%s)", class_name,
                    pco__opened_path(h->opened), h->sandbox->id, state);
    break;
  default:
    lua_pushfstring(L, "portico.%s(%p%s)", class_name, lua_topointer(L, 1),
                    state);
  }
  return 1;
}

const pco__core_function pco__object_functions[] = {
    {"tostring", object_tostring}, {NULL, NULL}};
