/* SPDX-License-Identifier: MIT */
/*
 * The portico command, between its own files.  It is an ordinary program that
 * embeds Lua; it uses no part of libportico but what a script uses.
 */
#ifndef PCO_CLI_H
#define PCO_CLI_H

#include <stdbool.h>
#include <stddef.h>

#include <lua.h>

/* Exit codes; --help and the README list them. */
enum {
  EXIT_OK = 0,
  EXIT_SCRIPT = 1,       /* the script could not be loaded, or raised */
  EXIT_USAGE = 2,        /* the command line is wrong */
  EXIT_EXEC = 125,       /* of exec, whose other codes are the command's */
  EXIT_INTERRUPTED = 130 /* ended by Ctrl-C, as a shell would say it */
};

/* Puts this program's Lua modules in front of package.path and cpath.  Raises
 * a Lua error if they cannot be told. */
void cli_set_paths(lua_State *L);

/* Calls the function below its nargs arguments, without results, as lua5.4
 * calls a script: with tracebacks, and with Ctrl-C as an error in it.  On an
 * error that error is left on the stack.  Returns a Lua status. */
int cli_call(lua_State *L, int nargs);

/* Sets a handler that does not make interrupted calls go on. */
void cli_set_handler(int signo, void (*handler)(int));

/* Ends the program by SIGINT, which it was told to end by, since a shell looks
 * for that to leave a loop.  Returns where signals do not end it (PID 1). */
void cli_end_by_interrupt(void);

/* `portico exec`: runs a command in a sandbox; its arguments up to a NULL.
 * Returns the exit code.  May raise. */
int cli_exec(lua_State *L, char **args);

/* `portico create`, `list`, `rm`, `cp`, `ls` and `cat`, by their word; as
 * cli_exec. */
int cli_boxes(lua_State *L, const char *word, char **args);

/* Writes text to stderr; if that is a terminal, with control characters as
 * escapes: it may quote what came out of a sandbox. */
void cli_put(const char *text, size_t length);

/* Prints the error on top of the stack, its chain, a traceback and a hint to
 * stderr, and pops it.  Returns the exit code that fits. */
int cli_report(lua_State *L);

/* What to do about the error at index or, if there is nothing to say, about
 * what caused it; NULL if there is nothing to say of that either. */
const char *cli_hint(lua_State *L, int index);

/* Message handler for lua_pcall: remembers the traceback for cli_report. */
int cli_traceback(lua_State *L);

#endif /* PCO_CLI_H */
