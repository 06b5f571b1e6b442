/* SPDX-License-Identifier: MIT */
/*
 * Telling who waits for what, since when, and from which line: tasks(), and
 * the text of a deadlock.
 *
 * Tasks are a tree: those in the scopes of a task are below it.  It is walked
 * without recursion, since scripts make it as deep as they like.
 */
#include "lua_dump.h"

#include <string.h>

#include "lua_coroutine.h"
#include "lua_error.h"
#include "lua_scope.h"
#include "lua_table.h"

/* ---- the tree ------------------------------------------------------------ */

static pco__task *first_child(pco__scope *s) {
  for (; s; s = s->outer)
    if (!pco__list_empty(&s->children))
      return PCO_CONTAINER(s->children.next, pco__task, sibling);
  return NULL;
}

static pco__task *next_root(const pco__lua *lua, const pco__node *n) {
  for (n = n->next; n != &lua->tasks; n = n->next) {
    pco__task *task = PCO_CONTAINER(n, pco__task, all);
    if (!task->scope)
      return task;
  }
  return NULL;
}

/* The one after task, with how deep it is. */
static pco__task *next_task(pco__task *task, int *depth) {
  const pco__lua *lua = task->lua;
  pco__task *child = first_child(task->scopes);
  if (child) {
    ++*depth;
    return child;
  }
  while (task->scope) {
    pco__scope *s = task->scope;
    if (task->sibling.next != &s->children)
      return PCO_CONTAINER(task->sibling.next, pco__task, sibling);
    child = first_child(s->outer);
    if (child)
      return child;
    task = s->owner;
    --*depth;
  }
  return next_root(lua, &task->all);
}

/* ---- one task ------------------------------------------------------------ */

static void push_awaited(lua_State *L, const char *how, pco__task *task) {
  pco__task_push_name(L, task);
  lua_pushfstring(L, "%s %s", how, lua_tostring(L, -1));
  lua_remove(L, -2);
}

/* Pushes what it waits for: "exec", "sleep", "await of task 3". */
static void push_what(lua_State *L, pco__task *task) {
  static const char *const names[] = {
      [PCO__WAITS_SLEEP] = "sleep",
      [PCO__WAITS_TURN] = "checkpoint",
      [PCO__WAITS_SCOPE] = "the end of the tasks in its scope",
      [PCO__WAITS_EVENT] = "event",
      [PCO__WAITS_PERMIT] = "semaphore",
      [PCO__WAITS_SEND] = "send to channel",
      [PCO__WAITS_RECEIVE] = "receive from channel",
      [PCO__WAITS_PROMISE] = "promise of the host"};
  if (task->wait == PCO__WAITS_OP)
    lua_pushstring(L, task->op ? task->op->cls->name : "an op");
  else if (task->wait == PCO__WAITS_TASK && task->target)
    push_awaited(L, "await of", (pco__task *)task->target);
  else if (task->wait >= PCO__WAITS_EVENT)
    lua_pushfstring(L, "%s %p", names[task->wait], task->target);
  else
    lua_pushstring(L, names[task->wait] ? names[task->wait] : "nothing");
}

static const char *state_of(const pco__task *task) {
  if (task == task->lua->current)
    return "running";
  if (!task->started)
    return "new";
  return task->ready ? "ready" : "waiting";
}

/* Pushes "file:line" of the innermost wait, or nil. */
static void push_line(lua_State *L, pco__task *task) {
  lua_Debug ar;
  lua_State *co = task == task->lua->current ? L : task->co;
  for (lua_State *inner = co; inner; inner = pco__inner(inner))
    co = inner;
  if (task->started && pco__first_script_frame(L, co, &ar))
    lua_pushfstring(L, "%s:%d", ar.short_src, ar.currentline);
  else
    lua_pushnil(L);
}

static double waited(const pco__task *task) {
  uint32_t now = (uint32_t)uv_now(&task->lua->runtime.loop.uv);
  return (double)(now - task->since) / 1e3;
}

