/* SPDX-License-Identifier: MIT */
/* Ctrl-C, and tasks that compute; see lua_interrupt.h. */
#include "lua_interrupt.h"

#include "lua_cancel.h"
#include "lua_dump.h"
#include "lua_error.h"
#include "lua_wait.h"

#define NS_PER_S  UINT64_C(1000000000)
#define GRACE_NS  (10 * NS_PER_S) /* of the tasks, after Ctrl-C */
#define MAX_DEPTH 10000           /* calls, where it is looked for both */
#define SLOW_NS   NS_PER_S        /* for a task to run without waiting */

/* ---- the hook of the main thread ----------------------------------------- */

lua_Hook pco__main_hook(pco__lua *lua, lua_State *L) {
  const int all = LUA_MASKCALL | LUA_MASKRET | LUA_MASKLINE | LUA_MASKCOUNT;
  bool is_interrupt =
      lua_gethookmask(lua->main) == all && lua_gethookcount(lua->main) == 1;
  /* In a coroutine it could not raise yet: it is news. */
  return is_interrupt && L != lua->main ? NULL : lua_gethook(lua->main);
}

bool pco__interrupted(pco__lua *lua, lua_Hook hook) {
  lua_Hook now = lua_gethook(lua->main);
  return now && now != hook;
}

/* The handler of lua.c does two things: it sets the hook, and gives itself up,
 * so that the next Ctrl-C ends the program.  Both are taken back: the script
 * hears of this one as an error, and of the next one, too. */
void pco__clear_interrupt(pco__lua *lua) {
  struct sigaction now;
  lua_sethook(lua->main, NULL, 0, 0);
  if (lua->on_interrupt.sa_handler != SIG_DFL &&
      lua->on_interrupt.sa_handler != SIG_IGN &&
      sigaction(SIGINT, NULL, &now) == 0 && now.sa_handler == SIG_DFL)
    sigaction(SIGINT, &lua->on_interrupt, NULL);
}

/* ---- telling ------------------------------------------------------------- */

/* (task as a light userdata, seconds) */
static int log_slow(lua_State *L) {
  pco__task *task = (pco__task *)lua_touserdata(L, 1);
  bool runs = task == task->lua->current;
  pco__push_doing(L, task);
  pco__task_push_name(L, task);
  pco__log_write(&task->lua->runtime.log, PCO_LOG_WARNING,
                 "%s %s for %.1f s without waiting, while all other tasks "
                 "%s for it; now: %s (task.checkpoint() lets them run)",
                 lua_tostring(L, -1), runs ? "runs" : "ran", lua_tonumber(L, 2),
                 runs ? "wait" : "waited", lua_tostring(L, -2));
  return 0;
}

void pco__tell_slow(lua_State *L, pco__task *task, uint64_t ns) {
  if (ns <= SLOW_NS || task->ended || task->slow_told)
    return;
  task->slow_told = true;
  lua_pushlightuserdata(L, task);
  lua_pushnumber(L, (double)ns / (double)NS_PER_S);
  if (!pco__protected(L, log_slow, 2, 0))
    lua_pop(L, 1); /* there is no memory to tell it with */
}

/* ---- while a task computes ----------------------------------------------- */

/* Its logger hears of it now, not at the next wait, which may never come. */
static void on_slow(lua_State *L, lua_Debug *ar) {
  pco__lua *lua = pco__lua_find(L);
  (void)ar;
  lua_sethook(L, NULL, 0, 0);
  if (lua->current)
    pco__deliver_log(L, lua);
}

static void look(lua_State *L, pco__lua *lua) {
  pco__task *task = lua->current;
  bool told = task->slow_told;
  pco__take_interrupt(L, lua);
  if (lua->n_interrupts > 0 && pco__refusal(L, task)) {
    pco__raise_until_heard(L);
    return;
  }
  pco__tell_slow(L, task, uv_hrtime() - lua->resumed_at);
  if (task->slow_told && !told)
    lua_sethook(L, on_slow, LUA_MASKCOUNT, 1);
}

static void push_sentinel(lua_State *L, pco__lua *lua);

/* Called in whatever coroutine runs. */
static int sentinel_gc(lua_State *L) {
  lua_Debug ar;
  pco__lua *lua = *(pco__lua **)lua_touserdata(L, 1);
  lua->has_sentinel = false;
  if (!lua->driving || L == lua->main) /* there no task runs; or lua_close */
    return 0;
  push_sentinel(L, lua);
  /* Near a stack overflow there may be no room for anything else. */
  bool deep = lua_getstack(L, MAX_DEPTH, &ar) != 0;
  if (lua->current && !lua_gethook(L) && !deep)
    look(L, lua);
  return 0;
}

static const char sentinel_meta = 0;

/* Nothing holds it: the next cycle of the collector finalizes it. */
static void push_sentinel(lua_State *L, pco__lua *lua) {
  pco__lua **ud = lua_newuserdatauv(L, sizeof(pco__lua *), 0);
  *ud = lua;
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &sentinel_meta) != LUA_TTABLE) {
    lua_pop(L, 1);
    lua_createtable(L, 0, 1);
    lua_pushcfunction(L, sentinel_gc);
    lua_setfield(L, -2, "__gc");
    lua_pushvalue(L, -1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &sentinel_meta);
  }
  lua_setmetatable(L, -2);
  lua->has_sentinel = true;
}

/* ---- run ----------------------------------------------------------------- */

void pco__begin_interrupts(lua_State *L, pco__lua *lua) {
  lua->main_hook = pco__main_hook(lua, L);
  lua->n_interrupts = 0;
  if (lua->has_sentinel)
    return;
  push_sentinel(L, lua);
  lua_pop(L, 1);
}

bool pco__take_interrupt(lua_State *L, pco__lua *lua) {
  if (pco__interrupted(lua, lua->main_hook) && lua->n_tasks > 0) {
    pco__clear_interrupt(lua);
    lua->main_hook = NULL;
    if (lua->n_interrupts++ == 0) {
      lua->give_up_at = uv_hrtime() + GRACE_NS;
      pco__cancel_roots(L, lua, PCO_EINTERRUPTED);
    }
  }
  return lua->n_interrupts == 0 ||
         (lua->n_interrupts == 1 && uv_hrtime() <= lua->give_up_at);
}
