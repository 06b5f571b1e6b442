/* SPDX-License-Identifier: MIT */
/*
 * See visit.h.
 */
#include "visit.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define TICK_MS 20

/* ---- the end ------------------------------------------------------------- */

static void close_both(plugin_visit *v) {
  if (v->fd >= 0)
    close(v->fd);
  if (v->stream >= 0)
    close(v->stream);
  v->fd = v->stream = -1;
}

static void on_handle_closed(uv_handle_t *h) {
  plugin_visit *v = h->data;
  if (--v->handles > 0)
    return;
  if (v->status < 0 && v->state)
    close_both(v);
  v->fn(v, v->status, &v->report, v->fd, v->stream);
}

static void finish(plugin_visit *v, int status) {
  if (uv_is_closing((uv_handle_t *)&v->timer))
    return;
  v->status = status;
  uv_close((uv_handle_t *)&v->timer, on_handle_closed);
  if (v->polled)
    uv_close((uv_handle_t *)&v->poll, on_handle_closed);
}

void plugin_visit_stop(plugin_visit *v) {
  finish(v, UV_ECANCELED);
}

/* ---- the answer ---------------------------------------------------------- */

/* Takes the descriptor that came with a message. */
static int stream_of(struct msghdr *m) {
  int fd = -1;
  for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c))
    if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
        c->cmsg_len == CMSG_LEN(sizeof fd))
      memcpy(&fd, CMSG_DATA(c), sizeof fd);
  return fd;
}

/* The size of the message, or a negative code. */
static ssize_t receive(plugin_visit *v) {
  union {
    char bytes[CMSG_SPACE(sizeof(int))];
    struct cmsghdr align;
  } control;
  struct iovec iov = {&v->report, sizeof v->report};
  struct msghdr m = {.msg_iov = &iov,
                     .msg_iovlen = 1,
                     .msg_control = control.bytes,
                     .msg_controllen = sizeof control.bytes};
  ssize_t n = recvmsg(v->fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (n < 0)
    return -errno;
  v->stream = stream_of(&m);
  return n;
}

static void read_answer(plugin_visit *v) {
  ssize_t n = receive(v);
  if (n == -EAGAIN || n == -EINTR)
    return;
  if (n != sizeof v->report)
    memset(&v->report, 0, sizeof v->report);
  v->report.text[sizeof v->report.text - 1] = '\0';
  finish(v, n >= 0 || n == -ECONNRESET ? 0 : (int)n);
}

static void on_poll(uv_poll_t *h, int status, int events) {
  (void)status;
  (void)events;
  plugin_visit *v = h->data;
  if (!uv_is_closing((uv_handle_t *)&v->timer))
    read_answer(v);
}

/* Without a watcher to spare the timer looks. */
static bool start_poll(plugin_visit *v) {
  uv_loop_t *loop = v->timer.loop;
  struct epoll_event e = {.events = EPOLLIN, .data.fd = v->fd};
  v->poll.data = v;
  if (uv_poll_init(loop, &v->poll, v->fd) < 0)
    return false;
  v->polled = true;
  v->handles++;
  if (uv_poll_start(&v->poll, UV_READABLE, on_poll) < 0)
    return false;
  if (epoll_ctl(uv_backend_fd(loop), EPOLL_CTL_ADD, v->fd, &e) == 0)
    return true;
  uv_poll_stop(&v->poll);
  return false;
}

/* ---- the order ----------------------------------------------------------- */

/* 0, or a negative code; UV_EAGAIN: later. */
static int give_order(plugin_visit *v) {
  if (v->fd < 0) {
    int fd = plugin_state_knock(v->state, v->id);
    if (fd < 0)
      return fd;
    v->fd = fd;
  }
  ssize_t n =
      send(v->fd, &v->order, sizeof v->order, MSG_NOSIGNAL | MSG_DONTWAIT);
  return n < 0 ? -errno : 0;
}

static void on_tick(uv_timer_t *t) {
  plugin_visit *v = t->data;
  if (v->order.type && !v->polled) {
    int rc = give_order(v);
    if (rc == 0) {
      v->order.type = 0; /* it was given */
      uint64_t now = uv_now(t->loop);
      uint64_t left = v->deadline > now ? v->deadline - now : 0;
      uv_timer_start(t, on_tick, start_poll(v) ? left : TICK_MS, TICK_MS);
    } else if (rc == -EPIPE || rc == -ECONNRESET) {
      finish(v, 0); /* the other side has gone: as its end */
    } else if (rc != -EAGAIN) {
      finish(v, rc);
    }
  } else {
    read_answer(v);
  }
  if (uv_now(t->loop) >= v->deadline)
    finish(v, UV_ETIMEDOUT);
}

static void start(plugin_visit *v, uv_loop_t *loop, unsigned ms) {
  v->stream = -1;
  uv_update_time(loop);
  v->deadline = uv_now(loop) + ms;
  uv_timer_init(loop, &v->timer);
  v->timer.data = v;
  v->handles = 1;
  uv_timer_start(&v->timer, on_tick, 0, TICK_MS);
}

void plugin_visit_door(plugin_visit *v, uv_loop_t *loop,
                       const plugin_state *state, const char *id,
                       pco_keeper_order order, unsigned ms,
                       plugin_visit_fn fn) {
  *v = (plugin_visit){.fd = -1, .state = state, .order = order, .fn = fn};
  snprintf(v->id, sizeof v->id, "%s", id);
  start(v, loop, ms);
}

void plugin_visit_control(plugin_visit *v, uv_loop_t *loop, int fd,
                          pco_keeper_order order, unsigned ms,
                          plugin_visit_fn fn) {
  *v = (plugin_visit){.fd = fd, .order = order, .fn = fn};
  start(v, loop, ms);
}
