/* SPDX-License-Identifier: MIT */
/* Who is cancelled, and how a wait hears of it; see lua_cancel.c. */
#ifndef PCO_LUA_CANCEL_H
#define PCO_LUA_CANCEL_H

#include "lua_scope.h"

/* Why the task is cancelled, or NULL: by itself, or by a scope around it that
 * no shield keeps away. */
const pco__cancel *pco__cancelled(pco__task *task);
/* The same for what happens now in the current task: not while a `<close>`
 * variable is being closed, within the grace. */
const pco__cancel *pco__refusal(lua_State *L, pco__task *task);
/* From now on L raises that, whatever it does, again and again. */
void pco__raise_until_heard(lua_State *L);
/* Raises that, if there is something. */
void pco__check_cancelled(lua_State *L, const char *operation);
/* The code that an op is cancelled with. */
int pco__cancel_code(const pco__cancel *c);
/* Pushes the error object of a cancellation. */
void pco__push_cancel_error(lua_State *L, const pco__cancel *c,
                            const char *operation);
/* True if the value at idx of L is the error of a cancellation of the task. */
bool pco__is_cancel_error(lua_State *L, int idx, pco__task *task);
/* Adds the reason of the current task's cancellation to the error on top. */
void pco__add_reason(lua_State *L, pco__task *task);

/* Cancels; false if it was cancelled already.  The reason is the value on top
 * of L, which is popped. */
bool pco__task_cancel(lua_State *L, pco__task *task, int code);
bool pco__scope_cancel(lua_State *L, pco__scope *scope, int code);
/* The same for the scheduler: never raises.  Without memory for the reason it
 * is done without one. */
void pco__task_cancel_anyhow(lua_State *L, pco__task *task, int code);
void pco__scope_cancel_anyhow(lua_State *L, pco__scope *scope, int code);
/* The same from where there is no Lua: without a reason. */
bool pco__task_cancel_plain(pco__task *task, int code);
bool pco__scope_cancel_plain(pco__scope *scope, int code);
/* Forgets the reason. */
void pco__forget_reason(lua_State *L, const pco__cancel *c);
/* The present wait of a task ends with this code, whatever shields it. */
void pco__force(pco__task *task, int code);
/* Lets the grace of a task go, if there is one. */
void pco__end_grace(pco__task *task);

#endif /* PCO_LUA_CANCEL_H */
