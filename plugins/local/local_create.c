/* SPDX-License-Identifier: MIT */
/*
 * The beginning of a local sandbox; see local.h.
 *
 * create() asks the file system directly, on the loop's thread: at most about
 * fifteen calls (realpath, stat, mkdir, one small read of /etc/passwd), all of
 * them of a local disk unless the caller names a workspace elsewhere.  That is
 * less than handing them to another thread would cost, and an exec follows
 * anyway.
 *
 * All or nothing: `plan` is what the sandbox is to be and what was made for it
 * so far; whatever fails, plan_undo() takes it back.  The agent is started
 * last, after everything that could fail.
 */
#include "local.h"

#include "../common/environment.h"
#include "../common/user.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct plan {
  char dir[PATH_MAX];       /* private; "" before it is made */
  char tmp[PATH_MAX];       /* in it */
  char workspace[PATH_MAX]; /* in it, or the one that was given */
  bool own_workspace;
  char root[PATH_MAX];    /* without links */
  const char *root_given; /* the same as the user wrote it */
  char cwd[PATH_MAX];     /* without links */
  char user[256];
  plugin_environment env;
} plan;

/* ---- options ------------------------------------------------------------ */

static int check_options(const pco_create_opts *o, const plan *p,
                         pco_error *err) {
  const uint32_t can =
      PCO_WANTS_CWD | PCO_WANTS_ENV | PCO_WANTS_USER | PCO_WANTS_NETWORK;
  static const char *const known[] = {"workspace", "root", NULL};
  uint32_t cannot = pco_create_wanted(o) & ~can;
  if (cannot & PCO_WANTS_DETACHABLE)
    return plugin_fail(
        err, PCO_EUNSUPPORTED,
        "local cannot do 'detachable': its sandboxes end with the "
        "process that made them; use a remote backend");
  if (cannot)
    return plugin_fail(err, PCO_EUNSUPPORTED,
                       "local cannot do '%s': it runs plain processes of this "
                       "machine; use bwrap",
                       pco_wants_name(cannot));
  if (o->network && !pco_streq(o->network, "host"))
    return plugin_fail(
        err, PCO_EUNSUPPORTED,
        "local cannot do network = '%.64s': its commands have the "
        "host's network ('host'); use bwrap",
        o->network);
  char number[32];
  snprintf(number, sizeof number, "%lu", (unsigned long)geteuid());
  if (o->user && !pco_streq(o->user, p->user) && !pco_streq(o->user, number))
    return plugin_fail(
        err, PCO_EUNSUPPORTED,
        "local cannot do user = '%.64s': its commands run as '%.64s'; "
        "use bwrap",
        o->user, p->user);
  int rc = plugin_check_name(o->name, err);
  if (rc < 0)
    return rc;
  if (pco_setting_get(o->settings, o->n_settings, "tmpdir"))
    return plugin_fail(err, UV_EINVAL,
                       "'tmpdir' is a setting of the backend, not of one "
                       "sandbox: open(\"local\", {tmpdir = ...}), or "
                       "sandbox{backend_settings = {tmpdir = ...}}");
  return pco_settings_check(o->settings, o->n_settings, known, err);
}

/* ---- directories -------------------------------------------------------- */

/* Resolves a directory that must exist. */
static int find_dir(const char *what, const char *path, char out[PATH_MAX],
                    pco_error *err) {
  struct stat st;
  if (!realpath(path, out) || stat(out, &st) < 0) {
    int rc = -errno;
    return plugin_fail(err, rc, "%s %.300s: %s", what, path, uv_strerror(rc));
  }
  if (!S_ISDIR(st.st_mode))
    return plugin_fail(err, UV_ENOTDIR, "%s %.300s is not a directory", what,
                       path);
  return 0;
}

static int find_absolute_dir(const char *what, const char *path,
                             char out[PATH_MAX], pco_error *err) {
  if (*path != '/')
    return plugin_fail(err, UV_EINVAL, "%s '%.300s' is not an absolute path",
                       what, path);
  int rc = find_dir(what, path, out, err);
  if (rc < 0)
    err->path = path; /* the settings' or the plan's: they live on */
  return rc;
}

