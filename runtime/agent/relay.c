/* SPDX-License-Identifier: MIT */
/*
 * See relay.h.
 */
#include "relay.h"

#include "agent.h"
#include "terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define BLOCK PCO_RELAY_CREDIT /* of output in one frame; fits the ring */
/* More than the kernel keeps of a terminal's output. */
#define TERMINAL_HOLDS (128u * 1024)

/* ---- the list ----------------------------------------------------------- */

static pco_relay *find(const pco_agent *a, uint64_t op) {
  pco_relay *r = a->relays.live;
  while (r && r->op != op)
    r = r->next;
  return r;
}

static pco_relay *create(pco_agent *a, uint64_t op) {
  pco_relay *r = calloc(1, sizeof *r);
  if (!r)
    return NULL;
  r->agent = a;
  r->op = op;
  r->slave = -1;
  r->in.relay = r;
  r->in.source.fd = -1;
  for (uint8_t i = 0; i < 2; i++)
    r->out[i] = (pco_relay_out){.relay = r,
                                .source = {.fd = -1},
                                .stream = i + 1,
                                .credit = PCO_RELAY_CREDIT};
  r->next = a->relays.live;
  if (r->next)
    r->next->prev = r;
  a->relays.live = r;
  return r;
}

/* Its memory lives to the end of the turn: a source of it may be called. */
static void discard(pco_relay *r) {
  pco_relays *all = &r->agent->relays;
  if (r->next)
    r->next->prev = r->prev;
  if (r->prev)
    r->prev->next = r->next;
  else
    all->live = r->next;
  r->next = all->gone;
  r->prev = NULL;
  all->gone = r;
}

static void close_source(pco_agent *a, pco_source *s, bool *watched) {
  if (s->fd < 0)
    return;
  if (*watched)
    pco_source_remove(a->epoll, s);
  *watched = false;
  s->fn = NULL;
  close(s->fd);
  s->fd = -1;
}

static void close_slave(pco_relay *r) {
  if (r->slave >= 0)
    close(r->slave);
  r->slave = -1;
}

static void close_all(pco_relay *r) {
  for (int i = 0; i < 2; i++)
    close_source(r->agent, &r->out[i].source, &r->out[i].watched);
  close_source(r->agent, &r->in.source, &r->in.watched);
  close_slave(r);
}

/* True until its end was told. */
static bool is_open(const pco_relay_out *o) {
  return o->source.fd >= 0 || o->eof;
}

static void discard_if_ended(pco_relay *r) {
  if (!is_open(&r->out[0]) && !is_open(&r->out[1]) && r->in.source.fd < 0) {
    close_slave(r);
    discard(r);
  }
}

/* Watches a source, or not.  One that cannot be watched (no memory, no watcher,
 * no pipe) would leave the host waiting for ever: false, and it is to end. */
static bool watch(pco_agent *a, pco_source *s, bool *watched, bool wanted,
                  uint32_t events) {
  if (s->fd < 0 || wanted == *watched)
    return true;
  void (*fn)(void *, uint32_t) = s->fn;
  if (!wanted)
    pco_source_remove(a->epoll, s);
  bool good = !wanted || pco_source_add(a->epoll, s, events) == 0;
  s->fn = fn;
  *watched = wanted && good;
  return good;
}

/* ---- output ------------------------------------------------------------- */

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
  discard_if_ended(o->relay);
}

/* Ends an output, and with a terminal's its input; closing the master hangs
 * it up.  What is in the ring can still be asked for. */
static void end_output(pco_relay_out *o, int eof) {
  pco_relay *r = o->relay;
  close_source(r->agent, &o->source, &o->watched);
  if (r->terminal)
    close_source(r->agent, &r->in.source, &r->in.watched);
  if (o->ring.len > 0 && !o->closing)
    o->eof = eof;
  else
    finish_output(o, eof);
}

/* ---- the ring ----------------------------------------------------------- */

