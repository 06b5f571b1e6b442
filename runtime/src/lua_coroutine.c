/* SPDX-License-Identifier: MIT */
/*
 * Coroutines of the script inside a task: create, resume, wrap, yield, close
 * and status as the stock library has them, but for one thing.  When what was
 * resumed is suspended by a wait, and not by a yield of its own, the resumer is
 * suspended as well, and so on down to the task's own coroutine, which gives
 * way to the scheduler.  Resumed again, each level resumes the next, until the
 * innermost finds what it waited for.
 *
 * A coroutine that a wait has suspended carries a mark on top of its stack, a
 * light userdata that no script can get hold of: what suspended it is a C
 * function of ours, whose values stay where they are, and which clears its
 * stack when it goes on.  A level that only passes a wait on has the coroutine
 * inside below its mark.  To others such a coroutine is "normal": it is in the
 * middle of a call, so it can be neither resumed nor closed.
 *
 * Nothing is yielded by a wait, so no script can take it for a value of its
 * own or make one up.
 */
#include "lua_coroutine.h"

#include "lua_cancel.h"
#include "lua_error.h"
#include "lua_traceback.h"

#define MAX_HELD_YIELDS                                                        \
  100 /* of a coroutine in a scope, before it is ended                         \
       */

#define MAX_TOLD 5 /* coroutines, around the one with the error */

static const char wait_mark = 0;  /* the wait itself */
static const char level_mark = 0; /* one inside waits */

/* ---- levels -------------------------------------------------------------- */

void pco__level_enter(pco__lua *lua, pco__level *level, lua_State *from,
                      lua_State *co) {
  const pco__level *outer = lua->level;
  level->co = co;
  level->outer = lua->level;
  level->state = PCO__LEVEL_OK;
  if (outer && outer->co != from)
    level->state = PCO__LEVEL_FOREIGN;
  else if (outer && outer->state != PCO__LEVEL_OK)
    level->state = outer->state;
  else if (outer && !lua_isyieldable(from))
    level->state = PCO__LEVEL_NO_YIELD;
  lua->level = level;
  level->before = lua->running.co;
  lua->running.co = co;
}

void pco__level_leave(pco__lua *lua, pco__level *level) {
  lua->level = level->outer;
  lua->running.co = level->before;
}

int pco__close_coroutine(pco__lua *lua, lua_State *co) {
  lua_State *before = lua->running.co;
  lua->running.co = co;
  int status = lua_resetthread(co);
  lua->running.co = before;
  return status;
}

void pco__mark_wait(lua_State *L) {
  luaL_checkstack(L, 2, "out of stack");
  lua_pushlightuserdata(L, (void *)&wait_mark);
}

static const void *mark_of(lua_State *co) {
  if (lua_status(co) != LUA_YIELD || lua_gettop(co) == 0 ||
      !lua_islightuserdata(co, -1))
    return NULL;
  const void *mark = lua_touserdata(co, -1);
  return mark == &wait_mark || mark == &level_mark ? mark : NULL;
}

bool pco__is_waiting(lua_State *co) {
  return mark_of(co) != NULL;
}

lua_State *pco__inner(lua_State *co) {
  return mark_of(co) == &level_mark ? lua_tothread(co, -2) : NULL;
}

static int count_outer(const pco__level *level) {
  int n = 0;
  for (; level; level = level->outer)
    n++;
  return n;
}

/* Of a long chain of coroutines the first are told, and the last one, which is
 * the task's own: an error costs no more the deeper it is. */
static void add_outer_stacks(lua_State *L, const pco__level *level) {
  int left = count_outer(level);
  int skipped = left - MAX_TOLD - 1;
  for (int i = 0; level; level = level->outer, i++, left--) {
    if (i == MAX_TOLD && skipped > 0)
      lua_pushfstring(L, "\n...\t(skipping %d coroutines)", skipped);
    else if (i < MAX_TOLD || left == 1)
      pco__push_stack(L, level->co, "\nin a coroutine, resumed at:", 0);
    else
      continue;
    lua_concat(L, 2);
  }
}

void pco__outer_traceback(lua_State *L, pco__lua *lua, lua_State *co) {
  const pco__level *level = lua->level;
  while (level && level->co != co)
    level = level->outer;
  if (!level || !lua->current)
    return;
  luaL_checkstack(L, 6, "out of stack");
  add_outer_stacks(L, level->outer);
  pco__push_spawn_site(L, lua->current);
  if (lua_isnil(L, -1)) {
    lua_pop(L, 1);
    return;
  }
  pco__task_push_name(L, lua->current);
  lua_pushfstring(L, "\n%s was spawned at %s", lua_tostring(L, -1),
                  lua_tostring(L, -2));
  lua_replace(L, -3);
  lua_pop(L, 1);
  lua_concat(L, 2);
}

