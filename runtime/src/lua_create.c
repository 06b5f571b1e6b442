/* SPDX-License-Identifier: MIT */
/*
 * Core functions that make backends and sandboxes: open, sandbox, create,
 * attach.
 *
 * In the sync facade each has a portal of its own unless one is passed; a guard
 * ends a fresh portal whatever fails in between.
 */
#include "lua_sandbox.h"

#include <stdlib.h>
#include <string.h>

#include "embed.h"
#include "lua_args.h"
#include "lua_error.h"
#include "lua_limits.h"
#include "lua_wait.h"
#include "plugin_loader.h"

/* The one list of what create and sandbox() take; the first two are for
 * sandbox() only. */
static const char *const create_options[] = {"backend",
                                             "backend_settings",
                                             "name",
                                             "image",
                                             "env",
                                             "cwd",
                                             "user",
                                             "labels",
                                             "limits",
                                             "network",
                                             "mounts",
                                             "strict",
                                             "detachable",
                                             "ttl",
                                             "timeout",
                                             "portal",
                                             "allow_in_tasks",
                                             "settings",
                                             NULL};
#define CREATE_OPTIONS (create_options + 2)

/* Who makes a sandbox unless the script says otherwise. */
#define DEFAULT_BACKEND "bwrap"

/* Stack layout while a backend or sandbox is made: 1 name or options or
 * backend, 2 settings table, 3 options, 4 guard, 5 box. */
enum { AT_SETTINGS = 2, AT_OPTIONS = 3, AT_GUARD = 4, AT_BOX = 5 };

/* ---- loops and portals --------------------------------------------------- */

/* Where a new backend or sandbox will live: the state's own loop, the portal
 * that was passed, or a new one. */
static pco__loop *choose_loop(lua_State *L, int options,
                              const char *operation) {
  pco__lua *lua = pco__lua_of(L);
  pco__loop *loop = NULL;
  int rc = 0;
  pco__collect_unclosed(L, lua);
  bool given = pco__get_option(L, options, "portal");
  pco__handle *p = given ? pco__handle_at(L, -1) : NULL;
  if (given && (!p || p->kind != PCO__PORTAL))
    pco__bad_argument(L, operation,
                      "portal must be a Portal of require \"portico.portal\" "
                      "(got %s)",
                      luaL_typename(L, -1));
  if (p && pco__is_parents(lua, p->generation))
    pco__raise_new(L, PCO_EFORKED, operation,
                   "the portal belongs to the parent process");
  if (given)
    lua_pop(L, 1);
  if (!pco__is_sync(L)) {
    rc = pco__runtime_loop(&lua->runtime, &loop);
  } else if (p) {
    if (p->closed)
      pco__raise_new(L, PCO_ECLOSED, operation, "the portal is closed");
    return p->loop;
  } else {
    pco__portal *portal = NULL;
    rc = pco__portal_open(&lua->runtime, false, &portal);
    if (rc == 0)
      loop = &portal->loop;
  }
  if (rc < 0) {
    pco__error *err = pco__error_new(rc, PCO_SOURCE_HOST, NULL,
                                     "making a portal: %s", pco__code_text(rc));
    err->retryable = true;
    pco__raise(L, err, operation, 0);
  }
  return loop;
}

/* A guard for a portal between its opening and the object that counts as its
 * user: a to-be-closed userdata, so that every failure ends a fresh portal. */
typedef struct guard {
  pco__portal *portal; /* a use and a reference; NULL: nothing to guard */
} guard;

static const char guard_meta = 0;

static int guard_close(lua_State *L) {
  guard *g = (guard *)lua_touserdata(L, 1);
  pco__portal *portal = g->portal;
  g->portal = NULL;
  if (portal) {
    /* Whoever was interrupted does not wait for the end of the portal. */
    bool interrupted = lua_istable(L, 2) &&
                       lua_getfield(L, 2, "code") == LUA_TSTRING &&
                       strcmp(lua_tostring(L, -1), "PCO_EINTERRUPTED") == 0;
    pco__portal_release(portal, !interrupted);
    pco__portal_unref(portal);
  }
  return 0;
}

static void push_guard_metatable(lua_State *L) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &guard_meta) == LUA_TTABLE)
    return;
  lua_pop(L, 1);
  lua_createtable(L, 0, 2);
  lua_pushcfunction(L, guard_close);
  lua_setfield(L, -2, "__close");
  lua_pushcfunction(L, guard_close);
  lua_setfield(L, -2, "__gc");
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &guard_meta);
}

