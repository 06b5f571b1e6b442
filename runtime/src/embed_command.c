/* SPDX-License-Identifier: MIT */
/* Commands of a host in C: run, or started and read, written, waited for. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "embed_call.h"
#include "exec.h"
#include "farewell.h"
#include "fields.h"
#include "limit_bounds.h"
#include "process_ops.h"
#include "sandbox_ops.h"
#include "wait_for.h"
#include "wire.h"

_Static_assert((int)PCO_BY_EXIT == (int)PCO_REASON_EXITED &&
                   (int)PCO_BY_SIGNAL == (int)PCO_REASON_SIGNALED &&
                   (int)PCO_BY_TIMEOUT == (int)PCO_REASON_TIMEOUT &&
                   (int)PCO_BY_KILL == (int)PCO_REASON_KILLED &&
                   (int)PCO_BY_OOM == (int)PCO_REASON_OOM,
               "the reasons are those of the wire");

#define ALL_FLAGS                                                              \
  (PCO_EXEC_STDIN | PCO_EXEC_CLEAN_ENV | PCO_EXEC_MERGE | PCO_EXEC_NO_STDOUT | \
   PCO_EXEC_NO_STDERR | PCO_EXEC_CHECK | PCO_EXEC_PTY | PCO_EXEC_NO_ECHO)
#define STREAM_FLAGS                                                           \
  (PCO_EXEC_STDIN | PCO_EXEC_MERGE | PCO_EXEC_NO_STDOUT | PCO_EXEC_NO_STDERR)
#define DEFAULT_COLS 80
#define DEFAULT_ROWS 24

/* ---- what to run --------------------------------------------------------- */

/* "K=V", or "K" to remove it: K is needed. */
static bool has_nameless(const char *const *env) {
  for (; env && *env; env++)
    if (**env == 0 || **env == '=')
      return true;
  return false;
}

static const char *bad_options(const pco_exec_opts *o) {
  if (!o->argv == !o->shell)
    return "give either argv or shell";
  if (o->argv && (!o->argv[0] || !o->argv[0][0]))
    return "argv needs at least a program";
  if (o->shell && !o->shell[0])
    return "the line for the shell is empty";
  if (o->flags & ~ALL_FLAGS)
    return "a flag is unknown";
  if (!o->input && o->input_len > 0)
    return "input_len is not 0, but input is NULL";
  if (o->user && !o->user[0])
    return "user is empty: write \"USER\" or \"USER:GROUP\", or NULL";
  if (has_nameless(o->env))
    return "an entry of env has no name: write \"K=V\", or \"K\" to remove K";
  return NULL;
}

static const char *bad_streams(const pco_exec_opts *o) {
  if (o->flags & PCO_EXEC_PTY && o->flags & STREAM_FLAGS)
    return "with PCO_EXEC_PTY all streams are the terminal's";
  if (!(o->flags & PCO_EXEC_PTY) &&
      (o->flags & PCO_EXEC_NO_ECHO || o->cols || o->rows))
    return "PCO_EXEC_NO_ECHO, cols and rows need PCO_EXEC_PTY";
  if (o->flags & PCO_EXEC_MERGE &&
      o->flags & (PCO_EXEC_NO_STDERR | PCO_EXEC_NO_STDOUT))
    return "PCO_EXEC_MERGE needs both streams";
  return o->max_output > SIZE_MAX / 4 ? "max_output is too large" : NULL;
}

/* As of `limits` in Lua, where 0 is not asked for.  What the sandbox cannot do
 * is the outcome of the call. */
static const char *bad_limits(const pco_limits *l) {
  if (l->memory_bytes && l->memory_bytes < PCO__LEAST_MEMORY)
    return "limits: memory_bytes of a command must be 0 (none), or 4 MiB "
           "(4194304) or more";
  if (l->memory_bytes > INT64_MAX || l->pids > INT64_MAX)
    return "limits: memory_bytes and pids must be 0 (none) to INT64_MAX";
  bool bounded = l->cpus >= PCO__LEAST_CPUS && l->cpus <= PCO__MOST_CPUS;
  if (l->cpus != 0 && !bounded) /* NaN, too */
    return "limits: cpus must be 0 (none), or 0.001 to 1000000";
  return NULL;
}

