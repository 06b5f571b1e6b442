/* SPDX-License-Identifier: MIT */
/*
 * The Lua state of a host in C: one of our own, with the host's allocator and
 * the libraries that it allows, or the host's, which gets no more than the
 * binding and what the config asks for.
 */
#include <limits.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "embed.h"
#include "lua_core.h"
#include "lua_task.h"
#include "sys/image.h"

#ifndef PCO_LIB_LUA_RELPATH /* of the Lua files, from libportico's directory   \
                             */
#  define PCO_LIB_LUA_RELPATH "../share/lua/5.4"
#endif

/* ---- memory -------------------------------------------------------------- */

static void *give_memory(const pco__budget *m, void *ptr, size_t osize,
                         size_t nsize) {
  if (m->alloc)
    return m->alloc(m->ud, ptr, osize, nsize);
  if (nsize)
    return realloc(ptr, nsize);
  free(ptr);
  return NULL;
}

/* lua_Alloc, counting. */
static void *allocate(void *ud, void *ptr, size_t osize, size_t nsize) {
  pco__budget *m = (pco__budget *)ud;
  size_t old = ptr ? osize : 0; /* else it is the type of what is made */
  size_t rest = m->used - old;
  if (m->limit && nsize > old && (rest > m->limit || nsize > m->limit - rest))
    return NULL;
  void *p = give_memory(m, ptr, old, nsize);
  if (!p && nsize)
    return NULL;
  m->used = rest + nsize;
  if (m->used > m->peak)
    m->peak = m->used;
  return p;
}

/* ---- libraries ----------------------------------------------------------- */

typedef struct library {
  uint32_t bit;
  const char *name;
  lua_CFunction open;
} library;

static const library libraries[] = {
    {PCO_LIB_BASE, LUA_GNAME, luaopen_base},
    {PCO_LIB_COROUTINE, LUA_COLIBNAME, luaopen_coroutine},
    {PCO_LIB_TABLE, LUA_TABLIBNAME, luaopen_table},
    {PCO_LIB_STRING, LUA_STRLIBNAME, luaopen_string},
    {PCO_LIB_UTF8, LUA_UTF8LIBNAME, luaopen_utf8},
    {PCO_LIB_MATH, LUA_MATHLIBNAME, luaopen_math},
    {PCO_LIB_IO, LUA_IOLIBNAME, luaopen_io},
    {PCO_LIB_OS, LUA_OSLIBNAME, luaopen_os},
    {PCO_LIB_DEBUG, LUA_DBLIBNAME, luaopen_debug},
};

/* load of the base library, for source only: a binary chunk can do anything to
 * the process. */
static int load_source(lua_State *L) {
  if (lua_gettop(L) < 3)
    lua_settop(L, 3);
  lua_pushliteral(L, "t");
  lua_replace(L, 3);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  return lua_gettop(L);
}

static void restrict_base(lua_State *L) {
  static const char *const removed[] = {"dofile", "loadfile"};
  for (size_t i = 0; i < sizeof removed / sizeof *removed; i++) {
    lua_pushnil(L);
    lua_setglobal(L, removed[i]);
  }
  lua_getglobal(L, "load");
  lua_pushcclosure(L, load_source, 1);
  lua_setglobal(L, "load");
}

/* Opens what the config says.  `require` is always there: without the package
 * library it finds what is loaded, preloaded, or ours. */
static void open_libraries(lua_State *L, uint32_t libs) {
  for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++)
    if (libs & libraries[i].bit) {
      luaL_requiref(L, libraries[i].name, libraries[i].open, 1);
      lua_pop(L, 1);
    }
  if (libs & PCO_LIB_BASE && !(libs & PCO_LIB_FILES))
    restrict_base(L);
  luaL_requiref(L, LUA_LOADLIBNAME, luaopen_package, 1);
  lua_pop(L, 1);
}

/* ---- modules ------------------------------------------------------------- */

/* package.searchers of the host: the config's load_module. */
static int search_host(lua_State *L) {
  pco_runtime *rt = pco__lua_find(L)->embedder;
  const char *name = luaL_checkstring(L, 1);
  const char *chunk = NULL;
  const char *where = NULL;
  size_t len = 0;
  if (!rt || !rt->config.load_module)
    return 0;
  int rc = rt->config.load_module(rt->config.ud, name, &chunk, &len, &where);
  if (rc == UV_ENOENT)
    lua_pushliteral(L, "the program that runs this script has no such module");
  else if (rc < 0 || !chunk)
    return luaL_error(L, "module '%s': %s", name,
                      pco__code_text(rc < 0 ? rc : PCO_EINVAL));
  else if (luaL_loadbufferx(L, chunk, len, where ? where : name, "t") != LUA_OK)
    return lua_error(L);
  else
    lua_pushstring(L, where ? where : name);
  return rc == UV_ENOENT ? 1 : 2;
}

/* The directory of our Lua files. */
static bool find_dir(const pco_runtime *rt, char *out, size_t size) {
  static const char here = 0;
  char image[PATH_MAX];
  if (rt->lua_dir)
    return snprintf(out, size, "%s", rt->lua_dir) < (int)size;
  if (pco__image_path(&here, image, sizeof image) < 0)
    return false;
  *strrchr(image, '/') = '\0';
  return snprintf(out, size, "%s/" PCO_LIB_LUA_RELPATH, image) < (int)size;
}

