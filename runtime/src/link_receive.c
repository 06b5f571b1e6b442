/* SPDX-License-Identifier: MIT */
/*
 * Frames from the agent: into a buffer that is kept only while a frame is
 * incomplete and grows by what has arrived, never by the length that a header
 * claims.  Each is checked, and handed to who waits for it.  recv() instead of
 * recvmsg(): descriptors that an agent might send are dropped by the kernel.
 */
#include "link_parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define READ_CHUNK  (64u * 1024)
#define READ_BUDGET (1024u * 1024) /* bytes a turn */

/* ---- frames -------------------------------------------------------------- */

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
            request == PCO_WIRE_COMMANDS || reads(request) ||
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
  pco__link_heard(link, h->type);
  return s->frame(s, h, payload);
}

static int take_frame(pco__link *link, const pco_wire_header *h,
                      const uint8_t *payload) {
  if (h->type == PCO_WIRE_OUTPUT || h->type == PCO_WIRE_CREDIT)
    return take_stream_frame(link, h, payload);
  pco__link_request *r = pco__link_find(link, h->op);
  if (!r || h->n_fds || !may_answer(r->type, h) ||
      pco_wire_check(payload, h->size) < 0)
    return -EPROTO;
  link->heard = true;
  pco__link_heard(link, r->type);
  if (!(h->flags & PCO_WIRE_MORE))
    pco__link_drop(r);
  return r->frame(r, h, payload);
}

/* ---- the buffer ---------------------------------------------------------- */

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

/* ---- the socket ---------------------------------------------------------- */

static void fail_reading(pco__link *link, ssize_t n) {
  pco__link_fail(link, pco__error_new(PCO_ECONN, PCO_SOURCE_AGENT, NULL,
                                      n == 0 ? "the agent's stream ended"
                                             : "reading from the agent: %s",
                                      strerror(errno)));
}

static void fail_protocol(pco__link *link) {
  pco__link_fail(link, pco__error_new(PCO_EPROTO, PCO_SOURCE_AGENT, NULL,
                                      "the agent sent a frame that breaks the "
                                      "protocol"));
}

/* Reads once; how many bytes came, 0 if none did or they were the last. */
static size_t receive_some(pco__link *link) {
  size_t room = link->in_cap - link->in_len;
  ssize_t n = recv(link->fd, link->in + link->in_len, room, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR))
    return 0;
  if (n <= 0) {
    fail_reading(link, n);
    return 0;
  }
  link->in_len += (size_t)n;
  if (digest(link) < 0)
    fail_protocol(link);
  return (size_t)n < room ? 0 : (size_t)n;
}

void pco__link_receive(pco__link *link) {
  for (size_t budget = READ_BUDGET; budget > READ_CHUNK && link->fd >= 0;) {
    if (reserve(link) < 0) {
      pco__link_fail(link, pco__error_no_memory());
      return;
    }
    size_t n = receive_some(link);
    if (n == 0)
      return;
    budget = budget > n ? budget - n : 0;
  }
}
