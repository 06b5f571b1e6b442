/* SPDX-License-Identifier: MIT */
/*
 * The module portico.core: one table of C functions for each facade, the error
 * classes, and the binding that owns everything of this lua_State.
 */
#include "lua_core.h"

#include <string.h>

#include "embed.h"
#include "exit_error.h"
#include "lua_args.h"
#include "lua_channel.h"
#include "lua_coroutine.h"
#include "lua_error.h"
#include "lua_scope.h"
#include "lua_state.h"
#include "plugin_loader.h"

#ifndef PCO_VERSION
#  define PCO_VERSION "0.1.0"
#endif

static const char binding_key = 0; /* the module's table */
static const char pointer_key = 0; /* the binding, for pco__lua_find */

/* ---- small functions of the module --------------------------------------- */

static int class_kind(lua_State *L) {
  const char *name = luaL_checkstring(L, 1);
  for (int i = 0; i < PCO__N_CLASSES; i++)
    if (strcmp(pco__class_names[i], name) == 0)
      return i;
  return luaL_argerror(L, 1, "no class has that name");
}

/* core.class(name): the table of methods, the same one every time. */
static int core_class(lua_State *L) {
  pco__note_facade(L);
  pco__push_metatable(L, class_kind(L), pco__is_sync(L));
  /* Tasks keep their class there: their __index is a function. */
  if (lua_getfield(L, -1, "class") == LUA_TNIL)
    lua_getfield(L, -2, "__index");
  return 1;
}

/* core.metatable(name) */
static int core_metatable(lua_State *L) {
  pco__push_metatable(L, class_kind(L), pco__is_sync(L));
  return 1;
}

typedef struct listing {
  lua_State *L;
  lua_Integer n;
} listing;

/* Runs without protection between two C functions that own nothing of Lua;
 * pushing two short strings can only fail without memory. */
static void list_one(void *arg, const char *name, const char *path) {
  listing *l = (listing *)arg;
  if (!pco__may_use_backend(pco__lua_of(l->L), name))
    return;
  lua_createtable(l->L, 0, 2);
  lua_pushstring(l->L, name);
  lua_setfield(l->L, -2, "name");
  lua_pushstring(l->L, path);
  lua_setfield(l->L, -2, "path");
  lua_rawseti(l->L, -2, ++l->n);
}

/* core.backends() */
static int core_backends(lua_State *L) {
  listing l = {.L = L};
  lua_settop(L, 0);
  pco__check_caller(L, "backends", true);
  lua_newtable(L);
  int rc = pco__loader_list(list_one, &l);
  if (rc < 0)
    pco__raise(L, pco__error_new(rc, PCO_SOURCE_HOST, NULL, NULL), "backends",
               0);
  return 1;
}

/* True if a word needs no quotes in a POSIX shell. */
static bool is_plain(const char *s, size_t len) {
  for (size_t i = 0; i < len; i++) {
    char c = s[i];
    bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                  (c >= '0' && c <= '9');
    if (!letter && !(c && strchr("@%+=:,./_-", c)))
      return false;
  }
  return len > 0;
}

static void quote_word(luaL_Buffer *b, const char *s, size_t len) {
  if (is_plain(s, len)) {
    luaL_addlstring(b, s, len);
    return;
  }
  luaL_addchar(b, '\'');
  for (size_t i = 0; i < len; i++) {
    if (s[i] == '\'')
      luaL_addstring(b, "'\\''");
    else
      luaL_addchar(b, s[i]);
  }
  luaL_addchar(b, '\'');
}

