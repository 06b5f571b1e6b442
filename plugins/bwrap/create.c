/* SPDX-License-Identifier: MIT */
/*
 * The beginning of a bwrap sandbox.
 *
 * create() completes as soon as the keeper says that cgroups are made and
 * bubblewrap runs; the host's HELLO then waits in the agent's stream, so that
 * nobody waits twice.  If bubblewrap fails after that, the stream ends, and
 * cause_of_death() tells the host why.
 *
 * Whatever fails goes one way: s->failed says so, and once the keeper has ended
 * the op does (bwrap_sandbox_end).
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
  free(s->cwd);
  plugin_entry_deinit(&s->entry);
  free(s);
}

static pco_sandbox *sandbox_create(pco_backend *b, const pco_create_opts *o,
                                   const bwrap_plan *p) {
  pco_sandbox *s = calloc(1, sizeof *s);
  if (!s)
    return NULL;
  s->backend = b;
  s->agent_fd = -1;
  s->flags = o->flags;
  s->wants = pco_limits_wanted(o->limits);
  s->cwd = strdup(p->cwd);
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
  if (!k->over || !s->inquest)
    return;
  char room[PCO_MESSAGE_MAX];
  pco_error err = pco_error_in(room, sizeof room);
  pco_op *op = s->inquest;
  s->inquest = NULL;
  bwrap_explain(k, &err);
  s->backend->host->complete(s->backend->host, op, &err);
}

static void complete(pco_sandbox *s) {
  pco_sandbox_result result = pco_sandbox_result_init();
  pco_op *op = s->creating;
  result.flags = PCO_SANDBOX_HAS_AGENT;
  result.sandbox = s;
  result.id = s->entry.id;
  result.agent_fd = s->agent_fd;
  result.cwd = s->cwd;
  s->agent_fd = -1; /* the host's from here on */
  s->creating = NULL;
  s->keeper.on_report = on_report;
  s->backend->host->complete(s->backend->host, op, &result);
}

static void on_create_report(bwrap_keeper *k) {
  pco_sandbox *s = BWRAP_CONTAINER(k, pco_sandbox, keeper);
  char room[PCO_MESSAGE_MAX];
  pco_error err = pco_error_in(room, sizeof room);
  if (k->over) {
    bwrap_explain(k, &err);
    fail(s, &err);
  } else {
    complete(s);
  }
}

static void cancel(void *arg) {
  pco_sandbox *s = arg;
  pco_error err = pco_error_init();
  err.code = UV_ECANCELED;
  fail(s, &err);
}

/* ---- create ------------------------------------------------------------- */

static int launch(pco_sandbox *s, const bwrap_plan *p, pco_error *err) {
  pco_backend *b = s->backend;
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
    return -errno;
  s->agent_fd = pair[0];
  int rc = bwrap_launch(&s->keeper, b, p, s->entry.id, pair[1],
                        on_create_report, err);
  close(pair[1]);
  return rc;
}

static int start(pco_backend *b, const pco_create_opts *o, const bwrap_plan *p,
                 pco_op *op, pco_error *err) {
  pco_sandbox *s = sandbox_create(b, o, p);
  if (!s)
    return UV_ENOMEM;
  int rc = plugin_table_add(&bwrap_table, &s->entry, o->name, "bwrap", err);
  if (rc == 0) {
    rc = launch(s, p, err);
    if (rc < 0)
      plugin_table_remove(&bwrap_table, &s->entry);
  }
  if (rc < 0) {
    bwrap_sandbox_free(s);
    return rc;
  }
  plugin_table_set_pidfd(&bwrap_table, &s->entry, s->keeper.pidfd);
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
  int rc = bwrap_plan_init(&plan, b, o, &err);
  if (rc == 0)
    rc = start(b, o, &plan, op, &err);
  bwrap_plan_deinit(&plan);
  if (rc < 0) {
    if (!err.message && rc != UV_ENOMEM)
      pco_error_set(&err, rc, PCO_SOURCE_PLUGIN,
                    "cannot start the sandbox's keeper: %s", uv_strerror(rc));
    err.code = rc;
    b->host->fail(b->host, op, &err);
  }
  return 0;
}
