/* SPDX-License-Identifier: MIT */
/*
 * Tasks: coroutines that the runtime resumes when what they wait for is there.
 *
 *   lua_task.c       their life, and their objects in Lua
 *   lua_park.c       how they wait, and are woken
 *   lua_sched.c      who is resumed when; run()
 *   lua_scope.c      groups of tasks that end before what opened them does
 *   lua_scope_end.c  how these ended: what is raised, what is returned
 *   lua_cancel.c     who is cancelled, and how a wait hears of it
 *   lua_interrupt.c  Ctrl-C, and tasks that compute
 *   lua_coroutine.c  coroutines of the script inside a task
 *   lua_dump.c       telling who waits for what
 *
 * libuv's callbacks never run Lua: they complete ops, the loop's done list
 * queues their tasks, and the scheduler resumes these from run().
 *
 * Who owns whom: a task is a userdata, anchored in the registry under its own
 * address until it has ended (a failed one until its scope has raised the
 * error).  A scope is a userdata on the stack of the function that opened it.
 * Both are in lists of each other, which they leave before they are let go.
 */
#ifndef PCO_LUA_TASK_H
#define PCO_LUA_TASK_H

#include "lua_state.h"

/* What a task waits for; PCO__WAITS_TURN: only for the others to have one. */
typedef enum pco__wait {
  PCO__NO_WAIT,
  PCO__WAITS_OP,
  PCO__WAITS_SLEEP,
  PCO__WAITS_TURN,
  PCO__WAITS_TASK,
  PCO__WAITS_SCOPE,
  PCO__WAITS_EVENT,
  PCO__WAITS_PERMIT,
  PCO__WAITS_SEND,
  PCO__WAITS_RECEIVE,
  PCO__WAITS_PROMISE
} pco__wait;

/* Why something is cancelled.  A reason, if one was given, is in the registry
 * under the address of this. */
typedef struct pco__cancel {
  short code; /* PCO_ECANCELED, PCO_EINTERRUPTED, PCO_EDEADLOCK; for a deadline
                PCO_ECALLTIMEOUT; 0: it is not */
  bool seen;  /* a wait has raised it */
} pco__cancel;

typedef struct pco__task {
  pco__node node;     /* in lua->ready or lua->turn; or in the queue of what it
                         waits for; or in nothing */
  pco__node all;      /* in lua->tasks, until it has ended */
  pco__node sibling;  /* in its scope's children, then maybe in its failed; of
                         a host in C: in its pco_task.root */
  pco__node awaiters; /* of pco__task.node: who awaits this one */
  lua_State *co;      /* its first coroutine */
  lua_State *waiter;  /* the coroutine in it that waits: co or one inside */
  pco__lua *lua;
  struct pco__scope *scope;  /* it was spawned in; NULL: of run() itself */
  struct pco__scope *scopes; /* that it has open, the innermost first */
  pco__op *op;             /* that it waits for; the box on the stack owns it */
  const void *target;      /* the object, or the task, that it waits for */
  struct pco__task *visit; /* the next one that a cancellation looks at */
  struct pco__grace *grace; /* cancelled, and still cleaning up; owned */
  pco__timer timer;         /* of a sleep or of the time limit of a wait */
  uint32_t since;           /* it waits; uv_now(), its low bits */
  float limit;              /* of its wait, in seconds, once it timed out */
  pco__cancel cancel;       /* of this task alone */
  int n_args;               /* for the first resume; then its results */
  unsigned short n_refused; /* waits that were refused since it last waited */
  unsigned short
      n_quick; /* waits that were over at once since it last waited */
  unsigned id; /* counted by the state */
  int line;    /* where it was spawned, in the function of its user value */
  unsigned char wait; /* pco__wait */
  bool ready : 1;     /* in lua->ready or lua->turn */
  bool started : 1;
  bool ended : 1;
  bool failed : 1;    /* its results are false and the error */
  bool cut : 1;       /* failed, because it was cancelled */
  bool cared_for : 1; /* somebody took its failure by pawait */
  bool orphan : 1;    /* nobody takes its results */
  bool granted : 1;   /* what it waits for is there */
  bool timed_out : 1; /* its wait took too long */
  bool lenient : 1;   /* awaits by pawait: the failure is taken care of */
  bool has_value : 1; /* in the registry */
  bool outside : 1;   /* something outside of Lua will end the wait */
  bool slow_told : 1; /* that it ran for long was reported */
  short forced;       /* its wait raises this code, whatever shields it */
  short nested;       /* callbacks around what it runs */
} pco__task;

/* User values of a task.  What few tasks have is elsewhere: a name in a weak
 * table, a value on its way through a channel in the registry, under the
 * address of `target`. */
enum { PCO__TASK_THREAD = 1, PCO__TASK_SPAWNER, PCO__N_TASK_VALUES = 2 };

/* ---- life ---------------------------------------------------------------- */

/* Makes a task of the function and n_args arguments on top of L, which are
 * replaced by its userdata; it is ready. */
