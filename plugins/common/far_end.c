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

static void give_back(plugin_far_end *e) {
  if (e->pidfd >= 0)
    close(e->pidfd);
  e->pidfd = -1;
  plugin_state_close(&e->state);
}

static void finish(plugin_far_end *e, int status) {
  give_back(e);
  e->fn(e, status);
}

static void on_ended(plugin_wait *w, bool ended) {
  plugin_far_end *e =
      (plugin_far_end *)((char *)w - offsetof(plugin_far_end, wait));
  int code, signo;
  if (!ended && !e->killed) {
    e->killed = true;
    plugin_kill(e->pidfd, SIGKILL);
    plugin_wait_start(&e->wait, e->loop, e->pidfd, KILL_MS, on_ended);
    return;
  }
  plugin_reap(e->pidfd, &code, &signo); /* it may be this process's child */
  finish(e, ended ? 0 : PCO_EBACKEND);
}

/* It has ended, or does not listen. */
static void on_visited(plugin_visit *v, int status,
                       const pco_keeper_report *report, int fd, int stream) {
  plugin_far_end *e = (plugin_far_end *)v; /* its first member */
  (void)report;
  if (fd >= 0)
    close(fd);
  if (stream >= 0)
    close(stream);
  if (e->pidfd >= 0)
    plugin_wait_start(&e->wait, e->loop, e->pidfd, status < 0 ? 0 : AFTER_MS,
                      on_ended);
  else
    finish(e, status < 0 ? PCO_EBACKEND : 0);
}

static int look(plugin_far_end *e) {
  plugin_info i;
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

int plugin_far_end_start(plugin_far_end *e, uv_loop_t *loop,
                         const char *backend, const char *setting,
                         const char *id, unsigned ms,
                         void (*fn)(plugin_far_end *e, int status),
                         pco_error *err) {
  const pco_keeper_order order = {.type = PCO_KEEPER_END};
  memset(e, 0, sizeof *e);
  e->pidfd = -1;
  e->loop = loop;
  e->fn = fn;
  snprintf(e->id, sizeof e->id, "%.64s", id);
  int rc = plugin_state_open(&e->state, backend, setting, false, err);
  if (rc == 0)
    rc = look(e);
  if (rc <= 0)
    give_back(e);
  else
    plugin_visit_door(&e->visit, loop, &e->state, e->id, order, ms, on_visited);
  return rc;
}
