/* SPDX-License-Identifier: MIT */
/*
 * The host's end of the channel to an agent; see agent_link.h.
 *
 * Sending: a list of frames, the first perhaps half sent; its descriptors go
 * with its first byte and are closed then.  Receiving: into a buffer that is
 * kept only while a frame is incomplete and grows by what has arrived, never
 * by the length that a header claims.  recv() instead of recvmsg(): descriptors
 * that an agent might send are dropped by the kernel.
 */
#include "agent_link.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rights.h"
#include "sys/claim_watch.h"

#define BUCKETS        64u
#define READ_CHUNK     (64u * 1024)
#define READ_BUDGET    (1024u * 1024) /* bytes a turn */
#define WRITABLE_BELOW (256u * 1024)
#define RETRY_NS       UINT64_C(5000000)
#define CROWDED_NS     (pco__link_patience / 6) /* about five seconds */

uint64_t pco__link_patience = 30u * UINT64_C(1000000000);

typedef struct out_frame {
  struct out_frame *next;
  uint8_t *data; /* owned */
  size_t len;
  size_t sent;
  int fds[PCO_WIRE_MAX_FDS]; /* owned until sent */
  uint8_t n_fds;
} out_frame;

struct pco__link {
  pco__loop *loop;
  struct pco__sandbox *owner;
  int fd; /* -1 once dead */
  uv_poll_t *poll;
  int events;
  uint64_t next_id;
  out_frame *out_first;
  out_frame **out_last;
  size_t out_bytes;
  pco__timer retry;       /* the kernel's limit of descriptors in flight */
  uint64_t crowded_since; /* it was hit, again and again */
  uint64_t crowded_at;    /* the last time */
  uint8_t *in;            /* owned; an incomplete frame */
  size_t in_len;
  size_t in_cap;
  pco__node requests[BUCKETS];
  pco__node streams[BUCKETS];
  pco__call *drain;
  void (*dead)(pco__link *link, const pco__error *err);
  pco__error *why;
  pco__call dead_call;
  bool dead_queued;
  size_t n_pending; /* requests that wait for an answer */
  pco__timer watch; /* while there are any */
  bool heard;       /* something came since it was set */
  pco__link_request ping;
  bool closed; /* by the owner: free when nothing is queued */
};

static void link_fail(pco__link *link, pco__error *why);
static void watch(pco__link *link);

/* ---- descriptors and poll ------------------------------------------------ */

static void close_fd(pco__link *link) {
  if (link->fd < 0)
    return;
  uv_poll_stop(link->poll);
  uv_close((uv_handle_t *)link->poll, pco__free_handle);
  link->poll = NULL;
  close(link->fd);
  link->fd = -1;
  pco__timer_stop(link->loop, &link->watch);
}

static void on_poll(uv_poll_t *poll, int status, int events);

static void set_events(pco__link *link, int events) {
  if (link->fd < 0 || link->events == events)
    return;
  link->events = events;
  int rc = uv_poll_start(link->poll, events, on_poll);
  if (rc == 0)
    rc = pco__claim_watch(&link->loop->uv, link->fd);
  if (rc < 0)
    link_fail(link, pco__error_new(PCO_ECONN, PCO_SOURCE_HOST, NULL,
                                   "watching the agent: %s", uv_strerror(rc)));
}

/* ---- requests ------------------------------------------------------------ */

static pco__node *bucket(pco__link *link, uint64_t id) {
  return &link->requests[id % BUCKETS];
}

static pco__link_request *find(pco__link *link, uint64_t id) {
  pco__node *list = bucket(link, id);
  for (pco__node *n = list->next; n != list; n = n->next) {
    pco__link_request *r = PCO_CONTAINER(n, pco__link_request, node);
    if (r->id == id)
      return r;
  }
  return NULL;
}

void pco__link_answered(pco__link_request *r) {
  if (r->link)
    pco__timer_stop(r->link->loop, &r->deadline);
}

static void drop(pco__link_request *r) {
  pco__link_answered(r);
  pco__list_remove(&r->node);
  r->link->n_pending--;
}

/* Timers run before the sockets are read: if it was this loop that did not turn
 * for so long, the answer may lie there already.  So there is a second chance,
 * a short one. */
void pco__link_forget(pco__link_request *r) {
  if (!pco__list_empty(&r->node))
    drop(r);
}

static void on_deadline(pco__timer *timer) {
  pco__link_request *r = PCO_CONTAINER(timer, pco__link_request, deadline);
  if (!r->overdue) {
    r->overdue = true;
    pco__timer_start(r->link->loop, timer, PCO__LINK_MOMENT);
    return;
  }
  link_fail(r->link, pco__error_new(PCO_ECONN, PCO_SOURCE_AGENT, NULL,
                                    "the agent did not answer in time"));
}

