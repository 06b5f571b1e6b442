/* SPDX-License-Identifier: MIT */
/*
 * Waiting for an op, in both facades.
 *
 * One state machine, step(), serves both: look whether the op has work for the
 * script's functions (output, input), call them, wait, and in the end push the
 * results.  In the async facade a wait or a callback that waits leaves step()
 * by a yield and comes back through it as the continuation; in the sync facade
 * it blocks.  An error in a callback cancels the command, waits for its end,
 * and is raised then, the same object.
 */
#include "lua_wait.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "embed.h"
#include "exec.h"
#include "fs_ops.h"
#include "lua_args.h"
#include "lua_cancel.h"
#include "lua_error.h"
#include "lua_interrupt.h"
#include "lua_process.h"
#include "lua_result.h"
#include "lua_table.h"
#include "lua_task.h"
#include "sys/quiet_write.h"
#include "wait_for.h"

#define NS_PER_S         INT64_C(1000000000)
#define ABANDON_AFTER_NS (10 * NS_PER_S) /* an interrupted call's clean-up */
/* Calls with callbacks inside the callbacks of others.  Lua bears 200 C calls
 * inside each other, and a script has some of its own for each of ours. */
#define MAX_NESTED 32

enum { NO_CALL, OUTPUT_CALL, INPUT_CALL };
/* User values of a box. */
enum {
  BOX_ON_OUTPUT = 1,
  BOX_INPUT,
  BOX_ERROR,
  BOX_LENT,
  BOX_N_VALUES = BOX_LENT
};

typedef struct box {
  pco__op *op; /* a reference */
  const pco__lua *lua;
  unsigned generation; /* of the runtime that it is of */
  pco__portal *portal;
  pco__chunks chunks; /* taken from an exec, for callbacks */
  bool calls_back;    /* an exec with functions or tee */
  bool tee;
  bool cut; /* Ctrl-C came while tee wrote */
  bool has_output_function;
  bool failed; /* a callback raised; the error is a user value */
  bool submitted;
  bool fresh; /* a read in a task that has not given way yet */
  bool input_wanted;
  int call;     /* which callback runs */
  short nested; /* callbacks of other calls that this call is in */
  /* sync: Ctrl-C came while it waited; how it would be raised is kept here */
  lua_Hook hook; /* of the main thread before the op began: another is news */
  lua_Hook interrupt;
  int interrupt_mask;
  int interrupt_count;
  uint64_t give_up_at; /* uv_hrtime() */
} box;

static const char box_meta = 0;
static const char logger_key = 0;

/* ---- boxes --------------------------------------------------------------- */

/* Lets the op go; one that still runs is cancelled and ends by itself.  In a
 * forked child it is the parent's: even to cancel it would reach its sandbox.
 */
static void empty_box(box *b) {
  pco__op *op = b->op;
  if (!op)
    return;
  b->op = NULL;
  if (pco__is_parents(b->lua, b->generation))
    return;
  if (b->submitted && op->cls->give_back)
    op->cls->give_back(op);
  if (b->submitted)
    pco__op_cancel(op, PCO_ECANCELED);
  if (!b->portal) {
    pco__list_remove(&op->done_node);
    if (op->task)
      pco__task_lost(op->task, op);
    op->task = NULL;
  }
  pco__chunks_free(&b->chunks);
  pco__op_unref(op);
  pco__portal_unref(b->portal);
}

static int box_gc(lua_State *L) {
  empty_box((box *)lua_touserdata(L, 1));
  return 0;
}

static void push_box_metatable(lua_State *L) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &box_meta) == LUA_TTABLE)
    return;
  lua_pop(L, 1);
  lua_createtable(L, 0, 1);
  lua_pushcfunction(L, box_gc);
  lua_setfield(L, -2, "__gc");
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &box_meta);
}

