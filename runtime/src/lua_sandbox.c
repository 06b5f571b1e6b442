/* SPDX-License-Identifier: MIT */
/* Core functions of Sandbox: commands, what runs in it, its end. */
#include "lua_sandbox.h"

#include "exec.h"
#include "lua_args.h"
#include "lua_error.h"
#include "lua_limits.h"
#include "lua_process.h"
#include "lua_wait.h"
#include "process_ops.h"
#include "signals.h"

/* ---- sandbox: exec, output, spawn ---------------------------------------- */

/* The one list of what exec and output take; spawn takes it without the
 * callbacks and `input`. */
static const char *const exec_options[] = {
    "input",      "on_output", "tee",    "cwd",     "env",   "clean_env",
    "stdin",      "stdout",    "stderr", "timeout", "grace", "check",
    "max_output", "drain",     "limits", "pty",     "user",  NULL};
#define SPAWN_OPTIONS (exec_options + 3)

#define DEFAULT_COLS 80
#define DEFAULT_ROWS 24

/* A size of the terminal at the top of the stack; `what` is "pty." and its name
 * there. */
static uint16_t opt_size(lua_State *L, const char *name, const char *what,
                         uint16_t otherwise) {
  if (!pco__get_option(L, -1, what + sizeof "pty"))
    return otherwise;
  uint16_t size = pco__arg_uint16(L, lua_gettop(L), name, what);
  lua_pop(L, 1);
  return size;
}

/* A terminal is stdin, stdout and stderr at once. */
static void refuse_streams(lua_State *L, const char *name,
                           const pco__spawn_opts *o) {
  if (o->in == PCO__CLOSED)
    pco__bad_argument(L, name,
                      "with pty stdin is the terminal: leave out stdin");
  if (o->out != PCO__PIPE || o->err != PCO__PIPE)
    pco__bad_argument(L, name, "with pty %s goes to the terminal: leave out %s",
                      o->out != PCO__PIPE ? "stdout" : "stderr",
                      o->out != PCO__PIPE ? "stdout" : "stderr");
}

static void parse_terminal(lua_State *L, const char *name, pco__spawn_opts *o) {
  static const char *const known[] = {"cols", "rows", "echo", NULL};
  if (!pco__get_option(L, 3, "pty"))
    return;
  if (!lua_isboolean(L, -1) && !lua_istable(L, -1))
    pco__bad_argument(L, name,
                      "pty must be true, or a table of cols, rows and echo "
                      "(got %s)",
                      pco__describe(L, -1));
  o->terminal = lua_toboolean(L, -1);
  o->cols = DEFAULT_COLS;
  o->rows = DEFAULT_ROWS;
  o->echo = true;
  if (lua_istable(L, -1)) {
    int at = lua_gettop(L);
    pco__check_options(L, at, name, known);
    o->cols = opt_size(L, name, "pty.cols", DEFAULT_COLS);
    o->rows = opt_size(L, name, "pty.rows", DEFAULT_ROWS);
    o->echo = pco__opt_boolean(L, at, name, "echo", true);
  }
  lua_pop(L, 1);
  if (o->terminal)
    refuse_streams(L, name, o);
}

