/* SPDX-License-Identifier: MIT */
/*
 * C errors as Lua error objects: tables of a class from portico.errors, with
 * the fields of the whole chain.
 */
#include "lua_error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "lua_coroutine.h"
#include "lua_table.h"
#include "lua_traceback.h"

static const char classes_key = 0;
static const char facade_key = 0;

static const char *const source_names[] = {"host", "plugin", "agent", "remote"};

void pco__push_error_classes(lua_State *L) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &classes_key) == LUA_TTABLE)
    return;
  lua_pop(L, 1);
  lua_newtable(L);
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &classes_key);
}

/* Pushes a class; loads portico.errors if nobody did. */
static void push_class(lua_State *L, const char *name) {
  pco__push_error_classes(L);
  if (lua_getfield(L, -1, name) != LUA_TTABLE) {
    lua_pop(L, 1);
    lua_getglobal(L, "require");
    lua_pushliteral(L, "portico.errors");
    lua_call(L, 1, 0);
    lua_getfield(L, -1, name);
  }
  lua_remove(L, -2);
}

/* ---- where --------------------------------------------------------------- */

void pco__note_facade(lua_State *L) {
  lua_Debug ar;
  if (!lua_getstack(L, 1, &ar) || !lua_getinfo(L, "S", &ar))
    return;
  const char *mark = strstr(ar.source, "portico/");
  for (const char *m = mark; m; m = strstr(m + 1, "portico/"))
    mark = m;
  if (!mark || ar.source[0] != '@')
    return;
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &facade_key) != LUA_TTABLE) {
    lua_pop(L, 1);
    lua_newtable(L);
    lua_pushvalue(L, -1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &facade_key);
  }
  lua_pushlstring(L, ar.source, (size_t)(mark - ar.source) + 8);
  lua_pushboolean(L, 1);
  lua_rawset(L, -3);
  lua_pop(L, 1);
}

/* True if a chunk's name begins with one of the facades' directories; their
 * table is at idx. */
static bool is_facade(lua_State *L, int idx, const char *source) {
  lua_pushnil(L);
  while (lua_next(L, idx)) {
    lua_pop(L, 1);
    size_t len;
    const char *dir = lua_tolstring(L, -1, &len);
    if (strncmp(source, dir, len) == 0) {
      lua_pop(L, 1);
      return true;
    }
  }
  return false;
}

bool pco__first_script_frame(lua_State *L, lua_State *co, lua_Debug *ar) {
  luaL_checkstack(L, 6, "out of stack");
  int top = lua_gettop(L);
  bool found = false;
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &facade_key) != LUA_TTABLE) {
    lua_pop(L, 1);
    lua_newtable(L);
  }
  for (int level = 0; !found && lua_getstack(co, level, ar); level++) {
    lua_getinfo(co, "Sl", ar);
    found = ar->currentline > 0 && !is_facade(L, top + 1, ar->source);
  }
  lua_settop(L, top);
  return found;
}

/* Pushes "file:line" of the first Lua frame outside Portico, or nil. */
static void push_where(lua_State *L) {
  lua_Debug ar;
  if (pco__first_script_frame(L, L, &ar))
    lua_pushfstring(L, "%s:%d", ar.short_src, ar.currentline);
  else
    lua_pushnil(L);
}

/* ---- objects ------------------------------------------------------------- */

/* True if a text speaks of the path already.  One that looks like a word (a
 * file "link") might be just that, unless it is set off. */
static bool names(const char *text, const char *path) {
  size_t len = strlen(path);
  if (strncmp(text, path, len) == 0 && strchr(": ", text[len]))
    return true; /* also at the end of the text: strchr finds the NUL */
  const char *found = len > 3 ? strstr(text, path) : NULL;
  return found && (strchr(path, '/') || strchr(":'\"", found[len]));
}

/* Whoever finds an argument wrong, we, a plugin or the kernel: it is one class,
 * and scripts ask for one code. */
static const char *code_of(const pco__error *err) {
  bool bad = strcmp(pco__error_class(err), "InvalidArgumentError") == 0;
  return pco__code_name(bad ? PCO_EINVAL : err->code);
}

/* Pushes one link of the chain. */
static void push_link(lua_State *L, const pco__error *err) {
  lua_createtable(L, 0, 13);
  const char *text = err->message ? err->message : pco__code_text(err->code);
  char remedy[160];
  pco__error_remedy(err, remedy, sizeof remedy);
  if (err->path && !(err->message && names(text, err->path)))
    lua_pushfstring(L, "%s: %s%s", err->path, text, remedy); /* names it */
  else
    lua_pushfstring(L, "%s%s", text, remedy);
  lua_setfield(L, -2, "message");
  pco__set_string(L, "code", code_of(err));
  pco__set_string(L, "path", err->path);
  pco__set_string(L, "limit", err->limit);
  pco__set_string(L, "stage", err->stage);
  pco__set_string(L, "source",
                  err->source < 4 ? source_names[err->source] : NULL);
  lua_pushboolean(L, err->retryable);
  lua_setfield(L, -2, "retryable");
  push_class(L, pco__error_class(err));
  lua_setmetatable(L, -2);
}

static void push_chain(lua_State *L, const pco__error *err) {
  push_link(L, err);
  int first = lua_gettop(L);
  for (err = err->cause; err; err = err->cause) {
    luaL_checkstack(L, 4, "too many causes");
    push_link(L, err);
  }
  while (lua_gettop(L) > first)
    lua_setfield(L, -2, "cause");
}

