/* SPDX-License-Identifier: MIT */
/*
 * Tracebacks, as luaL_traceback writes them, but for the names of functions:
 * that one looks through all modules for the name of each, which takes longer
 * than everything else about an error, and the more the more modules there are.
 * Here a function has the name that it was called by.
 */
#include "lua_traceback.h"

#define FIRST 10 /* levels that are told at each end of a long stack */
#define LAST  11

static int count_levels(lua_State *co) {
  lua_Debug ar;
  int from = 0;
  int to = 1;
  while (lua_getstack(co, to, &ar)) {
    from = to;
    to *= 2;
  }
  while (from + 1 < to) {
    int middle = from + (to - from) / 2;
    if (lua_getstack(co, middle, &ar))
      from = middle;
    else
      to = middle;
  }
  return lua_getstack(co, from, &ar) ? from + 1 : 0;
}

/* Pushes who is called there. */
static void push_function(lua_State *L, const lua_Debug *ar) {
  if (*ar->namewhat == 'g') /* a global one */
    lua_pushfstring(L, "function '%s'", ar->name);
  else if (*ar->namewhat)
    lua_pushfstring(L, "%s '%s'", ar->namewhat, ar->name);
  else if (*ar->what == 'm')
    lua_pushliteral(L, "main chunk");
  else if (*ar->what == 'C')
    lua_pushliteral(L, "?");
  else
    lua_pushfstring(L, "function <%s:%d>", ar->short_src, ar->linedefined);
}

/* Adds a line to the buffer. */
static void add_level(lua_State *L, luaL_Buffer *b, lua_State *co,
                      lua_Debug *ar) {
  lua_getinfo(co, "Slnt", ar);
  if (ar->currentline > 0)
    lua_pushfstring(L, "\n\t%s:%d: in ", ar->short_src, ar->currentline);
  else
    lua_pushfstring(L, "\n\t%s: in ", ar->short_src);
  luaL_addvalue(b);
  push_function(L, ar);
  luaL_addvalue(b);
  if (ar->istailcall)
    luaL_addstring(b, "\n\t(...tail calls...)");
}

void pco__push_stack(lua_State *L, lua_State *co, const char *title,
                     int level) {
  luaL_Buffer b;
  lua_Debug ar;
  int n = count_levels(co);
  int skipped = n - level - FIRST - LAST;
  luaL_checkstack(L, LUA_MINSTACK, "out of stack");
  luaL_buffinit(L, &b);
  luaL_addstring(&b, title);
  for (int i = level; i < n && lua_getstack(co, i, &ar); i++) {
    if (skipped > 0 && i == level + FIRST) {
      lua_pushfstring(L, "\n\t...\t(skipping %d levels)", skipped);
      luaL_addvalue(&b);
      i += skipped;
      lua_getstack(co, i, &ar);
    }
    add_level(L, &b, co, &ar);
  }
  luaL_pushresult(&b);
}
