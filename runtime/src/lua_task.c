/* SPDX-License-Identifier: MIT */
/*
 * Tasks: their life, and their objects in Lua; see lua_task.h.
 *
 * A task's body runs under lua_pcallk with a traceback handler, so that an
 * error never reaches lua_resume: `<close>` variables are closed where they may
 * still wait, and the stack is seen alive.
 */
#include "lua_task.h"

#include <string.h>

#include "embed.h"
#include "lua_args.h"
#include "lua_cancel.h"
#include "lua_error.h"
#include "lua_table.h"

/* ---- life ---------------------------------------------------------------- */

static int after_body(lua_State *L, int status, lua_KContext context) {
  (void)context;
  /* 1: the traceback handler, then results or the error. */
  pco__name_overflow(L, status);
  lua_pushboolean(L, status == LUA_OK || status == LUA_YIELD);
  lua_replace(L, 1);
  return lua_gettop(L);
}

/* The bottom of a task's coroutine: (fn, ...) -> ok, results or error. */
static int run_body(lua_State *L) {
  int n_args = lua_gettop(L) - 1;
  lua_pushcfunction(L, pco__traceback_handler);
  lua_insert(L, 1);
  return after_body(L, lua_pcallk(L, n_args, LUA_MULTRET, 1, 0, after_body), 0);
}

static void init_task(pco__task *task, pco__lua *lua) {
  memset(task, 0, sizeof *task);
  pco__list_init(&task->node);
  pco__list_init(&task->all);
  pco__list_init(&task->sibling);
  pco__list_init(&task->awaiters);
  task->lua = lua;
  task->id = ++lua->n_made;
}

/* Notes who spawns the task, whose userdata is on top: the first function of
 * the script on the stack. */
static void note_spawner(lua_State *L, pco__task *task) {
  lua_Debug ar;
  if (!pco__first_script_frame(L, L, &ar))
    return;
  task->line = ar.currentline;
  lua_getinfo(L, "f", &ar);
  lua_setiuservalue(L, -2, PCO__TASK_SPAWNER);
}

pco__task *pco__task_new(lua_State *L, pco__lua *lua, int n_args,
                         pco__scope *scope) {
  int fn = lua_gettop(L) - n_args;
  luaL_checkstack(L, 6, "out of stack");
  pco__task *task = lua_newuserdatauv(L, sizeof *task, PCO__N_TASK_VALUES);
  init_task(task, lua);
  pco__set_class(L, PCO__TASK);
  note_spawner(L, task);
  task->n_args = n_args + 1;
  task->co = lua_newthread(L);
  lua_setiuservalue(L, -2, PCO__TASK_THREAD);
  if (lua->slice_hook && lua->slice_count)
    lua_sethook(task->co, lua->slice_hook, LUA_MASKCOUNT, lua->slice_count);
  /* Not luaL_checkstack: an error of that thread would have no handler. */
  if (!lua_checkstack(task->co, n_args + 4))
    luaL_error(L, "too many arguments");
  lua_pushcfunction(task->co, run_body);
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, task);
  lua_insert(L, fn);
  lua_xmove(L, task->co, n_args + 1);
  lua->n_tasks++;
  pco__list_append(&lua->tasks, &task->all);
  task->scope = scope;
  if (scope)
    pco__list_append(&scope->children, &task->sibling);
  pco__task_ready(task);
  return task;
}

void pco__task_free(lua_State *L, pco__task *task) {
  lua_pushnil(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, task);
}

void pco__task_push(lua_State *L, pco__task *task) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, task);
}

pco__task *pco__task_at(lua_State *L, int idx) {
  return (pco__task *)pco__userdata_at(L, idx, PCO__TASK);
}

/* Those who await it are resumed.  True if one of them takes care of a
 * failure. */
static bool wake_awaiters(pco__task *task) {
  bool lenient = false;
  while (!pco__list_empty(&task->awaiters)) {
    pco__task *awaiter = PCO_CONTAINER(task->awaiters.next, pco__task, node);
    lenient |= awaiter->lenient;
    pco__task_grant(awaiter);
  }
  return lenient;
}

/* A task that was killed may still wait for an op, which ends later. */
static void leave_op(pco__task *task) {
  if (task->op)
    task->op->task = NULL;
  task->op = NULL;
}

