/* SPDX-License-Identifier: MIT */
/*
 * Whether a loop has watchers that the kernel does not know yet: libuv adds
 * them to its epoll set at the next turn only, so until then the backend's
 * descriptor says nothing about them.  libuv has no function that tells; the
 * queue is a private field, a pair of pointers that lead to itself when empty
 * in all of 1.x (as void *[2], later as a struct of two).
 */
#ifndef PCO_SYS_UV_WATCHERS_H
#define PCO_SYS_UV_WATCHERS_H

#include <stdbool.h>
#include <uv.h>

static inline bool pco__uv_has_new_watchers(const uv_loop_t *loop) {
#if UV_VERSION_MAJOR == 1
  const void *queue = &loop->watcher_queue;
  return *(const void *const *)queue != queue;
#else
  return true; /* one turn more */
#endif
}

#endif /* PCO_SYS_UV_WATCHERS_H */