static int check_limits(pco_runtime *rt, const pco_limits *given) {
  pco_limits own;
  const pco_limits *l = &own;
  if (!given)
    return 0;
  if (pco__embed_take_limits(&own, given) < 0)
    return pco__embed_fail(rt, PCO_ESIZE, "struct_size of pco_limits");
  const char *bad = bad_limits(l);
  if (bad)
    return pco__embed_fail(rt, PCO_EINVAL, "%s", bad);
  return l->disk_bytes
             ? pco__embed_fail(rt, PCO_EUNSUPPORTED,
                               "limits: disk_bytes is not for one command: it "
                               "bounds the whole sandbox and belongs to "
                               "pco_create_opts")
             : 0;
}

/* *own: the options as we know them. */
static int take_options(pco_runtime *rt, const pco_exec_opts *opts,
                        pco_exec_opts *own) {
  if (!opts)
    return pco__embed_fail(rt, PCO_EINVAL, "the options are NULL");
  if (pco__embed_take(own, sizeof *own, PCO__END_OF(pco_exec_opts, rows), opts,
                      opts->size) < 0)
    return pco__embed_fail(rt, PCO_ESIZE, "the size of pco_exec_opts");
  const char *bad = bad_options(own);
  if (!bad)
    bad = bad_streams(own);
  return bad ? pco__embed_fail(rt, PCO_EINVAL, "%s", bad)
             : check_limits(rt, own->limits);
}

static void copy_limits(pco_pending *p, const pco_limits *limits,
                        pco__spawn_opts *o) {
  pco_limits *copy =
      limits ? pco__arena_alloc(&p->op->arena, sizeof *copy) : NULL;
  if (copy)
    pco__embed_take_limits(copy, limits);
  o->limits = copy;
}

static void set_terminal(const pco_exec_opts *opts, pco__spawn_opts *o) {
  o->terminal = (opts->flags & PCO_EXEC_PTY) != 0;
  o->echo = !(opts->flags & PCO_EXEC_NO_ECHO);
  o->cols = opts->cols ? opts->cols : DEFAULT_COLS;
  o->rows = opts->rows ? opts->rows : DEFAULT_ROWS;
}

static void copy_command(pco_pending *p, const pco_exec_opts *opts,
                         pco__spawn_opts *o) {
  const char *line[] = {"/bin/sh", "-c", opts->shell, NULL};
  o->shell = opts->shell != NULL;
  o->argv = pco__call_copy_list(p, o->shell ? line : opts->argv);
  o->env = pco__call_copy_list(p, opts->env);
  o->cwd = pco__call_copy(p, opts->cwd);
  o->user = pco__call_copy(p, opts->user);
  o->clean_env = (opts->flags & PCO_EXEC_CLEAN_ENV) != 0;
  o->in = opts->input || opts->flags & PCO_EXEC_STDIN ? PCO__PIPE : PCO__NULL;
  o->out = opts->flags & PCO_EXEC_NO_STDOUT ? PCO__NULL : PCO__PIPE;
  o->err = opts->flags & PCO_EXEC_NO_STDERR ? PCO__NULL
           : opts->flags & PCO_EXEC_MERGE   ? PCO__MERGE
                                            : PCO__PIPE;
  o->timeout = opts->timeout_ns;
  o->grace = opts->grace_ns ? opts->grace_ns : PCO__DEFAULT_GRACE_NS;
  o->drain = opts->drain_ns ? opts->drain_ns : PCO__DEFAULT_DRAIN_NS;
  o->max_output = opts->max_output ? opts->max_output : PCO__DEFAULT_MAX_OUTPUT;
  o->check = (opts->flags & PCO_EXEC_CHECK) != 0;
  set_terminal(opts, o);
  copy_limits(p, opts->limits, o);
}

/* What all calls on a box or a command begin with. */
static int begin(pco_box *box, const pco_exec_opts *opts, pco_exec_opts *own,
                 pco__caller *c) {
  int rc = pco__box_check(box);
  if (rc < 0)
    return rc;
  c->rt = box->rt;
  c->loop = box->loop;
  rc = pco__call_check(c);
  return rc < 0 ? rc : take_options(c->rt, opts, own);
}

int pco_exec(pco_box *box, const pco_exec_opts *opts, pco_done_fn done,
             void *ud, pco_pending **out) {
  pco__caller c = pco__call_from(done, ud, out);
  pco_exec_opts own;
  int rc = begin(box, opts, &own, &c);
  if (rc < 0)
    return rc;
  opts = &own;
  if (opts->flags & PCO_EXEC_STDIN)
    return pco__embed_fail(c.rt, PCO_EINVAL,
                           "PCO_EXEC_STDIN is for pco_command_start; here is "
                           "`input`");
  pco_pending *p = pco__call_new(&c, &pco__exec_class, sizeof(pco__exec));
  if (!p)
    return UV_ENOMEM;
  pco__exec *e = PCO_CONTAINER(p->op, pco__exec, op);
  pco__sandbox_ref(box->sandbox);
  e->sandbox = box->sandbox;
  copy_command(p, opts, &e->opts);
  if (opts->input) {
    e->input = pco__arena_copy(&p->op->arena, opts->input, opts->input_len);
    e->input_len = opts->input_len;
  }
  return pco__call_start(&c, p);
}

