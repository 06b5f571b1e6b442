/* SPDX-License-Identifier: MIT */
/*
 * Frames to the agent: a list of them, the first perhaps half sent; its
 * descriptors go with its first byte and are closed then.
 */
#include "link_parts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rights.h"

#define WRITABLE_BELOW (256u * 1024)
#define RETRY_NS       UINT64_C(5000000)
#define CROWDED_NS     (pco__link_patience / 6) /* about five seconds */

struct pco__out_frame {
  pco__out_frame *next;
  uint8_t *data; /* owned */
  size_t len;
  size_t sent;
  int fds[PCO_WIRE_MAX_FDS]; /* owned until sent */
  uint8_t n_fds;
};

/* ---- the list ------------------------------------------------------------ */

void pco__link_send_init(pco__link *link) {
  link->out_last = &link->out_first;
}

static void free_frame(pco__out_frame *f) {
  for (uint8_t i = 0; i < f->n_fds; i++)
    close(f->fds[i]);
  free(f->data);
  free(f);
}

void pco__link_drop_output(pco__link *link) {
  while (link->out_first) {
    pco__out_frame *next = link->out_first->next;
    free_frame(link->out_first);
    link->out_first = next;
  }
  link->out_last = &link->out_first;
  link->out_bytes = 0;
}

static void sent_frame(pco__link *link) {
  pco__out_frame *f = link->out_first;
  link->out_first = f->next;
  if (!link->out_first)
    link->out_last = &link->out_first;
  free_frame(f);
}

/* ---- descriptors in flight ----------------------------------------------- */

/* As the agent would say it. */
static int encode_crowded(pco_wire_buf *b, uint64_t op) {
  struct rlimit most = {0};
  char text[192];
  getrlimit(RLIMIT_NOFILE, &most);
  snprintf(text, sizeof text,
           "too many descriptors are on their way between processes of this "
           "user (this program sends no more above %llu: try again later, or "
           "raise ulimit -n)",
           (unsigned long long)most.rlim_cur);
  pco_wire_begin(b, PCO_WIRE_ERROR, 0, op);
  pco_wire_number(b, PCO_TAG_ERRNO, ETOOMANYREFS);
  pco_wire_string(b, PCO_TAG_MESSAGE, text);
  return pco_wire_end(b, 0);
}

/* The request of a frame that cannot be sent hears of it as if the agent had
 * said so; its descriptors are closed. */
static void refuse_first(pco__link *link) {
  pco_wire_header h;
  pco_wire_buf error = {0};
  pco_wire_header_read(link->out_first->data, &h);
  link->out_bytes -= link->out_first->len;
  sent_frame(link);
  pco__link_request *r = pco__link_find(link, h.op);
  if (encode_crowded(&error, h.op) < 0) {
    pco__link_fail(link, pco__error_no_memory());
  } else if (r) {
    pco_wire_header_read(error.data, &h);
    pco__link_drop(r);
    r->frame(r, &h, error.data + PCO_WIRE_HEADER);
  }
  pco_wire_buf_free(&error);
}

static bool first_is_stuck(const pco__link *link) {
  const pco__out_frame *f = link->out_first;
  return f && f->n_fds > 0 && f->sent == 0 &&
         link->crowded_at - link->crowded_since >= CROWDED_NS;
}

static void on_retry(pco__timer *timer) {
  pco__link *link = PCO_CONTAINER(timer, pco__link, retry);
  if (first_is_stuck(link))
    refuse_first(link);
  pco__link_set_events(link, UV_READABLE | UV_WRITABLE);
}

/* Too many descriptors of this user are in flight.  They will land, or this
 * frame is given up. */
static void wait_for_room(pco__link *link) {
  uint64_t now = uv_hrtime();
  if (now - link->crowded_at > CROWDED_NS)
    link->crowded_since = now;
  link->crowded_at = now;
  pco__link_set_events(link, UV_READABLE);
  link->retry.fn = on_retry;
  pco__timer_start(link->loop, &link->retry, RETRY_NS);
}

/* ---- sending ------------------------------------------------------------- */

static ssize_t send_some(pco__link *link, pco__out_frame *f) {
  struct iovec iov = {.iov_base = f->data + f->sent,
                      .iov_len = f->len - f->sent};
  struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
  pco_rights room;
  pco_rights_put(&msg, &room, f->fds, f->sent == 0 ? f->n_fds : 0);
  return sendmsg(link->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* What to do about a send that did not go through; true: stop for now. */
static bool send_failed(pco__link *link) {
  if (errno == EINTR)
    return false;
  if (errno == EAGAIN) {
    pco__link_set_events(link, UV_READABLE | UV_WRITABLE);
  } else if (errno == ETOOMANYREFS) {
    wait_for_room(link);
  } else {
    pco__link_fail(link,
                   pco__error_new(PCO_ECONN, PCO_SOURCE_AGENT, NULL,
                                  "writing to the agent: %s", strerror(errno)));
  }
  return true;
}

void pco__link_flush(pco__link *link) {
  while (link->out_first && link->fd >= 0) {
    pco__out_frame *f = link->out_first;
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
  pco__link_set_events(link, UV_READABLE);
}

static void append(pco__link *link, pco__out_frame *f) {
  bool idle = !link->out_first;
  link->out_bytes += f->len;
  *link->out_last = f;
  link->out_last = &f->next;
  if (idle)
    pco__link_flush(link);
}

void pco__link_queue(pco__link *link, pco_wire_buf *frame, const int *fds,
                     uint8_t n_fds) {
  pco__out_frame *f = calloc(1, sizeof *f);
  int rc = pco_wire_end(frame, n_fds);
  if (!f || rc < 0 || link->fd < 0) {
    for (uint8_t i = 0; i < n_fds; i++)
      close(fds[i]);
    free(f);
    pco_wire_buf_free(frame);
    if (link->fd >= 0)
      pco__link_fail(link, pco__error_no_memory());
    return;
  }
  f->data = frame->data;
  f->len = frame->len;
  memset(frame, 0, sizeof *frame);
  for (uint8_t i = 0; i < n_fds; i++)
    f->fds[i] = fds[i];
  f->n_fds = n_fds;
  append(link, f);
}

void pco__link_send(pco__link *link, pco_wire_buf *frame) {
  pco__link_queue(link, frame, NULL, 0);
}

size_t pco__link_queued(const pco__link *link) {
  return link->out_bytes;
}

/* ---- who waits to send ----------------------------------------------------
 */

void pco__link_when_writable(pco__link *link, pco__call *call) {
  call->next = link->drain;
  link->drain = call;
  if (link->fd < 0)
    pco__link_queue_dead(link);
  else if (link->out_bytes < WRITABLE_BELOW)
    pco__link_set_events(link, UV_READABLE | UV_WRITABLE);
}

void pco__link_drain(pco__link *link) {
  pco__call *call = link->drain;
  link->drain = NULL;
  while (call) {
    pco__call *next = call->next;
    call->fn(call);
    call = next;
  }
}

void pco__link_drain_if_writable(pco__link *link) {
  if (link->drain && link->out_bytes < WRITABLE_BELOW)
    pco__link_drain(link);
}