/* core.quote(...) */
static int core_quote(lua_State *L) {
  int n = lua_gettop(L);
  luaL_Buffer b;
  luaL_checkstack(L, 20, "too many words");
  for (int i = 1; i <= n; i++) {
    if (lua_type(L, i) != LUA_TSTRING && !lua_isinteger(L, i))
      pco__bad_argument(L, "quote",
                        "word %d must be a string or an integer (got %s)", i,
                        luaL_typename(L, i));
    size_t len;
    const char *s = lua_tolstring(L, i, &len);
    if (memchr(s, 0, len))
      pco__bad_argument(L, "quote",
                        "word %d contains a zero byte, which no shell can take",
                        i);
  }
  luaL_buffinit(L, &b);
  for (int i = 1; i <= n; i++) {
    size_t len;
    const char *s = lua_tolstring(L, i, &len);
    if (i > 1)
      luaL_addchar(&b, ' ');
    quote_word(&b, s, len);
  }
  luaL_pushresult(&b);
  return 1;
}

/* core.result_check(self) */
static int result_check(lua_State *L) {
  pco__push_metatable(L, PCO__RESULT, pco__is_sync(L));
  if (!lua_istable(L, 1) || !lua_getmetatable(L, 1) || !lua_rawequal(L, -1, -2))
    return pco__raise_new(L, PCO_EDOT, "result.check",
                          "called without its Result: write result:check(), "
                          "with a colon");
  lua_settop(L, 1);
  lua_getfield(L, 1, "ok");
  if (lua_toboolean(L, -1)) {
    lua_settop(L, 1);
    return 1;
  }
  lua_getfield(L, 1, "signal");
  lua_getfield(L, 1, "code");
  lua_getfield(L, 1, "reason");
  lua_getfield(L, 1, "stderr");
  const char *reason = lua_tostring(L, 5);
  pco__exit_words words = {.code = (int)lua_tointeger(L, 4),
                           .signal = lua_tostring(L, 3),
                           .oom = reason && strcmp(reason, "oom") == 0};
  words.err = lua_tolstring(L, 6, &words.len);
  pco__error *err = pco__exit_error(&words);
  pco__push_error(L, err, "result.check");
  lua_pushvalue(L, 1);
  lua_setfield(L, -2, "result");
  return lua_error(L);
}

/* ---- __close ------------------------------------------------------------- */

static int after_close(lua_State *L, int status, lua_KContext context) {
  (void)context;
  if (status == LUA_OK || status == LUA_YIELD || lua_isnil(L, 2)) {
    if (status != LUA_OK && status != LUA_YIELD)
      return lua_error(L);
    return 0;
  }
  /* An error is in flight: the failed close is a note on it. */
  if (pco__is_error(L, 2)) {
    lua_pushvalue(L, -1);
    lua_setfield(L, 2, "suppressed");
  }
  return 0;
}

/* core.close_scope(self, err): what __close calls.  Closes; while an error is
 * in flight, a failed close never replaces it. */
static int close_scope(lua_State *L) {
  lua_settop(L, 2);
  lua_getfield(L, 1, "close");
  lua_pushvalue(L, 1);
  int status = lua_pcallk(L, 1, 0, 0, 0, after_close);
  return after_close(L, status, 0);
}

static const pco__core_function small_functions[] = {
    {"class", core_class},
    {"metatable", core_metatable},
    {"backends", core_backends},
    {"quote", core_quote},
    {"result_check", result_check},
    {"close_scope", close_scope},
    {NULL, NULL}};

/* ---- the binding --------------------------------------------------------- */

static int binding_gc(lua_State *L) {
  pco__lua *lua = (pco__lua *)lua_touserdata(L, 1);
  if (lua->embedder)
    pco__embed_state_closes(lua->embedder);
  if (lua->main)
    pco__runtime_deinit(&lua->runtime);
  lua->main = NULL;
  return 0;
}

static pco__lua *push_binding(lua_State *L) {
  pco__lua *lua = lua_newuserdatauv(L, sizeof *lua, 0);
  memset(lua, 0, sizeof *lua);
  lua_createtable(L, 0, 1);
  lua_pushcfunction(L, binding_gc);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
  pco__list_init(&lua->ready);
  pco__list_init(&lua->turn);
  pco__list_init(&lua->tasks);
  int rc = pco__runtime_init(&lua->runtime);
  if (rc < 0)
    luaL_error(L, "portico: %s", pco__code_text(rc));
  sigaction(SIGINT, NULL, &lua->on_interrupt);
  lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
  lua->main = lua_tothread(L, -1);
  lua_pop(L, 1);
  lua_pushlightuserdata(L, lua);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &pointer_key);
  lua_pushlightuserdata(L, &lua->running);
  lua_setfield(L, LUA_REGISTRYINDEX, "portico.running");
  return lua;
}

