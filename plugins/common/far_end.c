/* SPDX-License-Identifier: MIT */
/*
 * See far_end.h.
 */
#include "far_end.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "fail.h"

#define AFTER_MS 1000 /* from its last word to its end */
#define KILL_MS  5000
#define TICK_MS  20

static void drop_keeper(plugin_far_end *e) {
  if (e->pidfd >= 0)
    close(e->pidfd);
  e->pidfd = -1;
}

static void give_back(plugin_far_end *e) {
  drop_keeper(e);
  plugin_state_close(&e->state);
}

static void finish(plugin_far_end *e, int status) {
  int code, signo;
  if (e->pidfd >= 0)
    plugin_reap(e->pidfd, &code, &signo); /* it may be this process's child */
  give_back(e);
  e->fn(e, status);
}

/* ---- its keeper ---------------------------------------------------------- */

static void on_ended(plugin_wait *w, bool ended) {
  plugin_far_end *e =
      (plugin_far_end *)((char *)w - offsetof(plugin_far_end, wait));
  if (!ended && !e->killed) {
    e->killed = true;
    plugin_kill(e->pidfd, SIGKILL);
    plugin_wait_start(&e->wait, e->loop, e->pidfd, KILL_MS, on_ended);
    return;
  }
  finish(e, ended ? 0 : PCO_EBACKEND);
}

/* After that time it is killed. */
static void wait_for_keeper(plugin_far_end *e, unsigned ms) {
  plugin_wait_start(&e->wait, e->loop, e->pidfd, ms, on_ended);
}

/* 1 if it lives, and then its keeper, if that can be seen from here; 0, or a
 * negative code. */
static int look(plugin_far_end *e) {
  plugin_info i;
  drop_keeper(e);
  int rc = plugin_state_look(&e->state, e->id, &i);
  if (rc < 0)
    return rc;
  if (i.lives)
    e->pidfd = plugin_state_keeper(&e->state, &i);
  bool lives = i.lives && e->pidfd != PCO_EGONE;
  plugin_info_deinit(&i);
  if (e->pidfd < 0)
    e->pidfd = -1;
  return lives;
}

/* ---- the order ----------------------------------------------------------- */

static void give_order(plugin_far_end *e);

static void on_timer_closed(uv_handle_t *h) {
  plugin_far_end *e = h->data;
  int rc = look(e);
  if (rc <= 0)
    finish(e, rc == UV_ENOENT ? 0 : rc);
  else if (uv_now(e->loop) < e->deadline)
    give_order(e);
  else if (e->pidfd >= 0)
    wait_for_keeper(e, 0);
  else
    finish(e, PCO_EBACKEND);
}

static void on_timer(uv_timer_t *t) {
  uv_close((uv_handle_t *)t, on_timer_closed);
}

static void look_again(plugin_far_end *e) {
  uv_timer_init(e->loop, &e->timer);
  e->timer.data = e;
  uv_timer_start(&e->timer, on_timer, TICK_MS, 0);
}

/* It has ended, or could not be reached, or has not answered. */
static void on_visited(plugin_visit *v, int status,
                       const pco_keeper_report *report, int fd, int stream) {
  plugin_far_end *e = (plugin_far_end *)v; /* its first member */
  bool said = status == 0 && report->type == PCO_KEEPER_ENDED;
  bool silent = status == 0 || status == UV_ENOENT ||
                status == UV_ECONNREFUSED || status == UV_ETIMEDOUT;
  if (fd >= 0)
    close(fd);
  if (stream >= 0)
    close(stream);
  if (said && e->pidfd >= 0)
    wait_for_keeper(e, AFTER_MS);
  else if (silent)
    look_again(e);
  else
    finish(e, status);
}

static void give_order(plugin_far_end *e) {
  const pco_keeper_order order = {.type = PCO_KEEPER_END};
  uint64_t now = uv_now(e->loop);
  plugin_visit_door(&e->visit, e->loop, &e->state, e->id, order,
                    (unsigned)(e->deadline - now), on_visited);
}

int plugin_far_end_start(plugin_far_end *e, uv_loop_t *loop,
                         const char *backend, const char *setting,
                         const char *id, unsigned ms,
                         void (*fn)(plugin_far_end *e, int status),
                         pco_error *err) {
  memset(e, 0, sizeof *e);
  e->pidfd = -1;
  e->loop = loop;
  e->fn = fn;
  snprintf(e->id, sizeof e->id, "%.64s", id);
  uv_update_time(loop);
  e->deadline = uv_now(loop) + ms;
  int rc = plugin_state_open_there(&e->state, backend, setting, err);
  if (rc == 0)
    rc = look(e);
  if (rc <= 0)
    give_back(e);
  else
    give_order(e);
  return rc;
}
