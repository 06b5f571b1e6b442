/* SPDX-License-Identifier: MIT */
/* Core functions of Process. */
#include "lua_process.h"

#include <stdlib.h>

#include "lua_args.h"
#include "lua_error.h"
#include "lua_table.h"
#include "lua_wait.h"
#include "pipes.h"
#include "process_ops.h"
#include "wait_for.h"

#define DEFAULT_MAX_LINE (1024u * 1024)

static const char result_key = 0; /* in a Process: its Result */

void pco__push_process(lua_State *L, pco__process **from, int at) {
  const pco__process *p = *from;
  pco__handle *owner = pco__handle_at(L, at);
  pco__handle *h =
      pco__push_object(L, PCO__PROCESS, owner->lua, owner->loop, owner->sync);
  h->process = *from;
  *from = NULL;
  h->allow_in_tasks = owner->allow_in_tasks;
  pco__set_integer(L, "pid", p->pid);
  pco__set_argv(L, p->argv);
  lua_pushvalue(L, at);
  lua_setfield(L, -2, "sandbox");
  lua_pushboolean(L, 0);
  lua_setfield(L, -2, "closed");
}

bool pco__cached_result(lua_State *L, int idx) {
  if (lua_rawgetp(L, idx, &result_key) != LUA_TNIL)
    return true;
  lua_pop(L, 1);
  return false;
}

void pco__cache_result(lua_State *L, int idx) {
  lua_pushvalue(L, -1);
  lua_rawsetp(L, idx, &result_key);
}

/* Makes a process op in a box at index `at`. */
static pco__process_op *new_op(lua_State *L, pco__handle *h,
                               const pco__op_class *cls, int at) {
  lua_settop(L, at - 1);
  pco__op *op = pco__new_op(L, cls, sizeof(pco__process_op), h->loop);
  pco__process_op *o = PCO_CONTAINER(op, pco__process_op, op);
  pco__process_ref(h->process);
  o->process = h->process;
  pco__chunks_init(&o->chunks);
  return o;
}

/* What was handed over but not taken goes back with the op, which must start
 * then. */
static void return_unread(lua_State *L, pco__handle *h, pco__process_op *o) {
  if (!h->sync && !o->op.cls->shielded)
    pco__check_wait(L, o->op.cls);
  pco__chunks_move(&o->chunks, &h->unread);
}

static int64_t call_timeout(lua_State *L, int idx, const char *operation) {
  pco__check_options(L, idx, operation, pco__timeout_only);
  return pco__opt_seconds(L, idx, operation, "timeout", -1, true);
}

/* ---- reading ------------------------------------------------------------- */

void pco__push_output(lua_State *L, const pco__chunk *c) {
  lua_createtable(L, 0, 2);
  lua_pushstring(L, pco__stream_name(c->stream));
  lua_setfield(L, -2, "stream");
  lua_pushlstring(L, c->data + c->start, c->len - c->start);
  lua_setfield(L, -2, "data");
}

void pco__push_chunk(lua_State *L, pco__handle *h) {
  if (!h->unread.count) {
    lua_pushnil(L);
    return;
  }
  pco__push_output(L, h->unread.first);
  free(pco__chunks_shift(&h->unread));
}

int pco__read_more(lua_State *L, pco__handle *h, bool iterates,
                   const pco__op_class *cls, int64_t timeout) {
  pco__process_op *o = new_op(L, h, cls, 2);
  o->iterates = iterates;
  o->op.timeout = timeout;
  return pco__await(L, 2);
}

int pco__after_read(lua_State *L, pco__chunks *chunks, bool ended) {
  pco__handle *h = pco__handle_at(L, 1);
  if (h->kind == PCO__PROCESS) {
    pco__chunks_move(&h->unread, chunks);
    pco__push_chunk(L, h);
    return 1;
  }
  pco__handle *process = pco__iterated_process(L, 1);
  if (process)
    pco__chunks_move(&process->unread, chunks);
  return pco__iterator_next_item(L, ended);
}

static int process_read(lua_State *L) {
  pco__handle *h = pco__open_self(L, PCO__PROCESS, "process.read");
  int64_t timeout = call_timeout(L, 2, "process.read");
  pco__check_reader(L, h, "process.read");
  if (h->unread.count) {
    if (!h->sync)
      pco__check_wait(L, &pco__read_class);
    pco__push_chunk(L, h);
    return 1;
  }
  return pco__read_more(L, h, false, &pco__read_class, timeout);
}

static int process_chunks(lua_State *L) {
  pco__handle *h = pco__open_self(L, PCO__PROCESS, "process.chunks");
  int64_t timeout = call_timeout(L, 2, "process.chunks");
  return pco__push_iterator(L, h, PCO__ITERATE_CHUNKS, timeout, 0);
}

static int process_lines(lua_State *L) {
  static const char *const known[] = {"timeout", "max_line", NULL};
  pco__handle *h = pco__open_self(L, PCO__PROCESS, "process.lines");
  pco__check_options(L, 2, "process.lines", known);
  int64_t timeout =
      pco__opt_seconds(L, 2, "process.lines", "timeout", -1, true);
  size_t max = pco__opt_size(L, 2, "process.lines", "max_line",
                             DEFAULT_MAX_LINE, SIZE_MAX / 2);
  return pco__push_iterator(L, h, PCO__ITERATE_LINES, timeout, max);
}

/* ---- writing ------------------------------------------------------------- */

