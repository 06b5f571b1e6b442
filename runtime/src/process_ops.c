/* SPDX-License-Identifier: MIT */
/* The waiting calls on a process; see process_ops.h. */
#include "process_ops.h"

#include <stdlib.h>

#include "farewell.h"
#include "lua_result.h"
#include "wire.h"

#define BATCH_CHUNKS 16u /* handed over in one crossing */
#define LINES_BYTES  (64u * 1024)
#define BATCH_BYTES  (256u * 1024)

static pco__process_op *op_of(pco__op *op) {
  return PCO_CONTAINER(op, pco__process_op, op);
}

static void destroy(pco__op *op) {
  pco__process_op *o = op_of(op);
  pco__process_unref(o->process);
  pco__sandbox_unref(o->sandbox);
  pco__result_unref(o->result);
  if (o->chunks.last)
    pco__chunks_free(&o->chunks);
}

/* A process that nobody took (its caller has given up) ends. */
static void spawn_leave(pco__op *op) {
  pco__process_op *o = op_of(op);
  pco__say_farewell(op->loop, (pco__farewell){.process = o->process,
                                              .how = PCO__FAREWELL_KILL});
  o->process = NULL;
}

static void spawn_destroy(pco__op *op) {
  spawn_leave(op);
  destroy(op);
}

/* ---- spawn --------------------------------------------------------------- */

static void spawn_start(pco__op *op) {
  pco__process_op *o = op_of(op);
  pco__error *err = pco__sandbox_check(o->sandbox);
  if (err) {
    pco__op_complete(op, err);
    return;
  }
  atomic_fetch_add(&op->refs, 1); /* against an end inside the spawn */
  pco__process *p = pco__process_spawn(o->sandbox, &o->opts, NULL, op);
  if (!p)
    pco__op_complete(op, pco__error_no_memory());
  pco__process_unref(p);
  pco__op_unref(op);
}

void pco__op_spawned(pco__op *op, pco__process *p) {
  pco__process_op *o = op_of(op);
  if (!o->process) {
    pco__process_ref(p);
    o->process = p;
  }
  pco__op_complete(op, NULL);
}

/* The end of the cancelled spawn, of whose process nobody has a handle. */
static void spawn_killed(pco__op *op, pco__process *p) {
  pco__process_op *o = op_of(op);
  if (pco__process_ended(p) && !p->failed)
    o->result = pco__result_ref(pco__process_result(p));
  pco__error *err = pco__process_error(p);
  if (!err)
    err = pco__error_new(UV_ECANCELED, PCO_SOURCE_HOST, NULL, NULL);
  pco__op_complete(op, err);
}

/* The agent is silent, or the tree cannot be killed: nobody waits for that. */
static void on_spawn_grace(pco__timer *timer) {
  pco__op *op = PCO_CONTAINER(timer, pco__op, timer);
  spawn_killed(op, op_of(op)->process);
}

static pco__process *spawned_by(const pco__op *op, pco__sandbox *sb) {
  for (pco__node *n = sb->processes.next; n != &sb->processes; n = n->next) {
    pco__process *p = PCO_CONTAINER(n, pco__process, node);
    if (p->spawn_op == op)
      return p;
  }
  return NULL;
}

/* Whenever it starts, it is killed, and the op ends with it, within the grace.
 * What it has written is the partial result. */
static void spawn_cancel(pco__op *op) {
  pco__process_op *o = op_of(op);
  pco__process *p = spawned_by(op, o->sandbox);
  uint64_t wait = o->opts.grace;
  if (!p)
    return; /* it is being completed */
  p->spawn_op = NULL;
  pco__process_ref(p);
  o->process = p;
  p->drain_asked = true;
  pco__list_append(&p->killers, &op->owner_node);
  pco__process_kill(p, 0, PCO_REASON_KILLED);
  op->timer.fn = on_spawn_grace;
  if (wait < PCO__DEFAULT_GRACE_NS)
    wait = PCO__DEFAULT_GRACE_NS;
  if (pco__timer_start(op->loop, &op->timer, wait) < 0)
    spawn_killed(op, p);
}

