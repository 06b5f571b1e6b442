/* SPDX-License-Identifier: MIT */
/*
 * The driver of processes in a sandbox with an agent.
 *
 * The host makes the pipes and sends the child's ends with the SPAWN frame, so
 * that bytes never pass through the agent; but for a terminal's, whose master
 * stays with the agent (stream_relay.h): whoever else holds one could make the
 * host's read of it block; and in a sandbox that may be detached, so that the
 * agent has what is written when nobody is there.  A command is named by the
 * number of its SPAWN; that request stays pending until EXIT.
 */
#include "process_agent.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "fields.h"

/* ---- frames that come ---------------------------------------------------- */

static int on_started(pco__process *p, const pco_wire_header *h,
                      const uint8_t *payload) {
  uint64_t pid;
  if (p->started ||
      pco__field_number(h, payload, PCO_TAG_PID, PCO__MAX_PID, &pid) != 1 ||
      pid == 0)
    return -EPROTO;
  pco__agent_process *a = p->agent;
  pco__link_answered(&a->spawn);
  if (a->ends_within)
    pco__link_expect(&a->spawn, a->ends_within);
  pco__process_started(p, (int64_t)pid);
  return 0;
}

int pco__agent_survivors(const pco_wire_header *h, const uint8_t *payload,
                         int64_t out[PCO__MAX_SURVIVORS]) {
  pco_wire_iter it;
  pco_wire_field f;
  int n = 0;
  pco_wire_iter_init(&it, payload, h->size);
  while (pco_wire_next(&it, &f) == 1) {
    if (f.tag != PCO_TAG_SURVIVOR)
      continue;
    if (n == PCO__MAX_SURVIVORS || f.number == 0 || f.number > PCO__MAX_PID)
      return -EPROTO;
    out[n++] = (int64_t)f.number;
  }
  return n;
}

int pco__agent_exit(const pco_wire_header *h, const uint8_t *payload,
                    pco__exit *out) {
  uint64_t code;
  uint64_t signal = 0;
  uint64_t reason;
  uint64_t duration = 0;
  uint64_t limit = PCO_LIMIT_NONE;
  pco__exit x = {0};
  if (pco__field_number(h, payload, PCO_TAG_CODE, 255, &code) != 1 ||
      pco__field_number(h, payload, PCO_TAG_REASON, PCO_REASON_OOM, &reason) !=
          1 ||
      pco__field_number(h, payload, PCO_TAG_LIMIT, PCO_LIMIT_PIDS, &limit) <
          0 ||
      pco__field_number(h, payload, PCO_TAG_SIGNAL, 64, &signal) < 0 ||
      pco__field_number(h, payload, PCO_TAG_DURATION, PCO__MAX_NS, &duration) <
          0 ||
      (signal && code != 128 + signal) ||
      (reason == PCO_REASON_OOM && signal != SIGKILL))
    return -EPROTO;
  x.n_survivors = pco__agent_survivors(h, payload, x.survivors);
  if (x.n_survivors < 0)
    return -EPROTO;
  x.code = (int)code;
  x.signal = (int)signal;
  x.reason = (int)reason;
  x.limit = (int)limit;
  x.duration = duration;
  *out = x;
  return 0;
}

static int on_exit_frame(pco__process *p, const pco_wire_header *h,
                         const uint8_t *payload) {
  pco__exit x;
  int rc = p->started ? pco__agent_exit(h, payload, &x) : -EPROTO;
  if (rc == 0)
    pco__process_exited(p, &x);
  return rc;
}

static int on_error_frame(pco__process *p, const pco_wire_header *h,
                          const uint8_t *payload) {
  pco__error *err = pco__field_error(h, payload);
  if (!err || p->started) {
    pco__error_free(err);
    return -EPROTO;
  }
  if (p->agent->relay)
    pco__relay_drop(p->agent->relay);
  pco__process_failed(p, err);
  return 0;
}

int pco__agent_on_frame(pco__link_request *r, const pco_wire_header *h,
                        const uint8_t *payload) {
  pco__agent_process *a = PCO_CONTAINER(r, pco__agent_process, spawn);
  pco__process *p = a->process;
  int rc;
  if (h->type == PCO_WIRE_STARTED)
    return on_started(p, h, payload);
  if (h->type == PCO_WIRE_EXIT)
    rc = on_exit_frame(p, h, payload);
  else
    rc = on_error_frame(p, h, payload);
  /* A broken final frame ends the link, and with it the process; the request
   * is no longer the link's either way. */
  pco__process_unref(p);
  return rc;
}

/* The sandbox told the process before; only our reference is left. */
void pco__agent_on_lost(pco__link_request *r, const pco__error *err) {
  (void)err;
  pco__process_unref(PCO_CONTAINER(r, pco__agent_process, spawn)->process);
}

/* ---- handing over -------------------------------------------------------- */

/* Takes what a relay of this command's would have; the bits of it. */
static unsigned take_ends(pco__process *p, int fds[3], uint8_t *n) {
  unsigned bits = 0;
  *n = 0;
  int in = pco__agent_stdin_take(p->agent);
  if (in >= 0) {
    fds[(*n)++] = in;
    bits |= PCO__RELAY_IN;
  }
  for (int i = 0; i < 2; i++) {
    int fd = pco__stream_take_fd(&p->streams[i]);
    if (fd < 0)
      continue;
    fds[(*n)++] = fd;
    bits |= PCO__RELAY_OUT << i;
  }
  return bits;
}

/* The agent reads from now on, also while this loop does not turn. */
static void agent_hand_over(pco__process *p) {
  pco__agent_process *a = p->agent;
  int fds[3];
  uint8_t n = 0;
  unsigned bits = a->relay ? 0 : take_ends(p, fds, &n);
  if (bits)
    a->relay = pco__relay_open(p->sandbox->link, a->target, p, bits, false);
  if (a->relay) {
    pco__relay_adopt(a->relay, bits, fds, n);
    return;
  }
  while (n > 0)
    close(fds[--n]); /* no memory: they end */
  for (int i = 0; i < 2; i++)
    pco__stream_close(&p->streams[i], true);
}

/* ---- the end ------------------------------------------------------------- */

static void agent_hang_up(pco__process *p) {
  if (p->agent && p->agent->relay)
    pco__relay_hang_up(p->agent->relay);
}

void pco__process_forget_relay(pco__process *p) {
  if (p->agent)
    p->agent->relay = NULL;
}

static void agent_release(pco__process *p) {
  pco__agent_process *a = p->agent;
  if (!a)
    return;
  if (!pco__list_empty(&a->spawn.node)) {
    /* Its sandbox is going: no answer will come. */
    pco__link_forget(&a->spawn);
    pco__process_unref(p); /* the request's; the caller holds another */
  }
  p->stdin_open = false;
  if (a->relay)
    pco__relay_release(a->relay);
  pco__agent_close_stdin(p);
  for (int i = 0; i < 2; i++)
    pco__stream_close(&p->streams[i], false);
  free(a);
  p->agent = NULL;
}

const pco__process_driver pco__process_agent_driver = {
    .spawn = pco__agent_spawn,
    .signal = pco__agent_signal,
    .kill = pco__agent_kill,
    .write = pco__agent_write,
    .close_stdin = pco__agent_close_stdin,
    .resize = pco__agent_resize,
    .hand_over = agent_hand_over,
    .hang_up = agent_hang_up,
    .take_stdin = pco__agent_take_stdin,
    .release = agent_release,
};
