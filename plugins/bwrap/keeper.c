/* SPDX-License-Identifier: MIT */
/*
 * See keeper.h.
 */
#include "keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../common/fail.h"
#include "bwrap.h"

/* What a keeper needs at most after the grace: see its own deadlines. */
#define END_MS  20000
#define KILL_MS 5000

/* ---- reports ------------------------------------------------------------ */

static void take_report(bwrap_keeper *k, const pco_keeper_report *r) {
  if (r->type == PCO_KEEPER_STARTED) {
    k->started = true;
    k->start = *r;
  } else if (r->type == PCO_KEEPER_DETACHED) {
    k->let_go = true;
  } else {
    k->over = true;
    k->last = *r;
    k->last.text[sizeof k->last.text - 1] = '\0';
  }
}

/* Takes one: false if there is none now. */
static bool read_report(bwrap_keeper *k) {
  pco_keeper_report r;
  ssize_t n = recv(k->control, &r, sizeof r, MSG_DONTWAIT);
  if (n == sizeof r) {
    take_report(k, &r);
    return true;
  }
  if (n >= 0 || (errno != EAGAIN && errno != EINTR))
    k->over = true;
  return false;
}

static void on_control(uv_poll_t *h, int status, int events) {
  (void)events;
  bwrap_keeper *k = h->data;
  bool heard = read_report(k);
  if (status < 0)
    k->over = true;
  if (k->over)
    uv_poll_stop(k->poll);
  if (heard || k->over)
    k->on_report(k);
}

/* ---- the start ---------------------------------------------------------- */

static int spawn(bwrap_keeper *k, int control, int words, const int32_t *fds,
                 size_t n_fds, pco_error *err) {
  const char *argv[] = {"portico-agent", "--keep", NULL};
  const char *env[] = {NULL};
  int32_t all[PCO_KEEPER_FIRST_FD + BWRAP_MAX_FDS], pidfd = -1;
  int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null_fd < 0)
    return -errno;
  for (int i = 0; i < PCO_KEEPER_FIRST_FD; i++)
    all[i] = null_fd;
  all[PCO_KEEPER_CONTROL_FD] = control;
  all[PCO_KEEPER_WORDS_FD] = words;
  memcpy(all + PCO_KEEPER_FIRST_FD, fds, n_fds * sizeof *fds);
  int rc = plugin_start_agent(&k->backend->services, argv, env, "/", all,
                              PCO_KEEPER_FIRST_FD + n_fds, &pidfd, err);
  close(null_fd);
  k->pidfd = pidfd;
  return rc;
}

/* It has just begun, so it dies at once. */
static void take_back(bwrap_keeper *k) {
  siginfo_t info;
  plugin_kill(k->pidfd, SIGKILL);
  while (waitid(P_PIDFD, (id_t)k->pidfd, &info, WEXITED) < 0 && errno == EINTR)
    ;
  close(k->pidfd);
}

static void free_poll(uv_handle_t *h) {
  free(h);
}

static int start_poll(bwrap_keeper *k) {
  uv_poll_t *poll = calloc(1, sizeof *poll);
  int rc =
      poll ? uv_poll_init(k->backend->host->loop, poll, k->control) : UV_ENOMEM;
  if (rc < 0) {
    free(poll);
    return rc;
  }
  poll->data = k;
  k->poll = poll;
  rc = uv_poll_start(poll, UV_READABLE, on_control);
  if (rc < 0)
    uv_close((uv_handle_t *)poll, free_poll);
  return rc;
}

static int listen_to(bwrap_keeper *k, pco_error *err) {
  int rc = start_poll(k);
  if (rc < 0)
    plugin_fail(err, rc, "cannot watch the sandbox's keeper: %s%s",
                uv_strerror(rc),
                rc == UV_ENOSPC ? " (fs.epoll.max_user_watches)" : "");
  return rc;
}

int bwrap_keeper_start(bwrap_keeper *k, pco_backend *b, int words,
                       const int32_t *fds, size_t n_fds,
                       void (*on_report)(bwrap_keeper *k), pco_error *err) {
  int pair[2];
  *k = (bwrap_keeper){.backend = b, .pidfd = -1, .on_report = on_report};
  if (n_fds > BWRAP_MAX_FDS)
    return UV_EINVAL;
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
    return -errno;
  k->control = pair[0];
  int rc = spawn(k, pair[1], words, fds, n_fds, err);
  close(pair[1]);
  if (rc == 0) {
    rc = listen_to(k, err);
    if (rc < 0)
      take_back(k);
  }
  if (rc < 0)
    close(k->control);
  return rc;
}

