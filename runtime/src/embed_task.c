/* SPDX-License-Identifier: MIT */
/*
 * Scripts of a host in C.
 *
 * A pco_task stands for a task without a scope.  Two own it: the host, until it
 * gives it back, and the runtime, until the task has ended and the host was
 * told.  The task's `sibling`, of no use without a scope, leads from it to the
 * pco_task.  Results stay on the task's coroutine, anchored in the registry,
 * until the pco_task goes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "embed.h"
#include "lua_cancel.h"
#include "lua_coroutine.h"
#include "lua_error.h"
#include "lua_task.h"

struct pco_task {
  pco__node node;  /* in rt->tasks or rt->finished */
  pco__node all;   /* in rt->handles */
  pco__node root;  /* of pco__task.sibling: the one */
  pco_runtime *rt; /* NULL: it is gone */
  pco__task *task; /* NULL: its state is gone */
  int status;      /* PCO_TASK_* */
  int refs;
  char *message; /* owned; or NULL */
  char *traceback;
  char *code;
  pco_task_done_fn done;
  void *done_ud;
};

/* ---- life ---------------------------------------------------------------- */

/* Lets go of the task; its results go, too. */
static void detach(pco_task *t) {
  if (!t->task)
    return;
  pco__list_remove(&t->task->sibling);
  pco__task_free(t->rt->L, t->task); /* sets a key to nil: cannot raise */
  t->task = NULL;
}

static void unref(pco_task *t) {
  if (--t->refs > 0)
    return;
  detach(t);
  pco__list_remove(&t->all);
  free(t->message);
  free(t->traceback);
  free(t->code);
  free(t);
}

static pco_task *new_task(pco_runtime *rt) {
  pco_task *t = calloc(1, sizeof *t);
  if (!t)
    return NULL;
  t->rt = rt;
  t->refs = 1; /* the runtime's */
  pco__list_init(&t->node);
  pco__list_init(&t->root);
  pco__list_append(&rt->handles, &t->all);
  return t;
}

static int check(const pco_task *task) {
  if (!task)
    return PCO_EINVAL;
  return task->rt ? pco__embed_check(task->rt) : 0;
}

void pco_task_release(pco_task *task) {
  if (check(task) >= 0)
    unref(task);
}

/* ---- making -------------------------------------------------------------- */

typedef struct loading {
  pco__guarded g;
  pco_task *task;
  const char *chunk; /* NULL: the function is on the stack */
  size_t len;
  const char *name;
} loading;

static void make(lua_State *L, pco_runtime *rt, pco__guarded *g) {
  loading *l = PCO_CONTAINER(g, loading, g);
  if (l->chunk && luaL_loadbufferx(L, l->chunk, l->len, l->name, "t") != LUA_OK)
    lua_error(L);
  pco__task *task = pco__task_new(L, rt->lua, lua_gettop(L) - 1, NULL);
  l->task->task = task;
  pco__list_append(&l->task->root, &task->sibling);
}

static int begin(pco_runtime *rt, loading *l, int n_args, pco_task **out) {
  l->task = new_task(rt);
  if (!l->task) {
    lua_pop(rt->L, n_args);
    return pco__embed_fail(rt, UV_ENOMEM, "out of memory");
  }
  l->g.fn = make;
  int rc = pco__embed_guard(rt, &l->g, n_args);
  if (rc < 0) {
    unref(l->task);
    return rc;
  }
  pco__list_append(&rt->tasks, &l->task->node);
  pco__embed_touch(rt);
  if (out) {
    l->task->refs++;
    *out = l->task;
  }
  return 0;
}

static int check_open(pco_runtime *rt) {
  int rc = pco__embed_check(rt);
  if (rc == 0 && rt->phase != PCO__LIVES)
    return pco__embed_fail(rt, PCO_ECLOSED, "the runtime is shutting down");
  return rc;
}

int pco_load(pco_runtime *rt, const char *chunk, size_t len, const char *name,
             pco_task **out) {
  if (out)
    *out = NULL;
  int rc = check_open(rt);
  if (rc < 0)
    return rc;
  if (!chunk)
    return pco__embed_fail(rt, PCO_EINVAL, "the chunk is NULL");
  loading l = {.chunk = chunk, .len = len, .name = name ? name : "=(load)"};
  return begin(rt, &l, 0, out);
}

