/* SPDX-License-Identifier: MIT */
/*
 * A program with a Lua of its own that links libportico, as somebody who has
 * nothing but the installed files would write it.
 *
 *   consumer LUA_DIR SCRIPT    LUA_DIR is where Portico's Lua modules are
 */
#include <stdio.h>

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

#include <portico/plugin.h>

/* The loader of portico.core, which libportico exports. */
int pco_lua_open(lua_State *L);

static void set_path(lua_State *L, const char *dir) {
  lua_getglobal(L, "package");
  lua_pushfstring(L, "%s/?.lua;%s/?/init.lua", dir, dir);
  lua_setfield(L, -2, "path");
  lua_pushliteral(L, "");
  lua_setfield(L, -2, "cpath");
  lua_pop(L, 1);
}

int main(int argc, char **argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: consumer LUA_DIR SCRIPT\n");
    return 2;
  }
  lua_State *L = luaL_newstate();
  if (!L)
    return 1;
  luaL_openlibs(L);
  luaL_requiref(L, "portico.core", pco_lua_open, 0);
  lua_settop(L, 0);
  set_path(L, argv[1]);
  int status = luaL_dostring(L, argv[2]) ? 1 : 0;
  if (status != 0)
    fprintf(stderr, "consumer: %s\n", lua_tostring(L, -1));
  else
    printf("ABI %d.%d\n", PCO_ABI_MAJOR, PCO_ABI_MINOR);
  lua_close(L);
  return status;
}
