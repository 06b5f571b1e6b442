/* SPDX-License-Identifier: MIT */
/*
 * The local backend: its entry, backends and the table of sandboxes; see
 * local.h.
 */
#include "local.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

plugin_table local_table = PLUGIN_TABLE_INIT;

void local_sandbox_free(pco_sandbox *s) {
  free(s->dir);
  free(s->cwd);
  plugin_entry_deinit(&s->entry);
  free(s);
}

/* ---- destroy ------------------------------------------------------------ */

/* Takes s from both lists and hands what must end to an ending.  A descriptor
 * that another thread uses for destroy_id() is its own duplicate. */
static void sandbox_end(pco_sandbox *s, bool ask, pco_op *op) {
  pco_backend *b = s->backend;
  plugin_table_remove(&local_table, &s->entry);
  local_end_inquest(s);
  pco_sandbox **at = &b->sandboxes;
  while (*at != s)
    at = &(*at)->next;
  *at = s->next;
  char *dir = s->dir;
  int pidfd = s->entry.pidfd;
  local_ending *e = s->ending;
  local_door_end(s);
  local_ending_set_door(e, s->door);
  s->dir = NULL;
  local_sandbox_free(s);
  local_end(b, e, pidfd, dir, ask, op);
}

static int local_destroy(pco_sandbox *s, pco_op *op) {
  sandbox_end(s, false, op);
  return 0;
}

/* What is needed to end a sandbox of any instance. */
typedef struct target {
  int pidfd;
  char *dir;
  bool ordered; /* by its door; else it is to be asked by a signal */
} target;

/* Needs the lock.  A negative code, or 1. */
static int aim(const pco_sandbox *s, target *t) {
  t->dir = strdup(s->dir);
  t->pidfd = t->dir ? fcntl(s->entry.pidfd, F_DUPFD_CLOEXEC, 3) : -1;
  if (t->pidfd < 0)
    return t->dir ? -errno : UV_ENOMEM;
  t->ordered = s->control >= 0;
  if (t->ordered)
    local_order_end(s);
  return 1;
}

/* 1, 0 if there is none of that id, or a negative code. */
static int take_ending(const char *id, target *t) {
  int rc = 0;
  plugin_entry *e = plugin_table_lock_find(&local_table, id);
  if (e && e->pidfd < 0) {
    rc = UV_EBUSY;
  } else if (e) {
    rc = aim((pco_sandbox *)e, t); /* its first member */
    e->doomed = rc > 0;
  }
  plugin_table_unlock(&local_table);
  return rc;
}

/* Ends the agent and leaves the handle to its owner, who finds it dead. */
static int local_destroy_id(pco_backend *b, const char *id, pco_op *op) {
  target t = {.pidfd = -1};
  local_ending *e = local_ending_create();
  int rc = e ? take_ending(id, &t) : UV_ENOMEM;
  if (rc > 0) {
    local_end(b, e, t.pidfd, t.dir, !t.ordered, op);
    return 0;
  }
  free(t.dir);
  local_ending_free(e);
  if (rc == 0)
    return local_end_elsewhere(b, id, op);
  plugin_fail_end(b->host, op, id, rc);
  return 0;
}

/* ---- list --------------------------------------------------------------- */

static int local_list(pco_backend *b, pco_op *op) {
  plugin_children_reap();
  plugin_table_list(&local_table, b->host, LOCAL_ID, b->state, op);
  return 0;
}

/* ---- backends ----------------------------------------------------------- */

/* `workspace` and `root` are of create(); who gives them here should be told
 * so, not that they are unknown. */
static int check_settings(const pco_pair *settings, size_t n, pco_error *err) {
  static const char *const known[] = {"tmpdir", "state", NULL};
  for (size_t i = 0; i < n; i++)
    if (pco_streq(settings[i].key, "workspace") ||
        pco_streq(settings[i].key, "root"))
      return pco_error_set(err, UV_EINVAL, PCO_SOURCE_PLUGIN,
                           "'%s' is a setting of create, not of open: "
                           "create{settings = {%s = ...}}",
                           settings[i].key, settings[i].key);
  int rc = pco_settings_check(settings, n, known, err);
  for (size_t i = 0; rc == 0 && known[i]; i++) {
    const char *path = pco_setting_get(settings, n, known[i]);
    if (path && *path != '/')
      rc = pco_error_set(err, UV_EINVAL, PCO_SOURCE_PLUGIN,
                         "%s '%.200s' is not an absolute path", known[i], path);
  }
  return rc;
}

static void backend_free(pco_backend *b) {
  free(b->tmpdir);
  free(b->state);
  free(b);
}

