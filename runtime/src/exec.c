/* SPDX-License-Identifier: MIT */
/* A command run to its end in one op; see exec.h. */
#include "exec.h"

#include <stdlib.h>
#include <string.h>

#include "exit_error.h"
#include "lua_result.h"
#include "wire.h"

static pco__exec *exec_of(pco__op *op) {
  return PCO_CONTAINER(op, pco__exec, op);
}

/* ---- input --------------------------------------------------------------- */

static void ask_input(pco__exec *e) {
  pthread_mutex_lock(&e->op.loop->lock);
  e->input_wanted = true;
  pthread_mutex_unlock(&e->op.loop->lock);
  pco__op_notify(&e->op);
}

/* An early end of the command's reading is normal (head) and no error of the
 * exec; that the rest could not be sent is one. */
static void note_failed_input(pco__exec *e, pco__process *p, pco__error *err) {
  if (err->code == UV_EPIPE || p->has_exit || p->error || e->input_error)
    pco__error_free(err);
  else
    e->input_error = err;
}

/* All given bytes are gone, or no more of them can go. */
static void on_input_done(pco__process *p, pco__error *err) {
  pco__exec *e = p->exec;
  bool failed = err != NULL;
  if (failed && e)
    note_failed_input(e, p, err);
  else
    pco__error_free(err);
  if (!e)
    return;
  free(e->given);
  e->given = NULL;
  if (!failed && e->asks_input)
    ask_input(e);
  else
    pco__process_close_stdin(p);
}

void pco__exec_started(pco__exec *e) {
  if (e->asks_input)
    ask_input(e);
  else if (e->input)
    pco__process_write(e->process, e->input, e->input_len, NULL, on_input_done);
  else if (e->process->terminal) /* nobody would ever type */
    pco__process_close_stdin(e->process);
}

/* Writes what the caller gave; after nothing he is asked again. */
static void use_given(pco__exec *e, pco__process *p, char *given) {
  if (e->given_len > 0) {
    pco__process_write(p, given, e->given_len, NULL, on_input_done);
    return;
  }
  e->given = NULL;
  free(given);
  if (p->stdin_open)
    ask_input(e);
}

/* What the caller gave or took since the last poke. */
static void on_poke(pco__call *call) {
  pco__exec *e = PCO_CONTAINER(call, pco__exec, poke);
  pthread_mutex_lock(&e->op.loop->lock);
  e->poked = false;
  char *given = e->given;
  bool end = e->given_end;
  e->given_end = false;
  pthread_mutex_unlock(&e->op.loop->lock);
  pco__process *p = e->process;
  if (!e->op.completed && p) {
    if (given && !p->input.busy)
      use_given(e, p, given);
    if (end)
      pco__process_close_stdin(p);
    pco__process_update(p);
  }
  pco__op_unref(&e->op);
}

static void poke(pco__exec *e) {
  pthread_mutex_lock(&e->op.loop->lock);
  bool again = e->poked;
  e->poked = true;
  pthread_mutex_unlock(&e->op.loop->lock);
  if (again)
    return;
  atomic_fetch_add_explicit(&e->op.refs, 1, memory_order_relaxed);
  e->poke.fn = on_poke;
  if (!e->op.loop->is_portal)
    on_poke(&e->poke);
  else if (pco__loop_post(e->op.loop, &e->poke) < 0)
    pco__op_unref(&e->op);
}

void pco__exec_give(pco__exec *e, char *data, size_t len) {
  if (atomic_load(&e->op.word) == PCO__OP_DONE) {
    free(data);
    return;
  }
  pthread_mutex_lock(&e->op.loop->lock);
  e->given = data;
  e->given_len = len;
  e->given_end = data == NULL;
  pthread_mutex_unlock(&e->op.loop->lock);
  poke(e);
}

/* ---- output -------------------------------------------------------------- */

bool pco__exec_full(pco__exec *e) {
  if (!e->wants_chunks)
    return false;
  pthread_mutex_lock(&e->op.loop->lock);
  bool full = e->chunks.bytes >= PCO__QUEUE_BYTES;
  pthread_mutex_unlock(&e->op.loop->lock);
  return full;
}

void pco__exec_output(pco__exec *e, uint8_t stream, const char *data,
                      size_t len) {
  pco__capture_add(&e->process->captures[pco__stream_index(stream)], data, len);
  if (!e->wants_chunks)
    return;
  pthread_mutex_lock(&e->op.loop->lock);
  pco__chunks_add(&e->chunks, stream, data, len);
  pthread_mutex_unlock(&e->op.loop->lock);
  pco__op_notify(&e->op);
}

