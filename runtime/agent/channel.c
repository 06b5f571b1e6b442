/* SPDX-License-Identifier: MIT */
/*
 * Frames over a Unix socket; see channel.h for the contract.
 *
 * How descriptors find their frame: a receive on a stream socket stops after
 * the packet that carried descriptors, so those that arrive belong to the
 * newest bytes.  A frame takes its own as soon as its header is complete; what
 * no frame can claim is a protocol error.  Those for which this process has no
 * room the kernel drops; the frame then has -1 in their place, and is for its
 * reader to refuse.
 */
#include "channel.h"

#include "rights.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* A buffer is small until much comes: most channels see frames of a hundred
 * bytes, and where a page that is touched first is dear, an agent's start is
 * counted in pages. */
#define FIRST_SPACE 1024u
#define READ_SPACE  (16u * 1024) /* free before a receive, once one was full */
#define KEEP_SPACE  (64u * 1024) /* what an empty buffer may keep */

void pco_channel_init(pco_channel *c, int fd) {
  memset(c, 0, sizeof *c);
  c->fd = fd;
}

static void close_all(const int *fds, unsigned n) {
  for (unsigned i = 0; i < n; i++)
    if (fds[i] >= 0)
      close(fds[i]);
}

void pco_channel_deinit(pco_channel *c) {
  close_all(c->in_fds, c->n_in_fds);
  for (unsigned i = 0; i < c->n_marks; i++)
    close_all(c->marks[i].fds, c->marks[i].n);
  if (c->fd >= 0)
    close(c->fd);
  free(c->in);
  free(c->out);
  pco_channel_init(c, -1);
}

void pco_frame_close_fds(pco_frame *f) {
  close_all(f->fds, f->header.n_fds);
  f->header.n_fds = 0;
}

/* Moves the unread part to the front; gives back memory that a large frame
 * needed once. */
static void compact(uint8_t **data, size_t *at, size_t *len, size_t *cap) {
  if (*at > 0) {
    memmove(*data, *data + *at, *len - *at);
    *len -= *at;
    *at = 0;
  }
  if (*len == 0 && *cap > KEEP_SPACE) {
    free(*data);
    *data = NULL;
    *cap = 0;
  }
}

static int grow(uint8_t **data, size_t *cap, size_t need) {
  if (need <= *cap)
    return 0;
  size_t bigger = *cap ? *cap : FIRST_SPACE;
  while (bigger < need)
    bigger *= 2;
  uint8_t *p = realloc(*data, bigger);
  if (!p)
    return -ENOMEM;
  *data = p;
  *cap = bigger;
  return 0;
}

/* Takes the descriptors out of the control data; every one that arrived is
 * owned by the channel afterwards, or closed. */
