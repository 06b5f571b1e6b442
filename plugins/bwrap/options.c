/* SPDX-License-Identifier: MIT */
/*
 * What create() is asked for, checked, as a bwrap_plan.
 *
 * A mount's source is resolved here, on the loop's thread, with a handful of
 * system calls each; it is what the caller named, and the caller's machine.
 */
#include "bwrap.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MIN_DISK   (UINT64_C(1) << 20)
#define MIN_MEMORY (UINT64_C(4) << 20)
#define MIN_INODES 4096u
#define MIN_CPUS   0.01
#define MAX_CPUS   100000.0
#define MAX_INODES (UINT64_C(1) << 20)
#define MAX_MOUNTS 1000u
/* bubblewrap puts its new root before it */
#define MAX_TARGET (PATH_MAX - 64)

/* ---- bubblewrap itself -------------------------------------------------- */

/* Where distributions put it; the PATH of the host is not ours to read. */
static const char *const programs[] = {"/usr/bin/bwrap", "/usr/local/bin/bwrap",
                                       "/bin/bwrap", NULL};

static int find_program(pco_backend *b, bwrap_plan *p, pco_error *err) {
  p->program = b->program;
  for (size_t i = 0; !p->program && programs[i]; i++)
    if (access(programs[i], X_OK) == 0)
      p->program = programs[i];
  if (p->program && access(p->program, X_OK) == 0)
    return 0;
  if (p->program && access(p->program, F_OK) == 0)
    return plugin_fail(err, PCO_EUNAVAILABLE,
                       "cannot execute %s: permission denied" BWRAP_OTHERWISE,
                       p->program);
  return plugin_fail(
      err, PCO_EUNAVAILABLE,
      "bubblewrap is not installed (%s is not there): install the "
      "package bubblewrap" BWRAP_OTHERWISE,
      b->program ? b->program : programs[0]);
}

/* ---- mounts ------------------------------------------------------------- */

static bool touches(const char *path, const char *dir) {
  return plugin_is_inside(path, dir) || plugin_is_inside(dir, path);
}

void bwrap_own_dir(char out[PATH_MAX]) {
  Dl_info info;
  if (!dladdr(&pco_plugin_entry_v0, &info) || !realpath(info.dli_fname, out))
    out[0] = '\0';
  char *slash = strrchr(out, '/');
  if (slash)
    *slash = '\0';
}

/* What runs on the host, from the directory of this plugin on.  Somebody who
 * could write there could write what runs outside. */
static const struct {
  const char *path;
  bool other_things; /* it is not only ours: what lies in it may be shown */
  bool only_written; /* there is nothing to be learned from it */
} own_places[] = {{"", false, false},
                  {"/../..", true, false},
                  {"/" BWRAP_AGENT_DIR, false, false},
                  {"/" BWRAP_LUA_DIR, false, true},
                  {"/" BWRAP_CORE_DIR, false, true},
                  {"/" BWRAP_COMMAND, false, true}};

/* Spells a path without links; with one as last component if it is `kept`. */
static bool spell(const char *path, bool kept, char out[PATH_MAX]) {
  char parent[PATH_MAX];
  const char *name = strrchr(path, '/');
  if (!kept)
    return realpath(path, out);
  snprintf(parent, sizeof parent, "%.*s", (int)(name - path), path);
  if (!realpath(parent, out))
    return false;
  size_t len = strlen(out);
  return snprintf(out + len, PATH_MAX - len, "%s", name) <
         (int)(PATH_MAX - len);
}

/* Who can replace a link to it has it too. */
static bool is_place(size_t i, const char *source, bool kept) {
  char dir[PATH_MAX], path[PATH_MAX + 128], real[PATH_MAX];
  bwrap_own_dir(dir);
  snprintf(path, sizeof path, "%s%s", dir, own_places[i].path);
  if (!*dir || !spell(path, kept, real))
    return false;
  return own_places[i].other_things ? plugin_is_inside(real, source)
                                    : touches(source, real);
}

static bool is_own(const pco_backend *b, const char *source, bool read_only) {
  char real[PATH_MAX];
  for (size_t i = 0; i < sizeof own_places / sizeof *own_places; i++) {
    if (read_only && own_places[i].only_written)
      continue;
    if (is_place(i, source, false) ||
        (own_places[i].only_written && is_place(i, source, true)))
      return true;
  }
  return touches(source, b->cache) ||
         (realpath(b->cache, real) && touches(source, real));
}

