/* SPDX-License-Identifier: MIT */
/*
 * Scopes: groups of tasks that end before what opened them does.
 *
 * A scope is a userdata in the frame of the C function that opened it, always
 * at index AT_SCOPE; the functions here call the body under lua_pcallk, wait
 * for the children, and then say how it ended (lua_scope_end.c).
 *
 * `all`, `first`, `timeout` and `shield` are scopes as well.
 */
#include "lua_scope.h"

#include <math.h>
#include <string.h>

#include "lua_args.h"
#include "lua_cancel.h"
#include "lua_error.h"
#include "lua_scope_end.h"

typedef enum mode { BODY, ALL, FIRST } mode;

/* ---- life ---------------------------------------------------------------- */

static void on_deadline(pco__timer *timer) {
  pco__scope *scope = PCO_CONTAINER(timer, pco__scope, deadline);
  scope->has_deadline = false;
  scope->lua->n_outside--;
  pco__scope_cancel_plain(scope, PCO_ECALLTIMEOUT);
}

static void stop_deadline(pco__scope *scope) {
  if (!scope->has_deadline)
    return;
  scope->has_deadline = false;
  scope->lua->n_outside--;
  pco__timer_stop(&scope->lua->runtime.loop, &scope->deadline);
}

static void start_deadline(lua_State *L, pco__scope *scope, int64_t ns) {
  if (ns < 0 || ns == INT64_MAX)
    return;
  scope->deadline.fn = on_deadline;
  scope->limit = ns;
  if (pco__timer_start(&scope->lua->runtime.loop, &scope->deadline,
                       (uint64_t)ns) < 0)
    pco__raise(L, pco__error_no_memory(), "task.scope", 0);
  scope->has_deadline = true;
  scope->lua->n_outside++;
}

/* Pushes a new scope; it is not open yet. */
static pco__scope *push_scope(lua_State *L, const char *operation) {
  luaL_checkstack(L, LUA_MINSTACK, "out of stack");
  pco__scope *scope = lua_newuserdatauv(L, sizeof *scope, 0);
  memset(scope, 0, sizeof *scope);
  pco__list_init(&scope->children);
  pco__list_init(&scope->failed);
  scope->lua = pco__lua_of(L);
  scope->operation = operation;
  scope->co = L;
  scope->grace = -1;
  pco__set_class(L, PCO__SCOPE);
  return scope;
}

static void open_scope(pco__scope *scope) {
  pco__task *owner = scope->lua->current;
  scope->owner = owner;
  scope->outer = owner->scopes;
  owner->scopes = scope;
}

void pco__scope_unlink(pco__scope *scope) {
  pco__task *owner = scope->owner;
  if (!owner)
    return;
  stop_deadline(scope);
  for (pco__scope **s = &owner->scopes; *s; s = &(*s)->outer) {
    if (*s == scope) {
      *s = scope->outer;
      break;
    }
  }
  scope->owner = NULL;
  if (scope->cancel.code)
    scope->lua->n_cancelled--;
  if (owner->grace && !pco__cancelled(owner))
    pco__end_grace(owner);
}

/* Takes what is about it out of the registry: reason and name. */
void pco__scope_forget(lua_State *L, const pco__scope *scope) {
  pco__forget_reason(L, &scope->cancel);
  lua_pushnil(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, scope);
}

/* Those that failed are let go.  After an error in raising their errors the
 * garbage collector comes here. */
static void free_failed(lua_State *L, pco__scope *scope) {
  for (pco__node *n; (n = pco__list_shift(&scope->failed)) != NULL;)
    pco__task_free(L, PCO_CONTAINER(n, pco__task, sibling));
}

/* Its children are cancelled and belong to nobody; failed ones are let go. */
static void abandon(pco__scope *scope) {
  lua_State *L = scope->lua->main;
  pco__task *owner = scope->owner;
  pco__scope_unlink(scope);
  if (scope->joining && !owner->ended && owner != scope->lua->current)
    pco__task_ready(owner); /* to find that its coroutine is gone */
  pco__scope_forget(L, scope);
  for (pco__node *n; (n = pco__list_shift(&scope->children)) != NULL;) {
    pco__task *child = PCO_CONTAINER(n, pco__task, sibling);
    child->scope = NULL;
    child->orphan = true;
    pco__task_cancel_plain(child, PCO_ECANCELED);
  }
  free_failed(L, scope);
}

void pco__abandon_scopes(pco__task *task, const lua_State *co) {
  for (pco__scope *s = task->scopes, *outer; s; s = outer) {
    outer = s->outer;
    if (!co || s->co == co)
      abandon(s);
  }
}

