/* SPDX-License-Identifier: MIT */
/*
 * Tasks: coroutines that the runtime resumes when what they wait for is there.
 *
 * libuv's callbacks never run Lua: they complete ops, the loop's done list
 * queues their tasks, and the scheduler resumes these from run().  A task waits
 * only in its own coroutine, for one op or for its children.
 */
#ifndef PCO_LUA_TASK_H
#define PCO_LUA_TASK_H

#include "lua_state.h"

typedef struct pco__task {
  pco__node node; /* in lua->ready, or in nothing */
  pco__node all;  /* in lua->tasks, until it has ended */
  lua_State *co;  /* anchored in the registry under this task's address */
  pco__lua *lua;
  pco__op *op; /* that it waits for; the box on its stack owns it */
  int n_args;  /* for the first resume; then 0 */
  bool started;
  bool ended;
  bool failed;              /* its one result is the error */
  int cancel_code;          /* every wait raises it from now on; 0: none */
  int nested;               /* callbacks around what it runs */
  struct pco__task *parent; /* waits for its children; or NULL */
  int children;             /* not ended; of this task */
  bool orphan;              /* its parent ended first: freed when it ends */
  bool joining;             /* waits for its children */
  bool sleeping; /* waits for its timer: no op, which would weigh more than the
                    rest of a parked task */
  pco__timer timer;
} pco__task;

/* Makes a task of the function and n_args arguments on top of L, which are
 * popped; it is ready.  Owned by the userdata anchored with it. */
pco__task *pco__task_new(lua_State *L, pco__lua *lua, int n_args,
                         pco__task *parent);
/* Lets the garbage collector have an ended task. */
void pco__task_free(lua_State *L, pco__task *task);
/* Cancels: the present wait ends and each later one raises. */
void pco__task_cancel(pco__task *task, int code);
/* Suspends the current task until its op has something; for pco__await. */
int pco__task_suspend(lua_State *L, pco__task *task, pco__op *op, int box,
                      lua_KFunction k);
/* The op that the task waits for is gone without having ended: somebody else
 * ended its coroutine, which the scheduler finds out. */
void pco__task_lost(pco__task *task, const pco__op *op);
/* Runs the loop without running Lua until the op is done (closing things
 * outside a task); Ctrl-C cancels it.  `hook` was the main thread's before the
 * op began. */
void pco__drive_until_done(pco__lua *lua, pco__op *op, lua_Hook hook);

#endif /* PCO_LUA_TASK_H */
