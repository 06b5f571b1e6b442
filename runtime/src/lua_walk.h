/* SPDX-License-Identifier: MIT */
/* Walking a tree, and finding what matches a pattern; see lua_walk.c and
 * lua_glob.c. */
#ifndef PCO_LUA_WALK_H
#define PCO_LUA_WALK_H

#include "fs_ops.h"
#include "lua_state.h"

struct pco__walk;

/* Pushes the next entry of a walk, or nil: the call of the Iterator at 1. */
int pco__walk_next(lua_State *L, pco__handle *it);
/* Ends it: nothing more comes. */
void pco__walk_free(struct pco__walk *w);
/* Ends the walk of the Iterator at 1 before its end. */
void pco__walk_close(lua_State *L, pco__handle *it);

/* Core functions of FileSystem. */
int pco__fs_walk(lua_State *L);
int pco__fs_glob(lua_State *L);

/* Puts a name behind the path of its directory; NULL without memory.  The
 * caller frees it. */
char *pco__join_path(const char *directory, const char *name);

#endif /* PCO_LUA_WALK_H */
