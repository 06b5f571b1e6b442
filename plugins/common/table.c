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

/* Copies; false without memory. */
static bool copy(char **to, const char *from) {
  *to = from ? strdup(from) : NULL;
  return !from || *to;
}

static int init(plugin_entry *e, const char *name, const char *image,
                const pco_pair *labels, size_t n_labels) {
  e->pidfd = -1;
  e->labels = pco_pairs_dup(labels, n_labels);
  e->n_labels = n_labels;
  bool named = copy(&e->name, name);
  return copy(&e->image, image) && named && e->labels ? 0 : UV_ENOMEM;
}

int plugin_entry_init(plugin_entry *e, const pco_create_opts *o) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  e->created = (double)now.tv_sec + (double)now.tv_nsec / 1e9;
  e->expires = o->ttl > 0 ? e->created + o->ttl : 0;
  return init(e, o->name, o->image, o->labels, o->n_labels);
}

int plugin_entry_init_from(plugin_entry *e, const plugin_info *i) {
  e->created = i->created;
  e->expires = i->expires;
  return init(e, i->name, i->image, i->labels, i->n_labels);
}

void plugin_entry_tell(const plugin_entry *e, plugin_info *i) {
  snprintf(i->id, sizeof i->id, "%s", e->id);
  i->host = getpid();
  i->namespace = plugin_info_namespace();
  i->name = e->name;
  i->image = e->image;
  i->labels = e->labels;
  i->n_labels = e->n_labels;
  i->created = e->created;
  i->expires = e->expires;
}

void plugin_entry_fill(const plugin_entry *e, pco_sandbox_result *result) {
  result->id = e->id;
  result->name = e->name;
  result->image = e->image;
  result->labels = e->labels;
  result->n_labels = e->n_labels;
  result->created = e->created;
  result->expires = e->expires;
}

void plugin_entry_deinit(plugin_entry *e) {
  free(e->labels);
  free(e->name);
  free(e->image);
  e->labels = NULL;
  e->name = e->image = NULL;
}

/* ---- ids ---------------------------------------------------------------- */

/* The sandboxes of a process that forked are not its child's, who would end
 * them by their ids. */
void plugin_table_lock(plugin_table *t) {
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
  plugin_table_lock(t);
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
  plugin_table_lock(t);
  plugin_entry **at = &t->first;
  while (*at && *at != e)
    at = &(*at)->next;
  if (*at)
    *at = e->next;
  pco_lock_give(&t->lock);
}

void plugin_table_set_pidfd(plugin_table *t, plugin_entry *e, int pidfd) {
  plugin_table_lock(t);
  e->pidfd = pidfd;
  pco_lock_give(&t->lock);
}

plugin_entry *plugin_table_lock_find(plugin_table *t, const char *id) {
  plugin_table_lock(t);
  return find(t, id);
}

plugin_entry *plugin_table_lock_doomed(plugin_table *t, const plugin_entry *e,
                                       const char *id) {
  plugin_table_lock(t);
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
