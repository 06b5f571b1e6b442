/* SPDX-License-Identifier: MIT */
/*
 * The beginning of a local sandbox; see local.h.
 *
 * create() asks the file system directly, on the loop's thread: at most about
 * twenty calls (realpath, stat, mkdir, small reads of /etc/passwd), all of
 * them of a local disk unless the caller names a workspace elsewhere.  That is
 * less than handing them to another thread would cost, and an exec follows
 * anyway.
 *
 * All or nothing: `plan` is what the sandbox is to be and what was made for it
 * so far; whatever fails, plan_undo() takes it back.  Nothing is left either if
 * this process is killed on the way: the agent is started before its directory
 * is made, removes that in the end, and begins only when it is told to.
 */
#include "local.h"

#include "../common/environment.h"
#include "../common/path.h"
#include "../common/private_dir.h"
#include "../common/user.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct plan {
  char tmpdir[PATH_MAX];    /* without links */
  char dir[PATH_MAX];       /* private; in it */
  char tmp[PATH_MAX];       /* in it */
  char workspace[PATH_MAX]; /* in it, or the one that was given */
  bool own_workspace;
  bool made;              /* dir, at least */
  char root[PATH_MAX];    /* without links */
  const char *root_given; /* the same as the user wrote it */
  char cwd[PATH_MAX];     /* without links */
  plugin_user user;       /* of commands */
  bool foreign;           /* that is not this one: the agent becomes it */
  plugin_environment env;
} plan;

/* ---- options ------------------------------------------------------------ */

/* Finds whom commands run as: somebody else only where there is the right. */
static int choose_user(plan *p, const char *user, pco_error *err) {
  char number[32];
  plugin_user *own = &p->user;
  own->uid = geteuid();
  plugin_user_name(own->uid, own->name, sizeof own->name);
  snprintf(number, sizeof number, "%lu", (unsigned long)own->uid);
  if (!user || pco_streq(user, own->name) || pco_streq(user, number))
    return 0;
  if (!local_may_change_user())
    return plugin_fail(
        err, PCO_EUNSUPPORTED,
        "local cannot do user = '%.64s': its commands run as '%.64s', others "
        "need root; use bwrap",
        user, own->name);
  p->foreign = plugin_user_find(user, &p->user);
  return p->foreign
             ? 0
             : plugin_fail(
                   err, UV_EINVAL,
                   "user '%.64s' is not in /etc/passwd%s; a user may "
                   "be \"USER\" or \"USER:GROUP\", of names or numbers",
                   user,
                   strchr(user, ':') ? ", or its group not in /etc/group" : "");
}

