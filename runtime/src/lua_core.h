/* SPDX-License-Identifier: MIT */
/* The entry to the Lua binding. */
#ifndef PCO_LUA_CORE_H
#define PCO_LUA_CORE_H

struct lua_State;

/* Pushes the table of portico.core, made at the first call in a state: its
 * binding lives in the registry until lua_close.  May raise. */
__attribute__((visibility("default"))) int pco_lua_open(struct lua_State *L);

#endif /* PCO_LUA_CORE_H */
