/* SPDX-License-Identifier: MIT */
/* Waiting for output or a port, on the loop's thread; see wait_for.h. */
#include "wait_for.h"

#include <stdlib.h>

#include "fields.h"
#include "lua_result.h"
#include "wire.h"

#define FIRST_PAUSE UINT64_C(5000000)   /* ns, between two questions */
#define LAST_PAUSE  UINT64_C(100000000) /* it doubles up to here */

static pco__wait_for_op *wait_for_of(pco__op *op) {
  return PCO_CONTAINER(op, pco__wait_for_op, base.op);
}

bool pco__is_wait_for(const pco__op *op) {
  return op->cls == &pco__wait_output_class || op->cls == &pco__wait_port_class;
}

static void destroy(pco__op *op) {
  pco__wait_for_op *o = wait_for_of(op);
  pco__process_unref(o->base.process);
  pco__result_unref(o->base.result);
  pco__chunks_free(&o->base.chunks);
  pco__chunks_free(&o->arrived);
  for (int i = 0; i < PCO__N_STREAMS; i++)
    free(o->text[i].bytes);
  pco__error_free(o->complaint);
}

/* What was handed over to the script but not taken comes first again. */
static void take_back(pco__wait_for_op *o) {
  if (o->base.chunks.count)
    pco__chunks_move_front(&o->base.process->queue, &o->base.chunks);
}

/* ---- the end of the process ---------------------------------------------- */

static pco__error *ended_before(const pco__wait_for_op *o,
                                const pco__result *r) {
  char how[48];
  const char *about = o->base.process->argv[0];
  if (r->exit.signal)
    snprintf(how, sizeof how, "was ended by %s",
             pco__signal_name(r->exit.signal));
  else
    snprintf(how, sizeof how, "exited with code %d", r->exit.code);
  if (o->pattern)
    return pco__error_new(PCO_EEXIT, PCO_SOURCE_HOST, about,
                          "the command %s before its output matched \"%s\"",
                          how, o->pattern);
  return pco__error_new(PCO_EEXIT, PCO_SOURCE_HOST, about,
                        "the command %s before port %u was listened on", how,
                        o->port);
}

/* Ends the op because the process has ended. */
static void end_in_vain(pco__wait_for_op *o) {
  pco__process *p = o->base.process;
  if (!p->failed)
    o->base.result = pco__result_ref(pco__process_result(p));
  pco__error *err = pco__process_error(p);
  if (!err)
    err = o->base.result ? pco__result_error(o->base.result, p, p->check)
                         : pco__error_no_memory();
  if (!err)
    err = ended_before(o, o->base.result);
  o->base.op.cancel_code = 0; /* that was the caller's way to say so */
  pco__timer_stop(p->loop, &o->again);
  pco__op_complete(&o->base.op, err);
}

/* ---- output -------------------------------------------------------------- */

bool pco__looked_at(const pco__process *p) {
  for (const pco__node *n = p->lookers.next; n != &p->lookers; n = n->next)
    if (PCO_CONTAINER(n, pco__op, owner_node)->cls == &pco__wait_output_class)
      return true;
  return false;
}

static void show(pco__op *op, uint8_t stream, const char *data, size_t len) {
  pco__wait_for_op *o = wait_for_of(op);
  if (op->cls != &pco__wait_output_class || !o->looks_at[stream])
    return;
  pthread_mutex_lock(&op->loop->lock);
  int rc = pco__chunks_add(&o->arrived, stream, data, len);
  pthread_mutex_unlock(&op->loop->lock);
  if (rc < 0)
    pco__op_complete(op, pco__error_no_memory());
  else if (o->begun)
    pco__op_notify(op);
}

void pco__show_output(pco__process *p, uint8_t stream, const char *data,
                      size_t len) {
  for (pco__node *n = p->lookers.next; n != &p->lookers;) {
    pco__op *op = PCO_CONTAINER(n, pco__op, owner_node);
    n = n->next;
    show(op, stream, data, len);
  }
}

static void tell_end(pco__wait_for_op *o, bool ended, bool full) {
  pco__op *op = &o->base.op;
  pthread_mutex_lock(&op->loop->lock);
  bool news = (ended && !o->ended) || (full && !o->full);
  o->ended = ended;
  o->full = full;
  pthread_mutex_unlock(&op->loop->lock);
  if (news)
    pco__op_notify(op);
}

/* What there was is looked at as a whole. */
static void begin(pco__wait_for_op *o) {
  pthread_mutex_lock(&o->base.op.loop->lock);
  o->begun = true;
  pthread_mutex_unlock(&o->base.op.loop->lock);
  pco__op_notify(&o->base.op);
}

static void output_start(pco__op *op) {
  pco__wait_for_op *o = wait_for_of(op);
  pco__process *p = o->base.process;
  pco__process_ref(p);
  take_back(o);
  pco__list_append(&p->lookers, &op->owner_node);
  for (const pco__chunk *c = p->queue.first; c && !op->completed; c = c->next)
    show(op, c->stream, c->data + c->start, c->len - c->start);
  /* What lies in a pipe is there now, even for a call with timeout 0. */
  if (p->queue.bytes < PCO__QUEUE_BYTES)
    for (int i = 0; i < 2; i++)
      pco__stream_pump(&p->streams[i]);
  begin(o);
  pco__process_update(p);
  pco__process_unref(p);
}