static int check_options(const pco_create_opts *o, plan *p, pco_error *err) {
  const uint32_t can = PCO_WANTS_CWD | PCO_WANTS_ENV | PCO_WANTS_USER |
                       PCO_WANTS_NETWORK | PCO_WANTS_DETACHABLE;
  static const char *const known[] = {"workspace", "root", NULL};
  static const char *const misplaced[] = {"tmpdir", "state", NULL};
  uint32_t wants = pco_create_wanted(o), cannot = wants & ~can;
  if (wants & PCO_WANTS_DETACHABLE)
    cannot &= ~(uint32_t)PCO_WANTS_TTL;
  else if (cannot & PCO_WANTS_TTL)
    return plugin_fail(
        err, PCO_EUNSUPPORTED,
        "local cannot do 'ttl' without detachable = true: such a "
        "sandbox ends with the program that made it");
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
  int rc = choose_user(p, o->user, err);
  if (rc == 0)
    rc = plugin_check_name(o->name, err);
  if (rc < 0)
    return rc;
  for (size_t i = 0; misplaced[i]; i++)
    if (pco_setting_get(o->settings, o->n_settings, misplaced[i]))
      return plugin_fail(err, UV_EINVAL,
                         "'%s' is a setting of the backend, not of one "
                         "sandbox: open(\"local\", {%s = ...}), or "
                         "sandbox{backend_settings = {%s = ...}}",
                         misplaced[i], misplaced[i], misplaced[i]);
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

/* Names that nobody has; nothing is made yet. */
static int choose_dirs(plan *p, const char *tmpdir, pco_error *err) {
  char name[64];
  uint64_t random;
  int rc = find_dir("tmpdir", tmpdir, p->tmpdir, err);
  if (rc < 0)
    return rc;
  if (getrandom(&random, sizeof random, GRND_NONBLOCK) != sizeof random)
    random = uv_hrtime();
  snprintf(name, sizeof name, "portico-local-%ld-%012llx", (long)getpid(),
           (unsigned long long)random >> 16);
  rc = join(p->dir, pco_streq(p->tmpdir, "/") ? "" : p->tmpdir, name);
  if (rc == 0)
    rc = join(p->tmp, p->dir, "tmp");
  if (rc == 0 && p->own_workspace)
    rc = join(p->workspace, p->dir, "workspace");
  return rc < 0 ? plugin_fail(err, rc, "tmpdir %.300s: the path is too long",
                              p->tmpdir)
                : 0;
}

static int give_child(const plan *p, int dir, const char *name) {
  return fchownat(dir, name, p->user.uid, p->user.gid, AT_SYMLINK_NOFOLLOW);
}

/* Makes them the user's.  Nobody else can do anything in there until the last
 * step, and none goes by a name that others might have changed. */
static int give_dirs(const plan *p, pco_error *err) {
  int dir = open(p->dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  bool ok = dir >= 0 && give_child(p, dir, "tmp") == 0 &&
            (!p->own_workspace || give_child(p, dir, "workspace") == 0) &&
            fchown(dir, p->user.uid, p->user.gid) == 0;
  int rc = ok ? 0 : -errno;
  if (dir >= 0)
    close(dir);
  return ok ? 0
            : plugin_fail(err, rc, "cannot give %.300s to the user '%.64s': %s",
                          p->dir, p->user.name, uv_strerror(rc));
}

static int make_dirs(plan *p, pco_error *err) {
  int rc = plugin_make_private(AT_FDCWD, p->dir);
  if (rc < 0)
    return plugin_fail(err, rc, "cannot make a directory in %.300s: %s",
                       p->tmpdir, uv_strerror(rc));
  p->made = true;
  rc = plugin_make_private(AT_FDCWD, p->tmp);
  if (rc == 0 && p->own_workspace)
    rc = plugin_make_private(AT_FDCWD, p->workspace);
  if (rc < 0)
    return plugin_fail(err, rc, "cannot make the directories of %.300s: %s",
                       p->dir, uv_strerror(rc));
  return p->foreign ? give_dirs(p, err) : 0;
}

/* Whether it will be one of the directories that are to be made. */
static bool is_planned(const plan *p, const char *path) {
  return pco_streq(path, p->dir) || pco_streq(path, p->tmp) ||
         (p->own_workspace && pco_streq(path, p->workspace));
}

/* Takes "." and ".." and what they undo out of an absolute path: what is to be
 * made has no links in it. */
static void simplify(const char *path, char out[PATH_MAX]) {
  size_t len = 0;
  while (*path) {
    size_t n = strcspn(path, "/");
    if (n == 2 && memcmp(path, "..", 2) == 0)
      while (len > 0 && out[--len] != '/')
        ;
    else if (n > 0 && !(n == 1 && *path == '.')) {
      out[len++] = '/';
      memcpy(out + len, path, n);
      len += n;
    }
    path += n + (path[n] == '/');
  }
  if (len == 0)
    out[len++] = '/';
  out[len] = '\0';
}

static int find_cwd(plan *p, const char *cwd, pco_error *err) {
  char joined[PATH_MAX], simple[PATH_MAX];
  if (*cwd != '/' && join(joined, p->workspace, cwd) < 0)
    return plugin_fail(err, UV_ENAMETOOLONG, "cwd %.300s: the path is too long",
                       cwd);
  const char *path = *cwd == '/' ? cwd : joined;
  if (strlen(path) >= sizeof simple)
    return plugin_fail(err, UV_ENAMETOOLONG, "cwd %.300s: the path is too long",
                       cwd);
  simplify(path, simple);
  if (is_planned(p, simple)) {
    memcpy(p->cwd, simple, sizeof simple);
    return 0;
  }
  bool leaves =
      p->own_workspace && *cwd != '/' && !plugin_is_inside(simple, p->dir);
  return find_dir("cwd", leaves ? simple : path, p->cwd, err);
}

/* Root and working directory. */
static int find_places(plan *p, const pco_create_opts *o, pco_error *err) {
  const char *workspace =
      pco_setting_get(o->settings, o->n_settings, "workspace");
  const char *root = pco_setting_get(o->settings, o->n_settings, "root");
  p->root_given = root ? root : workspace ? workspace : p->workspace;
  int rc = 0;
  if (is_planned(p, p->root_given))
    memcpy(p->root, p->workspace, sizeof p->workspace);
  else
    rc = find_absolute_dir("root", p->root_given, p->root, err);
  if (rc == 0)
    rc = find_cwd(p, o->cwd ? o->cwd : ".", err);
  if (rc == 0 && !plugin_is_inside(p->cwd, p->root))
    rc = plugin_fail(
        err, UV_EACCES,
        "cwd %.200s is outside the root %.200s; choose one inside, or "
        "the setting root = \"/\"",
        p->cwd, p->root);
  return rc;
}

/* No agent has begun, so the directories are empty. */
static void plan_undo(const plan *p) {
  if (!p->made)
    return;
  if (p->own_workspace)
    rmdir(p->workspace);
  rmdir(p->tmp);
  rmdir(p->dir);
}

/* ---- environment -------------------------------------------------------- */

static int make_env(plan *p, const pco_create_opts *o, pco_error *err) {
  int rc = plugin_environment_base(&p->env, p->workspace, p->tmp, p->user.name);
  if (rc == 0 && p->foreign)
    rc = plugin_environment_set(&p->env, "LOGNAME", p->user.name);
  if (rc == 0)
    rc = plugin_environment_apply(&p->env, o->env, err);
  return rc == UV_ENOMEM ? plugin_fail(err, rc, NULL) : rc;
}

/* ---- the agent ---------------------------------------------------------- */

/* Its options, and the descriptors they speak of. */
typedef struct start_with {
  const char *argv[28];
  size_t n_argv;
  int32_t fds[8];
  size_t n_fds;
  char ttl[24];
  char go[24];
  char user[sizeof((plugin_user *)0)->name + 32];
} start_with;

static void add_option(start_with *w, const char *name, const char *value) {
  w->argv[w->n_argv++] = name;
  w->argv[w->n_argv++] = value;
}

static void add_fd(start_with *w, const char *name, const char *number,
                   int fd) {
  add_option(w, name, number);
  w->fds[w->n_fds++] = fd;
}

static void add_door(start_with *w, const plugin_door *door, double expires) {
  add_fd(w, "--listen", "3", door->listener);
  add_fd(w, "--state", "4", door->state.dir);
  add_fd(w, "--info", "5", door->info);
  add_option(w, "--name", door->name);
  if (expires > 0) {
    snprintf(w->ttl, sizeof w->ttl, "%llu",
             (unsigned long long)plugin_door_ttl(expires));
    add_option(w, "--ttl", w->ttl);
  }
}

static void add_user(start_with *w, const plugin_user *u) {
  snprintf(w->user, sizeof w->user, "%lu:%lu:%s", (unsigned long)u->uid,
           (unsigned long)u->gid, u->name);
  add_option(w, "--user", w->user);
  add_option(w, "--groups", u->one_group ? "one" : "all");
}

/* Starts it with one end of a stream, or with a door if that is -1; it begins
 * when there is a byte in `go`. */
static int start_agent(pco_backend *b, const plan *p, int stream, int go,
                       const pco_sandbox *s, int32_t *pidfd, pco_error *err) {
  start_with w = {.argv = {"portico-agent"}, .n_argv = 1, .n_fds = 3};
  int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null_fd < 0)
    return -errno;
  w.fds[0] = w.fds[1] = w.fds[2] = null_fd;
  if (stream >= 0)
    add_fd(&w, "--fd", "3", stream);
  else
    add_door(&w, s->door, s->entry.expires);
  snprintf(w.go, sizeof w.go, "%zu", w.n_fds);
  add_fd(&w, "--wait", w.go, go);
  add_option(&w, "--cwd", p->cwd);
  add_option(&w, "--root", p->root);
  add_option(&w, "--alias", p->root_given);
  add_option(&w, "--remove", p->dir);
  if (p->foreign)
    add_user(&w, &p->user);
  int rc = plugin_start_agent(&b->services, w.argv,
                              (const char *const *)p->env.items, "/", w.fds,
                              w.n_fds, pidfd, err);
  close(null_fd);
  return rc;
}

/* Its own end is *stream, or -1 of one with a door. */
static int start_with_stream(pco_backend *b, const plan *p, int go,
                             const pco_sandbox *s, int *stream, int32_t *pidfd,
                             pco_error *err) {
  int pair[2];
  *stream = -1;
  if (s->door)
    return start_agent(b, p, -1, go, s, pidfd, err);
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
    return plugin_fail(err, -errno, "cannot make a stream to the agent: %s",
                       uv_strerror(-errno));
  int rc = start_agent(b, p, pair[1], go, s, pidfd, err);
  close(pair[1]);
  if (rc < 0)
    close(pair[0]);
  else
    *stream = pair[0];
  return rc;
}

/* It has not begun, so it dies at once. */
static void take_back(int pidfd, int stream) {
  siginfo_t info;
  plugin_kill(pidfd, SIGKILL);
  while (waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED) < 0 && errno == EINTR)
    ;
  close(pidfd);
  if (stream >= 0)
    close(stream);
}

