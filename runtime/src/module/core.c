/* SPDX-License-Identifier: MIT */
/*
 * The Lua module portico/core.so: nothing but the name that require() looks
 * for.  What it opens lives in libportico, which stays loaded (-z nodelete).
 */
#include <lua.h>

#include "../lua_core.h"

__attribute__((visibility("default"))) int luaopen_portico_core(lua_State *L);

int luaopen_portico_core(lua_State *L) {
  return pco_lua_open(L);
}
