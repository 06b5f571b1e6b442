/* SPDX-License-Identifier: MIT */
/*
 * What list() and reap() of a plugin with a table answer; see table.h.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "table.h"
#include "wait.h"

#define OWNER_SIZE 300

/* What is shown: room for all that there may be. */
typedef struct listing {
  pco_sandbox_info *infos;
  const pco_sandbox_info **list;
  char (*owners)[OWNER_SIZE];
  char machine[256];
  size_t n;
} listing;

static bool init(listing *l, size_t room) {
  memset(l, 0, sizeof *l);
  gethostname(l->machine, sizeof l->machine - 1);
  l->infos = calloc(room + 1, sizeof *l->infos);
  l->list = calloc(room + 1, sizeof *l->list);
  l->owners = calloc(room + 1, sizeof *l->owners);
  return l->infos && l->list && l->owners;
}

static void deinit(listing *l) {
  free(l->infos);
  free(l->list);
  free(l->owners);
}

/* Adds one; owner 0: none. */
static void add(listing *l, pco_sandbox_info info, pid_t owner) {
  size_t i = l->n++;
  if (owner) {
    snprintf(l->owners[i], OWNER_SIZE, "%s:%ld", l->machine, (long)owner);
    info.owner = l->owners[i];
  }
  l->infos[i] = info;
  l->list[i] = &l->infos[i];
}

static void complete(const listing *l, const pco_host *host, pco_op *op) {
  pco_list_result result = pco_list_result_init();
  result.n_sandboxes = l->n;
  result.sandboxes = l->list;
  host->complete(host, op, &result);
}

/* ---- one of each kind ---------------------------------------------------- */

static pco_sandbox_info of_entry(const plugin_entry *e) {
  pco_sandbox_info info = pco_sandbox_info_init();
  info.state = e->pidfd < 0                 ? PCO_STATE_UNKNOWN
               : plugin_has_ended(e->pidfd) ? PCO_STATE_DEAD
                                            : PCO_STATE_RUNNING;
  info.id = e->id;
  info.labels = e->labels;
  info.n_labels = e->n_labels;
  info.created = e->created;
  info.expires = e->expires;
  info.name = e->name;
  info.image = e->image;
  return info;
}

static pco_sandbox_info of_written(const plugin_info *i) {
  pco_sandbox_info info = pco_sandbox_info_init();
  info.state = !i->lives     ? PCO_STATE_DEAD
               : i->attached ? PCO_STATE_RUNNING
                             : PCO_STATE_DETACHED;
  info.id = i->id;
  info.labels = i->labels;
  info.n_labels = i->n_labels;
  info.created = i->created;
  info.expires = i->expires;
  info.name = i->name;
  info.image = i->image;
  return info;
}

/* ---- list ---------------------------------------------------------------- */

/* Whether it is one of the table's, and not a later one of that id.  Doomed or
 * not: one that is ending is not shown by way of what is written. */
static bool is_listed(const plugin_table *t, const plugin_info *i) {
  const plugin_entry *e = t->first;
  while (e && !(strcmp(e->id, i->id) == 0 && e->created - i->created < 1e-4 &&
                i->created - e->created < 1e-4))
    e = e->next;
  return e != NULL;
}

static size_t count(const plugin_table *t) {
  size_t n = 0;
  for (const plugin_entry *e = t->first; e; e = e->next)
    n++;
  return n;
}

/* The lock is held while the host copies: sandboxes of other loops are shown,
 * and complete() calls nothing back. */
static void list_both(plugin_table *t, const pco_host *host,
                      const plugin_info *others, size_t n_others, pco_op *op) {
  listing l;
  plugin_table_lock(t);
  bool fine = init(&l, count(t) + n_others);
  for (const plugin_entry *e = t->first; fine && e; e = e->next)
    if (!e->doomed)
      add(&l, of_entry(e), getpid());
  for (size_t i = 0; fine && i < n_others; i++)
    if (!is_listed(t, &others[i]))
      add(&l, of_written(&others[i]), others[i].attached ? others[i].host : 0);
  if (fine)
    complete(&l, host, op);
  plugin_table_unlock(t);
  if (!fine)
    pco_fail(host, op, UV_ENOMEM, PCO_SOURCE_PLUGIN, NULL);
  deinit(&l);
}

void plugin_table_list(plugin_table *t, const pco_host *host,
                       const char *backend, const char *setting, pco_op *op) {
  plugin_info *list;
  size_t n;
  char room[PCO_MESSAGE_MAX];
  pco_error err = pco_error_in(room, sizeof room);
  int rc = plugin_state_list(backend, setting, &list, &n, &err);
  if (rc < 0) {
    err.code = rc;
    host->fail(host, op, &err);
    return;
  }
  if (err.message)
    host->log(host, 1, err.message);
  list_both(t, host, list, n, op);
  plugin_state_free_list(list, n);
}

/* ---- reap ---------------------------------------------------------------- */

void plugin_tell_removed(const pco_host *host, const plugin_info *removed,
                         size_t n, pco_op *op) {
  listing l;
  if (init(&l, n)) {
    for (size_t i = 0; i < n; i++)
      add(&l, of_written(&removed[i]), removed[i].host);
    complete(&l, host, op);
  } else {
    pco_fail(host, op, UV_ENOMEM, PCO_SOURCE_PLUGIN, NULL);
  }
  deinit(&l);
}
