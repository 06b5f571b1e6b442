/* SPDX-License-Identifier: MIT */
/* The life of a waiting call; see op.h. */
#include "op.h"

#include <stdlib.h>

#include "runtime.h"
#include "sys/futex.h"

static void on_timeout(pco__timer *timer) {
  pco__op *op = PCO_CONTAINER(timer, pco__op, timer);
  pco__op_cancel_now(op, PCO_ECALLTIMEOUT);
}

pco__op *pco__op_new(const pco__op_class *cls, size_t size, pco__loop *loop) {
  pco__op *op = calloc(1, size);
  if (!op)
    return NULL;
  op->cls = cls;
  op->loop = loop;
  op->generation = loop->runtime->generation;
  op->timeout = -1;
  op->timer.fn = on_timeout;
  atomic_init(&op->refs, 1);
  pco__list_init(&op->done_node);
  pco__list_init(&op->owner_node);
  return op;
}

void pco__op_unref(pco__op *op) {
  if (atomic_fetch_sub_explicit(&op->refs, 1, memory_order_acq_rel) != 1)
    return;
  if (op->cls->destroy)
    op->cls->destroy(op);
  pco__error_free(op->error);
  pco__arena_free(&op->arena);
  free(op);
}

/* Wakes the caller: a portal's by the futex word, a task by the done list. */
static void signal_caller(pco__op *op, unsigned word) {
  if (op->loop->is_portal) {
    atomic_store_explicit(&op->word, word, memory_order_release);
    pco__futex_wake(&op->word);
    return;
  }
  atomic_store_explicit(&op->word, word, memory_order_relaxed);
  if (!pco__list_empty(&op->done_node))
    return;
  if (op->pending)
    pco__list_append(&op->loop->heard, &op->done_node);
  else if (op->task)
    pco__list_append(&op->loop->done, &op->done_node);
}

void pco__op_notify(pco__op *op) {
  if (!op->completed)
    signal_caller(op, PCO__OP_EVENT);
}

/* Why it was cancelled, with the time that was given if it was that. */
static pco__error *cancel_reason(const pco__op *op) {
  return op->cancel_code == PCO_ECALLTIMEOUT
             ? pco__error_late((double)op->timeout / 1e9)
             : pco__error_new(op->cancel_code, PCO_SOURCE_HOST, NULL, NULL);
}

/* The error that a cancelled op ends with: the reason, caused by what came out
 * of the work if that was more than "cancelled". */
static pco__error *cancel_error(pco__op *op, pco__error *err) {
  if (err->code == op->cancel_code)
    return err;
  if (err->code != UV_ECANCELED)
    return pco__error_because(cancel_reason(op), err);
  pco__error *why = err->message ? pco__error_new(op->cancel_code,
                                                  PCO_SOURCE_HOST, NULL, NULL)
                                 : cancel_reason(op);
  pco__error_take_message(why, err); /* how far it came */
  pco__error_free(err);
  return why;
}

void pco__op_complete(pco__op *op, pco__error *err) {
  if (op->completed) {
    pco__error_free(err);
    return;
  }
  pco__list_remove(&op->owner_node);
  pco__timer_stop(op->loop, &op->timer);
  if (op->cls->hold && op->cls->hold(op, &err))
    return;
  op->completed = true;
  op->error = err && op->cancel_code ? cancel_error(op, err) : err;
  signal_caller(op, PCO__OP_DONE);
  pco__op_unref(op);
}

static void start(pco__call *call) {
  pco__op *op = PCO_CONTAINER(call, pco__op, call);
  if (op->timeout >= 0 &&
      pco__timer_start(op->loop, &op->timer, (uint64_t)op->timeout) < 0) {
    pco__op_complete(op, pco__error_no_memory());
    return;
  }
  op->cls->start(op);
}

/* In a forked child: whether the op's loop is the parent's. */
static bool is_parents(const pco__op *op) {
  const pco__runtime *rt = op->loop->runtime;
  return op->generation != rt->generation || pco__runtime_forked(rt);
}

/* Completes an op that has not been started, on the caller's thread. */
static void refuse(pco__op *op, int code, const char *text) {
  op->completed = true;
  op->error = pco__error_new(code, PCO_SOURCE_HOST, NULL, "%s", text);
  signal_caller(op, PCO__OP_DONE);
  pco__op_unref(op);
}

void pco__op_submit(pco__op *op) {
  atomic_fetch_add_explicit(&op->refs, 1, memory_order_relaxed);
  op->call.fn = start;
  if (is_parents(op))
    refuse(op, PCO_EFORKED, "it belongs to the parent process");
  else if (!op->loop->is_portal)
    start(&op->call);
  else if (pco__loop_post(op->loop, &op->call) < 0)
    refuse(op, PCO_ECLOSED, "its portal is closed");
}

void pco__op_cancel_now(pco__op *op, int code) {
  if (op->completed || op->cancel_code)
    return;
  op->cancel_code = code;
  if (op->cls->cancel)
    op->cls->cancel(op);
}

static void cancel_posted(pco__call *call) {
  pco__op *op = PCO_CONTAINER(call, pco__op, cancel_call);
  pco__op_cancel_now(op, atomic_load(&op->cancel_wish));
  pco__op_unref(op);
}

void pco__op_cancel(pco__op *op, int code) {
  if (is_parents(op))
    return;
  if (!op->loop->is_portal) {
    pco__op_cancel_now(op, code);
    return;
  }
  int none = 0;
  if (atomic_load(&op->word) == PCO__OP_DONE ||
      !atomic_compare_exchange_strong(&op->cancel_wish, &none, code))
    return;
  atomic_fetch_add_explicit(&op->refs, 1, memory_order_relaxed);
  op->cancel_call.fn = cancel_posted;
  if (pco__loop_post(op->loop, &op->cancel_call) < 0)
    pco__op_unref(op);
}

int pco__op_wait(pco__op *op, int64_t ns) {
  for (;;) {
    unsigned word = atomic_load_explicit(&op->word, memory_order_acquire);
    if (word == PCO__OP_DONE)
      return PCO__OP_DONE;
    if (word == PCO__OP_EVENT &&
        atomic_compare_exchange_strong(&op->word, &word, PCO__OP_PENDING))
      return PCO__OP_EVENT;
    if (word != PCO__OP_PENDING)
      continue;
    int rc = pco__futex_wait(&op->word, PCO__OP_PENDING, ns);
    if (rc < 0)
      return rc;
  }
}
