/* SPDX-License-Identifier: MIT */
/*
 * The scheduler: who is resumed when, and run().
 *
 * Tasks that are ready stand in one queue.  They are resumed in its order, for
 * a few milliseconds at most; then the loop is served, without waiting if some
 * are left.  A task that is woken while others run stands at the end.
 *
 * When no task is ready and nothing outside of Lua can make one so (no op, no
 * timer), all wait for each other: a deadlock.  The task of run() is cancelled
 * with a DeadlockError that tells who waits for what; if that does not help,
 * each wait ends with it, whatever shields it.
 */
#include <poll.h>

#include "embed.h"
#include "lua_args.h"
#include "lua_cancel.h"
#include "lua_coroutine.h"
#include "lua_dump.h"
#include "lua_error.h"
#include "lua_interrupt.h"
#include "lua_task.h"
#include "lua_wait.h"

#define NS_PER_S UINT64_C(1000000000)
#define TURN_NS  (NS_PER_S / 100)   /* of tasks, before the loop is served */
#define SERVE_NS (NS_PER_S / 10000) /* it is served as often as that */

/* ---- resuming ------------------------------------------------------------ */

typedef struct failure {
  int code;
  const char *operation;
  const char *text;
} failure;

static int new_failure(lua_State *L) {
  const failure *f = (const failure *)lua_touserdata(L, 1);
  pco__push_error(L,
                  pco__error_new(f->code, PCO_SOURCE_HOST, NULL, "%s", f->text),
                  f->operation);
  return 1;
}

static void fail(lua_State *L, pco__task *task, int code, const char *operation,
                 const char *text) {
  failure f = {.code = code, .operation = operation, .text = text};
  lua_pushlightuserdata(L, &f);
  /* If it fails, out of memory is the error. */
  pco__protected_aside(L, new_failure, 1, 1);
  pco__task_fail(L, task);
}

/* A yield that is none of ours: coroutine.yield of the stock library, at the
 * root of a task. */
static void stray_yield(lua_State *L, pco__task *task) {
  pco__abandon_scopes(task, NULL);
  lua_settop(task->co, 0);
  pco__close_coroutine(task->lua, task->co);
  fail(L, task, PCO_ECOROUTINE, "yield",
       "coroutine.yield was called in a task outside of any coroutine: there "
       "is nobody to yield to");
}

static int new_cancel_error(lua_State *L) {
  pco__task *task = (pco__task *)lua_touserdata(L, 1);
  pco__push_cancel_error(L, pco__cancelled(task), "spawn");
  return 1;
}

/* It was cancelled before it began: it never does. */
static void never_begin(lua_State *L, pco__task *task) {
  lua_pushlightuserdata(L, task);
  pco__protected_aside(L, new_cancel_error, 1, 1);
  pco__task_fail(L, task);
}

/* Somebody else resumed the task's coroutine, and it ended in his hands. */
static void broken(lua_State *L, pco__task *task) {
  fail(L, task, PCO_ECOROUTINE, "run",
       "this task was resumed by somebody else while it waited");
}

/* The task runs until its next wait. */
static int enter(lua_State *L, pco__task *task, int *n_results) {
  pco__lua *lua = task->lua;
  int n_args = task->n_args;
  pco__level level;
  pco__level *outer = lua->level;
  task->n_args = 0;
  task->started = true;
  task->op = NULL;
  task->wait = PCO__NO_WAIT;
  pco__task_set_outside(task, false);
  lua->current = task;
  lua->level = NULL;
  pco__level_enter(lua, &level, L, task->co);
  int status = lua_resume(task->co, L, n_args, n_results);
  pco__level_leave(lua, &level);
  lua->level = outer;
  lua->current = NULL;
  return status;
}

static void resume(lua_State *L, pco__task *task) {
  pco__lua *lua = task->lua;
  int n = 0;
  if (task->started && lua_status(task->co) != LUA_YIELD) {
    broken(L, task);
    return;
  }
  if (!task->started && pco__refusal(L, task)) {
    never_begin(L, task);
    return;
  }
  lua->suspending = false;
  int status = enter(L, task, &n);
  bool waits = lua->suspending;
  lua->suspending = false;
  if (status == LUA_YIELD && waits) {
    lua_pop(task->co, n);
  } else if (status == LUA_YIELD) {
    stray_yield(L, task);
  } else if (status == LUA_OK) {
    pco__task_ended(L, task, n);
  } else { /* only without memory: run_body catches everything else */
    pco__close_coroutine(lua, task->co);
    lua_xmove(task->co, L, 1);
    pco__task_fail(L, task);
  }
}

/* Tasks whose ops have something become ready. */
static void collect_done(pco__lua *lua) {
  if (!lua->runtime.loop_open)
    return;
  for (pco__node *n; (n = pco__list_shift(&lua->runtime.loop.done)) != NULL;) {
    pco__op *op = PCO_CONTAINER(n, pco__op, done_node);
    if (op->task && op->task->op == op)
      pco__task_ready(op->task);
  }
}

/* The next one to be resumed.  Those that became ready meanwhile have their
 * turn when all others had it, and at once only if the loop was served just
 * now. */