pco__op *pco__new_op(lua_State *L, const pco__op_class *cls, size_t size,
                     pco__loop *loop) {
  luaL_checkstack(L, 8, "out of stack");
  box *b = lua_newuserdatauv(L, sizeof *b, BOX_N_VALUES);
  memset(b, 0, sizeof *b);
  b->lua = pco__lua_of(L);
  b->generation = b->lua->runtime.generation;
  pco__chunks_init(&b->chunks);
  push_box_metatable(L);
  lua_setmetatable(L, -2);
  b->op = pco__op_new(cls, size, loop);
  if (!b->op)
    pco__raise(L, pco__error_no_memory(), cls->name, 0);
  b->portal = pco__portal_of(loop);
  pco__portal_ref(b->portal);
  return b->op;
}

/* How many callbacks are around the code that runs now. */
static short *nesting(pco__lua *lua) {
  return lua->current ? &lua->current->nested : &lua->nested;
}

static void check_nesting(lua_State *L, const box *b) {
  if (b->nested < MAX_NESTED)
    return;
  pco__error *err =
      pco__error_new(PCO_ELIMIT, PCO_SOURCE_HOST, NULL,
                     "this call is made by the callback of another one, that "
                     "by the callback of a third, and so on: %d at most",
                     MAX_NESTED);
  err->limit = "callbacks";
  pco__raise(L, err, b->op->cls->name, 1);
}

void pco__keep_callbacks(lua_State *L, int at, int options, bool tee) {
  box *b = (box *)lua_touserdata(L, at);
  b->nested = *nesting(pco__lua_of(L));
  check_nesting(L, b);
  b->tee = tee;
  if (pco__get_option(L, options, "on_output")) {
    b->has_output_function = true;
    lua_setiuservalue(L, at, BOX_ON_OUTPUT);
  }
  if (pco__get_option(L, options, "input"))
    lua_setiuservalue(L, at, BOX_INPUT);
  b->calls_back = true;
}

void pco__keep_callback(lua_State *L, int at, int options, const char *name) {
  box *b = (box *)lua_touserdata(L, at);
  b->nested = *nesting(pco__lua_of(L));
  check_nesting(L, b);
  if (pco__get_option(L, options, name))
    lua_setiuservalue(L, at, BOX_ON_OUTPUT);
  b->calls_back = true;
}

void pco__lend(lua_State *L, int at, int value) {
  lua_pushvalue(L, value);
  lua_setiuservalue(L, at, BOX_LENT);
}

/* ---- the log ------------------------------------------------------------- */

/* (logger, level, text as a light userdata): calls the logger. */
static int call_logger(lua_State *L) {
  static const char *const levels[] = {"error", "warning", "info", "debug"};
  lua_Integer level = lua_tointeger(L, 2);
  lua_pushvalue(L, 1);
  lua_createtable(L, 0, 2);
  lua_pushstring(L, levels[level >= 0 && level < 4 ? level : 3]);
  lua_setfield(L, -2, "level");
  lua_pushstring(L, (const char *)lua_touserdata(L, 3));
  lua_setfield(L, -2, "message");
  lua_call(L, 1, 0);
  return 0;
}

/* Tells the logger on top; nil: it is the host that listens. */
static void tell_logger(lua_State *L, int level, char *text) {
  if (lua_isnil(L, -1))
    return;
  lua_pushvalue(L, -1);
  lua_pushinteger(L, level);
  lua_pushlightuserdata(L, text);
  if (!pco__protected_aside(L, call_logger, 3, 0))
    lua_pop(L, 1); /* a logger that fails has nobody to tell */
}

void pco__deliver_log(lua_State *L, pco__lua *lua) {
  if (!atomic_load(&lua->runtime.log.enabled))
    return;
  unsigned dropped;
  luaL_checkstack(L, 6, "out of stack");
  pco__log_record *r = pco__log_take(&lua->runtime.log, &dropped);
  if (!r && !dropped)
    return;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &logger_key);
  while (r) {
    pco__log_record *next = r->next;
    pco__embed_log(lua->embedder, r->level, r->text);
    tell_logger(L, r->level, r->text);
    free(r);
    r = next;
  }
  if (dropped) {
    char text[64];
    snprintf(text, sizeof text, "%u log records were dropped", dropped);
    pco__embed_log(lua->embedder, PCO_LOG_WARNING, text);
    tell_logger(L, PCO_LOG_WARNING, text);
  }
  lua_pop(L, 1);
}

