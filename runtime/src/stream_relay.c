/* SPDX-License-Identifier: MIT */
/* Relayed streams; see stream_relay.h. */
#include "stream_relay.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fields.h"
#include "process.h"
#include "runtime.h"

#define WINDOW (256u * 1024) /* credited to an output that flows */
#define CTRL_D 4

typedef struct relay_out {
  uint64_t offset; /* bytes that came */
  uint64_t credit; /* bytes that may still come */
  uint64_t stale;  /* the same, until an ADOPT is answered */
  bool given_up;
} relay_out;

struct pco__relay {
  pco__link_stream link;
  pco__process *process; /* borrowed; NULL: nobody wants it any more */
  unsigned open;         /* PCO__RELAY_*: streams that did not end */
  bool terminal;
  bool adopted; /* once at least */
  bool resumed; /* another host may have given up its streams */
  int adopting; /* ADOPTs on their way */
  relay_out out[2];
  size_t in_credit; /* bytes of input that may be sent */
  bool line_open;   /* the last byte of them ended no line */
  bool ctrl_d;      /* is to be typed */
  bool ctrl_d_last; /* behind the input that is on its way */
};

static pco__relay *relay_of(pco__link_stream *s) {
  return PCO_CONTAINER(s, pco__relay, link);
}

/* ---- requests to close an output ----------------------------------------- */

typedef struct close_request {
  pco__link_request request;
  pco__link *link;
  uint64_t target;
  int out;
} close_request;

/* The answer comes behind the end of the stream. */
static int on_closed(pco__link_request *request, const pco_wire_header *h,
                     const uint8_t *payload) {
  close_request *c = PCO_CONTAINER(request, close_request, request);
  pco__link_stream *s = pco__link_stream_find(c->link, c->target);
  bool open = s && relay_of(s)->open & (PCO__RELAY_OUT << c->out);
  (void)payload;
  free(c);
  return open || h->type != PCO_WIRE_REPLY ? -EPROTO : 0;
}

static void on_close_lost(pco__link_request *request, const pco__error *err) {
  (void)err;
  free(PCO_CONTAINER(request, close_request, request));
}

static void close_output(pco__relay *r, int i, uint64_t flags) {
  pco__link *link = r->link.link;
  close_request *c = calloc(1, sizeof *c);
  pco_wire_buf frame = {0};
  if (!c)
    return; /* a reader that waits for it is told by its own time limit */
  c->link = link;
  c->target = r->link.id;
  c->out = i;
  c->request.id = pco__link_next(link);
  c->request.type = PCO_WIRE_CLOSE_OUTPUT;
  c->request.frame = on_closed;
  c->request.lost = on_close_lost;
  pco_wire_begin(&frame, PCO_WIRE_CLOSE_OUTPUT, 0, c->request.id);
  pco_wire_number(&frame, PCO_TAG_TARGET, r->link.id);
  pco_wire_number(&frame, PCO_TAG_STREAM, (uint64_t)i + 1);
  pco_wire_number(&frame, PCO_TAG_FLAGS, flags);
  pco__link_request_send(link, &c->request, &frame, NULL, 0, true);
}

/* ---- output -------------------------------------------------------------- */

static bool is_open(const pco__relay *r, int i) {
  return (r->open & (PCO__RELAY_OUT << i)) != 0;
}

/* Credits an output up to `most`. */
static void credit(pco__relay *r, int i, uint64_t most) {
  relay_out *o = &r->out[i];
  pco_wire_buf frame = {0};
  if (o->credit >= most)
    return;
  pco_wire_begin(&frame, PCO_WIRE_CREDIT, 0, r->link.id);
  pco_wire_number(&frame, PCO_TAG_STREAM, (uint64_t)i + 1);
  pco_wire_number(&frame, PCO_TAG_LENGTH, most - o->credit);
  o->credit = most;
  pco__link_send(r->link.link, &frame);
}

/* Credit goes out in large pieces. */
static void top_up(pco__relay *r, int i) {
  const pco__process *p = r->process;
  if (is_open(r, i) && !r->out[i].given_up && p && !p->released &&
      p->streams[i].flowing && r->out[i].credit < WINDOW / 2)
    credit(r, i, WINDOW);
}

static void relay_flow(pco__stream *s, bool on) {
  if (on && s->relay)
    top_up(s->relay, s->index);
}

