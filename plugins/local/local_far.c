/* SPDX-License-Identifier: MIT */
/*
 * The ends of local sandboxes that other programs have made, and what killed
 * agents have left; see local.h.
 */
#include "local.h"

#include "../common/far_end.h"

#include <stdlib.h>
#include <string.h>

#define ORDER_MS 5000 /* as in local_end.c */

typedef enum removal {
  NOTHING_LEFT, /* it lives, or there is none */
  REMOVED,
  BEGUN /* and e is taken */
} removal;

/* Removes what a killed agent has left.  One of the above, or a negative
 * code. */
static int remove_dead(pco_backend *b, local_ending *e, const char *id,
                       pco_op *op) {
  plugin_door *d;
  plugin_info i;
  int rc = plugin_door_claim(&d, LOCAL_ID, b->state, id, &i, NULL);
  if (rc < 0)
    return rc == UV_ENOENT || rc == UV_EBUSY ? NOTHING_LEFT : rc;
  bool gone = !i.dir || local_is_gone(i.dir);
  char *dir = gone ? NULL : strdup(i.dir);
  plugin_info_deinit(&i);
  if (gone) {
    plugin_door_remove(d);
    return REMOVED;
  }
  if (!dir) {
    plugin_door_leave(d);
    return UV_ENOMEM;
  }
  local_ending_set_door(e, d);
  local_remove(b, e, dir, op);
  return BEGUN;
}

/* Answers op, which may be NULL, now or at the end of a removal.  Takes e. */
static void tidy(pco_backend *b, local_ending *e, const char *id, pco_op *op) {
  int rc = remove_dead(b, e, id, op);
  if (rc == BEGUN)
    return;
  local_ending_free(e);
  if (op && rc >= 0)
    b->host->complete(b->host, op, NULL);
  else if (op)
    plugin_fail_end(b->host, op, id, rc);
}

/* ---- an end by id -------------------------------------------------------- */

typedef struct elsewhere {
  plugin_far_end end; /* first */
  pco_backend *backend;
  pco_op *op;           /* NULL: cancelled */
  local_ending *ending; /* owned */
} elsewhere;

static void on_far_ended(plugin_far_end *end, int status) {
  elsewhere *e = (elsewhere *)end;
  pco_backend *b = e->backend;
  static const char hangs[] = "the sandbox's agent does not end";
  if (e->op)
    b->host->set_cancel(b->host, e->op, NULL, NULL);
  if (status == 0) {
    tidy(b, e->ending, end->id, e->op);
  } else {
    local_ending_free(e->ending);
    if (!e->op)
      b->host->log(b->host, 1, hangs);
    else if (status == PCO_EBACKEND)
      pco_fail(b->host, e->op, status, PCO_SOURCE_PLUGIN, "%s", hangs);
    else
      plugin_fail_end(b->host, e->op, end->id, status);
  }
  free(e);
  b->work--;
  local_settle(b);
}

static void cancel_elsewhere(void *arg) {
  elsewhere *e = arg;
  pco_op *op = e->op;
  e->op = NULL;
  pco_fail(e->backend->host, op, UV_ECANCELED, PCO_SOURCE_PLUGIN, NULL);
}

static void elsewhere_free(elsewhere *e) {
  if (e)
    local_ending_free(e->ending);
  free(e);
}

/* It goes on when the caller gives up. */
int local_end_elsewhere(pco_backend *b, const char *id, pco_op *op) {
  char room[PCO_MESSAGE_MAX];
  pco_error err = pco_error_in(room, sizeof room);
  elsewhere *e = calloc(1, sizeof *e);
  int rc = UV_ENOMEM;
  if (e) {
    e->ending = local_ending_create();
    e->backend = b;
    e->op = op;
  }
  if (e && e->ending)
    rc = plugin_far_end_start(&e->end, b->host->loop, LOCAL_ID, b->state, id,
                              ORDER_MS, on_far_ended, &err);
  if (rc > 0) {
    b->work++;
    b->host->set_cancel(b->host, op, cancel_elsewhere, e);
    return 0;
  }
  if (rc == 0) {
    tidy(b, e->ending, id, op);
    e->ending = NULL;
  } else if (err.message) {
    b->host->fail(b->host, op, &err);
  } else {
    plugin_fail_end(b->host, op, id, rc);
  }
  elsewhere_free(e);
  return 0;
}

/* ---- reap ---------------------------------------------------------------- */

/* One directory after the other. */
struct local_reaping {
  pco_backend *backend;
  pco_op *op;
  plugin_info *list; /* owned */
  size_t n, at;
  size_t n_removed; /* the first of the list */
};

static void answer_reap(local_reaping *r) {
  pco_backend *b = r->backend;
  plugin_tell_removed(b->host, r->list, r->n_removed, r->op);
  plugin_state_free_list(r->list, r->n);
  free(r);
  b->work--;
  local_settle(b);
}

/* Moves the one that was looked at last to the front. */
static void count_removed(local_reaping *r) {
  size_t i = r->at - 1;
  plugin_info moved = r->list[r->n_removed];
  r->list[r->n_removed++] = r->list[i];
  r->list[i] = moved;
}

static void go_on(local_reaping *r) {
  while (r->at < r->n) {
    local_ending *e = local_ending_create();
    if (!e)
      break;
    local_ending_tell(e, r);
    int rc = remove_dead(r->backend, e, r->list[r->at++].id, NULL);
    if (rc == BEGUN)
      return; /* local_reaped() comes */
    local_ending_free(e);
    if (rc == REMOVED)
      count_removed(r);
  }
  answer_reap(r);
}

void local_reaped(local_reaping *r, bool removed) {
  if (removed)
    count_removed(r);
  go_on(r);
}

int local_reap(pco_backend *b, pco_op *op) {
  char room[PCO_MESSAGE_MAX];
  pco_error err = pco_error_in(room, sizeof room);
  local_reaping *r = calloc(1, sizeof *r);
  plugin_children_reap();
  int rc = r ? plugin_state_list(LOCAL_ID, b->state, &r->list, &r->n, &err)
             : UV_ENOMEM;
  if (rc < 0) {
    free(r);
    err.code = rc;
    b->host->fail(b->host, op, &err);
    return 0;
  }
  r->backend = b;
  r->op = op;
  b->work++;
  go_on(r);
  return 0;
}
