/* SPDX-License-Identifier: MIT */
/* Backend and Sandbox objects and the results of their ops. */
#ifndef PCO_LUA_SANDBOX_H
#define PCO_LUA_SANDBOX_H

#include "lua_state.h"
#include "lua_table.h"
#include "sandbox_ops.h"

/* Makes an op on the backend of an open handle, with the options at index
 * `options` (a timeout); its box is on top. */
pco__backend_op *pco__new_backend_op(lua_State *L, pco__handle *h,
                                     const pco__op_class *cls, int options);
/* Sets the field `labels` of the table on top. */
void pco__set_labels(lua_State *L, const pco_pair *labels, size_t n);

int pco__push_opened(lua_State *L, pco__op *op);
int pco__push_created(lua_State *L, pco__op *op);
int pco__push_probe(lua_State *L, pco__op *op);
int pco__push_listed(lua_State *L, pco__op *op);
int pco__push_reaped(lua_State *L, pco__op *op);
int pco__push_detached(lua_State *L, pco__op *op);
int pco__push_acted(lua_State *L, pco__op *op);
int pco__push_true(lua_State *L, pco__op *op);
int pco__push_processes(lua_State *L, pco__op *op);
int pco__push_found_process(lua_State *L, pco__op *op);
int pco__push_info(lua_State *L, pco__op *op);

#endif /* PCO_LUA_SANDBOX_H */
