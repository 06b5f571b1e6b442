/* SPDX-License-Identifier: MIT */
/*
 * See table.h.
 */
#include "table.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

#include "wait.h"

/* ---- entries ------------------------------------------------------------ */

int plugin_entry_init(plugin_entry *e, const pco_create_opts *o) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  e->created = (double)now.tv_sec + (double)now.tv_nsec / 1e9;
  e->pidfd = -1;
  e->labels = pco_pairs_dup(o->labels, o->n_labels);
  e->n_labels = o->n_labels;
  return e->labels ? 0 : UV_ENOMEM;
}

void plugin_entry_deinit(plugin_entry *e) {
  free(e->labels);
  e->labels = NULL;
}

/* ---- ids ---------------------------------------------------------------- */

/* The sandboxes of a process that forked are not its child's, who would end
 * them by their ids. */
static void lock(plugin_table *t) {
  pco_lock_take(&t->lock);
  if (t->owner != getpid())
    t->first = NULL;
  t->owner = getpid();
}

/* Needs the lock. */
static plugin_entry *find(const plugin_table *t, const char *id) {
  plugin_entry *e = t->first;
  while (e && (e->doomed || strcmp(e->id, id) != 0))
    e = e->next;
  return e;
}

static void make_id(char *out, size_t size, const char *prefix) {
  uint32_t number;
  if (getrandom(&number, sizeof number, GRND_NONBLOCK) != sizeof number)
    number = (uint32_t)(uv_hrtime() >> 8); /* unique is enough */
  snprintf(out, size, "%s-%08x", prefix, number);
}

int plugin_check_name(const char *name, pco_error *err) {
  if (!name || pco_id_is_valid(name))
    return 0;
  return pco_error_set(err, UV_EINVAL, PCO_SOURCE_PLUGIN,
                       "the name '%.64s' is not 1 to 64 of letters, digits, "
                       "'.', '_' and '-', the first a letter or digit",
                       name);
}

int plugin_table_add(plugin_table *t, plugin_entry *e, const char *wished,
                     const char *prefix, pco_error *err) {
  int rc = 0;
  lock(t);
  if (wished && find(t, wished))
    rc = UV_EEXIST;
  else if (wished)
    snprintf(e->id, sizeof e->id, "%s", wished);
  else
    do
      make_id(e->id, sizeof e->id, prefix);
    while (find(t, e->id));
  if (rc == 0) {
    e->next = t->first;
    t->first = e;
  }
  pco_lock_give(&t->lock);
  return rc == 0 ? 0
                 : pco_error_set(err, rc, PCO_SOURCE_PLUGIN,
                                 "a sandbox '%s' exists already", wished);
}

void plugin_table_remove(plugin_table *t, plugin_entry *e) {
  lock(t);
  plugin_entry **at = &t->first;
  while (*at && *at != e)
    at = &(*at)->next;
  if (*at)
    *at = e->next;
  pco_lock_give(&t->lock);
}

void plugin_table_set_pidfd(plugin_table *t, plugin_entry *e, int pidfd) {
  lock(t);
  e->pidfd = pidfd;
  pco_lock_give(&t->lock);
}

plugin_entry *plugin_table_lock_find(plugin_table *t, const char *id) {
  lock(t);
  return find(t, id);
}

plugin_entry *plugin_table_lock_doomed(plugin_table *t, const plugin_entry *e,
                                       const char *id) {
  lock(t);
  plugin_entry *at = t->first;
  while (at && (at != e || !at->doomed || strcmp(at->id, id) != 0))
    at = at->next;
  return at;
}

void plugin_table_unlock(plugin_table *t) {
  pco_lock_give(&t->lock);
}

void plugin_fail_end(const pco_host *host, pco_op *op, const char *id, int rc) {
  int code = rc ? rc : UV_ENOENT;
  pco_fail(host, op, code, PCO_SOURCE_PLUGIN, "cannot end the sandbox %s: %s",
           id,
           code == UV_EBUSY    ? "it is being made"
           : code == UV_ENOENT ? "there is none"
                               : uv_strerror(code));
}

/* ---- list --------------------------------------------------------------- */

static pco_sandbox_info info_of(const plugin_entry *e, const char *owner) {
  pco_sandbox_info info = pco_sandbox_info_init();
  info.state = e->pidfd < 0                 ? PCO_STATE_UNKNOWN
               : plugin_has_ended(e->pidfd) ? PCO_STATE_DEAD
                                            : PCO_STATE_RUNNING;
  info.id = e->id;
  info.owner = owner;
  info.labels = e->labels;
  info.n_labels = e->n_labels;
  info.created = e->created;
  return info;
}

/* Fills both; returns how many.  Needs the lock. */
static size_t show(const plugin_table *t, const char *owner,
                   pco_sandbox_info *infos, const pco_sandbox_info **list) {
  size_t n = 0;
  for (const plugin_entry *e = t->first; e; e = e->next) {
    if (e->doomed)
      continue;
    infos[n] = info_of(e, owner);
    list[n] = &infos[n];
    n++;
  }
  return n;
}

/* The lock is held while the host copies: sandboxes of other loops are shown,
 * and complete() calls nothing back. */
void plugin_table_list(plugin_table *t, const pco_host *host, pco_op *op) {
  char machine[256] = "", owner[300];
  gethostname(machine, sizeof machine - 1);
  snprintf(owner, sizeof owner, "%s:%ld", machine, (long)getpid());
  lock(t);
  size_t n = 0;
  for (const plugin_entry *e = t->first; e; e = e->next)
    n++;
  pco_sandbox_info *infos = calloc(n + 1, sizeof *infos);
  const pco_sandbox_info **list = calloc(n + 1, sizeof *list);
  if (infos && list) {
    pco_list_result result = pco_list_result_init();
    result.n_sandboxes = show(t, owner, infos, list);
    result.sandboxes = list;
    host->complete(host, op, &result);
  } else {
    pco_fail(host, op, UV_ENOMEM, PCO_SOURCE_PLUGIN, NULL);
  }
  pco_lock_give(&t->lock);
  free(infos);
  free(list);
}
