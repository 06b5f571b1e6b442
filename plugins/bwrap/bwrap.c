/* SPDX-License-Identifier: MIT */
/*
 * The bwrap backend: its entry, backends, the ends of sandboxes; see bwrap.h.
 */
#include "bwrap.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What runs has this long after the host has asked its agent to end. */
#define GRACE_MS 1000

plugin_table bwrap_table = PLUGIN_TABLE_INIT;

/* ---- the end of a sandbox ----------------------------------------------- */

static void answer_end(pco_sandbox *s) {
  const pco_host *host = s->backend->host;
  if (s->creating && s->failed == UV_ECANCELED)
    pco_fail(host, s->creating, UV_ECANCELED, PCO_SOURCE_PLUGIN, NULL);
  else if (s->creating)
    pco_fail(host, s->creating, s->failed, PCO_SOURCE_PLUGIN, "%s", s->why);
  int error =
      s->keeper.last.type == PCO_KEEPER_ENDED ? s->keeper.last.error : 0;
  bool failed = s->keeper.hangs || error;
  const char *left = s->keeper.hangs || error == EBUSY
                         ? "processes of the sandbox do not die from SIGKILL "
                           "(they hang in the kernel)"
                         : "the sandbox has ended, but its cgroup could not be "
                           "removed";
  if (s->ending && failed)
    pco_fail(host, s->ending, PCO_EBACKEND, PCO_SOURCE_PLUGIN, "%s", left);
  else if (s->ending)
    host->complete(host, s->ending, NULL);
  else if (failed && !s->creating)
    host->log(host, 1, left);
}

static void has_ended(pco_sandbox *s) {
  pco_backend *b = s->backend;
  answer_end(s);
  bwrap_sandbox_free(s);
  b->work--;
  bwrap_settle(b);
}

static void on_sandbox_ended(bwrap_keeper *k) {
  has_ended(BWRAP_CONTAINER(k, pco_sandbox, keeper));
}

static void on_image_left(bwrap_image_wait *w, const char *path,
                          const pco_error *err) {
  (void)path;
  (void)err;
  has_ended(BWRAP_CONTAINER(w, pco_sandbox, wait));
}

/* Whatever it has: a keeper, or an image that it waits for, or neither. */
static void end_what_it_has(pco_sandbox *s, uint32_t grace_ms) {
  if (s->started) {
    bwrap_keeper_end(&s->keeper, grace_ms, on_sandbox_ended);
  } else if (s->wait.unpack) {
    s->wait.fn = on_image_left;
    bwrap_image_leave(&s->wait);
  } else {
    has_ended(s);
  }
}

void bwrap_sandbox_unlist(pco_sandbox *s) {
  pco_sandbox **at = &s->backend->sandboxes;
  while (*at != s)
    at = &(*at)->next;
  *at = s->next;
}

void bwrap_sandbox_end(pco_sandbox *s, uint32_t grace_ms) {
  pco_backend *b = s->backend;
  const pco_host *host = b->host;
  plugin_table_remove(&bwrap_table, &s->entry);
  bwrap_sandbox_unlist(s);
  if (s->creating)
    host->set_cancel(host, s->creating, NULL, NULL);
  if (s->inquest) {
    pco_error nothing = pco_error_init();
    host->complete(host, s->inquest, &nothing);
  }
  s->inquest = NULL;
  if (s->leaving)
    pco_fail(host, s->leaving, UV_ECANCELED, PCO_SOURCE_PLUGIN, NULL);
  s->leaving = NULL;
  b->work++;
  end_what_it_has(s, grace_ms);
}

static int bwrap_destroy(pco_sandbox *s, pco_op *op) {
  s->ending = op;
  bwrap_sandbox_end(s, GRACE_MS);
  return 0;
}

/* ---- why a sandbox died ------------------------------------------------- */

static void cancel_inquest(void *arg) {
  pco_sandbox *s = arg;
  pco_op *op = s->inquest;
  s->inquest = NULL;
  pco_fail(s->backend->host, op, UV_ECANCELED, PCO_SOURCE_PLUGIN, NULL);
}

/* The stream of an agent ends a moment before the keeper says how. */
static int bwrap_cause_of_death(pco_sandbox *s, pco_op *op) {
  const pco_host *host = s->backend->host;
  char room[PCO_MESSAGE_MAX];
  pco_error err = pco_error_in(room, sizeof room);
  if (s->keeper.over || s->inquest) {
    if (s->keeper.over)
      bwrap_explain(&s->keeper, &err);
    host->complete(host, op, &err);
    return 0;
  }
  s->inquest = op;
  host->set_cancel(host, op, cancel_inquest, s);
  return 0;
}

/* ---- list ---------------------------------------------------------------- */

static int bwrap_list(pco_backend *b, pco_op *op) {
  plugin_children_reap();
  plugin_table_list(&bwrap_table, b->host, BWRAP_ID, b->state, op);
  return 0;
}

/* ---- backends ----------------------------------------------------------- */

static int check_path(const char *key, const char *value, pco_error *err) {
  if (!value || *value == '/')
    return 0;
  return pco_error_set(err, UV_EINVAL, PCO_SOURCE_PLUGIN,
                       "%s '%.200s' is not an absolute path", key, value);
}

static uint64_t image_max(const char *value) {
  char *end;
  errno = 0;
  uint64_t bytes = value ? strtoull(value, &end, 10) : BWRAP_IMAGE_MAX;
  bool good = !value || (*value >= '1' && *value <= '9' && !*end && !errno);
  return good && bytes <= INT64_MAX ? bytes : 0;
}

