/* SPDX-License-Identifier: MIT */
/* Contents of files by a pipe; see fs_agent_pipe.h. */
#include "fs_agent_pipe.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "fields.h"
#include "sys/quiet_write.h"

#define FITS_FROM  (128u * 1024 + 1) /* bytes: less goes by frames */
#define PIPE_SIZE  (1024 * 1024)     /* where the user may have so much */
#define READ_SIZE  (256u * 1024)     /* at least, for the next read */
#define TURN_BYTES (2048u * 1024)    /* in one turn of the loop */

static bool writes(const pco__fs_op *o) {
  return o->kind == PCO__FS_WRITE || o->kind == PCO__FILE_WRITE;
}

bool pco__fs_pipe_fits(const pco__fs_op *o) {
  if (writes(o))
    return o->len >= FITS_FROM;
  return (o->kind == PCO__FS_READ || o->kind == PCO__FILE_READ) &&
         o->length >= FITS_FROM && o->max_size >= FITS_FROM;
}

void pco__fs_pipe_close(pco__fs_op *o) {
  if (!o->pipe_open)
    return;
  o->pipe_open = false;
  pco__watch_close(&o->watch);
  close(o->pipe);
}

/* ---- writing ------------------------------------------------------------- */

/* Writes some bytes: how many, or a negative errno. */
static ssize_t put(pco__fs_op *o) {
  size_t left = o->len - o->sent;
  size_t len = left < PIPE_SIZE ? left : PIPE_SIZE;
  const char *data = pco__fs_data(o);
  ssize_t n =
      data ? pco__quiet_write(o->pipe, data + o->sent, len) : -ECANCELED;
  if (data && n < 0)
    n = -errno;
  pco__fs_data_end(o);
  return n;
}

/* Writes what the pipe takes; true: all is in it, or nobody reads it. */
static bool fill(pco__fs_op *o) {
  for (size_t n_put = 0; o->sent < o->len && n_put < TURN_BYTES;) {
    ssize_t n = put(o);
    if (n > 0) {
      o->sent += (size_t)n;
      n_put += (size_t)n;
    } else if (n == -EAGAIN) {
      return false;
    } else if (n != -EINTR) {
      return true; /* the agent says why it stopped to read */
    }
  }
  return o->sent == o->len;
}

static void on_writable(pco__watch *watch, int status) {
  pco__fs_op *o = PCO_CONTAINER(watch, pco__fs_op, watch);
  if (status < 0 || fill(o))
    pco__fs_pipe_close(o);
}

/* ---- reading ------------------------------------------------------------- */

/* The most that may come, and one byte that tells of more. */
static uint64_t most(const pco__fs_op *o) {
  uint64_t bound = (uint64_t)o->max_size + 1;
  return o->length < bound ? o->length : bound;
}

/* Takes up to `limit` bytes; how many, 0 if there are none now, UV_EOF, or an
 * error. */
static ssize_t take(pco__fs_op *o, size_t limit) {
  char *room = pco__fs_room(o, limit);
  if (!room)
    return UV_ENOMEM;
  ssize_t n = read(o->pipe, room, limit);
  if (n < 0)
    return errno == EAGAIN || errno == EINTR ? 0 : -errno;
  o->n_bytes += (size_t)n;
  return n > 0 ? n : UV_EOF;
}

static size_t next_size(const pco__fs_op *o, uint64_t until) {
  uint64_t left = until - o->n_bytes;
  return left < READ_SIZE ? (size_t)left : READ_SIZE;
}

static void on_readable(pco__watch *watch, int status) {
  pco__fs_op *o = PCO_CONTAINER(watch, pco__fs_op, watch);
  ssize_t n = status;
  for (size_t taken = 0; n >= 0 && taken < TURN_BYTES; taken += (size_t)n) {
    size_t size = next_size(o, most(o));
    n = size ? take(o, size) : 0;
    if (n <= 0)
      break;
  }
  if (o->n_bytes > o->max_size)
    n = PCO_ELIMIT;
  if (n < 0 && n != UV_EOF)
    pco__fs_give_up(o, (int)n);
  /* At the end, or when there is no more to take: the REPLY says what it was.
   */
  if (n < 0 || o->n_bytes >= most(o))
    pco__watch_stop(watch);
}

/* All is in the pipe: what is not there was a lie. */
static int take_rest(pco__fs_op *o, uint64_t total) {
  if (total > most(o) || total < o->n_bytes)
    return -EPROTO;
  while (o->n_bytes < total) {
    ssize_t n = take(o, next_size(o, total));
    if (n <= 0)
      return n == UV_ENOMEM ? (int)n : -EPROTO;
  }
  return o->n_bytes > o->max_size ? PCO_ELIMIT : 0;
}

int pco__fs_pipe_reply(pco__fs_op *o, const pco_wire_header *h,
                       const uint8_t *payload) {
  uint64_t n;
  if (!o->pipe_open ||
      pco__field_number(h, payload, PCO_TAG_LENGTH, INT64_MAX, &n) != 1)
    return -EPROTO;
  return h->flags & PCO_WIRE_MORE ? pco__watch_start(&o->watch)
                                  : take_rest(o, n);
}

/* ---- the pipe ------------------------------------------------------------ */

int pco__fs_pipe_make(pco__fs_op *o) {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0)
    return -1;
  int ours = fds[writes(o)];
  fcntl(ours, F_SETFL, O_NONBLOCK);
#ifdef F_SETPIPE_SZ
  fcntl(ours, F_SETPIPE_SZ, PIPE_SIZE);
#endif
  o->pipe = ours;
  o->pipe_open = true;
  o->piped = true;
  o->sent = 0;
  pco__watch_init(&o->watch, o->op.loop, ours,
                  writes(o) ? UV_WRITABLE : UV_READABLE,
                  writes(o) ? on_writable : on_readable);
  return fds[!writes(o)];
}

/* Whoever reads much of an open file gets it by the pipe, and need not wait to
 * be told so. */
void pco__fs_pipe_begin(pco__fs_op *o) {
  if (o->kind == PCO__FILE_READ)
    pco__watch_start(&o->watch);
  else if (writes(o) && (fill(o) || pco__watch_start(&o->watch) < 0))
    pco__fs_pipe_close(o);
}
