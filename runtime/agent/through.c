/* SPDX-License-Identifier: MIT */
/* Out of a pipe and into a file; see through.h. */
#include "through.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

#define BLOCK (64u * 1024) /* of what is not spliced */

/* Of this process, which has one thread. */
static int between[2] = {-1, -1};

static void drop(void) {
  close(between[0]);
  close(between[1]);
  between[0] = between[1] = -1;
}

/* Without it, what is there is spliced from where it is. */
static bool has_between(void) {
  if (between[0] >= 0)
    return true;
  if (pipe2(between, O_CLOEXEC) != 0) {
    between[0] = between[1] = -1;
    return false;
  }
  fcntl(between[1], F_SETPIPE_SZ, PCO_THROUGH_SIZE);
  return true;
}

static ssize_t splice_some(int from, int to, off_t *at, size_t len) {
  ssize_t n;
  do
    n = splice(from, NULL, to, at, len, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
  while (n < 0 && errno == EINTR);
  return n < 0 ? -errno : n;
}

static ssize_t write_some(int fd, const uint8_t *p, size_t len, off_t *at) {
  ssize_t n;
  while ((n = at ? pwrite(fd, p, len, *at) : write(fd, p, len)) < 0) {
    struct pollfd full = {.fd = fd, .events = POLLOUT};
    if (errno == EAGAIN) /* a device that does not block */
      poll(&full, 1, -1);
    else if (errno != EINTR)
      break;
  }
  if (n > 0 && at)
    *at += n;
  return n < 0 ? -errno : n;
}

/* The same by hand, for a file that cannot be spliced to. */
static ssize_t copy_some(int from, int fd, off_t *at, size_t len,
                         size_t *done) {
  static uint8_t block[BLOCK];
  ssize_t n;
  do
    n = read(from, block, len < sizeof block ? len : sizeof block);
  while (n < 0 && errno == EINTR);
  if (n <= 0)
    return n < 0 ? -errno : 0;
  for (size_t put = 0; put < (size_t)n;) {
    ssize_t rc = write_some(fd, block + put, (size_t)n - put, at);
    if (rc < 0)
      return rc;
    put += (size_t)rc;
    *done += (size_t)rc;
  }
  return n;
}

static ssize_t move_some(int from, int fd, off_t *at, size_t len,
                         size_t *done) {
  ssize_t n = splice_some(from, fd, at, len);
  if (n == -EINVAL || n == -EAGAIN)
    return copy_some(from, fd, at, len, done);
  *done += n > 0 ? (size_t)n : 0;
  return n;
}

ssize_t pco_through(int pipe, int fd, off_t *at, size_t len, size_t *done) {
  *done = 0;
  len = len < PCO_THROUGH_SIZE ? len : PCO_THROUGH_SIZE;
  if (!has_between())
    return move_some(pipe, fd, at, len, done);
  ssize_t n = splice_some(pipe, between[1], NULL, len);
  if (n == -EINVAL) /* it is no pipe */
    return copy_some(pipe, fd, at, len, done);
  while (n > 0 && *done < (size_t)n) {
    ssize_t rc = move_some(between[0], fd, at, (size_t)n - *done, done);
    if (rc <= 0) {
      drop();
      return rc < 0 ? rc : -EIO;
    }
  }
  return n;
}