int pco_call(pco_runtime *rt, int n_args, pco_task **out) {
  if (out)
    *out = NULL;
  int rc = pco__embed_check(rt);
  if (rc < 0)
    return rc;
  if (n_args < 0 || lua_gettop(rt->L) < n_args + 1)
    return pco__embed_fail(rt, PCO_EINVAL,
                           "a function and %d arguments are not on the stack",
                           n_args);
  rc = check_open(rt);
  if (rc == 0 && !lua_isfunction(rt->L, -n_args - 1))
    rc = pco__embed_fail(rt, PCO_EINVAL,
                         "below the arguments is a %s, not a "
                         "function",
                         luaL_typename(rt->L, -n_args - 1));
  if (rc < 0) {
    lua_pop(rt->L, n_args + 1);
    return rc;
  }
  loading l = {.chunk = NULL};
  return begin(rt, &l, n_args + 1, out);
}

/* ---- the end ------------------------------------------------------------- */

void pco__embed_task_ended(pco__task *task) {
  pco_task *t = PCO_CONTAINER(task->sibling.next, pco_task, root);
  t->status = !task->failed                 ? PCO_TASK_DONE
              : task->cut || t->rt->killing ? PCO_TASK_CANCELLED
                                            : PCO_TASK_FAILED;
  pco__list_remove(&t->node);
  pco__list_append(&t->rt->finished, &t->node);
}

typedef struct describing {
  pco__guarded g;
  pco_task *task;
} describing;

static char *copy_field(lua_State *L, const char *name) {
  char *copy = NULL;
  if (lua_getfield(L, -1, name) == LUA_TSTRING)
    copy = strdup(lua_tostring(L, -1));
  lua_pop(L, 1);
  return copy;
}

static void describe(lua_State *L, pco_runtime *rt, pco__guarded *g) {
  pco_task *t = PCO_CONTAINER(g, describing, g)->task;
  (void)rt;
  pco__task_results(L, t->task); /* the error */
  lua_settop(L, 1);
  if (pco__is_error(L, 1)) {
    t->code = copy_field(L, "code");
    t->traceback = copy_field(L, "traceback");
  }
  pco__push_description(L, 1);
  t->message = strdup(lua_tostring(L, -1));
}

static void tell(pco_runtime *rt, pco_task *t) {
  describing d = {.g.fn = describe, .task = t};
  if (t->status != PCO_TASK_DONE && t->task)
    pco__embed_guard(rt, &d.g, 0);
  if (t->status != PCO_TASK_DONE && !t->message)
    t->message = strdup(t->task ? "not enough memory" : "the runtime ended");
  if (t->status == PCO_TASK_FAILED && rt->config.on_task_error)
    rt->config.on_task_error(rt->config.ud, rt, t);
  if (t->done)
    t->done(t->done_ud, t);
}

bool pco__embed_tell_tasks(pco_runtime *rt) {
  bool did = false;
  for (pco__node *n; (n = pco__list_shift(&rt->finished)) != NULL;) {
    pco_task *t = PCO_CONTAINER(n, pco_task, node);
    tell(rt, t);
    unref(t);
    did = true;
  }
  return did;
}

/* ---- cancelling ---------------------------------------------------------- */

typedef struct cancelling {
  pco__guarded g;
  pco__task *task; /* NULL: all */
  bool done;
} cancelling;

static void cancel(lua_State *L, pco_runtime *rt, pco__guarded *g) {
  cancelling *c = PCO_CONTAINER(g, cancelling, g);
  pco__node *all = &rt->lua->tasks;
  for (pco__node *n = all->next; n != all; n = n->next) {
    pco__task *task = PCO_CONTAINER(n, pco__task, all);
    if (task->scope || (c->task && task != c->task))
      continue;
    lua_pushnil(L);
    c->done |= pco__task_cancel(L, task, PCO_ECANCELED);
  }
}

