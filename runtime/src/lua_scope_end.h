/* SPDX-License-Identifier: MIT */
/* How a scope ended; see lua_scope_end.c. */
#ifndef PCO_LUA_SCOPE_END_H
#define PCO_LUA_SCOPE_END_H

#include "lua_scope.h"

/* The frame of an open scope. */
enum {
  AT_FN = 1,
  AT_OPTIONS,
  AT_SCOPE = PCO__AT_SCOPE,
  AT_TASKS, /* all, first: the tasks; else the traceback handler */
  AT_RESULTS
};

/* All children have ended.  Returns if how it ended is up to the caller, who
 * has the results; raises everything else. */
void pco__scope_conclude(lua_State *L, pco__scope *scope);
/* all: the first result of each, in a table. */
int pco__scope_give_all(lua_State *L);
/* first: the results of the one that won. */
int pco__scope_give_first(lua_State *L, pco__scope *scope);

/* Of lua_scope.c: takes the scope from its owner, once. */
void pco__scope_unlink(pco__scope *scope);
/* Takes what is about it out of the registry: reason and name. */
void pco__scope_forget(lua_State *L, const pco__scope *scope);

#endif /* PCO_LUA_SCOPE_END_H */
