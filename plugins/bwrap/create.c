/* SPDX-License-Identifier: MIT */
/*
 * The beginning of a bwrap sandbox.
 *
 * create() completes as soon as the keeper says that cgroups are made and
 * bubblewrap runs; the host's HELLO then waits in the agent's stream, so that
 * nobody waits twice.  If bubblewrap fails after that, the stream ends, and
 * cause_of_death() tells the host why.  An image that is a tar comes before the
 * keeper (image_tar.h); the plan waits for it in the sandbox.
 *
 * Whatever fails goes one way: s->failed says so, and once the keeper, or the
 * making of the image, has ended the op does (bwrap_sandbox_end).
 */
#include "bwrap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- the object --------------------------------------------------------- */

void bwrap_sandbox_free(pco_sandbox *s) {
  if (s->agent_fd >= 0)
    close(s->agent_fd);
  plugin_door_remove(s->door);
  free(s->cwd);
  bwrap_plan_deinit(&s->plan);
  plugin_entry_deinit(&s->entry);
  free(s);
}

/* The plan becomes its own. */
static pco_sandbox *sandbox_create(pco_backend *b, const pco_create_opts *o,
                                   bwrap_plan *p) {
  pco_sandbox *s = calloc(1, sizeof *s);
  if (!s)
    return NULL;
  s->backend = b;
  s->agent_fd = -1;
  s->flags = o->flags;
  s->wants = pco_limits_wanted(o->limits);
  s->cwd = strdup(p->cwd);
  s->is_weak = bwrap_is_weak(p, "cgroup");
  s->plan = *p;
  memset(p, 0, sizeof *p);
  if (plugin_entry_init(&s->entry, o) == 0 && s->cwd)
    return s;
  bwrap_sandbox_free(s);
  return NULL;
}

/* ---- when the keeper reports -------------------------------------------- */

static void fail(pco_sandbox *s, const pco_error *err) {
  s->failed = err->code < 0 ? err->code : PCO_EBACKEND;
  snprintf(s->why, sizeof s->why, "%s", err->message ? err->message : "");
  bwrap_sandbox_end(s, 0);
}

/* The keeper of a sandbox that lives. */
static void on_report(bwrap_keeper *k) {
  pco_sandbox *s = BWRAP_CONTAINER(k, pco_sandbox, keeper);
  if (s->leaving) {
    bwrap_detach_heard(s);
    return;
  }
  if (!k->over || !s->inquest)
    return;
  char room[PCO_MESSAGE_MAX];
  pco_error err = pco_error_in(room, sizeof room);
  pco_op *op = s->inquest;
  s->inquest = NULL;
  bwrap_explain(k, &err);
  s->backend->host->complete(s->backend->host, op, &err);
}

void bwrap_sandbox_hand_over(pco_sandbox *s, pco_op *op) {
  pco_sandbox_result result = pco_sandbox_result_init();
  plugin_entry_fill(&s->entry, &result);
  result.flags = PCO_SANDBOX_HAS_AGENT;
  if (s->keeper.start.uid != geteuid())
    result.flags |= PCO_SANDBOX_FOREIGN_ID;
  result.sandbox = s;
  result.agent_fd = s->agent_fd;
  result.cwd = s->cwd;
  s->agent_fd = -1; /* the host's from here on */
  s->keeper.on_report = on_report;
  s->backend->host->complete(s->backend->host, op, &result);
}

static void complete(pco_sandbox *s) {
  pco_op *op = s->creating;
  s->creating = NULL;
  bwrap_sandbox_hand_over(s, op);
}

static void on_create_report(bwrap_keeper *k) {
  pco_sandbox *s = BWRAP_CONTAINER(k, pco_sandbox, keeper);
  char room[PCO_MESSAGE_MAX];
  pco_error err = pco_error_in(room, sizeof room);
  if (k->over)
    bwrap_explain(k, &err);
  if (k->over || bwrap_limits_check(s, &k->start, &err) < 0)
    fail(s, &err);
  else
    complete(s);
}

static void cancel(void *arg) {
  pco_sandbox *s = arg;
  pco_error err = pco_error_init();
  err.code = UV_ECANCELED;
  fail(s, &err);
}

void bwrap_sandbox_doom(pco_sandbox *s) {
  char room[PCO_MESSAGE_MAX];
  pco_error err = pco_error_in(room, sizeof room);
  if (!s->creating) {
    bwrap_keeper_order_end(s->keeper.control, 0);
    return;
  }
  plugin_fail(&err, PCO_EGONE, "it was ended by its id while it was made");
  fail(s, &err);
}