/* ---- resume -------------------------------------------------------------- */

#define FAILED (-1) /* the error is on top of L */
#define WAITS  (-2) /* the coroutine waits: pass it on */

static lua_State *arg_coroutine(lua_State *L) {
  lua_State *co = lua_tothread(L, 1);
  luaL_argexpected(L, co, 1, "thread");
  return co;
}

static bool has_scope(const pco__lua *lua, const lua_State *co) {
  if (!lua->current)
    return false;
  for (const pco__scope *s = lua->current->scopes; s; s = s->outer)
    if (s->co == co)
      return true;
  return false;
}

/* The coroutine yielded to its consumer with a scope open, by a yield that is
 * not ours, which would have raised.  The scopes end with an error; the yield
 * gives nothing and the coroutine goes on, to leave them. */
static void end_held_scopes(pco__lua *lua, lua_State *co) {
  for (pco__scope *s = lua->current->scopes; s; s = s->outer) {
    if (s->co != co)
      continue;
    s->held = true;
    pco__scope_cancel_plain(s, PCO_ECANCELED);
  }
}

static int move_results(lua_State *L, lua_State *co, int n) {
  if (!lua_checkstack(L, n + 1)) {
    lua_pop(co, n);
    lua_pushliteral(L, "too many results to resume");
    return FAILED;
  }
  lua_xmove(co, L, n);
  return n;
}

/* Runs co with the n_args values on top of it. */
static int run(lua_State *L, pco__lua *lua, lua_State *co, int n_args) {
  int n = 0;
  pco__level level;
  pco__level_enter(lua, &level, L, co);
  int status = lua_resume(co, L, n_args, &n);
  for (int i = 0; status == LUA_YIELD && !lua->suspending &&
                  has_scope(lua, co) && i < MAX_HELD_YIELDS;
       i++) {
    end_held_scopes(lua, co);
    lua_pop(co, n);
    status = lua_resume(co, L, 0, &n);
  }
  pco__level_leave(lua, &level);
  if (status == LUA_YIELD && lua->suspending)
    return WAITS;
  if (status == LUA_YIELD && has_scope(lua, co)) {
    pco__abandon_scopes(lua->current, co);
    pco__close_coroutine(lua, co);
    pco__push_error(L,
                    pco__error_new(PCO_ESCOPE, PCO_SOURCE_HOST, NULL,
                                   "a coroutine went on yielding while a "
                                   "scope of it was open: it was closed"),
                    "coroutine.yield");
    return FAILED;
  }
  if (status == LUA_OK || status == LUA_YIELD)
    return move_results(L, co, n);
  lua_xmove(co, L, 1);
  return FAILED;
}

static int resume(lua_State *L, pco__lua *lua, lua_State *co, int n_args) {
  if (pco__is_waiting(co)) {
    lua_pushliteral(L, "cannot resume non-suspended coroutine");
    return FAILED;
  }
  if (!lua_checkstack(co, n_args)) {
    lua_pushliteral(L, "too many arguments to resume");
    return FAILED;
  }
  lua_xmove(L, co, n_args);
  return run(L, lua, co, n_args);
}

/* The continuation of a level: the wait inside of co, which is at 1, is over.
 */
static int go_on(lua_State *L, pco__lua *lua, lua_State *co) {
  if (!lua->level || lua->level->co != L)
    return pco__raise_foreign(L, "coroutine.resume");
  if (pco__is_waiting(co))
    return run(L, lua, co, 0);
  pco__abandon_scopes(lua->current, co);
  pco__push_error(L,
                  pco__error_new(PCO_ECOROUTINE, PCO_SOURCE_HOST, NULL,
                                 "this coroutine was resumed or closed by "
                                 "somebody else while it waited"),
                  "coroutine.resume");
  return FAILED;
}

/* Passes the wait of co, which is at 1, on to who resumed L. */
static int pass_on(lua_State *L, lua_KFunction k) {
  lua_settop(L, 1);
  lua_pushvalue(L, 1);
  lua_pushlightuserdata(L, (void *)&level_mark);
  return lua_yieldk(L, 0, 0, k);
}

static int after_resume(lua_State *L, int status, lua_KContext context);

static int resume_results(lua_State *L, int n) {
  if (n == WAITS)
    return pass_on(L, after_resume);
  bool ok = n >= 0;
  n = ok ? n : 1;
  lua_pushboolean(L, ok);
  lua_insert(L, -n - 1);
  return n + 1;
}

static int after_resume(lua_State *L, int status, lua_KContext context) {
  (void)status;
  (void)context;
  lua_settop(L, 1);
  return resume_results(L, go_on(L, pco__lua_of(L), lua_tothread(L, 1)));
}