static int check_image_max(const char *value, pco_error *err) {
  if (image_max(value) > 0)
    return 0;
  return pco_error_set(err, UV_EINVAL, PCO_SOURCE_PLUGIN,
                       "image_max '%.64s' is not a number of bytes", value);
}

const char *const bwrap_settings[] = {"bwrap",    "cache",     "cgroup", "uids",
                                      "id_range", "image_max", "state",  NULL};

static int check_settings(const pco_pair *settings, size_t n, pco_error *err) {
  static const char *const paths[] = {"bwrap", "cache", "state", NULL};
  int rc = pco_settings_check(settings, n, bwrap_settings, err);
  for (size_t i = 0; rc == 0 && paths[i]; i++)
    rc = check_path(paths[i], pco_setting_get(settings, n, paths[i]), err);
  const char *cgroup = pco_setting_get(settings, n, "cgroup");
  if (rc == 0 && cgroup && !pco_streq(cgroup, "auto") &&
      !pco_streq(cgroup, "none"))
    rc = check_path("cgroup", cgroup, err);
  if (rc == 0)
    rc = check_image_max(pco_setting_get(settings, n, "image_max"), err);
  const char *uids = pco_setting_get(settings, n, "uids");
  if (rc == 0 && uids && !pco_streq(uids, "auto") && !pco_streq(uids, "one") &&
      !pco_streq(uids, "two"))
    rc = pco_error_set(err, UV_EINVAL, PCO_SOURCE_PLUGIN,
                       "uids '%.64s' is not 'auto', 'one' or 'two'", uids);
  return rc;
}

static void backend_free(pco_backend *b) {
  free(b->program);
  free(b->cgroup);
  free(b->cache);
  free(b->id_range);
  free(b->state);
  free(b);
}

/* Copies a setting; false without memory. */
static bool copy(char **to, const pco_pair *settings, size_t n, const char *key,
                 const char *otherwise) {
  const char *value = pco_setting_get(settings, n, key);
  if (!value)
    value = otherwise;
  *to = value ? strdup(value) : NULL;
  return !value || *to;
}

static pco_backend *backend_create(const pco_pair *settings, size_t n) {
  pco_backend *b = calloc(1, sizeof *b);
  if (!b)
    return NULL;
  char cache[64];
  bwrap_cache_default(cache, sizeof cache);
  b->image_max = image_max(pco_setting_get(settings, n, "image_max"));
  const char *uids = pco_setting_get(settings, n, "uids");
  b->uids = pco_streq(uids, "one")   ? BWRAP_UIDS_ONE
            : pco_streq(uids, "two") ? BWRAP_UIDS_TWO
                                     : BWRAP_UIDS_AUTO;
  if (copy(&b->program, settings, n, "bwrap", NULL) &&
      copy(&b->cgroup, settings, n, "cgroup", "auto") &&
      copy(&b->cache, settings, n, "cache", cache) &&
      copy(&b->id_range, settings, n, "id_range", NULL) &&
      copy(&b->state, settings, n, "state", NULL))
    return b;
  backend_free(b);
  return NULL;
}

static int bwrap_open(const pco_host *host, const pco_pair *settings, size_t n,
                      pco_backend **out, pco_error *err) {
  *out = NULL;
  plugin_host services;
  int rc = check_settings(settings, n, err);
  if (rc == 0)
    rc = plugin_host_init(&services, host, "bwrap", err);
  if (rc < 0)
    return rc;
  pco_backend *b = backend_create(settings, n);
  if (!b)
    return pco_error_set(err, UV_ENOMEM, PCO_SOURCE_PLUGIN, NULL);
  b->host = host;
  b->services = services;
  *out = b;
  return 0;
}

void bwrap_settle(pco_backend *b) {
  if (!b->closing || b->work || atomic_load(&b->orders) > 0)
    return;
  const pco_host *host = b->host;
  pco_op *op = b->closing;
  backend_free(b);
  host->complete(host, op, NULL);
}

static int bwrap_close(pco_backend *b, pco_op *op) {
  bwrap_attach_cancel_all(b);
  while (b->sandboxes) {
    pco_sandbox *s = b->sandboxes;
    if (s->creating)
      s->failed = UV_ECANCELED;
    bwrap_sandbox_end(s, 0);
  }
  b->closing = op;
  plugin_children_reap();
  bwrap_settle(b);
  return 0;
}

/* ---- the entry ---------------------------------------------------------- */

static const pco_backend_api api = {
    .struct_size = sizeof api,
    .open = bwrap_open,
    .close = bwrap_close,
    .probe = bwrap_probe,
    .create = bwrap_create,
    .attach = bwrap_attach,
    .list = bwrap_list,
    .destroy = bwrap_destroy,
    .destroy_id = bwrap_destroy_id,
    .detach = bwrap_detach,
    .cause_of_death = bwrap_cause_of_death,
    .reap = bwrap_reap,
};

#ifdef PCO_BWRAP_WEAK
#  define SUMMARY "bwrap with a setting that takes protections away, for tests"
#else
#  define SUMMARY "isolated by bubblewrap: untrusted code cannot leave it"
#endif

static const pco_backend_info info = {
    .struct_size = sizeof info,
    .id = BWRAP_ID,
    .summary = SUMMARY,
    .version = "0",
    .license = "MIT",
    .api = &api,
};

static const pco_backend_info *const backends[] = {&info, NULL};

static const void *uv_identity(void) {
  return uv_version_string();
}

PCO_EXPORT const pco_plugin_entry pco_plugin_entry_v0 = {
    .struct_size = sizeof pco_plugin_entry_v0,
    .abi_major = PCO_ABI_MAJOR,
    .abi_minor = PCO_ABI_MINOR,
    .backends = backends,
    .uv_identity = uv_identity,
};
