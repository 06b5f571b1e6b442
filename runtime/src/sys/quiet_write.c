/* SPDX-License-Identifier: MIT */
/*
 * write(2) without SIGPIPE; see quiet_write.h.  MSG_NOSIGNAL is for sockets
 * only, and a changed disposition would be the whole process's.
 */
#include "quiet_write.h"

#include <errno.h>
#include <signal.h>
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
  if (n < 0 && saved == EPIPE && !sigismember(&pending, SIGPIPE)) {
    struct timespec now = {0, 0};
    while (sigtimedwait(&pipe_set, NULL, &now) < 0 && errno == EINTR)
      ;
  }
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  errno = saved;
  return n;
}