const pco__op_class pco__spawn_class = {.name = "spawn",
                                        .start = spawn_start,
                                        .cancel = spawn_cancel,
                                        .push = pco__push_spawn,
                                        .leave = spawn_leave,
                                        .destroy = spawn_destroy};

/* ---- reading ------------------------------------------------------------- */

static void take_back(pco__process_op *o) {
  if (o->chunks.count)
    pco__chunks_move_front(&o->process->queue, &o->chunks);
}

static void read_start(pco__op *op) {
  pco__process_op *o = op_of(op);
  pco__process *p = o->process;
  if (!o->chunks.last)
    pco__chunks_init(&o->chunks);
  take_back(o);
  if (p->reader) {
    pco__op_complete(op, pco__error_new(PCO_EBUSY, PCO_SOURCE_HOST, NULL,
                                        "another reader is waiting for the "
                                        "output of this process"));
    return;
  }
  p->reader = op;
  if (o->iterates) {
    p->reader_open = true;
    p->reader_task = op->task;
  }
  /* What lies in a pipe is ready now, even for a call with timeout 0. */
  if (!p->queue.count)
    for (int i = 0; i < 2; i++)
      pco__stream_pump(&p->streams[i]);
  pco__process_update(p);
}

void pco__op_fed(pco__op *op, pco__process *p) {
  pco__process_op *o = op_of(op);
  p->reader = NULL;
  /* Lines take their time in the script: fewer at once keep it responsive. */
  size_t most = op->cls == &pco__lines_class ? LINES_BYTES : BATCH_BYTES;
  while (p->queue.count && o->chunks.count < BATCH_CHUNKS &&
         o->chunks.bytes < most)
    pco__chunks_append(&o->chunks, pco__chunks_shift(&p->queue));
  o->ended = !o->chunks.count;
  p->dry = p->dry && o->ended;
  if (o->ended)
    p->reader_open = false;
  pco__error *err = o->ended ? pco__process_error(p) : NULL;
  pco__op_complete(op, o->ended && !err ? pco__process_loss(p) : err);
}

static void read_cancel(pco__op *op) {
  pco__process *p = op_of(op)->process;
  pco__process_ref(p); /* the op and its reference may go with completion */
  if (p->reader == op)
    p->reader = NULL;
  pco__op_complete(op,
                   pco__error_new(UV_ECANCELED, PCO_SOURCE_HOST, NULL, NULL));
  pco__process_update(p);
  pco__process_unref(p);
}

void pco__process_end_reader(pco__process *p) {
  p->reader_open = false;
  pco__process_update(p);
}

/* What is left of the time of the call, of which an op was the first part. */
static int64_t time_left(const pco__op *op) {
  uint64_t now = uv_hrtime();
  if (op->timeout < 0)
    return -1;
  return op->timer.at > now ? (int64_t)(op->timer.at - now) : 0;
}

static pco__op *read_again(const pco__op *op) {
  const pco__process_op *old =
      (const pco__process_op *)(const void *)op; /* op is its first member */
  pco__op *next = pco__op_new(op->cls, sizeof *old, op->loop);
  if (!next)
    return NULL;
  pco__process_op *o = op_of(next);
  pco__process_ref(old->process);
  o->process = old->process;
  o->iterates = old->iterates;
  o->op.timeout = time_left(op);
  pco__chunks_init(&o->chunks);
  return next;
}

#define READ_CLASS(variable, text)                                             \
  const pco__op_class variable = {.name = text,                                \
                                  .start = read_start,                         \
                                  .cancel = read_cancel,                       \
                                  .push = pco__push_read,                      \
                                  .again = read_again,                         \
                                  .destroy = destroy}
READ_CLASS(pco__read_class, "process.read");
READ_CLASS(pco__chunks_class, "process.chunks");
READ_CLASS(pco__lines_class, "process.lines");

/* ---- writing ------------------------------------------------------------- */

