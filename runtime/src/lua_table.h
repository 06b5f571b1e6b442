/* SPDX-License-Identifier: MIT */
/* Fields of the Lua table on top of the stack. */
#ifndef PCO_LUA_TABLE_H
#define PCO_LUA_TABLE_H

#include <lua.h>
#include <stdbool.h>

void pco__set_integer(lua_State *L, const char *key, lua_Integer value);
void pco__set_boolean(lua_State *L, const char *key, bool value);
/* NULL leaves the field absent. */
void pco__set_string(lua_State *L, const char *key, const char *value);
/* Seconds since 1970; absent if unknown (0). */
void pco__set_time(lua_State *L, const char *key, double seconds);
/* A NULL-terminated command as the sequence `argv`. */
void pco__set_argv(lua_State *L, char *const *argv);

#endif /* PCO_LUA_TABLE_H */
