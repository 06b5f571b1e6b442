/* SPDX-License-Identifier: MIT */
/* Fields of the Lua table on top of the stack. */
#include "lua_table.h"

void pco__set_integer(lua_State *L, const char *key, lua_Integer value) {
  lua_pushinteger(L, value);
  lua_setfield(L, -2, key);
}

void pco__set_boolean(lua_State *L, const char *key, bool value) {
  lua_pushboolean(L, value);
  lua_setfield(L, -2, key);
}

void pco__set_string(lua_State *L, const char *key, const char *value) {
  if (!value)
    return;
  lua_pushstring(L, value);
  lua_setfield(L, -2, key);
}

void pco__set_time(lua_State *L, const char *key, double seconds) {
  if (seconds <= 0)
    return;
  lua_pushnumber(L, seconds);
  lua_setfield(L, -2, key);
}

void pco__set_argv(lua_State *L, char *const *argv) {
  lua_newtable(L);
  for (int i = 0; argv[i]; i++) {
    lua_pushstring(L, argv[i]);
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "argv");
}

void pco__push_weak_keyed(lua_State *L) {
  lua_newtable(L);
  lua_createtable(L, 0, 1);
  lua_pushliteral(L, "k");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
}