static int co_resume(lua_State *L) {
  lua_State *co = arg_coroutine(L);
  return resume_results(L, resume(L, pco__lua_of(L), co, lua_gettop(L) - 1));
}

/* ---- wrap ---------------------------------------------------------------- */

static int after_wrapped(lua_State *L, int status, lua_KContext context);

/* As the stock library: an error closes the coroutine and gets the position of
 * the caller. */
static int wrap_results(lua_State *L, lua_State *co, int n) {
  if (n == WAITS)
    return pass_on(L, after_wrapped);
  if (n >= 0)
    return n;
  int status = lua_status(co);
  if (status != LUA_OK && status != LUA_YIELD) {
    status = pco__close_coroutine(pco__lua_of(L), co);
    lua_xmove(co, L, 1);
  }
  if (status != LUA_ERRMEM && lua_type(L, -1) == LUA_TSTRING) {
    luaL_where(L, 1);
    lua_insert(L, -2);
    lua_concat(L, 2);
  }
  return lua_error(L);
}

static int after_wrapped(lua_State *L, int status, lua_KContext context) {
  (void)status;
  (void)context;
  lua_State *co = lua_tothread(L, 1);
  lua_settop(L, 1);
  return wrap_results(L, co, go_on(L, pco__lua_of(L), co));
}

static int call_wrapped(lua_State *L) {
  lua_State *co = lua_tothread(L, lua_upvalueindex(3));
  int n = resume(L, pco__lua_of(L), co, lua_gettop(L));
  if (n == WAITS) {
    lua_settop(L, 0);
    lua_pushvalue(L, lua_upvalueindex(3));
  }
  return wrap_results(L, co, n);
}

static int co_create(lua_State *L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  lua_State *co = lua_newthread(L);
  lua_pushvalue(L, 1);
  lua_xmove(L, co, 1);
  return 1;
}

static int co_wrap(lua_State *L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_pushvalue(L, lua_upvalueindex(2));
  lua_State *co = lua_newthread(L);
  lua_pushvalue(L, 1);
  lua_xmove(L, co, 1);
  lua_pushcclosure(L, call_wrapped, 3);
  return 1;
}

/* ---- the rest ------------------------------------------------------------ */

/* Refuses what could only go wrong: a yield in a task outside of any coroutine,
 * which nobody gets, and one that would leave a scope open behind it. */
static int co_yield (lua_State *L) {
  const pco__lua *lua = pco__lua_of(L);
  if (lua->current && lua->current->co == L)
    pco__raise_new(L, PCO_ECOROUTINE, "coroutine.yield",
                   "coroutine.yield was called in a task outside of any "
                   "coroutine: there is nobody to yield to");
  if (has_scope(lua, L))
    pco__raise_new(L, PCO_ESCOPE, "coroutine.yield",
                   "a scope that this coroutine has opened must end before "
                   "it yields: its consumer may never come back");
  return lua_yield(L, lua_gettop(L));
}

enum { RUNNING, DEAD, SUSPENDED, NORMAL };
static const char *const state_names[] = {"running", "dead", "suspended",
                                          "normal"};

static int state_of(lua_State *L, lua_State *co) {
  lua_Debug ar;
  if (L == co)
    return RUNNING;
  if (lua_status(co) == LUA_YIELD)
    return pco__is_waiting(co) ? NORMAL : SUSPENDED;
  if (lua_status(co) != LUA_OK)
    return DEAD;
  if (lua_getstack(co, 0, &ar))
    return NORMAL;
  return lua_gettop(co) == 0 ? DEAD : SUSPENDED;
}

static int co_status(lua_State *L) {
  lua_pushstring(L, state_names[state_of(L, arg_coroutine(L))]);
  return 1;
}

static int co_close(lua_State *L) {
  lua_State *co = arg_coroutine(L);
  int state = state_of(L, co);
  if (state != DEAD && state != SUSPENDED)
    return luaL_error(L, "cannot close a %s coroutine", state_names[state]);
  if (pco__close_coroutine(pco__lua_of(L), co) == LUA_OK) {
    lua_pushboolean(L, 1);
    return 1;
  }
  lua_pushboolean(L, 0);
  lua_xmove(co, L, 1);
  return 2;
}

static int co_isyieldable(lua_State *L) {
  lua_State *co = lua_isnone(L, 1) ? L : arg_coroutine(L);
  lua_pushboolean(L, lua_isyieldable(co));
  return 1;
}

static int co_running(lua_State *L) {
  lua_pushboolean(L, lua_pushthread(L));
  return 2;
}

const pco__core_function pco__coroutine_functions[] = {
    {"close", co_close},
    {"create", co_create},
    {"isyieldable", co_isyieldable},
    {"resume", co_resume},
    {"running", co_running},
    {"status", co_status},
    {"wrap", co_wrap},
    {"yield", co_yield },
    {NULL, NULL}};
