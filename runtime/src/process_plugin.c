/* SPDX-License-Identifier: MIT */
/*
 * The driver of processes in a sandbox whose plugin implements them itself.
 *
 * The runtime keeps what an agent would: the command's time limit and the
 * ladder TERM, grace, KILL.  A call into the plugin is one heap object until
 * its done() ran; it holds a reference to the process.
 */
#include "process.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "wire.h"

typedef struct pco__plugin_process {
  pco_process *handle; /* the plugin's; NULL before the start */
  pco__timer limit;    /* of the command */
  pco__timer ladder;   /* TERM to KILL */
  pco__process *process;
  uint64_t timeout;
  uint64_t grace;
  uint64_t started_ns;
  int kill_reason;      /* PCO_REASON_* of a kill that began, or 0 */
  int exits;            /* kills that wait for the exit */
  struct call *writing; /* the write that the plugin has, its writer's or not */
} pco__plugin_process;

typedef struct call {
  pco_op op;
  pco__process *process;                         /* a reference */
  void (*then)(struct call *c, pco__error *err); /* takes err */
  pco__op *waiting;                              /* signal: to complete */
  pco_process *handle;                           /* spawn: the result */
  int64_t pid;
  pco__exit exit; /* wait: the result */
  bool gone;
  bool given_up; /* write: its writer has ended, and another one waits */
  pco_iov iov;   /* write: what is pinned; the bytes are a copy of ours, so that
                    the writer may be cancelled while the plugin has them */
} call;

static const pco_backend_api *api_of(const pco__process *p) {
  return p->sandbox->backend->info->api;
}

/* Calls an entry that a plugin need not have. */
#define OPTIONAL(p, method, ...)                                               \
  (PCO_HAS(api_of(p), method)                                                  \
       ? api_of(p)->method((p)->via_plugin->handle, __VA_ARGS__)               \
       : PCO_EUNSUPPORTED)

/* A plugin that runs commands has at least these. */
static bool runs_commands(const pco_backend_api *api) {
  return PCO_HAS(api, spawn) && PCO_HAS(api, wait) &&
         PCO_HAS(api, read_start) && PCO_HAS(api, read_stop) &&
         PCO_HAS(api, release_process);
}

static void on_done(pco_op *op, pco__error *err) {
  call *c = PCO_CONTAINER(op, call, op);
  pco__process *p = c->process;
  c->then(c, err);
  free((void *)(uintptr_t)c->iov.base);
  free(c);
  pco__process_unref(p);
}

static call *new_call(pco__process *p, void (*take)(pco_op *, const void *),
                      void (*then)(call *c, pco__error *err)) {
  call *c = calloc(1, sizeof *c);
  if (!c)
    return NULL;
  pco__process_ref(p);
  c->process = p;
  c->then = then;
  pco__plugin_op_init(&c->op, p->sandbox->backend, take, on_done);
  return c;
}

/* ---- kill ---------------------------------------------------------------- */

static void ignore(call *c, pco__error *err) {
  (void)c;
  pco__error_free(err);
}

static void send_signal(pco__process *p, int signo) {
  call *c = p->via_plugin->handle ? new_call(p, NULL, ignore) : NULL;
  if (c)
    pco__plugin_op_submitted(
        &c->op, OPTIONAL(p, signal, signo, PCO_SIGNAL_TREE, &c->op));
}

static void on_ladder(pco__timer *timer) {
  pco__plugin_process *v = PCO_CONTAINER(timer, pco__plugin_process, ladder);
  send_signal(v->process, SIGKILL);
}

static void begin_kill(pco__process *p, uint64_t grace, int reason) {
  pco__plugin_process *v = p->via_plugin;
  if (!v->kill_reason)
    v->kill_reason = reason;
  if (grace == 0) {
    send_signal(p, SIGKILL);
    return;
  }
  send_signal(p, SIGTERM);
  pco__timer_start(p->loop, &v->ladder, grace);
}

static void on_limit(pco__timer *timer) {
  pco__plugin_process *v = PCO_CONTAINER(timer, pco__plugin_process, limit);
  begin_kill(v->process, v->grace, PCO_REASON_TIMEOUT);
}

static void plugin_kill(pco__process *p, uint64_t grace, int reason) {
  if (p->has_exit || p->error) {
    pco__process_killed(p, NULL, 0);
    return;
  }
  p->via_plugin->exits++;
  begin_kill(p, grace, reason);
}

/* ---- start and exit ------------------------------------------------------ */

static void take_exit(pco_op *op, const void *result) {
  call *c = PCO_CONTAINER(op, call, op);
  const pco_exit_result *r = (const pco_exit_result *)result;
  c->exit.signal = r->signal > 0 && r->signal <= 64 ? r->signal : 0;
  c->exit.code = c->exit.signal ? 128 + c->exit.signal : r->exit_code & 255;
  c->exit.oom = (r->flags & PCO_EXIT_OOM) != 0;
  c->exit.limit = c->exit.oom ? PCO_LIMIT_MEMORY : PCO_LIMIT_NONE;
  c->gone = (r->flags & PCO_EXIT_GONE) != 0;
}

