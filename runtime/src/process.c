/* SPDX-License-Identifier: MIT */
/* A command in a sandbox, whatever drives it; see process.h. */
#include "process.h"

#include <stdlib.h>
#include <string.h>

#include "departed.h"
#include "exec.h"
#include "process_ops.h"
#include "sink.h"
#include "wait_for.h"

/* Long enough for a short command to end, short enough that nobody notices when
 * a long one fills its pipe. */
#define PATIENCE_NS UINT64_C(1000000)

/* ---- life ---------------------------------------------------------------- */

void pco__process_ref(pco__process *p) {
  atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);
}

void pco__process_unref(pco__process *p) {
  if (!p || atomic_fetch_sub_explicit(&p->refs, 1, memory_order_acq_rel) != 1)
    return;
  pco__chunks_free(&p->queue);
  pco__capture_free(&p->captures[0]);
  pco__capture_free(&p->captures[1]);
  pco__result_unref(p->result);
  pco__error_free(p->error);
  pco__arena_free(&p->arena);
  pco__sandbox_unref(p->sandbox);
  free(p);
}

pco__result *pco__result_ref(pco__result *r) {
  if (r)
    atomic_fetch_add_explicit(&r->refs, 1, memory_order_relaxed);
  return r;
}

void pco__result_unref(pco__result *r) {
  if (!r || atomic_fetch_sub_explicit(&r->refs, 1, memory_order_acq_rel) != 1)
    return;
  pco__capture_free(&r->out[0]);
  pco__capture_free(&r->out[1]);
  free(r);
}

static int copy_argv(pco__process *p, char **argv) {
  size_t n = 0;
  while (argv[n])
    n++;
  p->argv = pco__arena_alloc(&p->arena, (n + 1) * sizeof *p->argv);
  for (size_t i = 0; p->argv && i < n; i++)
    p->argv[i] = pco__arena_string(&p->arena, argv[i]);
  return p->arena.failed ? UV_ENOMEM : 0;
}

static void on_drained(pco__timer *timer);
static void on_patience(pco__timer *timer);

static void init_lists(pco__process *p) {
  pco__list_init(&p->node);
  pco__list_init(&p->departed_node);
  pco__list_init(&p->waiters);
  pco__list_init(&p->lookers);
  pco__list_init(&p->writers);
  pco__list_init(&p->killers);
  pco__chunks_init(&p->queue);
  p->drain_timer.fn = on_drained;
  p->patience.fn = on_patience;
}

/* One without anything of its own yet; a reference of the caller's. */
static pco__process *new_process(pco__sandbox *sb, size_t max_output) {
  pco__process *p = calloc(1, sizeof *p);
  if (!p)
    return NULL;
  init_lists(p);
  pco__sandbox_ref(sb);
  p->sandbox = sb;
  p->loop = sb->loop;
  p->driver =
      sb->link ? &pco__process_agent_driver : &pco__process_plugin_driver;
  p->pid = -1;
  atomic_init(&p->refs, 1);
  for (uint8_t i = 0; i < 2; i++) {
    pco__stream_init(&p->streams[i], p, i);
    pco__capture_init(&p->captures[i], max_output);
  }
  return p;
}

pco__process *pco__process_spawn(pco__sandbox *sb, const pco__spawn_opts *opts,
                                 pco__exec *exec, pco__op *op) {
  pco__process *p = new_process(sb, opts->max_output);
  if (!p)
    return NULL;
  p->exec = exec;
  p->spawn_op = op;
  p->spawned = !exec;
  p->handles = 1;
  p->check = opts->check;
  p->timeout = opts->timeout;
  p->had_stdin = opts->in == PCO__PIPE || opts->terminal;
  p->terminal = opts->terminal;
  p->grace = opts->grace;
  p->drain = opts->drain;
  p->started_at = pco__now_seconds();
  if (copy_argv(p, opts->argv) < 0) {
    pco__process_unref(p);
    return NULL;
  }
  if (exec)
    exec->process = p; /* the caller's reference */
  pco__process_ref(p); /* the loop's */
  pco__list_append(&sb->processes, &p->node);
  p->driver->spawn(p, opts);
  return p;
}

