/* SPDX-License-Identifier: MIT */
/*
 * Taking over a sandbox that lives, letting one go, and removing what killed
 * ones have left.
 *
 * An attach goes to the door of the sandbox (common/door.h), whose keeper hands
 * out a stream to the agent; from then on it is as if this program had made the
 * sandbox, but that the keeper is nobody's child here.  Whatever fails leaves
 * it as it was: without a host it lives on.
 */
#include "bwrap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ATTACH_MS 10000

/* ---- attach -------------------------------------------------------------- */

typedef struct bwrap_attach {
  plugin_visit visit; /* first */
  struct bwrap_attach *next;
  pco_backend *backend;
  pco_op *op;
  plugin_door *door; /* owned */
  plugin_info info;  /* owned */
  bool cancelled;
} attach;

static void attach_free(attach *a) {
  if (a->door)
    plugin_door_leave(a->door);
  plugin_info_deinit(&a->info);
  free(a);
}

/* What the keeper's refusal, or its silence, means. */
static void explain_refusal(const attach *a, int status,
                            const pco_keeper_report *r, pco_error *err) {
  const char *id = a->info.id;
  bool ended = status == UV_ENOENT || status == UV_ECONNREFUSED ||
               r->type == PCO_KEEPER_ENDED || r->error == ESHUTDOWN;
  if (status == UV_ETIMEDOUT)
    plugin_fail(err, PCO_EUNAVAILABLE,
                "the keeper of the sandbox '%s' (process %ld) does not answer",
                id, (long)a->info.keeper);
  else if (ended)
    plugin_fail(err, UV_ENOENT, "the sandbox '%s' has ended", id);
  else if (r->type == PCO_KEEPER_REFUSED && r->error == EBUSY)
    plugin_fail(err, UV_EBUSY,
                "another program is attached to the sandbox '%s'", id);
  else if (r->type == PCO_KEEPER_ATTACHED)
    plugin_fail(err, UV_EMFILE, NULL);
  else
    plugin_fail(err,
                status < 0 ? status
                : r->error ? -r->error
                           : PCO_EBACKEND,
                "cannot attach to the sandbox '%s': %s", id,
                status < 0 ? uv_strerror(status) : strerror(r->error));
  if (err->code == UV_EBUSY)
    err->flags |= PCO_ERROR_RETRYABLE;
}

static pco_sandbox *sandbox_of(attach *a) {
  pco_sandbox *s = calloc(1, sizeof *s);
  if (!s)
    return NULL;
  s->backend = a->backend;
  s->agent_fd = -1;
  s->cwd = strdup(a->info.cwd ? a->info.cwd : BWRAP_WORKSPACE);
  if (plugin_entry_init_from(&s->entry, &a->info) == 0 && s->cwd)
    return s;
  bwrap_sandbox_free(s);
  return NULL;
}

/* The report of a keeper before the sandbox is handed over. */
static void on_early_report(bwrap_keeper *k) {
  (void)k;
}

/* Both descriptors are taken. */
static int adopt(attach *a, pco_sandbox *s, const pco_keeper_report *r,
                 int control, int stream, pco_error *err) {
  int pidfd = plugin_state_keeper(&a->door->state, &a->info);
  s->agent_fd = stream;
  if (pidfd < 0) {
    close(control);
    return plugin_fail(err, pidfd == UV_ESRCH ? PCO_EUNAVAILABLE : UV_ENOENT,
                       pidfd == UV_ESRCH
                           ? "the keeper of the sandbox '%s' cannot be seen "
                             "from here: it is in another PID namespace"
                           : "the sandbox '%s' has ended",
                       a->info.id);
  }
  return bwrap_keeper_adopt(&s->keeper, a->backend, pidfd, control, r,
                            on_early_report, err);
}