int pco_command_start(pco_box *box, const pco_exec_opts *opts, pco_done_fn done,
                      void *ud, pco_pending **out) {
  pco__caller c = pco__call_from(done, ud, out);
  pco_exec_opts own;
  int rc = begin(box, opts, &own, &c);
  if (rc < 0)
    return rc;
  opts = &own;
  if (opts->input)
    return pco__embed_fail(c.rt, PCO_EINVAL,
                           "`input` is for pco_exec; here is PCO_EXEC_STDIN "
                           "and pco_command_write");
  pco_pending *p =
      pco__call_new(&c, &pco__spawn_class, sizeof(pco__process_op));
  if (!p)
    return UV_ENOMEM;
  pco__process_op *o = PCO_CONTAINER(p->op, pco__process_op, op);
  pco__sandbox_ref(box->sandbox);
  o->sandbox = box->sandbox;
  copy_command(p, opts, &o->opts);
  return pco__call_start(&c, p);
}

/* ---- the result ---------------------------------------------------------- */

static const pco__result *result_of(const pco_pending *p) {
  if (pco__call_is(p, &pco__exec_class))
    return PCO_CONTAINER(p->op, pco__exec, op)->result;
  if (pco__call_is(p, &pco__wait_class) || pco__call_is(p, &pco__kill_class))
    return PCO_CONTAINER(p->op, pco__process_op, op)->result;
  return NULL;
}

static const char *bytes_of(const pco__capture *c) {
  return c->data ? c->data : "";
}

static size_t cut_at(const pco__capture *c) {
  return c->dropped ? pco__capture_head(c) : c->len;
}

int pco_pending_result(pco_pending *pending, pco_exec_result *result) {
  int rc = pco__call_ended(pending);
  if (rc < 0 || !result)
    return rc < 0 ? rc : PCO_EINVAL;
  const pco__result *r = result_of(pending);
  if (!r)
    return UV_ENOENT;
  pco_exec_result ours = {
      .size = result->size,
      .code = r->exit.code,
      .signal = r->exit.signal,
      .reason = r->exit.oom ? PCO_BY_OOM : (uint32_t)r->exit.reason,
      .eof = r->eof,
      .pid = r->pid,
      .duration_ns = r->exit.duration,
      .out = bytes_of(&r->out[PCO__STDOUT]),
      .out_len = r->out[PCO__STDOUT].len,
      .err = bytes_of(&r->out[PCO__STDERR]),
      .err_len = r->out[PCO__STDERR].len,
      .out_bytes = r->bytes[PCO__STDOUT],
      .err_bytes = r->bytes[PCO__STDERR],
      .survivors = (uint32_t)r->exit.n_survivors,
      .limit = pco__limit_name((uint64_t)r->exit.limit),
      .out_cut = cut_at(&r->out[PCO__STDOUT]),
      .err_cut = cut_at(&r->out[PCO__STDERR]),
  };
  return pco__embed_give(result, result->size, &ours, sizeof ours,
                         PCO__END_OF(pco_exec_result, reserved));
}

/* ---- commands ------------------------------------------------------------ */

/* Where a call has put the command that it started, or found; NULL: it does
 * neither. */
static pco__process **made_by(pco_pending *p) {
  if (pco__call_is(p, &pco__spawn_class))
    return &PCO_CONTAINER(p->op, pco__process_op, op)->process;
  if (pco__call_is(p, &pco__process_class))
    return &PCO_CONTAINER(p->op, pco__look_op, op)->process;
  return NULL;
}

pco_command *pco_pending_command(pco_pending *pending) {
  if (pco__call_ended(pending) < 0 || !pending->rt)
    return NULL;
  pco__process **made = made_by(pending);
  pco_command *c =
      made && *made && !pending->op->error ? calloc(1, sizeof *c) : NULL;
  if (!c)
    return NULL;
  c->rt = pending->rt;
  c->loop = pending->op->loop;
  c->portal = pending->portal;
  pco__portal_ref(c->portal);
  c->process = *made;
  *made = NULL;
  pco__list_append(&c->rt->commands, &c->node);
  return c;
}