pco__process *pco__process_found(pco__sandbox *sb, char **argv, int64_t pid,
                                 double started_at, const pco__exit *ended) {
  pco__process *p = new_process(sb, PCO__DEFAULT_MAX_OUTPUT);
  if (!p)
    return NULL;
  p->started = p->spawned = p->had_stdin = true;
  p->pid = pid;
  p->started_at = started_at;
  p->grace = PCO__DEFAULT_GRACE_NS;
  p->drain = PCO__DEFAULT_DRAIN_NS;
  if (ended) {
    p->has_exit = true;
    p->exit = *ended;
    p->nth_exit = ++sb->n_exits;
  }
  if (copy_argv(p, argv) < 0) {
    pco__process_unref(p);
    return NULL;
  }
  pco__list_append(&sb->processes, &p->node);
  return p;
}

/* The loop needs it no more once it is over and has no handle; how a spawned
 * one ended can still be asked for. */
static void retire(pco__process *p) {
  if (pco__list_empty(&p->node))
    return;
  pco__list_remove(&p->node);
  p->driver->release(p);
  if (p->spawned && p->has_exit && pco__sandbox_lives(p->sandbox))
    pco__departed_keep(p);
  else
    pco__process_unref(p);
}

/* ---- where output goes --------------------------------------------------- */

/* True if a waiting op may take what no reader claims: an iterator of another
 * task keeps its claim, one of the same task cannot go on meanwhile. */
static bool waiter_drains(const pco__process *p) {
  for (const pco__node *n = p->waiters.next; n != &p->waiters; n = n->next) {
    const pco__op *op = PCO_CONTAINER(n, pco__op, owner_node);
    if (!p->reader_open || op->task == p->reader_task)
      return true;
  }
  return false;
}

static bool draining(const pco__process *p) {
  if (p->reader || pco__looked_at(p))
    return false;
  return p->drain_asked || waiter_drains(p);
}

static bool wants_output(const pco__process *p) {
  if (p->released)
    return true;
  if (p->exec)
    return !p->patience.index && !pco__exec_full(p->exec);
  if (draining(p))
    return true;
  return (p->reader || p->reader_open || pco__looked_at(p)) &&
         p->queue.bytes < PCO__QUEUE_BYTES;
}

bool pco__process_queues(const pco__process *p) {
  return !p->exec && !p->released && !draining(p);
}

/* Whoever has enough stops what feeds him. */
static void hold_back(pco__process *p) {
  if (wants_output(p))
    return;
  for (int i = 0; i < 2; i++)
    pco__stream_flow(&p->streams[i], false);
}

/* What readers call stream 0 or 1. */
static uint8_t stream_name(const pco__process *p, uint8_t stream) {
  return p->terminal ? PCO__TERMINAL : stream;
}

void pco__process_output_chunk(pco__process *p, pco__chunk *c) {
  p->streams[pco__stream_index(c->stream)].bytes += c->len;
  pco__show_output(p, c->stream, c->data, c->len);
  pco__chunks_append(&p->queue, c);
  hold_back(p);
}

static void queue_output(pco__process *p, uint8_t stream, const char *data,
                         size_t len) {
  pco__show_output(p, stream, data, len);
  pco__chunks_add(&p->queue, stream, data, len);
}

void pco__process_output(pco__process *p, uint8_t stream, const char *data,
                         size_t len) {
  p->streams[stream].bytes += len;
  if (p->exec)
    pco__exec_output(p->exec, stream_name(p, stream), data, len);
  else if (p->released)
    return;
  else if (draining(p))
    pco__capture_add(&p->captures[stream], data, len);
  else
    queue_output(p, stream_name(p, stream), data, len);
  hold_back(p);
}