/* Its frame is gone with the coroutine, which somebody has closed. */
static int scope_gc(lua_State *L) {
  pco__scope *scope = (pco__scope *)lua_touserdata(L, 1);
  if (scope->lua->main && scope->owner)
    abandon(scope);
  if (scope->lua->main)
    free_failed(L, scope);
  return 0;
}

/* ---- children ------------------------------------------------------------ */

/* (error, why as a light userdata): a text about both. */
static int explain(lua_State *L) {
  pco__push_description(L, 1);
  lua_pushfstring(L, "%s: %s", (const char *)lua_touserdata(L, 2),
                  lua_tostring(L, -1));
  return 1;
}

/* The rest of a scope is cancelled because of what is on top of L; without
 * memory it is not told so. */
static void cancel_rest(lua_State *L, pco__scope *scope, const char *why) {
  lua_pushvalue(L, -1);
  lua_pushlightuserdata(L, (void *)why);
  if (!pco__protected(L, explain, 2, 1)) {
    lua_pop(L, 1);
    lua_pushnil(L);
  }
  pco__scope_cancel_anyhow(L, scope, PCO_ECANCELED);
}

static void child_failed(lua_State *L, pco__scope *scope, pco__task *task) {
  pco__list_append(&scope->failed, &task->sibling);
  if (scope->any)
    return;
  pco__task_results(L, task);
  cancel_rest(L, scope, "another task of its scope failed");
  lua_pop(L, 1);
}

void pco__scope_child_ended(lua_State *L, pco__scope *scope, pco__task *task) {
  pco__list_remove(&task->sibling);
  if (task->failed && task->cut && !task->cancel.code)
    scope->cut = true;
  if (task->failed && !task->cut && !task->cared_for)
    child_failed(L, scope, task); /* keeps its anchor */
  else
    pco__task_free(L, task);
  if (!task->failed && scope->any && !scope->winner) {
    scope->winner = task;
    pco__scope_cancel_plain(scope, PCO_ECANCELED);
  }
  if (pco__list_empty(&scope->children) && scope->joining)
    pco__task_ready(scope->owner);
}

/* ---- waiting for the children -------------------------------------------- */

static int join(lua_State *L, mode m);

static int after_join(lua_State *L, int status, lua_KContext m) {
  (void)status;
  pco__scope *scope = (pco__scope *)lua_touserdata(L, AT_SCOPE);
  scope->joining = false;
  if (!pco__is_resumed(L)) {
    abandon(scope);
    return pco__raise_foreign(L, scope->operation);
  }
  lua_settop(L, lua_gettop(L) - 1); /* the mark */
  return join(L, (mode)m);
}

static int join(lua_State *L, mode m) {
  pco__scope *scope = (pco__scope *)lua_touserdata(L, AT_SCOPE);
  if (!scope->owner) /* somebody has ended the task under it */
    return pco__raise_new(L, PCO_ECOROUTINE, scope->operation,
                          "the task of this scope was ended by somebody else");
  if (!pco__list_empty(&scope->children) && pco__may_wait(L)) {
    scope->joining = true;
    return pco__park(L, PCO__WAITS_SCOPE, NULL, scope, m, after_join);
  }
  if (!pco__list_empty(&scope->children)) {
    abandon(scope); /* in foreign hands; the body's error says so */
    return scope->body_failed ? (lua_settop(L, AT_RESULTS), lua_error(L))
                              : pco__raise_foreign(L, scope->operation);
  }
  pco__scope_conclude(L, scope);
  if (m == ALL)
    return pco__scope_give_all(L);
  if (m == FIRST)
    return pco__scope_give_first(L, scope);
  return lua_gettop(L) - AT_RESULTS + 1;
}

static int after_body(lua_State *L, int status, lua_KContext m) {
  pco__scope *scope = (pco__scope *)lua_touserdata(L, AT_SCOPE);
  pco__name_overflow(L, status);
  scope->body_failed = status != LUA_OK && status != LUA_YIELD;
  if (scope->body_failed && scope->owner &&
      !pco__is_cancel_error(L, AT_RESULTS, scope->owner)) {
    scope->body_first = pco__list_empty(&scope->failed);
    cancel_rest(L, scope, "the function of its scope failed");
  }
  return join(L, (mode)m);
}

/* Opens the scope at AT_SCOPE and calls the function at AT_RESULTS with the
 * n_args values above it. */
static int call_body(lua_State *L, int n_args) {
  open_scope((pco__scope *)lua_touserdata(L, AT_SCOPE));
  return after_body(
      L, lua_pcallk(L, n_args, LUA_MULTRET, AT_TASKS, BODY, after_body), BODY);
}

/* ---- the functions ------------------------------------------------------- */

