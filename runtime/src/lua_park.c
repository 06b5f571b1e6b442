/* SPDX-License-Identifier: MIT */
/*
 * How a task waits: it stands in the queue of what it waits for, or has an op
 * or a timer, and gives way to the scheduler by a yield without values; whoever
 * wakes it puts it among those that are ready.  Its continuation finds out why
 * it goes on.  Also the two waits that wait for nothing but time: sleep and
 * checkpoint.
 */
#include <poll.h>

#include "lua_args.h"
#include "lua_cancel.h"
#include "lua_coroutine.h"
#include "lua_error.h"
#include "lua_interrupt.h"
#include "lua_task.h"
#include "lua_wait.h"

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

void pco__task_set_outside(pco__task *task, bool outside) {
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
    task->limit = (float)((double)ns / 1e9);
    task->timer.fn = on_limit;
    if (pco__timer_start(&task->lua->runtime.loop, &task->timer, (uint64_t)ns) <
        0)
      return pco__raise(L, pco__error_no_memory(), operation, 0);
    pco__task_set_outside(task, true);
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

/* Why the wait ended without what it was for. */
static pco__error *park_error(const pco__task *task) {
  return task->timed_out
             ? pco__error_late((double)task->limit)
             : pco__error_new(PCO_ECANCELED, PCO_SOURCE_HOST, NULL, NULL);
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
  pco__raise(L, park_error(task), operation, 0);
}

bool pco__task_should_yield(pco__task *task) {
  return ++task->n_quick > MAX_QUICK;
}

int pco__park_outside(lua_State *L, pco__wait wait, const void *target,
                      lua_KContext context, lua_KFunction k) {
  pco__task_set_outside(pco__lua_of(L)->current, true);
  return pco__park(L, wait, NULL, target, context, k);
}

int pco__task_suspend(lua_State *L, pco__op *op, int box, lua_KFunction k) {
  pco__task *task = pco__lua_of(L)->current;
  luaL_checkstack(L, 2, "out of stack");
  task->op = op;
  pco__task_set_outside(task, true);
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
  pco__task_set_outside(task, true);
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

const pco__core_function pco__sleep_functions[] = {{"sleep", core_sleep},
                                                   {NULL, NULL}};
const pco__core_function pco__turn_functions[] = {
    {"task_checkpoint", task_checkpoint}, {NULL, NULL}};
