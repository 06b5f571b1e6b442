/* SPDX-License-Identifier: MIT */
/*
 * The null backend: its entry, backends and sandboxes; see null.h.
 *
 * All sandboxes of the process are in one table, so that any instance can list
 * them and end one by its id.  The table's lock guards the links, `listed` and
 * `posts`; what list() shows of a sandbox never changes.  A sandbox of another
 * loop is ended by a message to that loop, posted under the lock, which is what
 * keeps the other instance alive meanwhile: its close() first takes its
 * sandboxes out and then waits until `posts` is 0.
 */
#include "null.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static pco_lock table_lock = PCO_LOCK_INIT;
static pco_sandbox *table;
static pid_t table_owner;
static unsigned last_number;

/* ---- the table ---------------------------------------------------------- */

/* The sandboxes of a process that forked are not its child's. */
static void lock_table(void) {
  pco_lock_take(&table_lock);
  if (table_owner != getpid())
    table = NULL;
  table_owner = getpid();
}

/* Needs the lock. */
static pco_sandbox *table_find(const char *id) {
  pco_sandbox *s = table;
  while (s && strcmp(s->id, id) != 0)
    s = s->table_next;
  return s;
}

/* Needs the lock. */
static void table_unlink(pco_sandbox *s) {
  pco_sandbox **at = &table;
  while (*at && *at != s)
    at = &(*at)->table_next;
  if (*at)
    *at = s->table_next;
  s->listed = 0;
}

/* Gives s its id, the wished one or the next free number, and lists it. */
static int table_add(pco_sandbox *s, const char *wished) {
  int rc = 0;
  lock_table();
  if (wished && table_find(wished)) {
    rc = UV_EEXIST;
  } else {
    if (wished)
      snprintf(s->id, sizeof s->id, "%s", wished);
    else
      do
        snprintf(s->id, sizeof s->id, "null-%04x", ++last_number);
      while (table_find(s->id));
    s->table_next = table;
    table = s;
    s->listed = 1;
  }
  pco_lock_give(&table_lock);
  return rc;
}

static void table_remove(pco_sandbox *s) {
  lock_table();
  if (s->listed)
    table_unlink(s);
  pco_lock_give(&table_lock);
}

/* ---- sandboxes ---------------------------------------------------------- */

bool null_is_gone(pco_sandbox *s, pco_op *op) {
  if (s->dead)
    pco_fail(s->backend->host, op, PCO_EGONE, PCO_SOURCE_PLUGIN,
             "the sandbox %s was destroyed", s->id);
  return s->dead;
}

