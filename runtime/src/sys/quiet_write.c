/* SPDX-License-Identifier: MIT */
/*
 * write(2) without SIGPIPE; see quiet_write.h.  MSG_NOSIGNAL is for sockets
 * only, and a changed disposition would be the whole process's.
 */
#include "quiet_write.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

ssize_t pco__quiet_write(int fd, const void *data, size_t len) {
  sigset_t pipe_set;
  sigset_t pending;
  sigset_t old;
  sigemptyset(&pipe_set);
  sigaddset(&pipe_set, SIGPIPE);
  sigpending(&pending);
  pthread_sigmask(SIG_BLOCK, &pipe_set, &old);
  ssize_t n = write(fd, data, len);
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