void pco__push_doing(lua_State *L, pco__task *task) {
  int top = lua_gettop(L);
  luaL_checkstack(L, 8, "out of stack");
  push_line(L, task);
  const char *line = lua_isnil(L, -1) ? "?" : lua_tostring(L, -1);
  if (task->wait == PCO__NO_WAIT) {
    lua_pushfstring(L, "%s at %s", state_of(task), line);
  } else {
    push_what(L, task);
    lua_pushfstring(L, "waits for %s at %s, since %f s", lua_tostring(L, -1),
                    line, waited(task));
  }
  lua_replace(L, top + 1);
  lua_settop(L, top + 1);
}

/* ---- all ----------------------------------------------------------------- */

/* Pushes the text about one. */
static void push_text(lua_State *L, pco__task *task) {
  int top = lua_gettop(L);
  pco__task_push_name(L, task);
  pco__push_doing(L, task);
  pco__push_spawn_site(L, task);
  lua_pushfstring(L, "; %s, spawned at %s, %s", lua_tostring(L, top + 1),
                  lua_isnil(L, top + 3) ? "?" : lua_tostring(L, top + 3),
                  lua_tostring(L, top + 2));
  lua_replace(L, top + 1);
  lua_settop(L, top + 1);
}

#define MAX_TOLD 50 /* tasks in a deadlock's text */

void pco__push_deadlock(lua_State *L, pco__lua *lua) {
  int depth = 0;
  int told = 0;
  luaL_checkstack(L, 8, "out of stack");
  if (lua->n_tasks == 1)
    lua_pushliteral(L, "a task waits for what nothing can give it");
  else
    lua_pushfstring(L,
                    "%d tasks wait for each other, and nothing else can "
                    "wake them",
                    lua->n_tasks);
  for (pco__task *t = next_root(lua, &lua->tasks); t && told < MAX_TOLD;
       t = next_task(t, &depth), told++) {
    push_text(L, t);
    lua_concat(L, 2);
  }
  if (told < lua->n_tasks) {
    lua_pushfstring(L, "; and %d more", lua->n_tasks - told);
    lua_concat(L, 2);
  }
}

/* Pushes the table of one task. */
static void push_entry(lua_State *L, pco__task *task, int depth) {
  lua_createtable(L, 0, 8);
  pco__task_push(L, task);
  lua_setfield(L, -2, "task");
  pco__task_push_name(L, task);
  lua_setfield(L, -2, "name");
  pco__set_string(L, "state", state_of(task));
  pco__set_integer(L, "depth", depth);
  push_line(L, task);
  lua_setfield(L, -2, "where");
  pco__push_spawn_site(L, task);
  lua_setfield(L, -2, "spawned");
  if (task->scope) {
    lua_rawgetp(L, LUA_REGISTRYINDEX, task->scope);
    lua_setfield(L, -2, "scope");
  }
  if (task->wait == PCO__NO_WAIT)
    return;
  push_what(L, task);
  lua_setfield(L, -2, "waits_for");
  lua_pushnumber(L, waited(task));
  lua_setfield(L, -2, "seconds");
}

/* core.task_list() */
static int task_list(lua_State *L) {
  const pco__lua *lua = pco__lua_of(L);
  int depth = 0;
  lua_Integer i = 0;
  lua_settop(L, 0);
  lua_newtable(L);
  for (pco__task *t = next_root(lua, &lua->tasks); t;
       t = next_task(t, &depth)) {
    push_entry(L, t, depth);
    lua_rawseti(L, 1, ++i);
  }
  return 1;
}

int pco__dump_tasks(lua_State *L, pco__lua *lua, pco_dump_fn fn, void *ud) {
  int depth = 0;
  int n = 0;
  luaL_checkstack(L, 8, "out of stack");
  for (pco__task *t = next_root(lua, &lua->tasks); t;
       t = next_task(t, &depth), n++) {
    push_text(L, t);
    fn(ud, lua_tostring(L, -1) + sizeof "; " - 1);
    lua_pop(L, 1);
  }
  return n;
}

const pco__core_function pco__dump_functions[] = {{"task_list", task_list},
                                                  {NULL, NULL}};