static void sandbox_free(pco_sandbox *s) {
  free(s->labels);
  free(s->cwd);
  null_fs_destroy(s->fs);
  free(s);
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int sandbox_create(pco_backend *b, const pco_create_opts *o,
                          pco_sandbox **out) {
  pco_sandbox *s = calloc(1, sizeof *s);
  if (!s)
    return UV_ENOMEM;
  s->backend = b;
  s->created = now();
  s->cwd = strdup(o->cwd ? o->cwd : "/workspace");
  s->labels = pco_pairs_dup(o->labels, o->n_labels);
  s->n_labels = o->n_labels;
  int rc = s->cwd && s->labels ? null_fs_create(s->cwd, &s->fs) : UV_ENOMEM;
  if (rc < 0)
    sandbox_free(s);
  else
    *out = s;
  return rc;
}

/* Ends what runs in s and takes it from both lists. */
static void sandbox_end(pco_sandbox *s) {
  table_remove(s);
  s->dead = 1;
  null_end_processes(s);
  pco_sandbox **at = &s->backend->sandboxes;
  while (*at != s)
    at = &(*at)->next;
  *at = s->next;
}

/* ---- create ------------------------------------------------------------- */

static const char *const no_settings[] = {NULL};

/* Sets *err for what null does not do. */
static int check_create(const pco_create_opts *o, pco_error *err) {
  const uint32_t can = PCO_WANTS_CWD | PCO_WANTS_ENV | PCO_WANTS_NETWORK;
  uint32_t cannot = pco_create_wanted(o) & ~can;
  if (cannot)
    return pco_error_set(err, PCO_EUNSUPPORTED, PCO_SOURCE_PLUGIN,
                         "null cannot do '%s': it runs no real commands; use "
                         "bwrap",
                         pco_wants_name(cannot));
  if (o->network && !pco_streq(o->network, "none"))
    return pco_error_set(err, PCO_EUNSUPPORTED, PCO_SOURCE_PLUGIN,
                         "null has no network '%.64s', only 'none'",
                         o->network);
  if (o->name && !pco_id_is_valid(o->name))
    return pco_error_set(err, UV_EINVAL, PCO_SOURCE_PLUGIN,
                         "the name '%.64s' is not 1 to 64 of letters, digits, "
                         "'.', '_' and '-', the first a letter or digit",
                         o->name);
  if (o->cwd && *o->cwd != '/')
    return pco_error_set(err, UV_EINVAL, PCO_SOURCE_PLUGIN,
                         "cwd '%.200s' is not absolute", o->cwd);
  return pco_settings_check(o->settings, o->n_settings, no_settings, err);
}

static int null_create(pco_backend *b, const pco_create_opts *o, pco_op *op) {
  char room[PCO_MESSAGE_MAX];
  pco_error err = pco_error_in(room, sizeof room);
  if (o->flags & ~(PCO_CREATE_STRICT | PCO_CREATE_DETACHABLE))
    return UV_EINVAL;
  pco_sandbox *s = NULL;
  int rc = check_create(o, &err);
  if (rc == 0 && (rc = sandbox_create(b, o, &s)) < 0)
    pco_error_set(&err, rc, PCO_SOURCE_PLUGIN, "cannot make the sandbox: %s",
                  uv_strerror(rc));
  if (rc == 0 && table_add(s, o->name) < 0) {
    rc = pco_error_set(&err, UV_EEXIST, PCO_SOURCE_PLUGIN,
                       "a sandbox '%s' exists already", o->name);
    sandbox_free(s);
  }
  if (rc < 0) {
    b->host->fail(b->host, op, &err);
    return 0;
  }
  s->next = b->sandboxes;
  b->sandboxes = s;
  pco_sandbox_result result = pco_sandbox_result_init();
  result.sandbox = s;
  result.id = s->id;
  result.cwd = s->cwd;
  b->host->complete(b->host, op, &result);
  return 0;
}

/* ---- destroy and list --------------------------------------------------- */

static int null_destroy(pco_sandbox *s, pco_op *op) {
  const pco_host *host = s->backend->host;
  sandbox_end(s);
  sandbox_free(s);
  host->complete(host, op, NULL);
  return 0;
}

/* Runs on the owner's loop: ends the processes of its sandboxes that were taken
 * off the table.  The handles stay until the host gives them up. */
static void end_unlisted(void *arg) {
  pco_backend *b = arg;
  for (pco_sandbox *s = b->sandboxes; s;) {
    lock_table();
    bool doomed = !s->listed && !s->dead;
    pco_lock_give(&table_lock);
    if (!doomed) {
      s = s->next;
      continue;
    }
    s->dead = 1;
    null_end_processes(s);
    s = b->sandboxes; /* what was called may have changed the list */
  }
  lock_table();
  b->posts--;
  pco_lock_give(&table_lock);
  null_backend_settle(b);
}

static int null_destroy_id(pco_backend *b, const char *id, pco_op *op) {
  bool own = false;
  lock_table();
  pco_sandbox *s = table_find(id);
  if (s) {
    pco_backend *owner = s->backend;
    table_unlink(s);
    own = owner == b;
    if (own || owner->host->post(owner->host, end_unlisted, owner) == 0)
      owner->posts++; /* refused: its close() ends s anyway */
  }
  pco_lock_give(&table_lock);
  if (own)
    end_unlisted(b);
  if (s)
    b->host->complete(b->host, op, NULL);
  else
    pco_fail(b->host, op, UV_ENOENT, PCO_SOURCE_PLUGIN,
             "cannot end the sandbox %s: there is none", id);
  return 0;
}

static pco_sandbox_info info_of(const pco_sandbox *s) {
  pco_sandbox_info info = pco_sandbox_info_init();
  info.state = PCO_STATE_RUNNING;
  info.id = s->id;
  info.labels = s->labels;
  info.n_labels = s->n_labels;
  info.created = s->created;
  return info;
}

/* The lock is held while the host copies: sandboxes of other loops are shown,
 * and complete() calls nothing back. */
static int null_list(pco_backend *b, pco_op *op) {
  lock_table();
  size_t n = 0, i = 0;
  for (pco_sandbox *s = table; s; s = s->table_next)
    n++;
  pco_sandbox_info *infos = calloc(n ? n : 1, sizeof *infos);
  const pco_sandbox_info **list = calloc(n ? n : 1, sizeof *list);
  if (infos && list) {
    for (pco_sandbox *s = table; s; s = s->table_next, i++) {
      infos[i] = info_of(s);
      list[i] = &infos[i];
    }
    pco_list_result result = pco_list_result_init();
    result.sandboxes = list;
    result.n_sandboxes = n;
    b->host->complete(b->host, op, &result);
  } else {
    pco_fail(b->host, op, UV_ENOMEM, PCO_SOURCE_PLUGIN, NULL);
  }
  pco_lock_give(&table_lock);
  free(infos);
  free(list);
  return 0;
}

/* ---- backends ----------------------------------------------------------- */

static int null_open(const pco_host *host, const pco_pair *settings, size_t n,
                     pco_backend **out, pco_error *err) {
  *out = NULL;
  int rc = pco_settings_check(settings, n, no_settings, err);
  if (rc < 0)
    return rc;
  pco_backend *b = calloc(1, sizeof *b);
  if (!b)
    return pco_error_set(err, UV_ENOMEM, PCO_SOURCE_PLUGIN, NULL);
  b->host = host;
  *out = b;
  return 0;
}

void null_backend_settle(pco_backend *b) {
  if (!b->closing || b->handles)
    return;
  lock_table();
  bool waits = b->posts > 0;
  pco_lock_give(&table_lock);
  if (waits)
    return;
  const pco_host *host = b->host;
  pco_op *op = b->closing;
  free(b);
  host->complete(host, op, NULL);
}

static int null_close(pco_backend *b, pco_op *op) {
  while (b->sandboxes) {
    pco_sandbox *s = b->sandboxes;
    sandbox_end(s);
    sandbox_free(s);
  }
  null_free_orphans(b);
  b->closing = op;
  null_backend_settle(b);
  return 0;
}

static int null_probe(pco_backend *b, pco_op *op) {
  static const char fake[] = "null runs no real commands; use bwrap";
  static const pco_capability capabilities[] = {
      {"network.none", "commands have no network", PCO_NATIVE, 0},
      {"isolation", "commands are inside the plugin and reach nothing",
       PCO_NATIVE, 0},
      {"list", NULL, PCO_NATIVE, 0},
      {"signals", "TERM, INT and KILL end a command, others do nothing",
       PCO_EMULATED, 0},
      {"limits.memory", fake, PCO_MISSING, 0},
      {"limits.pids", fake, PCO_MISSING, 0},
      {"limits.cpus", fake, PCO_MISSING, 0},
      {"limits.disk", "files are bounded by 64 MiB, not by the option",
       PCO_MISSING, 0},
      {"limits.open_files", fake, PCO_MISSING, 0},
      {"pty", fake, PCO_MISSING, 0},
      {"user", fake, PCO_MISSING, 0},
      {"image", fake, PCO_MISSING, 0},
      {"mounts", fake, PCO_MISSING, 0},
      {"attach", "a sandbox lives in its process", PCO_MISSING, 0},
      {"detach", "a sandbox lives in its process", PCO_MISSING, 0},
      {"pause", fake, PCO_MISSING, 0},
      {"snapshot", fake, PCO_MISSING, 0},
      {"forward", "commands have no network", PCO_MISSING, 0},
  };
  pco_probe_result result = pco_probe_result_init();
  result.caps = PCO_CAP_LIST;
  result.capabilities = capabilities;
  result.n_capabilities = sizeof capabilities / sizeof *capabilities;
  b->host->complete(b->host, op, &result);
  return 0;
}

static const void *null_get_extension(pco_backend *b, const char *id) {
  (void)b;
  return pco_streq(id, PCO_FS_ID) ? &null_fs_api : NULL;
}

/* ---- the entry ---------------------------------------------------------- */

static const pco_backend_api api = {
    .struct_size = sizeof api,
    .open = null_open,
    .close = null_close,
    .probe = null_probe,
    .get_extension = null_get_extension,
    .create = null_create,
    .list = null_list,
    .destroy = null_destroy,
    .destroy_id = null_destroy_id,
    .spawn = null_spawn,
    .wait = null_wait,
    .signal = null_signal,
    .write = null_write,
    .close_stdin = null_close_stdin,
    .read_start = null_read_start,
    .read_stop = null_read_stop,
    .release_process = null_release_process,
};

static const pco_backend_info info = {
    .struct_size = sizeof info,
    .id = "null",
    .summary = "sandboxes in memory with six commands, for tests",
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
