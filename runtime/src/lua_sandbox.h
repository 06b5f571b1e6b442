/* SPDX-License-Identifier: MIT */
/* Backend and Sandbox objects and the results of their ops. */
#ifndef PCO_LUA_SANDBOX_H
#define PCO_LUA_SANDBOX_H

#include "sandbox_ops.h"

struct lua_State;
struct pco__handle;

int pco__push_opened(struct lua_State *L, pco__op *op);
int pco__push_created(struct lua_State *L, pco__op *op);
int pco__push_probe(struct lua_State *L, pco__op *op);
int pco__push_listed(struct lua_State *L, pco__op *op);
int pco__push_acted(struct lua_State *L, pco__op *op);
int pco__push_true(struct lua_State *L, pco__op *op);
int pco__push_processes(struct lua_State *L, pco__op *op);
int pco__push_found_process(struct lua_State *L, pco__op *op);
int pco__push_info(struct lua_State *L, pco__op *op);

#endif /* PCO_LUA_SANDBOX_H */
