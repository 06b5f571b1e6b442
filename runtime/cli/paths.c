/* SPDX-License-Identifier: MIT */
/*
 * Where this program's Lua modules are: at fixed paths from its own file, so
 * that a prefix can be moved as a whole.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <lauxlib.h>

#include "cli.h"

/* Pushes the absolute path of `relative`, as seen from the directory of this
 * program's file.  What does not exist is pushed as it is: the message of
 * `require` then shows where was looked. */
static void push_path(lua_State *L, const char *relative) {
  char exe[PATH_MAX];
  ssize_t n = readlink("/proc/self/exe", exe, sizeof exe);
  if (n <= 0 || n >= (ssize_t)sizeof exe)
    luaL_error(L, "cannot find this program's own file (is /proc mounted?)");
  exe[n] = '\0';
  char *slash = strrchr(exe, '/');
  if (slash != NULL)
    *slash = '\0';
  const char *path = lua_pushfstring(L, "%s/%s", exe, relative);
  char real[PATH_MAX];
  if (realpath(path, real) != NULL) {
    lua_pop(L, 1);
    path = lua_pushstring(L, real);
  }
  /* package.path gives these two a meaning and has no way to quote them. */
  if (strpbrk(path, "?;") != NULL)
    luaL_error(L, "cannot run from a directory with ? or ; in its name: %s",
               path);
}

/* package[field] = first .. (second or "") .. package[field], where both are
 * below the directory on top of the stack; pops that. */
static void prepend(lua_State *L, const char *field, const char *first,
                    const char *second) {
  const char *dir = lua_tostring(L, -1);
  lua_getglobal(L, "package");
  lua_getfield(L, -1, field);
  const char *old = lua_tostring(L, -1);
  if (second != NULL)
    lua_pushfstring(L, "%s/%s;%s/%s;%s", dir, first, dir, second, old);
  else
    lua_pushfstring(L, "%s/%s;%s", dir, first, old);
  lua_setfield(L, -3, field);
  lua_pop(L, 3);
}

void cli_set_paths(lua_State *L) {
  push_path(L, PCO_LUA_MODULE_RELPATH);
  prepend(L, "path", "?.lua", "?/init.lua");
  push_path(L, PCO_LUA_CMODULE_RELPATH);
  prepend(L, "cpath", "?.so", NULL);
}