static pco_backend *backend_create(const pco_pair *settings, size_t n) {
  const char *tmpdir = pco_setting_get(settings, n, "tmpdir");
  const char *state = pco_setting_get(settings, n, "state");
  pco_backend *b = calloc(1, sizeof *b);
  if (!b)
    return NULL;
  b->tmpdir = strdup(tmpdir ? tmpdir : "/tmp");
  b->state = state ? strdup(state) : NULL;
  if (b->tmpdir && (!state || b->state))
    return b;
  backend_free(b);
  return NULL;
}

static int local_open(const pco_host *host, const pco_pair *settings, size_t n,
                      pco_backend **out, pco_error *err) {
  *out = NULL;
  plugin_host services;
  int rc = check_settings(settings, n, err);
  if (rc == 0)
    rc = plugin_host_init(&services, host, "local", err);
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

void local_settle(pco_backend *b) {
  if (!b->closing || b->work)
    return;
  const pco_host *host = b->host;
  pco_op *op = b->closing;
  backend_free(b);
  host->complete(host, op, NULL);
}

static int local_close(pco_backend *b, pco_op *op) {
  local_cancel_visits(b);
  while (b->sandboxes)
    sandbox_end(b->sandboxes, true, NULL);
  b->closing = op;
  plugin_children_reap();
  local_settle(b);
  return 0;
}

bool local_may_change_user(void) {
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct data[2];
  const uint32_t both = 1u << CAP_SETUID | 1u << CAP_SETGID;
  return syscall(SYS_capget, &header, data) == 0 &&
         (data[0].effective & both) == both && geteuid() == 0;
}

static int local_probe(pco_backend *b, pco_op *op) {
  const bool others = local_may_change_user();
  static const char plain[] =
      "local runs commands as plain processes of yours; use bwrap";
  const pco_capability capabilities[] = {
      {"isolation",
       "local runs commands as your user with your files; use it only for "
       "code you trust",
       PCO_MISSING, 0},
      {"network.none", "commands have the host's network; use bwrap",
       PCO_MISSING, 0},
      {"limits.memory", plain, PCO_MISSING, 0},
      {"limits.pids", plain, PCO_MISSING, 0},
      {"limits.cpus", plain, PCO_MISSING, 0},
      {"limits.disk", plain, PCO_MISSING, 0},
      {"limits.open_files", plain, PCO_MISSING, 0},
      {"pty", NULL, PCO_NATIVE, 0},
      {"signals", NULL, PCO_NATIVE, 0},
      {"list",
       "the sandboxes of this process, and the detachable ones of this user's",
       PCO_NATIVE, 0},
      {"user",
       others ? "of a sandbox or of a command; without one it is your user"
              : "commands run as your user; others need root",
       others ? PCO_NATIVE : PCO_MISSING, 0},
      {"image", "commands see this machine's files", PCO_MISSING, 0},
      {"mounts", "commands see this machine's files where they are",
       PCO_MISSING, 0},
      {"attach", NULL, PCO_NATIVE, 0},
      {"detach", "of sandboxes made with detachable = true", PCO_NATIVE, 0},
      {"pause", plain, PCO_MISSING, 0},
      {"snapshot", plain, PCO_MISSING, 0},
      {"forward", "a command's port is already one of this machine",
       PCO_MISSING, 0},
  };
  pco_probe_result result = pco_probe_result_init();
  result.caps = PCO_CAP_LIST | PCO_CAP_SIGNALS | PCO_CAP_PTY | PCO_CAP_ATTACH |
                PCO_CAP_DETACHED;
  result.capabilities = capabilities;
  result.n_capabilities = sizeof capabilities / sizeof *capabilities;
  result.detail = "plain processes of your user";
  b->host->complete(b->host, op, &result);
  return 0;
}

static const void *local_get_extension(pco_backend *b, const char *id) {
  (void)b;
  (void)id;
  return NULL;
}

/* ---- the entry ---------------------------------------------------------- */

static const pco_backend_api api = {
    .struct_size = sizeof api,
    .open = local_open,
    .close = local_close,
    .probe = local_probe,
    .get_extension = local_get_extension,
    .create = local_create,
    .attach = local_attach,
    .list = local_list,
    .destroy = local_destroy,
    .destroy_id = local_destroy_id,
    .detach = local_detach,
    .cause_of_death = local_cause_of_death,
    .reap = local_reap,
};

static const pco_backend_info info = {
    .struct_size = sizeof info,
    .id = LOCAL_ID,
    .summary = "plain processes of your own, without isolation",
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
