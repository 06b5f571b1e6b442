/* SPDX-License-Identifier: MIT */
/*
 * A host that loads libportico with local symbols, as a plugin system does
 * (case 73): backends load and sandboxes work, because plugins get everything
 * through tables of function pointers.  What Lua needs comes from this program,
 * which is linked with liblua; a host without any Lua in its global scope
 * cannot load libportico at all, and dlopen says so.
 */
#include <dlfcn.h>
#include <lauxlib.h>
#include <lualib.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failed, count;

static void ok(bool good, const char *text) {
  printf("%sok %d - %s\n", good ? "" : "not ", ++count, text);
  failed += !good;
}

static const char script[] =
    "for _, name in ipairs{'portico', 'portico.sync'} do\n"
    "  local P = require(name)\n"
    "  P.run(function()\n"
    "    for _, backend in ipairs{'local', 'null', 'bwrap'} do\n"
    "      local ok, sb = pcall(P.sandbox, {backend = backend})\n"
    "      if ok then\n"
    "        assert(sb:output{'echo', 'x'} == 'x')\n"
    "        sb:close()\n"
    "      elseif sb.code == 'PCO_EUNAVAILABLE' then\n"
    "        print('# without ' .. backend .. ': ' .. sb.message)\n"
    "      else\n"
    "        error(sb, 0)\n"
    "      end\n"
    "    end\n"
    "  end)\n"
    "end\n";

int main(int argc, char **argv) {
  char path[4096];
  (void)argc;
  char *slash = strrchr(argv[0], '/');
  snprintf(path, sizeof path, "%.*s/../lib/libportico.so",
           slash ? (int)(slash - argv[0]) : 1, slash ? argv[0] : ".");
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  ok(library != NULL, "libportico is loaded with local symbols");
  if (!library) {
    printf("# %s\n1..%d\n", dlerror(), count);
    return 1;
  }
  void *symbol = dlsym(library, "pco_lua_open");
  lua_CFunction open_core;
  memcpy(&open_core, &symbol, sizeof open_core);
  ok(open_core != NULL, "its entry for Lua is there");
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  luaL_requiref(L, "portico.core", open_core, 0);
  bool good = luaL_dostring(L, script) == LUA_OK;
  if (!good)
    printf("# %s\n", luaL_tolstring(L, -1, NULL));
  ok(good, "both facades work, on all backends");
  lua_close(L);
  printf("1..%d\n", count);
  return failed != 0;
}