/* Adds at most as many bytes as it holds; what is too old is dropped. */
static void keep_output(pco_relay_out *o, const uint8_t *data, size_t len) {
  pco_ring *g = &o->ring;
  size_t all = g->len + len;
  size_t over = all > PCO_RELAY_CREDIT ? all - PCO_RELAY_CREDIT : 0;
  g->at = (g->at + over) % PCO_RELAY_CREDIT;
  g->len -= over;
  o->offset += over;
  size_t to = (g->at + g->len) % PCO_RELAY_CREDIT;
  size_t first = PCO_RELAY_CREDIT - to < len ? PCO_RELAY_CREDIT - to : len;
  memcpy(g->data + to, data, first);
  memcpy(g->data, data + first, len - first);
  g->len += len;
}

/* Passes on what the credit allows, and then the end. */
static void send_ring(pco_relay_out *o) {
  pco_ring *g = &o->ring;
  while (g->len > 0 && o->credit > 0) {
    size_t n =
        PCO_RELAY_CREDIT - g->at < g->len ? PCO_RELAY_CREDIT - g->at : g->len;
    n = n < o->credit ? n : (size_t)o->credit;
    send_output(o, g->data + g->at, n, 0);
    g->at = (g->at + n) % PCO_RELAY_CREDIT;
    g->len -= n;
  }
  if (g->len == 0 && o->eof)
    finish_output(o, o->eof);
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

static void watch_output(pco_relay_out *o) {
  if (!watch(o->relay->agent, &o->source, &o->watched, may_read(o), EPOLLIN))
    end_output(o, PCO_EOF_END);
}

static void on_output(void *arg, uint32_t events) {
  pco_relay_out *o = arg;
  (void)events;
  pass_output(o);
  watch_output(o);
}

/* ---- input -------------------------------------------------------------- */

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
  close_source(r->agent, &in->source, &in->watched);
  if (!r->terminal)
    send_credit(r, 0, true);
  discard_if_ended(r);
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

static void pass_input(pco_relay_in *in) {
  if (in->source.fd < 0 || !in->relay->started)
    return;
  int rc = write_input(in);
  bool empty = in->at == in->len;
  if (rc != 0 || (empty && in->ending) ||
      !watch(in->relay->agent, &in->source, &in->watched, !empty, EPOLLOUT))
    end_input(in);
}

static void on_input(void *arg, uint32_t events) {
  (void)events;
  pass_input(arg);
}

/* ---- the start ---------------------------------------------------------- */

static void open_output(pco_relay_out *o, int fd) {
  o->source = (pco_source){.fd = fd, .fn = on_output, .arg = o};
}

static int open_input(pco_relay_in *in, int fd) {
  if (fd < 0)
    return -errno;
  in->source = (pco_source){.fd = fd, .fn = on_input, .arg = in};
  in->data = malloc(PCO_RELAY_CREDIT);
  return in->data ? 0 : -ENOMEM;
}

/* Makes the terminal; *theirs is the command's end. */
static int open_terminal(pco_relay *r, const pco_request *q, int *theirs) {
  pco_terminal t;
  bool echo = !(pco_request_number(q, PCO_TAG_FLAGS) & PCO_SPAWN_FLAG_NO_ECHO);
  int rc =
      pco_terminal_open(&t, (uint16_t)pco_request_number(q, PCO_TAG_COLS),
                        (uint16_t)pco_request_number(q, PCO_TAG_ROWS), echo);
  if (rc != 0)
    return rc;
  r->terminal = true;
  r->slave = t.slave;
  open_output(&r->out[0], t.master);
  rc = open_input(&r->in, fcntl(t.master, F_DUPFD_CLOEXEC, 3));
  *theirs = rc == 0 ? fcntl(t.slave, F_DUPFD_CLOEXEC, 3) : -1;
  return rc == 0 && *theirs < 0 ? -errno : rc;
}

/* Makes the pipe of stream i; a command of another id must be allowed to open
 * its /dev/stdout again. */
static int open_pipe(pco_relay *r, int i, int *theirs) {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0)
    return -errno;
  int ours = fds[i == 0 ? 1 : 0];
  *theirs = fds[i == 0 ? 0 : 1];
  if (i > 0)
    open_output(&r->out[i - 1], ours);
  int rc = i == 0 ? open_input(&r->in, ours) : 0;
  if (rc == 0 &&
      (fcntl(ours, F_SETFL, O_NONBLOCK) != 0 || fchmod(ours, 0666) != 0))
    rc = -errno;
  return rc;
}