static void check_function(lua_State *L, int idx, const char *operation,
                           const char *name) {
  if (!lua_isfunction(L, idx))
    pco__bad_argument(L, operation, "%s must be a function (got %s)", name,
                      luaL_typename(L, idx));
}

/* The deadline of the options, in ns from now; negative: none. */
static int64_t opt_deadline(lua_State *L, const char *operation) {
  int64_t ns = pco__opt_seconds(L, AT_OPTIONS, operation, "timeout", -1, true);
  if (!pco__get_option(L, AT_OPTIONS, "deadline"))
    return ns;
  if (lua_type(L, -1) != LUA_TNUMBER ||
      lua_tonumber(L, -1) != lua_tonumber(L, -1))
    pco__bad_argument(L, operation,
                      "option 'deadline' must be a time of task.now() (got %s)",
                      lua_type(L, -1) == LUA_TNUMBER ? "one that is no number"
                                                     : luaL_typename(L, -1));
  double left = lua_tonumber(L, -1) - (double)uv_hrtime() / 1e9;
  lua_pop(L, 1);
  int64_t until = left <= 0    ? 0
                  : left > 1e9 ? INT64_MAX
                               : (int64_t)(left * 1e9);
  return ns >= 0 && ns < until ? ns : until;
}

/* core.task_scope(fn, options) */
static int task_scope(lua_State *L) {
  static const char *const known[] = {"timeout", "deadline", "name",
                                      "shield",  "grace",    NULL};
  static const char operation[] = "task.scope";
  lua_settop(L, AT_OPTIONS);
  check_function(L, AT_FN, operation, "the body of the scope");
  pco__check_options(L, AT_OPTIONS, operation, known);
  int64_t limit = opt_deadline(L, operation);
  int64_t grace = pco__opt_seconds(L, AT_OPTIONS, operation, "grace", -1, true);
  bool shield = pco__opt_boolean(L, AT_OPTIONS, operation, "shield", false);
  pco__check_place(L, operation);
  pco__scope *scope = push_scope(L, operation);
  scope->shield = shield;
  scope->grace = grace;
  if (pco__get_option(L, AT_OPTIONS, "name")) {
    if (lua_type(L, -1) != LUA_TSTRING)
      pco__bad_argument(L, operation, "option 'name' must be a string (got %s)",
                        luaL_typename(L, -1));
    lua_rawsetp(L, LUA_REGISTRYINDEX, scope);
  }
  lua_pushcfunction(L, pco__traceback_handler);
  lua_pushvalue(L, AT_FN);
  lua_pushvalue(L, AT_SCOPE);
  start_deadline(L, scope, limit);
  return call_body(L, 1);
}

/* Calls the function at AT_FN + 1 with what is above in a scope of its own. */
static int call_in_scope(lua_State *L, const char *operation, int64_t limit,
                         bool shield) {
  int n_args = lua_gettop(L) - 2;
  pco__check_place(L, operation);
  pco__scope *scope = push_scope(L, operation);
  scope->shield = shield;
  lua_insert(L, AT_SCOPE);
  lua_pushcfunction(L, pco__traceback_handler);
  lua_insert(L, AT_TASKS);
  lua_pushvalue(L, 2);
  lua_insert(L, AT_RESULTS);
  start_deadline(L, scope, limit);
  return call_body(L, n_args);
}

/* core.task_timeout(seconds, fn, ...) */
static int task_timeout(lua_State *L) {
  static const char operation[] = "task.timeout";
  int64_t ns = -1;
  if (lua_type(L, 1) != LUA_TNUMBER || lua_tonumber(L, 1) != HUGE_VAL)
    ns = pco__arg_seconds(L, 1, operation, "the time limit");
  check_function(L, 2, operation, "what to call");
  return call_in_scope(L, operation, ns, false);
}

/* core.task_shield(fn, ...) */
static int task_shield(lua_State *L) {
  check_function(L, 1, "task.shield", "what to call");
  lua_pushnil(L);
  lua_insert(L, 1);
  return call_in_scope(L, "task.shield", -1, true);
}

/* Checks the list of functions at 1; returns its length. */
static lua_Integer check_list(lua_State *L, const char *operation,
                              const char *name) {
  if (!lua_istable(L, 1))
    pco__bad_argument(L, operation, "%s needs a sequence of functions (got %s)",
                      name, luaL_typename(L, 1));
  lua_settop(L, AT_OPTIONS);
  lua_Integer n = pco__arg_sequence(L, 1, operation, "the list of functions");
  for (lua_Integer i = 1; i <= n; i++) {
    if (lua_rawgeti(L, 1, i) != LUA_TFUNCTION)
      pco__bad_argument(L, operation, "element %d must be a function (got %s)",
                        (int)i, luaL_typename(L, -1));
    lua_pop(L, 1);
  }
  return n;
}