static void parse_command(lua_State *L, const char *name, pco__arena *arena,
                          pco__spawn_opts *o) {
  static const char *const modes[] = {"pipe", "null", "closed", NULL};
  static const char *const err_modes[] = {"pipe", "null", "closed", "merge",
                                          NULL};
  pco__arg_command(L, 2, name, arena, o);
  o->env = pco__opt_env(L, 3, name, arena);
  o->cwd = pco__opt_string(L, 3, name, "cwd", arena);
  if (o->cwd && !o->cwd[0])
    pco__bad_argument(L, name, "cwd must not be empty");
  o->user = pco__opt_string(L, 3, name, "user", arena);
  if (o->user && !o->user[0])
    pco__bad_argument(L, name,
                      "user must be \"USER\" or \"USER:GROUP\", of names or "
                      "numbers (got an empty string)");
  o->clean_env = pco__opt_boolean(L, 3, name, "clean_env", false);
  o->in = pco__opt_choice(L, 3, name, "stdin", modes, PCO__NULL);
  o->out = pco__opt_choice(L, 3, name, "stdout", modes, PCO__PIPE);
  o->err = pco__opt_choice(L, 3, name, "stderr", err_modes, PCO__PIPE);
  parse_terminal(L, name, o);
  o->timeout = (uint64_t)pco__opt_seconds(L, 3, name, "timeout", 0, false);
  o->grace =
      (uint64_t)pco__opt_span(L, 3, name, "grace", PCO__DEFAULT_GRACE_NS);
  o->drain =
      (uint64_t)pco__opt_span(L, 3, name, "drain", PCO__DEFAULT_DRAIN_NS);
  o->max_output = pco__opt_size(L, 3, name, "max_output",
                                PCO__DEFAULT_MAX_OUTPUT, SIZE_MAX / 4);
  o->check = pco__opt_boolean(L, 3, name, "check", false);
  pco_limits *limits = pco__arena_alloc(arena, sizeof *limits);
  pco__check_arena(L, name, arena);
  if (pco__opt_limits(L, 3, name, true, limits))
    o->limits = limits;
}

static void parse_input(lua_State *L, const char *name, pco__exec *e) {
  if (!pco__get_option(L, 3, "input"))
    return;
  if (lua_isfunction(L, -1)) {
    e->asks_input = true;
  } else {
    if (lua_type(L, -1) != LUA_TSTRING)
      pco__bad_argument(L, name,
                        "input must be a string, or a function that returns "
                        "strings (got %s)",
                        pco__describe(L, -1));
    e->input = pco__arg_bytes(L, lua_gettop(L), name, "input", &e->op.arena,
                              &e->input_len);
  }
  e->opts.in = PCO__PIPE;
  lua_pop(L, 1);
}

/* Without input, a pipe that nobody will ever write to would only hang. */
static void check_stdin(lua_State *L, const char *name, const pco__exec *e) {
  if (e->opts.in == PCO__PIPE && !e->opts.terminal && !e->input &&
      !e->asks_input)
    pco__bad_argument(L, name,
                      "stdin = \"pipe\" needs input here; to write later, use "
                      "spawn and its write");
}

static int run_command(lua_State *L, const pco__op_class *cls) {
  const char *name = cls->name;
  pco__handle *h = pco__open_self(L, PCO__SANDBOX, name);
  lua_settop(L, 3);
  pco__check_options(L, 3, name, exec_options);
  pco__op *op = pco__new_op(L, cls, sizeof(pco__exec), h->loop);
  pco__exec *e = PCO_CONTAINER(op, pco__exec, op);
  pco__sandbox_ref(h->sandbox);
  e->sandbox = h->sandbox;
  e->output_only = cls == &pco__output_class;
  parse_command(L, name, &op->arena, &e->opts);
  parse_input(L, name, e);
  check_stdin(L, name, e);
  if (e->output_only)
    e->opts.check = pco__opt_boolean(L, 3, name, "check", true);
  bool tee = pco__opt_boolean(L, 3, name, "tee", false);
  e->wants_chunks = pco__opt_function(L, 3, name, "on_output") || tee;
  if (e->wants_chunks || e->asks_input)
    pco__keep_callbacks(L, 4, 3, tee);
  return pco__await(L, 4);
}

static int sandbox_exec(lua_State *L) {
  return run_command(L, &pco__exec_class);
}

static int sandbox_output(lua_State *L) {
  return run_command(L, &pco__output_class);
}