/* The caller has seen enough, or the call is over. */
static void output_cancel(pco__op *op) {
  pco__wait_for_op *o = wait_for_of(op);
  pco__process *p = o->base.process;
  pthread_mutex_lock(&op->loop->lock);
  int verdict = o->verdict;
  pthread_mutex_unlock(&op->loop->lock);
  pco__process_ref(p); /* the op and its reference may go with completion */
  if (verdict == PCO__LOOK_IN_VAIN)
    end_in_vain(o);
  else
    pco__op_complete(op,
                     pco__error_new(UV_ECANCELED, PCO_SOURCE_HOST, NULL, NULL));
  pco__process_update(p);
  pco__process_unref(p);
}

const pco__op_class pco__wait_output_class = {.name = "process.wait_for",
                                              .start = output_start,
                                              .cancel = output_cancel,
                                              .event = pco__look_at_output,
                                              .push = pco__push_wait_for,
                                              .destroy = destroy};

/* ---- port ---------------------------------------------------------------- */

/* A LISTENS on its way. */
typedef struct question {
  pco__link_request request;
  pco__op *op; /* a reference */
} question;

static void end_port(pco__op *op, pco__error *err) {
  pco__timer_stop(op->loop, &wait_for_of(op)->again);
  pco__op_complete(op, err);
}

static void ask_later(pco__wait_for_op *o) {
  if (pco__timer_start(o->base.op.loop, &o->again, o->pause) < 0)
    end_port(&o->base.op, pco__error_no_memory());
  o->pause = o->pause * 2 < LAST_PAUSE ? o->pause * 2 : LAST_PAUSE;
}

static int on_answer(pco__link_request *r, const pco_wire_header *h,
                     const uint8_t *payload) {
  question *q = PCO_CONTAINER(r, question, request);
  pco__op *op = q->op;
  uint64_t listens = 0;
  pco__error *err = NULL;
  bool sane = true;
  if (h->type == PCO_WIRE_ERROR)
    sane = (err = pco__field_error(h, payload)) != NULL;
  else
    sane = pco__field_number(h, payload, PCO_TAG_COUNT, 1, &listens) == 1;
  if (sane && !op->completed && (err || listens))
    end_port(op, err);
  else if (sane && !op->completed)
    ask_later(wait_for_of(op));
  else
    pco__error_free(err);
  pco__op_unref(op);
  free(q);
  return sane ? 0 : -EPROTO; /* that ends the process, and with it the op */
}

static void on_answer_lost(pco__link_request *r, const pco__error *err) {
  question *q = PCO_CONTAINER(r, question, request);
  if (!q->op->completed)
    end_port(q->op, pco__error_copy(err));
  pco__op_unref(q->op);
  free(q);
}

static void ask(pco__op *op) {
  pco__link *link = wait_for_of(op)->base.process->sandbox->link;
  question *q = link ? calloc(1, sizeof *q) : NULL;
  if (!q) {
    end_port(op, link ? pco__error_no_memory()
                      : pco__error_new(PCO_EUNSUPPORTED, PCO_SOURCE_HOST, NULL,
                                       "this backend cannot tell which ports "
                                       "are listened on"));
    return;
  }
  atomic_fetch_add(&op->refs, 1);
  q->op = op;
  q->request.id = pco__link_next(link);
  q->request.type = PCO_WIRE_LISTENS;
  q->request.frame = on_answer;
  q->request.lost = on_answer_lost;
  pco_wire_buf frame = {0};
  pco_wire_begin(&frame, PCO_WIRE_LISTENS, 0, q->request.id);
  pco_wire_number(&frame, PCO_TAG_PORT, wait_for_of(op)->port);
  pco__link_request_send(link, &q->request, &frame, NULL, 0, true);
}

static void on_again(pco__timer *timer) {
  ask(&PCO_CONTAINER(timer, pco__wait_for_op, again)->base.op);
}

static void port_start(pco__op *op) {
  pco__wait_for_op *o = wait_for_of(op);
  pco__process *p = o->base.process;
  o->pause = FIRST_PAUSE;
  o->again.fn = on_again;
  take_back(o);
  pco__process_ref(p);
  pco__list_append(&p->lookers, &op->owner_node);
  if (p->has_exit || p->error)
    pco__process_update(p);
  else
    ask(op);
  pco__process_unref(p);
}

static void port_cancel(pco__op *op) {
  end_port(op, pco__error_new(UV_ECANCELED, PCO_SOURCE_HOST, NULL, NULL));
}

const pco__op_class pco__wait_port_class = {.name = "process.wait_for",
                                            .start = port_start,
                                            .cancel = port_cancel,
                                            .push = pco__push_wait_for,
                                            .destroy = destroy};

/* ---- from the process ---------------------------------------------------- */

/* Nobody will listen any more; what nobody has read goes to the result. */
static void tell_exit(pco__wait_for_op *o, pco__process *p) {
  if (pco__process_ended(p))
    end_in_vain(o);
  else if (!p->reader_open)
    p->drain_asked = true;
}

void pco__tell_lookers(pco__process *p) {
  for (pco__node *n = p->lookers.next; n != &p->lookers;) {
    pco__wait_for_op *o = wait_for_of(PCO_CONTAINER(n, pco__op, owner_node));
    n = n->next;
    if (o->base.op.cls == &pco__wait_output_class)
      tell_end(o, pco__process_ended(p), p->queue.bytes >= PCO__QUEUE_BYTES);
    else if (p->has_exit || p->error)
      tell_exit(o, p);
  }
}