int64_t pco_command_pid(const pco_command *command) {
  if (!command)
    return PCO_EINVAL;
  int rc = command->rt ? pco__embed_check(command->rt) : PCO_ECLOSED;
  return rc < 0 ? rc : command->process->pid;
}

static void leave(pco_command *c) {
  pco__say_farewell(c->loop, (pco__farewell){.process = c->process,
                                             .how = PCO__FAREWELL_RELEASE});
  c->process = NULL;
}

void pco_command_release(pco_command *command) {
  if (!command || (command->rt && pco__embed_check(command->rt) < 0))
    return;
  if (command->rt) {
    leave(command);
    pco__embed_touch(command->rt);
  }
  pco__list_remove(&command->node);
  pco__portal_unref(command->portal);
  free(command);
}

void pco__embed_orphan_commands(pco_runtime *rt) {
  for (pco__node *n; (n = pco__list_shift(&rt->commands)) != NULL;) {
    pco_command *c = PCO_CONTAINER(n, pco_command, node);
    leave(c);
    c->rt = NULL;
  }
}

/* Makes an op of this class, which begins with a pco__process_op, on the
 * command. */
static int new_op_of(pco_command *command, const pco__op_class *cls,
                     size_t size, pco__caller *c, pco_pending **p) {
  if (!command)
    return PCO_EINVAL;
  if (!command->rt)
    return PCO_ECLOSED;
  c->rt = command->rt;
  c->loop = command->loop;
  int rc = pco__call_check(c);
  if (rc < 0)
    return rc;
  *p = pco__call_new(c, cls, size);
  if (!*p)
    return UV_ENOMEM;
  pco__process_ref(command->process);
  PCO_CONTAINER((*p)->op, pco__process_op, op)->process = command->process;
  return 0;
}

static int new_op(pco_command *command, const pco__op_class *cls,
                  pco__caller *c, pco_pending **p) {
  return new_op_of(command, cls, sizeof(pco__process_op), c, p);
}

static pco__process_op *op_of(pco_pending *p) {
  return PCO_CONTAINER(p->op, pco__process_op, op);
}

/* One that needs no arguments. */
static int simple(pco_command *command, const pco__op_class *cls,
                  pco__caller *c) {
  pco_pending *p;
  int rc = new_op(command, cls, c, &p);
  return rc < 0 ? rc : pco__call_start(c, p);
}

int pco_command_read(pco_command *command, pco_done_fn done, void *ud,
                     pco_pending **out) {
  pco__caller c = pco__call_from(done, ud, out);
  return simple(command, &pco__read_class, &c);
}

int pco_pending_chunk(pco_pending *pending, size_t i, const char **data,
                      size_t *len) {
  if (!data || !len)
    return PCO_EINVAL;
  *data = NULL;
  *len = 0;
  int rc = pco__call_ended(pending);
  if (rc < 0 || !pco__call_is(pending, &pco__read_class))
    return rc;
  const pco__chunk *chunk =
      op_of(pending)->chunks.last ? op_of(pending)->chunks.first : NULL;
  while (chunk && i-- > 0)
    chunk = chunk->next;
  if (!chunk)
    return 0;
  *data = chunk->data + chunk->start;
  *len = chunk->len - chunk->start;
  return chunk->stream == PCO__STDERR ? 2 : 1;
}

int pco_command_write(pco_command *command, const void *data, size_t len,
                      pco_done_fn done, void *ud, pco_pending **out) {
  pco__caller c = pco__call_from(done, ud, out);
  pco_pending *p;
  int rc = new_op(command, &pco__write_class, &c, &p);
  if (rc < 0)
    return rc;
  if (!data && len)
    return pco__call_drop(p, pco__embed_fail(c.rt, PCO_EINVAL, "no data"));
  if (!command->process->had_stdin)
    return pco__call_drop(p, pco__embed_fail(c.rt, PCO_EINVAL,
                                             "the command was started without "
                                             "PCO_EXEC_STDIN"));
  op_of(p)->data = pco__arena_copy(&p->op->arena, data ? data : "", len);
  op_of(p)->len = len;
  return pco__call_start(&c, p);
}

int pco_command_close_stdin(pco_command *command, pco_done_fn done, void *ud,
                            pco_pending **out) {
  pco__caller c = pco__call_from(done, ud, out);
  return simple(command, &pco__close_stdin_class, &c);
}

