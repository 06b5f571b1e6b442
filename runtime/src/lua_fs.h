/* SPDX-License-Identifier: MIT */
/* Results of file ops as Lua values; see lua_fs.c. */
#ifndef PCO_LUA_FS_H
#define PCO_LUA_FS_H

#include "fs_ops.h"

struct lua_State;

int pco__push_bytes(struct lua_State *L, pco__op *op);
int pco__push_entry(struct lua_State *L, pco__op *op);
int pco__push_entries(struct lua_State *L, pco__op *op);
int pco__push_found(struct lua_State *L, pco__op *op);
int pco__push_link(struct lua_State *L, pco__op *op);
int pco__push_usage(struct lua_State *L, pco__op *op);
int pco__push_walk(struct lua_State *L, pco__op *op);
int pco__push_glob(struct lua_State *L, pco__op *op);
/* What is to be written, the string at idx: copied, or if it is large, lent to
 * the op in the box at `box`. */
void pco__fs_take_data(struct lua_State *L, int box, int idx, pco__fs_op *o);
/* The option mode: permission bits, or -1. */
int32_t pco__opt_mode(struct lua_State *L, int options, const char *operation);
/* Pushes one entry as scripts see it. */
void pco__push_stat(struct lua_State *L, const pco__entry *e);

#endif /* PCO_LUA_FS_H */