static int join(char out[PATH_MAX], const char *a, const char *b) {
  int n = snprintf(out, PATH_MAX, "%s/%s", a, b);
  return n < 0 || n >= PATH_MAX ? UV_ENAMETOOLONG : 0;
}

static int make_dirs(plan *p, const char *tmpdir, pco_error *err) {
  char real[PATH_MAX], made[PATH_MAX], name[64];
  int rc = find_dir("tmpdir", tmpdir, real, err);
  if (rc < 0)
    return rc;
  snprintf(name, sizeof name, "portico-local-%ld-XXXXXX", (long)getpid());
  rc = join(made, pco_streq(real, "/") ? "" : real, name);
  if (rc == 0 && !mkdtemp(made)) /* 0700 */
    rc = -errno;
  if (rc < 0)
    return plugin_fail(err, rc, "cannot make a directory in %.300s: %s", real,
                       uv_strerror(rc));
  memcpy(p->dir, made, sizeof made);
  rc = join(p->tmp, p->dir, "tmp");
  if (rc == 0 && mkdir(p->tmp, 0700) < 0)
    rc = -errno;
  if (rc == 0 && p->own_workspace) {
    rc = join(p->workspace, p->dir, "workspace");
    if (rc == 0 && mkdir(p->workspace, 0700) < 0)
      rc = -errno;
  }
  return rc < 0
             ? plugin_fail(err, rc, "cannot make the directories of %.300s: %s",
                           p->dir, uv_strerror(rc))
             : 0;
}

/* Root and working directory; the private ones exist. */
static int find_places(plan *p, const pco_create_opts *o, pco_error *err) {
  const char *workspace =
      pco_setting_get(o->settings, o->n_settings, "workspace");
  const char *root = pco_setting_get(o->settings, o->n_settings, "root");
  char joined[PATH_MAX];
  p->root_given = root ? root : workspace ? workspace : p->workspace;
  int rc = find_absolute_dir("root", p->root_given, p->root, err);
  if (rc < 0)
    return rc;
  const char *cwd = o->cwd ? o->cwd : ".";
  if (*cwd != '/' && join(joined, p->workspace, cwd) < 0)
    return plugin_fail(err, UV_ENAMETOOLONG, "cwd %.300s: the path is too long",
                       cwd);
  rc = find_dir("cwd", *cwd == '/' ? cwd : joined, p->cwd, err);
  if (rc == 0 && !plugin_is_inside(p->cwd, p->root))
    rc = plugin_fail(
        err, UV_EACCES,
        "cwd %.200s is outside the root %.200s; choose one inside, or "
        "the setting root = \"/\"",
        p->cwd, p->root);
  return rc;
}

/* The agent was never there, so the directories are empty. */
static void plan_undo(plan *p) {
  if (*p->dir) {
    if (p->own_workspace && *p->workspace)
      rmdir(p->workspace);
    if (*p->tmp)
      rmdir(p->tmp);
    rmdir(p->dir);
  }
}

/* ---- environment -------------------------------------------------------- */

static int make_env(plan *p, const pco_create_opts *o, pco_error *err) {
  int rc = plugin_environment_base(&p->env, p->workspace, p->tmp, p->user);
  if (rc == 0)
    rc = plugin_environment_apply(&p->env, o->env, err);
  return rc == UV_ENOMEM ? plugin_fail(err, rc, NULL) : rc;
}

/* ---- the agent ---------------------------------------------------------- */

/* Starts it with one end of a stream; the other is *stream. */
static int start(pco_backend *b, const plan *p, int *stream, int32_t *pidfd,
                 pco_error *err) {
  const char *argv[] = {"portico-agent", "--fd",    "3",           "--root",
                        p->root,         "--alias", p->root_given, "--remove",
                        p->dir,          NULL};
  int pair[2] = {-1, -1};
  int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
  int rc = null_fd < 0 ||
                   socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0
               ? -errno
               : 0;
  if (rc < 0) {
    plugin_fail(err, rc, "cannot make a stream to the agent: %s",
                uv_strerror(rc));
  } else {
    int32_t fds[] = {null_fd, null_fd, null_fd, pair[1]};
    rc = plugin_start_agent(&b->services, argv,
                            (const char *const *)p->env.items, p->cwd, fds, 4,
                            pidfd, err);
  }
  if (null_fd >= 0)
    close(null_fd);
  if (pair[1] >= 0)
    close(pair[1]);
  if (rc < 0 && pair[0] >= 0)
    close(pair[0]);
  *stream = rc < 0 ? -1 : pair[0];
  return rc;
}