/* Somebody holds it: what lies there now is the last of it. */
static void relay_give_up(pco__stream *s) {
  pco__relay *r = s->relay;
  if (!r || r->out[s->index].given_up)
    return;
  r->out[s->index].given_up = true;
  credit(r, s->index, PCO__QUEUE_BYTES);
  close_output(r, s->index, 0);
}

/* ---- the end ------------------------------------------------------------- */

static void forget_process(pco__relay *r) {
  if (!r->process)
    return;
  for (int i = 0; i < 2; i++)
    r->process->streams[i].relay = NULL;
  pco__process_forget_relay(r->process);
  r->process = NULL;
}

static void free_relay(pco__relay *r) {
  forget_process(r);
  pco__link_stream_close(&r->link);
  free(r);
}

static void end_input(pco__relay *r) {
  pco__process *p = r->process;
  if (!p)
    return;
  p->stdin_open = false;
  if (p->input.busy)
    pco__process_input_done(p, pco__error_new(UV_EPIPE, PCO_SOURCE_HOST, NULL,
                                              "the process reads no more"));
}

/* Streams have ended; the relay may be gone afterwards. */
static void ended(pco__relay *r, unsigned streams) {
  r->open &= ~streams;
  if (streams & PCO__RELAY_IN)
    end_input(r);
  if (!r->open)
    free_relay(r);
}

void pco__relay_drop(pco__relay *r) {
  free_relay(r);
}

static void relay_lost(pco__link_stream *s) {
  free_relay(relay_of(s));
}

static void close_now(pco__relay *r, int i) {
  if (!is_open(r, i))
    return;
  r->out[i].given_up = true;
  close_output(r, i, PCO_CLOSE_NOW);
}

void pco__relay_hang_up(pco__relay *r) {
  close_now(r, 0);
}

static void send_close_input(pco__relay *r) {
  pco_wire_buf frame = {0};
  if (!(r->open & PCO__RELAY_IN) || r->terminal)
    return;
  pco_wire_begin(&frame, PCO_WIRE_CLOSE_INPUT, 0, r->link.id);
  pco__link_send(r->link.link, &frame);
}

void pco__relay_release(pco__relay *r) {
  forget_process(r);
  for (int i = 0; i < 2; i++)
    close_now(r, i);
  send_close_input(r);
}

/* ---- input --------------------------------------------------------------- */

static void send_input(pco__relay *r, const char *data, size_t len) {
  pco_wire_buf frame = {0};
  char last = data[len - 1];
  pco_wire_begin(&frame, PCO_WIRE_INPUT, 0, r->link.id);
  pco_wire_bytes(&frame, PCO_TAG_DATA, data, len);
  r->in_credit -= len;
  r->line_open = last != '\n' && last != '\r' && last != CTRL_D;
  pco__link_send(r->link.link, &frame);
}

/* True if nothing is left to type. */
static bool type_ctrl_d(pco__relay *r) {
  static const char twice[] = {CTRL_D, CTRL_D};
  size_t n = r->line_open ? 2 : 1;
  if (!r->ctrl_d)
    return true;
  if (r->in_credit < n)
    return false;
  r->ctrl_d = r->ctrl_d_last = false;
  send_input(r, twice, n);
  return true;
}

static void send_some(pco__relay *r, pco__input *in) {
  while (in->done < in->len && r->in_credit > 0) {
    size_t n = in->len - in->done;
    n = n < r->in_credit ? n : r->in_credit;
    send_input(r, in->data + in->done, n);
    in->done += n;
  }
}

void pco__relay_write(pco__relay *r) {
  pco__process *p = r->process;
  if (!r->ctrl_d_last && !type_ctrl_d(r))
    return;
  if (!p->input.busy) {
    type_ctrl_d(r);
    return;
  }
  send_some(r, &p->input);
  if (p->input.done < p->input.len)
    return;
  r->ctrl_d_last = false;
  type_ctrl_d(r);
  pco__process_input_done(p, NULL);
}

void pco__relay_close_input(pco__relay *r) {
  if (!r->terminal) {
    send_close_input(r);
    return;
  }
  r->ctrl_d = true;
  r->ctrl_d_last = r->process->input.busy;
  if (!r->ctrl_d_last)
    type_ctrl_d(r);
}

/* ---- frames that come ---------------------------------------------------- */