static pco__task *next_ready(pco__lua *lua, uint64_t so_far) {
  if (pco__list_empty(&lua->turn) && so_far < SERVE_NS)
    for (pco__node *n; (n = pco__list_shift(&lua->ready)) != NULL;)
      pco__list_append(&lua->turn, n);
  pco__node *n = so_far < TURN_NS ? pco__list_shift(&lua->turn) : NULL;
  if (!n)
    return NULL;
  pco__task *task = PCO_CONTAINER(n, pco__task, node);
  task->ready = false;
  return task;
}

/* One whose end could not be handled for lack of memory: it is tried again. */
static void end_broken(lua_State *L, pco__lua *lua) {
  pco__task *task = lua->resuming;
  if (!task)
    return;
  if (!task->ended && !task->ready && lua_status(task->co) != LUA_YIELD) {
    lua_pushliteral(L, "not enough memory");
    pco__task_fail(L, task);
  }
  lua->resuming = NULL;
}

/* Resumes those that are ready, for a while. */
static void run_ready(lua_State *L, pco__lua *lua) {
  uint64_t start = uv_hrtime();
  uint64_t now = start;
  for (pco__task *task; (task = next_ready(lua, now - start)) != NULL;) {
    lua->resumed_at = now;
    resume(L, task);
    now = uv_hrtime();
    pco__tell_slow(L, task, now - lua->resumed_at);
  }
}

void pco__run_slices(lua_State *L, pco__lua *lua, uint64_t until,
                     pco__slices *s) {
  end_broken(L, lua);
  uint64_t now = uv_hrtime();
  do {
    collect_done(lua);
    pco__task *task = next_ready(lua, 0);
    if (!task)
      break;
    lua->slice_start = lua->slice_count ? pco__thread_ns() : 0;
    lua->resuming = task;
    resume(L, task);
    lua->resuming = NULL;
    uint64_t end = uv_hrtime();
    s->n++;
    s->lua_ns += end - now;
    if (end - now > s->longest_ns)
      s->longest_ns = end - now;
    now = end;
  } while (now < until);
}

static bool is_any_ready(const pco__lua *lua) {
  return !pco__list_empty(&lua->ready) || !pco__list_empty(&lua->turn);
}

/* ---- driving ------------------------------------------------------------- */

/* Waits for the op, or else for any task to become ready, at most for a slice
 * of time.  In our own poll(), which a signal ends: libuv's would go on.  The
 * zero-timeout turn before it makes libuv register fresh watchers. */
