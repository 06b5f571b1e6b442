/* SPDX-License-Identifier: MIT */
/*
 * Events and semaphores.
 *
 * Both are a queue of tasks that wait, in the order in which they came.  A
 * task that is cancelled has left the queue before it hears of it, so nothing
 * is given to one that has gone.
 */
#include <string.h>

#include "lua_args.h"
#include "lua_cancel.h"
#include "lua_channel.h"
#include "lua_error.h"
#include "lua_task.h"

static int64_t call_timeout(lua_State *L, int idx, const char *operation) {
  pco__check_options(L, idx, operation, pco__timeout_only);
  return pco__opt_seconds(L, idx, operation, "timeout", -1, true);
}

static pco__task *first_of(const pco__node *queue) {
  return PCO_CONTAINER(queue->next, pco__task, node);
}

void pco__strand(pco__node *queue) {
  while (!pco__list_empty(queue))
    pco__task_ready(first_of(queue)); /* which takes it out */
}

/* ---- events -------------------------------------------------------------- */

typedef struct event {
  pco__node waiting;
  bool is_set;
} event;

/* core.task_event() */
static int task_event(lua_State *L) {
  event *e = lua_newuserdatauv(L, sizeof *e, 0);
  pco__list_init(&e->waiting);
  e->is_set = false;
  pco__set_class(L, PCO__EVENT);
  return 1;
}

/* core.event_set(self) */
static int event_set(lua_State *L) {
  event *e = (event *)pco__check_userdata(L, PCO__EVENT, "event.set");
  lua_pushboolean(L, !e->is_set);
  e->is_set = true;
  while (!pco__list_empty(&e->waiting))
    pco__task_grant(first_of(&e->waiting));
  return 1;
}

/* core.event_clear(self) */
static int event_clear(lua_State *L) {
  event *e = (event *)pco__check_userdata(L, PCO__EVENT, "event.clear");
  lua_pushboolean(L, e->is_set);
  e->is_set = false;
  return 1;
}

/* core.event_is_set(self) */
static int event_is_set(lua_State *L) {
  const event *e =
      (const event *)pco__check_userdata(L, PCO__EVENT, "event.is_set");
  lua_pushboolean(L, e->is_set);
  return 1;
}

static int after_event(lua_State *L, int status, lua_KContext context) {
  (void)status;
  (void)context;
  pco__unpark(L, "event.wait");
  return 0;
}

/* core.event_wait(self, options) */
static int event_wait(lua_State *L) {
  event *e = (event *)pco__check_userdata(L, PCO__EVENT, "event.wait");
  lua_settop(L, 2);
  int64_t ns = call_timeout(L, 2, "event.wait");
  pco__check_place(L, "event.wait");
  pco__task *task = pco__lua_of(L)->current;
  if (e->is_set && !pco__task_should_yield(task))
    return 0;
  pco__check_cancelled(L, "event.wait");
  if (e->is_set) {
    return pco__park_granted(L, PCO__WAITS_EVENT, e, 0, after_event);
  }
  return pco__park_for(L, "event.wait", ns, PCO__WAITS_EVENT, &e->waiting, e, 0,
                       after_event);
}

/* core.event_tostring(self) */
static int event_tostring(lua_State *L) {
  const event *e = (const event *)pco__userdata_at(L, 1, PCO__EVENT);
  if (e)
    lua_pushfstring(L, "portico.Event(%p, %s)", (const void *)e,
                    e->is_set ? "set" : "not set");
  else
    lua_pushliteral(L, "portico.Event");
  return 1;
}

/* ---- semaphores ---------------------------------------------------------- */

typedef struct semaphore {
  pco__node waiting;
  lua_Integer free;
} semaphore;

/* One that was acquired; the semaphore is its user value. */
typedef struct permit {
  bool held;
} permit;

/* core.task_semaphore(count) */
static int task_semaphore(lua_State *L) {
  int is_integer = 0;
  lua_Integer n =
      lua_type(L, 1) == LUA_TNUMBER ? lua_tointegerx(L, 1, &is_integer) : 0;
  if (!is_integer || n < 1)
    return pco__bad_argument(L, "task.semaphore",
                             "the count must be an integer of at least 1 (got "
                             "%s)",
                             pco__describe(L, 1));
  semaphore *s = lua_newuserdatauv(L, sizeof *s, 0);
  pco__list_init(&s->waiting);
  s->free = n;
  pco__set_class(L, PCO__SEMAPHORE);
  return 1;
}