/* Pushes a guard, before there is anything to guard. */
static guard *push_guard(lua_State *L) {
  guard *g = lua_newuserdatauv(L, sizeof *g, 0);
  g->portal = NULL;
  push_guard_metatable(L);
  lua_setmetatable(L, -2);
  lua_toclose(L, -1);
  return g;
}

/* Guards a loop's portal, if it has one. */
static void guard_portal(guard *g, pco__loop *loop) {
  g->portal = pco__portal_of(loop);
  if (g->portal) {
    g->portal->users++;
    pco__portal_ref(g->portal);
  }
}

/* The guard's use of the portal goes to the object that was made. */
static void inherit_portal(lua_State *L, pco__handle *h) {
  guard *g = (guard *)lua_touserdata(L, AT_GUARD);
  if (!g->portal)
    return;
  h->uses_portal = true;
  pco__portal_unref(g->portal); /* the handle has a reference of its own */
  g->portal = NULL;
}

/* ---- objects ------------------------------------------------------------- */

static void set_false(lua_State *L, const char *key) {
  lua_pushboolean(L, 0);
  lua_setfield(L, -2, key);
}

/* Pushes a shallow copy of the table at idx, or an empty one. */
static void push_copy(lua_State *L, int idx) {
  lua_newtable(L);
  if (!lua_istable(L, idx))
    return;
  lua_pushnil(L);
  while (lua_next(L, idx)) {
    lua_pushvalue(L, -2);
    lua_insert(L, -2);
    lua_rawset(L, -4);
  }
}

/* Pushes a Backend object for *from, whose reference it takes: *from is NULL
 * then, also if something raises after that; its settings are at AT_SETTINGS.
 */
static pco__handle *push_backend(lua_State *L, pco__backend **from) {
  pco__backend *b = *from;
  pco__handle *h = pco__push_object(L, PCO__BACKEND, pco__lua_of(L), b->loop,
                                    pco__is_sync(L));
  h->backend = b;
  *from = NULL;
  lua_pushstring(L, b->info->id);
  lua_setfield(L, -2, "name");
  push_copy(L, AT_SETTINGS);
  lua_setfield(L, -2, "settings");
  set_false(L, "closed");
  return h;
}

static bool allow_in_tasks(lua_State *L, int options, const char *operation) {
  return pco__opt_boolean(L, options, operation, "allow_in_tasks", false);
}

int pco__push_opened(lua_State *L, pco__op *op) {
  pco__open_op *o = PCO_CONTAINER(op, pco__open_op, op);
  pco__handle *h = push_backend(L, &o->backend);
  h->allow_in_tasks = allow_in_tasks(L, AT_OPTIONS, "open");
  inherit_portal(L, h);
  return 1;
}

static void push_file_system(lua_State *L) {
  lua_createtable(L, 0, 1);
  lua_pushvalue(L, -2);
  lua_setfield(L, -2, "sandbox");
  pco__push_metatable(L, PCO__FILESYSTEM, pco__is_sync(L));
  lua_setmetatable(L, -2);
}

/* The object at 1 is the Backend that made it, or else the backend was opened
 * for this sandbox, and gets an object that shares its fate. */
int pco__push_created(lua_State *L, pco__op *op) {
  pco__create_op *o = PCO_CONTAINER(op, pco__create_op, op);
  pco__handle *given = pco__handle_at(L, 1);
  pco__handle *h = pco__push_object(L, PCO__SANDBOX, pco__lua_of(L), op->loop,
                                    pco__is_sync(L));
  h->sandbox = o->sandbox;
  o->sandbox = NULL;
  h->backend = o->backend;
  h->owns_backend = o->opened;
  o->backend = NULL;
  h->allow_in_tasks = allow_in_tasks(L, AT_OPTIONS, op->cls->name) ||
                      (given && given->allow_in_tasks);
  inherit_portal(L, h);
  lua_pushstring(L, h->sandbox->id);
  lua_setfield(L, -2, "id");
  set_false(L, "closed");
  if (given && given->kind == PCO__BACKEND) {
    pco__add_child(L, 1);
    lua_pushvalue(L, 1);
  } else {
    pco__backend_ref(h->backend);
    o->backend = h->backend;
    pco__handle *b = push_backend(L, &o->backend);
    b->allow_in_tasks = h->allow_in_tasks;
    b->shared = true;
  }
  lua_setfield(L, -2, "backend");
  push_file_system(L);
  lua_setfield(L, -2, "fs");
  return 1;
}