/* ---- create ------------------------------------------------------------- */

static int check_places(const bwrap_plan *p, pco_error *err) {
  for (size_t i = 0; i < p->n_mounts; i++)
    if (!bwrap_image_has_place(&p->image, p->mounts[i].target, err))
      return UV_EINVAL;
  return 0;
}

static int launch(pco_sandbox *s, pco_error *err) {
  int pair[2];
  int rc = check_places(&s->plan, err);
  if (rc < 0)
    return rc;
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
    return -errno;
  s->agent_fd = pair[0];
  rc = bwrap_launch(&s->keeper, s->backend, &s->plan, s->entry.id, pair[1],
                    on_create_report, err);
  close(pair[1]);
  bwrap_plan_deinit(&s->plan);
  if (rc < 0)
    return rc;
  s->started = true;
  if (s->door)
    plugin_door_is_kept(s->door, s->keeper.pidfd);
  plugin_table_set_pidfd(&bwrap_table, &s->entry, s->keeper.pidfd);
  return 0;
}

/* A failure without a text gets one. */
static void describe(pco_error *err, int code) {
  if (!err->message && code != UV_ENOMEM)
    pco_error_set(err, code, PCO_SOURCE_PLUGIN,
                  "cannot start the sandbox's keeper: %s", uv_strerror(code));
  err->code = code;
}

static void on_image(bwrap_image_wait *w, const char *path,
                     const pco_error *why) {
  pco_sandbox *s = BWRAP_CONTAINER(w, pco_sandbox, wait);
  char room[PCO_MESSAGE_MAX];
  pco_error err = pco_error_in(room, sizeof room);
  int rc = why ? why->code : bwrap_image_read(&s->plan.image, path, &err);
  if (rc == 0)
    rc = launch(s, &err);
  if (rc < 0 && !why)
    describe(&err, rc);
  if (rc < 0)
    fail(s, why ? why : &err);
}

/* Waits for the image first if that has to be made. */
static int begin(pco_sandbox *s, pco_error *err) {
  int rc = 1;
  if (s->plan.image.is_tar)
    rc = bwrap_image_want(&s->wait, s->backend, &s->plan, on_image, err);
  return rc > 0 ? launch(s, err) : rc;
}

/* Writes down one that may be detached; the name of another is no matter of
 * other programs, but must be none of such a one. */
static int make_door(pco_sandbox *s, const pco_create_opts *o, pco_error *err) {
  const char *state = s->backend->state;
  plugin_info info = {.cwd = s->cwd};
  char *left;
  if (!(o->flags & PCO_CREATE_DETACHABLE))
    return o->name ? plugin_door_check_free(BWRAP_ID, state, o->name, err) : 0;
  plugin_entry_tell(&s->entry, &info);
  int rc = plugin_door_make(&s->door, BWRAP_ID, state, &info, &left, err);
  free(left); /* there is none */
  s->plan.door = s->door;
  s->plan.expires = s->entry.expires;
  return rc;
}

static int start(pco_backend *b, const pco_create_opts *o, bwrap_plan *p,
                 pco_op *op, pco_error *err) {
  pco_sandbox *s = sandbox_create(b, o, p);
  if (!s)
    return UV_ENOMEM;
  int rc = plugin_table_add(&bwrap_table, &s->entry, o->name, "bwrap", err);
  if (rc == 0) {
    rc = make_door(s, o, err);
    if (rc == 0)
      rc = begin(s, err);
    if (rc < 0)
      plugin_table_remove(&bwrap_table, &s->entry);
  }
  if (rc < 0) {
    bwrap_sandbox_free(s);
    return rc;
  }
  s->next = b->sandboxes;
  b->sandboxes = s;
  s->creating = op;
  b->host->set_cancel(b->host, op, cancel, s);
  return 0;
}

int bwrap_create(pco_backend *b, const pco_create_opts *o, pco_op *op) {
  if (o->flags & ~(PCO_CREATE_STRICT | PCO_CREATE_DETACHABLE))
    return UV_EINVAL;
  char room[PCO_MESSAGE_MAX];
  pco_error err = pco_error_in(room, sizeof room);
  bwrap_plan plan;
  plugin_children_reap();
  int rc = bwrap_plan_init(&plan, b, o, &err);
  if (rc == 0)
    rc = start(b, o, &plan, op, &err);
  bwrap_plan_deinit(&plan);
  if (rc < 0) {
    describe(&err, rc);
    b->host->fail(b->host, op, &err);
  }
  return 0;
}
