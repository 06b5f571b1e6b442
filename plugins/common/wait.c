/* SPDX-License-Identifier: MIT */
/*
 * See wait.h.
 */
#include "wait.h"

#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define TICK_MS 20

/* ---- processes ---------------------------------------------------------- */

/* Whoever's child it is, and whether it was reaped. */
bool plugin_has_ended(int pidfd) {
  struct pollfd p = {.fd = pidfd, .events = POLLIN};
  return poll(&p, 1, 0) > 0;
}

bool plugin_reap(int pidfd, int *code, int *signo) {
  siginfo_t info;
  memset(&info, 0, sizeof info);
  if (waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED | WNOHANG) < 0 ||
      info.si_pid == 0)
    return false;
  bool exited = info.si_code == CLD_EXITED;
  *code = exited ? info.si_status : -1;
  *signo = exited ? 0 : info.si_status;
  return true;
}

void plugin_kill(int pidfd, int signo) {
  (void)syscall(SYS_pidfd_send_signal, pidfd, signo, NULL, 0);
}

/* ---- the wait ----------------------------------------------------------- */

static void on_handle_closed(uv_handle_t *h) {
  plugin_wait *w = h->data;
  if (--w->handles > 0)
    return;
  if (w->poll_fd >= 0)
    close(w->poll_fd);
  w->fn(w, w->ended);
}

void plugin_wait_stop(plugin_wait *w) {
  if (uv_is_closing((uv_handle_t *)&w->timer))
    return;
  w->ended = plugin_has_ended(w->pidfd);
  uv_close((uv_handle_t *)&w->timer, on_handle_closed);
  if (w->poll_fd >= 0)
    uv_close((uv_handle_t *)&w->poll, on_handle_closed);
}

static void on_poll(uv_poll_t *h, int status, int events) {
  (void)status;
  (void)events;
  plugin_wait_stop(h->data);
}

static void on_tick(uv_timer_t *t) {
  plugin_wait *w = t->data;
  if (plugin_has_ended(w->pidfd) || uv_now(t->loop) >= w->deadline)
    plugin_wait_stop(w);
}

static void start_poll(plugin_wait *w, uv_loop_t *loop) {
  w->poll_fd = fcntl(w->pidfd, F_DUPFD_CLOEXEC, 3);
  if (w->poll_fd < 0)
    return;
  w->poll.data = w;
  if (uv_poll_init(loop, &w->poll, w->poll_fd) < 0) {
    close(w->poll_fd);
    w->poll_fd = -1;
    return;
  }
  w->handles++;
  w->blind = uv_poll_start(&w->poll, UV_READABLE, on_poll) < 0;
}

void plugin_wait_start(plugin_wait *w, uv_loop_t *loop, int pidfd, unsigned ms,
                       void (*fn)(plugin_wait *w, bool ended)) {
  *w = (plugin_wait){.pidfd = pidfd, .fn = fn};
  uv_update_time(loop);
  w->deadline = uv_now(loop) + ms;
  uv_timer_init(loop, &w->timer);
  w->timer.data = w;
  w->handles = 1;
  start_poll(w, loop);
  uint64_t first = w->poll_fd < 0 || w->blind ? TICK_MS : ms;
  uv_timer_start(&w->timer, on_tick, first, TICK_MS);
}