/* core.set_logger(fn) */
static int set_logger(lua_State *L) {
  pco__lua *lua = pco__lua_of(L);
  if (!lua_isnoneornil(L, 1) && !lua_isfunction(L, 1))
    pco__bad_argument(L, "set_logger",
                      "the logger must be a function or nil (got %s)",
                      luaL_typename(L, 1));
  lua_settop(L, 1);
  atomic_store(&lua->runtime.log.enabled,
               !lua_isnil(L, 1) || pco__embed_logs(lua->embedder));
  lua_rawsetp(L, LUA_REGISTRYINDEX, &logger_key);
  return 0;
}

/* ---- callbacks ----------------------------------------------------------- */

/* Waits for room, then writes no more than there is surely room for: the write
 * itself goes on after a signal, whoever takes nothing. 0: not yet. */
static ssize_t write_some(int fd, const char *data, size_t len) {
  struct pollfd p = {.fd = fd, .events = POLLOUT};
  int rc = poll(&p, 1, PCO__INTERRUPT_SLICE_NS / 1000000);
  if (rc <= 0)
    return rc;
  ssize_t n = pco__quiet_write_some(fd, data, len);
  return n < 0 && errno == EAGAIN ? 0 : n; /* the host made it non-blocking */
}

/* Copies a chunk to the host's own output; after Ctrl-C no more is. */
static void write_all(pco__lua *lua, box *b, const pco__chunk *c) {
  int fd = c->stream == PCO__STDERR ? STDERR_FILENO : STDOUT_FILENO;
  const char *data = c->data + c->start;
  size_t len = c->len - c->start;
  while (len > 0 && !b->cut) {
    ssize_t n = write_some(fd, data, len);
    if (n < 0 && errno != EINTR)
      return;
    b->cut = n <= 0 && pco__interrupted(lua, b->hook) &&
             pco__interrupted(lua, lua->main_hook);
    if (n > 0) {
      data += n;
      len -= (size_t)n;
    }
  }
}

/* A callback raised: its error, on top, is kept, and the command ends. */
static void callback_failed(lua_State *L, int at) {
  box *b = (box *)lua_touserdata(L, at);
  b->failed = true;
  lua_setiuservalue(L, at, BOX_ERROR);
  pco__op_cancel(b->op, PCO_ECANCELED);
}

/* The input function returned the value on top: bytes (none: it is asked
 * again), or nil at the end. */
static void give_input(lua_State *L, int at) {
  box *b = (box *)lua_touserdata(L, at);
  size_t len = 0;
  const char *s = lua_tolstring(L, -1, &len);
  char *copy = s ? malloc(len + 1) : NULL;
  if (s && !copy) { /* not the end of the input, which NULL would say */
    pco__push_error(L, pco__error_no_memory(), b->op->cls->name);
    callback_failed(L, at);
    return;
  }
  if (copy)
    memcpy(copy, s, len);
  pco__exec_give(PCO_CONTAINER(b->op, pco__exec, op), copy, len);
}

/* Only in the task that entered it: it may be somebody else that resumed L. */
static void leave_callback(lua_State *L, const box *b) {
  pco__lua *lua = pco__lua_of(L);
  if (b->portal || (lua->current && lua->current->co == L))
    *nesting(lua) = b->nested;
}

/* The callback forked the host, and this is the child: the call is the parent's
 * and never ends here.  An error of the callback is on top. */
static void forked_in_callback(lua_State *L, const box *b, int status) {
  if (status != LUA_OK && status != LUA_YIELD)
    lua_error(L);
  pco__raise_new(L, PCO_EFORKED, b->op->cls->name,
                 "this program was forked by a callback of this call, which "
                 "belongs to the parent process");
}