void pco__link_expect(pco__link_request *r, uint64_t after) {
  if (!r->link || r->link->fd < 0 || pco__list_empty(&r->node))
    return;
  uint64_t now = uv_hrtime();
  uint64_t most = UINT64_MAX - now - pco__link_patience;
  after = (after < most ? after : most) + pco__link_patience;
  if (r->deadline.index && r->deadline.at <= now + after)
    return;
  r->overdue = false;
  pco__timer_start(r->link->loop, &r->deadline, after);
}

/* ---- streams ------------------------------------------------------------- */

void pco__link_stream_open(pco__link *link, pco__link_stream *s) {
  s->link = link;
  pco__list_append(&link->streams[s->id % BUCKETS], &s->node);
}

void pco__link_stream_close(pco__link_stream *s) {
  pco__list_remove(&s->node);
}

pco__link_stream *pco__link_stream_find(pco__link *link, uint64_t id) {
  pco__node *list = &link->streams[id % BUCKETS];
  for (pco__node *n = list->next; n != list; n = n->next) {
    pco__link_stream *s = PCO_CONTAINER(n, pco__link_stream, node);
    if (s->id == id)
      return s;
  }
  return NULL;
}

static void lose_streams(pco__link *link) {
  for (unsigned i = 0; i < BUCKETS; i++)
    for (pco__node *n; (n = pco__list_shift(&link->streams[i])) != NULL;) {
      pco__link_stream *s = PCO_CONTAINER(n, pco__link_stream, node);
      s->lost(s);
    }
}

static void tell_all(pco__link *link) {
  for (unsigned i = 0; i < BUCKETS; i++)
    for (pco__node *n; (n = link->requests[i].next) != &link->requests[i];) {
      pco__link_request *r = PCO_CONTAINER(n, pco__link_request, node);
      drop(r);
      r->lost(r, link->why);
    }
}

/* ---- death --------------------------------------------------------------- */

static void free_frame(out_frame *f) {
  for (uint8_t i = 0; i < f->n_fds; i++)
    close(f->fds[i]);
  free(f->data);
  free(f);
}

static void drop_output(pco__link *link) {
  while (link->out_first) {
    out_frame *next = link->out_first->next;
    free_frame(link->out_first);
    link->out_first = next;
  }
  link->out_last = &link->out_first;
  link->out_bytes = 0;
}

static void run_drain(pco__link *link) {
  pco__call *call = link->drain;
  link->drain = NULL;
  while (call) {
    pco__call *next = call->next;
    call->fn(call);
    call = next;
  }
}

static void free_link(pco__link *link) {
  pco__error_free(link->why);
  free(link->in);
  free(link);
}

static void on_dead(pco__call *call) {
  pco__link *link = PCO_CONTAINER(call, pco__link, dead_call);
  link->dead_queued = false;
  if (link->closed) {
    tell_all(link);
    lose_streams(link);
    run_drain(link);
    free_link(link);
  } else if (link->dead) {
    void (*dead)(pco__link *, const pco__error *) = link->dead;
    link->dead = NULL;
    dead(link, link->why);
  }
}

static void queue_dead(pco__link *link) {
  if (link->dead_queued)
    return;
  link->dead_queued = true;
  link->dead_call.fn = on_dead;
  pco__loop_defer(link->loop, &link->dead_call);
}

/* The channel is useless from now on; everybody hears of it in the next turn,
 * so that no callback runs inside a caller that only wanted to send. */
static void link_fail(pco__link *link, pco__error *why) {
  if (link->fd < 0) {
    pco__error_free(why);
    return;
  }
  link->why = why;
  close_fd(link);
  drop_output(link);
  pco__timer_stop(link->loop, &link->retry);
  queue_dead(link);
}

void pco__link_close(pco__link *link, pco__error *err) {
  /* What is queued (a SHUTDOWN) gets one chance; the end of the stream says
   * the same. */
  link->closed = true;
  link_fail(link, NULL);
  pco__error_free(link->why);
  link->why = err;
  queue_dead(link);
}

/* ---- sending ------------------------------------------------------------- */

