/* SPDX-License-Identifier: MIT */
/* Our terminal, while a command has one inside; see terminal.c. */
#ifndef PCO_CLI_TERMINAL_H
#define PCO_CLI_TERMINAL_H

#include <lua.h>

/* Puts the terminal back as it was, if terminal_begin changed it.  May be
 * called in a handler of a signal, and again. */
void terminal_restore(void);

/* C functions for Lua:
 *   terminal_size() -> columns, lines of our stdout, or nothing
 *   terminal_begin(reads, keys): reads: reads stdin from now on, by a thread;
 *     keys: if that is a terminal, passes every key on as it is.  Once in a
 *     program
 *   typed() -> what was read, nil if nothing is there, false at the end
 *   emit(bytes, fd) -> true, or nil and a text; nothing when a signal ended it
 *   terminal_end(): as terminal_restore */
int terminal_size(lua_State *L);
int terminal_begin(lua_State *L);
int terminal_typed(lua_State *L);
int terminal_emit(lua_State *L);
int terminal_end(lua_State *L);

#endif /* PCO_CLI_TERMINAL_H */
