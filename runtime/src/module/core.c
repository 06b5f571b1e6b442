/* SPDX-License-Identifier: MIT */
/*
 * The Lua module portico/core.so: the name that require() looks for.  What it
 * opens lives in libportico, which stays loaded (-z nodelete).
 *
 * It is not linked with libportico, but loads it, so that an older or a newer
 * Lua can load this file and gets a text to act on: libportico could not even
 * be loaded there, and the loader would name some missing symbol.  So nothing
 * here is used before the version is known that Lua 5.1 and LuaJIT do not have.
 */
#include <dlfcn.h>
#include <string.h>

#include <lua.h>

#include "../lua_core.h"

/* 5.4 and later have both, and lua_version as it is declared here. */
#pragma weak lua_newuserdatauv
#pragma weak lua_version
/* Who has one of these, but not the above, is older. */
#pragma weak lua_rotate
#pragma weak lua_absindex
extern int luaJIT_setmode(lua_State *L, int index, int mode)
    __attribute__((weak));

typedef int open_fn(lua_State *L);

__attribute__((visibility("default"))) int luaopen_portico_core(lua_State *L);

static const char *older_lua(void) {
  if (luaJIT_setmode)
    return "LuaJIT (Lua 5.1)";
  if (lua_rotate)
    return "Lua 5.3";
  return lua_absindex ? "Lua 5.2" : "Lua 5.1";
}

/* Raises unless this Lua is a 5.4. */
static void check_lua(lua_State *L) {
  const char *name = NULL;
  int version = 0;
  if (!lua_newuserdatauv)
    name = older_lua();
  else
    version = (int)lua_version(L);
  if (version == LUA_VERSION_NUM)
    return;
  if (!name)
    name = lua_pushfstring(L, "Lua %d.%d", version / 100, version % 100);
  lua_pushfstring(L,
                  "Portico needs Lua 5.4, and this program has %s: run the "
                  "script by lua5.4 or by the command portico, or build the "
                  "program with Lua 5.4",
                  name);
  lua_error(L);
}

/* A function as dlsym gives it: POSIX wants it to be read so. */
static open_fn *find_open(void *library) {
  union {
    void *symbol;
    open_fn *fn;
  } found = {dlsym(library, "pco_lua_open")};
  return found.fn;
}

/* The library that is loaded already; else the one of this file's prefix; else
 * the system's.  The path is spelled out, since a sanitizer's dlopen does not
 * know the RUNPATH of its caller. */
static void *load_library(lua_State *L) {
  static const char here;
  Dl_info self;
  void *library = dlopen(PCO_SONAME, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (!library && dladdr(&here, &self) && strchr(self.dli_fname, '/')) {
    size_t dir = strrchr(self.dli_fname, '/') - self.dli_fname;
    lua_pushlstring(L, self.dli_fname, dir);
    library = dlopen(lua_pushfstring(L, "%s/%s/%s", lua_tostring(L, -1),
                                     PCO_LIB_RELPATH, PCO_SONAME),
                     RTLD_NOW | RTLD_LOCAL);
    lua_pop(L, 2);
  }
  return library ? library : dlopen(PCO_SONAME, RTLD_NOW | RTLD_LOCAL);
}

int luaopen_portico_core(lua_State *L) {
  check_lua(L);
  void *library = load_library(L);
  open_fn *open = library ? find_open(library) : NULL;
  if (!open) {
    lua_pushfstring(L, "Portico's library cannot be loaded: %s", dlerror());
    return lua_error(L);
  }
  return open(L);
}