static void on_written(pco__process *p, pco__error *err);

/* Starts the next write in line. */
static void write_next(pco__process *p) {
  if (p->input.busy || pco__list_empty(&p->writers))
    return;
  pco__op *op = PCO_CONTAINER(p->writers.next, pco__op, owner_node);
  pco__process_op *o = op_of(op);
  pco__process_write(p, o->data, o->len, op, on_written);
}

static void on_written(pco__process *p, pco__error *err) {
  pco__op *op = p->input.writer;
  p->input.writer = NULL;
  if (op) {
    op_of(op)->written = p->input.done;
    pco__process_ref(p);
    pco__op_complete(op, err);
    write_next(p);
    pco__process_unref(p);
  } else {
    pco__error_free(err);
  }
}

static void write_start(pco__op *op) {
  pco__process *p = op_of(op)->process;
  pco__list_append(&p->writers, &op->owner_node);
  write_next(p);
}

/* A plugin has the bytes, and may have passed on any part of them. */
static pco__error *write_cancelled(const pco__process *p, size_t done,
                                   size_t len) {
  if (p->via_plugin)
    return pco__error_new(UV_ECANCELED, PCO_SOURCE_HOST, NULL,
                          "any part of the %zu bytes may have "
                          "been written",
                          len);
  return pco__error_new(UV_ECANCELED, PCO_SOURCE_HOST, NULL,
                        "%zu of %zu bytes were written", done, len);
}

static void write_cancel(pco__op *op) {
  pco__process_op *o = op_of(op);
  pco__process *p = o->process;
  if (p->input.writer == op)
    pco__process_input_done(p, write_cancelled(p, p->input.done, p->input.len));
  else
    pco__op_complete(op, write_cancelled(p, 0, o->len));
}

const pco__op_class pco__write_class = {.name = "process.write",
                                        .start = write_start,
                                        .cancel = write_cancel,
                                        .push = pco__push_nothing,
                                        .destroy = destroy};

static void close_stdin_start(pco__op *op) {
  pco__process_close_stdin(op_of(op)->process);
  pco__op_complete(op, NULL);
}

const pco__op_class pco__close_stdin_class = {.name = "process.close_stdin",
                                              .start = close_stdin_start,
                                              .push = pco__push_nothing,
                                              .destroy = destroy};

/* ---- waiting ------------------------------------------------------------- */

void pco__op_ended(pco__op *op, pco__process *p) {
  pco__process_op *o = op_of(op);
  if (!p->failed)
    o->result = pco__result_ref(pco__process_result(p));
  pco__error *err = pco__process_error(p);
  if (!err)
    err = o->result ? pco__result_error(o->result, p, p->check)
                    : pco__error_no_memory();
  pco__op_complete(op, err);
}

static void wait_start(pco__op *op) {
  pco__process_op *o = op_of(op);
  take_back(o);
  pco__list_append(&o->process->waiters, &op->owner_node);
  pco__process_update(o->process);
}

static void wait_cancel(pco__op *op) {
  pco__process *p = op_of(op)->process;
  pco__process_ref(p);
  pco__op_complete(op,
                   pco__error_new(UV_ECANCELED, PCO_SOURCE_HOST, NULL, NULL));
  pco__process_update(p);
  pco__process_unref(p);
}

const pco__op_class pco__wait_class = {.name = "process.wait",
                                       .start = wait_start,
                                       .cancel = wait_cancel,
                                       .push = pco__push_wait,
                                       .destroy = destroy};

static void poll_start(pco__op *op) {
  pco__process_op *o = op_of(op);
  pco__process *p = o->process;
  take_back(o);
  if ((p->has_exit || p->error) && !p->reader && !p->reader_open) {
    p->drain_asked = true;
    for (int i = 0; i < 2; i++)
      pco__stream_pump(&p->streams[i]);
    pco__process_update(p);
  }
  if (pco__process_ended(p) && !p->failed &&
      !(p->reader_open && p->queue.count))
    o->result = pco__result_ref(pco__process_result(p));
  pco__op_complete(op, p->error ? pco__process_error(p) : NULL);
}

