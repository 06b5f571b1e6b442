/* SPDX-License-Identifier: MIT */
/*
 * Scopes: groups of tasks that end before what opened them does.
 *
 * A scope is a userdata in the frame of the C function that opened it, always
 * at index AT_SCOPE; the functions here call the body under lua_pcallk, wait
 * for the children, and then say how it ended:
 *
 *   - the first real failure, of the body or of a child, cancels all others and
 *     is raised, with further ones in its field `others`;
 *   - else a body that was cancelled raises that, a TimeoutError if it was this
 *     scope's own deadline;
 *   - else the body's results count, unless children were cancelled by a
 *     deadline or from outside.
 *
 * `all`, `first`, `timeout` and `shield` are scopes as well.
 */
#include "lua_scope.h"

#include <math.h>
#include <string.h>

#include "lua_args.h"
#include "lua_cancel.h"
#include "lua_error.h"
#include "lua_table.h"

/* The frame of an open scope. */
enum {
  AT_FN = 1,
  AT_OPTIONS,
  AT_SCOPE = PCO__AT_SCOPE,
  AT_TASKS, /* all, first: the tasks; else the traceback handler */
  AT_RESULTS
};

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

static void unlink_scope(pco__scope *scope) {
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
static void forget(lua_State *L, const pco__scope *scope) {
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
  unlink_scope(scope);
  if (scope->joining && !owner->ended && owner != scope->lua->current)
    pco__task_ready(owner); /* to find that its coroutine is gone */
  forget(L, scope);
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

/* ---- how it ended -------------------------------------------------------- */

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
static int raise_timeout(lua_State *L, const char *operation, int cause) {
  pco__push_error(L,
                  pco__error_new(PCO_ECALLTIMEOUT, PCO_SOURCE_HOST, NULL, NULL),
                  operation);
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
static void conclude(lua_State *L, pco__scope *scope) {
  pco__task *owner = scope->owner;
  const char *operation = scope->operation;
  bool cancelled =
      scope->body_failed && pco__is_cancel_error(L, AT_RESULTS, owner);
  bool body_real = scope->body_failed && !cancelled;
  int own = scope->cancel.code;
  bool failed = body_real || !pco__list_empty(&scope->failed);
  unlink_scope(scope);
  const pco__cancel *outer = pco__cancelled(owner);
  bool timed_out =
      own == PCO_ECALLTIMEOUT && (!outer || outer->code == PCO_ECALLTIMEOUT);
  forget(L, scope);
  if (scope->held)
    raise_held(L);
  if (failed && !(scope->any && scope->winner))
    raise_failure(L, scope, body_real);
  if (cancelled && timed_out)
    raise_timeout(L, operation, AT_RESULTS);
  if (cancelled) {
    lua_pushvalue(L, AT_RESULTS);
    lua_error(L);
  }
  if (!scope->cut || (scope->any && scope->winner))
    return;
  if (timed_out)
    raise_timeout(L, operation, 0);
  if (!own || outer) {
    push_cut_error(L, owner, operation);
    lua_error(L);
  }
}

/* all: the first result of each, in a table. */
static int give_all(lua_State *L) {
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

static int give_first(lua_State *L, pco__scope *scope) {
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
  conclude(L, scope);
  if (m == ALL)
    return give_all(L);
  if (m == FIRST)
    return give_first(L, scope);
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
                      luaL_typename(L, -1));
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
  check_function(L, 2, "scope.spawn", "the body of the task");
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