void pco__exec_take(pco__exec *e, pco__chunks *chunks, bool *input_wanted) {
  pthread_mutex_lock(&e->op.loop->lock);
  bool was_full = e->chunks.bytes >= PCO__QUEUE_BYTES;
  pco__chunks_move(chunks, &e->chunks);
  *input_wanted = e->input_wanted;
  e->input_wanted = false;
  pthread_mutex_unlock(&e->op.loop->lock);
  if (was_full && atomic_load(&e->op.word) != PCO__OP_DONE)
    poke(e);
}

/* ---- the end ------------------------------------------------------------- */

pco__error *pco__result_error(const pco__result *r, const pco__process *p,
                              bool check) {
  const pco__exit *x = &r->exit;
  const char *about = p->argv[0];
  if (x->reason == PCO_REASON_TIMEOUT && x->n_survivors)
    return pco__error_new(PCO_ETIMEDOUT, PCO_SOURCE_HOST, about,
                          "%s did not end within %g s; %d of its processes "
                          "could not be killed",
                          about, (double)p->timeout / 1e9, x->n_survivors);
  if (x->reason == PCO_REASON_TIMEOUT)
    return pco__error_new(PCO_ETIMEDOUT, PCO_SOURCE_HOST, about,
                          "%s did not end within %g s and was killed", about,
                          (double)p->timeout / 1e9);
  pco__error *loss = pco__process_loss(p);
  if (loss)
    return loss;
  if (!check || (x->code == 0 && !x->signal))
    return NULL;
  const pco__exit_words words = {
      .path = about,
      .code = x->code,
      .signal = x->signal ? pco__signal_name(x->signal) : NULL,
      .oom = x->oom || x->reason == PCO_REASON_OOM,
      .err = r->out[PCO__STDERR].data,
      .len = r->out[PCO__STDERR].len,
  };
  return pco__exit_error(&words);
}

static pco__error *take_input_error(pco__exec *e) {
  pco__error *err = e->input_error;
  e->input_error = NULL;
  return err;
}

static pco__error *outcome(pco__exec *e, pco__process *p) {
  if (p->error)
    return pco__process_error(p);
  if (!e->result)
    return pco__error_no_memory();
  /* A result that came before the cancellation took hold is the result. */
  if (e->op.cancel_code && p->exit.reason == PCO_REASON_KILLED)
    return pco__error_new(UV_ECANCELED, PCO_SOURCE_HOST, NULL, NULL);
  pco__error *err = pco__result_error(e->result, p, e->opts.check);
  return err ? err : take_input_error(e);
}

void pco__exec_ended(pco__exec *e) {
  pco__process *p = e->process;
  if (!p->failed)
    e->result = pco__result_ref(pco__process_result(p));
  pco__error *err = outcome(e, p);
  p->exec = NULL;
  p->input.busy = false; /* its bytes go with this op */
  pco__process_close_stdin(p);
  pco__process_release(p);
  pco__op_complete(&e->op, err);
}

/* ---- the op -------------------------------------------------------------- */

static void exec_start(pco__op *op) {
  pco__exec *e = exec_of(op);
  pthread_mutex_lock(&op->loop->lock); /* the caller may look already */
  pco__chunks_init(&e->chunks);
  pthread_mutex_unlock(&op->loop->lock);
  pco__error *err = pco__sandbox_check(e->sandbox);
  if (!err) {
    atomic_fetch_add(&op->refs, 1); /* against an end inside the spawn */
    pco__process *p = pco__process_spawn(e->sandbox, &e->opts, e, NULL);
    if (!p)
      err = pco__error_no_memory();
    pco__op_unref(op);
  }
  if (err)
    pco__op_complete(op, err);
}

static void exec_cancel(pco__op *op) {
  pco__exec *e = exec_of(op);
  if (e->process)
    pco__process_kill(e->process, e->opts.grace, PCO_REASON_KILLED);
}

static void exec_destroy(pco__op *op) {
  pco__exec *e = exec_of(op);
  pco__process_unref(e->process);
  pco__result_unref(e->result);
  pco__error_free(e->input_error);
  pco__sandbox_unref(e->sandbox);
  free(e->given);
  if (e->chunks.last)
    pco__chunks_free(&e->chunks);
}

const pco__op_class pco__exec_class = {.name = "exec",
                                       .start = exec_start,
                                       .cancel = exec_cancel,
                                       .push = pco__push_exec,
                                       .destroy = exec_destroy};
const pco__op_class pco__output_class = {.name = "output",
                                         .start = exec_start,
                                         .cancel = exec_cancel,
                                         .push = pco__push_exec,
                                         .destroy = exec_destroy};