/* What only exec takes gets an answer of its own. */
static void refuse_exec_options(lua_State *L, const char *name) {
  static const char *const hints[] = {"input: use stdin = \"pipe\" and write",
                                      "on_output: use chunks",
                                      "tee: use chunks"};
  for (int i = 0; i < 3; i++)
    if (pco__get_option(L, 3, exec_options[i]))
      pco__bad_argument(L, name, "spawn does not take %s", hints[i]);
}

static int sandbox_spawn(lua_State *L) {
  const char *name = "spawn";
  pco__handle *h = pco__open_self(L, PCO__SANDBOX, name);
  lua_settop(L, 3);
  refuse_exec_options(L, name);
  pco__check_options(L, 3, name, SPAWN_OPTIONS);
  pco__op *op =
      pco__new_op(L, &pco__spawn_class, sizeof(pco__process_op), h->loop);
  pco__process_op *o = PCO_CONTAINER(op, pco__process_op, op);
  pco__sandbox_ref(h->sandbox);
  o->sandbox = h->sandbox;
  parse_command(L, name, &op->arena, &o->opts);
  return pco__await(L, 4);
}

/* ---- sandbox: processes, process, info, close -----------------------------
 */

static pco__look_op *new_look(lua_State *L, pco__handle *h,
                              const pco__op_class *cls, int options,
                              const char *const *known) {
  pco__check_options(L, options, cls->name, known);
  int64_t timeout =
      pco__opt_seconds(L, options, cls->name, "timeout", -1, true);
  pco__op *op = pco__new_op(L, cls, sizeof(pco__look_op), h->loop);
  pco__look_op *o = PCO_CONTAINER(op, pco__look_op, op);
  pco__sandbox_ref(h->sandbox);
  o->sandbox = h->sandbox;
  op->timeout = timeout;
  return o;
}

static int sandbox_processes(lua_State *L) {
  static const char *const known[] = {"timeout", "all", NULL};
  pco__handle *h = pco__open_self(L, PCO__SANDBOX, "sandbox.processes");
  lua_settop(L, 2);
  bool all = pco__opt_boolean(L, 2, "sandbox.processes", "all", false);
  new_look(L, h, &pco__processes_class, 2, known)->all = all;
  return pco__await(L, 3);
}

static int sandbox_process(lua_State *L) {
  const char *name = "sandbox.process";
  pco__handle *h = pco__open_self(L, PCO__SANDBOX, name);
  lua_settop(L, 3);
  int exact = 0;
  lua_Integer pid =
      lua_type(L, 2) == LUA_TNUMBER ? lua_tointegerx(L, 2, &exact) : 0;
  if (!exact || pid <= 0)
    pco__bad_argument(L, name, "the pid must be a positive integer (got %s)",
                      pco__describe(L, 2));
  new_look(L, h, &pco__process_class, 3, pco__timeout_only)->pid = pid;
  return pco__await(L, 4);
}

static int sandbox_info(lua_State *L) {
  pco__handle *h = pco__open_self(L, PCO__SANDBOX, "sandbox.info");
  lua_settop(L, 2);
  new_look(L, h, &pco__info_class, 2, pco__timeout_only);
  return pco__await(L, 3);
}

/* The Sandbox at 1, and the Backend that shares its fate. */
static void mark_closed(lua_State *L, const pco__handle *h) {
  pco__mark_closed(L, 1);
  if (!h->owns_backend)
    return;
  lua_getfield(L, 1, "backend");
  pco__handle *b = pco__handle_at(L, -1);
  if (b && b->shared)
    pco__mark_closed(L, -1);
  lua_pop(L, 1);
}

static int sandbox_close(lua_State *L) {
  pco__handle *h = pco__self_to_close(L, PCO__SANDBOX, "sandbox.close");
  lua_settop(L, 2);
  if (h->closed) {
    lua_pushboolean(L, 0);
    return 1;
  }
  pco__backend_op *o = pco__new_backend_op(L, h, &pco__sandbox_close_class, 2);
  pco__sandbox_ref(h->sandbox);
  o->sandbox = h->sandbox;
  o->with_backend = h->owns_backend;
  mark_closed(L, h);
  return pco__await(L, 3);
}

