/* SPDX-License-Identifier: MIT */
/*
 * Ctrl-C, and tasks that compute.
 *
 * Portico has no signal handler: Ctrl-C is seen by the hook that lua5.4's own
 * handler, or that of the portico command, sets on the main thread.  Whoever
 * waits looks at it.  While a task computes nobody does, and its coroutine has
 * no hook: one that counts instructions would make all of Lua slower, always.
 * But what computes mostly makes garbage, so a sentinel that Lua finalizes with
 * each cycle of its collector looks: for Ctrl-C, and for a task that ran too
 * long.  It sets a hook then, where none is, so a debugger keeps its own.  Far
 * down in a recursion there is a hook that counts in its place: see watch().
 */
#ifndef PCO_LUA_INTERRUPT_H
#define PCO_LUA_INTERRUPT_H

#include "lua_state.h"

#define PCO__INTERRUPT_SLICE_NS INT64_C(250000000) /* to look again after */

/* The hook of the main thread before something waits: another one is news. */
lua_Hook pco__main_hook(pco__lua *lua, lua_State *L);
/* True if Ctrl-C came since. */
bool pco__interrupted(pco__lua *lua, lua_Hook hook);
/* Takes it back: the script hears of it as an error. */
void pco__clear_interrupt(pco__lua *lua);

/* run() begins: from now on Ctrl-C cancels its tasks. */
void pco__begin_interrupts(lua_State *L, pco__lua *lua);
/* While tasks run: from time to time, so that it is seen while they compute.
 * Never raises. */
void pco__keep_looking(lua_State *L);
/* Looks for Ctrl-C; the first one cancels all tasks.  False: they shall be
 * given up, since it came again or they did not end in time. */
bool pco__take_interrupt(lua_State *L, pco__lua *lua);
/* Tells the log of a task that keeps all others waiting, once.  Never raises.
 */
void pco__tell_slow(lua_State *L, struct pco__task *task, uint64_t ns);

#endif /* PCO_LUA_INTERRUPT_H */
