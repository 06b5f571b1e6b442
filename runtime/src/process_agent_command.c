/* SPDX-License-Identifier: MIT */
/*
 * Requests that name a command of an agent's: SIGNAL, RESIZE and KILL.
 */
#include "process_agent.h"

#include <errno.h>
#include <stdlib.h>

#include "fields.h"

/* A SIGNAL or KILL on its way. */
typedef struct command_request {
  pco__link_request request;
  pco__process *process; /* a reference */
  pco__op *op;           /* SIGNAL: to complete */
} command_request;

static pco__error *nonsense(void) {
  return pco__error_new(PCO_EPROTO, PCO_SOURCE_AGENT, NULL,
                        "the agent's answer makes no sense");
}

/* KILL was answered: whoever waits for it waits for the EXIT as well, so that
 * one must come now.  (A broken answer ends the link, and with it the wait.) */
static int on_killed(pco__process *p, const pco_wire_header *h,
                     const uint8_t *payload) {
  int64_t survivors[PCO__MAX_SURVIVORS];
  int n = 0;
  if (h->type == PCO_WIRE_REPLY)
    n = pco__agent_survivors(h, payload, survivors);
  if (n < 0)
    return n;
  if (p->agent)
    pco__link_expect(&p->agent->spawn, 0);
  pco__process_killed(p, survivors, n);
  return 0;
}

static int on_command_reply(pco__link_request *r, const pco_wire_header *h,
                            const uint8_t *payload) {
  command_request *c = PCO_CONTAINER(r, command_request, request);
  pco__process *p = c->process;
  pco__error *err = NULL;
  int rc = 0;
  if (h->type == PCO_WIRE_ERROR) {
    err = pco__field_error(h, payload);
    rc = err ? 0 : -EPROTO;
  }
  if (c->op) {
    pco__op_complete(c->op, rc < 0 ? nonsense() : err);
    pco__op_unref(c->op);
  } else {
    if (rc == 0)
      rc = on_killed(p, h, payload);
    pco__error_free(err);
  }
  pco__process_unref(p);
  free(c);
  return rc;
}

static void on_command_lost(pco__link_request *r, const pco__error *err) {
  command_request *c = PCO_CONTAINER(r, command_request, request);
  if (c->op) {
    pco__op_complete(c->op, pco__error_copy(err));
    pco__op_unref(c->op);
  }
  pco__process_unref(c->process);
  free(c);
}

static command_request *new_command(pco__process *p, uint16_t type,
                                    pco__op *op) {
  command_request *c = calloc(1, sizeof *c);
  if (!c)
    return NULL;
  pco__process_ref(p);
  c->process = p;
  c->op = op;
  if (op) /* it may be cancelled before the answer */
    atomic_fetch_add(&op->refs, 1);
  c->request.id = pco__link_next(p->sandbox->link);
  c->request.type = type;
  c->request.frame = on_command_reply;
  c->request.lost = on_command_lost;
  return c;
}

void pco__agent_signal(pco__process *p, int signo, pco__op *op) {
  command_request *c = new_command(p, PCO_WIRE_SIGNAL, op);
  if (!c) {
    pco__op_complete(op, pco__error_no_memory());
    return;
  }
  pco_wire_buf frame = {0};
  pco_wire_begin(&frame, PCO_WIRE_SIGNAL, 0, c->request.id);
  pco_wire_number(&frame, PCO_TAG_TARGET, p->agent->target);
  pco_wire_number(&frame, PCO_TAG_SIGNO, (uint64_t)signo);
  pco__link_request_send(p->sandbox->link, &c->request, &frame, NULL, 0, true);
}

void pco__agent_resize(pco__process *p, uint16_t cols, uint16_t rows,
                       pco__op *op) {
  command_request *c = new_command(p, PCO_WIRE_RESIZE, op);
  if (!c) {
    pco__op_complete(op, pco__error_no_memory());
    return;
  }
  pco_wire_buf frame = {0};
  pco_wire_begin(&frame, PCO_WIRE_RESIZE, 0, c->request.id);
  pco_wire_number(&frame, PCO_TAG_TARGET, p->agent->target);
  pco_wire_number(&frame, PCO_TAG_COLS, cols);
  pco_wire_number(&frame, PCO_TAG_ROWS, rows);
  pco__link_request_send(p->sandbox->link, &c->request, &frame, NULL, 0, true);
}

void pco__agent_kill(pco__process *p, uint64_t grace, int reason) {
  command_request *c =
      p->sandbox->link ? new_command(p, PCO_WIRE_KILL, NULL) : NULL;
  if (!c) {
    pco__process_killed(p, NULL, 0);
    return;
  }
  pco_wire_buf frame = {0};
  pco_wire_begin(&frame, PCO_WIRE_KILL, 0, c->request.id);
  pco_wire_number(&frame, PCO_TAG_TARGET, p->agent->target);
  pco_wire_number(&frame, PCO_TAG_GRACE, grace);
  pco_wire_number(&frame, PCO_TAG_REASON, (uint64_t)reason);
  pco__link_request_send(p->sandbox->link, &c->request, &frame, NULL, 0, false);
  pco__link_expect(&c->request, grace);
}
