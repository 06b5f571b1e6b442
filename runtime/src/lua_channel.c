/* SPDX-License-Identifier: MIT */
/*
 * Channels: values from task to task, in order, at most `capacity` of them
 * waiting; closed by whoever has no more to send.
 *
 * Values that wait are in the channel's user value, a table with the keys
 * first .. last.  A task that waits to send has its value in the registry,
 * under an address in the task, and one that waits to receive gets it there: so
 * what a cancelled task wanted to send is not sent, and what was handed to one
 * is received.
 */
#include "lua_channel.h"

#include <string.h>

#include "lua_args.h"
#include "lua_cancel.h"
#include "lua_error.h"

typedef struct channel {
  pco__node senders;
  pco__node receivers;
  lua_Integer capacity;
  lua_Integer first; /* of the values that wait: first .. last */
  lua_Integer last;
  bool closed;
} channel;

#define MAX_CAPACITY (INT64_C(1) << 40)

static lua_Integer stored(const channel *c) {
  return c->last - c->first + 1;
}

/* core.task_channel(capacity) */
static int task_channel(lua_State *L) {
  int is_integer = lua_isnoneornil(L, 1);
  lua_Integer capacity =
      lua_type(L, 1) == LUA_TNUMBER ? lua_tointegerx(L, 1, &is_integer) : 0;
  if (!is_integer || capacity < 0 || capacity > MAX_CAPACITY)
    return pco__bad_argument(L, "task.channel",
                             "the capacity must be an integer of at least 0 "
                             "(got %s)",
                             pco__describe(L, 1));
  channel *c = lua_newuserdatauv(L, sizeof *c, 1);
  memset(c, 0, sizeof *c);
  pco__list_init(&c->senders);
  pco__list_init(&c->receivers);
  c->capacity = capacity;
  c->first = 1;
  lua_newtable(L);
  lua_setiuservalue(L, -2, 1);
  pco__set_class(L, PCO__CHANNEL);
  return 1;
}

static channel *check_channel(lua_State *L, const char *operation) {
  return (channel *)pco__check_userdata(L, PCO__CHANNEL, operation);
}

/* ---- values -------------------------------------------------------------- */

/* Stores the value on top of L, which is popped. */
static void store(lua_State *L, channel *c) {
  lua_getiuservalue(L, 1, 1);
  lua_insert(L, -2);
  lua_rawseti(L, -2, c->last + 1);
  c->last++;
  lua_pop(L, 1);
}

/* Pushes the oldest value. */
static void take(lua_State *L, channel *c) {
  lua_getiuservalue(L, 1, 1);
  lua_rawgeti(L, -1, c->first);
  lua_pushnil(L);
  lua_rawseti(L, -3, c->first);
  c->first++;
  lua_remove(L, -2);
}

/* Pushes a task's value, which it has no more then. */
static void push_value(lua_State *L, pco__task *task) {
  if (!task->has_value) {
    lua_pushnil(L);
    return;
  }
  lua_rawgetp(L, LUA_REGISTRYINDEX, &task->target);
  lua_pushnil(L);
  pco__task_set_value(L, task);
}

static pco__task *first_of(const pco__node *queue) {
  return PCO_CONTAINER(queue->next, pco__task, node);
}

/* A value is about to be taken: who waits first to send may do so.  If there is
 * no memory for that, nothing has happened. */
static void let_send(lua_State *L, channel *c) {
  if (pco__list_empty(&c->senders) || stored(c) > c->capacity)
    return;
  pco__task *sender = first_of(&c->senders);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &sender->target);
  store(L, c);
  lua_pushnil(L);
  pco__task_set_value(L, sender);
  pco__task_grant(sender);
}

/* ---- send ---------------------------------------------------------------- */

static int raise_closed(lua_State *L, const char *operation) {
  return pco__raise(L,
                    pco__error_new(PCO_ECLOSED, PCO_SOURCE_HOST, NULL,
                                   "the channel is closed"),
                    operation, 0);
}

static int after_send(lua_State *L, int status, lua_KContext context) {
  (void)status;
  (void)context;
  pco__task *task = pco__lua_of(L)->current;
  pco__unpark(L, "channel.send");
  push_value(L, task);
  if (lua_isnil(L, -1)) /* somebody has it */
    return 0;
  return raise_closed(L, "channel.send");
}

/* Sends at once, if that is possible. */
static bool send_now(lua_State *L, channel *c) {
  if (!pco__list_empty(&c->receivers)) {
    pco__task *receiver = first_of(&c->receivers);
    lua_pushvalue(L, 2);
    pco__task_set_value(L, receiver);
    pco__task_grant(receiver);
    return true;
  }
  if (stored(c) >= c->capacity)
    return false;
  lua_pushvalue(L, 2);
  store(L, c);
  return true;
}