static int reason_of(const pco__plugin_process *v, const pco__exit *x) {
  if (v->kill_reason)
    return v->kill_reason;
  return x->signal ? PCO_REASON_SIGNALED : PCO_REASON_EXITED;
}

static void exited(call *c, pco__error *err) {
  pco__process *p = c->process;
  pco__plugin_process *v = p->via_plugin;
  if (!v) { /* lost and released before */
    pco__error_free(err);
    return;
  }
  pco__timer_stop(p->loop, &v->limit);
  pco__timer_stop(p->loop, &v->ladder);
  if (err || c->gone) {
    pco__process_lost(
        p, pco__error_because(pco__error_new(PCO_EGONE, PCO_SOURCE_PLUGIN,
                                             p->sandbox->id,
                                             "the sandbox ended while the "
                                             "command ran"),
                              err));
    return;
  }
  c->exit.reason = reason_of(v, &c->exit);
  c->exit.duration = uv_hrtime() - v->started_ns;
  int kills = v->exits;
  v->exits = 0;
  pco__process_exited(p, &c->exit);
  while (kills-- > 0)
    pco__process_killed(p, NULL, 0);
}

static void wait_for_exit(pco__process *p) {
  call *c = new_call(p, take_exit, exited);
  if (c)
    pco__plugin_op_submitted(&c->op,
                             api_of(p)->wait(p->via_plugin->handle, &c->op));
}

static void take_process(pco_op *op, const void *result) {
  call *c = PCO_CONTAINER(op, call, op);
  const pco_process_result *r = (const pco_process_result *)result;
  c->handle = r->process;
  c->pid = r->pid;
}

static void plugin_flow(pco__stream *s, bool on) {
  pco__process *p = s->process;
  if (!p->via_plugin || !p->via_plugin->handle)
    return;
  if (on)
    api_of(p)->read_start(p->via_plugin->handle, s->sink);
  else
    api_of(p)->read_stop(p->via_plugin->handle, s->sink);
}

static void spawned(call *c, pco__error *err) {
  pco__process *p = c->process;
  pco__plugin_process *v = p->via_plugin;
  if (err) {
    for (int i = 0; i < 2; i++)
      pco__stream_close(&p->streams[i], false);
    pco__process_failed(p, err);
    return;
  }
  if (p->error) { /* the sandbox was closed meanwhile */
    api_of(p)->release_process(c->handle);
    return;
  }
  v->handle = c->handle;
  v->started_ns = uv_hrtime();
  for (int i = 0; i < 2; i++)
    p->streams[i].flowing = false; /* sinks start paused */
  wait_for_exit(p);
  if (v->timeout)
    pco__timer_start(p->loop, &v->limit, v->timeout);
  pco__process_started(p, c->pid);
}

static void open_sink(pco__process *p, int i, pco_sink **out) {
  pco__stream *s = &p->streams[i];
  s->sink = (pco_sink *)(void *)s;
  s->flow = plugin_flow;
  s->open = true;
  s->flowing = true; /* until the start: nobody may call read_start before */
  *out = s->sink;
}

static void set_terminal(pco_spawn_opts *o, const pco__spawn_opts *opts) {
  o->flags &= ~PCO_SPAWN_STDIN;
  o->flags |= PCO_SPAWN_PTY | (opts->echo ? 0 : PCO_SPAWN_NO_ECHO);
  o->cols = opts->cols;
  o->rows = opts->rows;
}

/* What the plugin cannot do of this, or NULL. */
static const char *refusal(const pco__process *p, const pco__spawn_opts *opts) {
  if (!runs_commands(api_of(p)))
    return "runs no commands";
  if (opts->terminal && !PCO_HAS(api_of(p), resize))
    return "has no terminals (pty)";
  if (opts->in == PCO__CLOSED || opts->out == PCO__CLOSED ||
      opts->err == PCO__CLOSED)
    return "has no closed stdin, stdout or stderr";
  return NULL;
}

