/* SPDX-License-Identifier: MIT */
/* Ctrl-C, and tasks that compute; see lua_interrupt.h. */
#include "lua_interrupt.h"

#include "lua_cancel.h"
#include "lua_dump.h"
#include "lua_error.h"
#include "lua_wait.h"

#define NS_PER_S  UINT64_C(1000000000)
#define GRACE_NS  (10 * NS_PER_S) /* of the tasks, after Ctrl-C */
#define MAX_DEPTH 1000            /* calls, for a sentinel to be there */
#define DEEP_STEP 100000          /* instructions, where there is none */
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
  if (!pco__protected_aside(L, log_slow, 2, 0))
    lua_pop(L, 1); /* there is no memory to tell it with */
}

/* ---- while a task computes ----------------------------------------------- */

static void watch(lua_State *L);

/* Its logger hears of it now, not at the next wait, which may never come. */
static void on_slow(lua_State *L, lua_Debug *ar) {
  pco__lua *lua = pco__lua_find(L);
  (void)ar;
  lua_sethook(L, NULL, 0, 0);
  watch(L);
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

/* ---- the sentinel -------------------------------------------------------- */

static const char meta_key = 0; /* in the registry: its metatable */

/* Called in whatever coroutine runs. */
static int sentinel_gc(lua_State *L) {
  pco__lua *lua = *(pco__lua **)lua_touserdata(L, 1);
  if (!lua->driving || L == lua->main) /* there no task runs; or lua_close */
    return 0;
  if (lua->current && !lua_gethook(L))
    look(L, lua);
  watch(L);
  return 0;
}

/* Pushes its metatable.  Weak, its own metatable, it has the sentinel at 1 as
 * long as that is to come, whatever becomes of it. */
static void push_meta(lua_State *L) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &meta_key) == LUA_TTABLE)
    return;
  lua_pop(L, 1);
  lua_createtable(L, 1, 2);
  lua_pushliteral(L, "v");
  lua_setfield(L, -2, "__mode");
  lua_pushvalue(L, -1);
  lua_setmetatable(L, -2); /* before it has __gc: that is not for itself */
  lua_pushcfunction(L, sentinel_gc);
  lua_setfield(L, -2, "__gc");
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &meta_key);
}

/* Nothing holds it: the next cycle of the collector finalizes it. */
static int make_sentinel(lua_State *L) {
  pco__lua **ud = lua_newuserdatauv(L, sizeof(pco__lua *), 0);
  *ud = pco__lua_find(L);
  push_meta(L);
  lua_pushvalue(L, -2);
  lua_rawseti(L, -2, 1);
  lua_setmetatable(L, -2);
  return 0;
}

static bool has_sentinel(lua_State *L) {
  int top = lua_gettop(L);
  bool has = lua_rawgetp(L, LUA_REGISTRYINDEX, &meta_key) == LUA_TTABLE &&
             lua_rawgeti(L, -1, 1) != LUA_TNIL;
  lua_settop(L, top);
  return has;
}

/* Looks in place of the sentinel, until the stack is less deep. */
static void on_deep(lua_State *L, lua_Debug *ar) {
  pco__lua *lua = pco__lua_find(L);
  (void)ar;
  lua_sethook(L, NULL, 0, 0);
  if (!lua->driving || !lua->current)
    return;
  look(L, lua);
  watch(L);
}

/* Lua 5.4.9, if it finds something to be finalized when a stack is full, takes
 * the room that is for telling of the overflow, and tells "error in error
 * handling" instead.  So far down in a recursion no sentinel is made, but a
 * hook.  One that was made before may still be there then: what tasks and
 * scopes catch is named right (pco__name_overflow). */
static void watch(lua_State *L) {
  lua_Debug ar;
  if (!lua_getstack(L, MAX_DEPTH, &ar)) {
    pco__keep_looking(L);
  } else if (!lua_gethook(L)) {
    lua_sethook(L, on_deep, LUA_MASKCOUNT, DEEP_STEP);
  }
}

void pco__keep_looking(lua_State *L) {
  if (!has_sentinel(L) && !pco__protected_aside(L, make_sentinel, 0, 0))
    lua_pop(L, 1); /* there is no memory: the next call may find some */
}

/* ---- run ----------------------------------------------------------------- */

void pco__begin_interrupts(lua_State *L, pco__lua *lua) {
  lua->main_hook = pco__main_hook(lua, L);
  lua->n_interrupts = 0;
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
