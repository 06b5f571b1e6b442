/* SPDX-License-Identifier: MIT */
/*
 * Helpers of tests that are hosts: programs with a Lua state that uses Portico,
 * on one backend after the other.
 */
#ifndef LUA_HOST_H
#define LUA_HOST_H

#include <lua.h>
#include <stdbool.h>

/* Makes the plugins of this build the ones that are found; before any state.
 * argv0 is the program's own path.  [main] */
void lua_host_begin(const char *argv0);

/* Counts and prints one test.  [main] */
void lua_host_ok(bool good, const char *backend, const char *text);
/* The same for one that cannot run here.  [main] */
void lua_host_skip(const char *backend, const char *text);
/* Prints how many there were; gives the exit code.  [main] */
int lua_host_end(void);

/* Makes a state with portico.core, and the backend's name as BACKEND.  [any] */
lua_State *lua_host_new(const char *backend);
/* Runs code; prints what it raises.  [the state's thread] */
bool lua_host_run(lua_State *L, const char *code);

/* Runs the tests on one backend after the other, those that can work here;
 * `what` is what is skipped on the others.  Gives the exit code.  [main] */
int lua_host_each(const char *argv0, const char *what,
                  void (*tests)(const char *backend));

/* Says whether the backend can work on this machine: it told itself that it
 * cannot, if not; every other trouble is for the tests to find.  [main] */
bool lua_host_has(const char *backend);

#endif /* LUA_HOST_H */