static void plugin_spawn(pco__process *p, const pco__spawn_opts *opts) {
  const char *why = refusal(p, opts);
  if (why) {
    pco__process_failed(p, pco__error_new(PCO_EUNSUPPORTED, PCO_SOURCE_HOST,
                                          NULL, "the backend %s %s",
                                          p->sandbox->backend->info->id, why));
    return;
  }
  pco__plugin_process *v = calloc(1, sizeof *v);
  call *c = v ? new_call(p, take_process, spawned) : NULL;
  if (!c) {
    free(v);
    pco__process_failed(p, pco__error_no_memory());
    return;
  }
  p->via_plugin = v;
  v->process = p;
  v->timeout = opts->timeout;
  v->grace = opts->grace;
  v->limit.fn = on_limit;
  v->ladder.fn = on_ladder;
  pco_spawn_opts o = {.struct_size = sizeof o,
                      .argv = (const char *const *)opts->argv,
                      .env = (const char *const *)opts->env,
                      .cwd = opts->cwd,
                      .user = opts->user,
                      .limits = opts->limits};
  o.flags = (opts->in == PCO__PIPE ? PCO_SPAWN_STDIN : 0) |
            (opts->clean_env ? PCO_SPAWN_CLEAN_ENV : 0) |
            (opts->err == PCO__MERGE ? PCO_SPAWN_MERGE : 0);
  if (opts->terminal)
    set_terminal(&o, opts);
  if (opts->out == PCO__PIPE)
    open_sink(p, 0, &o.out);
  if (opts->err == PCO__PIPE && !opts->terminal)
    open_sink(p, 1, &o.err);
  p->stdin_open = opts->in == PCO__PIPE || opts->terminal;
  pco__plugin_op_submitted(&c->op,
                           api_of(p)->spawn(p->sandbox->plugin, &o, &c->op));
}

/* ---- signal and stdin ---------------------------------------------------- */

static void signalled(call *c, pco__error *err) {
  pco__op_complete(c->waiting, err);
  pco__op_unref(c->waiting);
}

static void plugin_signal(pco__process *p, int signo, pco__op *op) {
  call *c = new_call(p, NULL, signalled);
  if (!c) {
    pco__op_complete(op, pco__error_no_memory());
    return;
  }
  c->waiting = op;
  atomic_fetch_add(&op->refs, 1); /* it may be cancelled before the answer */
  pco__plugin_op_submitted(&c->op, OPTIONAL(p, signal, signo, 0, &c->op));
}

static void plugin_resize(pco__process *p, uint16_t cols, uint16_t rows,
                          pco__op *op) {
  call *c = new_call(p, NULL, signalled);
  if (!c) {
    pco__op_complete(op, pco__error_no_memory());
    return;
  }
  c->waiting = op;
  atomic_fetch_add(&op->refs, 1);
  pco__plugin_op_submitted(&c->op, OPTIONAL(p, resize, cols, rows, &c->op));
}

static void plugin_write(pco__process *p);

/* A write whose writer gave up is finished by the plugin all the same; only
 * then the next one may begin. */
static void wrote(call *c, pco__error *err) {
  pco__process *p = c->process;
  bool given_up = c->given_up || !p->via_plugin;
  if (p->via_plugin)
    p->via_plugin->writing = NULL;
  if (given_up) {
    pco__error_free(err);
    if (p->via_plugin && p->input.busy)
      plugin_write(p);
    return;
  }
  if (!err)
    p->input.done = p->input.len;
  pco__process_input_done(p, err);
}

static void plugin_write(pco__process *p) {
  if (p->via_plugin->writing) {
    p->via_plugin->writing->given_up = true;
    return;
  }
  call *c = p->via_plugin->handle ? new_call(p, NULL, wrote) : NULL;
  void *copy = c ? malloc(p->input.len + 1) : NULL;
  if (!copy) {
    if (c)
      pco__process_unref(p);
    free(c);
    pco__process_input_done(
        p, pco__error_new(UV_EPIPE, PCO_SOURCE_HOST, NULL, NULL));
    return;
  }
  p->via_plugin->writing = c;
  memcpy(copy, p->input.data, p->input.len);
  c->iov = (pco_iov){.base = copy, .len = p->input.len};
  pco__plugin_op_submitted(&c->op, OPTIONAL(p, write, &c->iov, 1, &c->op));
}

static void plugin_close_stdin(pco__process *p) {
  call *c = p->via_plugin->handle ? new_call(p, NULL, ignore) : NULL;
  if (c)
    pco__plugin_op_submitted(&c->op, OPTIONAL(p, close_stdin, &c->op));
}

/* The plugin does it when the process is killed or released. */
static void plugin_hang_up(pco__process *p) {
  (void)p;
}

/* What it pushes is thrown away. */
static void plugin_hand_over(pco__process *p) {
  (void)p;
}

static void plugin_release(pco__process *p) {
  pco__plugin_process *v = p->via_plugin;
  if (!v)
    return;
  pco__timer_stop(p->loop, &v->limit);
  pco__timer_stop(p->loop, &v->ladder);
  if (v->handle)
    api_of(p)->release_process(v->handle);
  p->via_plugin = NULL;
  p->stdin_open = false;
  free(v);
}

const pco__process_driver pco__process_plugin_driver = {
    .spawn = plugin_spawn,
    .signal = plugin_signal,
    .kill = plugin_kill,
    .write = plugin_write,
    .close_stdin = plugin_close_stdin,
    .resize = plugin_resize,
    .hand_over = plugin_hand_over,
    .hang_up = plugin_hang_up,
    .release = plugin_release,
};
