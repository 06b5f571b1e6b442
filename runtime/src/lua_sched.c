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
#include <errno.h>
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

#define NS_PER_S  UINT64_C(1000000000)
#define TURN_NS   (NS_PER_S / 100)   /* of tasks, before the loop is served */
#define SERVE_NS  (NS_PER_S / 10000) /* it is served as often as that */
#define MAX_QUICK 100 /* waits that are over at once, before others run */

/* ---- waiting ------------------------------------------------------------- */

void pco__check_place(lua_State *L, const char *operation) {
  const pco__lua *lua = pco__lua_of(L);
  const pco__level *level = lua->level;
  if (!lua->current)
    pco__raise_new(L, PCO_ENOTASK, operation,
                   "this call waits, so it must be made inside a task: put it "
                   "in portico.run(function() ... end), or use "
                   "require \"portico.sync\"");
  if (!lua_isyieldable(L) || level->state == PCO__LEVEL_NO_YIELD)
    pco__raise_new(L, PCO_ENOYIELD, operation,
                   "this call waits, and cannot here: it is made from inside a "
                   "C function that cannot be suspended (table.sort, "
                   "string.gsub, require, a metamethod such as __tostring, "
                   "coroutine.close)");
  if (level->co != L || level->state != PCO__LEVEL_OK)
    pco__raise_new(L, PCO_ECOROUTINE, operation,
                   "this call waits, and a coroutine of the stock library "
                   "cannot be suspended for it: use the functions of require "
                   "\"portico.coroutine\", or its install()");
}

bool pco__may_wait(lua_State *L) {
  const pco__lua *lua = pco__lua_of(L);
  return lua->current && lua->level->co == L &&
         lua->level->state == PCO__LEVEL_OK && lua_isyieldable(L);
}

bool pco__is_resumed(lua_State *L) {
  const pco__lua *lua = pco__lua_of(L);
  return lua->current && lua->level->co == L && lua->current->waiter == L;
}

void pco__task_ready(pco__task *task) {
  if (task->ready)
    return;
  pco__list_remove(&task->node);
  pco__list_append(&task->lua->ready, &task->node);
  task->ready = true;
}

void pco__task_set_value(lua_State *L, pco__task *task) {
  bool is_nil = lua_isnil(L, -1);
  if (is_nil && !task->has_value) {
    lua_pop(L, 1);
    return;
  }
  lua_rawsetp(L, LUA_REGISTRYINDEX, &task->target);
  task->has_value = !is_nil;
}

void pco__task_grant(pco__task *task) {
  task->granted = true;
  pco__task_ready(task);
}

static void set_outside(pco__task *task, bool outside) {
  task->lua->n_outside += (int)outside - (int)task->outside;
  task->outside = outside;
}

/* Gives way to the scheduler. */
static int give_way(lua_State *L, pco__task *task, pco__wait wait,
                    lua_KContext context, lua_KFunction k) {
  pco__mark_wait(L);
  task->wait = (unsigned char)wait;
  task->waiter = L;
  task->since = (uint32_t)uv_now(&task->lua->runtime.loop.uv);
  task->n_refused = 0;
  task->n_quick = 0;
  task->lua->suspending = true;
  return lua_yieldk(L, 0, context, k);
}

static void on_limit(pco__timer *timer) {
  pco__task *task = PCO_CONTAINER(timer, pco__task, timer);
  task->timed_out = true;
  pco__task_ready(task);
}

int pco__park(lua_State *L, pco__wait wait, pco__node *queue,
              const void *target, lua_KContext context, lua_KFunction k) {
  pco__task *task = pco__lua_of(L)->current;
  luaL_checkstack(L, 2, "out of stack");
  task->granted = false;
  task->timed_out = false;
  task->target = target;
  if (queue)
    pco__list_append(queue, &task->node);
  return give_way(L, task, wait, context, k);
}

int pco__park_granted(lua_State *L, pco__wait wait, const void *target,
                      lua_KContext context, lua_KFunction k) {
  pco__task *task = pco__lua_of(L)->current;
  luaL_checkstack(L, 2, "out of stack");
  pco__task_ready(task);
  task->granted = true;
  task->target = target;
  return give_way(L, task, wait, context, k);
}

int pco__park_for(lua_State *L, const char *operation, int64_t ns,
                  pco__wait wait, pco__node *queue, const void *target,
                  lua_KContext context, lua_KFunction k) {
  pco__task *task = pco__lua_of(L)->current;
  if (ns >= 0) {
    task->timer.fn = on_limit;
    if (pco__timer_start(&task->lua->runtime.loop, &task->timer, (uint64_t)ns) <
        0)
      return pco__raise(L, pco__error_no_memory(), operation, 0);
    set_outside(task, true);
  }
  return pco__park(L, wait, queue, target, context, k);
}

/* The task whose wait in L somebody else has ended. */
static pco__task *owner_of(pco__lua *lua, const lua_State *L) {
  for (pco__node *n = lua->tasks.next; n != &lua->tasks; n = n->next) {
    pco__task *task = PCO_CONTAINER(n, pco__task, all);
    if (task->waiter == L || task->co == L)
      return task;
  }
  return NULL;
}

