/* SPDX-License-Identifier: MIT */
/*
 * Local sandboxes that may be detached; see local.h.
 *
 * Their agent is its own keeper (runtime/agent/door.h).  It is started without
 * a stream and waits for whoever comes in by its door: first the plugin that
 * made it, later maybe other programs.  So making one ends as attaching to one
 * does.
 */
#include "local.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define VISIT_MS 10000

struct local_visit {
  plugin_visit visit; /* first */
  local_visit *next;  /* of the same backend */
  pco_backend *backend;
  pco_op *op;
  pco_sandbox *sandbox; /* whose; NULL of an attach, and once it has ended */
  plugin_door *door;    /* of an attach: owned */
  plugin_info info;     /* the same */
  bool cancelled;
};

void local_hand_over(pco_sandbox *s, int stream, pco_op *op) {
  pco_backend *b = s->backend;
  pco_sandbox_result result = pco_sandbox_result_init();
  s->next = b->sandboxes;
  b->sandboxes = s;
  plugin_entry_fill(&s->entry, &result);
  result.flags =
      PCO_SANDBOX_HAS_AGENT | (s->foreign ? PCO_SANDBOX_FOREIGN_ID : 0u);
  result.sandbox = s;
  result.agent_fd = stream;
  result.cwd = s->cwd;
  b->host->complete(b->host, op, &result);
}

static void set_control(pco_sandbox *s, int fd) {
  plugin_table_lock(&local_table);
  s->control = fd;
  plugin_table_unlock(&local_table);
}

/* ---- visits -------------------------------------------------------------- */

static void cancel(void *arg) {
  local_visit *v = arg;
  v->cancelled = true;
  plugin_visit_stop(&v->visit);
}

void local_cancel_visits(pco_backend *b) {
  for (local_visit *v = b->visits; v; v = v->next)
    cancel(v);
}

static void begin(local_visit *v, pco_backend *b, pco_op *op) {
  v->backend = b;
  v->op = op;
  v->next = b->visits;
  b->visits = v;
  b->work++;
  b->host->set_cancel(b->host, op, cancel, v);
}

/* It is in no list any more, and its op is to be answered by the caller. */
static void end(local_visit *v) {
  local_visit **at = &v->backend->visits;
  while (*at != v)
    at = &(*at)->next;
  *at = v->next;
  v->backend->host->set_cancel(v->backend->host, v->op, NULL, NULL);
}

static void settle(local_visit *v) {
  pco_backend *b = v->backend;
  if (v->door)
    plugin_door_leave(v->door);
  plugin_info_deinit(&v->info);
  free(v);
  b->work--;
  local_settle(b);
}

static void close_both(int fd, int stream) {
  if (fd >= 0)
    close(fd);
  if (stream >= 0)
    close(stream);
}

/* Why it did not work, of the sandbox of that id. */
static void explain(const local_visit *v, const char *id, int status,
                    const pco_keeper_report *r, pco_error *err) {
  bool refused = status == 0 && r->type == PCO_KEEPER_REFUSED;
  if (v->cancelled)
    plugin_fail(err, UV_ECANCELED, NULL);
  else if (status == UV_ETIMEDOUT)
    plugin_fail(err, PCO_EUNAVAILABLE,
                "the agent of the sandbox '%s' does not answer", id);
  else if (refused && r->error == EBUSY)
    plugin_fail(err, UV_EBUSY,
                "another program is attached to the sandbox '%s'", id);
  else if (status == 0 && r->type == PCO_KEEPER_ATTACHED)
    plugin_fail(err, UV_EMFILE, NULL);
  else if (refused && r->error > 0 && r->error != ESHUTDOWN)
    plugin_fail(err, -r->error, "cannot attach to the sandbox '%s': %s", id,
                strerror(r->error));
  else
    plugin_fail(err, UV_ENOENT, "the sandbox '%s' has ended", id);
  if (err->code == UV_EBUSY)
    err->flags |= PCO_ERROR_RETRYABLE;
}

static bool is_good(const local_visit *v, int status,
                    const pco_keeper_report *r, int stream) {
  return status == 0 && r->type == PCO_KEEPER_ATTACHED && stream >= 0 &&
         !v->cancelled;
}

/* ---- the first ----------------------------------------------------------- */

