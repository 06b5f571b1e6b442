/* SPDX-License-Identifier: MIT */
/*
 * The input of a relay: what the host sent is kept, within its credit, until
 * the command reads it.
 */
#include "agent.h"
#include "relay_parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Tells the host of bytes that are gone, or that nobody reads any more. */
static void send_credit(const pco_relay *r, size_t len, bool eof) {
  pco_agent *a = r->agent;
  pco_wire_begin(&a->buf, PCO_WIRE_CREDIT, 0, r->op);
  if (len > 0)
    pco_wire_number(&a->buf, PCO_TAG_LENGTH, len);
  if (eof)
    pco_wire_number(&a->buf, PCO_TAG_EOF, PCO_EOF_END);
  pco_answer(a);
}

/* A terminal's input ends with its output, which sees the same. */
static void end_input(pco_relay_in *in) {
  pco_relay *r = in->relay;
  pco_relay_close_source(r->agent, &in->source, &in->watched);
  if (!r->terminal)
    send_credit(r, 0, true);
  pco_relay_discard_if_ended(r);
}

/* Writes what the reader takes: 0, or a negative errno. */
static int write_input(pco_relay_in *in) {
  size_t before = in->at;
  int rc = 0;
  while (in->at < in->len && rc == 0) {
    ssize_t n = write(in->source.fd, in->data + in->at, in->len - in->at);
    if (n >= 0)
      in->at += (size_t)n;
    else if (errno != EINTR)
      rc = -errno;
  }
  if (in->at > before)
    send_credit(in->relay, in->at - before, false);
  return rc == -EAGAIN ? 0 : rc;
}

void pco_relay_in_pass(pco_relay_in *in) {
  if (in->source.fd < 0 || !in->relay->started)
    return;
  int rc = write_input(in);
  bool empty = in->at == in->len;
  if (rc != 0 || (empty && in->ending) ||
      !pco_relay_watch(in->relay->agent, &in->source, &in->watched, !empty,
                       EPOLLOUT))
    end_input(in);
}

static void on_input(void *arg, uint32_t events) {
  (void)events;
  pco_relay_in_pass(arg);
}

void pco_relay_in_init(pco_relay_in *in, pco_relay *r) {
  in->relay = r;
  in->source.fd = -1;
}

int pco_relay_in_open(pco_relay_in *in, int fd) {
  if (fd < 0)
    return -errno;
  in->source = (pco_source){.fd = fd, .fn = on_input, .arg = in};
  in->data = malloc(PCO_RELAY_CREDIT);
  return in->data ? 0 : -ENOMEM;
}

/* ---- requests ----------------------------------------------------------- */

void pco_relay_input(pco_agent *a, const pco_request *q) {
  pco_relay *r = pco_relay_find(a, q->op);
  if (!r || r->in.source.fd < 0)
    return;
  pco_relay_in *in = &r->in;
  if (in->at > 0) {
    memmove(in->data, in->data + in->at, in->len - in->at);
    in->len -= in->at;
    in->at = 0;
  }
  if (in->ending || q->data.len > PCO_RELAY_CREDIT - in->len) {
    pco_agent_protocol_error(a);
    return;
  }
  memcpy(in->data + in->len, q->data.s, q->data.len);
  in->len += q->data.len;
  pco_relay_in_pass(in);
}

void pco_relay_close_input(pco_agent *a, const pco_request *q) {
  pco_relay *r = pco_relay_find(a, q->op);
  if (!r || r->in.source.fd < 0 || r->terminal)
    return;
  r->in.ending = true;
  pco_relay_in_pass(&r->in);
}

/* That of a terminal ends with its output. */
void pco_relay_end_input(pco_agent *a, uint64_t op) {
  pco_relay *r = pco_relay_find(a, op);
  if (r && !r->terminal && r->in.source.fd >= 0)
    end_input(&r->in);
}