static int64_t call_timeout(lua_State *L, int idx, const char *operation) {
  pco__check_options(L, idx, operation, pco__timeout_only);
  return pco__opt_seconds(L, idx, operation, "timeout", -1, true);
}

/* core.channel_send(self, value, options) */
static int channel_send(lua_State *L) {
  static const char operation[] = "channel.send";
  channel *c = check_channel(L, operation);
  lua_settop(L, 3);
  if (lua_isnil(L, 2))
    return pco__bad_argument(L, operation,
                             "nil cannot be sent: it is what receive() gives "
                             "at the end");
  int64_t ns = call_timeout(L, 3, operation);
  pco__check_place(L, operation);
  if (c->closed)
    return raise_closed(L, operation);
  pco__check_cancelled(L, operation);
  pco__task *task = pco__lua_of(L)->current;
  if (send_now(L, c)) {
    if (!pco__task_should_yield(task))
      return 0;
    return pco__park_granted(L, PCO__WAITS_SEND, c, 0, after_send);
  }
  lua_pushvalue(L, 2);
  pco__task_set_value(L, task);
  return pco__park_for(L, operation, ns, PCO__WAITS_SEND, &c->senders, c, 0,
                       after_send);
}

/* ---- receive ------------------------------------------------------------- */

/* Pushes a value if there is one. */
static bool receive_now(lua_State *L, channel *c) {
  if (stored(c) > 0) {
    let_send(L, c);
    take(L, c);
    return true;
  }
  if (pco__list_empty(&c->senders))
    return false;
  pco__task *sender = first_of(&c->senders);
  push_value(L, sender);
  pco__task_grant(sender);
  return true;
}

static int after_receive(lua_State *L, int status, lua_KContext context) {
  (void)status;
  (void)context;
  pco__unpark(L, "channel.receive");
  push_value(L, pco__lua_of(L)->current);
  return 1;
}

static int receive(lua_State *L, int64_t ns) {
  static const char operation[] = "channel.receive";
  channel *c = check_channel(L, operation);
  pco__check_place(L, operation);
  pco__check_cancelled(L, operation);
  pco__task *task = pco__lua_of(L)->current;
  if (receive_now(L, c)) {
    if (!pco__task_should_yield(task))
      return 1;
    pco__task_set_value(L, task);
    return pco__park_granted(L, PCO__WAITS_RECEIVE, c, 0, after_receive);
  }
  if (c->closed) {
    lua_pushnil(L);
    return 1;
  }
  return pco__park_for(L, operation, ns, PCO__WAITS_RECEIVE, &c->receivers, c,
                       0, after_receive);
}

/* core.channel_receive(self, options) */
static int channel_receive(lua_State *L) {
  check_channel(L, "channel.receive");
  lua_settop(L, 2);
  return receive(L, call_timeout(L, 2, "channel.receive"));
}

/* The iterator: (channel, last value) -> the next one. */
static int next_value(lua_State *L) {
  lua_settop(L, 1);
  return receive(L, -1);
}

/* core.channel_values(self) */
static int channel_values(lua_State *L) {
  check_channel(L, "channel.values");
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_pushvalue(L, lua_upvalueindex(2));
  lua_pushcclosure(L, next_value, 2);
  lua_pushvalue(L, 1);
  return 2;
}

/* ---- close --------------------------------------------------------------- */

/* core.channel_close(self) */
static int channel_close(lua_State *L) {
  channel *c = check_channel(L, "channel.close");
  lua_pushboolean(L, !c->closed);
  c->closed = true;
  while (!pco__list_empty(&c->receivers)) /* there is nothing for them */
    pco__task_grant(first_of(&c->receivers));
  while (!pco__list_empty(&c->senders)) /* they still have their values */
    pco__task_grant(first_of(&c->senders));
  return 1;
}

/* core.channel_tostring(self) */
static int channel_tostring(lua_State *L) {
  const channel *c = (const channel *)pco__userdata_at(L, 1, PCO__CHANNEL);
  if (c)
    lua_pushfstring(L, "portico.Channel(%p, %I of %I%s)", (const void *)c,
                    stored(c), c->capacity, c->closed ? ", closed" : "");
  else
    lua_pushliteral(L, "portico.Channel");
  return 1;
}

static int channel_gc(lua_State *L) {
  channel *c = (channel *)lua_touserdata(L, 1);
  pco__strand(&c->senders);
  pco__strand(&c->receivers);
  return 0;
}

void pco__init_channel_classes(lua_State *L) {
  pco__set_finalizer(L, PCO__CHANNEL, channel_gc);
  pco__init_event_classes(L);
}

const pco__core_function pco__channel_functions[] = {
    {"task_channel", task_channel},
    {"channel_send", channel_send},
    {"channel_receive", channel_receive},
    {"channel_values", channel_values},
    {"channel_close", channel_close},
    {"channel_tostring", channel_tostring},
    {NULL, NULL}};