/* "portico.sync" and the like; no other name may become part of a path. */
static bool is_ours(const char *name) {
  size_t len = sizeof "portico" - 1;
  if (strncmp(name, "portico", len) != 0 || (name[len] && name[len] != '.'))
    return false;
  return !name[strspn(name, "abcdefghijklmnopqrstuvwxyz_.")] &&
         !strstr(name, "..");
}

/* Loads DIR/portico/sync/init.lua, or DIR/portico/sync.lua. */
static bool load_file(lua_State *L, const char *dir, const char *name) {
  static const char *const ends[] = {"/init.lua", ".lua"};
  const char *relative = luaL_gsub(L, name, ".", "/");
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
    const char *path = lua_pushfstring(L, "%s/%s%s", dir, relative, ends[i]);
    int status = luaL_loadfilex(L, path, "t");
    if (status == LUA_OK) {
      lua_insert(L, -2); /* function, path */
      return true;
    }
    if (status != LUA_ERRFILE)
      lua_error(L);
    lua_pop(L, 2);
  }
  return false;
}

/* package.searchers: Portico's own files. */
static int search_own(lua_State *L) {
  const pco_runtime *rt = pco__lua_find(L)->embedder;
  const char *name = luaL_checkstring(L, 1);
  char dir[PATH_MAX];
  if (!rt || !is_ours(name) || !find_dir(rt, dir, sizeof dir))
    return 0;
  if (load_file(L, dir, name))
    return 2;
  lua_pushfstring(L, "no file of it in '%s'", dir);
  return 1;
}

static const char searchers_key = 0; /* in the registry: ours are there */

static bool has_ours(lua_State *L) {
  bool has = lua_rawgetp(L, LUA_REGISTRYINDEX, &searchers_key) != LUA_TNIL;
  lua_pop(L, 1);
  lua_pushboolean(L, 1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &searchers_key);
  return has;
}

/* Puts ours behind `preload`; the others stay only if `keep`. */
static void set_searchers(lua_State *L, bool keep) {
  enum { N_OURS = 2 };
  static const lua_CFunction ours[N_OURS] = {search_host, search_own};
  if (has_ours(L)) /* of an earlier runtime of this state */
    return;
  if (lua_getglobal(L, LUA_LOADLIBNAME) != LUA_TTABLE ||
      lua_getfield(L, -1, "searchers") != LUA_TTABLE) {
    lua_settop(L, 0); /* a host without `require` */
    return;
  }
  int list = lua_gettop(L);
  lua_Integer n = (lua_Integer)lua_rawlen(L, list);
  for (lua_Integer i = n; i >= 2; i--) {
    if (keep)
      lua_rawgeti(L, list, i);
    else
      lua_pushnil(L);
    lua_rawseti(L, list, i + N_OURS);
  }
  for (int i = 0; i < N_OURS; i++) {
    lua_pushcfunction(L, ours[i]);
    lua_rawseti(L, list, i + 2);
  }
  if (!keep) {
    lua_pushnil(L);
    lua_setglobal(L, LUA_LOADLIBNAME);
  }
  lua_settop(L, 0);
}

/* ---- opening ------------------------------------------------------------- */

/* Prepares the state: (runtime). */
static int prepare(lua_State *L) {
  pco_runtime *rt = (pco_runtime *)lua_touserdata(L, 1);
  uint32_t libs = rt->config.libs ? rt->config.libs : PCO_LIBS_ALL;
  luaL_checkversion(L);
  lua_settop(L, 0);
  if (rt->owns_state)
    open_libraries(L, libs);
  luaL_requiref(L, "portico.core", pco_lua_open, 0);
  lua_settop(L, 0);
  pco__lua *lua = pco__lua_find(L);
  if (lua->embedder)
    return luaL_error(L, "this Lua state has a runtime already");
  rt->lua = lua;
  lua->embedder = rt;
  lua->backends = (const char *const *)rt->backends;
  if (rt->config.log)
    atomic_store(&lua->runtime.log.enabled, true);
  pco__embed_open_guard(L, rt);
  set_searchers(L, !rt->owns_state || libs & PCO_LIB_PACKAGE);
  rt->L = lua->main;
  return 0;
}

static bool has_runtime(lua_State *L) {
  const pco__lua *lua = pco__lua_find(L);
  return lua && lua->embedder;
}

int pco__embed_open_state(pco_runtime *rt) {
  lua_State *L = rt->config.state;
  rt->owns_state = !L;
  if (rt->owns_state)
    L = lua_newstate(allocate, &rt->memory);
  if (!L)
    return UV_ENOMEM;
  if (rt->owns_state)
    rt->L = L;
  if (lua_version(L) != LUA_VERSION_NUM)
    return PCO_ELUA;
  if (!lua_checkstack(L, LUA_MINSTACK))
    return UV_ENOMEM;
  if (!rt->owns_state && has_runtime(L))
    return PCO_EINVAL;
  lua_pushcfunction(L, prepare);
  lua_pushlightuserdata(L, rt);
  int status = lua_pcall(L, 1, 0, 0);
  if (status == LUA_OK)
    return 0;
  lua_pop(L, 1);
  return status == LUA_ERRMEM ? UV_ENOMEM : PCO_ELUA;
}