/* What a callback left, however it came back. */
static void after_call(lua_State *L, int at, int status) {
  box *b = (box *)lua_touserdata(L, at);
  int call = b->call;
  b->call = NO_CALL;
  leave_callback(L, b);
  if (pco__is_parents(b->lua, b->generation))
    forked_in_callback(L, b, status);
  if (status != LUA_OK && status != LUA_YIELD) {
    callback_failed(L, at);
  } else if (call == INPUT_CALL) {
    if (!lua_isnil(L, -1) && lua_type(L, -1) != LUA_TSTRING) {
      pco__push_error(L,
                      pco__error_new(PCO_EINVAL, PCO_SOURCE_HOST, NULL,
                                     "the input function must return a string "
                                     "or nil (got %s)",
                                     luaL_typename(L, -1)),
                      b->op->cls->name);
      callback_failed(L, at);
    } else {
      give_input(L, at);
    }
  }
  lua_settop(L, at);
}

static int step(lua_State *L, int status, lua_KContext at);

/* Calls the function on the stack below n_args arguments.  In a task it may
 * wait, then step() continues; else it must not. */
static void call_back(lua_State *L, int at, int call, int n_args,
                      int n_results) {
  box *b = (box *)lua_touserdata(L, at);
  b->call = call;
  *nesting(pco__lua_of(L)) = (short)(b->nested + 1);
  lua_KFunction k = b->op->loop->is_portal ? NULL : step;
  int status = lua_pcallk(L, n_args, n_results, 0, at, k);
  after_call(L, at, status);
}

/* Gives the first chunk in the box to whom it is for. */
static void output_one(lua_State *L, int at) {
  box *b = (box *)lua_touserdata(L, at);
  const pco__chunk *c = b->chunks.first;
  if (b->tee && !b->failed)
    write_all(pco__lua_of(L), b, c);
  bool wanted = b->has_output_function && !b->failed;
  if (wanted) {
    lua_getiuservalue(L, at, BOX_ON_OUTPUT);
    pco__push_output(L, c);
  }
  free(pco__chunks_shift(&b->chunks));
  if (wanted)
    call_back(L, at, OUTPUT_CALL, 1, 0);
}

/* Works off what the op has for the script's functions. */
static void serve_offers(lua_State *L, int at) {
  box *b = (box *)lua_touserdata(L, at);
  while (!b->failed) {
    lua_getiuservalue(L, at, BOX_ON_OUTPUT);
    if (!b->op->cls->offer(L, b->op))
      break;
    call_back(L, at, OUTPUT_CALL, 1, 0);
  }
}

/* The same for commands. */
static void serve(lua_State *L, int at) {
  box *b = (box *)lua_touserdata(L, at);
  pco__exec *e = PCO_CONTAINER(b->op, pco__exec, op);
  for (;;) {
    bool wanted = false;
    if (!b->chunks.count)
      pco__exec_take(e, &b->chunks, &wanted);
    b->input_wanted |= wanted;
    if (b->chunks.count) {
      output_one(L, at);
      continue;
    }
    if (b->input_wanted && !b->failed) {
      b->input_wanted = false;
      lua_getiuservalue(L, at, BOX_INPUT);
      call_back(L, at, INPUT_CALL, 0, 1);
    }
    return; /* after input too: the command may have ended meanwhile */
  }
}

/* ---- waiting ------------------------------------------------------------- */

/* Ctrl-C came: the op is cancelled, and what would raise the interrupt is put
 * away, so that it does not raise a second time. */
static void interrupt(pco__lua *lua, box *b) {
  b->interrupt = lua_gethook(lua->main);
  b->interrupt_mask = lua_gethookmask(lua->main);
  b->interrupt_count = lua_gethookcount(lua->main);
  b->give_up_at = uv_hrtime() + ABANDON_AFTER_NS;
  pco__clear_interrupt(lua);
  pco__op_cancel(b->op, PCO_EINTERRUPTED);
}