/* Puts it among the backend's own. */
static int enlist(attach *a, pco_sandbox *s, pco_error *err) {
  int rc = plugin_table_add(&bwrap_table, &s->entry, a->info.id, NULL, err);
  if (rc < 0)
    return rc;
  s->started = true;
  s->door = a->door;
  a->door = NULL;
  plugin_table_set_pidfd(&bwrap_table, &s->entry, s->keeper.pidfd);
  s->next = a->backend->sandboxes;
  a->backend->sandboxes = s;
  return 0;
}

static void on_taken_back(bwrap_keeper *k) {
  pco_sandbox *s = BWRAP_CONTAINER(k, pco_sandbox, keeper);
  pco_backend *b = s->backend;
  bwrap_sandbox_free(s);
  b->work--;
  bwrap_settle(b);
}

/* 0, or a negative code and *err. */
static int take_over(attach *a, const pco_keeper_report *r, int control,
                     int stream, pco_error *err) {
  pco_sandbox *s = sandbox_of(a);
  if (!s) {
    close(control);
    close(stream);
    return plugin_fail(err, UV_ENOMEM, NULL);
  }
  int rc = adopt(a, s, r, control, stream, err);
  if (rc < 0) {
    bwrap_sandbox_free(s);
    return rc;
  }
  rc = enlist(a, s, err);
  if (rc < 0) {
    a->backend->work++;
    bwrap_keeper_leave(&s->keeper, on_taken_back);
    return rc;
  }
  bwrap_sandbox_hand_over(s, a->op);
  return 0;
}

static void unlist(attach *a) {
  attach **at = &a->backend->attaches;
  while (*at != a)
    at = &(*at)->next;
  *at = a->next;
}

static void on_answer(plugin_visit *v, int status, const pco_keeper_report *r,
                      int fd, int stream) {
  attach *a = (attach *)v; /* its first member */
  pco_backend *b = a->backend;
  char room[PCO_MESSAGE_MAX];
  pco_error err = pco_error_in(room, sizeof room);
  bool good = status == 0 && r->type == PCO_KEEPER_ATTACHED && stream >= 0;
  int rc = UV_ECANCELED;
  unlist(a);
  b->host->set_cancel(b->host, a->op, NULL, NULL);
  if (good && !a->cancelled) {
    rc = take_over(a, r, fd, stream, &err);
  } else {
    if (fd >= 0)
      close(fd);
    if (stream >= 0)
      close(stream);
    if (a->cancelled)
      plugin_fail(&err, rc, NULL);
    else
      explain_refusal(a, status, r, &err);
  }
  if (rc < 0)
    b->host->fail(b->host, a->op, &err);
  attach_free(a);
  b->work--;
  bwrap_settle(b);
}

static void cancel_attach(void *arg) {
  attach *a = arg;
  a->cancelled = true;
  plugin_visit_stop(&a->visit);
}

void bwrap_attach_cancel_all(pco_backend *b) {
  for (attach *a = b->attaches; a; a = a->next)
    cancel_attach(a);
}

int bwrap_attach(pco_backend *b, const char *id, pco_op *op) {
  const pco_keeper_order order = {.type = PCO_KEEPER_ATTACH};
  char room[PCO_MESSAGE_MAX];
  pco_error err = pco_error_in(room, sizeof room);
  attach *a = calloc(1, sizeof *a);
  int rc =
      a ? plugin_door_find(&a->door, BWRAP_ID, b->state, id, &a->info, &err)
        : plugin_fail(&err, UV_ENOMEM, NULL);
  plugin_children_reap();
  if (rc < 0) {
    err.code = rc;
    free(a);
    b->host->fail(b->host, op, &err);
    return 0;
  }
  a->backend = b;
  a->op = op;
  a->next = b->attaches;
  b->attaches = a;
  b->work++;
  plugin_visit_door(&a->visit, b->host->loop, &a->door->state, a->info.id,
                    order, ATTACH_MS, on_answer);
  b->host->set_cancel(b->host, op, cancel_attach, a);
  return 0;
}

/* ---- detach -------------------------------------------------------------- */