pco__task *pco__task_new(lua_State *L, pco__lua *lua, int n_args,
                         struct pco__scope *scope);
/* Lets the garbage collector have a task that nothing of ours needs. */
void pco__task_free(lua_State *L, pco__task *task);
/* Pushes the task's object. */
void pco__task_push(lua_State *L, pco__task *task);
/* The Task at idx, or NULL. */
pco__task *pco__task_at(lua_State *L, int idx);
/* Its coroutine came to its end; the results, an `ok` first, are on top of it.
 */
void pco__task_ended(lua_State *L, pco__task *task, int n_results);
/* Ends a task whose coroutine cannot go on, with the error on top of L, which
 * is popped. */
void pco__task_fail(lua_State *L, pco__task *task);
/* Pushes copies of what a task has ended with, without the `ok`: results, or
 * the error.  Returns their number. */
int pco__task_results(lua_State *L, pco__task *task);
/* Pushes "file:line" of where it was spawned, or nil. */
void pco__push_spawn_site(lua_State *L, pco__task *task);
/* Pushes the name that was given to it, or "task 3". */
void pco__task_push_name(lua_State *L, pco__task *task);

/* Gives the objects their fields; the class is in Lua. */
void pco__init_task_class(lua_State *L);

/* Cancels the tasks of run(), and with them all that are in scopes of theirs.
 * Never raises.  (lua_sched.c) */
void pco__cancel_roots(lua_State *L, pco__lua *lua, int code);

/* ---- waiting (lua_park.c) ----------------------------------------------- */

/* Raises what forbids any wait here: outside run(), where Lua cannot be
 * suspended, in a coroutine of the stock library. */
void pco__check_place(lua_State *L, const char *operation);
/* True if a wait is possible here. */
bool pco__may_wait(lua_State *L);
/* True if the scheduler is resuming the wait of L, and nobody else. */
bool pco__is_resumed(lua_State *L);
/* Suspends the current task, in L; it is woken by pco__task_grant or by a
 * cancellation.  `queue` (may be NULL): where it stands meanwhile. */
int pco__park(lua_State *L, pco__wait wait, pco__node *queue,
              const void *target, lua_KContext context, lua_KFunction k);
/* The same for one that has what it wants: it only lets others run. */
int pco__park_granted(lua_State *L, pco__wait wait, const void *target,
                      lua_KContext context, lua_KFunction k);
/* The same with a time limit in ns; negative: none. */
int pco__park_for(lua_State *L, const char *operation, int64_t ns,
                  pco__wait wait, pco__node *queue, const void *target,
                  lua_KContext context, lua_KFunction k);
/* For the continuation: returns if the wait was granted; raises a foreign
 * resume, a cancellation, a time limit. */
void pco__unpark(lua_State *L, const char *operation);
/* Sets the value that the task sends or receives to the one on top of L, which
 * is popped; nil: none. */
void pco__task_set_value(lua_State *L, pco__task *task);
/* What the task waits for is there. */
void pco__task_grant(pco__task *task);
/* Notes whether something outside of Lua will end its wait. */
void pco__task_set_outside(pco__task *task, bool outside);
/* To be resumed; out of any queue. */
void pco__task_ready(pco__task *task);
/* A wait that was over at once: true if the task should let others run, now
 * and then. */
bool pco__task_should_yield(pco__task *task);
/* Suspends the current task until something outside of Lua grants the wait. */
int pco__park_outside(lua_State *L, pco__wait wait, const void *target,
                      lua_KContext context, lua_KFunction k);
/* Suspends the current task until its op has something; for pco__await. */
int pco__task_suspend(lua_State *L, pco__op *op, int box, lua_KFunction k);
/* The op that the task waits for is gone without having ended: somebody else
 * ended its coroutine, which the scheduler finds out. */
void pco__task_lost(pco__task *task, const pco__op *op);
/* Somebody else resumed L: the task that waits in it has to find that out. */
int pco__raise_foreign(lua_State *L, const char *operation);
/* What a number of slices (resumes until the next wait) took. */
typedef struct pco__slices {
  unsigned n;
  uint64_t lua_ns;
  uint64_t longest_ns;
} pco__slices;
/* Resumes tasks that are ready, at least one, until the time `until`; adds to
 * *s.  For a host that drives by itself.  May raise without memory. */
void pco__run_slices(lua_State *L, pco__lua *lua, uint64_t until,
                     pco__slices *s);
/* True if something is ready or may be. */
bool pco__any_ready(const pco__lua *lua);
/* True if all tasks wait for each other. */
bool pco__is_deadlock(const pco__lua *lua);
/* Runs the loop without running Lua until the op is done (closing things
 * outside a task); Ctrl-C cancels it.  `hook` was the main thread's before the
 * op began.  (lua_sched.c) */
void pco__drive_until_done(pco__lua *lua, pco__op *op, lua_Hook hook);

#endif /* PCO_LUA_TASK_H */