/* The DATA of a frame: its length, or -EPROTO if it is there twice. */
static int find_data(const pco_wire_header *h, const uint8_t *payload,
                     const uint8_t **data, size_t *len) {
  pco_wire_iter it;
  pco_wire_field f;
  *data = NULL;
  *len = 0;
  pco_wire_iter_init(&it, payload, h->size);
  while (pco_wire_next(&it, &f) == 1) {
    if (f.tag != PCO_TAG_DATA)
      continue;
    if (*data)
      return -EPROTO;
    *data = f.data;
    *len = f.len;
  }
  return 0;
}

static void deliver(pco__relay *r, int i, const uint8_t *data, size_t len,
                    uint64_t eof) {
  pco__process *p = r->process;
  if (!p)
    return;
  pco__process_ref(p);
  if (len)
    pco__process_output(p, (uint8_t)i, (const char *)data, len);
  if (eof)
    pco__stream_close(&p->streams[i], eof == PCO_EOF_HELD);
  pco__process_update(p);
  pco__process_unref(p);
}

static int on_output(pco__relay *r, const pco_wire_header *h,
                     const uint8_t *payload) {
  uint64_t stream = 0;
  uint64_t offset = 0;
  uint64_t eof = 0;
  const uint8_t *data;
  size_t len;
  if (pco__field_number(h, payload, PCO_TAG_STREAM, 2, &stream) != 1 ||
      stream == 0 || !is_open(r, (int)stream - 1) ||
      pco__field_number(h, payload, PCO_TAG_OFFSET, INT64_MAX, &offset) != 1 ||
      pco__field_number(h, payload, PCO_TAG_EOF, PCO_EOF_HELD, &eof) < 0 ||
      find_data(h, payload, &data, &len) < 0)
    return -EPROTO;
  int i = (int)stream - 1;
  relay_out *o = &r->out[i];
  uint64_t *left = r->adopting ? &o->stale : &o->credit;
  if (offset < o->offset || (offset > o->offset && !r->adopted) ||
      offset > INT64_MAX - len || len > *left || (len == 0 && !eof) ||
      (eof == PCO_EOF_HELD && !o->given_up && !r->resumed))
    return -EPROTO;
  *left -= len;
  if (r->process)
    r->process->streams[i].bytes += offset - o->offset;
  o->offset = offset + len;
  deliver(r, i, data, len, eof);
  if (eof)
    ended(r, (PCO__RELAY_OUT << i) | (r->terminal ? PCO__RELAY_IN : 0));
  else
    top_up(r, i);
  return 0;
}

static int on_credit(pco__relay *r, const pco_wire_header *h,
                     const uint8_t *payload) {
  uint64_t len = 0;
  uint64_t eof = 0;
  if (!(r->open & PCO__RELAY_IN) ||
      pco__field_number(h, payload, PCO_TAG_LENGTH,
                        PCO_RELAY_CREDIT - r->in_credit, &len) < 0 ||
      pco__field_number(h, payload, PCO_TAG_EOF, PCO_EOF_END, &eof) < 0 ||
      (len == 0 && !eof) || (eof && r->terminal))
    return -EPROTO;
  r->in_credit += len;
  pco__process *p = r->process;
  if (p)
    pco__process_ref(p);
  if (eof)
    ended(r, PCO__RELAY_IN);
  else if (p)
    pco__relay_write(r);
  pco__process_unref(p);
  return 0;
}

/* Of a command that did not start nothing comes. */
static int on_frame(pco__link_stream *s, const pco_wire_header *h,
                    const uint8_t *payload) {
  pco__relay *r = relay_of(s);
  if (r->process && !r->process->started)
    return -EPROTO;
  return h->type == PCO_WIRE_OUTPUT ? on_output(r, h, payload)
                                    : on_credit(r, h, payload);
}

/* ---- adoption ------------------------------------------------------------ */

typedef struct adopt_request {
  pco__link_request request;
  pco__link *link;
  uint64_t target;
} adopt_request;

/* The command has ended meanwhile, or the agent had no room: nothing comes. */
static void not_adopted(pco__relay *r) {
  pco__process *p = r->process;
  if (p)
    pco__process_ref(p);
  for (int i = 0; i < 2; i++)
    if (is_open(r, i))
      deliver(r, i, NULL, 0, PCO_EOF_HELD);
  ended(r, r->open);
  pco__process_unref(p);
}