static void on_left(bwrap_keeper *k) {
  pco_sandbox *s = BWRAP_CONTAINER(k, pco_sandbox, keeper);
  pco_backend *b = s->backend;
  plugin_door_leave(s->door);
  s->door = NULL;
  b->host->complete(b->host, s->leaving, NULL);
  bwrap_sandbox_free(s);
  b->work--;
  bwrap_settle(b);
}

static void cancel_detach(void *arg) {
  pco_sandbox *s = arg;
  pco_op *op = s->leaving;
  s->leaving = NULL;
  pco_fail(s->backend->host, op, UV_ECANCELED, PCO_SOURCE_PLUGIN, NULL);
}

static void fail_detach(pco_sandbox *s) {
  char room[PCO_MESSAGE_MAX];
  pco_error err = pco_error_in(room, sizeof room);
  pco_op *op = s->leaving;
  s->leaving = NULL;
  bwrap_explain(&s->keeper, &err);
  if (err.code == 0)
    plugin_fail(&err, PCO_EGONE, "the sandbox has ended");
  s->backend->host->fail(s->backend->host, op, &err);
}

void bwrap_detach_heard(pco_sandbox *s) {
  pco_backend *b = s->backend;
  if (s->keeper.over) {
    fail_detach(s);
  } else if (s->keeper.let_go) {
    b->host->set_cancel(b->host, s->leaving, NULL, NULL);
    plugin_table_remove(&bwrap_table, &s->entry);
    bwrap_sandbox_unlist(s);
    b->work++;
    bwrap_keeper_leave(&s->keeper, on_left);
  }
}

int bwrap_detach(pco_sandbox *s, pco_op *op) {
  const pco_host *host = s->backend->host;
  if (!s->door) {
    pco_fail(host, op, PCO_EUNSUPPORTED, PCO_SOURCE_PLUGIN,
             "the sandbox '%s' ends with this program: it was made without "
             "detachable = true",
             s->entry.id);
    return 0;
  }
  s->leaving = op;
  if (s->keeper.over) {
    fail_detach(s);
    return 0;
  }
  int rc = bwrap_keeper_ask_to_leave(&s->keeper);
  if (rc == 0) {
    host->set_cancel(host, op, cancel_detach, s);
    return 0;
  }
  s->leaving = NULL;
  pco_fail(host, op, rc == UV_EPIPE ? PCO_EGONE : rc, PCO_SOURCE_PLUGIN,
           "cannot reach the sandbox's keeper: %s", uv_strerror(rc));
  return 0;
}

/* ---- reap ---------------------------------------------------------------- */

bool bwrap_remove_dead(pco_backend *b, const char *id) {
  plugin_door *d;
  plugin_info i;
  if (plugin_door_claim(&d, BWRAP_ID, b->state, id, &i, NULL) < 0)
    return false;
  plugin_info_deinit(&i);
  plugin_door_remove(d);
  return true;
}

/* Moves those that were removed to the front; gives how many there are. */
static size_t remove_dead(pco_backend *b, plugin_info *list, size_t n) {
  size_t removed = 0;
  for (size_t i = 0; i < n; i++) {
    if (!bwrap_remove_dead(b, list[i].id))
      continue;
    plugin_info moved = list[removed];
    list[removed++] = list[i];
    list[i] = moved;
  }
  return removed;
}

int bwrap_reap(pco_backend *b, pco_op *op) {
  char room[PCO_MESSAGE_MAX];
  pco_error err = pco_error_in(room, sizeof room);
  plugin_info *list;
  size_t n;
  plugin_children_reap();
  int rc = plugin_state_list(BWRAP_ID, b->state, &list, &n, &err);
  if (rc < 0) {
    err.code = rc;
    b->host->fail(b->host, op, &err);
    return 0;
  }
  plugin_tell_removed(b->host, list, remove_dead(b, list, n), op);
  plugin_state_free_list(list, n);
  return 0;
}
