/* SPDX-License-Identifier: MIT */
/*
 * An output of a relay: what the command writes is passed on within the host's
 * credit, or kept in a ring while nobody reads; and its end.
 */
#include "agent.h"
#include "relay_parts.h"

#include <errno.h>
#include <limits.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define BLOCK PCO_RELAY_CREDIT /* of output in one frame; fits the ring */
/* More than the kernel keeps of a terminal's output. */
#define TERMINAL_HOLDS (128u * 1024)

static void on_output(void *arg, uint32_t events);

void pco_relay_out_init(pco_relay_out *o, pco_relay *r, uint8_t stream) {
  *o = (pco_relay_out){.relay = r,
                       .source = {.fd = -1},
                       .stream = stream,
                       .credit = PCO_RELAY_CREDIT};
}

void pco_relay_out_open(pco_relay_out *o, int fd) {
  o->source = (pco_source){.fd = fd, .fn = on_output, .arg = o};
}

bool pco_relay_out_is_open(const pco_relay_out *o) {
  return o->source.fd >= 0 || o->eof;
}

static void send_output(pco_relay_out *o, const uint8_t *data, size_t len,
                        int eof) {
  pco_agent *a = o->relay->agent;
  pco_wire_begin(&a->buf, PCO_WIRE_OUTPUT, 0, o->relay->op);
  pco_wire_number(&a->buf, PCO_TAG_STREAM, o->stream);
  pco_wire_number(&a->buf, PCO_TAG_OFFSET, o->offset);
  if (len > 0)
    pco_wire_bytes(&a->buf, PCO_TAG_DATA, data, len);
  if (eof)
    pco_wire_number(&a->buf, PCO_TAG_EOF, (uint64_t)eof);
  pco_answer(a);
  o->offset += len;
  o->credit -= len;
}

/* Tells the end. */
static void finish_output(pco_relay_out *o, int eof) {
  o->eof = 0;
  send_output(o, NULL, 0, eof);
  if (o->closing)
    pco_answer_empty(o->relay->agent, o->closing);
  pco_relay_discard_if_ended(o->relay);
  pco_records_settle(o->relay->agent, o->relay->op);
}

/* Ends an output, and with a terminal's its input; closing the master hangs
 * it up.  What is in the ring can still be asked for. */
static void end_output(pco_relay_out *o, int eof) {
  pco_relay *r = o->relay;
  pco_relay_close_source(r->agent, &o->source, &o->watched);
  if (r->terminal)
    pco_relay_close_source(r->agent, &r->in.source, &r->in.watched);
  if (o->ring.len > 0 && !o->closing)
    o->eof = eof;
  else
    finish_output(o, eof);
}

/* ---- what is kept -------------------------------------------------------- */

static void keep_output(pco_relay_out *o, const uint8_t *data, size_t len) {
  o->offset += pco_ring_add(&o->ring, data, len);
}

/* Passes on what the credit allows, and then the end.  Whoever has read it all
 * and goes on holds the command back from now on, as any reader does. */
static void send_ring(pco_relay_out *o) {
  const uint8_t *data;
  while (o->ring.len > 0 && o->credit > 0) {
    size_t n = pco_ring_peek(&o->ring, o->credit, &data);
    send_output(o, data, n, 0);
    pco_ring_take(&o->ring, n);
  }
  if (o->ring.len == 0 && o->credit >= PIPE_BUF)
    o->adopted = false;
  if (o->ring.len == 0 && o->eof)
    finish_output(o, o->eof);
}

int pco_relay_out_adopt(pco_relay_out *o) {
  if (o->source.fd < 0)
    return 0;
  o->adopted = true;
  o->credit = 0;
  return pco_ring_init(&o->ring);
}

/* ---- reading ------------------------------------------------------------ */

/* Reads up to `most` bytes; *end: nothing more lies there, as errno or 0 (the
 * end) says.  Never with little room: of a packet (a pipe that the command made
 * O_DIRECT) the rest would be lost. */
static size_t gather(int fd, uint8_t *block, size_t most, bool *end) {
  size_t len = 0;
  *end = false;
  while (most - len >= PIPE_BUF) {
    ssize_t n = read(fd, block + len, most - len);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0) {
      *end = true;
      errno = n < 0 ? errno : 0;
      break;
    }
    len += (size_t)n;
  }
  return len;
}

static bool may_read(const pco_relay_out *o) {
  bool may_send = o->credit >= PIPE_BUF && !o->relay->agent->relays.clogged;
  return o->source.fd >= 0 && o->relay->started && (o->adopted || may_send);
}