/* The keeper puts the sandbox together there: what contains that would show all
 * that is mounted once more, and writable. */
static bool has_stage(const char *source) {
  char real[PATH_MAX];
  return plugin_is_inside(PCO_KEEPER_STAGE, source) ||
         (realpath(PCO_KEEPER_STAGE, real) && plugin_is_inside(real, source));
}

static bool is_plain_path(const char *path) {
  if (*path != '/' || !path[1])
    return false;
  for (const char *at = path; *at; at += strcspn(at, "/")) {
    at += strspn(at, "/");
    size_t len = strcspn(at, "/");
    if (len == 0 || (len == 1 && *at == '.') ||
        (len == 2 && at[0] == '.' && at[1] == '.'))
      return false;
  }
  return true;
}

static int check_target(const char *target, pco_error *err) {
  static const char *const kept[] = {"/proc", "/dev", "/sys"};
  if (!is_plain_path(target))
    return plugin_fail(
        err, UV_EINVAL,
        "mounts: the target '%.300s' is not an absolute path without "
        "'.', '..' and an end in '/'",
        target);
  if (strlen(target) > MAX_TARGET)
    return plugin_fail(err, UV_ENAMETOOLONG,
                       "mounts: the target %.200s... is longer than a path may "
                       "be",
                       target);
  for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
    if (plugin_is_inside(target, kept[i]))
      return plugin_fail(
          err, UV_EINVAL,
          "mounts: the target '%.300s' is in %s, which every sandbox "
          "has of its own",
          target, kept[i]);
  return 0;
}

/* Whoever reaches the door of a sandbox with this user's id may use it. */
static int check_doors(const pco_backend *b, const char *what,
                       const char *source, const char *as, pco_error *err) {
  const char *const settings[] = {b->state, NULL};
  char path[PATH_MAX], real[PATH_MAX];
  for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
    if (plugin_state_path(settings[i], path, NULL) == 0 &&
        (touches(source, path) ||
         (spell(path, true, real) && touches(source, real))))
      return plugin_fail(err, UV_EACCES,
                         "%s %.200s is, contains or lies in %.150s, from where "
                         "the sandboxes of this user can be reached; choose "
                         "another",
                         what, as, path);
  return 0;
}

static int add_mount(bwrap_plan *p, const pco_backend *b, const pco_mount *m,
                     pco_error *err) {
  char real[PATH_MAX];
  int rc = check_target(m->target, err);
  if (rc < 0)
    return rc;
  if (*m->source != '/')
    return plugin_fail(err, UV_EINVAL,
                       "mounts: the source '%.300s' is not an absolute path",
                       m->source);
  if (!realpath(m->source, real)) {
    rc = -errno;
    plugin_fail(err, rc, "mounts: the source %.300s: %s", m->source,
                uv_strerror(rc));
    err->path = m->source;
    return rc;
  }
  if (has_stage(real))
    return plugin_fail(
        err, UV_EACCES,
        "mounts: the source %.300s is or contains " PCO_KEEPER_STAGE
        ", where sandboxes are put together; choose what you need of it",
        m->source);
  if (is_own(b, real, m->flags & PCO_MOUNT_READ_ONLY))
    return plugin_fail(
        err, UV_EACCES,
        "mounts: the source %.300s is, contains or lies in a directory "
        "of Portico's own; choose another",
        m->source);
  if (!bwrap_is_weak(p, "doors"))
    rc = check_doors(b, "mounts: the source", real, m->source, err);
  if (rc < 0)
    return rc;
  bwrap_mount *to = &p->mounts[p->n_mounts++];
  to->source = strdup(real);
  to->target = strdup(m->target);
  to->read_only = m->flags & PCO_MOUNT_READ_ONLY;
  return to->source && to->target ? 0 : UV_ENOMEM;
}

/* What lies in a mount may have been written by who runs in a sandbox: links
 * in it would lead bubblewrap, which makes the places of mounts, out. */
static int check_nesting(const bwrap_plan *p, pco_error *err) {
  for (size_t i = 0; i < p->n_mounts; i++)
    for (size_t j = 0; j < p->n_mounts; j++)
      if (i != j && plugin_is_inside(p->mounts[i].target, p->mounts[j].target))
        return plugin_fail(
            err, UV_EINVAL,
            "mounts: the target '%.200s' lies in that of another "
            "mount, '%.200s'; give it a place outside",
            p->mounts[i].target, p->mounts[j].target);
  return 0;
}