/* Pushes a permit of the semaphore at 1, not held yet. */
static permit *push_permit(lua_State *L) {
  permit *p = lua_newuserdatauv(L, sizeof *p, 1);
  p->held = false;
  pco__set_class(L, PCO__PERMIT);
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, -2, 1);
  return p;
}

/* What is released goes to who waits first. */
static void give_back(semaphore *s) {
  if (pco__list_empty(&s->waiting))
    s->free++;
  else
    pco__task_grant(first_of(&s->waiting));
}

static int after_acquire(lua_State *L, int status, lua_KContext context) {
  (void)status;
  (void)context;
  pco__unpark(L, "semaphore.acquire");
  lua_settop(L, 3);
  ((permit *)lua_touserdata(L, 3))->held = true;
  return 1;
}

/* core.semaphore_acquire(self, options) */
static int semaphore_acquire(lua_State *L) {
  static const char operation[] = "semaphore.acquire";
  semaphore *s = (semaphore *)pco__check_userdata(L, PCO__SEMAPHORE, operation);
  lua_settop(L, 2);
  int64_t ns = call_timeout(L, 2, operation);
  pco__check_place(L, operation);
  pco__check_cancelled(L, operation);
  permit *p = push_permit(L);
  pco__task *task = pco__lua_of(L)->current;
  if (s->free > 0) {
    s->free--;
    if (pco__task_should_yield(task)) {
      return pco__park_granted(L, PCO__WAITS_PERMIT, s, 0, after_acquire);
    }
    p->held = true;
    return 1;
  }
  return pco__park_for(L, operation, ns, PCO__WAITS_PERMIT, &s->waiting, s, 0,
                       after_acquire);
}

static bool release(lua_State *L, permit *p) {
  if (!p->held)
    return false;
  p->held = false;
  lua_getiuservalue(L, 1, 1);
  give_back((semaphore *)lua_touserdata(L, -1));
  lua_pop(L, 1);
  return true;
}

/* core.permit_close(self) */
static int permit_close(lua_State *L) {
  permit *p = (permit *)pco__check_userdata(L, PCO__PERMIT, "permit.close");
  lua_pushboolean(L, release(L, p));
  return 1;
}

static int event_gc(lua_State *L) {
  pco__strand(&((event *)lua_touserdata(L, 1))->waiting);
  return 0;
}

static int semaphore_gc(lua_State *L) {
  pco__strand(&((semaphore *)lua_touserdata(L, 1))->waiting);
  return 0;
}

/* A permit that was dropped is given back. */
static int permit_gc(lua_State *L) {
  release(L, (permit *)lua_touserdata(L, 1));
  return 0;
}

/* core.semaphore_tostring(self) */
static int semaphore_tostring(lua_State *L) {
  const semaphore *s =
      (const semaphore *)pco__userdata_at(L, 1, PCO__SEMAPHORE);
  if (s)
    lua_pushfstring(L, "portico.Semaphore(%p, %I free)", (const void *)s,
                    s->free);
  else
    lua_pushliteral(L, "portico.Semaphore");
  return 1;
}

void pco__set_finalizer(lua_State *L, int kind, lua_CFunction gc) {
  pco__push_metatable(L, kind, false);
  lua_pushcfunction(L, gc);
  lua_setfield(L, -2, "__gc");
  lua_pop(L, 1);
}

void pco__init_event_classes(lua_State *L) {
  pco__set_finalizer(L, PCO__EVENT, event_gc);
  pco__set_finalizer(L, PCO__SEMAPHORE, semaphore_gc);
  pco__set_finalizer(L, PCO__PERMIT, permit_gc);
}

const pco__core_function pco__event_functions[] = {
    {"task_event", task_event},
    {"task_semaphore", task_semaphore},
    {"event_set", event_set},
    {"event_clear", event_clear},
    {"event_is_set", event_is_set},
    {"event_wait", event_wait},
    {"event_tostring", event_tostring},
    {"semaphore_tostring", semaphore_tostring},
    {"semaphore_acquire", semaphore_acquire},
    {"permit_close", permit_close},
    {NULL, NULL}};
