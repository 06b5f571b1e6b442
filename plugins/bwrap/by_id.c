/* SPDX-License-Identifier: MIT */
/*
 * The end of a sandbox by its id, which any loop may ask for.
 *
 * If it has a keeper, that gets the order, and its end is waited for; the owner
 * finds the sandbox dead.  While it still waits for its image only the owner's
 * loop can end it: that is posted there, and looked for every TICK_MS, since
 * nothing may be posted back to a backend that is being closed.
 *
 * What is none of this program's may be one of those that are written down
 * (common/far_end.h).
 *
 * An order stands, however it is waited for: a caller that gives up does not
 * wait for the owner, who may be the same thread; a keeper is still seen off.
 *
 * Invariant: an order is counted in its backend while the lock of the table is
 * held and the sandbox is listed.  close() takes each sandbox off the list, so
 * it sees the count, and takes the last one's order before it completes.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../common/far_end.h"
#include "bwrap.h"

#define END_MS  20000
#define KILL_MS 5000
#define TICK_MS 20

/* ---- one of another program ---------------------------------------------- */

typedef struct elsewhere {
  plugin_far_end end; /* first */
  pco_backend *backend;
  pco_op *op; /* NULL: cancelled */
} elsewhere;

static void on_far_ended(plugin_far_end *end, int status) {
  elsewhere *e = (elsewhere *)end;
  pco_backend *b = e->backend;
  static const char hangs[] = "the sandbox's keeper does not end";
  if (!e->op && status < 0)
    b->host->log(b->host, 1, hangs);
  else if (e->op && status == PCO_EBACKEND)
    pco_fail(b->host, e->op, status, PCO_SOURCE_PLUGIN, "%s", hangs);
  else if (e->op && status < 0)
    plugin_fail_end(b->host, e->op, end->id, status);
  if (status == 0)
    bwrap_remove_dead(b, end->id);
  if (e->op && status == 0)
    b->host->complete(b->host, e->op, NULL);
  free(e);
  b->work--;
  bwrap_settle(b);
}

static void cancel_elsewhere(void *arg) {
  elsewhere *e = arg;
  pco_op *op = e->op;
  e->op = NULL;
  pco_fail(e->backend->host, op, UV_ECANCELED, PCO_SOURCE_PLUGIN, NULL);
}

/* Of those that are written down; it goes on when the caller gives up. */
static int end_elsewhere(pco_backend *b, const char *id, pco_op *op) {
  char room[PCO_MESSAGE_MAX];
  pco_error err = pco_error_in(room, sizeof room);
  elsewhere *e = calloc(1, sizeof *e);
  int rc = UV_ENOMEM;
  if (e)
    rc = plugin_far_end_start(&e->end, b->host->loop, BWRAP_ID, b->state, id,
                              END_MS, on_far_ended, &err);
  if (rc > 0) {
    e->backend = b;
    e->op = op;
    b->work++;
    b->host->set_cancel(b->host, op, cancel_elsewhere, e);
    return 0;
  }
  if (rc == 0) {
    bwrap_remove_dead(b, id);
    b->host->complete(b->host, op, NULL);
  } else if (err.message) {
    b->host->fail(b->host, op, &err);
  } else {
    plugin_fail_end(b->host, op, id, rc);
  }
  free(e);
  return 0;
}

/* ---- one of this program ------------------------------------------------- */

typedef struct id_end {
  plugin_wait wait;
  uv_timer_t timer; /* while it is being made */
  pco_backend *backend;
  pco_op *op; /* NULL: cancelled */
  char *id;
  const pco_sandbox *made; /* only compared, and under the lock used */
  uint64_t give_up_at;     /* of uv_now() */
  int pidfd;
  bool killed;
} id_end;

/* ---- on the loop of whoever asked ---------------------------------------- */

/* Completes it; code 0 is fine. */
static void answer(id_end *e, int code, const char *text) {
  pco_backend *b = e->backend;
  if (!e->op && code == PCO_EBACKEND)
    b->host->log(b->host, 1, text);
  else if (e->op && code == 0)
    b->host->complete(b->host, e->op, NULL);
  else if (e->op)
    pco_fail(b->host, e->op, code, PCO_SOURCE_PLUGIN, "%s", text);
  if (e->pidfd >= 0)
    close(e->pidfd);
  free(e->id);
  free(e);
  b->work--;
  bwrap_settle(b);
}

static void on_id_ended(plugin_wait *w, bool ended) {
  id_end *e = BWRAP_CONTAINER(w, id_end, wait);
  if (!ended && !e->killed) {
    e->killed = true;
    plugin_kill(e->pidfd, SIGKILL);
    plugin_wait_start(&e->wait, e->backend->host->loop, e->pidfd, KILL_MS,
                      on_id_ended);
    return;
  }
  answer(e, ended ? 0 : PCO_EBACKEND,
         "the sandbox's keeper does not die from SIGKILL");
}

static void wait_for_keeper(id_end *e) {
  plugin_wait_start(&e->wait, e->backend->host->loop, e->pidfd, END_MS,
                    on_id_ended);
}

