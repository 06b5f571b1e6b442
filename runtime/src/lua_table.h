/* SPDX-License-Identifier: MIT */
/* Lua tables: fields of the one on top of the stack, and new ones. */
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
/* Pushes a new table that does not keep its keys. */
void pco__push_weak_keyed(lua_State *L);
/* A NULL-terminated command as the sequence `argv`. */
void pco__set_argv(lua_State *L, char *const *argv);

#endif /* PCO_LUA_TABLE_H */