int pco_command_resize(pco_command *command, uint16_t cols, uint16_t rows,
                       pco_done_fn done, void *ud, pco_pending **out) {
  pco__caller c = pco__call_from(done, ud, out);
  pco_pending *p;
  int rc = new_op(command, &pco__resize_class, &c, &p);
  if (rc < 0)
    return rc;
  if (!cols || !rows || !command->process->terminal)
    return pco__call_drop(
        p, pco__embed_fail(c.rt, PCO_EINVAL,
                           command->process->terminal
                               ? "cols and rows must be 1 or more"
                               : "the command was started without "
                                 "PCO_EXEC_PTY"));
  op_of(p)->cols = cols;
  op_of(p)->rows = rows;
  return pco__call_start(&c, p);
}

int pco_command_wait(pco_command *command, pco_done_fn done, void *ud,
                     pco_pending **out) {
  pco__caller c = pco__call_from(done, ud, out);
  return simple(command, &pco__wait_class, &c);
}

static const char *bad_wait(const pco_wait_opts *o) {
  bool output = o->output && o->output_len;
  if (o->output_len && !o->output)
    return "output_len is not 0, but output is NULL";
  if (output == (o->port != 0))
    return "give either output, of 1 byte or more, or port";
  if (o->streams & ~(PCO_WAIT_STDOUT | PCO_WAIT_STDERR) || o->reserved)
    return "streams are PCO_WAIT_*, and reserved is 0";
  if (o->streams && o->port)
    return "streams go with output, not with port";
  return o->timeout_ns < 0 ? "timeout_ns is negative" : NULL;
}

static int take_wait(pco_runtime *rt, const pco_wait_opts *opts,
                     pco_wait_opts *own) {
  if (!opts)
    return pco__embed_fail(rt, PCO_EINVAL, "the options are NULL");
  if (pco__embed_take(own, sizeof *own, PCO__END_OF(pco_wait_opts, timeout_ns),
                      opts, opts->size) < 0)
    return pco__embed_fail(rt, PCO_ESIZE, "the size of pco_wait_opts");
  const char *bad = bad_wait(own);
  return bad ? pco__embed_fail(rt, PCO_EINVAL, "%s", bad) : 0;
}

static void look_for(pco_pending *p, const pco_wait_opts *own) {
  pco__wait_for_op *o = PCO_CONTAINER(p->op, pco__wait_for_op, base.op);
  o->port = own->port;
  if (own->port)
    return;
  p->looks = true;
  o->plain = true;
  o->pattern = pco__arena_copy(&p->op->arena, own->output, own->output_len);
  o->pattern_len = own->output_len;
  uint32_t streams = own->streams ? own->streams : ~0u;
  for (unsigned i = 0; i < PCO__N_STREAMS; i++)
    o->looks_at[i] = (streams & (1u << i)) != 0;
}

int pco_command_wait_for(pco_command *command, const pco_wait_opts *opts,
                         pco_done_fn done, void *ud, pco_pending **out) {
  pco__caller c = pco__call_from(done, ud, out);
  pco_wait_opts own = {0};
  pco_pending *p;
  bool port =
      opts && opts->size >= PCO__END_OF(pco_wait_opts, port) && opts->port != 0;
  int rc =
      new_op_of(command, port ? &pco__wait_port_class : &pco__wait_output_class,
                sizeof(pco__wait_for_op), &c, &p);
  if (rc < 0)
    return rc;
  pco__wait_for_op *o = PCO_CONTAINER(p->op, pco__wait_for_op, base.op);
  pco__chunks_init(&o->base.chunks);
  pco__chunks_init(&o->arrived);
  rc = take_wait(c.rt, opts, &own);
  if (rc < 0)
    return pco__call_drop(p, rc);
  look_for(p, &own);
  p->op->timeout = own.timeout_ns ? own.timeout_ns : -1;
  return pco__call_start(&c, p);
}

int pco_command_signal(pco_command *command, int signo, pco_done_fn done,
                       void *ud, pco_pending **out) {
  pco__caller c = pco__call_from(done, ud, out);
  pco_pending *p;
  int rc = new_op(command, &pco__signal_class, &c, &p);
  if (rc < 0)
    return rc;
  if (signo < 1 || signo > SIGRTMAX)
    return pco__call_drop(
        p, pco__embed_fail(c.rt, PCO_EINVAL, "%d is no signal", signo));
  op_of(p)->signo = signo;
  return pco__call_start(&c, p);
}

int pco_command_kill(pco_command *command, uint64_t grace_ns, pco_done_fn done,
                     void *ud, pco_pending **out) {
  pco__caller c = pco__call_from(done, ud, out);
  pco_pending *p;
  int rc = new_op(command, &pco__kill_class, &c, &p);
  if (rc < 0)
    return rc;
  op_of(p)->grace = grace_ns;
  return pco__call_start(&c, p);
}
