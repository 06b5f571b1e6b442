/* SPDX-License-Identifier: MIT */
/*
 * Promises: how a C function of the host suspends the script that called it.
 *
 * Two own one: the host, until it settles it, and a box in Lua on the stack of
 * the script that waits.  The function of the host is suspended by lua_callk of
 * a function of ours, so what it needs is only `return pco_promise_wait()`.
 * What waits no more (a cancelled task, a collected coroutine) leaves through
 * the box, which tells the host once.
 */
#include <stdlib.h>
#include <string.h>

#include "embed.h"
#include "lua_cancel.h"
#include "lua_error.h"
#include "lua_task.h"

struct pco_promise {
  pco_runtime *rt;
  unsigned generation; /* of rt, that it is of */
  atomic_int refs;
  pco__task *task; /* that waits, or NULL */
  bool boxed;      /* a script has waited for it */
  bool settled;
  bool abandoned;
  pco_push_fn push; /* not called yet, or NULL */
  void *push_ud;
  int code; /* of a rejection; or 0 */
  char *message;
  pco_abandoned_fn on_abandoned;
  void *abandoned_ud;
};

typedef struct box {
  pco_promise *promise; /* a reference; NULL: done */
} box;

static const char box_meta = 0;
static const char wait_key = 0;

/* ---- life ---------------------------------------------------------------- */

static void unref(pco_promise *p) {
  if (atomic_fetch_sub(&p->refs, 1) != 1)
    return;
  if (p->push)
    p->push(NULL, p->push_ud);
  free(p->message);
  free(p);
}

/* The runtime is there, and the caller on its thread. */
static int check(const pco_promise *p) {
  if (!p)
    return PCO_EINVAL;
  if (atomic_load(&p->rt->generation) != p->generation)
    return PCO_ECLOSED;
  return pco__embed_check(p->rt);
}

pco_promise *pco_promise_new(lua_State *L) {
  pco__lua *lua = pco__lua_find(L);
  if (!lua || !lua->embedder)
    luaL_error(L, "this Lua state has no runtime of pco_runtime_create()");
  if (!lua->current)
    pco__raise_new(L, PCO_ENOTASK, "promise",
                   "this function waits, so it must be called in a task: a "
                   "script that the program runs by pco_load() or pco_call()");
  pco_promise *p = calloc(1, sizeof *p);
  if (!p)
    pco__raise(L, pco__error_no_memory(), "promise", 0);
  p->rt = lua->embedder;
  p->generation = atomic_load(&p->rt->generation);
  atomic_init(&p->refs, 1);
  return p;
}

void pco_promise_on_abandoned(pco_promise *p, pco_abandoned_fn fn, void *ud) {
  if (check(p) < 0)
    return;
  p->on_abandoned = fn;
  p->abandoned_ud = ud;
}

/* ---- the script's side --------------------------------------------------- */

/* Nobody waits in this box any more. */
static void leave(box *b) {
  pco_promise *p = b->promise;
  if (!p)
    return;
  b->promise = NULL;
  p->task = NULL;
  p->abandoned = true;
  pco_abandoned_fn fn = p->settled ? NULL : p->on_abandoned;
  p->on_abandoned = NULL;
  if (fn)
    fn(p->abandoned_ud, p);
  unref(p);
}

static int box_gc(lua_State *L) {
  leave((box *)lua_touserdata(L, 1));
  return 0;
}

static box *push_box(lua_State *L, pco_promise *p) {
  box *b = lua_newuserdatauv(L, sizeof *b, 0);
  b->promise = NULL;
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &box_meta) != LUA_TTABLE) {
    lua_pop(L, 1);
    lua_createtable(L, 0, 2);
    lua_pushcfunction(L, box_gc);
    lua_setfield(L, -2, "__gc");
    lua_pushcfunction(L, box_gc);
    lua_setfield(L, -2, "__close");
    lua_pushvalue(L, -1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &box_meta);
  }
  lua_setmetatable(L, -2);
  atomic_fetch_add(&p->refs, 1);
  p->boxed = true;
  b->promise = p;
  return b;
}

/* Pushes what the promise was settled with, or raises it. */
static int give(lua_State *L, box *b) {
  pco_promise *p = b->promise;
  pco_push_fn push = p->push;
  void *ud = p->push_ud;
  int code = p->code;
  p->push = NULL;
  p->task = NULL;
  pco__error *err = code ? pco__error_new(code, PCO_SOURCE_HOST, NULL,
                                          p->message ? "%s" : NULL, p->message)
                         : NULL;
  b->promise = NULL;
  unref(p);
  if (err)
    return pco__raise(L, err, "promise", 0);
  return push ? push(L, ud) : 0;
}