/* The descriptors of f in the order of STDIO, with those of the relay. */
static int open_streams(pco_relay *r, pco_frame *f, const pco_request *q) {
  int fds[PCO_WIRE_MAX_FDS] = {-1, -1, -1};
  uint8_t n = 0, given = 0;
  int rc = 0;
  if (q->stdio[0] == PCO_STDIO_TERMINAL)
    rc = open_terminal(r, q, &fds[n++]);
  for (int i = 0; i < 3 && rc == 0; i++) {
    if (q->stdio[i] == PCO_STDIO_FD) {
      fds[n++] = f->fds[given++];
    } else if (q->stdio[i] == PCO_STDIO_RELAY) {
      rc = open_pipe(r, i, &fds[n++]);
    }
  }
  while (rc != 0 && given < f->header.n_fds)
    fds[n++] = f->fds[given++];
  memcpy(f->fds, fds, n * sizeof *fds);
  f->header.n_fds = n;
  return rc;
}

static bool wants_relay(const pco_request *q) {
  for (int i = 0; i < 3; i++)
    if (q->stdio[i] >= PCO_STDIO_RELAY)
      return true;
  return false;
}

int pco_relay_open(pco_agent *a, pco_frame *f, const pco_request *q) {
  if (!wants_relay(q))
    return 0;
  pco_relay *r = create(a, q->op);
  int rc = r ? open_streams(r, f, q) : -ENOMEM;
  if (rc == 0)
    return 0;
  pco_frame_close_fds(f);
  pco_relay_drop(a, q->op);
  return rc;
}

/* ---- the command -------------------------------------------------------- */

void pco_relay_started(pco_agent *a, uint64_t op) {
  pco_relay *r = find(a, op);
  if (!r)
    return;
  r->started = true;
  for (int i = 0; i < 2; i++)
    watch_output(&r->out[i]);
  pass_input(&r->in);
}

void pco_relay_exited(pco_agent *a, uint64_t op) {
  pco_relay *r = find(a, op);
  if (r)
    close_slave(r);
}

void pco_relay_drop(pco_agent *a, uint64_t op) {
  pco_relay *r = find(a, op);
  if (!r)
    return;
  close_all(r);
  discard(r);
}

/* ---- requests ----------------------------------------------------------- */

/* What names a relay that is over crossed its end on the way. */

void pco_relay_credit(pco_agent *a, const pco_request *q) {
  pco_relay *r = find(a, q->op);
  if (!r)
    return;
  pco_relay_out *o = &r->out[pco_request_number(q, PCO_TAG_STREAM) - 1];
  o->credit += pco_request_number(q, PCO_TAG_LENGTH);
  if (o->credit > PCO_MAX_CREDIT)
    pco_agent_protocol_error(a);
  if (o->adopted)
    send_ring(o);
  watch_output(o);
}

void pco_relay_input(pco_agent *a, const pco_request *q) {
  pco_relay *r = find(a, q->op);
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
  pass_input(in);
}