static void wait_for_events(pco__lua *lua, const pco__op *op) {
  pco__loop *loop = &lua->runtime.loop;
  uv_run(&loop->uv, UV_RUN_NOWAIT);
  if (op ? op->completed : !pco__list_empty(&loop->done) || is_any_ready(lua))
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

/* The tasks of run() are cancelled, and with them all that are in scopes of
 * theirs.  The reason on top of L is popped. */
static void cancel_roots_for(lua_State *L, pco__lua *lua, int code) {
  for (pco__node *n = lua->tasks.next; n != &lua->tasks; n = n->next) {
    pco__task *task = PCO_CONTAINER(n, pco__task, all);
    if (task->scope)
      continue;
    lua_pushvalue(L, -1);
    pco__task_cancel_anyhow(L, task, code);
  }
  lua_pop(L, 1);
}

void pco__cancel_roots(lua_State *L, pco__lua *lua, int code) {
  lua_pushnil(L);
  cancel_roots_for(L, lua, code);
}

static int new_deadlock(lua_State *L) {
  pco__push_deadlock(L, (pco__lua *)lua_touserdata(L, 1));
  return 1;
}

/* Nothing can wake any task.  False: nor can this. */
static bool break_deadlock(lua_State *L, pco__lua *lua) {
  lua_pushlightuserdata(L, lua);
  pco__protected_aside(L, new_deadlock, 1, 1);
  cancel_roots_for(L, lua, PCO_EDEADLOCK);
  if (is_any_ready(lua) || lua->n_outside > 0)
    return true;
  for (pco__node *n = lua->tasks.next; n != &lua->tasks; n = n->next) {
    pco__task *task = PCO_CONTAINER(n, pco__task, all);
    pco__force(task, PCO_EDEADLOCK);
    if (lua_status(task->co) != LUA_YIELD) /* somebody has closed it */
      pco__task_ready(task);
  }
  return is_any_ready(lua);
}

/* True if all tasks wait for each other.  Ops that are over are looked for
 * once more by the caller. */
static bool is_deadlock(const pco__lua *lua) {
  return lua->n_tasks > 0 && lua->n_outside == 0 && !is_any_ready(lua) &&
         pco__list_empty(&lua->runtime.loop.done);
}

bool pco__any_ready(const pco__lua *lua) {
  return is_any_ready(lua) || lua->resuming ||
         !pco__list_empty(&lua->runtime.loop.done);
}

bool pco__is_deadlock(const pco__lua *lua) {
  return is_deadlock(lua);
}

/* Serves the loop, and waits if no task is ready.  Returns 0 or PCO_EDEADLOCK.
 */
static int serve_loop(lua_State *L, pco__lua *lua) {
  int rc = 0;
  if (is_deadlock(lua))
    rc = break_deadlock(L, lua) ? 0 : PCO_EDEADLOCK;
  else if (lua->n_tasks > 0 && !is_any_ready(lua))
    wait_for_events(lua, NULL);
  else
    uv_run(&lua->runtime.loop.uv, UV_RUN_NOWAIT);
  collect_done(lua);
  return rc;
}

/* Runs tasks until all have ended.  Returns 0, PCO_EINTERRUPTED (Ctrl-C: tasks
 * were cancelled and have ended, or did not in time, or it came again),
 * PCO_EFORKED in a child that a task forked (the loop is the parent's), or
 * PCO_EDEADLOCK if tasks are stuck for good. */
static int drive(lua_State *L, pco__lua *lua) {
  bool given_up = false;
  while (lua->n_tasks > 0 && !given_up) {
    pco__deliver_log(L, lua);
    pco__keep_looking(L);
    run_ready(L, lua);
    collect_done(lua);
    if (pco__runtime_forked(&lua->runtime))
      return PCO_EFORKED;
    int rc = serve_loop(L, lua);
    if (rc < 0)
      return rc;
    /* Whenever it came: while a task computes, it may not have been seen. */
    given_up = !pco__take_interrupt(L, lua);
  }
  return lua->n_interrupts > 0 ? PCO_EINTERRUPTED : 0;
}

/* ---- run ----------------------------------------------------------------- */

/* Gives the ended task's results to L; raises its error. */
static int give_results(lua_State *L, pco__task *task) {
  int n = task->n_args - 1;
  if (!lua_checkstack(L, n + 3)) {
    pco__task_free(L, task);
    return luaL_error(L, "too many results");
  }
  lua_xmove(task->co, L, n);
  pco__task_free(L, task);
  return task->failed ? lua_error(L) : n;
}

static int after_nested(lua_State *L, int status, lua_KContext context) {
  (void)status;
  (void)context;
  return lua_gettop(L);
}

static int raise_unfinished(lua_State *L, int rc) {
  const char *text = "interrupted; a task did not end in time";
  if (rc == PCO_EFORKED)
    text = "this program was forked; its tasks belong to the parent process";
  if (rc == PCO_EDEADLOCK)
    text = "tasks wait for each other, and no error can end their waits";
  return pco__raise(L, pco__error_new(rc, PCO_SOURCE_HOST, NULL, "%s", text),
                    "run", 0);
}

typedef struct driven {
  pco__lua *lua;
  int rc;
} driven;

static int drive_protected(lua_State *L) {
  driven *d = (driven *)lua_touserdata(L, 1);
  d->rc = drive(L, d->lua);
  return 0;
}

/* drive(), and no error gets past it: what the scheduler does itself needs no
 * memory, but what it tells a logger may.  Then all tasks are cancelled, and
 * that error, which is left on L, is what run() raises. */
static bool drive_to_the_end(lua_State *L, pco__lua *lua, int *rc) {
  driven d = {.lua = lua};
  pco__begin_interrupts(L, lua);
  lua->driving = true;
  lua_pushlightuserdata(L, &d);
  bool good = pco__protected(L, drive_protected, 1, 0);
  if (!good) {
    pco__cancel_roots(L, lua, PCO_ECANCELED);
    lua_pushlightuserdata(L, &d);
    if (!pco__protected(L, drive_protected, 1, 0))
      lua_pop(L, 1); /* the first error counts */
  }
  lua->driving = false;
  *rc = d.rc;
  return good;
}

/* Makes a task of the function below n_args arguments, and drives it. */
static int run_root(lua_State *L, pco__lua *lua, int n_args) {
  pco__loop *loop;
  int rc = pco__runtime_loop(&lua->runtime, &loop);
  if (rc < 0)
    pco__raise(L, pco__error_new(rc, PCO_SOURCE_HOST, NULL, NULL), "run", 0);
  pco__task *root = pco__task_new(L, lua, n_args, NULL); /* stays on L */
  bool good = drive_to_the_end(L, lua, &rc);
  if (!root->ended)
    root->orphan = true;
  else if (!good)
    pco__task_free(L, root);
  if (!good)
    return lua_error(L);
  if (!root->ended)
    return raise_unfinished(L, rc);
  if (rc == PCO_EINTERRUPTED && !root->failed) { /* it ended all the same */
    pco__task_free(L, root);
    pco__raise(L, pco__error_new(rc, PCO_SOURCE_HOST, NULL, NULL), "run", 0);
  }
  return give_results(L, root);
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
  if (lua->embedder)
    pco__raise_new(L, PCO_ENOTASK, "run",
                   "the program that runs this script drives its tasks itself: "
                   "run only calls, inside of a task");
  if (lua->driving)
    pco__raise_new(L, PCO_ENOTASK, "run",
                   "run was called from inside run, but not from a task");
  return run_root(L, lua, n_args);
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

const pco__core_function pco__run_functions[] = {{"run", run_either},
                                                 {NULL, NULL}};
