/* SPDX-License-Identifier: MIT */
/*
 * Tasks and the loop that drives them; see lua_task.h.
 *
 * A task's body runs under lua_pcallk with a traceback handler, so that an
 * error never reaches lua_resume: `<close>` variables are closed where they may
 * still wait, and the stack is seen alive.
 */
#include "lua_task.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#include "lua_args.h"
#include "lua_error.h"
#include "lua_wait.h"

#define GRACE_NS (10 * UINT64_C(1000000000)) /* of the tasks, after Ctrl-C */

/* ---- life ---------------------------------------------------------------- */

static pco__task *task_of(pco__node *n) {
  return PCO_CONTAINER(n, pco__task, node);
}

static void make_ready(pco__task *task) {
  if (pco__list_empty(&task->node))
    pco__list_append(&task->lua->ready, &task->node);
}

/* Somebody else resumed L, which is a task's coroutine: the scheduler has to
 * find it ended. */
static void wake_owner(pco__lua *lua, lua_State *L) {
  for (pco__node *n = lua->tasks.next; n != &lua->tasks; n = n->next) {
    pco__task *task = PCO_CONTAINER(n, pco__task, all);
    if (task->co == L)
      make_ready(task);
  }
}

static int after_body(lua_State *L, int status, lua_KContext context) {
  (void)context;
  /* 1: the traceback handler, then results or the error. */
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

pco__task *pco__task_new(lua_State *L, pco__lua *lua, int n_args,
                         pco__task *parent) {
  int fn = lua_gettop(L) - n_args;
  luaL_checkstack(L, 4, "out of stack");
  pco__task *task = lua_newuserdatauv(L, sizeof *task, 1);
  memset(task, 0, sizeof *task);
  pco__list_init(&task->node);
  pco__list_init(&task->all);
  task->lua = lua;
  task->parent = parent;
  task->n_args = n_args + 1;
  task->co = lua_newthread(L);
  lua_setiuservalue(L, -2, 1);
  /* Not luaL_checkstack: an error of that thread would have no handler. */
  if (!lua_checkstack(task->co, n_args + 4))
    luaL_error(L, "too many arguments");
  lua_rawsetp(L, LUA_REGISTRYINDEX, task);
  lua_pushcfunction(task->co, run_body);
  lua_xmove(L, task->co, lua_gettop(L) - fn + 1);
  lua->n_tasks++;
  pco__list_append(&lua->tasks, &task->all);
  if (parent)
    parent->children++;
  make_ready(task);
  return task;
}

void pco__task_free(lua_State *L, pco__task *task) {
  lua_pushnil(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, task);
}

void pco__task_cancel(pco__task *task, int code) {
  if (task->ended || task->cancel_code)
    return;
  task->cancel_code = code;
  if (task->op && !task->op->cls->shielded)
    pco__op_cancel(task->op, code);
  if (task->joining || task->sleeping)
    make_ready(task);
}

/* ---- the scheduler ------------------------------------------------------- */

static void stop_sleep(pco__task *task) {
  if (!task->sleeping)
    return;
  task->sleeping = false;
  pco__timer_stop(&task->lua->runtime.loop, &task->timer);
}

/* A task ended before its children (its coroutine was resumed by somebody
 * else): they are cancelled, and nobody takes their results. */
static void orphan_children(pco__task *task) {
  for (pco__node *n = task->lua->tasks.next; n != &task->lua->tasks;
       n = n->next) {
    pco__task *child = PCO_CONTAINER(n, pco__task, all);
    if (child->parent != task)
      continue;
    child->parent = NULL;
    child->orphan = true;
    pco__task_cancel(child, PCO_ECANCELED);
  }
  task->children = 0;
}

static void task_ended(pco__task *task, int n_results) {
  stop_sleep(task);
  task->ended = true;
  task->n_args = n_results;
  task->failed = !lua_toboolean(task->co, -n_results);
  task->lua->n_tasks--;
  pco__list_remove(&task->all);
  if (task->children > 0)
    orphan_children(task);
  pco__task *parent = task->parent;
  if (parent)
    parent->children--;
  if (parent && parent->joining && (parent->children == 0 || task->failed))
    make_ready(parent);
}

/* Ends a task whose coroutine cannot go on, with an error of ours. */
static void fail_task(lua_State *L, pco__task *task, int code,
                      const char *operation, const char *text) {
  lua_settop(task->co, 0);
  lua_pushboolean(task->co, 0);
  pco__push_error(L, pco__error_new(code, PCO_SOURCE_HOST, NULL, "%s", text),
                  operation);
  lua_xmove(L, task->co, 1);
  task_ended(task, 2);
}

/* A yield that is none of ours: coroutine.yield at the root of a task.  There
 * is nobody to yield to; the task ends with an error. */
static void stray_yield(lua_State *L, pco__task *task) {
  lua_settop(task->co, 0);
  lua_resetthread(task->co);
  fail_task(L, task, PCO_ECOROUTINE, "yield",
            "coroutine.yield was called in a task outside of any coroutine: "
            "there is nobody to yield to");
}

/* Somebody else resumed the task's coroutine, and it ended in his hands. */
static void broken_task(lua_State *L, pco__task *task) {
  fail_task(L, task, PCO_ECOROUTINE, "run",
            "this task was resumed by somebody else while it waited");
}

/* It was cancelled before it began: it never does. */
static void cancelled_task(lua_State *L, pco__task *task) {
  fail_task(L, task, task->cancel_code, "run",
            "the task was cancelled before it began");
}

void pco__task_lost(pco__task *task, const pco__op *op) {
  if (task->op != op)
    return;
  task->op = NULL;
  make_ready(task);
}

static void resume_task(lua_State *L, pco__task *task) {
  pco__lua *lua = task->lua;
  int n_args = task->n_args;
  int n_results = 0;
  if (task->started && lua_status(task->co) != LUA_YIELD) {
    broken_task(L, task);
    return;
  }
  if (!task->started && task->cancel_code) {
    cancelled_task(L, task);
    return;
  }
  task->n_args = 0;
  task->started = true;
  task->op = NULL;
  lua->current = task;
  int status = lua_resume(task->co, L, n_args, &n_results);
  lua->current = NULL;
  bool waits = task->op || task->joining || task->sleeping;
  if (status == LUA_YIELD && waits) {
    lua_pop(task->co, n_results);
  } else if (status == LUA_YIELD) {
    stray_yield(L, task);
  } else if (status == LUA_OK) {
    task_ended(task, n_results);
  } else { /* only without memory: run_body catches everything else */
    lua_pushboolean(task->co, 0);
    lua_insert(task->co, -2);
    task_ended(task, 2);
  }
}

static void resume(lua_State *L, pco__task *task) {
  resume_task(L, task);
  if (task->ended && task->orphan)
    pco__task_free(L, task);
}

/* Tasks whose ops have something become ready. */
static void collect_done(pco__lua *lua) {
  if (!lua->runtime.loop_open)
    return;
  for (pco__node *n; (n = pco__list_shift(&lua->runtime.loop.done)) != NULL;) {
    pco__op *op = PCO_CONTAINER(n, pco__op, done_node);
    if (op->task && op->task->op == op)
      make_ready(op->task);
  }
}

/* Resumes those that are ready now; who becomes ready meanwhile waits for the
 * next turn, so that the loop is served in between. */
static void run_ready(lua_State *L, pco__lua *lua) {
  pco__node now;
  pco__list_init(&now);
  for (pco__node *n; (n = pco__list_shift(&lua->ready)) != NULL;)
    pco__list_append(&now, n);
  for (pco__node *n; (n = pco__list_shift(&now)) != NULL;)
    resume(L, task_of(n));
}

int pco__task_suspend(lua_State *L, pco__task *task, pco__op *op, int box,
                      lua_KFunction k) {
  task->op = op;
  /* An event may have come before the op knew its task. */
  if (op->word != PCO__OP_PENDING)
    make_ready(task);
  if (op->word == PCO__OP_EVENT)
    op->word = PCO__OP_PENDING;
  return lua_yieldk(L, 0, box, k);
}

/* ---- driving ------------------------------------------------------------- */

/* Waits for the op, or else for any task to become ready, at most for a slice
 * of time.  In our own poll(), which a signal ends: libuv's would go on.  The
 * zero-timeout turn before it makes libuv register fresh watchers. */
static void wait_for_events(pco__lua *lua, const pco__op *op) {
  pco__loop *loop = &lua->runtime.loop;
  uv_run(&loop->uv, UV_RUN_NOWAIT);
  if (op ? op->completed
         : !pco__list_empty(&loop->done) || !pco__list_empty(&lua->ready))
    return;
  struct pollfd p = {.fd = uv_backend_fd(&loop->uv), .events = POLLIN};
  int timeout = uv_backend_timeout(&loop->uv);
  /* In slices: a signal just before the poll does not end it. */
  if (timeout < 0 || timeout > PCO__INTERRUPT_SLICE_NS / 1000000)
    timeout = PCO__INTERRUPT_SLICE_NS / 1000000;
  if (poll(&p, 1, timeout) >= 0)
    uv_run(&loop->uv, UV_RUN_NOWAIT);
}

void pco__drive_until_done(pco__lua *lua, pco__op *op, lua_Hook hook) {
  while (!op->completed) {
    wait_for_events(lua, op);
    if (!pco__interrupted(lua, hook))
      continue;
    pco__clear_interrupt(lua);
    hook = NULL;
    pco__op_cancel(op, PCO_EINTERRUPTED);
  }
  pco__list_remove(&op->done_node);
}

static void cancel_all(pco__lua *lua, int code) {
  for (pco__node *n = lua->tasks.next; n != &lua->tasks; n = n->next)
    pco__task_cancel(PCO_CONTAINER(n, pco__task, all), code);
}

/* Runs tasks until all have ended.  Returns 0, PCO_EINTERRUPTED (Ctrl-C: tasks
 * were cancelled and have ended, or did not in time, or it came again), or
 * PCO_EFORKED in a child that a task forked: the loop is the parent's. */
static int drive(lua_State *L, pco__lua *lua) {
  lua_Hook hook = pco__main_hook(lua, L);
  uint64_t give_up_at = 0;
  while (lua->n_tasks > 0) {
    pco__deliver_log(L, lua);
    run_ready(L, lua);
    collect_done(lua);
    if (pco__runtime_forked(&lua->runtime))
      return PCO_EFORKED;
    if (lua->n_tasks > 0 && pco__list_empty(&lua->ready))
      wait_for_events(lua, NULL);
    else
      uv_run(&lua->runtime.loop.uv, UV_RUN_NOWAIT);
    collect_done(lua);
    /* Whenever it came: while a task computes, nothing else hears of it. */
    bool interrupted = pco__interrupted(lua, hook);
    if (give_up_at && (interrupted || uv_hrtime() > give_up_at))
      break;
    if (interrupted && lua->n_tasks > 0) {
      pco__clear_interrupt(lua);
      hook = NULL;
      give_up_at = uv_hrtime() + GRACE_NS;
      cancel_all(lua, PCO_EINTERRUPTED);
    }
  }
  if (!give_up_at)
    return 0;
  if (lua->n_tasks > 0)
    pco__clear_interrupt(lua);
  return PCO_EINTERRUPTED;
}

/* Moves an ended task's results to L; raises its error. */
static int give_results(lua_State *L, pco__task *task) {
  int n = task->n_args;
  luaL_checkstack(L, n + 2, "too many results");
  lua_xmove(task->co, L, n);
  pco__task_free(L, task);
  if (!lua_toboolean(L, -n))
    return lua_error(L);
  return n - 1;
}

static int after_nested(lua_State *L, int status, lua_KContext context) {
  (void)status;
  (void)context;
  return lua_gettop(L);
}

/* core.run(fn, ...) of the async facade. */
static int task_run(lua_State *L) {
  pco__lua *lua = pco__lua_of(L);
  if (!lua_isfunction(L, 1))
    pco__bad_argument(L, "run", "run needs a function (got %s)",
                      luaL_typename(L, 1));
  pco__check_caller(L, "run", true);
  int n_args = lua_gettop(L) - 1;
  if (lua->current) {
    lua_callk(L, n_args, LUA_MULTRET, 0, after_nested);
    return lua_gettop(L);
  }
  if (lua->driving)
    pco__raise_new(L, PCO_ENOTASK, "run",
                   "run was called from inside run, but not from a task");
  pco__loop *loop;
  int rc = pco__runtime_loop(&lua->runtime, &loop);
  if (rc < 0)
    pco__raise(L, pco__error_new(rc, PCO_SOURCE_HOST, NULL, NULL), "run", 0);
  pco__task *root = pco__task_new(L, lua, n_args, NULL);
  lua->driving = true;
  rc = drive(L, lua);
  lua->driving = false;
  if (!root->ended)
    pco__raise(L,
               pco__error_new(rc, PCO_SOURCE_HOST, NULL,
                              rc == PCO_EFORKED
                                  ? "this program was forked; its tasks belong "
                                    "to the parent process"
                                  : "interrupted; a task did not end in time"),
               "run", 0);
  if (rc == PCO_EINTERRUPTED && !root->failed) { /* it ended all the same */
    pco__task_free(L, root);
    pco__raise(L, pco__error_new(rc, PCO_SOURCE_HOST, NULL, NULL), "run", 0);
  }
  return give_results(L, root);
}

/* core.run(fn, ...) of the sync facade: calls fn. */
static int sync_run(lua_State *L) {
  if (!lua_isfunction(L, 1))
    pco__bad_argument(L, "run", "run needs a function (got %s)",
                      luaL_typename(L, 1));
  pco__check_caller(L, "run", false);
  lua_callk(L, lua_gettop(L) - 1, LUA_MULTRET, 0, after_nested);
  return lua_gettop(L);
}

static int run_either(lua_State *L) {
  return pco__is_sync(L) ? sync_run(L) : task_run(L);
}

/* ---- all ----------------------------------------------------------------- */

/* The tasks of an `all` are light userdata in the table at index 2. */
static pco__task *child_at(lua_State *L, lua_Integer i) {
  lua_rawgeti(L, 2, i);
  pco__task *task = (pco__task *)lua_touserdata(L, -1);
  lua_pop(L, 1);
  return task;
}

static void cancel_children(lua_State *L, lua_Integer n, int code) {
  for (lua_Integer i = 1; i <= n; i++)
    pco__task_cancel(child_at(L, i), code);
}

/* The first child that failed by itself, or 0. */
static lua_Integer first_failed(lua_State *L, lua_Integer n) {
  lua_Integer cancelled = 0;
  for (lua_Integer i = 1; i <= n; i++) {
    pco__task *task = child_at(L, i);
    if (!task->ended || !task->failed)
      continue;
    if (!task->cancel_code)
      return i;
    cancelled = cancelled ? cancelled : i;
  }
  return cancelled;
}

static int join_all(lua_State *L, int status, lua_KContext context) {
  (void)status;
  (void)context;
  pco__lua *lua = pco__lua_of(L);
  pco__task *self = lua->current;
  if (!self || self->co != L) {
    wake_owner(lua, L);
    return pco__raise_new(L, PCO_ECOROUTINE, "task.all",
                          "this task was resumed by somebody else while it "
                          "waited for others");
  }
  lua_Integer n = (lua_Integer)lua_rawlen(L, 2);
  lua_Integer bad = first_failed(L, n);
  if (self->cancel_code)
    cancel_children(L, n, self->cancel_code);
  else if (bad)
    cancel_children(L, n, PCO_ECANCELED);
  if (self->children > 0) {
    self->joining = true;
    return lua_yieldk(L, 0, 0, join_all);
  }
  self->joining = false;
  lua_createtable(L, (int)n, 0);
  for (lua_Integer i = 1; i <= n; i++) {
    pco__task *task = child_at(L, i);
    if (!task->failed && task->n_args > 1) {
      lua_pushvalue(task->co, 1 - task->n_args);
      lua_xmove(task->co, L, 1);
      lua_rawseti(L, -2, i);
    }
  }
  bad = first_failed(L, n);
  if (bad)
    lua_xmove(child_at(L, bad)->co, L, 1);
  for (lua_Integer i = 1; i <= n; i++)
    pco__task_free(L, child_at(L, i));
  return bad ? lua_error(L) : 1;
}

/* core.task_all(functions) */
static int task_all(lua_State *L) {
  static const pco__op_class all_class = {.name = "task.all"};
  pco__lua *lua = pco__lua_of(L);
  if (!lua_istable(L, 1))
    pco__bad_argument(L, "task.all",
                      "all needs a sequence of functions (got %s)",
                      luaL_typename(L, 1));
  lua_settop(L, 1);
  lua_Integer n = pco__arg_sequence(L, 1, "task.all", "the list of functions");
  for (lua_Integer i = 1; i <= n; i++) {
    if (lua_rawgeti(L, 1, i) != LUA_TFUNCTION)
      pco__bad_argument(L, "task.all", "element %d must be a function (got %s)",
                        (int)i, luaL_typename(L, -1));
    lua_pop(L, 1);
  }
  pco__check_wait(L, &all_class);
  lua_createtable(L, (int)n, 0);
  for (lua_Integer i = 1; i <= n; i++) {
    lua_rawgeti(L, 1, i);
    lua_pushlightuserdata(L, pco__task_new(L, lua, 0, lua->current));
    lua_rawseti(L, 2, i);
  }
  return join_all(L, LUA_OK, 0);
}

/* ---- sleep --------------------------------------------------------------- */

static const pco__op_class sleep_class = {.name = "sleep"};

static void on_slept(pco__timer *timer) {
  make_ready(PCO_CONTAINER(timer, pco__task, timer));
}

static int after_sleep(lua_State *L, int status, lua_KContext context) {
  (void)status;
  (void)context;
  pco__task *task = pco__lua_of(L)->current;
  if (!task || task->co != L) {
    wake_owner(pco__lua_of(L), L);
    return pco__raise_new(L, PCO_ECOROUTINE, "sleep",
                          "this task was resumed by somebody else while it "
                          "slept");
  }
  bool over = !task->timer.index;
  stop_sleep(task);
  if (!over) /* woken early: it was cancelled */
    pco__check_wait(L, &sleep_class);
  return 0;
}

static int task_sleep(lua_State *L, uint64_t ns) {
  pco__lua *lua = pco__lua_of(L);
  pco__check_wait(L, &sleep_class);
  pco__deliver_log(L, lua);
  pco__task *task = lua->current;
  task->timer.fn = on_slept;
  if (pco__timer_start(&lua->runtime.loop, &task->timer, ns) < 0)
    return pco__raise(L, pco__error_no_memory(), "sleep", 0);
  task->sleeping = true;
  return lua_yieldk(L, 0, 0, after_sleep);
}

/* Sleeps on this thread until the time is over or Ctrl-C came. */
static int sync_sleep(lua_State *L, int64_t ns) {
  pco__lua *lua = pco__lua_of(L);
  lua_Hook hook = pco__main_hook(lua, L);
  uint64_t end = uv_hrtime() + (uint64_t)ns;
  pco__deliver_log(L, lua);
  for (uint64_t now; (now = uv_hrtime()) < end;) {
    /* In slices: a signal just before the wait does not end it. */
    uint64_t slice = end - now;
    if (slice > PCO__INTERRUPT_SLICE_NS)
      slice = PCO__INTERRUPT_SLICE_NS;
    struct timespec ts = {.tv_nsec = (long)slice};
    ppoll(NULL, 0, &ts, NULL);
    if (pco__interrupted(lua, hook)) {
      pco__clear_interrupt(lua);
      pco__raise(L,
                 pco__error_new(PCO_EINTERRUPTED, PCO_SOURCE_HOST, NULL, NULL),
                 "sleep", 0);
    }
  }
  return 0;
}

/* core.sleep(seconds) */
static int core_sleep(lua_State *L) {
  int64_t ns = pco__arg_seconds(L, 1, "sleep", "the time to sleep");
  pco__check_caller(L, "sleep", false);
  if (ns > INT64_MAX / 2)
    ns = INT64_MAX / 2;
  if (pco__is_sync(L))
    return sync_sleep(L, ns);
  return task_sleep(L, (uint64_t)ns);
}

const pco__core_function pco__task_functions[] = {{"task_all", task_all},
                                                  {NULL, NULL}};
const pco__core_function pco__run_functions[] = {
    {"run", run_either}, {"sleep", core_sleep}, {NULL, NULL}};
