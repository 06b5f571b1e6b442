/* SPDX-License-Identifier: MIT */
/* See claim_watch.h: libuv takes EEXIST for a reason to set the events only. */
#include "claim_watch.h"

#include <errno.h>
#include <sys/epoll.h>

int pco__claim_watch(uv_loop_t *loop, int fd) {
  struct epoll_event e = {.data.fd = fd};
  int rc = epoll_ctl(uv_backend_fd(loop), EPOLL_CTL_ADD, fd, &e);
  return rc < 0 && errno != EEXIST ? uv_translate_sys_error(errno) : 0;
}