void pco__task_ended(lua_State *L, pco__task *task, int n_results) {
  if (task->lua->resuming == task)
    task->lua->resuming = NULL;
  task->ended = true;
  task->n_args = n_results;
  task->failed = !lua_toboolean(task->co, -n_results);
  if (task->failed) {
    lua_pushvalue(task->co, -1);
    lua_xmove(task->co, L, 1);
    task->cut = pco__is_cancel_error(L, -1, task);
    lua_pop(L, 1);
  }
  pco__lua *lua = task->lua;
  lua->n_tasks--;
  lua->n_cancelled -= task->cancel.code != 0;
  lua->n_outside -= task->outside;
  task->outside = false;
  task->wait = PCO__NO_WAIT;
  pco__timer_stop(&lua->runtime.loop, &task->timer);
  leave_op(task);
  pco__list_remove(&task->node);
  task->ready = false;
  pco__list_remove(&task->all);
  lua_pushnil(L);
  pco__task_set_value(L, task);
  pco__abandon_scopes(task, NULL);
  pco__end_grace(task);
  pco__forget_reason(L, &task->cancel);
  task->cared_for = wake_awaiters(task);
  pco__scope *scope = task->scope;
  if (scope)
    pco__scope_child_ended(L, scope, task);
  else if (!pco__list_empty(&task->sibling))
    pco__embed_task_ended(task);
  else if (task->orphan)
    pco__task_free(L, task);
}

void pco__task_fail(lua_State *L, pco__task *task) {
  lua_settop(task->co, 0);
  lua_pushboolean(task->co, 0);
  lua_xmove(L, task->co, 1);
  pco__task_ended(L, task, 2);
}

int pco__task_results(lua_State *L, pco__task *task) {
  int n = task->n_args - 1;
  luaL_checkstack(L, n + 2, "too many results");
  if (!lua_checkstack(task->co, n))
    luaL_error(L, "too many results");
  int first = lua_gettop(task->co) - n + 1;
  for (int i = 0; i < n; i++)
    lua_pushvalue(task->co, first + i);
  lua_xmove(task->co, L, n);
  return n;
}

/* ---- names --------------------------------------------------------------- */

static const char names_key = 0; /* in the registry: task to name, weakly */

static void push_names(lua_State *L) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &names_key) == LUA_TTABLE)
    return;
  lua_pop(L, 1);
  pco__push_weak_keyed(L);
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &names_key);
}

/* Replaces the Task on top by its name. */
static void to_name(lua_State *L, const pco__task *task) {
  int at = lua_gettop(L);
  push_names(L);
  lua_pushvalue(L, at);
  if (lua_isnil(L, at) || lua_rawget(L, -2) != LUA_TSTRING)
    lua_pushfstring(L, "task %d", (int)task->id);
  lua_replace(L, at);
  lua_settop(L, at);
}

void pco__task_push_name(lua_State *L, pco__task *task) {
  luaL_checkstack(L, 6, "out of stack");
  pco__task_push(L, task);
  to_name(L, task);
}

void pco__push_spawn_site(lua_State *L, pco__task *task) {
  lua_Debug ar;
  int top = lua_gettop(L);
  pco__task_push(L, task);
  if (lua_isnil(L, -1) || task->line <= 0 ||
      lua_getiuservalue(L, -1, PCO__TASK_SPAWNER) != LUA_TFUNCTION) {
    lua_settop(L, top);
    lua_pushnil(L);
    return;
  }
  lua_getinfo(L, ">S", &ar);
  lua_pushfstring(L, "%s:%d", ar.short_src, task->line);
  lua_replace(L, top + 1);
  lua_settop(L, top + 1);
}

/* ---- awaiting ------------------------------------------------------------ */

/* True if `task` cannot end before `self` does: it is self, or self is in a
 * scope of it, or it awaits such a task. */
static bool depends_on(pco__task *task, pco__task *self) {
  for (; task; task = task->wait == PCO__WAITS_TASK ? (pco__task *)task->target
                                                    : NULL) {
    for (const pco__task *t = self; t; t = t->scope ? t->scope->owner : NULL)
      if (t == task)
        return true;
  }
  return false;
}

static void check_cycle(lua_State *L, pco__task *task, pco__task *self,
                        const char *operation) {
  if (task == self)
    pco__raise_new(L, PCO_EDEADLOCK, operation, "a task cannot await itself");
  if (!depends_on(task, self))
    return;
  pco__task_push_name(L, task);
  pco__raise_new(L, PCO_EDEADLOCK, operation,
                 "%s waits for this task, so awaiting it would never end",
                 lua_tostring(L, -1));
}

static int give_awaited(lua_State *L, bool lenient) {
  pco__task *task = pco__task_at(L, 1);
  lua_settop(L, 1);
  if (task->failed && !lenient) {
    pco__task_results(L, task);
    return lua_error(L);
  }
  if (lenient)
    lua_pushboolean(L, !task->failed);
  pco__task_results(L, task);
  return lua_gettop(L) - 1;
}