static int add_mounts(bwrap_plan *p, const pco_backend *b,
                      const pco_create_opts *o, pco_error *err) {
  if (o->n_mounts > MAX_MOUNTS)
    return plugin_fail(err, UV_EINVAL, "mounts: more than %u", MAX_MOUNTS);
  p->mounts = calloc(o->n_mounts + 1, sizeof *p->mounts);
  int rc = p->mounts ? 0 : UV_ENOMEM;
  for (size_t i = 0; rc == 0 && i < o->n_mounts; i++) {
    if (o->mounts[i].flags & ~PCO_MOUNT_READ_ONLY)
      return UV_EINVAL;
    rc = add_mount(p, b, &o->mounts[i], err);
  }
  return rc == 0 ? check_nesting(p, err) : rc;
}

/* ---- limits ------------------------------------------------------------- */

static int check_limits(bwrap_plan *p, const pco_limits *l, pco_error *err) {
  p->disk = BWRAP_DISK;
  if (l) {
    p->limits = *l;
    if (l->disk_bytes)
      p->disk = l->disk_bytes;
  }
  if (p->limits.cpus != 0 &&
      !(p->limits.cpus >= MIN_CPUS && p->limits.cpus <= MAX_CPUS))
    return plugin_fail(err, UV_EINVAL, "limits.cpus is not from %g to %g",
                       MIN_CPUS, MAX_CPUS);
  if (p->disk < MIN_DISK)
    return plugin_fail(err, UV_EINVAL, "limits.disk is less than 1 MiB");
  if (p->limits.memory_bytes && p->limits.memory_bytes < MIN_MEMORY)
    return plugin_fail(err, UV_EINVAL, "limits.memory is less than 4 MiB");
  p->inodes = p->disk / 4096;
  if (p->inodes < MIN_INODES)
    p->inodes = MIN_INODES;
  if (p->inodes > MAX_INODES)
    p->inodes = MAX_INODES;
  return 0;
}

/* ---- everything else ---------------------------------------------------- */

static int check_wants(const pco_create_opts *o, pco_error *err) {
  const uint32_t cannot = PCO_WANTS_IDLE_TTL | PCO_WANTS_SNAPSHOT;
  uint32_t all = pco_create_wanted(o), wants = all & cannot;
  if ((all & PCO_WANTS_TTL) && !(all & PCO_WANTS_DETACHABLE))
    return plugin_fail(
        err, PCO_EUNSUPPORTED,
        "bwrap cannot do 'ttl' without detachable = true: such a "
        "sandbox ends with the program that made it");
  if (wants)
    return plugin_fail(err, PCO_EUNSUPPORTED, "bwrap cannot do '%s'",
                       pco_wants_name(wants));
  if (o->network && !pco_streq(o->network, "none") &&
      !pco_streq(o->network, "host"))
    return plugin_fail(err, PCO_EUNSUPPORTED,
                       "bwrap cannot do network = '%.64s'; it has 'none' (the "
                       "default) and 'host'",
                       o->network);
  if (o->user && !pco_streq(o->user, BWRAP_USER) && !pco_streq(o->user, "1000"))
    return plugin_fail(
        err, PCO_EUNSUPPORTED,
        "bwrap cannot do user = '%.64s': its commands run as the user "
        "'" BWRAP_USER "', which is nobody on the host",
        o->user);
  return plugin_check_name(o->name, err);
}

/* What is set for a backend cannot be for one of its sandboxes. */
static int check_misplaced(const pco_pair *settings, size_t n, pco_error *err) {
  for (size_t i = 0; i < n; i++)
    for (size_t j = 0; bwrap_settings[j]; j++)
      if (pco_streq(settings[i].key, bwrap_settings[j]))
        return plugin_fail(err, UV_EINVAL,
                           "'%s' is a setting of the backend, not of one "
                           "sandbox: open(\"bwrap\", {%s = ...}), or "
                           "sandbox{backend_settings = {%s = ...}}",
                           settings[i].key, settings[i].key, settings[i].key);
  return 0;
}