int pco__raise_foreign(lua_State *L, const char *operation) {
  pco__task *task = owner_of(pco__lua_of(L), L);
  if (task && task != task->lua->current)
    pco__task_ready(task);
  return pco__raise_new(L, PCO_ECOROUTINE, operation,
                        "this task was resumed by somebody else while it "
                        "waited");
}

/* A deadlock is told by the cancellation of the task of run(), whatever shields
 * this one from it. */
static void raise_forced(lua_State *L, pco__task *task, const char *operation) {
  int code = task->forced;
  const pco__task *root = task;
  task->forced = 0;
  while (root->scope && root->scope->owner)
    root = root->scope->owner;
  if (root->cancel.code == code) {
    pco__push_cancel_error(L, &root->cancel, operation);
    lua_error(L);
  }
  pco__raise(L, pco__error_new(code, PCO_SOURCE_HOST, NULL, NULL), operation,
             0);
}

void pco__unpark(lua_State *L, const char *operation) {
  if (!pco__is_resumed(L))
    pco__raise_foreign(L, operation);
  pco__task *task = pco__lua_of(L)->current;
  pco__timer_stop(&task->lua->runtime.loop, &task->timer);
  task->target = NULL;
  if (task->granted)
    return;
  lua_pushnil(L); /* what it wanted to send is not sent */
  pco__task_set_value(L, task);
  task->lenient = false;
  if (task->forced)
    raise_forced(L, task, operation);
  pco__check_cancelled(L, operation);
  int code = task->timed_out ? PCO_ECALLTIMEOUT : PCO_ECANCELED;
  pco__raise(L, pco__error_new(code, PCO_SOURCE_HOST, NULL, NULL), operation,
             0);
}

bool pco__task_should_yield(pco__task *task) {
  return ++task->n_quick > MAX_QUICK;
}

int pco__park_outside(lua_State *L, pco__wait wait, const void *target,
                      lua_KContext context, lua_KFunction k) {
  set_outside(pco__lua_of(L)->current, true);
  return pco__park(L, wait, NULL, target, context, k);
}

int pco__task_suspend(lua_State *L, pco__op *op, int box, lua_KFunction k) {
  pco__task *task = pco__lua_of(L)->current;
  luaL_checkstack(L, 2, "out of stack");
  task->op = op;
  set_outside(task, true);
  /* An event may have come before the op knew its task. */
  if (op->word != PCO__OP_PENDING)
    pco__task_ready(task);
  if (op->word == PCO__OP_EVENT)
    op->word = PCO__OP_PENDING;
  return give_way(L, task, PCO__WAITS_OP, box, k);
}

void pco__task_lost(pco__task *task, const pco__op *op) {
  if (task->op != op)
    return;
  task->op = NULL;
  pco__task_ready(task);
}

/* ---- sleep and checkpoint ------------------------------------------------ */

static void on_slept(pco__timer *timer) {
  pco__task_grant(PCO_CONTAINER(timer, pco__task, timer));
}

static int after_sleep(lua_State *L, int status, lua_KContext context) {
  (void)status;
  (void)context;
  pco__unpark(L, "sleep");
  return 0;
}

static int task_sleep(lua_State *L, uint64_t ns) {
  pco__lua *lua = pco__lua_of(L);
  pco__check_place(L, "sleep");
  pco__check_cancelled(L, "sleep");
  pco__deliver_log(L, lua);
  pco__task *task = lua->current;
  task->timer.fn = on_slept;
  if (pco__timer_start(&lua->runtime.loop, &task->timer, ns) < 0)
    return pco__raise(L, pco__error_no_memory(), "sleep", 0);
  set_outside(task, true);
  return pco__park(L, PCO__WAITS_SLEEP, NULL, NULL, 0, after_sleep);
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

static int after_turn(lua_State *L, int status, lua_KContext context) {
  (void)status;
  (void)context;
  if (!pco__is_resumed(L))
    return pco__raise_foreign(L, "task.checkpoint");
  pco__check_cancelled(L, "task.checkpoint");
  return 0;
}

/* core.task_checkpoint() */
static int task_checkpoint(lua_State *L) {
  pco__check_place(L, "task.checkpoint");
  pco__check_cancelled(L, "task.checkpoint");
  pco__task_ready(pco__lua_of(L)->current);
  return pco__park(L, PCO__WAITS_TURN, NULL, NULL, 0, after_turn);
}

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
  pco__protected(L, new_failure, 1, 1); /* else out of memory is the error */
  pco__task_fail(L, task);
}

/* A yield that is none of ours: coroutine.yield of the stock library, at the
 * root of a task. */
static void stray_yield(lua_State *L, pco__task *task) {
  pco__abandon_scopes(task, NULL);
  lua_settop(task->co, 0);
  lua_resetthread(task->co);
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
  pco__protected(L, new_cancel_error, 1, 1);
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
  set_outside(task, false);
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
  if (!task->started && pco__cancelled(task)) {
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
    lua_resetthread(task->co);
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
    lua->slice_start = lua->slice_hook ? pco__thread_ns() : 0;
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
  pco__protected(L, new_deadlock, 1, 1);
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

const pco__core_function pco__run_functions[] = {
    {"run", run_either}, {"sleep", core_sleep}, {NULL, NULL}};
const pco__core_function pco__turn_functions[] = {
    {"task_checkpoint", task_checkpoint}, {NULL, NULL}};