static void on_timer_closed(uv_handle_t *h) {
  id_end *e = h->data;
  if (e->pidfd >= 0)
    wait_for_keeper(e);
  else
    answer(e, e->made ? UV_EBUSY : 0, "the sandbox is still being made");
}

/* True when there is nothing to look for any more: it is not listed (made is
 * then NULL), or it got a keeper, of which pidfd is one. */
static bool is_decided(id_end *e) {
  const plugin_entry *listed =
      plugin_table_lock_doomed(&bwrap_table, &e->made->entry, e->id);
  if (!listed)
    e->made = NULL;
  else if (listed->pidfd >= 0)
    e->pidfd = fcntl(listed->pidfd, F_DUPFD_CLOEXEC, 3);
  plugin_table_unlock(&bwrap_table);
  return !e->made || e->pidfd >= 0;
}

static void on_tick(uv_timer_t *t) {
  id_end *e = t->data;
  if (is_decided(e) || uv_now(t->loop) >= e->give_up_at)
    uv_close((uv_handle_t *)t, on_timer_closed);
}

static void wait_for_owner(id_end *e) {
  uv_loop_t *loop = e->backend->host->loop;
  uv_update_time(loop);
  e->give_up_at = uv_now(loop) + END_MS;
  uv_timer_init(loop, &e->timer);
  e->timer.data = e;
  uv_timer_start(&e->timer, on_tick, 0, TICK_MS);
}

static void cancel_end(void *arg) {
  id_end *e = arg;
  pco_op *op = e->op;
  uv_handle_t *timer = (uv_handle_t *)&e->timer;
  e->op = NULL;
  if (e->pidfd < 0 && !uv_is_closing(timer))
    uv_close(timer, on_timer_closed);
  pco_fail(e->backend->host, op, UV_ECANCELED, PCO_SOURCE_PLUGIN, NULL);
}

/* ---- on the loop of the owner -------------------------------------------- */

typedef struct order {
  pco_backend *backend;
  char id[65];
} order;

/* A new one may have the same id already. */
static bool is_meant(const pco_sandbox *s, const char *id) {
  bool doomed = plugin_table_lock_doomed(&bwrap_table, &s->entry, id) != NULL;
  plugin_table_unlock(&bwrap_table);
  return doomed;
}

static void take_order(void *arg) {
  order *o = arg;
  pco_backend *b = o->backend;
  pco_sandbox *s = b->sandboxes;
  while (s && !is_meant(s, o->id))
    s = s->next;
  if (s)
    bwrap_sandbox_doom(s);
  free(o);
  atomic_fetch_sub(&b->orders, 1);
  bwrap_settle(b);
}

/* ---- the order ----------------------------------------------------------- */

/* To a sandbox without a keeper; needs the lock.  A backend that takes none is
 * being closed, and ends all that it has. */
static int post_order(pco_sandbox *s) {
  order *o = malloc(sizeof *o);
  pco_backend *owner = s->backend;
  if (!o)
    return UV_ENOMEM;
  o->backend = owner;
  snprintf(o->id, sizeof o->id, "%s", s->entry.id);
  atomic_fetch_add(&owner->orders, 1);
  if (owner->host->post(owner->host, take_order, o) < 0) {
    atomic_fetch_sub(&owner->orders, 1);
    free(o);
  }
  return 0;
}

/* Orders the end of a sandbox of any instance: 1 and what is to be waited for
 * in e, 0 if there is none of that id, or a negative code. */
static int give_order(id_end *e) {
  int rc = 0;
  plugin_entry *entry = plugin_table_lock_find(&bwrap_table, e->id);
  pco_sandbox *s = (pco_sandbox *)entry; /* its first member */
  if (s && entry->pidfd < 0) {
    rc = post_order(s);
    e->made = s;
  } else if (s) {
    e->pidfd = fcntl(entry->pidfd, F_DUPFD_CLOEXEC, 3);
    rc = e->pidfd < 0 ? -errno : 0;
    if (rc == 0)
      bwrap_keeper_order_end(s->keeper.control, 0);
  }
  if (s && rc == 0) {
    entry->doomed = true;
    rc = 1;
  }
  plugin_table_unlock(&bwrap_table);
  return rc;
}

int bwrap_destroy_id(pco_backend *b, const char *id, pco_op *op) {
  id_end *e = calloc(1, sizeof *e);
  int rc = UV_ENOMEM;
  if (e) {
    *e = (id_end){.backend = b, .op = op, .pidfd = -1, .id = strdup(id)};
    rc = e->id ? give_order(e) : UV_ENOMEM;
  }
  if (rc > 0) {
    b->work++;
    if (e->pidfd >= 0)
      wait_for_keeper(e);
    else
      wait_for_owner(e);
    b->host->set_cancel(b->host, op, cancel_end, e);
    return 0;
  }
  if (e)
    free(e->id);
  free(e);
  if (rc == 0)
    return end_elsewhere(b, id, op);
  plugin_fail_end(b->host, op, id, rc);
  return 0;
}