/* A command that nobody holds loses its pipes: there is only the log to tell.
 * That it has ended meanwhile is no news. */
static void warn_of(const pco__relay *r, const pco_wire_header *h,
                    const uint8_t *payload) {
  pco__error *err = pco__field_error(h, payload);
  const pco__process *p = r->process;
  if (err && err->code != UV_ESRCH && p)
    pco__log_write(&p->loop->runtime->log, PCO_LOG_WARNING,
                   "the pipes of process %lld, whose object is gone, could not "
                   "be handed over and are closed: %s",
                   (long long)p->pid,
                   err->message ? err->message : pco__code_text(err->code));
  pco__error_free(err);
}

/* What came before was sent by the old credit. */
static int on_adopted(pco__link_request *request, const pco_wire_header *h,
                      const uint8_t *payload) {
  adopt_request *q = PCO_CONTAINER(request, adopt_request, request);
  pco__link_stream *s = pco__link_stream_find(q->link, q->target);
  free(q);
  if (!s)
    return 0;
  pco__relay *r = relay_of(s);
  r->adopting--;
  if (h->type == PCO_WIRE_ERROR) {
    warn_of(r, h, payload);
    not_adopted(r);
  }
  return 0;
}

static void on_adopt_lost(pco__link_request *request, const pco__error *err) {
  (void)err;
  free(PCO_CONTAINER(request, adopt_request, request));
}

void pco__relay_adopt(pco__relay *r, unsigned bits, const int *fds, uint8_t n) {
  pco__link *link = r->link.link;
  adopt_request *q = calloc(1, sizeof *q);
  pco_wire_buf frame = {0};
  if (!q) {
    while (n > 0)
      close(fds[--n]);
    not_adopted(r);
    return;
  }
  q->link = link;
  q->target = r->link.id;
  q->request.id = pco__link_next(link);
  q->request.type = PCO_WIRE_ADOPT;
  q->request.frame = on_adopted;
  q->request.lost = on_adopt_lost;
  for (int i = 0; i < 2; i++) {
    relay_out *o = &r->out[i];
    o->stale = (r->adopting ? o->stale : 0) + (bits ? 0 : o->credit);
    o->credit = 0;
  }
  r->adopted = true;
  r->adopting++;
  pco_wire_begin(&frame, PCO_WIRE_ADOPT, 0, q->request.id);
  pco_wire_number(&frame, PCO_TAG_TARGET, r->link.id);
  pco_wire_number(&frame, PCO_TAG_FLAGS, bits);
  pco__link_request_send(link, &q->request, &frame, fds, n, true);
}

/* ---- the start ----------------------------------------------------------- */

static void open_output(pco__relay *r, int i) {
  pco__stream *s = &r->process->streams[i];
  r->out[i].credit = PCO_RELAY_CREDIT;
  s->relay = r;
  s->flow = relay_flow;
  s->give_up = relay_give_up;
  s->open = true;
}

pco__relay *pco__relay_open(pco__link *link, uint64_t target, pco__process *p,
                            unsigned streams, bool terminal) {
  pco__relay *r = calloc(1, sizeof *r);
  if (!r)
    return NULL;
  r->process = p;
  r->open = streams;
  r->terminal = terminal;
  r->in_credit = PCO_RELAY_CREDIT;
  for (int i = 0; i < 2; i++)
    if (is_open(r, i))
      open_output(r, i);
  if (streams & PCO__RELAY_IN)
    p->stdin_open = true;
  r->link.id = target;
  r->link.frame = on_frame;
  r->link.lost = relay_lost;
  pco__link_stream_open(link, &r->link);
  return r;
}

void pco__relay_hold(pco__relay *r) {
  r->out[0].credit = r->out[1].credit = 0;
}

pco__relay *pco__relay_resume(pco__link *link, uint64_t target, pco__process *p,
                              unsigned streams, bool terminal,
                              const pco__relay_past *past) {
  pco__relay *r = pco__relay_open(link, target, p, streams, terminal);
  if (!r)
    return NULL;
  r->adopted = r->resumed = true;
  r->in_credit = past->in_credit;
  for (int i = 0; i < 2; i++)
    r->out[i] = (relay_out){.offset = past->offset[i]};
  return r;
}