/* Pushes the traceback of L, of the coroutines around it, and where the task
 * was spawned. */
static void push_traceback(lua_State *L, int level) {
  pco__push_stack(L, L, "stack traceback:", level);
  pco__lua *lua = pco__lua_find(L);
  if (lua)
    pco__outer_traceback(L, lua, L);
}

static int new_chain(lua_State *L) {
  push_chain(L, (const pco__error *)lua_touserdata(L, 1));
  return 1;
}

bool pco__protected(lua_State *L, lua_CFunction fn, int n_args, int n_results) {
  lua_pushcfunction(L, fn);
  lua_insert(L, -n_args - 1);
  return lua_pcall(L, n_args, n_results, 0) == LUA_OK;
}

bool pco__protected_aside(lua_State *L, lua_CFunction fn, int n_args,
                          int n_results) {
  const int all = LUA_MASKCALL | LUA_MASKRET | LUA_MASKLINE | LUA_MASKCOUNT;
  lua_Hook hook = lua_gethook(L);
  bool pending = hook && lua_gethookmask(L) == all && lua_gethookcount(L) == 1;
  if (pending)
    lua_sethook(L, NULL, 0, 0);
  bool good = pco__protected(L, fn, n_args, n_results);
  if (pending && !lua_gethook(L)) /* else it came again */
    lua_sethook(L, hook, all, 1);
  return good;
}

void pco__push_error(lua_State *L, pco__error *err, const char *operation) {
  lua_pushlightuserdata(L, err);
  bool made = pco__protected(L, new_chain, 1, 1);
  pco__error_free(err);
  if (!made)
    lua_error(L); /* out of memory */
  pco__set_string(L, "operation", operation);
  push_where(L);
  lua_setfield(L, -2, "where");
  push_traceback(L, 0);
  lua_setfield(L, -2, "traceback");
}

void pco__add_context(lua_State *L, int self) {
  if (self == 0)
    return;
  pco__handle *h = pco__handle_at(L, self);
  if (!h && lua_istable(L, self)) {
    lua_pushliteral(L, "sandbox"); /* a FileSystem */
    lua_rawget(L, self);
    h = pco__handle_at(L, -1);
    lua_pop(L, 1);
  }
  if (!h)
    return;
  const pco__sandbox *sb = h->process ? h->process->sandbox : h->sandbox;
  const pco__backend *b = sb ? sb->backend : h->backend;
  if (b)
    pco__set_string(L, "backend", b->info->id);
  if (sb)
    pco__set_string(L, "sandbox", sb->id);
}

int pco__raise(lua_State *L, pco__error *err, const char *operation, int self) {
  if (self)
    self = lua_absindex(L, self);
  pco__push_error(L, err, operation);
  pco__add_context(L, self);
  return lua_error(L);
}

int pco__raise_new(lua_State *L, int code, const char *operation,
                   const char *fmt, ...) {
  char text[512];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  return pco__raise(L, pco__error_new(code, PCO_SOURCE_HOST, NULL, "%s", text),
                    operation, 0);
}

bool pco__is_error(lua_State *L, int idx) {
  idx = lua_absindex(L, idx);
  int top = lua_gettop(L);
  bool is = false;
  if (lua_istable(L, idx) && lua_getmetatable(L, idx)) {
    lua_pushliteral(L, "name");
    if (lua_rawget(L, -2) == LUA_TSTRING) {
      pco__push_error_classes(L);
      lua_pushvalue(L, -2);
      lua_rawget(L, -2);
      is = lua_rawequal(L, -1, top + 1);
    }
  }
  lua_settop(L, top);
  return is;
}

/* Pushes a string field of the error object at idx, or nothing. */
static const char *string_field(lua_State *L, int idx, const char *name) {
  lua_pushstring(L, name);
  if (lua_rawget(L, idx) == LUA_TSTRING)
    return lua_tostring(L, -1);
  return NULL;
}

void pco__push_description(lua_State *L, int idx) {
  idx = lua_absindex(L, idx);
  luaL_checkstack(L, 8, "out of stack");
  int top = lua_gettop(L);
  lua_pushnil(L); /* the place of the text */
  if (pco__is_error(L, idx)) {
    lua_getmetatable(L, idx);
    const char *class_name = string_field(L, top + 2, "name");
    const char *code = string_field(L, idx, "code");
    const char *message = string_field(L, idx, "message");
    lua_pushfstring(L, "%s%s%s: %s", class_name, code ? " " : "",
                    code ? code : "", message ? message : "");
  } else if (lua_isstring(L, idx)) {
    lua_pushvalue(L, idx);
    lua_tostring(L, -1); /* a number becomes text, the copy only */
  } else {
    lua_pushfstring(L, "(error object is a %s value)", luaL_typename(L, idx));
  }
  lua_replace(L, top + 1);
  lua_settop(L, top + 1);
}

int pco__traceback_handler(lua_State *L) {
  if (pco__is_error(L, 1)) {
    lua_pushliteral(L, "traceback");
    if (lua_rawget(L, 1) == LUA_TNIL) {
      push_traceback(L, 1);
      lua_setfield(L, 1, "traceback");
    }
  }
  lua_settop(L, 1);
  return 1;
}

void pco__name_overflow(lua_State *L, int status) {
  if (status != LUA_ERRERR)
    return;
  lua_pop(L, 1);
  lua_pushliteral(L, "stack overflow");
}