/* The op of an interrupted call is done.  Its error is how the script hears of
 * the interrupt; a result that came first leaves it to be raised. */
static void settle_interrupt(pco__lua *lua, box *b) {
  if (b->interrupt && !b->op->error && !b->failed)
    lua_sethook(lua->main, b->interrupt, b->interrupt_mask, b->interrupt_count);
  b->interrupt = NULL;
}

/* Blocks until the portal has something: PCO__OP_EVENT or PCO__OP_DONE, or
 * -EINTR when an interrupted call could not be cleaned up in time, or Ctrl-C
 * came again. */
static int block(lua_State *L, box *b) {
  pco__lua *lua = pco__lua_of(L);
  for (;;) {
    /* On the main thread the hook raises by itself, in the script's functions;
     * in a coroutine it cannot, however often the op has something for it. */
    if ((L != lua->main || b->cut) && !b->interrupt &&
        pco__interrupted(lua, b->hook)) {
      interrupt(lua, b);
      b->hook = NULL;
    }
    /* In slices: a signal just before the wait does not end it. */
    int rc = pco__op_wait(b->op, PCO__INTERRUPT_SLICE_NS);
    if (rc == PCO__OP_DONE)
      settle_interrupt(lua, b);
    if (rc >= 0)
      return rc;
    bool interrupted = pco__interrupted(lua, b->hook);
    if (b->interrupt && (interrupted || uv_hrtime() > b->give_up_at)) {
      pco__clear_interrupt(lua);
      return -EINTR;
    }
    if (interrupted) {
      interrupt(lua, b);
      b->hook = NULL;
    }
  }
}

/* Adds what an op's error has of the command to the object on top. */
static void add_partial(lua_State *L, pco__op *op) {
  const pco__op_class *cls = op->cls;
  char **argv = NULL;
  pco__result *r = NULL;
  if (cls == &pco__exec_class || cls == &pco__output_class) {
    pco__exec *e = PCO_CONTAINER(op, pco__exec, op);
    argv = e->opts.argv;
    r = e->result;
  } else if (cls->push == pco__spawn_class.push) {
    const pco__process_op *o = PCO_CONTAINER(op, pco__process_op, op);
    argv = o->opts.argv;
    r = o->result;
  } else if (cls->push == pco__wait_class.push || pco__is_wait_for(op)) {
    pco__process_op *o = PCO_CONTAINER(op, pco__process_op, op);
    argv = o->process->argv;
    r = o->result;
  }
  if (cls == &pco__write_class) {
    const pco__process_op *o = PCO_CONTAINER(op, pco__process_op, op);
    if (!o->process->via_plugin)
      pco__set_integer(L, "written", (lua_Integer)o->written);
  }
  if (cls == &pco__file_write_class)
    pco__set_integer(L, "written",
                     (lua_Integer)PCO_CONTAINER(op, pco__fs_op, op)->n_written);
  if (argv)
    pco__set_argv(L, argv);
  if (r) {
    pco__push_result(L, r);
    lua_setfield(L, -2, "result");
  }
}

static int finish(lua_State *L, int at) {
  box *b = (box *)lua_touserdata(L, at);
  pco__op *op = b->op;
  b->submitted = false;
  op->task = NULL;
  if (b->failed) {
    lua_getiuservalue(L, at, BOX_ERROR);
    empty_box(b);
    return lua_error(L);
  }
  if (!op->error) {
    int n = op->cls->push(L, op);
    if (n != PCO__OP_AGAIN)
      empty_box(b);
    return n;
  }
  pco__error *err = op->error;
  op->error = NULL;
  pco__push_error(L, err, op->cls->name);
  pco__add_context(L, 1);
  add_partial(L, op);
  if (!b->portal)
    pco__add_reason(L, pco__lua_of(L)->current);
  empty_box(b);
  return lua_error(L);
}

static bool is_done(const box *b) {
  return atomic_load_explicit(&b->op->word, memory_order_acquire) ==
         PCO__OP_DONE;
}