static int after_await(lua_State *L, int status, lua_KContext lenient) {
  (void)status;
  pco__unpark(L, lenient ? "task.pawait" : "task.await");
  pco__task *self = pco__lua_of(L)->current;
  self->lenient = false;
  return give_awaited(L, lenient);
}

static int await(lua_State *L, bool lenient) {
  const char *operation = lenient ? "task.pawait" : "task.await";
  pco__task *task = (pco__task *)pco__check_userdata(L, PCO__TASK, operation);
  pco__check_place(L, operation);
  if (task->ended)
    return give_awaited(L, lenient);
  pco__task *self = pco__lua_of(L)->current;
  check_cycle(L, task, self, operation);
  pco__check_cancelled(L, operation);
  self->lenient = lenient;
  return pco__park(L, PCO__WAITS_TASK, &task->awaiters, task, lenient,
                   after_await);
}

/* core.task_await(self) */
static int task_await(lua_State *L) {
  return await(L, false);
}

/* core.task_pawait(self) */
static int task_pawait(lua_State *L) {
  return await(L, true);
}

/* ---- the object ---------------------------------------------------------- */

/* core.task_cancel(self, reason) */
static int task_cancel(lua_State *L) {
  pco__task *task =
      (pco__task *)pco__check_userdata(L, PCO__TASK, "task.cancel");
  lua_settop(L, 2);
  lua_pushboolean(L, pco__task_cancel(L, task, PCO_ECANCELED));
  return 1;
}

static const char *status_of(const pco__task *task) {
  if (!task->ended)
    return !task->started               ? "new"
           : task == task->lua->current ? "running"
                                        : "waiting";
  if (!task->failed)
    return "done";
  return task->cut ? "cancelled" : "failed";
}

/* core.task_status(self) */
static int task_status(lua_State *L) {
  pco__task *task =
      (pco__task *)pco__check_userdata(L, PCO__TASK, "task.status");
  lua_pushstring(L, status_of(task));
  return 1;
}

/* core.task_current() */
static int task_current(lua_State *L) {
  pco__lua *lua = pco__lua_of(L);
  if (lua->current)
    pco__task_push(L, lua->current);
  else
    lua_pushnil(L);
  return 1;
}

/* core.task_tostring(self) */
static int task_tostring(lua_State *L) {
  pco__task *task = pco__task_at(L, 1);
  if (!task) {
    lua_pushliteral(L, "portico.Task");
    return 1;
  }
  lua_settop(L, 1);
  lua_pushvalue(L, 1);
  to_name(L, task);
  lua_pushfstring(L, "portico.Task(%s, %s)", lua_tostring(L, -1),
                  status_of(task));
  return 1;
}

/* task.name, and the methods of the class, which is upvalue 1. */
static int task_index(lua_State *L) {
  if (lua_type(L, 2) == LUA_TSTRING &&
      strcmp(lua_tostring(L, 2), "name") == 0) {
    lua_pushvalue(L, 1);
    to_name(L, (const pco__task *)lua_touserdata(L, 1));
    return 1;
  }
  lua_settop(L, 2);
  lua_rawget(L, lua_upvalueindex(1));
  return 1;
}

static int task_newindex(lua_State *L) {
  if (lua_type(L, 2) != LUA_TSTRING || strcmp(lua_tostring(L, 2), "name") != 0)
    return pco__bad_argument(L, "task",
                             "a Task has no field '%s' that can be set; only "
                             "'name'",
                             luaL_tolstring(L, 2, NULL));
  if (lua_type(L, 3) != LUA_TSTRING)
    return pco__bad_argument(L, "task", "the name must be a string (got %s)",
                             luaL_typename(L, 3));
  push_names(L);
  lua_pushvalue(L, 1);
  lua_pushvalue(L, 3);
  lua_rawset(L, -3);
  return 0;
}

void pco__init_task_class(lua_State *L) {
  pco__push_metatable(L, PCO__TASK, false);
  if (lua_getfield(L, -1, "class") == LUA_TNIL) {
    lua_getfield(L, -2, "__index");
    lua_pushvalue(L, -1);
    lua_setfield(L, -4, "class");
    lua_pushcclosure(L, task_index, 1);
    lua_setfield(L, -3, "__index");
    lua_pushcfunction(L, task_newindex);
    lua_setfield(L, -3, "__newindex");
  }
  lua_pop(L, 2);
}

const pco__core_function pco__task_functions[] = {
    {"task_await", task_await},
    {"task_pawait", task_pawait},
    {"task_cancel", task_cancel},
    {"task_status", task_status},
    {"task_current", task_current},
    {"task_tostring", task_tostring},
    {NULL, NULL}};
