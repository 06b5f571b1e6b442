/* SPDX-License-Identifier: MIT */
#include "lua_host.h"

#include <lauxlib.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lua_core.h"

static int failed, count;

void lua_host_begin(const char *argv0) {
  char plugins[4096];
  const char *slash = strrchr(argv0, '/');
  snprintf(plugins, sizeof plugins, "%.*s/../lib/portico/plugins",
           slash ? (int)(slash - argv0) : 1, slash ? argv0 : ".");
  char *real = realpath(plugins, NULL);
  if (real)
    setenv("PORTICO_PLUGIN_PATH", real, 1);
  free(real);
}

void lua_host_ok(bool good, const char *backend, const char *text) {
  printf("%sok %d - %s [%s]\n", good ? "" : "not ", ++count, text, backend);
  fflush(stdout);
  failed += !good;
}

void lua_host_skip(const char *backend, const char *text) {
  printf("ok %d - # SKIP %s: %s cannot run here\n", ++count, text, backend);
  fflush(stdout);
}

int lua_host_end(void) {
  printf("1..%d\n", count);
  return failed != 0;
}

lua_State *lua_host_new(const char *backend) {
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  luaL_requiref(L, "portico.core", pco_lua_open, 0);
  lua_settop(L, 0);
  lua_pushstring(L, backend);
  lua_setglobal(L, "BACKEND");
  return L;
}

bool lua_host_run(lua_State *L, const char *code) {
  if (luaL_dostring(L, code) == LUA_OK)
    return true;
  printf("# %s\n", luaL_tolstring(L, -1, NULL));
  lua_settop(L, 0);
  return false;
}

bool lua_host_has(const char *backend) {
  lua_State *L = lua_host_new(backend);
  luaL_dostring(L, "local ok, e = pcall(function()\n"
                   "  require'portico.sync'.sandbox{backend=BACKEND}:close()\n"
                   "end)\n"
                   "return ok or e.code ~= 'PCO_EUNAVAILABLE'");
  bool has = lua_toboolean(L, -1);
  lua_close(L);
  return has;
}

int lua_host_each(const char *argv0, const char *what,
                  void (*tests)(const char *backend)) {
  static const char *const names[] = {"local", "bwrap"};
  lua_host_begin(argv0);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (lua_host_has(names[i]))
      tests(names[i]);
    else
      lua_host_skip(names[i], what);
  return lua_host_end();
}
