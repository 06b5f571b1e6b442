/* SPDX-License-Identifier: MIT */
/* Walking a tree, and finding what matches a pattern; see lua_walk.c and
 * lua_glob.c. */
#ifndef PCO_LUA_WALK_H
#define PCO_LUA_WALK_H

#include "fs_ops.h"
#include "lua_state.h"

/* Pushes the next entry of a walk, or nil: the call of the Iterator at 1. */
int pco__walk_next(lua_State *L, pco__handle *it);
/* Ends the walk of the Iterator at 1 before its end. */
void pco__walk_close(lua_State *L, pco__handle *it);

/* Core functions of FileSystem. */
int pco__fs_walk(lua_State *L);
int pco__fs_glob(lua_State *L);

#endif /* PCO_LUA_WALK_H */