int bwrap_keeper_adopt(bwrap_keeper *k, pco_backend *b, int pidfd, int control,
                       const pco_keeper_report *start,
                       void (*on_report)(bwrap_keeper *k), pco_error *err) {
  *k = (bwrap_keeper){.backend = b,
                      .program = "the launcher",
                      .pidfd = pidfd,
                      .control = control,
                      .started = true,
                      .start = *start,
                      .on_report = on_report};
  int rc = listen_to(k, err);
  if (rc < 0) {
    close(control);
    close(pidfd);
  }
  return rc;
}

/* ---- the end ------------------------------------------------------------ */

/* A child that the host has forked may have the socket still. */
static void on_left(uv_handle_t *h) {
  bwrap_keeper *k = h->data;
  free(h);
  shutdown(k->control, SHUT_RDWR);
  close(k->control);
  plugin_children_add(k->pidfd);
  k->on_ended(k);
}

void bwrap_keeper_leave(bwrap_keeper *k, void (*on_ended)(bwrap_keeper *k)) {
  k->on_ended = on_ended;
  uv_poll_stop(k->poll);
  uv_close((uv_handle_t *)k->poll, on_left);
}

int bwrap_keeper_ask_to_leave(const bwrap_keeper *k) {
  pco_keeper_order order = {.type = PCO_KEEPER_DETACH};
  ssize_t n =
      send(k->control, &order, sizeof order, MSG_NOSIGNAL | MSG_DONTWAIT);
  return n < 0 ? -errno : 0;
}

static void on_closed(uv_handle_t *h) {
  bwrap_keeper *k = h->data;
  free(h);
  close(k->control);
  close(k->pidfd);
  k->on_ended(k);
}

/* Starts the agent's program to remove the cgroup of a keeper that was killed.
 * pidfd is that program's from here on. */
static int start_remover(bwrap_keeper *k) {
  pco_backend *b = k->backend;
  const char *argv[] = {"portico-agent", "--remove-cgroup", b->cgroup,
                        k->cgroup, NULL};
  const char *env[] = {NULL};
  int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null_fd < 0)
    return -errno;
  int32_t fds[] = {null_fd, null_fd, null_fd}, pidfd = -1;
  int rc =
      plugin_start_agent(&b->services, argv, env, "/", fds, 3, &pidfd, NULL);
  close(null_fd);
  if (rc < 0)
    return rc;
  close(k->pidfd);
  k->pidfd = pidfd;
  k->removing = true;
  return 0;
}

static void on_gone(plugin_wait *w, bool ended) {
  bwrap_keeper *k = BWRAP_CONTAINER(w, bwrap_keeper, wait);
  uv_loop_t *loop = k->backend->host->loop;
  int code, signo;
  if (!ended && !k->killing) {
    k->killing = true;
    plugin_kill(k->pidfd, SIGKILL);
    plugin_wait_start(&k->wait, loop, k->pidfd, KILL_MS, on_gone);
    return;
  }
  plugin_reap(k->pidfd, &code, &signo);
  while (!k->over && read_report(k))
    ;
  k->over = true;
  if (ended && !k->removing && k->last.type == 0 && k->cgroup[0] &&
      start_remover(k) == 0) {
    k->killing = false;
    plugin_wait_start(&k->wait, loop, k->pidfd, END_MS, on_gone);
    return;
  }
  k->hangs = !ended;
  uv_close((uv_handle_t *)k->poll, on_closed);
}

void bwrap_keeper_order_end(int control, uint32_t grace_ms) {
  pco_keeper_order order = {.type = PCO_KEEPER_END, .grace_ms = grace_ms};
  (void)send(control, &order, sizeof order, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void bwrap_keeper_end(bwrap_keeper *k, uint32_t grace_ms,
                      void (*on_ended)(bwrap_keeper *k)) {
  if (k->on_ended) {
    bwrap_keeper_order_end(k->control, grace_ms);
    return;
  }
  k->on_ended = on_ended;
  uv_poll_stop(k->poll);
  bwrap_keeper_order_end(k->control, grace_ms);
  plugin_wait_start(&k->wait, k->backend->host->loop, k->pidfd,
                    grace_ms + END_MS, on_gone);
}
