/* SPDX-License-Identifier: MIT */
/*
 * See image_step.h.
 */
#include "image_step.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bwrap.h"

#define LONG_MS 0x7fffffff /* no deadline: whoever waits has one */

static void end(bwrap_step *s) {
  s->kind = BWRAP_STEP_NONE;
  s->then(s);
}

int bwrap_step_init(bwrap_step *s, pco_backend *b) {
  *s = (bwrap_step){.backend = b, .text = -1};
  return uv_timer_init(b->host->loop, &s->timer);
}

static void on_closed(uv_handle_t *h) {
  end(BWRAP_CONTAINER(h, bwrap_step, timer));
}

void bwrap_step_close(bwrap_step *s, bwrap_step_fn then) {
  if (s->text >= 0)
    close(s->text);
  s->then = then;
  uv_close((uv_handle_t *)&s->timer, on_closed);
}

/* ---- time --------------------------------------------------------------- */

static void on_timer(uv_timer_t *t) {
  end(BWRAP_CONTAINER(t, bwrap_step, timer));
}

void bwrap_step_time(bwrap_step *s, unsigned ms, bwrap_step_fn then) {
  s->kind = BWRAP_STEP_TIME;
  s->then = then;
  uv_timer_start(&s->timer, on_timer, ms, 0);
}

/* ---- a program on the host ---------------------------------------------- */

static void on_exit_or_late(plugin_wait *w, bool ended) {
  bwrap_step *s = BWRAP_CONTAINER(w, bwrap_step, wait);
  int signo;
  if (!ended) {
    plugin_wait_start(w, s->backend->host->loop, s->pidfd, LONG_MS,
                      on_exit_or_late);
    return;
  }
  s->status = -1;
  plugin_reap(s->pidfd, &s->status, &signo);
  close(s->pidfd);
  end(s);
}

int bwrap_step_host(bwrap_step *s, const char *const *argv,
                    bwrap_step_fn then) {
  pco_backend *b = s->backend;
  const char *env[] = {NULL};
  if (s->text >= 0)
    close(s->text);
  s->text = memfd_create("image-text", MFD_CLOEXEC);
  int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  int rc = s->text < 0 || null < 0 ? -errno : 0;
  if (rc == 0)
    rc = plugin_start_agent(&b->services, argv, env, "/",
                            (const int32_t[]){null, null, s->text}, 3,
                            &s->pidfd, NULL);
  if (null >= 0)
    close(null);
  if (rc < 0)
    return rc;
  s->kind = BWRAP_STEP_HOST;
  s->then = then;
  plugin_wait_start(&s->wait, b->host->loop, s->pidfd, LONG_MS,
                    on_exit_or_late);
  return 0;
}

void bwrap_step_text(const bwrap_step *s, char *out, size_t size) {
  ssize_t n = pread(s->text, out, size - 1, 0);
  out[n < 0 ? 0 : n] = '\0';
  out[strcspn(out, "\n")] = '\0';
}

/* ---- a command in a sandbox --------------------------------------------- */

static void on_keeper_ended(bwrap_keeper *k) {
  end(BWRAP_CONTAINER(k, bwrap_step, keeper));
}

static void on_report(bwrap_keeper *k) {
  if (k->over)
    bwrap_keeper_end(k, 0, on_keeper_ended);
}

int bwrap_step_sandbox(bwrap_step *s, const char *const *argv, const char *dir,
                       int fd, bwrap_step_fn then, pco_error *err) {
  static atomic_uint last; /* of all loops */
  char id[32];
  bwrap_plan plan;
  snprintf(id, sizeof id, "image-%u", atomic_fetch_add(&last, 1u));
  int rc = bwrap_plan_init_command(&plan, s->backend, argv, err);
  if (rc == 0)
    rc = bwrap_plan_work_in(&plan, dir);
  if (rc == 0)
    rc = bwrap_launch(&s->keeper, s->backend, &plan, id, fd, on_report, err);
  bwrap_plan_deinit(&plan);
  if (rc < 0)
    return rc;
  s->kind = BWRAP_STEP_SANDBOX;
  s->then = then;
  return 0;
}

int bwrap_step_exit_code(const bwrap_step *s) {
  const pco_keeper_report *r = &s->keeper.last;
  return r->type == PCO_KEEPER_ENDED ? r->exit_code : -1;
}

void bwrap_step_last_words(const bwrap_step *s, char *out, size_t size) {
  static const char *const empty[] = {"tar: Exiting with failure status",
                                      "tar: Error is not recoverable"};
  const char *text = s->keeper.last.text;
  out[0] = '\0';
  while (*text) {
    size_t len = strcspn(text, "\n");
    if (len && !pco_starts_with(text, empty[0]) &&
        !pco_starts_with(text, empty[1]))
      snprintf(out, size, "%.*s", (int)len, text);
    text += len + (text[len] == '\n');
  }
}

/* ---- any ---------------------------------------------------------------- */

void bwrap_step_hurry(bwrap_step *s) {
  if (s->kind == BWRAP_STEP_SANDBOX && !s->keeper.on_ended)
    bwrap_keeper_end(&s->keeper, 0, on_keeper_ended);
  else if (s->kind == BWRAP_STEP_HOST)
    plugin_kill(s->pidfd, SIGKILL);
  else if (s->kind == BWRAP_STEP_TIME)
    uv_timer_start(&s->timer, on_timer, 0, 0);
}