static int process_write(lua_State *L) {
  const char *name = "process.write";
  pco__handle *h = pco__open_self(L, PCO__PROCESS, name);
  int64_t timeout = call_timeout(L, 3, name);
  lua_settop(L, 2);
  pco__process_op *o = new_op(L, h, &pco__write_class, 3);
  o->data = pco__arg_bytes(L, 2, name, "data", &o->op.arena, &o->len);
  o->op.timeout = timeout;
  return pco__await(L, 3);
}

static int process_close_stdin(lua_State *L) {
  pco__handle *h = pco__open_self(L, PCO__PROCESS, "process.close_stdin");
  int64_t timeout = call_timeout(L, 2, "process.close_stdin");
  new_op(L, h, &pco__close_stdin_class, 2)->op.timeout = timeout;
  return pco__await(L, 2);
}

static int process_resize(lua_State *L) {
  const char *name = "process.resize";
  pco__handle *h = pco__open_self(L, PCO__PROCESS, name);
  int64_t timeout = call_timeout(L, 4, name);
  uint16_t cols = pco__arg_uint16(L, 2, name, "cols");
  uint16_t rows = pco__arg_uint16(L, 3, name, "rows");
  if (!h->sync)
    pco__check_wait(L, &pco__resize_class);
  if (!h->process->terminal)
    pco__bad_argument(L, name,
                      "the process has no terminal: spawn it with pty = true");
  pco__process_op *o = new_op(L, h, &pco__resize_class, 2);
  o->cols = cols;
  o->rows = rows;
  o->op.timeout = timeout;
  return pco__await(L, 2);
}

/* ---- pipes --------------------------------------------------------------- */

/* core.process_pipes(self): our ends of stdin, stdout and stderr, -1 for none,
 * as numbers that the caller must close.  Not of the facades: for programs. */
static int process_pipes(lua_State *L) {
  pco__handle *h = pco__open_self(L, PCO__PROCESS, "process.pipes");
  lua_settop(L, 1);
  pco__op *op =
      pco__new_op(L, &pco__pipes_class, sizeof(pco__pipes_op), h->loop);
  pco__pipes_op *o = PCO_CONTAINER(op, pco__pipes_op, op);
  for (int i = 0; i < 3; i++)
    o->fds[i] = -1;
  pco__process_ref(h->process);
  o->process = h->process;
  return pco__await(L, 2);
}

/* ---- waiting ------------------------------------------------------------- */

static int process_wait(lua_State *L) {
  pco__handle *h = pco__open_self(L, PCO__PROCESS, "process.wait");
  int64_t timeout = call_timeout(L, 2, "process.wait");
  pco__process_op *o = new_op(L, h, &pco__wait_class, 2);
  o->op.timeout = timeout;
  return_unread(L, h, o);
  return pco__await(L, 2);
}

static int process_poll(lua_State *L) {
  pco__handle *h = pco__open_self(L, PCO__PROCESS, "process.poll");
  pco__process_op *o = new_op(L, h, &pco__poll_class, 2);
  return_unread(L, h, o);
  /* Whoever only polls would wait for ever for a loop that does not turn. */
  if (!h->sync)
    uv_run(&h->loop->uv, UV_RUN_NOWAIT);
  return pco__await(L, 2);
}

/* ---- signals and the end ------------------------------------------------- */

static int process_signal(lua_State *L) {
  pco__handle *h = pco__open_self(L, PCO__PROCESS, "process.signal");
  int64_t timeout = call_timeout(L, 3, "process.signal");
  int signo = pco__arg_signal(L, 2, "process.signal");
  pco__process_op *o = new_op(L, h, &pco__signal_class, 2);
  o->signo = signo;
  o->op.timeout = timeout;
  return pco__await(L, 2);
}

static pco__process_op *new_kill(lua_State *L, pco__handle *h,
                                 const pco__op_class *cls,
                                 uint64_t default_grace) {
  static const char *const known[] = {"grace", "timeout", NULL};
  pco__check_options(L, 2, cls->name, known);
  int64_t timeout = pco__opt_seconds(L, 2, cls->name, "timeout", -1, true);
  int64_t grace =
      pco__opt_span(L, 2, cls->name, "grace", (int64_t)default_grace);
  pco__process_op *o = new_op(L, h, cls, 2);
  o->grace = (uint64_t)grace;
  o->op.timeout = timeout;
  return_unread(L, h, o);
  return o;
}

static int process_kill(lua_State *L) {
  pco__handle *h = pco__open_self(L, PCO__PROCESS, "process.kill");
  new_kill(L, h, &pco__kill_class, 0);
  return pco__await(L, 2);
}

static int process_close(lua_State *L) {
  pco__handle *h = pco__self_to_close(L, PCO__PROCESS, "process.close");
  if (h->closed) {
    lua_pushboolean(L, 0);
    return 1;
  }
  if (pco__closed_part(L, h, PCO__PROCESS)) { /* its sandbox ended it */
    pco__mark_closed(L, 1);
    lua_pushboolean(L, 1);
    return 1;
  }
  new_kill(L, h, &pco__process_close_class, h->process->grace);
  pco__mark_closed(L, 1);
  return pco__await(L, 2);
}

const pco__core_function pco__process_functions[] = {
    {"process_read", process_read},
    {"process_chunks", process_chunks},
    {"process_lines", process_lines},
    {"process_write", process_write},
    {"process_close_stdin", process_close_stdin},
    {"process_resize", process_resize},
    {"process_pipes", process_pipes},
    {"process_wait", process_wait},
    {"process_poll", process_poll},
    {"process_wait_for", pco__process_wait_for},
    {"process_signal", process_signal},
    {"process_kill", process_kill},
    {"process_close", process_close},
    {NULL, NULL}};
