/* SPDX-License-Identifier: MIT */
/*
 * See door.h.
 */
#include "door.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

#include "fail.h"

#define MAX_TTL 1e12 /* ms: 31 years; keepers take no more */

static plugin_door *door_create(const char *id) {
  plugin_door *d = calloc(1, sizeof *d);
  if (!d)
    return NULL;
  d->state.dir = d->hold = d->info = d->listener = -1;
  snprintf(d->id, sizeof d->id, "%s", id);
  return d;
}

static void door_free(plugin_door *d) {
  plugin_state_let_go(d->hold);
  if (d->listener >= 0)
    close(d->listener);
  if (d->info >= 0)
    close(d->info);
  plugin_state_close(&d->state);
  free(d);
}

void plugin_door_leave(plugin_door *d) {
  door_free(d);
}

void plugin_door_remove(plugin_door *d) {
  plugin_info i = {0};
  if (!d)
    return;
  bool own = d->info >= 0;
  int fd = own ? d->info : plugin_state_claim(&d->state, d->id, &i);
  if (fd >= 0)
    plugin_state_forget(&d->state, d->id);
  if (fd >= 0 && !own)
    close(fd);
  plugin_info_deinit(&i);
  door_free(d);
}

void plugin_door_is_kept(plugin_door *d, int pidfd) {
  plugin_state_set_keeper(d->info, pidfd);
  close(d->info);
  close(d->listener);
  d->info = d->listener = -1;
}

/* ---- making one ---------------------------------------------------------- */

static int fail_taken(const plugin_state *st, const char *id, pco_error *err) {
  plugin_info i;
  if (plugin_state_look(st, id, &i) < 0)
    return plugin_fail(err, UV_EEXIST, "a sandbox '%s' exists already", id);
  if (!i.lives)
    plugin_fail(err, UV_EEXIST,
                "what a killed sandbox '%s' has left is being removed", id);
  else if (i.attached)
    plugin_fail(err, UV_EEXIST,
                "a sandbox '%s' exists already, attached to process %ld", id,
                (long)i.host);
  else
    plugin_fail(err, UV_EEXIST,
                "a sandbox '%s' exists already, detached: attach(\"%s\") takes "
                "it, destroy(\"%s\") ends it",
                id, id, id);
  plugin_info_deinit(&i);
  return UV_EEXIST;
}

/* Frees the id of one whose keeper was killed; false if it lives. */
static bool remove_dead(const plugin_state *st, const char *id, char **left) {
  plugin_info i;
  int fd = plugin_state_claim(st, id, &i);
  if (fd < 0)
    return fd == UV_ENOENT;
  if (i.dir && !*left)
    *left = strdup(i.dir);
  plugin_state_forget(st, id);
  close(fd);
  plugin_info_deinit(&i);
  return true;
}

static int publish(plugin_door *d, const plugin_info *i, char **left,
                   pco_error *err) {
  int rc = plugin_state_publish(&d->state, i, &d->info, &d->hold, err);
  if (rc == UV_EEXIST && remove_dead(&d->state, d->id, left))
    rc = plugin_state_publish(&d->state, i, &d->info, &d->hold, err);
  return rc == UV_EEXIST ? fail_taken(&d->state, d->id, err) : rc;
}

static int make(plugin_door *d, const char *backend, const char *setting,
                const plugin_info *i, char **left, pco_error *err) {
  snprintf(d->name, sizeof d->name, "%.32s-%s", backend, d->id);
  int rc = plugin_state_open(&d->state, backend, setting, true, err);
  if (rc == 0)
    rc = publish(d, i, left, err);
  if (rc < 0)
    return rc;
  rc = d->listener = plugin_state_listen(&d->state, d->id);
  return rc >= 0 ? 0
                 : plugin_fail(err, rc, "cannot make a socket in %.300s: %s",
                               d->state.path, uv_strerror(rc));
}

int plugin_door_make(plugin_door **out, const char *backend,
                     const char *setting, const plugin_info *i, char **left,
                     pco_error *err) {
  plugin_door *d = door_create(i->id);
  *out = NULL;
  *left = NULL;
  if (!d)
    return UV_ENOMEM;
  int rc = make(d, backend, setting, i, left, err);
  if (rc == 0)
    *out = d;
  else if (d->info >= 0)
    plugin_door_remove(d);
  else
    door_free(d);
  return rc;
}

uint64_t plugin_door_ttl(double expires) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  double ms = (expires - (double)now.tv_sec) * 1e3 - (double)now.tv_nsec / 1e6;
  return ms < 1 ? 1 : ms > MAX_TTL ? (uint64_t)MAX_TTL : (uint64_t)ms;
}

int plugin_door_check_free(const char *backend, const char *setting,
                           const char *id, pco_error *err) {
  plugin_state st;
  plugin_info i;
  if (plugin_state_open(&st, backend, setting, false, NULL) < 0)
    return 0;
  int rc = plugin_state_look(&st, id, &i);
  bool lives = rc == 0 && i.lives;
  if (rc == 0)
    plugin_info_deinit(&i);
  rc = lives ? fail_taken(&st, id, err) : 0;
  plugin_state_close(&st);
  return rc;
}

/* ---- finding one --------------------------------------------------------- */

static int fail_none(const char *id, pco_error *err) {
  return plugin_fail(err, UV_ENOENT,
                     "there is no sandbox '%s' that lives; list() shows those "
                     "that do",
                     id);
}

static int find(plugin_door *d, plugin_info *i, pco_error *err) {
  int rc = plugin_state_look(&d->state, d->id, i);
  if (rc == UV_ENOENT || (rc == 0 && !i->lives))
    return fail_none(d->id, err);
  if (rc == 0)
    rc = d->hold = plugin_state_hold(&d->state, d->id);
  if (rc == UV_ENOENT)
    return fail_none(d->id, err);
  if (rc == UV_EBUSY) {
    plugin_fail(err, rc, "the sandbox '%s' is attached to process %ld%s", d->id,
                (long)i->host, i->host == getpid() ? ", this one" : "");
    err->flags |= PCO_ERROR_RETRYABLE;
  }
  return rc < 0 ? rc : 0;
}

int plugin_door_find(plugin_door **out, const char *backend,
                     const char *setting, const char *id, plugin_info *i,
                     pco_error *err) {
  plugin_door *d = door_create(id);
  *out = NULL;
  memset(i, 0, sizeof *i);
  if (!d)
    return UV_ENOMEM;
  int rc = plugin_state_open(&d->state, backend, setting, false, err);
  if (rc == UV_ENOENT)
    rc = fail_none(id, err);
  else if (rc == 0)
    rc = find(d, i, err);
  if (rc == 0) {
    *out = d;
    return 0;
  }
  plugin_info_deinit(i);
  door_free(d);
  return rc;
}

int plugin_door_claim(plugin_door **out, const char *backend,
                      const char *setting, const char *id, plugin_info *i,
                      pco_error *err) {
  plugin_door *d = door_create(id);
  *out = NULL;
  memset(i, 0, sizeof *i);
  if (!d)
    return UV_ENOMEM;
  int rc = plugin_state_open(&d->state, backend, setting, false, err);
  if (rc == 0)
    rc = d->info = plugin_state_claim(&d->state, id, i);
  if (rc >= 0) {
    *out = d;
    return 0;
  }
  door_free(d);
  return rc;
}
