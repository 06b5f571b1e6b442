/* SPDX-License-Identifier: MIT */
/* Results of ops as Lua values; see lua_result.c. */
#ifndef PCO_LUA_RESULT_H
#define PCO_LUA_RESULT_H

#include "process_ops.h"
#include "signals.h"

struct lua_State;

/* The error that a finished command is by itself: it ran out of time, or (with
 * check) failed; NULL if it is none. */
pco__error *pco__result_error(const pco__result *r, const pco__process *p,
                              bool check);

/* Pushes a Result object. */
void pco__push_result(struct lua_State *L, const pco__result *r);

/* Push functions of op classes. */
int pco__push_exec(struct lua_State *L, pco__op *op);
int pco__push_spawn(struct lua_State *L, pco__op *op);
int pco__push_read(struct lua_State *L, pco__op *op);
int pco__push_wait(struct lua_State *L, pco__op *op);
int pco__push_signalled(struct lua_State *L, pco__op *op);
int pco__push_closed(struct lua_State *L, pco__op *op);
int pco__push_nothing(struct lua_State *L, pco__op *op);

#endif /* PCO_LUA_RESULT_H */
