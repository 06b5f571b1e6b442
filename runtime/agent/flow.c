/* SPDX-License-Identifier: MIT */
/*
 * Contents between files and pipes; see flow.h.
 */
#include "flow.h"

#include "agent.h"
#include "through.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define STEP  (1024u * 1024) /* bytes that one step splices */
#define BLOCK (128u * 1024)

int pco_flow_init(pco_flow *f, int pipe, int fd, off_t at, uint64_t left) {
  struct stat st;
  f->fd = fd;
  f->at = at;
  f->left = left;
  f->pipe = fcntl(pipe, F_DUPFD_CLOEXEC, 3);
  if (f->pipe < 0 || fcntl(f->pipe, F_SETFL, O_NONBLOCK) != 0 ||
      fstat(fd, &st) != 0)
    return -errno;
  f->copies = !S_ISREG(st.st_mode);
  f->seekable = lseek(fd, 0, SEEK_CUR) >= 0;
  return 0;
}

void pco_flow_deinit(pco_flow *f) {
  if (f->pipe >= 0)
    close(f->pipe);
  f->pipe = -1;
  free(f->block);
  f->block = NULL;
}

static size_t at_most(const pco_flow *f, size_t n) {
  return f->left < n ? (size_t)f->left : n;
}

/* What a system call came to: bytes, 0 at the end, or a negative errno. */
static ssize_t outcome(ssize_t n) {
  return n >= 0 ? n : errno == EINTR ? -EAGAIN : -errno;
}

static void moved(pco_flow *f, size_t n) {
  f->left -= n;
  f->done += n;
}

/* The system cannot splice this. */
static bool must_copy(pco_flow *f, ssize_t rc) {
  f->copies = rc == -EINVAL && f->done == 0;
  return f->copies;
}

static bool has_block(pco_flow *f) {
  if (!f->block)
    f->block = malloc(BLOCK);
  return f->block != NULL;
}

/* ---- from the file ------------------------------------------------------- */

static ssize_t read_file(pco_flow *f, size_t n) {
  n = at_most(f, n);
  return outcome(f->seekable ? pread(f->fd, f->block, n, f->at)
                             : read(f->fd, f->block, n));
}

static int copy_out(pco_flow *f) {
  if (!has_block(f))
    return -ENOMEM;
  if (f->block_at == f->block_len) {
    if (!f->seekable && f->done > 0)
      return 0;
    ssize_t n = read_file(f, BLOCK);
    f->dry = n == -EAGAIN;
    if (n <= 0)
      return (int)n;
    f->at += n;
    f->block_at = 0;
    f->block_len = (size_t)n;
  }
  ssize_t n = outcome(
      write(f->pipe, f->block + f->block_at, f->block_len - f->block_at));
  if (n < 0)
    return (int)n;
  f->block_at += (size_t)n;
  moved(f, (size_t)n);
  return f->left > 0;
}

int pco_flow_wait(pco_agent *a, pco_job *j, const pco_flow *f,
                  uint32_t events) {
  if (!a->is_worker)
    return -EAGAIN;
  return f->dry ? pco_job_wait(a, j, f->fd, EPOLLIN)
                : pco_job_wait(a, j, f->pipe, events);
}

int pco_flow_out(pco_flow *f) {
  if (f->left == 0)
    return 0;
  if (f->copies)
    return copy_out(f);
  ssize_t n = outcome(splice(f->fd, &f->at, f->pipe, NULL, at_most(f, STEP),
                             SPLICE_F_NONBLOCK | SPLICE_F_MOVE));
  if (must_copy(f, n))
    return copy_out(f);
  if (n <= 0)
    return (int)n;
  moved(f, (size_t)n);
  return f->left > 0;
}

/* ---- into the file ------------------------------------------------------- */

int pco_flow_in(pco_flow *f) {
  size_t done;
  if (f->left == 0)
    return 0;
  ssize_t n = pco_through(f->pipe, f->fd, f->seekable ? &f->at : NULL,
                          at_most(f, STEP), &done);
  moved(f, done);
  if (!f->seekable)
    f->at += (off_t)done;
  if (n <= 0)
    return n < 0 ? (int)n : -ECANCELED;
  return f->left > 0;
}