enum { AT_PROMISE = 1, AT_BOX };

static int after_wait(lua_State *L, int status, lua_KContext context) {
  (void)status;
  (void)context;
  box *b = (box *)lua_touserdata(L, AT_BOX);
  pco_promise *p = b->promise;
  if (pco__is_resumed(L) && pco__lua_of(L)->current->granted && p &&
      p->settled) {
    pco__unpark(L, "promise");
    return give(L, b);
  }
  leave(b);
  pco__unpark(L, "promise"); /* raises why */
  return 0;
}

/* (promise): what pco_promise_wait calls. */
static int wait_for(lua_State *L) {
  pco_promise *p = (pco_promise *)lua_touserdata(L, AT_PROMISE);
  lua_settop(L, AT_PROMISE);
  pco__check_place(L, "promise");
  if (p->boxed)
    pco__raise_new(L, PCO_EBUSY, "promise",
                   "a promise can be waited for only once");
  box *b = push_box(L, p);
  lua_toclose(L, AT_BOX); /* a task that is killed leaves it */
  if (p->settled)
    return give(L, b);
  pco__check_cancelled(L, "promise");
  p->task = pco__lua_of(L)->current;
  return pco__park_outside(L, PCO__WAITS_PROMISE, p, 0, after_wait);
}

static void push_wait(lua_State *L) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &wait_key) == LUA_TFUNCTION)
    return;
  lua_pop(L, 1);
  lua_pushlightuserdata(L, pco__lua_find(L));
  lua_pushboolean(L, 0);
  lua_pushcclosure(L, wait_for, 2);
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &wait_key);
}

static int after_call(lua_State *L, int status, lua_KContext base) {
  (void)status;
  return lua_gettop(L) - (int)base;
}

int pco_promise_wait(lua_State *L, pco_promise *promise) {
  int rc = check(promise);
  if (rc < 0)
    return luaL_error(L, "pco_promise_wait: %s", pco__code_text(rc));
  int base = lua_gettop(L);
  luaL_checkstack(L, 6, "out of stack");
  push_wait(L);
  lua_pushlightuserdata(L, promise);
  lua_callk(L, 1, LUA_MULTRET, base, after_call);
  return after_call(L, LUA_OK, base);
}

/* ---- the host's side ----------------------------------------------------- */

static void settle(pco_promise *p) {
  p->settled = true;
  if (p->task) {
    pco__task_grant(p->task);
    pco__embed_touch(p->rt);
  }
  unref(p);
}

/* What came too late is let go. */
static void resolve(pco_promise *p, pco_push_fn push, void *ud) {
  p->push = push;
  p->push_ud = ud;
  settle(p);
}

int pco_promise_resolve(pco_promise *promise, pco_push_fn push, void *ud) {
  int rc = check(promise);
  if (rc == PCO_ECLOSED) {
    promise->task = NULL;
    resolve(promise, push, ud);
    return 0;
  }
  if (rc < 0)
    return rc;
  resolve(promise, push, ud);
  return 0;
}

int pco_promise_reject(pco_promise *promise, int code, const char *message) {
  int rc = check(promise);
  if (rc < 0 && rc != PCO_ECLOSED)
    return rc;
  if (rc == PCO_ECLOSED)
    promise->task = NULL;
  promise->code = code < 0 ? code : PCO_EINVAL;
  promise->message = message ? strdup(message) : NULL;
  settle(promise);
  return 0;
}

typedef struct posted {
  pco_promise *promise;
  pco_push_fn push;
  void *ud;
} posted;

static void on_posted(pco_runtime *rt, void *ud) {
  posted p = *(posted *)ud;
  free(ud);
  if (!rt)
    p.promise->task = NULL;
  resolve(p.promise, p.push, p.ud);
}

int pco_promise_post(pco_promise *promise, pco_push_fn push, void *ud) {
  if (!promise)
    return PCO_EINVAL;
  posted *p = malloc(sizeof *p);
  if (!p)
    return UV_ENOMEM;
  *p = (posted){.promise = promise, .push = push, .ud = ud};
  int rc = pco__embed_post(promise->rt, promise->generation, on_posted, p);
  if (rc == PCO_ECLOSED) /* there is no script and no other thread any more */
    on_posted(NULL, p);
  else if (rc < 0)
    free(p);
  return rc == PCO_ECLOSED ? 0 : rc;
}