/* Undoes what was made; op fails then. */
static void fail_first(local_visit *v, const pco_error *err) {
  pco_sandbox *s = v->sandbox;
  local_ending *e = s->ending;
  char *dir = s->dir;
  int pidfd = s->entry.pidfd;
  plugin_table_remove(&local_table, &s->entry);
  local_ending_set_door(e, s->door);
  local_ending_fail(e, err);
  s->dir = NULL;
  local_sandbox_free(s);
  plugin_kill(pidfd, SIGKILL); /* it has no host that could ask it */
  local_end(v->backend, e, pidfd, dir, false, v->op);
}

static void on_first(plugin_visit *visit, int status,
                     const pco_keeper_report *r, int fd, int stream) {
  local_visit *v = (local_visit *)visit; /* its first member */
  pco_sandbox *s = v->sandbox;
  char room[PCO_MESSAGE_MAX];
  pco_error err = pco_error_in(room, sizeof room);
  end(v);
  if (is_good(v, status, r, stream)) {
    set_control(s, fd);
    local_hand_over(s, stream, v->op);
  } else {
    close_both(fd, stream);
    explain(v, s->entry.id, status, r, &err);
    if (err.code == UV_ENOENT)
      plugin_fail(&err, PCO_EBACKEND, "the agent ended before it was reached");
    fail_first(v, &err);
  }
  settle(v);
}

int local_first_visit(pco_sandbox *s, pco_op *op) {
  const pco_keeper_order order = {.type = PCO_KEEPER_ATTACH};
  pco_backend *b = s->backend;
  local_visit *v = calloc(1, sizeof *v);
  if (!v) {
    local_visit first = {.backend = b, .op = op, .sandbox = s};
    pco_error err = pco_error_init();
    err.code = UV_ENOMEM;
    fail_first(&first, &err);
    return 0;
  }
  v->sandbox = s;
  begin(v, b, op);
  plugin_visit_door(&v->visit, b->host->loop, &s->door->state, s->entry.id,
                    order, VISIT_MS, on_first);
  return 0;
}

/* ---- attach -------------------------------------------------------------- */

static pco_sandbox *sandbox_of(local_visit *v) {
  pco_sandbox *s = calloc(1, sizeof *s);
  if (!s)
    return NULL;
  s->backend = v->backend;
  s->control = -1;
  s->dir = strdup(v->info.dir ? v->info.dir : "");
  s->cwd = strdup(v->info.cwd ? v->info.cwd : "/");
  s->ending = local_ending_create();
  if (plugin_entry_init_from(&s->entry, &v->info) == 0 && s->dir && s->cwd &&
      s->ending)
    return s;
  local_ending_free(s->ending);
  local_sandbox_free(s);
  return NULL;
}

static int enlist(local_visit *v, pco_sandbox *s, pco_error *err) {
  int pidfd = plugin_state_keeper(&v->door->state, &v->info);
  if (pidfd == UV_ESRCH)
    return plugin_fail(
        err, PCO_EUNAVAILABLE,
        "the agent of the sandbox '%s' cannot be seen from here: "
        "it is in another PID namespace",
        v->info.id);
  if (pidfd < 0)
    return plugin_fail(err, UV_ENOENT, "the sandbox '%s' has ended",
                       v->info.id);
  int rc = plugin_table_add(&local_table, &s->entry, v->info.id, NULL, err);
  if (rc < 0) {
    close(pidfd);
    return rc;
  }
  plugin_table_set_pidfd(&local_table, &s->entry, pidfd);
  s->door = v->door;
  v->door = NULL;
  return 0;
}

static int take_over(local_visit *v, int fd, int stream, pco_error *err) {
  pco_sandbox *s = sandbox_of(v);
  int rc = s ? enlist(v, s, err) : plugin_fail(err, UV_ENOMEM, NULL);
  if (rc == 0) {
    set_control(s, fd);
    local_hand_over(s, stream, v->op);
    return 0;
  }
  close_both(fd, stream);
  if (s) {
    local_ending_free(s->ending);
    local_sandbox_free(s);
  }
  return rc;
}

static void on_attached(plugin_visit *visit, int status,
                        const pco_keeper_report *r, int fd, int stream) {
  local_visit *v = (local_visit *)visit;
  const pco_host *host = v->backend->host;
  char room[PCO_MESSAGE_MAX];
  pco_error err = pco_error_in(room, sizeof room);
  int rc = UV_ENOENT;
  end(v);
  if (is_good(v, status, r, stream)) {
    rc = take_over(v, fd, stream, &err);
  } else {
    close_both(fd, stream);
    explain(v, v->info.id, status, r, &err);
  }
  if (rc < 0)
    host->fail(host, v->op, &err);
  settle(v);
}