void pco_relay_close_input(pco_agent *a, const pco_request *q) {
  pco_relay *r = find(a, q->op);
  if (!r || r->in.source.fd < 0 || r->terminal)
    return;
  r->in.ending = true;
  pass_input(&r->in);
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
  pco_relay *r = find(a, pco_request_number(q, PCO_TAG_TARGET));
  pco_relay_out *o =
      r ? &r->out[pco_request_number(q, PCO_TAG_STREAM) - 1] : NULL;
  bool now = pco_request_number(q, PCO_TAG_FLAGS) & PCO_CLOSE_NOW;
  if (!o || !is_open(o)) {
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

/* Nobody reads it for now; false without memory for a ring. */
static bool adopt_output(pco_relay_out *o) {
  if (o->source.fd < 0)
    return true;
  if (!o->ring.data)
    o->ring.data = malloc(PCO_RELAY_CREDIT);
  o->adopted = true;
  o->credit = 0;
  return o->ring.data != NULL;
}

/* Takes the descriptors of an ADOPT. */
static int adopt_streams(pco_relay *r, pco_frame *f, uint64_t bits) {
  int rc = 0;
  uint8_t n = 0;
  for (int i = 0; i < 3; i++) {
    if (!(bits >> i & 1))
      continue;
    int fd = f->fds[n++];
    fcntl(fd, F_SETFL, O_NONBLOCK);
    if (i > 0)
      open_output(&r->out[i - 1], fd);
    else
      rc = open_input(&r->in, fd);
  }
  f->header.n_fds = 0;
  for (int i = 0; i < 2; i++)
    rc = adopt_output(&r->out[i]) ? rc : -ENOMEM;
  return rc;
}

/* What is relayed already is so from the start: it brings no descriptors. */
void pco_relay_adopt(pco_agent *a, pco_frame *f, const pco_request *q) {
  uint64_t target = pco_request_number(q, PCO_TAG_TARGET);
  uint64_t bits = pco_request_number(q, PCO_TAG_FLAGS);
  pco_relay *r = find(a, target);
  int rc = r ? 0 : -ESRCH;
  if (r && bits) {
    pco_agent_protocol_error(a);
  } else if (r) {
    rc = adopt_streams(r, f, 0);
  } else if (bits && pco_commands_has(a, target)) {
    r = create(a, target);
    rc = r ? adopt_streams(r, f, bits) : -ENOMEM;
  }
  pco_frame_close_fds(f);
  if (rc == 0) {
    pco_answer_empty(a, q->op);
    pco_relay_started(a, target);
    return;
  }
  pco_relay_drop(a, target);
  pco_answer_error(a, q->op, -rc, NULL, NULL);
}

void pco_relay_resize(pco_agent *a, const pco_request *q) {
  pco_relay *r = find(a, pco_request_number(q, PCO_TAG_TARGET));
  int error = ESRCH;
  if (r && !r->terminal)
    error = ENOTTY;
  else if (r && r->out[0].source.fd >= 0)
    error = -pco_terminal_resize(r->out[0].source.fd,
                                 (uint16_t)pco_request_number(q, PCO_TAG_COLS),
                                 (uint16_t)pco_request_number(q, PCO_TAG_ROWS));
  if (error)
    pco_answer_error(a, q->op, error, NULL, NULL);
  else
    pco_answer_empty(a, q->op);
}

/* ---- the loop's side ---------------------------------------------------- */

/* Of an output whose end is asked for nothing may lie there any more, so it is
 * looked at once more. */
static void go_on(pco_relay *r) {
  for (int i = 0; i < 2; i++) {
    if (r->out[i].adopted && !r->agent->relays.clogged)
      send_ring(&r->out[i]);
    if (r->out[i].closing)
      pass_output(&r->out[i]);
    watch_output(&r->out[i]);
  }
}

static void free_gone(pco_relays *all) {
  for (pco_relay *r; (r = all->gone);) {
    all->gone = r->next;
    free(r->in.data);
    free(r->out[0].ring.data);
    free(r->out[1].ring.data);
    free(r);
  }
}

bool pco_relays_tick(pco_agent *a) {
  pco_relays *all = &a->relays;
  bool was_clogged = all->clogged;
  bool clogged = pco_channel_queued(&a->host) > PCO_OUT_LOW;
  all->clogged = clogged;
  if (clogged != was_clogged) {
    for (pco_relay *r = all->live, *next; r; r = next) {
      next = r->next;
      go_on(r);
    }
  }
  free_gone(all);
  return was_clogged && !clogged;
}

void pco_relays_deinit(pco_agent *a) {
  for (pco_relay *r; (r = a->relays.live);) {
    close_all(r);
    discard(r);
  }
  free_gone(&a->relays);
}
