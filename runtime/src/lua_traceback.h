/* SPDX-License-Identifier: MIT */
/* Tracebacks; see lua_traceback.c. */
#ifndef PCO_LUA_TRACEBACK_H
#define PCO_LUA_TRACEBACK_H

#include <lauxlib.h>

/* Pushes onto L the title and the stack of co (L or another one) from this
 * level on, a line for each. */
void pco__push_stack(lua_State *L, lua_State *co, const char *title, int level);

#endif /* PCO_LUA_TRACEBACK_H */
