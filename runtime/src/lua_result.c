/* SPDX-License-Identifier: MIT */
/* Results of process ops as Lua values. */
#include "lua_result.h"

#include "exec.h"
#include "fields.h"
#include "lua_process.h"
#include "lua_state.h"
#include "lua_table.h"
#include "wire.h"

static const char *reason_name(const pco__result *r) {
  if (r->gone)
    return "gone";
  if (r->exit.oom)
    return "oom";
  switch (r->exit.reason) {
  case PCO_REASON_TIMEOUT:
    return "timeout";
  case PCO_REASON_KILLED:
    return "killed";
  case PCO_REASON_OOM:
    return "oom";
  case PCO_REASON_SIGNALED:
    return "signaled";
  default:
    return "exited";
  }
}

static void push_gap(lua_State *L, const pco__capture *c) {
  lua_createtable(L, 0, 2);
  pco__set_integer(L, "offset", (lua_Integer)pco__capture_head(c));
  pco__set_integer(L, "bytes", (lua_Integer)c->dropped);
}

static void set_truncated(lua_State *L, const pco__result *r) {
  static const char *const names[] = {"stdout", "stderr"};
  if (!r->out[0].dropped && !r->out[1].dropped) {
    pco__set_boolean(L, "truncated", false);
    return;
  }
  lua_createtable(L, 0, 2);
  for (int i = 0; i < 2; i++)
    if (r->out[i].dropped) {
      push_gap(L, &r->out[i]);
      lua_setfield(L, -2, names[i]);
    }
  lua_setfield(L, -2, "truncated");
}

static void set_output(lua_State *L, const pco__result *r) {
  lua_pushlstring(L, r->out[0].data ? r->out[0].data : "", r->out[0].len);
  lua_setfield(L, -2, "stdout");
  lua_pushlstring(L, r->out[1].data ? r->out[1].data : "", r->out[1].len);
  lua_setfield(L, -2, "stderr");
  pco__set_integer(L, "stdout_bytes", (lua_Integer)r->bytes[0]);
  pco__set_integer(L, "stderr_bytes", (lua_Integer)r->bytes[1]);
  set_truncated(L, r);
}

static void set_survivors(lua_State *L, const pco__result *r) {
  lua_createtable(L, r->exit.n_survivors, 0);
  for (int i = 0; i < r->exit.n_survivors; i++) {
    lua_pushinteger(L, r->exit.survivors[i]);
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "survivors");
}

void pco__push_result(lua_State *L, const pco__result *r) {
  const pco__exit *x = &r->exit;
  luaL_checkstack(L, 6, "out of stack");
  lua_createtable(L, 0, 14);
  bool ended_itself = !r->gone && x->reason == PCO_REASON_EXITED;
  pco__set_boolean(L, "ok", ended_itself && x->code == 0 && !x->signal);
  if (!r->gone)
    pco__set_integer(L, "code", x->code);
  if (x->signal) {
    lua_pushstring(L, pco__signal_name(x->signal));
    lua_setfield(L, -2, "signal");
  }
  lua_pushstring(L, reason_name(r));
  lua_setfield(L, -2, "reason");
  pco__set_string(L, "limit", pco__limit_name((uint64_t)x->limit));
  set_output(L, r);
  pco__set_boolean(L, "eof", r->eof);
  lua_pushnumber(L, (lua_Number)x->duration / 1e9);
  lua_setfield(L, -2, "duration");
  if (r->pid > 0)
    pco__set_integer(L, "pid", r->pid);
  set_survivors(L, r);
  pco__push_metatable(L, PCO__RESULT, pco__is_sync(L));
  lua_setmetatable(L, -2);
}

/* ---- push functions ------------------------------------------------------ */

int pco__push_exec(lua_State *L, pco__op *op) {
  pco__exec *e = PCO_CONTAINER(op, pco__exec, op);
  if (!e->output_only) {
    pco__push_result(L, e->result);
    return 1;
  }
  const pco__capture *out = &e->result->out[PCO__STDOUT];
  size_t len = out->len;
  if (len && out->data[len - 1] == '\n')
    len--;
  lua_pushlstring(L, out->data ? out->data : "", len);
  return 1;
}

int pco__push_spawn(lua_State *L, pco__op *op) {
  pco__process_op *o = PCO_CONTAINER(op, pco__process_op, op);
  pco__push_process(L, &o->process, 1);
  return 1;
}

int pco__push_read(lua_State *L, pco__op *op) {
  pco__process_op *o = PCO_CONTAINER(op, pco__process_op, op);
  return pco__after_read(L, &o->chunks, o->ended);
}

/* The Result of a process is one table, whoever waits and how often. */
int pco__push_wait(lua_State *L, pco__op *op) {
  pco__process_op *o = PCO_CONTAINER(op, pco__process_op, op);
  if (!o->result) {
    lua_pushnil(L);
    return 1;
  }
  if (pco__cached_result(L, 1))
    return 1;
  pco__push_result(L, o->result);
  pco__cache_result(L, 1);
  return 1;
}

int pco__push_signalled(lua_State *L, pco__op *op) {
  lua_pushboolean(L, PCO_CONTAINER(op, pco__process_op, op)->acted);
  return 1;
}

int pco__push_closed(lua_State *L, pco__op *op) {
  (void)op;
  lua_pushboolean(L, 1);
  return 1;
}

int pco__push_nothing(lua_State *L, pco__op *op) {
  (void)L;
  (void)op;
  return 0;
}