/* Starts it, makes its directories, and lets it begin. */
static int start(pco_backend *b, plan *p, const pco_sandbox *s, int *stream,
                 int32_t *pidfd, pco_error *err) {
  int go[2];
  if (pipe2(go, O_CLOEXEC) < 0)
    return plugin_fail(err, -errno, "cannot make a pipe to the agent: %s",
                       uv_strerror(-errno));
  int rc = start_with_stream(b, p, go[0], s, stream, pidfd, err);
  if (rc == 0) {
    rc = make_dirs(p, err);
    if (rc == 0 && write(go[1], "", 1) != 1)
      rc = -errno;
    if (rc < 0)
      take_back(*pidfd, *stream);
  }
  close(go[0]);
  close(go[1]);
  return rc;
}

/* ---- create ------------------------------------------------------------- */

static int make_plan(pco_backend *b, const pco_create_opts *o, plan *p,
                     pco_error *err) {
  const char *workspace =
      pco_setting_get(o->settings, o->n_settings, "workspace");
  p->own_workspace = !workspace;
  int rc = check_options(o, p, err);
  if (rc == 0 && workspace)
    rc = find_absolute_dir("workspace", workspace, p->workspace, err);
  if (rc == 0)
    rc = choose_dirs(p, b->tmpdir, err);
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
  s->control = -1;
  s->foreign = p->foreign;
  s->dir = strdup(p->dir);
  s->cwd = strdup(p->cwd);
  s->ending = local_ending_create();
  if (plugin_entry_init(&s->entry, o) == 0 && s->dir && s->cwd && s->ending)
    return s;
  local_ending_free(s->ending);
  local_sandbox_free(s);
  return NULL;
}