/* ---- create ------------------------------------------------------------- */

static int make_plan(pco_backend *b, const pco_create_opts *o, plan *p,
                     pco_error *err) {
  const char *workspace =
      pco_setting_get(o->settings, o->n_settings, "workspace");
  plugin_user_name(geteuid(), p->user, sizeof p->user);
  p->own_workspace = !workspace;
  int rc = check_options(o, p, err);
  if (rc == 0 && workspace)
    rc = find_absolute_dir("workspace", workspace, p->workspace, err);
  if (rc == 0)
    rc = make_dirs(p, b->tmpdir, err);
  if (rc == 0)
    rc = find_places(p, o, err);
  if (rc == 0)
    rc = make_env(p, o, err);
  return rc;
}

static pco_sandbox *sandbox_create(pco_backend *b, const pco_create_opts *o,
                                   const plan *p) {
  pco_sandbox *s = calloc(1, sizeof *s);
  if (!s)
    return NULL;
  s->backend = b;
  s->dir = strdup(p->dir);
  s->workspace = strdup(p->workspace);
  s->ending = local_ending_create();
  if (plugin_entry_init(&s->entry, o) == 0 && s->dir && s->workspace &&
      s->ending)
    return s;
  local_ending_free(s->ending);
  local_sandbox_free(s);
  return NULL;
}

static int start_sandbox(pco_backend *b, const pco_create_opts *o,
                         const plan *p, pco_sandbox **out, int *stream,
                         pco_error *err) {
  pco_sandbox *s = sandbox_create(b, o, p);
  if (!s)
    return plugin_fail(err, UV_ENOMEM, NULL);
  int32_t pidfd = -1;
  int rc = plugin_table_add(&local_table, &s->entry, o->name, "local", err);
  if (rc == 0) {
    rc = start(b, p, stream, &pidfd, err);
    if (rc < 0)
      plugin_table_remove(&local_table, &s->entry);
  }
  if (rc < 0) {
    local_ending_free(s->ending);
    local_sandbox_free(s);
    return rc;
  }
  plugin_table_set_pidfd(&local_table, &s->entry, pidfd);
  s->next = b->sandboxes;
  b->sandboxes = s;
  *out = s;
  return 0;
}

int local_create(pco_backend *b, const pco_create_opts *o, pco_op *op) {
  if (o->flags & ~(PCO_CREATE_STRICT | PCO_CREATE_DETACHABLE))
    return UV_EINVAL;
  char room[PCO_MESSAGE_MAX];
  pco_error err = pco_error_in(room, sizeof room);
  pco_sandbox *s = NULL;
  int stream = -1;
  plan *p = calloc(1, sizeof *p);
  int rc = p ? make_plan(b, o, p, &err) : plugin_fail(&err, UV_ENOMEM, NULL);
  if (rc == 0)
    rc = start_sandbox(b, o, p, &s, &stream, &err);
  if (rc < 0) {
    if (p)
      plan_undo(p);
    if (!err.message && rc != UV_ENOMEM)
      plugin_fail(&err, rc, "cannot start the agent: %s", uv_strerror(rc));
    err.code = rc;
    b->host->fail(b->host, op, &err);
  } else {
    pco_sandbox_result result = pco_sandbox_result_init();
    result.flags = PCO_SANDBOX_HAS_AGENT;
    result.sandbox = s;
    result.id = s->entry.id;
    result.agent_fd = stream;
    result.cwd = p->cwd;
    b->host->complete(b->host, op, &result);
  }
  if (p)
    plugin_environment_deinit(&p->env);
  free(p);
  return 0;
}
