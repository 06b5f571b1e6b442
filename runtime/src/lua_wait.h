/* SPDX-License-Identifier: MIT */
/*
 * Waiting for an op, in both facades; see lua_wait.c.
 *
 * A core function makes its op in a box (a userdata that lets it go whatever
 * happens), fills it, and ends with `return pco__await(L, box)`: that starts it
 * and gives its results, by blocking on the portal or by suspending the task.
 */
#ifndef PCO_LUA_WAIT_H
#define PCO_LUA_WAIT_H

#include "lua_state.h"

/* Makes an op of `size` bytes for the loop, in a box that it pushes. */
pco__op *pco__new_op(lua_State *L, const pco__op_class *cls, size_t size,
                     pco__loop *loop);
/* Keeps the functions that an exec calls back, from the options at idx. */
void pco__keep_callbacks(lua_State *L, int box, int options, bool tee);
/* Keeps the function under that name, for a class that has `offer`. */
void pco__keep_callback(lua_State *L, int box, int options, const char *name);
/* Keeps the value at index `value`, whose bytes the op reads, as long as the
 * box lives; its class has `give_back`. */
void pco__lend(lua_State *L, int box, int value);
/* Waits for the op in the box at `box`, pushes its results or raises its error.
 * The object that the call is about is at index 1. */
int pco__await(lua_State *L, int box);
/* Raises what forbids a wait of this class here (outside run(), not yieldable,
 * a foreign coroutine, a cancelled task), before anything is started. */
void pco__check_wait(lua_State *L, const pco__op_class *cls);
/* Gives queued log records to the logger; called at waits. */
void pco__deliver_log(lua_State *L, pco__lua *lua);

#endif /* PCO_LUA_WAIT_H */