int pco_task_cancel(pco_task *task) {
  int rc = check(task);
  if (rc < 0 || !task->rt || task->status != PCO_TASK_RUNNING)
    return rc;
  pco_runtime *rt = task->rt;
  cancelling c = {.g.fn = cancel, .task = task->task};
  rc = pco__embed_guard(rt, &c.g, 0);
  pco__embed_touch(rt);
  return rc < 0 ? rc : c.done;
}

void pco__embed_cancel_tasks(pco_runtime *rt) {
  cancelling c = {.g.fn = cancel};
  pco__embed_guard(rt, &c.g, 0);
}

/* One that cannot be resumed any more: its coroutine is closed, without any
 * wait, and it fails. */
static void kill_one(lua_State *L, pco__task *task) {
  pco__lua *lua = task->lua;
  lua->slice_start = lua->slice_count ? pco__thread_ns() : 0;
  if (task->started)
    pco__close_coroutine(lua, task->co);
  lua_settop(task->co, 0);
  pco__push_error(
      L,
      pco__error_new(PCO_ECANCELED, PCO_SOURCE_HOST, NULL, "the runtime ended"),
      "run");
  pco__task_fail(L, task);
}

static void kill_all(lua_State *L, pco_runtime *rt, pco__guarded *g) {
  pco__node *all = &rt->lua->tasks;
  (void)g;
  for (int i = rt->lua->n_tasks; i > 0 && !pco__list_empty(all); i--) {
    pco__task *task = PCO_CONTAINER(all->prev, pco__task, all);
    if (task == rt->lua->current)
      return; /* the state is closed by a script of it: bad luck */
    kill_one(L, task);
  }
}

void pco__embed_kill_tasks(pco_runtime *rt) {
  pco__guarded g = {.fn = kill_all};
  rt->killing = true;
  pco_runtime *outer = pco__slices_enter(rt);
  for (int i = 0; i < 3 && !pco__list_empty(&rt->lua->tasks); i++)
    pco__embed_guard(rt, &g, 0);
  pco__slices_leave(outer);
  rt->killing = false;
}

static void drop(pco__node *list) {
  for (pco__node *n; (n = pco__list_shift(list)) != NULL;)
    unref(PCO_CONTAINER(n, pco_task, node));
}

void pco__embed_orphan_tasks(pco_runtime *rt) {
  drop(&rt->finished);
  drop(&rt->tasks);
  for (pco__node *n; (n = pco__list_shift(&rt->handles)) != NULL;) {
    pco_task *t = PCO_CONTAINER(n, pco_task, all);
    if (t->status == PCO_TASK_RUNNING)
      t->status = PCO_TASK_CANCELLED;
    detach(t);
    t->rt = NULL;
  }
}

/* ---- asking -------------------------------------------------------------- */

int pco_task_on_done(pco_task *task, pco_task_done_fn fn, void *ud) {
  int rc = check(task);
  if (rc < 0)
    return rc;
  if (!task->rt ||
      (task->status != PCO_TASK_RUNNING && pco__list_empty(&task->node)))
    return PCO_ECLOSED; /* it was told already */
  task->done = fn;
  task->done_ud = ud;
  return 0;
}

int pco_task_status(const pco_task *task) {
  int rc = check(task);
  return rc < 0 ? rc : task->status;
}

int pco_task_results(pco_task *task, lua_State *to, int max) {
  int rc = check(task);
  if (rc < 0 || !to || !task->task)
    return rc < 0 ? rc : to ? PCO_ECLOSED : PCO_EINVAL;
  if (task->status == PCO_TASK_RUNNING)
    return PCO_EBUSY;
  if (task->status != PCO_TASK_DONE)
    return PCO_ELUA;
  int n = task->task->n_args - 1;
  if (!lua_checkstack(to, n + 4) || !lua_checkstack(task->task->co, n + 2))
    return UV_ENOMEM;
  pco__task_results(to, task->task); /* there is room: it cannot raise */
  if (max < 0 || n <= max)
    return n;
  lua_pop(to, n - max);
  return max;
}

const char *pco_task_message(const pco_task *task) {
  return check(task) < 0 ? NULL : task->message;
}

const char *pco_task_error_code(const pco_task *task) {
  return check(task) < 0 ? NULL : task->code;
}

const char *pco_task_traceback(const pco_task *task) {
  return check(task) < 0 ? NULL : task->traceback;
}
