/* SPDX-License-Identifier: MIT */
/*
 * write(2) without SIGPIPE; see quiet_write.h.  MSG_NOSIGNAL is for sockets
 * only, and a changed disposition would be the whole process's.
 */
#include "quiet_write.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

typedef ssize_t (*write_fn)(int fd, const void *data, size_t len);

static ssize_t quietly(write_fn fn, int fd, const void *data, size_t len) {
  sigset_t pipe_set;
  sigset_t pending;
  sigset_t old;
  sigemptyset(&pipe_set);
  sigaddset(&pipe_set, SIGPIPE);
  sigpending(&pending);
  pthread_sigmask(SIG_BLOCK, &pipe_set, &old);
  ssize_t n = fn(fd, data, len);
  int saved = errno;
  /* A reader that goes in the midst of a write is a signal, and a part. */
  bool raised = n < 0 ? saved == EPIPE : (size_t)n < len;
  if (raised && !sigismember(&pending, SIGPIPE)) {
    struct timespec now = {0, 0};
    while (sigtimedwait(&pipe_set, NULL, &now) < 0 && errno == EINTR)
      ;
  }
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  errno = saved;
  return n;
}

ssize_t pco__quiet_write(int fd, const void *data, size_t len) {
  return quietly(write, fd, data, len);
}

static bool is_file(int fd) {
  struct stat st;
  return fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

/* What does not know RWF_NOWAIT (terminals, and pipes of older kernels) takes
 * PIPE_BUF at least when it says that it can be written; files never wait. */
static ssize_t write_at_once(int fd, const void *data, size_t len) {
  struct iovec part = {.iov_base = (void *)(uintptr_t)data, .iov_len = len};
  ssize_t n = pwritev2(fd, &part, 1, -1, RWF_NOWAIT);
  if (n >= 0 || (errno != EOPNOTSUPP && errno != ENOSYS && errno != EAGAIN))
    return n;
  bool full = errno == EAGAIN;
  if (is_file(fd))
    return write(fd, data, len);
  errno = EAGAIN;
  return full ? -1 : write(fd, data, len < PIPE_BUF ? len : PIPE_BUF);
}

ssize_t pco__quiet_write_some(int fd, const void *data, size_t len) {
  return quietly(write_at_once, fd, data, len);
}