/* ---- open ---------------------------------------------------------------- */

static void check_name(lua_State *L, int idx, const char *operation,
                       const char *what) {
  size_t len = 0;
  if (lua_type(L, idx) != LUA_TSTRING)
    pco__bad_argument(L, operation,
                      "%s must be a string such as \"" DEFAULT_BACKEND "\" "
                      "(got %s)",
                      what, luaL_typename(L, idx));
  const char *s = lua_tolstring(L, idx, &len);
  if (len == 0 || strlen(s) != len)
    pco__bad_argument(L, operation,
                      "%s must not be empty nor contain a zero "
                      "byte",
                      what);
}

/* Finds the plugin; its use is counted. */
static const pco_backend_info *find_plugin(lua_State *L, const char *name,
                                           const char *operation) {
  const pco_backend_info *info;
  const char *path;
  pco__error *err = NULL;
  if (!pco__may_use_backend(pco__lua_of(L), name))
    pco__raise(L,
               pco__error_new(UV_EACCES, PCO_SOURCE_HOST, name,
                              "the program that runs this script does not let "
                              "it use this backend"),
               operation, 0);
  if (pco__loader_open(name, &info, &path, &err) < 0)
    pco__raise(L, err, operation, 0);
  return info;
}

/* The same for a script that named none.  Nothing is taken instead: who did not
 * ask for a backend without isolation must not get one. */
static const pco_backend_info *find_default(lua_State *L,
                                            const char *operation) {
  const pco_backend_info *info;
  const char *path;
  pco__error *cause = NULL;
  if (!pco__may_use_backend(pco__lua_of(L), DEFAULT_BACKEND))
    return find_plugin(L, DEFAULT_BACKEND, operation); /* which says so */
  int rc = pco__loader_open(DEFAULT_BACKEND, &info, &path, &cause);
  if (rc == UV_ENOENT)
    cause = pco__error_because(
        pco__error_new(PCO_EUNAVAILABLE, PCO_SOURCE_HOST, NULL,
                       "the default backend '" DEFAULT_BACKEND "' is not part "
                       "of this installation; backend = \"local\" is another, "
                       "which runs commands without any isolation"),
        cause);
  if (rc < 0)
    pco__raise(L, cause, operation, 0);
  return info;
}

/* core.open(name, settings, options) */
static int core_open(lua_State *L) {
  static const char *const known[] = {"portal", "allow_in_tasks", NULL};
  lua_settop(L, 3);
  check_name(L, 1, "open", "the backend's name");
  pco__check_options(L, AT_OPTIONS, "open", known);
  pco__check_caller(L, "open", allow_in_tasks(L, AT_OPTIONS, "open"));
  guard *g = push_guard(L);
  pco__loop *loop = choose_loop(L, AT_OPTIONS, "open");
  guard_portal(g, loop);
  pco__op *op = pco__new_op(L, &pco__open_class, sizeof(pco__open_op), loop);
  pco__open_op *o = PCO_CONTAINER(op, pco__open_op, op);
  o->opening.settings = pco__arg_settings(L, AT_SETTINGS, "open", "settings",
                                          &op->arena, &o->opening.n_settings);
  o->opening.info = find_plugin(L, lua_tostring(L, 1), "open");
  return pco__await(L, AT_BOX);
}

/* ---- create -------------------------------------------------------------- */

/* {source = ...} for {{source = ...}} would be an empty list otherwise. */
static void check_sequence(lua_State *L, int list, const char *name) {
  for (lua_pushnil(L); lua_next(L, list); lua_pop(L, 1))
    if (!lua_isinteger(L, -2))
      pco__bad_argument(L, name,
                        "mounts must be a sequence of tables: mounts = "
                        "{{source = ..., target = ...}}");
}