/* What one of this id has left that was killed: nobody waits for it. */
static void remove_left(pco_backend *b, char *dir) {
  local_ending *e = dir ? local_ending_create() : NULL;
  if (e)
    local_remove(b, e, dir, NULL);
  else
    free(dir);
}

/* Writes down one that may be detached; the name of another is no matter of
 * other programs, but must be none of such a one. */
static int make_door(pco_sandbox *s, const pco_create_opts *o, pco_error *err) {
  const char *state = s->backend->state;
  plugin_info info = {.cwd = s->cwd, .dir = s->dir};
  char *left;
  if (!(o->flags & PCO_CREATE_DETACHABLE))
    return o->name ? plugin_door_check_free(LOCAL_ID, state, o->name, err) : 0;
  plugin_entry_tell(&s->entry, &info);
  int rc = plugin_door_make(&s->door, LOCAL_ID, state, &info, &left, err);
  remove_left(s->backend, left);
  return rc;
}

static int start_listed(pco_sandbox *s, const pco_create_opts *o, plan *p,
                        int *stream, pco_error *err) {
  int32_t pidfd = -1;
  int rc = make_door(s, o, err);
  if (rc == 0)
    rc = start(s->backend, p, s, stream, &pidfd, err);
  if (rc < 0)
    return rc;
  if (s->door)
    plugin_door_is_kept(s->door, pidfd);
  plugin_table_set_pidfd(&local_table, &s->entry, pidfd);
  return 0;
}

static int start_sandbox(pco_backend *b, const pco_create_opts *o, plan *p,
                         pco_sandbox **out, int *stream, pco_error *err) {
  pco_sandbox *s = sandbox_create(b, o, p);
  if (!s)
    return plugin_fail(err, UV_ENOMEM, NULL);
  int rc = plugin_table_add(&local_table, &s->entry, o->name, LOCAL_ID, err);
  if (rc == 0) {
    rc = start_listed(s, o, p, stream, err);
    if (rc < 0)
      plugin_table_remove(&local_table, &s->entry);
  }
  if (rc < 0) {
    plugin_door_remove(s->door);
    local_ending_free(s->ending);
    local_sandbox_free(s);
    return rc;
  }
  *out = s;
  return 0;
}

/* With a door it has still to be gone in by. */
static void go_on(pco_sandbox *s, int stream, pco_op *op) {
  if (s->door)
    local_first_visit(s, op);
  else
    local_hand_over(s, stream, op);
}

int local_create(pco_backend *b, const pco_create_opts *o, pco_op *op) {
  if (o->flags & ~(PCO_CREATE_STRICT | PCO_CREATE_DETACHABLE))
    return UV_EINVAL;
  char room[PCO_MESSAGE_MAX];
  pco_error err = pco_error_in(room, sizeof room);
  pco_sandbox *s = NULL;
  int stream = -1;
  plugin_children_reap();
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
    go_on(s, stream, op);
  }
  if (p)
    plugin_environment_deinit(&p->env);
  free(p);
  return 0;
}