/* (functions, tasks, scope as a light userdata): a task for each. */
static int spawn_each(lua_State *L) {
  pco__scope *scope = (pco__scope *)lua_touserdata(L, 3);
  lua_Integer n = (lua_Integer)lua_rawlen(L, 1);
  for (lua_Integer i = 1; i <= n; i++) {
    lua_rawgeti(L, 1, i);
    pco__task_new(L, scope->lua, 0, scope);
    lua_rawseti(L, 2, i);
  }
  return 0;
}

/* Runs the functions at 1, each in a task. */
static int run_list(lua_State *L, const char *operation, lua_Integer n,
                    mode m) {
  pco__check_place(L, operation);
  pco__check_cancelled(L, operation);
  pco__scope *scope = push_scope(L, operation);
  scope->any = m == FIRST;
  lua_createtable(L, (int)n, 0);
  open_scope(scope);
  lua_pushvalue(L, 1);
  lua_pushvalue(L, AT_TASKS);
  lua_pushlightuserdata(L, scope);
  bool all = pco__protected(L, spawn_each, 3, 0);
  return after_body(L, all ? LUA_OK : LUA_ERRRUN, m);
}

/* core.task_all(functions) */
static int task_all(lua_State *L) {
  return run_list(L, "task.all", check_list(L, "task.all", "all"), ALL);
}

/* core.task_first(functions) */
static int task_first(lua_State *L) {
  lua_Integer n = check_list(L, "task.first", "first");
  if (n == 0)
    return pco__bad_argument(L, "task.first",
                             "first needs at least one function: nobody could "
                             "answer");
  return run_list(L, "task.first", n, FIRST);
}

bool pco__opens_scope(lua_CFunction fn) {
  return fn == task_scope || fn == task_timeout || fn == task_shield ||
         fn == task_all || fn == task_first;
}

/* core.task_now() */
static int task_now(lua_State *L) {
  lua_pushnumber(L, (double)uv_hrtime() / 1e9);
  return 1;
}

/* ---- the object ---------------------------------------------------------- */

/* core.scope_spawn(self, fn, ...) */
static int scope_spawn(lua_State *L) {
  pco__scope *scope =
      (pco__scope *)pco__check_userdata(L, PCO__SCOPE, "scope.spawn");
  if (!lua_isfunction(L, 2))
    pco__bad_argument(L, "scope.spawn",
                      "the body of the task must be a function (got %s): give "
                      "the function itself, and its arguments after it",
                      luaL_typename(L, 2));
  if (!scope->owner)
    return pco__raise_new(L, PCO_ESCOPE, "scope.spawn",
                          "this scope has ended; a task cannot outlive it");
  pco__task_new(L, pco__lua_of(L), lua_gettop(L) - 2, scope);
  return 1;
}

/* core.scope_cancel(self, reason) */
static int scope_cancel(lua_State *L) {
  pco__scope *scope =
      (pco__scope *)pco__check_userdata(L, PCO__SCOPE, "scope.cancel");
  lua_settop(L, 2);
  lua_pushboolean(L, pco__scope_cancel(L, scope, PCO_ECANCELED));
  return 1;
}

/* core.scope_tostring(self) */
static int scope_tostring(lua_State *L) {
  pco__scope *scope = (pco__scope *)pco__userdata_at(L, 1, PCO__SCOPE);
  if (!scope) {
    lua_pushliteral(L, "portico.Scope");
    return 1;
  }
  int n = 0;
  for (pco__node *p = scope->children.next; p != &scope->children; p = p->next)
    n++;
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, scope) != LUA_TSTRING)
    lua_pushfstring(L, "%p", (void *)scope);
  lua_pushfstring(L, "portico.Scope(%s, %s, %d tasks)", lua_tostring(L, -1),
                  !scope->owner        ? "ended"
                  : scope->cancel.code ? "cancelled"
                                       : "open",
                  n);
  return 1;
}

void pco__init_scope_class(lua_State *L) {
  pco__push_metatable(L, PCO__SCOPE, false);
  lua_pushcfunction(L, scope_gc);
  lua_setfield(L, -2, "__gc");
  lua_pop(L, 1);
}

const pco__core_function pco__scope_functions[] = {
    {"task_scope", task_scope},         {"task_timeout", task_timeout},
    {"task_shield", task_shield},       {"task_all", task_all},
    {"task_first", task_first},         {"task_now", task_now},
    {"scope_spawn", scope_spawn},       {"scope_cancel", scope_cancel},
    {"scope_tostring", scope_tostring}, {NULL, NULL}};
