/* SPDX-License-Identifier: MIT */
/* C errors as Lua error objects; see lua_error.c. */
#ifndef PCO_LUA_ERROR_H
#define PCO_LUA_ERROR_H

#include "lua_state.h"

/* Pushes the Lua object of err (taken) for an operation; its chain too. */
void pco__push_error(lua_State *L, pco__error *err, const char *operation);
/* Raises err (taken).  `self` is the stack index of the object that the call
 * was made on, or 0: it gives backend and sandbox. */
int pco__raise(lua_State *L, pco__error *err, const char *operation, int self);
/* Raises a new error of this host. */
int pco__raise_new(lua_State *L, int code, const char *operation,
                   const char *fmt, ...) __attribute__((format(printf, 4, 5)));
/* Adds the fields that name backend and sandbox of the object at `self` to the
 * error object on top. */
void pco__add_context(lua_State *L, int self);
/* True if the value at idx is an error object of Portico. */
bool pco__is_error(lua_State *L, int idx);
/* Calls fn, which has no upvalues, with the n_args values on top; they are
 * replaced by its results or, if it raises (false), by the error.  Never raises
 * itself: for what must go on without memory. */
bool pco__protected(lua_State *L, lua_CFunction fn, int n_args, int n_results);
/* The same for what a pending Ctrl-C must not end: its hook is put away, and
 * raises later.  For calls between tasks, where an error would be lost. */
bool pco__protected_aside(lua_State *L, lua_CFunction fn, int n_args,
                          int n_results);
/* Message handler: adds a traceback to an error object that has none. */
int pco__traceback_handler(lua_State *L);
/* After a call with that handler, which ended with this status.  The handler
 * does not fail, so an "error in error handling" is a stack overflow that Lua
 * had no room to tell of: the error on top becomes that. */
void pco__name_overflow(lua_State *L, int status);
/* Finds the first Lua frame outside of Portico's own files on the stack of co;
 * L is the state that runs.  False: there is none. */
bool pco__first_script_frame(lua_State *L, lua_State *co, lua_Debug *ar);
/* Pushes a line about any error value, without calling any Lua. */
void pco__push_description(lua_State *L, int idx);
/* Pushes the table of error classes, name to class, kept in the registry. */
void pco__push_error_classes(lua_State *L);
/* Notes where the facades' files are, so that `where` skips their frames; the
 * caller of the running C function is in one. */
void pco__note_facade(lua_State *L);

#endif /* PCO_LUA_ERROR_H */