static int take_fds(pco_channel *c, struct msghdr *m) {
  bool bad = c->cut && (m->msg_flags & MSG_CTRUNC);
  c->cut = c->cut || (m->msg_flags & MSG_CTRUNC);
  for (struct cmsghdr *h = CMSG_FIRSTHDR(m); h; h = CMSG_NXTHDR(m, h)) {
    if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS)
      continue;
    unsigned n = (unsigned)((h->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    for (unsigned i = 0; i < n; i++) {
      int fd;
      memcpy(&fd, CMSG_DATA(h) + i * sizeof fd, sizeof fd);
      if (c->n_in_fds < PCO_CHANNEL_MAX_FDS) {
        c->in_fds[c->n_in_fds++] = fd;
      } else {
        close(fd);
        bad = true;
      }
    }
    bad = bad || n > PCO_WIRE_MAX_FDS;
  }
  return bad ? -EPROTO : 1;
}

int pco_channel_receive(pco_channel *c) {
  compact(&c->in, &c->in_at, &c->in_len, &c->in_cap);
  size_t space = c->busy ? READ_SPACE : FIRST_SPACE;
  if (grow(&c->in, &c->in_cap, c->in_len + space) != 0)
    return -ENOMEM;
  union {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(PCO_CHANNEL_MAX_FDS * sizeof(int))];
  } control;
  struct iovec v = {c->in + c->in_len, c->in_cap - c->in_len};
  struct msghdr m = {.msg_iov = &v,
                     .msg_iovlen = 1,
                     .msg_control = control.bytes,
                     .msg_controllen = sizeof control.bytes};
  ssize_t n;
  do
    n = recvmsg(c->fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  while (n < 0 && errno == EINTR);
  if (n <= 0)
    return n == 0 ? 0 : -errno;
  c->busy = c->busy || (size_t)n == v.iov_len;
  c->in_len += (size_t)n;
  return take_fds(c, &m);
}

/* Stands in for those that the kernel dropped: they would be the last. */
static int fill_cut(pco_channel *c, unsigned n) {
  if (!c->cut)
    return -EPROTO;
  while (c->n_in_fds < n)
    c->in_fds[c->n_in_fds++] = -1;
  c->cut = false;
  return 0;
}

bool pco_frame_cut(const pco_frame *f) {
  for (unsigned i = 0; i < f->header.n_fds; i++)
    if (f->fds[i] < 0)
      return true;
  return false;
}

/* Gives the frame its descriptors. */
static void claim_fds(pco_channel *c, pco_frame *f) {
  unsigned n = f->header.n_fds;
  memcpy(f->fds, c->in_fds, n * sizeof(int));
  c->n_in_fds -= n;
  memmove(c->in_fds, c->in_fds + n, c->n_in_fds * sizeof(int));
}

int pco_channel_next(pco_channel *c, pco_frame *f) {
  size_t have = c->in_len - c->in_at;
  if (have < PCO_WIRE_HEADER)
    return have == 0 && (c->n_in_fds > 0 || c->cut) ? -EPROTO : 0;
  const uint8_t *p = c->in + c->in_at;
  int rc = pco_wire_header_read(p, &f->header);
  if (rc != 0)
    return rc;
  if (f->header.n_fds > c->n_in_fds && fill_cut(c, f->header.n_fds) != 0)
    return -EPROTO;
  size_t size = PCO_WIRE_HEADER + f->header.size;
  if (have < size)
    return c->n_in_fds == f->header.n_fds ? 0 : -EPROTO;
  f->payload = p + PCO_WIRE_HEADER;
  claim_fds(c, f);
  c->in_at += size;
  return 1;
}

/* Forgets what was written. */
static void compact_out(pco_channel *c) {
  for (unsigned i = 0; i < c->n_marks; i++)
    c->marks[i].at -= c->out_at;
  compact(&c->out, &c->out_at, &c->out_len, &c->out_cap);
}

static int queue(pco_channel *c, const void *p, size_t len) {
  size_t room = c->out_cap - c->out_len;
  /* Only if half of it is free: what waits is moved once, not for each frame.
   */
  if (room < len && c->out_at >= c->out_len / 2)
    compact_out(c);
  int rc = grow(&c->out, &c->out_cap, c->out_len + len);
  if (rc != 0)
    return rc;
  memcpy(c->out + c->out_len, p, len);
  c->out_len += len;
  return 0;
}

static int queue_fds(pco_channel *c, const void *p, size_t len, const int *fds,
                     unsigned n) {
  bool full = n > 0 && c->n_marks == PCO_CHANNEL_MAX_MARKS;
  int rc = full ? -EAGAIN : queue(c, p, len);
  if (rc != 0 || n == 0) {
    close_all(fds, n);
    return rc;
  }
  pco_fd_mark *m = &c->marks[c->n_marks++];
  m->at = c->out_len - len;
  m->n = n;
  memcpy(m->fds, fds, n * sizeof(int));
  return 0;
}

int pco_channel_send(pco_channel *c, const pco_wire_buf *b) {
  return b->error ? b->error : queue(c, b->data, b->len);
}

int pco_channel_send_fds(pco_channel *c, const pco_wire_buf *b, const int *fds,
                         unsigned n) {
  if (b->error) {
    close_all(fds, n);
    return b->error;
  }
  return queue_fds(c, b->data, b->len, fds, n);
}

/* The payload of a received frame follows its header in memory. */
int pco_channel_relay(pco_channel *c, const pco_frame *f) {
  size_t size = PCO_WIRE_HEADER + f->header.size;
  int rc =
      queue_fds(c, f->payload - PCO_WIRE_HEADER, size, f->fds, f->header.n_fds);
  if (rc == 0) /* it may have other descriptors than those it came with */
    c->out[c->out_len - size + PCO_WIRE_N_FDS_AT] = f->header.n_fds;
  return rc;
}

/* One sendmsg: up to the next frame with descriptors, or from it on. */
static ssize_t send_some(pco_channel *c) {
  const pco_fd_mark *mark = &c->marks[0];
  bool with_fds = c->n_marks > 0 && mark->at == c->out_at;
  size_t end = c->n_marks > with_fds ? c->marks[with_fds].at : c->out_len;
  struct iovec v = {c->out + c->out_at, end - c->out_at};
  struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
  pco_rights room;
  pco_rights_put(&m, &room, mark->fds, with_fds ? mark->n : 0);
  ssize_t n = sendmsg(c->fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (n > 0 && with_fds) {
    close_all(mark->fds, mark->n);
    c->n_marks--;
    memmove(c->marks, c->marks + 1, c->n_marks * sizeof *c->marks);
  }
  return n;
}

int pco_channel_flush(pco_channel *c) {
  while (c->out_at < c->out_len) {
    ssize_t n = send_some(c);
    if (n >= 0)
      c->out_at += (size_t)n;
    else if (errno == EAGAIN)
      return 1;
    else if (errno == ETOOMANYREFS || errno == ENOBUFS)
      return -EAGAIN;
    else if (errno != EINTR)
      return -errno;
  }
  c->out_at = 0;
  c->out_len = 0;
  compact(&c->out, &c->out_at, &c->out_len, &c->out_cap);
  return 0;
}
