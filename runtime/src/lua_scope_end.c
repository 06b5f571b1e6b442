/* SPDX-License-Identifier: MIT */
/*
 * How a scope ended, when all its tasks have:
 *
 *   - the first real failure, of the body or of a child, cancels all others and
 *     is raised, with further ones in its field `others`;
 *   - else a body that was cancelled raises that, a TimeoutError if it was this
 *     scope's own deadline;
 *   - else the body's results count, unless children were cancelled by a
 *     deadline or from outside.
 */
#include "lua_scope_end.h"

#include "lua_cancel.h"
#include "lua_error.h"
#include "lua_table.h"

/* Appends the value on top of L, which is popped, to the table at `others`,
 * unless it is in the set behind that, where it goes then: the same error may
 * come out of several tasks. */
static void add_other(lua_State *L, int others) {
  bool is_key = !lua_isnil(L, -1) && lua_rawequal(L, -1, -1);
  lua_pushvalue(L, -1);
  if (is_key && lua_rawget(L, others + 1) == LUA_TNIL) {
    lua_pushvalue(L, -2);
    lua_rawseti(L, others, (lua_Integer)lua_rawlen(L, others) + 1);
    lua_pushvalue(L, -2);
    lua_pushboolean(L, 1);
    lua_rawset(L, others + 1);
  }
  lua_settop(L, others + 1);
}

/* What the error at `first` has from a scope further in is not forgotten. */
static void add_earlier(lua_State *L, int first, int others) {
  if (!pco__is_error(L, first))
    return;
  for (lua_Integer i = 1;; i++) {
    lua_pushliteral(L, "others");
    if (lua_rawget(L, first) != LUA_TTABLE || lua_rawgeti(L, -1, i) == LUA_TNIL)
      break;
    add_other(L, others);
  }
  lua_settop(L, others + 1);
}

/* Collects all errors but the one at `first` into the table that it pushes.
 * The body's error, if it is one of them, is at `body`, else 0. */
static void push_others(lua_State *L, pco__scope *scope, int first, int body) {
  lua_newtable(L);
  int others = lua_gettop(L);
  lua_newtable(L); /* the set */
  if (!lua_isnil(L, first) && lua_rawequal(L, first, first)) {
    lua_pushvalue(L, first);
    lua_pushboolean(L, 1);
    lua_rawset(L, others + 1);
  }
  add_earlier(L, first, others);
  if (body) {
    lua_pushvalue(L, body);
    add_other(L, others);
  }
  while (!pco__list_empty(&scope->failed)) {
    pco__task *task = PCO_CONTAINER(scope->failed.next, pco__task, sibling);
    pco__task_results(L, task);
    add_other(L, others);
    pco__list_remove(&task->sibling); /* after all that may raise */
    pco__task_free(L, task);
  }
  lua_settop(L, others);
}

/* Errors that cannot stand in the field of another one are told to the logger
 * and to Lua's warnings. */
static void report_lost(lua_State *L, const pco__scope *scope, int others) {
  lua_Integer n = (lua_Integer)lua_rawlen(L, others);
  for (lua_Integer i = 1; i <= n; i++) {
    lua_rawgeti(L, others, i);
    pco__push_description(L, -1);
    const char *text = lua_tostring(L, -1);
    pco__log_write(&scope->lua->runtime.log, PCO_LOG_ERROR,
                   "a further failure in a scope: %s", text);
    lua_warning(L, "portico: a further failure in a scope: ", 1);
    lua_warning(L, text, 0);
    lua_pop(L, 2);
  }
}

/* Raises the error at `first`, with all others of the scope. */
static int raise_first(lua_State *L, pco__scope *scope, int first, int body) {
  push_others(L, scope, first, body);
  int others = lua_gettop(L);
  if (lua_rawlen(L, others) > 0) {
    if (pco__is_error(L, first)) {
      lua_pushvalue(L, others);
      lua_setfield(L, first, "others");
    } else {
      report_lost(L, scope, others);
    }
  }
  lua_pushvalue(L, first);
  return lua_error(L);
}

/* A real failure is raised: the body's, which is at AT_RESULTS, or a child's.
 */
static int raise_failure(lua_State *L, pco__scope *scope, bool body_real) {
  int body = body_real ? AT_RESULTS : 0;
  if (body_real && (scope->body_first || pco__list_empty(&scope->failed)))
    return raise_first(L, scope, AT_RESULTS, 0);
  pco__task_results(L, PCO_CONTAINER(scope->failed.next, pco__task, sibling));
  return raise_first(L, scope, lua_gettop(L), body);
}

