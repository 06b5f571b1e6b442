/* SPDX-License-Identifier: MIT */
/*
 * A program with a Lua state of its own, which specs are run in, by busted:
 *
 *   host_state alone|runtime SCRIPT ARGUMENT...
 *
 * `alone` only makes the state and knows nothing of tasks; `runtime` has a
 * runtime by portico/portico.h in it, and the script is a task, which is driven
 * by ticks, as in a game.  Nothing is patched: coroutines are the stock ones.
 */
#include <lauxlib.h>
#include <lualib.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "portico/portico.h"

int pco_lua_open(lua_State *L);

#define BUDGET_NS UINT64_C(2000000)

static int exit_code;

/* os.exit for the script: its state is closed by this program. */
static int leave(lua_State *L) {
  exit_code = lua_isboolean(L, 1) ? !lua_toboolean(L, 1)
                                  : (int)luaL_optinteger(L, 1, 0);
  lua_pushliteral(L, "left");
  return lua_error(L);
}

/* The global `arg`, as lua5.4 makes it. */
static void set_args(lua_State *L, char **args) {
  lua_newtable(L);
  for (int i = 0; args[i]; i++) {
    lua_pushstring(L, args[i]);
    lua_rawseti(L, -2, i);
  }
  lua_setglobal(L, "arg");
}

static lua_State *new_state(char **args) {
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  luaL_requiref(L, "portico.core", pco_lua_open, 0);
  lua_getglobal(L, "os");
  lua_pushcfunction(L, leave);
  lua_setfield(L, -2, "exit");
  lua_settop(L, 0);
  set_args(L, args);
  if (luaL_loadfile(L, args[0]) != LUA_OK) {
    fprintf(stderr, "%s\n", lua_tostring(L, -1));
    exit(1);
  }
  return L;
}

static void failed(const char *message) {
  if (strcmp(message, "left") == 0)
    return;
  fprintf(stderr, "%s\n", message);
  exit_code = 1;
}

static void run_alone(lua_State *L) {
  if (lua_pcall(L, 0, 0, 0) != LUA_OK)
    failed(luaL_tolstring(L, -1, NULL));
}

/* As a game does, but that it sleeps until there is something to do. */
static void tick_to_the_end(pco_runtime *rt, pco_task *task) {
  struct pollfd p = {.fd = pco_poll_fd(rt), .events = POLLIN};
  pco_tick_info info = {.size = sizeof info};
  while (pco_tick(rt, BUDGET_NS, &info) == PCO_READY ||
         pco_task_status(task) == PCO_TASK_RUNNING) {
    if (info.stuck) {
      failed("the tasks of the script wait for each other");
      return;
    }
    poll(&p, 1, -1); /* at once, if there is more to do */
  }
}

static void run_in_runtime(lua_State *L) {
  pco_config c;
  pco_runtime *rt;
  pco_task *task;
  pco_config_init(&c);
  c.state = L;
  if (pco_runtime_create(&c, &rt) < 0 || pco_call(rt, 0, &task) < 0) {
    failed("no runtime could be made");
    return;
  }
  tick_to_the_end(rt, task);
  if (pco_task_status(task) != PCO_TASK_DONE && pco_task_message(task))
    failed(pco_task_message(task));
  pco_task_release(task);
  pco_runtime_destroy(rt);
}

int main(int argc, char **argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: host_state alone|runtime SCRIPT ARGUMENT...\n");
    return 2;
  }
  lua_State *L = new_state(argv + 2);
  if (strcmp(argv[1], "runtime") == 0)
    run_in_runtime(L);
  else
    run_alone(L);
  lua_close(L);
  return exit_code;
}
