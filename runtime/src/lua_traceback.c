/* SPDX-License-Identifier: MIT */
/*
 * Tracebacks, as luaL_traceback writes them, but for the names of functions:
 * that one looks through all modules for the name of each, which takes longer
 * than everything else about an error, and the more the more modules there are.
 * Here a function has the name that it was called by.
 *
 * Lua finds a level by walking down to it, so the bottom of a stack costs more
 * the deeper that is, for each error again.  Below MAX_DEPTH nothing is looked
 * for: what a traceback costs is bounded.
 */
#include "lua_traceback.h"

#define FIRST 10 /* levels that are told at each end of a long stack */
#define LAST  11

#define MAX_DEPTH 2000 /* of a stack whose bottom is told */

/* The levels of a stack, at most MAX_DEPTH + 1. */
static int count_levels(lua_State *co) {
  lua_Debug ar;
  int from = 0;
  int to = 1;
  if (lua_getstack(co, MAX_DEPTH, &ar))
    return MAX_DEPTH + 1;
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

/* Adds those from `level` to before `end`. */
static void add_levels(lua_State *L, luaL_Buffer *b, lua_State *co, int level,
                       int end) {
  lua_Debug ar;
  for (; level < end && lua_getstack(co, level, &ar); level++)
    add_level(L, b, co, &ar);
}

void pco__push_stack(lua_State *L, lua_State *co, const char *title,
                     int level) {
  luaL_Buffer b;
  int n = count_levels(co);
  int skipped = n - level - FIRST - LAST;
  luaL_checkstack(L, LUA_MINSTACK, "out of stack");
  luaL_buffinit(L, &b);
  luaL_addstring(&b, title);
  if (n > MAX_DEPTH) {
    add_levels(L, &b, co, level, level + FIRST + LAST);
    lua_pushfstring(L, "\n\t...\t(more than %d levels)", MAX_DEPTH);
    luaL_addvalue(&b);
  } else if (skipped > 0) {
    add_levels(L, &b, co, level, level + FIRST);
    lua_pushfstring(L, "\n\t...\t(skipping %d levels)", skipped);
    luaL_addvalue(&b);
    add_levels(L, &b, co, n - LAST, n);
  } else {
    add_levels(L, &b, co, level, n);
  }
  luaL_pushresult(&b);
}