pco__lua *pco__lua_find(lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &pointer_key);
  pco__lua *lua = (pco__lua *)lua_touserdata(L, -1);
  lua_pop(L, 1);
  return lua;
}

static void add_functions(lua_State *L, int binding,
                          const pco__core_function *functions, bool sync) {
  for (; functions->name; functions++) {
    lua_pushvalue(L, binding);
    lua_pushboolean(L, sync);
    lua_pushcclosure(L, functions->fn, 2);
    lua_setfield(L, -2, functions->name);
  }
}

static void push_facade(lua_State *L, int binding, bool sync) {
  lua_newtable(L);
  add_functions(L, binding, small_functions, sync);
  add_functions(L, binding, pco__create_functions, sync);
  add_functions(L, binding, pco__backend_functions, sync);
  add_functions(L, binding, pco__sandbox_functions, sync);
  add_functions(L, binding, pco__transfer_functions, sync);
  add_functions(L, binding, pco__process_functions, sync);
  add_functions(L, binding, pco__iterator_functions, sync);
  add_functions(L, binding, pco__fs_functions, sync);
  add_functions(L, binding, pco__file_functions, sync);
  add_functions(L, binding, pco__object_functions, sync);
  add_functions(L, binding, pco__run_functions, sync);
  add_functions(L, binding, pco__sleep_functions, sync);
  add_functions(L, binding, pco__wait_functions, sync);
  if (sync) {
    add_functions(L, binding, pco__portal_functions, sync);
    return;
  }
  pco__init_task_class(L);
  pco__init_scope_class(L);
  pco__init_channel_classes(L);
  add_functions(L, binding, pco__task_functions, sync);
  add_functions(L, binding, pco__turn_functions, sync);
  add_functions(L, binding, pco__scope_functions, sync);
  add_functions(L, binding, pco__event_functions, sync);
  add_functions(L, binding, pco__channel_functions, sync);
  add_functions(L, binding, pco__dump_functions, sync);
}

/* The functions of portico.coroutine: of no facade, with the same upvalues. */
static void push_coroutines(lua_State *L, int binding) {
  lua_newtable(L);
  add_functions(L, binding, pco__coroutine_functions, false);
}

/* core.codes(): code name -> class name, made when it is asked for, since it is
 * as large as a facade. */
static int core_codes(lua_State *L) {
  lua_newtable(L);
  for (int code = -1; code > -134; code--) {
    pco__error e = {.code = code};
    const char *name = pco__code_name(code);
    if (strcmp(name, "EUNKNOWN") == 0)
      continue;
    lua_pushstring(L, pco__error_class(&e));
    lua_setfield(L, -2, name);
  }
  for (int i = 0; pco__own_code(i) != 0; i++) {
    pco__error e = {.code = pco__own_code(i)};
    lua_pushstring(L, pco__error_class(&e));
    lua_setfield(L, -2, pco__code_name(e.code));
  }
  return 1;
}

int pco_lua_open(lua_State *L) {
  luaL_checkversion(L);
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &binding_key) == LUA_TTABLE)
    return 1;
  lua_pop(L, 1);
  push_binding(L);
  int binding = lua_gettop(L);
  lua_newtable(L);
  push_facade(L, binding, false);
  lua_setfield(L, -2, "async");
  push_facade(L, binding, true);
  lua_setfield(L, -2, "sync");
  push_coroutines(L, binding);
  lua_setfield(L, -2, "coroutines");
  pco__push_error_classes(L);
  lua_setfield(L, -2, "error_classes");
  lua_pushcfunction(L, core_codes);
  lua_setfield(L, -2, "codes");
  lua_pushliteral(L, PCO_VERSION);
  lua_setfield(L, -2, "version");
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &binding_key);
  return 1;
}