bool pco__sink_push(const pco_host *host, pco_sink *sink, const void *data,
                    size_t len) {
  (void)host;
  pco__stream *s = (pco__stream *)(void *)sink;
  pco__process *p = s->process;
  if (!s->open)
    return false;
  pco__process_ref(p);
  pco__process_output(p, s->index, data, len);
  if (p->reader)
    pco__process_update(p);
  bool more = s->open && wants_output(p);
  if (!more)
    s->flowing = false; /* the plugin stops by our word */
  pco__process_unref(p);
  return more;
}

void pco__sink_eof(const pco_host *host, pco_sink *sink, int status) {
  (void)host;
  pco__stream *s = (pco__stream *)(void *)sink;
  if (status < 0)
    pco__stream_lose(s, status);
  else
    pco__stream_close(s, false);
  pco__process_update(s->process);
}

/* From now on output is looked at as it comes. */
static void on_patience(pco__timer *timer) {
  pco__process_update(PCO_CONTAINER(timer, pco__process, patience));
}

static void capture_queue(pco__process *p) {
  for (pco__chunk *c; (c = pco__chunks_shift(&p->queue)) != NULL; free(c))
    pco__capture_add(&p->captures[pco__stream_index(c->stream)],
                     c->data + c->start, c->len - c->start);
}

/* ---- the end ------------------------------------------------------------- */

static bool streams_open(const pco__process *p) {
  return p->streams[0].open || p->streams[1].open;
}

bool pco__process_ended(const pco__process *p) {
  return (p->has_exit || p->error) && !streams_open(p);
}

pco__error *pco__process_error(const pco__process *p) {
  return p->error ? pco__error_copy(p->error) : NULL;
}

static int lost_output(const pco__process *p) {
  return p->streams[0].lost ? p->streams[0].lost : p->streams[1].lost;
}

pco__error *pco__process_loss(const pco__process *p) {
  int rc = lost_output(p);
  return rc ? pco__error_new(rc, PCO_SOURCE_HOST, p->argv[0],
                             "reading the command's output failed, so its end "
                             "is missing: %s",
                             pco__code_text(rc))
            : NULL;
}

pco__result *pco__process_result(pco__process *p) {
  if (p->result)
    return p->result;
  capture_queue(p);
  pco__result *r = calloc(1, sizeof *r);
  if (!r)
    return NULL;
  atomic_init(&r->refs, 1);
  r->exit = p->exit;
  r->gone = !p->has_exit;
  r->pid = p->pid;
  r->eof = !p->streams[0].held && !p->streams[1].held && !r->gone;
  for (int i = 0; i < 2; i++) {
    r->out[i] = p->captures[i];
    p->captures[i] = (pco__capture){0};
    pco__capture_finish(&r->out[i]);
    r->bytes[i] = p->streams[i].bytes;
  }
  p->result = r;
  return r;
}

/* The drain clock ran out: what lies in the pipes is still taken, then whoever
 * holds them is left alone. */
static void on_drained(pco__timer *timer) {
  pco__process *p = PCO_CONTAINER(timer, pco__process, drain_timer);
  pco__process_ref(p);
  for (int i = 0; i < 2; i++)
    pco__stream_give_up(&p->streams[i]);
  pco__process_update(p);
  pco__process_unref(p);
}

static bool is_waited_for(const pco__stream *s) {
  return s->flowing && !s->given_up;
}

static bool is_read(const pco__process *p) {
  return is_waited_for(&p->streams[0]) || is_waited_for(&p->streams[1]);
}

static bool is_held(const pco__stream *s) {
  return s->open && !s->given_up;
}

/* The clock runs after the exit from the moment on that somebody finds nothing
 * to read.  It does not begin anew when he gives up waiting: who comes again
 * and again, each time for less than `drain`, would never see the end. */
static void set_drain_clock(pco__process *p) {
  bool held = p->has_exit && !p->error &&
              (is_held(&p->streams[0]) || is_held(&p->streams[1]));
  p->dry = held && (p->dry || is_read(p));
  if (!p->dry)
    pco__timer_stop(p->loop, &p->drain_timer);
  else if (!p->drain_timer.index)
    pco__timer_start(p->loop, &p->drain_timer, p->drain);
}

