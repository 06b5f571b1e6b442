/* SPDX-License-Identifier: MIT */
/*
 * Coroutines of the script inside a task; see lua_coroutine.c.
 *
 * While a task runs, the coroutines that it is in are a list of levels on the
 * C stack, from the innermost to the task's own.  A wait is legal only in the
 * innermost, and if every level below can pass it on.
 */
#ifndef PCO_LUA_COROUTINE_H
#define PCO_LUA_COROUTINE_H

#include "lua_state.h"

typedef struct pco__level {
  lua_State *co;
  struct pco__level *outer;
  lua_State *before; /* what ran */
  enum {
    PCO__LEVEL_OK,      /* a wait here reaches the scheduler */
    PCO__LEVEL_FOREIGN, /* a coroutine of the stock library is in between */
    PCO__LEVEL_NO_YIELD /* a C function that cannot be suspended is */
  } state;
} pco__level;

/* Enters and leaves a coroutine; the level is the caller's. */
void pco__level_enter(pco__lua *lua, pco__level *level, lua_State *from,
                      lua_State *co);
void pco__level_leave(pco__lua *lua, pco__level *level);
/* Closes the variables of a coroutine that does not run, as lua_resetthread;
 * what that calls runs in it. */
int pco__close_coroutine(pco__lua *lua, lua_State *co);
/* Marks L as waiting; before the lua_yieldk of a wait. */
void pco__mark_wait(lua_State *L);
/* True if the coroutine is suspended by a wait, its own or that of one inside.
 */
bool pco__is_waiting(lua_State *co);
/* The next coroutine inside of a waiting one, or NULL. */
lua_State *pco__inner(lua_State *co);
/* Appends to the string on top of L the tracebacks of the coroutines around
 * co, and where the current task was spawned. */
void pco__outer_traceback(lua_State *L, pco__lua *lua, lua_State *co);

extern const pco__core_function pco__coroutine_functions[];

#endif /* PCO_LUA_COROUTINE_H */