static ssize_t send_some(pco__link *link, out_frame *f) {
  struct iovec iov = {.iov_base = f->data + f->sent,
                      .iov_len = f->len - f->sent};
  struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
  pco_rights room;
  pco_rights_put(&msg, &room, f->fds, f->sent == 0 ? f->n_fds : 0);
  return sendmsg(link->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void sent_frame(pco__link *link) {
  out_frame *f = link->out_first;
  link->out_first = f->next;
  if (!link->out_first)
    link->out_last = &link->out_first;
  free_frame(f);
}

/* The request of a frame that cannot be sent hears of it as if the agent had
 * said so; its descriptors are closed. */
static void refuse_first(pco__link *link) {
  pco_wire_header h;
  pco_wire_buf error = {0};
  struct rlimit most = {0};
  char text[192];
  getrlimit(RLIMIT_NOFILE, &most);
  snprintf(text, sizeof text,
           "too many descriptors are on their way between processes of this "
           "user (this program sends no more above %llu: try again later, or "
           "raise ulimit -n)",
           (unsigned long long)most.rlim_cur);
  pco_wire_header_read(link->out_first->data, &h);
  link->out_bytes -= link->out_first->len;
  sent_frame(link);
  pco__link_request *r = find(link, h.op);
  pco_wire_begin(&error, PCO_WIRE_ERROR, 0, h.op);
  pco_wire_number(&error, PCO_TAG_ERRNO, ETOOMANYREFS);
  pco_wire_string(&error, PCO_TAG_MESSAGE, text);
  if (pco_wire_end(&error, 0) < 0) {
    link_fail(link, pco__error_no_memory());
  } else if (r) {
    pco_wire_header_read(error.data, &h);
    drop(r);
    r->frame(r, &h, error.data + PCO_WIRE_HEADER);
  }
  pco_wire_buf_free(&error);
}

static bool first_is_stuck(const pco__link *link) {
  const out_frame *f = link->out_first;
  return f && f->n_fds > 0 && f->sent == 0 &&
         link->crowded_at - link->crowded_since >= CROWDED_NS;
}

static void on_retry(pco__timer *timer) {
  pco__link *link = PCO_CONTAINER(timer, pco__link, retry);
  if (first_is_stuck(link))
    refuse_first(link);
  set_events(link, UV_READABLE | UV_WRITABLE);
}

/* Too many descriptors of this user are in flight.  They will land, or this
 * frame is given up. */
static void wait_for_room(pco__link *link) {
  uint64_t now = uv_hrtime();
  if (now - link->crowded_at > CROWDED_NS)
    link->crowded_since = now;
  link->crowded_at = now;
  set_events(link, UV_READABLE);
  link->retry.fn = on_retry;
  pco__timer_start(link->loop, &link->retry, RETRY_NS);
}

/* What to do about a send that did not go through; true: stop for now. */
static bool send_failed(pco__link *link) {
  if (errno == EINTR)
    return false;
  if (errno == EAGAIN) {
    set_events(link, UV_READABLE | UV_WRITABLE);
  } else if (errno == ETOOMANYREFS) {
    wait_for_room(link);
  } else {
    link_fail(link,
              pco__error_new(PCO_ECONN, PCO_SOURCE_AGENT, NULL,
                             "writing to the agent: %s", strerror(errno)));
  }
  return true;
}

static void flush(pco__link *link) {
  while (link->out_first && link->fd >= 0) {
    out_frame *f = link->out_first;
    ssize_t n = send_some(link, f);
    if (n < 0) {
      if (send_failed(link))
        return;
      continue;
    }
    if (f->n_fds > 0)
      link->crowded_since = link->crowded_at = 0;
    while (f->n_fds > 0)
      close(f->fds[--f->n_fds]);
    f->sent += (size_t)n;
    link->out_bytes -= (size_t)n;
    if (f->sent == f->len)
      sent_frame(link);
  }
  set_events(link, UV_READABLE);
}

static void queue_frame(pco__link *link, pco_wire_buf *frame, const int *fds,
                        uint8_t n_fds) {
  out_frame *f = calloc(1, sizeof *f);
  int rc = pco_wire_end(frame, n_fds);
  if (!f || rc < 0 || link->fd < 0) {
    for (uint8_t i = 0; i < n_fds; i++)
      close(fds[i]);
    free(f);
    pco_wire_buf_free(frame);
    if (link->fd >= 0)
      link_fail(link, pco__error_no_memory());
    return;
  }
  f->data = frame->data;
  f->len = frame->len;
  memset(frame, 0, sizeof *frame);
  for (uint8_t i = 0; i < n_fds; i++)
    f->fds[i] = fds[i];
  f->n_fds = n_fds;
  link->out_bytes += f->len;
  bool idle = !link->out_first;
  *link->out_last = f;
  link->out_last = &f->next;
  if (idle)
    flush(link);
}

/* ---- watching ------------------------------------------------------------ */

/* While somebody waits, a silent agent is asked whether it lives: a command
 * without a time limit would else wait for a stopped agent for ever. */

static int on_pong(pco__link_request *r, const pco_wire_header *h,
                   const uint8_t *payload) {
  (void)r;
  (void)payload;
  return h->type == PCO_WIRE_REPLY ? 0 : -EPROTO;
}

static void on_pong_lost(pco__link_request *r, const pco__error *err) {
  (void)r;
  (void)err;
}

static void ping(pco__link *link) {
  pco_wire_buf frame = {0};
  link->ping.id = pco__link_next(link);
  link->ping.type = PCO_WIRE_PING;
  link->ping.frame = on_pong;
  link->ping.lost = on_pong_lost;
  pco_wire_begin(&frame, PCO_WIRE_PING, 0, link->ping.id);
  pco__link_request_send(link, &link->ping, &frame, NULL, 0, true);
}

static void on_watch(pco__timer *timer) {
  pco__link *link = PCO_CONTAINER(timer, pco__link, watch);
  bool asked = !pco__list_empty(&link->ping.node);
  if (link->fd < 0 || link->n_pending == 0)
    return;
  if (!link->heard && !asked)
    ping(link);
  link->heard = false;
  watch(link);
}

static void watch(pco__link *link) {
  if (link->fd < 0 || link->watch.index)
    return;
  link->watch.fn = on_watch;
  pco__timer_start(link->loop, &link->watch, pco__link_patience / 2);
}

uint64_t pco__link_next(pco__link *link) {
  return ++link->next_id;
}

void pco__link_request_send(pco__link *link, pco__link_request *r,
                            pco_wire_buf *frame, const int *fds, uint8_t n_fds,
                            bool prompt) {
  r->link = link;
  r->deadline.fn = on_deadline;
  r->deadline.index = 0;
  pco__list_append(bucket(link, r->id), &r->node);
  link->n_pending++;
  watch(link);
  if (link->fd < 0) {
    for (uint8_t i = 0; i < n_fds; i++)
      close(fds[i]);
    pco_wire_buf_free(frame);
    queue_dead(link);
    return;
  }
  if (prompt)
    pco__link_expect(r, 0);
  queue_frame(link, frame, fds, n_fds);
}

void pco__link_send(pco__link *link, pco_wire_buf *frame) {
  queue_frame(link, frame, NULL, 0);
}

size_t pco__link_queued(const pco__link *link) {
  return link->out_bytes;
}

void pco__link_when_writable(pco__link *link, pco__call *call) {
  call->next = link->drain;
  link->drain = call;
  if (link->fd < 0)
    queue_dead(link);
  else if (link->out_bytes < WRITABLE_BELOW)
    set_events(link, UV_READABLE | UV_WRITABLE);
}

/* ---- receiving ----------------------------------------------------------- */

static bool reads(uint16_t request) {
  return request == PCO_WIRE_READ || request == PCO_WIRE_FILE_READ;
}

/* Which frames may answer a request, and whether this one is the last. */
static bool may_answer(uint16_t request, const pco_wire_header *h) {
  bool more = (h->flags & PCO_WIRE_MORE) != 0;
  switch (h->type) {
  case PCO_WIRE_ERROR:
    return !more;
  case PCO_WIRE_REPLY: /* to a reader: of what comes by a pipe */
    return request != PCO_WIRE_SPAWN &&
           (!more || request == PCO_WIRE_LIST || request == PCO_WIRE_WRITE ||
            reads(request) ||
            (request >= PCO_WIRE_PACK && request <= PCO_WIRE_SURVEY));
  case PCO_WIRE_DATA:
    return reads(request);
  case PCO_WIRE_STARTED:
    return request == PCO_WIRE_SPAWN && more;
  case PCO_WIRE_EXIT:
    return request == PCO_WIRE_SPAWN && !more;
  default:
    return false;
  }
}

static int take_stream_frame(pco__link *link, const pco_wire_header *h,
                             const uint8_t *payload) {
  pco__link_stream *s = pco__link_stream_find(link, h->op);
  if (!s || h->n_fds || h->flags || pco_wire_check(payload, h->size) < 0)
    return -EPROTO;
  return s->frame(s, h, payload);
}

static int take_frame(pco__link *link, const pco_wire_header *h,
                      const uint8_t *payload) {
  if (h->type == PCO_WIRE_OUTPUT || h->type == PCO_WIRE_CREDIT)
    return take_stream_frame(link, h, payload);
  pco__link_request *r = find(link, h->op);
  if (!r || h->n_fds || !may_answer(r->type, h) ||
      pco_wire_check(payload, h->size) < 0)
    return -EPROTO;
  link->heard = true;
  if (!(h->flags & PCO_WIRE_MORE))
    drop(r);
  return r->frame(r, h, payload);
}

/* Handles the complete frames in data; gives how many bytes they were. */
static int take_frames(pco__link *link, const uint8_t *data, size_t len,
                       size_t *used) {
  *used = 0;
  while (len - *used >= PCO_WIRE_HEADER && link->fd >= 0) {
    pco_wire_header h;
    int rc = pco_wire_header_read(data + *used, &h);
    if (rc < 0)
      return rc;
    if (len - *used - PCO_WIRE_HEADER < h.size)
      break;
    const uint8_t *payload = data + *used + PCO_WIRE_HEADER;
    *used += PCO_WIRE_HEADER + h.size;
    rc = take_frame(link, &h, payload);
    if (rc < 0)
      return rc;
  }
  return 0;
}

/* Makes room for READ_CHUNK bytes more in the buffer of incomplete frames. */
static int reserve(pco__link *link) {
  if (link->in_cap - link->in_len >= READ_CHUNK)
    return 0;
  size_t cap = link->in_cap ? link->in_cap * 2 : READ_CHUNK;
  uint8_t *in = realloc(link->in, cap);
  if (!in)
    return UV_ENOMEM;
  link->in = in;
  link->in_cap = cap;
  return 0;
}

/* Works off what is in the buffer and keeps the rest. */
static int digest(pco__link *link) {
  size_t used;
  int rc = take_frames(link, link->in, link->in_len, &used);
  if (rc < 0)
    return rc;
  link->in_len -= used;
  if (link->in_len == 0) {
    free(link->in);
    link->in = NULL;
    link->in_cap = 0;
  } else if (used) {
    memmove(link->in, link->in + used, link->in_len);
  }
  return 0;
}

static void receive(pco__link *link) {
  for (size_t budget = READ_BUDGET; budget > READ_CHUNK && link->fd >= 0;) {
    if (reserve(link) < 0) {
      link_fail(link, pco__error_no_memory());
      return;
    }
    size_t room = link->in_cap - link->in_len;
    ssize_t n = recv(link->fd, link->in + link->in_len, room, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
      return;
    if (n <= 0) {
      link_fail(link, pco__error_new(PCO_ECONN, PCO_SOURCE_AGENT, NULL,
                                     n == 0 ? "the agent's stream ended"
                                            : "reading from the agent: %s",
                                     strerror(errno)));
      return;
    }
    link->in_len += (size_t)n;
    budget = budget > (size_t)n ? budget - (size_t)n : 0;
    if (digest(link) < 0) {
      link_fail(link, pco__error_new(PCO_EPROTO, PCO_SOURCE_AGENT, NULL,
                                     "the agent sent a frame that breaks the "
                                     "protocol"));
      return;
    }
    if ((size_t)n < room)
      return;
  }
}

static void on_poll(uv_poll_t *poll, int status, int events) {
  pco__link *link = (pco__link *)poll->data;
  if (status < 0) {
    link_fail(link,
              pco__error_new(PCO_ECONN, PCO_SOURCE_AGENT, NULL,
                             "watching the agent: %s", uv_strerror(status)));
    return;
  }
  if (events & UV_WRITABLE)
    flush(link);
  if (link->fd >= 0 && link->drain && link->out_bytes < WRITABLE_BELOW)
    run_drain(link);
  if (link->fd >= 0 && (events & (UV_READABLE | UV_DISCONNECT)))
    receive(link);
}

/* ---- life ---------------------------------------------------------------- */

int pco__link_open(pco__loop *loop, int fd,
                   void (*dead)(pco__link *link, const pco__error *err),
                   pco__link **out) {
  *out = NULL;
  pco__link *link = calloc(1, sizeof *link);
  uv_poll_t *poll = calloc(1, sizeof *poll);
  int rc = link && poll ? uv_poll_init(&loop->uv, poll, fd) : UV_ENOMEM;
  if (rc < 0) {
    free(link);
    free(poll);
    close(fd);
    return rc;
  }
  link->loop = loop;
  link->fd = fd;
  link->poll = poll;
  link->poll->data = link;
  link->out_last = &link->out_first;
  pco__list_init(&link->ping.node);
  link->dead = dead;
  for (unsigned i = 0; i < BUCKETS; i++) {
    pco__list_init(&link->requests[i]);
    pco__list_init(&link->streams[i]);
  }
  set_events(link, UV_READABLE);
  *out = link;
  return 0;
}

void pco__link_set_owner(pco__link *link, struct pco__sandbox *owner) {
  link->owner = owner;
}

struct pco__sandbox *pco__link_owner(const pco__link *link) {
  return link->owner;
}