static void complete_killers(pco__process *p) {
  if (p->kills > 0 || p->kill_wished || !pco__process_ended(p))
    return;
  for (pco__node *n; (n = pco__list_shift(&p->killers)) != NULL;)
    pco__op_killed(PCO_CONTAINER(n, pco__op, owner_node), p);
}

/* Serves whoever waits for what is there now. */
static void serve(pco__process *p) {
  if (p->reader && (p->queue.count || pco__process_ended(p)))
    pco__op_fed(p->reader, p);
  if (!pco__process_ended(p))
    return;
  pco__timer_stop(p->loop, &p->drain_timer);
  if (p->exec) {
    if (p->kills == 0)
      pco__exec_ended(p->exec);
    return;
  }
  complete_killers(p);
  if (waiter_drains(p) || !p->queue.count)
    for (pco__node *n; (n = pco__list_shift(&p->waiters)) != NULL;)
      pco__op_ended(PCO_CONTAINER(n, pco__op, owner_node), p);
}

void pco__process_update(pco__process *p) {
  pco__process_ref(p);
  pco__tell_lookers(p);
  if (draining(p))
    capture_queue(p);
  bool on = wants_output(p);
  for (int i = 0; i < 2; i++)
    pco__stream_flow(&p->streams[i], on);
  set_drain_clock(p);
  serve(p);
  if ((p->released || p->handles == 0) && pco__process_ended(p) &&
      p->kills == 0)
    retire(p);
  pco__process_unref(p);
}

/* ---- from drivers -------------------------------------------------------- */

static void start_wished_kill(pco__process *p) {
  if (!p->kill_wished)
    return;
  p->kill_wished = false;
  pco__process_kill(p, p->kill_grace, p->kill_reason);
}

void pco__process_started(pco__process *p, int64_t pid) {
  pco__process_ref(p);
  p->started = true;
  p->pid = pid;
  start_wished_kill(p);
  if (p->exec) {
    if (!p->exec->wants_chunks && streams_open(p))
      pco__timer_start(p->loop, &p->patience, PATIENCE_NS);
    pco__exec_started(p->exec);
  }
  if (p->spawn_op) {
    pco__op *op = p->spawn_op;
    p->spawn_op = NULL;
    pco__op_spawned(op, p);
  }
  pco__process_update(p);
  pco__process_unref(p);
}

static void end_input(pco__process *p, pco__error *err) {
  if (p->input.busy)
    pco__process_input_done(p, err);
  else
    pco__error_free(err);
}

static void end_with_error(pco__process *p, pco__error *err) {
  if (p->error) {
    pco__error_free(err);
    return;
  }
  pco__process_ref(p);
  p->error = err;
  pco__timer_stop(p->loop, &p->patience);
  p->kill_wished = false;
  p->kills = 0;
  for (int i = 0; i < 2; i++) {
    /* A dead sandbox may have left bytes behind; they are its last words. */
    pco__stream_pump(&p->streams[i]);
    pco__stream_close(&p->streams[i], false);
  }
  end_input(p, pco__process_error(p));
  if (p->spawn_op) {
    pco__op *op = p->spawn_op;
    p->spawn_op = NULL;
    pco__op_complete(op, pco__process_error(p));
  }
  pco__process_update(p);
  pco__process_unref(p);
}

void pco__process_failed(pco__process *p, pco__error *err) {
  p->failed = true;
  if (!err->path)
    err->path = strdup(p->argv[0]);
  err->spawn = err->code != PCO_EGONE && err->code != PCO_ECLOSED &&
               err->code != PCO_EUNSUPPORTED && err->code != PCO_EUNAVAILABLE;
  pco__process_ref(p);
  p->released = true;
  end_with_error(p, err);
  pco__process_unref(p);
}