static int check_settings(bwrap_plan *p, const pco_create_opts *o,
                          pco_error *err) {
#ifdef PCO_BWRAP_WEAK
  static const char *const known[] = {"weaken", NULL};
#else
  static const char *const known[] = {NULL};
#endif
  int rc = check_misplaced(o->settings, o->n_settings, err);
  if (rc == 0)
    rc = pco_settings_check(o->settings, o->n_settings, known, err);
  const char *weaken = pco_setting_get(o->settings, o->n_settings, "weaken");
  if (rc < 0 || !weaken)
    return rc;
  p->weaken = strdup(weaken);
  return p->weaken ? 0 : UV_ENOMEM;
}

/* Relative to the workspace; whether it is there is found out inside. */
static int set_cwd(bwrap_plan *p, const char *cwd, pco_error *err) {
  size_t size = strlen(cwd) + sizeof BWRAP_WORKSPACE + 1;
  if (size > PATH_MAX)
    return plugin_fail(err, UV_ENAMETOOLONG,
                       "cwd %.200s... is longer than a path may be", cwd);
  p->cwd = malloc(size);
  if (!p->cwd)
    return UV_ENOMEM;
  snprintf(p->cwd, size, *cwd == '/' ? "%s%s" : "%s/%s",
           *cwd == '/' ? "" : BWRAP_WORKSPACE, cwd);
  return 0;
}

static int set_image(bwrap_plan *p, const pco_backend *b, const char *image,
                     pco_error *err) {
  int rc = image ? bwrap_image_open(&p->image, image, err) : 0;
  if (rc == 0 && p->image.path && is_own(b, p->image.path, true))
    rc = plugin_fail(
        err, UV_EACCES,
        "image %.300s is, contains or lies in a directory of Portico's "
        "own; choose another",
        image);
  if (rc == 0 && p->image.path)
    rc = check_doors(b, "image", p->image.path, image, err);
  return rc;
}

static int set_env(bwrap_plan *p, const char *const *changes, pco_error *err) {
  int rc = plugin_environment_base(&p->env, BWRAP_HOME, "/tmp", BWRAP_USER);
  return rc == 0 ? plugin_environment_apply(&p->env, changes, err) : rc;
}

int bwrap_plan_init(bwrap_plan *p, pco_backend *b, const pco_create_opts *o,
                    pco_error *err) {
  memset(p, 0, sizeof *p);
  int rc = check_wants(o, err);
  if (rc == 0)
    rc = check_settings(p, o, err);
  if (rc == 0)
    rc = check_limits(p, o->limits, err);
  if (rc == 0)
    rc = add_mounts(p, b, o, err);
  if (rc == 0)
    rc = set_image(p, b, o->image, err);
  if (rc == 0)
    rc = set_cwd(p, o->cwd ? o->cwd : BWRAP_WORKSPACE, err);
  if (rc == 0)
    rc = set_env(p, o->env, err);
  p->strict = o->flags & PCO_CREATE_STRICT;
  p->host_network = pco_streq(o->network, "host");
  if (rc == 0)
    rc = find_program(b, p, err);
  if (rc == 0)
    rc = bwrap_choose_ids(b, p, err);
  return rc;
}

int bwrap_plan_init_command(bwrap_plan *p, pco_backend *b,
                            const char *const *command, pco_error *err) {
  pco_create_opts o = pco_create_opts_init();
  int rc = bwrap_plan_init(p, b, &o, err);
  p->command = command;
  return rc;
}

int bwrap_plan_work_in(bwrap_plan *p, const char *dir) {
  /* What it writes is to be this user's. */
  p->two_ids = p->two_ids && geteuid() == 0;
  bwrap_mount *m = calloc(1, sizeof *m);
  if (!m)
    return UV_ENOMEM;
  p->no_agent = true;
  m->source = realpath(dir, NULL);
  m->target = strdup("/unpack");
  free(p->mounts); /* there are none */
  p->mounts = m;
  p->n_mounts = 1;
  free(p->cwd);
  p->cwd = strdup("/unpack");
  return !m->source ? -errno : m->target && p->cwd ? 0 : UV_ENOMEM;
}

void bwrap_plan_deinit(bwrap_plan *p) {
  for (size_t i = 0; i < p->n_mounts; i++) {
    free(p->mounts[i].source);
    free(p->mounts[i].target);
  }
  free(p->mounts);
  bwrap_image_deinit(&p->image);
  free(p->cwd);
  free(p->weaken);
  plugin_environment_deinit(&p->env);
  memset(p, 0, sizeof *p);
}