/* The scope's own deadline ended it.  The cancellation that the body raised,
 * if any, is at `cause`, else 0; it may have the result of a command. */
static int raise_timeout(lua_State *L, const pco__scope *scope, int cause) {
  pco__push_error(L,
                  pco__error_new(PCO_ECALLTIMEOUT, PCO_SOURCE_HOST, NULL,
                                 scope->limit > 0
                                     ? "it did not end within %g s"
                                     : "its time was over when it began",
                                 (double)scope->limit / 1e9),
                  scope->operation);
  if (cause) {
    lua_pushvalue(L, cause);
    lua_setfield(L, -2, "cause");
    lua_getfield(L, cause, "result");
    lua_setfield(L, -2, "result");
  }
  return lua_error(L);
}

/* Pushes the error for a scope that was cancelled while its body was fine. */
static void push_cut_error(lua_State *L, pco__task *owner,
                           const char *operation) {
  const pco__cancel *c = pco__cancelled(owner);
  if (c)
    pco__push_cancel_error(L, c, operation);
  else
    pco__push_error(L,
                    pco__error_new(PCO_ECANCELED, PCO_SOURCE_HOST, NULL,
                                   "a task of the scope was cancelled"),
                    operation);
}

static int raise_held(lua_State *L) {
  return pco__raise_new(L, PCO_ESCOPE, "coroutine.yield",
                        "a scope was open while its coroutine yielded to a "
                        "consumer, which may never come back: end the scope "
                        "first");
}

/* All children have ended; 0: how it ended is up to the caller, who has the
 * results.  Raises everything else. */
void pco__scope_conclude(lua_State *L, pco__scope *scope) {
  pco__task *owner = scope->owner;
  const char *operation = scope->operation;
  bool cancelled =
      scope->body_failed && pco__is_cancel_error(L, AT_RESULTS, owner);
  bool body_real = scope->body_failed && !cancelled;
  int own = scope->cancel.code;
  bool failed = body_real || !pco__list_empty(&scope->failed);
  pco__scope_unlink(scope);
  const pco__cancel *outer = pco__refusal(L, owner);
  bool timed_out =
      own == PCO_ECALLTIMEOUT && (!outer || outer->code == PCO_ECALLTIMEOUT);
  pco__scope_forget(L, scope);
  if (scope->held)
    raise_held(L);
  if (failed && !(scope->any && scope->winner))
    raise_failure(L, scope, body_real);
  if (cancelled && timed_out)
    raise_timeout(L, scope, AT_RESULTS);
  if (cancelled) {
    lua_pushvalue(L, AT_RESULTS);
    lua_error(L);
  }
  if (!scope->cut || (scope->any && scope->winner))
    return;
  if (timed_out)
    raise_timeout(L, scope, 0);
  if (!own || outer) {
    push_cut_error(L, owner, operation);
    lua_error(L);
  }
}

/* all: the first result of each, in a table. */
int pco__scope_give_all(lua_State *L) {
  lua_Integer n = (lua_Integer)lua_rawlen(L, AT_TASKS);
  lua_createtable(L, (int)n, 0);
  int table = lua_gettop(L);
  for (lua_Integer i = 1; i <= n; i++) {
    lua_rawgeti(L, AT_TASKS, i);
    pco__task *task = pco__task_at(L, -1);
    if (!task->failed && pco__task_results(L, task) > 0) {
      lua_settop(L, table + 2);
      lua_rawseti(L, table, i);
    }
    lua_settop(L, table);
  }
  return 1;
}

int pco__scope_give_first(lua_State *L, pco__scope *scope) {
  while (!pco__list_empty(&scope->failed)) {
    pco__task *task = PCO_CONTAINER(scope->failed.next, pco__task, sibling);
    pco__task_results(L, task);
    pco__push_description(L, -1);
    pco__log_write(&scope->lua->runtime.log, PCO_LOG_INFO,
                   "task.first: one that did not win failed: %s",
                   lua_tostring(L, -1));
    lua_settop(L, AT_TASKS);
    pco__list_remove(&task->sibling);
    pco__task_free(L, task);
  }
  return pco__task_results(L, scope->winner);
}