/* True if what is to be passed on before the end was. */
static bool is_over(const pco_relay_out *o, bool dry) {
  return o->closing && (dry || o->offset + o->ring.len >= o->until ||
                        (!o->adopted && o->credit < PIPE_BUF));
}

/* Passes on what lies there, at most a block. */
static void pass_output(pco_relay_out *o) {
  static uint8_t block[BLOCK];
  bool end;
  if (!may_read(o))
    return;
  size_t most = o->adopted || o->credit > BLOCK ? BLOCK : (size_t)o->credit;
  size_t len = gather(o->source.fd, block, most, &end);
  int error = errno;
  if (o->adopted) {
    keep_output(o, block, len);
    if (!o->relay->agent->relays.clogged)
      send_ring(o);
  } else if (len > 0) {
    send_output(o, block, len, 0);
  }
  if (end && error != EAGAIN)
    end_output(o, PCO_EOF_END);
  else if (is_over(o, end))
    end_output(o, PCO_EOF_HELD);
}

void pco_relay_out_watch(pco_relay_out *o) {
  if (!pco_relay_watch(o->relay->agent, &o->source, &o->watched, may_read(o),
                       EPOLLIN))
    end_output(o, PCO_EOF_END);
}

static void on_output(void *arg, uint32_t events) {
  pco_relay_out *o = arg;
  (void)events;
  pass_output(o);
  pco_relay_out_watch(o);
}

/* Of an output whose end is asked for nothing may lie there any more, so it is
 * looked at once more. */
void pco_relay_out_go_on(pco_relay_out *o) {
  if (o->adopted && !o->relay->agent->relays.clogged)
    send_ring(o);
  if (o->closing)
    pass_output(o);
  pco_relay_out_watch(o);
}

void pco_relay_out_give_up(pco_relay_out *o) {
  if (!o->adopted || !pco_relay_out_is_open(o))
    return;
  o->offset += o->ring.len;
  pco_ring_take(&o->ring, o->ring.len);
  end_output(o, PCO_EOF_END);
}

/* Who waits for its end is gone, too. */
void pco_relay_out_let_go(pco_relay_out *o) {
  o->closing = 0;
  o->credit = 0;
  if (pco_relay_out_adopt(o) != 0)
    end_output(o, PCO_EOF_HELD);
  else
    pco_relay_out_watch(o);
}

/* ---- requests ----------------------------------------------------------- */

void pco_relay_credit(pco_agent *a, const pco_request *q) {
  pco_relay *r = pco_relay_find(a, q->op);
  if (!r)
    return;
  pco_relay_out *o = &r->out[pco_request_number(q, PCO_TAG_STREAM) - 1];
  o->credit += pco_request_number(q, PCO_TAG_LENGTH);
  if (o->credit > PCO_MAX_CREDIT)
    pco_agent_protocol_error(a);
  if (o->adopted)
    send_ring(o);
  pco_relay_out_watch(o);
}

/* How far an output goes whose end is asked for. */
static uint64_t last_offset(const pco_relay_out *o) {
  int there = 0;
  uint64_t read = o->offset + o->ring.len;
  if (o->relay->terminal)
    return read + TERMINAL_HOLDS;
  return read +
         (ioctl(o->source.fd, FIONREAD, &there) == 0 ? (uint64_t)there : 0);
}

void pco_relay_close_output(pco_agent *a, const pco_request *q) {
  pco_relay *r = pco_relay_find(a, pco_request_number(q, PCO_TAG_TARGET));
  pco_relay_out *o =
      r ? &r->out[pco_request_number(q, PCO_TAG_STREAM) - 1] : NULL;
  bool now = pco_request_number(q, PCO_TAG_FLAGS) & PCO_CLOSE_NOW;
  if (!o || !pco_relay_out_is_open(o)) {
    pco_answer_empty(a, q->op);
    return;
  }
  uint64_t before = o->closing;
  if (before && !now) {
    pco_answer_error(a, q->op, EALREADY, NULL, NULL);
    return;
  }
  o->closing = q->op;
  o->until = now ? 0 : last_offset(o);
  if (o->source.fd < 0)
    finish_output(o, o->eof); /* only the ring was left */
  else if (is_over(o, !r->started))
    end_output(o, PCO_EOF_HELD);
  else
    on_output(o, 0);
  if (before) /* that one waited, and now it is over */
    pco_answer_empty(a, before);
}
