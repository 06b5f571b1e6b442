/* SPDX-License-Identifier: MIT */
/*
 * Leaving a sandbox, which runs on; see sandbox.h.
 *
 *   barrier   new calls are refused, those that wait go on.  A PING is answered
 *             when the agent has taken all that was sent before
 *   plugin    its detach(): from then on the sandbox does not need us
 *   parting   whoever waits for something in it is told that it is closed, and
 *             the agent's stream ends.  CLOSED
 *
 * Until the plugin's detach() has succeeded nothing is lost: when it fails, or
 * the call is cancelled, the sandbox is RUNNING as before.  A close() that
 * comes meanwhile waits, and has nothing to do if the sandbox was left.
 */
#include <errno.h>
#include <stdlib.h>

#include "runtime.h"
#include "sandbox_parts.h"

/* ---- the end of it ------------------------------------------------------- */

/* Nobody may be there to hear of it. */
static void tell(pco__sandbox *sb, pco__error *err) {
  pco__op *op = sb->calls->detach_op;
  sb->calls->detach_op = NULL;
  sb->calls->barrier = NULL;
  if (op) {
    pco__op_complete(op, err);
    return;
  }
  if (err && err->code != PCO_EGONE)
    pco__log_write(&sb->loop->runtime->log, PCO_LOG_WARNING,
                   "the sandbox %s could not be detached: %s", sb->id,
                   err->message ? err->message : pco__code_text(err->code));
  pco__error_free(err);
}

void pco__sandbox_detach_fail(pco__sandbox *sb, pco__error *err) {
  if (sb->state == PCO__SANDBOX_DETACHING)
    sb->state = PCO__SANDBOX_RUNNING;
  tell(sb, err);
}

static void fail(pco__sandbox *sb, pco__error *err) {
  pco__sandbox_ref(sb); /* the op may have the last one */
  pco__sandbox_detach_fail(sb, err);
  if (sb->calls->why_dead) {
    pco__error *why = sb->calls->why_dead;
    sb->calls->why_dead = NULL;
    pco__sandbox_link_died(sb, why);
    pco__error_free(why);
  } else if (sb->calls->close_wished) {
    pco__sandbox_begin_close(sb);
  }
  pco__sandbox_unref(sb);
}

static void part(pco__sandbox *sb) {
  pco__op *op = sb->calls->detach_op;
  sb->calls->detach_op = NULL;
  sb->plugin = NULL;
  sb->state = PCO__SANDBOX_CLOSING;
  if (op)
    pco__list_append(&sb->closers, &op->owner_node);
  pco__sandbox_part(sb, "the sandbox was detached meanwhile");
  pco__sandbox_end(sb, NULL);
}

/* ---- the plugin's part --------------------------------------------------- */

static void on_detached(pco_op *call, pco__error *err) {
  pco__sandbox *sb =
      PCO_CONTAINER(call, struct pco__sandbox_calls, detach)->sandbox;
  sb->calls->detaching = false;
  if (err)
    fail(sb, err);
  else
    part(sb);
}

static void call_plugin(pco__sandbox *sb) {
  pco_op *call = &sb->calls->detach;
  sb->calls->barrier = NULL;
  sb->calls->detaching = true;
  pco__plugin_op_init(call, sb->backend, NULL, on_detached);
  pco__plugin_op_submitted(call,
                           sb->backend->info->api->detach(sb->plugin, call));
}

/* The plugin's sandbox must be there for as long as its detach() runs. */
bool pco__sandbox_detach_later(pco__sandbox *sb, const pco__error *why) {
  if (!sb->calls->detaching)
    return false;
  if (!sb->calls->why_dead)
    sb->calls->why_dead = pco__error_copy(why);
  return true;
}

/* ---- the barrier --------------------------------------------------------- */

static void free_barrier(pco__barrier *b) {
  pco__sandbox_unref(b->sandbox);
  free(b);
}

static int on_pong(pco__link_request *r, const pco_wire_header *h,
                   const uint8_t *payload) {
  pco__barrier *b = PCO_CONTAINER(r, pco__barrier, request);
  int rc = h->type == PCO_WIRE_REPLY ? 0 : -EPROTO;
  (void)payload;
  if (rc == 0 && b->sandbox->calls->barrier == b)
    call_plugin(b->sandbox);
  free_barrier(b);
  return rc;
}

/* Whoever closed the link has told the op. */
static void on_pong_lost(pco__link_request *r, const pco__error *err) {
  (void)err;
  free_barrier(PCO_CONTAINER(r, pco__barrier, request));
}

static void send_barrier(pco__sandbox *sb) {
  pco__barrier *b = calloc(1, sizeof *b);
  pco_wire_buf frame = {0};
  if (!b) {
    fail(sb, pco__error_no_memory());
    return;
  }
  pco__sandbox_ref(sb);
  b->sandbox = sb;
  sb->calls->barrier = b;
  b->request.id = pco__link_next(sb->link);
  b->request.type = PCO_WIRE_PING;
  b->request.frame = on_pong;
  b->request.lost = on_pong_lost;
  pco_wire_begin(&frame, PCO_WIRE_PING, 0, b->request.id);
  pco__link_request_send(sb->link, &b->request, &frame, NULL, 0, true);
}

/* ---- the call ------------------------------------------------------------ */

static pco__error *why_not(const pco__sandbox *sb) {
  pco__error *err = pco__sandbox_check(sb);
  if (err)
    return err;
  if (!sb->detachable)
    return pco__error_new(PCO_EUNSUPPORTED, PCO_SOURCE_HOST, NULL,
                          "this sandbox was not made to be detached: create it "
                          "with detachable = true");
  if (!PCO_HAS(sb->backend->info->api, detach))
    return pco__error_new(PCO_EUNSUPPORTED, PCO_SOURCE_HOST, NULL,
                          "the backend %s cannot detach sandboxes",
                          sb->backend->info->id);
  return NULL;
}

void pco__sandbox_detach(pco__sandbox *sb, pco__op *op) {
  pco__error *err = why_not(sb);
  if (err) {
    if (op)
      pco__op_complete(op, err);
    else
      pco__error_free(err);
    return;
  }
  sb->calls->detach_op = op;
  sb->state = PCO__SANDBOX_DETACHING;
  if (sb->link)
    send_barrier(sb);
  else
    call_plugin(sb);
}

void pco__sandbox_detach_cancel(pco__sandbox *sb, const pco__op *op) {
  if (sb->calls->detach_op != op)
    return; /* it is being completed */
  if (sb->calls->detaching)
    pco__plugin_op_cancel(&sb->calls->detach);
  else
    fail(sb, pco__error_new(UV_ECANCELED, PCO_SOURCE_HOST, NULL, NULL));
}

/* ---- an attach that fails ------------------------------------------------ */

static void on_given_back(pco_op *call, pco__error *err) {
  pco__sandbox *sb =
      PCO_CONTAINER(call, struct pco__sandbox_calls, detach)->sandbox;
  if (err) { /* what is gone is only tidied up */
    pco__error_free(err);
    pco__sandbox_destroy(sb);
    return;
  }
  sb->plugin = NULL;
  pco__sandbox_end(sb, NULL);
}

void pco__sandbox_give_back(pco__sandbox *sb) {
  pco_op *call = &sb->calls->detach;
  const pco_backend_api *api = sb->backend->info->api;
  if (!sb->plugin || !PCO_HAS(api, detach)) {
    pco__sandbox_destroy(sb);
    return;
  }
  pco__plugin_op_init(call, sb->backend, NULL, on_given_back);
  pco__plugin_op_submitted(call, api->detach(sb->plugin, call));
}
