/* SPDX-License-Identifier: MIT */
/*
 * Output streams; see stream.h.
 *
 * A pipe is read by our own read() under a watch, so that the bytes that
 * lie in it can be counted and taken at any moment, and so that nothing is read
 * ahead of what the owner wants.
 */
#include "stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "process.h"

#define READ_SIZE  (64u * 1024)
#define TURN_BYTES (256u * 1024) /* read in one turn of the loop */

void pco__stream_init(pco__stream *s, struct pco__process *p, uint8_t index) {
  memset(s, 0, sizeof *s);
  s->process = p;
  s->index = index;
  s->fd = -1;
}

int pco__stream_take_fd(pco__stream *s) {
  int fd = s->fd;
  if (fd >= 0)
    pco__watch_close(&s->watch);
  s->fd = -1;
  return fd;
}

int pco__stream_take(pco__stream *s) {
  s->open = false;
  s->flowing = false;
  return pco__stream_take_fd(s);
}

static void close_fd(pco__stream *s) {
  int fd = pco__stream_take_fd(s);
  if (fd >= 0)
    close(fd);
}

void pco__stream_close(pco__stream *s, bool held) {
  if (!s->open)
    return;
  s->open = false;
  s->flowing = false;
  s->held = held;
  close_fd(s);
}

void pco__stream_lose(pco__stream *s, int error) {
  if (s->open)
    s->lost = error;
  pco__stream_close(s, true);
}

/* Reads into a chunk that is handed on as it is: one copy less on the way to a
 * reader. */
static ssize_t read_chunk(pco__stream *s, size_t limit) {
  pco__chunk *c = pco__chunk_new(s->index, limit);
  if (!c) {
    errno = ENOMEM;
    return -1;
  }
  ssize_t n = read(s->fd, c->data, limit);
  if (n > 0)
    pco__process_output_chunk(s->process, pco__chunk_trim(c, (size_t)n));
  else
    free(c);
  return n;
}

static ssize_t read_bytes(pco__stream *s, size_t limit) {
  char buffer[READ_SIZE];
  ssize_t n = read(s->fd, buffer, limit);
  if (n > 0)
    pco__process_output(s->process, s->index, buffer, (size_t)n);
  return n;
}

/* Reads at most `limit` bytes; false if there is nothing more to take now. */
static bool read_some(pco__stream *s, size_t limit) {
  limit = limit < READ_SIZE ? limit : READ_SIZE;
  ssize_t n = pco__process_queues(s->process) ? read_chunk(s, limit)
                                              : read_bytes(s, limit);
  if (n > 0)
    return (size_t)n == READ_SIZE;
  if (n < 0 && (errno == EAGAIN || errno == EINTR || errno == ENOMEM))
    return false;
  if (n < 0)
    pco__stream_lose(s, -errno);
  else
    pco__stream_close(s, false);
  return false;
}

void pco__stream_pump(pco__stream *s) {
  int there = 0;
  if (!s->open || s->fd < 0 || ioctl(s->fd, FIONREAD, &there) < 0)
    return;
  /* Always with a whole buffer: of a packet (a pipe that the command made
   * O_DIRECT) a shorter read would lose the rest. */
  uint64_t enough = s->bytes + (uint64_t)there;
  do {
    uint64_t before = s->bytes;
    read_some(s, READ_SIZE);
    if (s->bytes == before)
      return;
  } while (s->open && s->bytes < enough);
}

void pco__stream_give_up(pco__stream *s) {
  if (!s->open)
    return;
  s->given_up = true;
  if (s->give_up) {
    s->give_up(s);
    return;
  }
  pco__stream_pump(s);
  pco__stream_close(s, true);
}

static void on_readable(pco__watch *watch, int status) {
  pco__stream *s = PCO_CONTAINER(watch, pco__stream, watch);
  pco__process *p = s->process;
  pco__process_ref(p);
  if (status < 0)
    pco__stream_lose(s, status);
  for (uint64_t start = s->bytes;
       s->open && s->flowing && s->bytes - start < TURN_BYTES;)
    if (!read_some(s, READ_SIZE))
      break;
  pco__process_update(p);
  pco__process_unref(p);
}

/* The watch begins when bytes are waited for the first time: most commands end
 * before that. */
void pco__stream_open_fd(pco__stream *s, int fd) {
  pco__watch_init(&s->watch, s->process->loop, fd, UV_READABLE, on_readable);
  s->fd = fd;
  s->open = true;
}

static void flow_fd(pco__stream *s, bool on) {
  int rc = 0;
  if (on)
    rc = pco__watch_start(&s->watch);
  else
    pco__watch_stop(&s->watch);
  if (rc < 0)
    pco__stream_lose(s, rc);
}

void pco__stream_flow(pco__stream *s, bool on) {
  if (!s->open || s->flowing == on)
    return;
  s->flowing = on;
  if (s->flow)
    s->flow(s, on);
  else
    flow_fd(s, on);
}