int local_attach(pco_backend *b, const char *id, pco_op *op) {
  const pco_keeper_order order = {.type = PCO_KEEPER_ATTACH};
  char room[PCO_MESSAGE_MAX];
  pco_error err = pco_error_in(room, sizeof room);
  local_visit *v = calloc(1, sizeof *v);
  int rc =
      v ? plugin_door_find(&v->door, LOCAL_ID, b->state, id, &v->info, &err)
        : plugin_fail(&err, UV_ENOMEM, NULL);
  plugin_children_reap();
  if (rc < 0) {
    err.code = rc;
    free(v);
    b->host->fail(b->host, op, &err);
    return 0;
  }
  begin(v, b, op);
  plugin_visit_door(&v->visit, b->host->loop, &v->door->state, v->info.id,
                    order, VISIT_MS, on_attached);
  return 0;
}

/* ---- detach -------------------------------------------------------------- */

/* A child that the host has forked may have the socket still. */
static void hang_up(int fd) {
  shutdown(fd, SHUT_RDWR);
  close(fd);
}

/* Who destroys by id uses control while s is in the table: that goes first. */
static void leave(pco_sandbox *s) {
  pco_backend *b = s->backend;
  plugin_table_remove(&local_table, &s->entry);
  hang_up(s->control);
  local_end_inquest(s);
  pco_sandbox **at = &b->sandboxes;
  while (*at != s)
    at = &(*at)->next;
  *at = s->next;
  plugin_children_add(s->entry.pidfd);
  plugin_door_leave(s->door);
  local_ending_free(s->ending);
  local_sandbox_free(s);
}

static void on_detached(plugin_visit *visit, int status,
                        const pco_keeper_report *r, int fd, int stream) {
  local_visit *v = (local_visit *)visit;
  const pco_host *host = v->backend->host;
  pco_sandbox *s = v->sandbox;
  end(v);
  close_both(-1, stream);
  if (s)
    s->leaving = NULL;
  if (s && status == 0 && r->type == PCO_KEEPER_DETACHED) {
    leave(s); /* fd is its control */
    host->complete(host, v->op, NULL);
  } else {
    if (!s)
      hang_up(fd);
    if (!s || v->cancelled)
      pco_fail(host, v->op, UV_ECANCELED, PCO_SOURCE_PLUGIN, NULL);
    else if (status == UV_ETIMEDOUT)
      pco_fail(host, v->op, PCO_EUNAVAILABLE, PCO_SOURCE_PLUGIN,
               "the agent does not answer");
    else
      pco_fail(host, v->op, PCO_EGONE, PCO_SOURCE_PLUGIN,
               "the sandbox has ended");
  }
  settle(v);
}

int local_detach(pco_sandbox *s, pco_op *op) {
  const pco_keeper_order order = {.type = PCO_KEEPER_DETACH};
  pco_backend *b = s->backend;
  if (!s->door) {
    pco_fail(b->host, op, PCO_EUNSUPPORTED, PCO_SOURCE_PLUGIN,
             "the sandbox '%s' ends with this program: it was made without "
             "detachable = true",
             s->entry.id);
    return 0;
  }
  local_visit *v = s->leaving ? NULL : calloc(1, sizeof *v);
  if (!v) {
    pco_fail(b->host, op, s->leaving ? UV_EBUSY : UV_ENOMEM, PCO_SOURCE_PLUGIN,
             NULL);
    return 0;
  }
  v->sandbox = s;
  s->leaving = v;
  begin(v, b, op);
  plugin_visit_control(&v->visit, b->host->loop, s->control, order, VISIT_MS,
                       on_detached);
  return 0;
}

/* ---- the end ------------------------------------------------------------- */

void local_order_end(const pco_sandbox *s) {
  const pco_keeper_order order = {.type = PCO_KEEPER_END};
  (void)send(s->control, &order, sizeof order, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void local_door_end(pco_sandbox *s) {
  if (s->control < 0)
    return;
  local_order_end(s);
  if (s->leaving) { /* it closes control */
    s->leaving->sandbox = NULL;
    plugin_visit_stop(&s->leaving->visit);
  } else {
    hang_up(s->control);
  }
  s->control = -1;
}