static void parse_mounts(lua_State *L, int options, const char *name,
                         pco__create_op *o) {
  static const char *const known[] = {"source", "target", "read_only", NULL};
  if (!pco__get_option(L, options, "mounts"))
    return;
  if (!lua_istable(L, -1))
    pco__bad_argument(L, name, "mounts must be a sequence of tables (got %s)",
                      luaL_typename(L, -1));
  int list = lua_gettop(L);
  check_sequence(L, list, name);
  size_t n = lua_rawlen(L, list);
  pco_mount *mounts = pco__arena_alloc(&o->op.arena, (n + 1) * sizeof *mounts);
  pco__check_arena(L, name, &o->op.arena);
  for (size_t i = 0; i < n; i++) {
    lua_rawgeti(L, list, (lua_Integer)i + 1);
    int at = lua_gettop(L);
    if (!lua_istable(L, at))
      pco__bad_argument(L, name, "mounts[%d] must be a table (got %s)",
                        (int)i + 1, luaL_typename(L, at));
    pco__check_options(L, at, name, known);
    mounts[i].struct_size = sizeof *mounts;
    mounts[i].source = pco__opt_string(L, at, name, "source", &o->op.arena);
    mounts[i].target = pco__opt_string(L, at, name, "target", &o->op.arena);
    if (!mounts[i].source || !mounts[i].target)
      pco__bad_argument(L, name, "a mount needs source and target");
    if (pco__opt_boolean(L, at, name, "read_only", true))
      mounts[i].flags = PCO_MOUNT_READ_ONLY;
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  o->opts.mounts = mounts;
  o->opts.n_mounts = n;
}

/* A table option as pairs of text. */
static pco_pair *opt_pairs(lua_State *L, int options, const char *operation,
                           const char *name, pco__arena *arena, size_t *n) {
  *n = 0;
  if (!pco__get_option(L, options, name))
    return NULL;
  pco_pair *pairs =
      pco__arg_settings(L, lua_gettop(L), operation, name, arena, n);
  lua_pop(L, 1);
  return pairs;
}

/* Who ends with its program needs no end of its own. */
static void parse_life(lua_State *L, int at, const char *name,
                       pco_create_opts *c) {
  if (pco__opt_boolean(L, at, name, "detachable", false))
    c->flags |= PCO_CREATE_DETACHABLE;
  c->ttl = (double)pco__opt_seconds(L, at, name, "ttl", 0, false) / 1e9;
  if (c->ttl > 0 && !(c->flags & PCO_CREATE_DETACHABLE))
    pco__bad_argument(L, name,
                      "ttl is for a sandbox that may outlive this program: it "
                      "needs detachable = true");
}

static void parse_create(lua_State *L, int at, const char *name,
                         pco__create_op *o) {
  pco__arena *a = &o->op.arena;
  pco_create_opts *c = &o->opts;
  c->struct_size = sizeof *c;
  c->name = pco__opt_string(L, at, name, "name", a);
  c->image = pco__opt_string(L, at, name, "image", a);
  c->cwd = pco__opt_string(L, at, name, "cwd", a);
  c->user = pco__opt_string(L, at, name, "user", a);
  c->network = pco__opt_string(L, at, name, "network", a);
  c->env = (const char *const *)pco__opt_env(L, at, name, a);
  c->labels = opt_pairs(L, at, name, "labels", a, &c->n_labels);
  c->settings = opt_pairs(L, at, name, "settings", a, &c->n_settings);
  if (pco__opt_boolean(L, at, name, "strict", false))
    c->flags |= PCO_CREATE_STRICT;
  parse_life(L, at, name, c);
  if (pco__opt_limits(L, at, name, false, &o->limits))
    c->limits = &o->limits;
  parse_mounts(L, at, name, o);
  o->op.timeout = pco__opt_seconds(L, at, name, "timeout", -1, true);
}

/* Makes the op at AT_BOX; guard and options are in their places. */
static pco__create_op *new_create(lua_State *L, const pco__op_class *cls,
                                  pco__loop *loop) {
  pco__op *op = pco__new_op(L, cls, sizeof(pco__create_op), loop);
  pco__create_op *o = PCO_CONTAINER(op, pco__create_op, op);
  parse_create(L, AT_OPTIONS, cls->name, o);
  return o;
}

/* The settings of a Backend object, for a further instance of its plugin. */
static void use_settings(lua_State *L, int backend, pco__create_op *o) {
  lua_getfield(L, backend, "settings");
  o->opening.settings =
      pco__arg_settings(L, lua_gettop(L), o->op.cls->name, "settings",
                        &o->op.arena, &o->opening.n_settings);
  lua_replace(L, AT_SETTINGS);
}

/* Makes the op of an attach in the Backend at 1; guard and options are in their
 * places, as for create. */
static pco__create_op *new_attach(lua_State *L, pco__loop *loop,
                                  const char *id) {
  const char *name = pco__attach_class.name;
  pco__op *op =
      pco__new_op(L, &pco__attach_class, sizeof(pco__create_op), loop);
  pco__create_op *o = PCO_CONTAINER(op, pco__create_op, op);
  o->attach_id = pco__arena_string(&op->arena, id);
  pco__check_arena(L, name, &op->arena);
  op->timeout = pco__opt_seconds(L, AT_OPTIONS, name, "timeout", -1, true);
  return o;
}

/* Creates in the open Backend at 1, or attaches; options are at 3.  In the
 * async facade it is the backend itself, in the sync one a further instance on
 * the sandbox's own portal. */
static int make_in(lua_State *L, pco__handle *b, const pco__op_class *cls,
                   const char *attach_id) {
  if (!b->sync)
    pco__check_wait(L, cls);
  guard *g = push_guard(L);
  pco__loop *loop = b->sync ? choose_loop(L, AT_OPTIONS, cls->name) : b->loop;
  guard_portal(g, loop);
  pco__create_op *o =
      attach_id ? new_attach(L, loop, attach_id) : new_create(L, cls, loop);
  if (loop == b->loop) {
    pco__backend_ref(b->backend);
    o->backend = b->backend;
  } else {
    use_settings(L, 1, o);
    o->opening.info = find_plugin(L, b->backend->info->id, cls->name);
  }
  return pco__await(L, AT_BOX);
}

/* core.backend_create(self, options) */
static int backend_create(lua_State *L) {
  const char *name = "backend.create";
  pco__handle *h = pco__open_self(L, PCO__BACKEND, name);
  lua_settop(L, 2);
  lua_pushnil(L);
  lua_insert(L, AT_SETTINGS);
  pco__check_options(L, AT_OPTIONS, name, CREATE_OPTIONS);
  return make_in(L, h, &pco__create_class, NULL);
}

/* core.backend_attach(self, id, options): the id stays at AT_SETTINGS until the
 * op has it. */
static int backend_attach(lua_State *L) {
  static const char *const known[] = {"timeout", "portal", "allow_in_tasks",
                                      NULL};
  const char *name = pco__attach_class.name;
  pco__handle *h = pco__open_self(L, PCO__BACKEND, name);
  lua_settop(L, 3);
  check_name(L, 2, name, "the sandbox's id");
  pco__check_options(L, AT_OPTIONS, name, known);
  return make_in(L, h, &pco__attach_class, lua_tostring(L, 2));
}

/* core.sandbox(options): 1 is the backend's name or object from then on. */
static int core_sandbox(lua_State *L) {
  const char *name = "sandbox";
  lua_settop(L, 1);
  lua_pushnil(L);
  lua_rotate(L, 1, 1); /* nil, options */
  lua_pushvalue(L, 2); /* nil, options, options */
  pco__check_options(L, AT_OPTIONS, name, create_options);
  pco__check_caller(L, name, allow_in_tasks(L, AT_OPTIONS, name));
  bool named = pco__get_option(L, AT_OPTIONS, "backend");
  if (!named)
    lua_pushliteral(L, DEFAULT_BACKEND);
  lua_replace(L, 1);
  lua_pushnil(L);
  lua_replace(L, AT_SETTINGS);
  if (lua_istable(L, 1)) {
    pco__handle *b = pco__open_self(L, PCO__BACKEND, name);
    if (pco__get_option(L, AT_OPTIONS, "backend_settings"))
      pco__bad_argument(L, name,
                        "backend_settings belong to a backend's name; this "
                        "backend is open already");
    return make_in(L, b, &pco__sandbox_class, NULL);
  }
  check_name(L, 1, name, "backend");
  if (pco__get_option(L, AT_OPTIONS, "backend_settings"))
    lua_replace(L, AT_SETTINGS);
  if (!pco__is_sync(L))
    pco__check_wait(L, &pco__sandbox_class);
  guard *g = push_guard(L);
  pco__loop *loop = choose_loop(L, AT_OPTIONS, name);
  guard_portal(g, loop);
  pco__create_op *o = new_create(L, &pco__sandbox_class, loop);
  o->opening.settings =
      pco__arg_settings(L, AT_SETTINGS, name, "backend_settings", &o->op.arena,
                        &o->opening.n_settings);
  o->opening.info =
      named ? find_plugin(L, lua_tostring(L, 1), name) : find_default(L, name);
  return pco__await(L, AT_BOX);
}

const pco__core_function pco__create_functions[] = {
    {"open", core_open},
    {"sandbox", core_sandbox},
    {"backend_create", backend_create},
    {"backend_attach", backend_attach},
    {NULL, NULL}};