/* The handle is closed once the sandbox is left, not before. */
static int sandbox_detach(lua_State *L) {
  pco__handle *h = pco__open_self(L, PCO__SANDBOX, "sandbox.detach");
  lua_settop(L, 2);
  pco__backend_op *o = pco__new_backend_op(L, h, &pco__detach_class, 2);
  pco__sandbox_ref(h->sandbox);
  o->sandbox = h->sandbox;
  o->with_backend = h->owns_backend;
  return pco__await(L, 3);
}

int pco__push_detached(lua_State *L, pco__op *op) {
  pco__backend_op *o = PCO_CONTAINER(op, pco__backend_op, op);
  lua_pushstring(L, o->sandbox->id);
  mark_closed(L, pco__handle_at(L, 1));
  pco__push_true(L, op);
  lua_pop(L, 1);
  return 1;
}

static void push_seen(lua_State *L, const pco__seen_process *seen) {
  const pco__process *p = seen->process;
  lua_createtable(L, 0, 6);
  pco__set_integer(L, "pid", p->pid);
  pco__set_time(L, "started", p->started_at);
  pco__set_argv(L, p->argv);
  pco__set_string(L, "state", seen->ended ? "exited" : "running");
  if (seen->ended)
    pco__set_integer(L, "code", seen->code);
  if (seen->signal)
    pco__set_string(L, "signal", pco__signal_name(seen->signal));
}

int pco__push_processes(lua_State *L, pco__op *op) {
  pco__look_op *o = PCO_CONTAINER(op, pco__look_op, op);
  lua_createtable(L, (int)o->n_seen, 0);
  for (size_t i = 0; i < o->n_seen; i++) {
    push_seen(L, &o->seen[i]);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}

int pco__push_found_process(lua_State *L, pco__op *op) {
  pco__look_op *o = PCO_CONTAINER(op, pco__look_op, op);
  pco__push_process(L, &o->process, 1);
  return 1;
}

static const char *sandbox_state(int state) {
  return state == PCO__SANDBOX_RUNNING || state == PCO__SANDBOX_DETACHING
             ? "running"
         : state == PCO__SANDBOX_DEAD ? "dead"
                                      : "closed";
}

int pco__push_info(lua_State *L, pco__op *op) {
  pco__look_op *o = PCO_CONTAINER(op, pco__look_op, op);
  const pco__sandbox *sb = o->sandbox;
  lua_createtable(L, 0, 10);
  lua_pushstring(L, sb->id);
  lua_setfield(L, -2, "id");
  lua_pushstring(L, sb->name);
  lua_setfield(L, -2, "name");
  lua_pushstring(L, sb->image);
  lua_setfield(L, -2, "image");
  lua_pushstring(L, sb->backend->info->id);
  lua_setfield(L, -2, "backend");
  lua_pushstring(L, sandbox_state(o->state));
  lua_setfield(L, -2, "state");
  pco__set_time(L, "created", sb->created);
  pco__set_time(L, "expires", sb->expires);
  pco__set_labels(L, sb->labels, sb->n_labels);
  if (sb->pid > 0) {
    lua_pushinteger(L, sb->pid);
    lua_setfield(L, -2, "pid");
  }
  return 1;
}

const pco__core_function pco__sandbox_functions[] = {
    {"sandbox_exec", sandbox_exec},
    {"sandbox_output", sandbox_output},
    {"sandbox_spawn", sandbox_spawn},
    {"sandbox_processes", sandbox_processes},
    {"sandbox_process", sandbox_process},
    {"sandbox_info", sandbox_info},
    {"sandbox_detach", sandbox_detach},
    {"sandbox_close", sandbox_close},
    {NULL, NULL}};