const pco__op_class pco__poll_class = {.name = "process.poll",
                                       .shielded = true,
                                       .start = poll_start,
                                       .push = pco__push_wait,
                                       .destroy = destroy};

/* ---- signals and the end ------------------------------------------------- */

/* Why nothing can be asked of the running command: it is lost, or has ended
 * (ESRCH); or NULL. */
static pco__error *not_running(const pco__process *p) {
  pco__error *err = pco__process_error(p);
  if (!err && p->has_exit)
    err = pco__error_new(UV_ESRCH, PCO_SOURCE_HOST, NULL, NULL);
  return err;
}

static void signal_start(pco__op *op) {
  pco__process_op *o = op_of(op);
  pco__error *err = not_running(o->process);
  if (err)
    pco__op_complete(op, err);
  else
    o->process->driver->signal(o->process, o->signo, op);
}

/* That it has ended already is an answer, no error. */
static bool signal_hold(pco__op *op, pco__error **err) {
  op_of(op)->acted = !*err;
  if (*err && (*err)->code == UV_ESRCH) {
    pco__error_free(*err);
    *err = NULL;
  }
  return false;
}

/* The agent may be silent; its answer then finds the op completed. */
static void cancel_at_once(pco__op *op) {
  pco__op_complete(op,
                   pco__error_new(UV_ECANCELED, PCO_SOURCE_HOST, NULL, NULL));
}

const pco__op_class pco__signal_class = {.name = "process.signal",
                                         .start = signal_start,
                                         .cancel = cancel_at_once,
                                         .hold = signal_hold,
                                         .push = pco__push_signalled,
                                         .destroy = destroy};

static void kill_start(pco__op *op) {
  pco__process_op *o = op_of(op);
  pco__process *p = o->process;
  take_back(o);
  p->drain_asked = true;
  if (p->terminal && op->cls == &pco__process_close_class)
    p->driver->hang_up(p);
  pco__list_append(&p->killers, &op->owner_node);
  pco__process_kill(p, o->grace, PCO_REASON_KILLED);
  pco__process_update(p);
}

/* After the end it is an answer, too, that there is nothing to resize. */
static void resize_start(pco__op *op) {
  pco__process_op *o = op_of(op);
  pco__error *err = not_running(o->process);
  if (err)
    pco__op_complete(op, err);
  else
    o->process->driver->resize(o->process, o->cols, o->rows, op);
}

const pco__op_class pco__resize_class = {.name = "process.resize",
                                         .start = resize_start,
                                         .cancel = cancel_at_once,
                                         .hold = signal_hold,
                                         .push = pco__push_signalled,
                                         .destroy = destroy};

static pco__error *survivors_error(const pco__process *p) {
  return pco__error_new(UV_EPERM, PCO_SOURCE_AGENT, p->argv[0],
                        "%d processes could not be killed",
                        p->exit.n_survivors);
}

void pco__op_killed(pco__op *op, pco__process *p) {
  pco__process_op *o = op_of(op);
  bool closing = op->cls == &pco__process_close_class;
  if (op->cls == &pco__spawn_class) {
    spawn_killed(op, p);
    return;
  }
  if (!p->failed)
    o->result = pco__result_ref(pco__process_result(p));
  /* Closing what is gone is no error; what could not be killed is one. */
  pco__error *err = closing ? NULL : pco__process_error(p);
  if (!err && p->exit.n_survivors)
    err = survivors_error(p);
  pco__op_complete(op, err);
}

const pco__op_class pco__kill_class = {.name = "process.kill",
                                       .start = kill_start,
                                       .cancel = cancel_at_once,
                                       .push = pco__push_wait,
                                       .destroy = destroy};

const pco__op_class pco__process_close_class = {.name = "process.close",
                                                .shielded = true,
                                                .start = kill_start,
                                                .cancel = cancel_at_once,
                                                .push = pco__push_closed,
                                                .destroy = destroy};