void pco__process_lost(pco__process *p, pco__error *err) {
  /* Whoever ended by itself before is not lost, but no kill of it will be
   * answered any more. */
  if (p->has_exit) {
    pco__process_ref(p);
    p->kills = 0;
    for (int i = 0; i < 2; i++) {
      pco__stream_pump(&p->streams[i]);
      pco__stream_close(&p->streams[i], false);
    }
    end_input(p, err);
    pco__process_update(p);
    pco__process_unref(p);
    return;
  }
  end_with_error(p, err);
}

void pco__process_exited(pco__process *p, const pco__exit *exit) {
  pco__process_ref(p);
  p->has_exit = true;
  p->nth_exit = ++p->sandbox->n_exits;
  p->exit = *exit;
  pco__timer_stop(p->loop, &p->patience);
  /* What it wrote and the end of its streams are mostly there already. */
  for (int i = 0; i < 2; i++)
    if (wants_output(p))
      pco__stream_pump(&p->streams[i]);
  pco__process_update(p);
  pco__process_unref(p);
}

void pco__process_killed(pco__process *p, const int64_t *survivors, int n) {
  if (p->kills > 0)
    p->kills--;
  p->exit.n_survivors = n;
  for (int i = 0; i < n; i++)
    p->exit.survivors[i] = survivors[i];
  pco__process_update(p);
}

/* ---- stdin --------------------------------------------------------------- */

void pco__process_write(pco__process *p, const char *data, size_t len,
                        pco__op *writer,
                        void (*on_done)(pco__process *p, pco__error *err)) {
  p->input = (pco__input){.data = data,
                          .len = len,
                          .busy = true,
                          .on_done = on_done,
                          .writer = writer};
  if (p->error)
    pco__process_input_done(p, pco__process_error(p));
  else if (!p->had_stdin)
    pco__process_input_done(
        p, pco__error_new(PCO_EINVAL, PCO_SOURCE_HOST, NULL,
                          "the process's stdin is no pipe: spawn it with "
                          "stdin = \"pipe\""));
  else if (!p->stdin_open)
    pco__process_input_done(p, pco__error_new(UV_EPIPE, PCO_SOURCE_HOST, NULL,
                                              "the process's stdin is closed"));
  else
    p->driver->write(p);
}

void pco__process_input_done(pco__process *p, pco__error *err) {
  if (!p->input.busy) {
    pco__error_free(err);
    return;
  }
  p->input.busy = false;
  p->input.on_done(p, err);
}

void pco__process_close_stdin(pco__process *p) {
  if (!p->stdin_open)
    return;
  p->stdin_open = p->terminal;
  p->driver->close_stdin(p);
}

/* ---- kill and release ---------------------------------------------------- */

void pco__process_kill(pco__process *p, uint64_t grace, int reason) {
  if (p->error || pco__list_empty(&p->node)) /* lost, or over and retired */
    return;
  if (!p->started) {
    p->kill_wished = true;
    p->kill_grace = grace;
    p->kill_reason = reason;
    return;
  }
  p->kills++;
  p->driver->kill(p, grace, reason);
}

/* It runs on, and nobody waits for anything of it. */
static bool is_left_alone(const pco__process *p) {
  return p->started && !p->has_exit && !p->error && !p->exec && p->kills == 0 &&
         !p->reader && !p->reader_open && !p->input.busy &&
         pco__list_empty(&p->waiters) && pco__list_empty(&p->lookers) &&
         pco__list_empty(&p->killers) && pco__sandbox_lives(p->sandbox);
}

void pco__process_release(pco__process *p) {
  if (p->handles > 0 && --p->handles > 0)
    return;
  bool first = !p->released;
  p->released = true;
  pco__chunks_free(&p->queue);
  if (first && is_left_alone(p))
    p->driver->hand_over(p);
  for (int i = 0; i < 2 && p->has_exit; i++)
    pco__stream_give_up(&p->streams[i]); /* whoever holds it writes to nobody */
  pco__process_update(p);
}

void pco__process_reclaim(pco__process *p) {
  p->handles++;
  p->released = false;
  pco__process_update(p);
}