/* The scheduler finds out that the task's coroutine has ended. */
static int raise_foreign(lua_State *L, box *b) {
  const char *name = b->op->cls->name;
  empty_box(b);
  return pco__raise_foreign(L, name);
}

/* Starts the op in the box. */
static void submit(pco__lua *lua, box *b, bool in_task) {
  if (!b->portal)
    b->op->task = lua->current;
  b->submitted = true;
  b->fresh = !b->portal && in_task && b->op->cls->again;
  pco__op_submit(b->op);
  if (!b->portal && !in_task)
    pco__drive_until_done(lua, b->op, b->hook);
}

/* Puts a fresh op like the finished one in the box and starts it. */
static void start_again(lua_State *L, box *b) {
  pco__op *next = b->op->cls->again(b->op);
  const char *name = b->op->cls->name;
  pco__portal_ref(b->portal);
  pco__portal *portal = b->portal;
  empty_box(b);
  b->op = next;
  b->portal = portal;
  if (!next)
    pco__raise(L, pco__error_no_memory(), name, 1);
  submit(pco__lua_of(L), b, true);
}

static void cancel_op(lua_State *L, pco__task *task, pco__op *op) {
  const pco__cancel *c = pco__refusal(L, task);
  if (c)
    pco__op_cancel(op, pco__cancel_code(c));
}

static int step(lua_State *L, int status, lua_KContext context) {
  int at = (int)context;
  box *b = (box *)lua_touserdata(L, at);
  bool sync = b->op->loop->is_portal;
  if (b->call != NO_CALL)
    after_call(L, at, status);
  for (;;) {
    lua_settop(L, at);
    bool done = is_done(b) && !b->fresh;
    if (b->calls_back && b->op->cls->offer)
      serve_offers(L, at);
    else if (b->calls_back)
      serve(L, at);
    if (b->op->cls->event)
      b->op->cls->event(L, b->op, done);
    if (done) {
      int n = finish(L, at);
      if (n != PCO__OP_AGAIN)
        return n;
      start_again(L, b);
      continue;
    }
    if (sync && block(L, b) < 0)
      return pco__raise(L,
                        pco__error_new(PCO_EINTERRUPTED, PCO_SOURCE_HOST, NULL,
                                       "interrupted; its clean-up goes on"),
                        b->op->cls->name, 1);
    if (sync)
      continue;
    if (!pco__may_wait(L))
      return raise_foreign(L, b);
    pco__task *task = pco__lua_of(L)->current;
    /* A callback may have caught the error that tells of a cancellation. */
    if (!b->op->cls->shielded)
      cancel_op(L, task, b->op);
    /* A reader of a fast process gives way once a batch, or nobody else would
     * ever run. */
    if (b->op->completed && !b->fresh)
      continue;
    b->fresh = false;
    return pco__task_suspend(L, b->op, at, step);
  }
}

void pco__check_wait(lua_State *L, const pco__op_class *cls) {
  pco__check_place(L, cls->name);
  pco__check_cancelled(L, cls->name);
}

int pco__await(lua_State *L, int at) {
  box *b = (box *)lua_touserdata(L, at);
  pco__lua *lua = pco__lua_of(L);
  pco__op *op = b->op;
  pco__deliver_log(L, lua);
  bool in_task = pco__may_wait(L);
  if (!b->portal && !op->cls->shielded)
    pco__check_wait(L, op->cls);
  if (b->portal && !op->cls->shielded && L != lua->main &&
      pco__interrupted(lua, pco__main_hook(lua, L))) {
    pco__clear_interrupt(lua); /* it came before; nothing is started */
    pco__raise(L, pco__error_new(PCO_EINTERRUPTED, PCO_SOURCE_HOST, NULL, NULL),
               op->cls->name, 1);
  }
  b->hook = pco__main_hook(lua, L);
  submit(lua, b, in_task);
  return step(L, LUA_OK, at);
}

const pco__core_function pco__wait_functions[] = {{"set_logger", set_logger},
                                                  {NULL, NULL}};
