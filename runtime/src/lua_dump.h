/* SPDX-License-Identifier: MIT */
/* Telling who waits for what; see lua_dump.c. */
#ifndef PCO_LUA_DUMP_H
#define PCO_LUA_DUMP_H

#include "lua_task.h"

/* Pushes what the task does, in words: "waits for
 * exec at x.lua:3, since 2.1 s". */
void pco__push_doing(lua_State *L, pco__task *task);
/* Pushes the text of a deadlock, with what each task does. */
void pco__push_deadlock(lua_State *L, pco__lua *lua);

/* Calls fn with a line about each task; returns their number. */
int pco__dump_tasks(lua_State *L, pco__lua *lua, pco_dump_fn fn, void *ud);

#endif /* PCO_LUA_DUMP_H */
