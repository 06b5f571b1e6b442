/* SPDX-License-Identifier: MIT */
/*
 * bench_clock: what a Lua script needs to measure and Lua does not have.
 *   now()  microseconds since some moment
 *   rss()  resident memory of this process, in bytes
 *   fds()  how many descriptors this process has
 */
#include <dirent.h>
#include <stdio.h>
#include <unistd.h>

#include <lauxlib.h>

#include "stats.h"

static int l_now(lua_State *L) {
  lua_pushnumber(L, now_us());
  return 1;
}

static int l_rss(lua_State *L) {
  long size = 0, resident = 0;
  FILE *statm = fopen("/proc/self/statm", "re");
  if (statm == NULL || fscanf(statm, "%ld %ld", &size, &resident) != 2)
    resident = 0;
  if (statm != NULL)
    fclose(statm);
  lua_pushinteger(L, (lua_Integer)resident * sysconf(_SC_PAGESIZE));
  return 1;
}

static int l_fds(lua_State *L) {
  lua_Integer count = 0;
  DIR *dir = opendir("/proc/self/fd");
  for (struct dirent *e; dir != NULL && (e = readdir(dir)) != NULL;)
    count += e->d_name[0] != '.';
  if (dir != NULL)
    closedir(dir);
  lua_pushinteger(L, count - 1); /* not the one that was read from */
  return 1;
}

__attribute__((visibility("default"))) int luaopen_bench_clock(lua_State *L);

int luaopen_bench_clock(lua_State *L) {
  const luaL_Reg functions[] = {
      {"now", l_now}, {"rss", l_rss}, {"fds", l_fds}, {NULL, NULL}};
  luaL_newlib(L, functions);
  return 1;
}
