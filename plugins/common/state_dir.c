/* SPDX-License-Identifier: MIT */
/*
 * Finding and opening the directory of state.h.
 *
 * Whoever can write there can show this user's programs sandboxes that are
 * none; whoever can connect there can use those that are.  So it has to be a
 * directory of this user's that nobody else may enter, by its own right: where
 * another user could have made it before (in /tmp), that is found out.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "fail.h"
#include "private_dir.h"
#include "state.h"

/* Says what is wrong with an open directory, or NULL. */
static const char *fault_of(int fd) {
  struct stat st;
  if (fstat(fd, &st) < 0)
    return "it cannot be looked at";
  if (st.st_uid != geteuid())
    return "it belongs to another user";
  return st.st_mode & 077 ? "other users may enter it (chmod 700)" : NULL;
}

static int open_dir(const char *path) {
  int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  return fd < 0 ? -errno : fd;
}

/* A directory that the session made for this user alone. */
static bool is_private(const char *path) {
  int fd = *path == '/' ? open_dir(path) : -1;
  bool fine = fd >= 0 && !fault_of(fd);
  if (fd >= 0)
    close(fd);
  return fine;
}

/* Puts two parts of a path together. */
static int join(char out[PATH_MAX], const char *dir, const char *name) {
  int n = snprintf(out, PATH_MAX, "%s%s", dir, name);
  return n < 0 || n >= PATH_MAX ? UV_ENAMETOOLONG : 0;
}

static int default_path(char out[PATH_MAX]) {
  const char *runtime = secure_getenv("XDG_RUNTIME_DIR");
  char user[24], session[64];
  if (runtime && is_private(runtime))
    return join(out, runtime, "/portico");
  if (geteuid() == 0)
    return join(out, "/run", "/portico");
  snprintf(user, sizeof user, "%lu", (unsigned long)geteuid());
  snprintf(session, sizeof session, "/run/user/%s", user);
  return is_private(session) ? join(out, session, "/portico")
                             : join(out, "/tmp/portico-", user);
}

int plugin_state_path(const char *setting, char out[PATH_MAX], pco_error *err) {
  int rc = setting ? join(out, setting, "") : default_path(out);
  return rc < 0 ? plugin_fail(err, rc,
                              "the directory of sandboxes: the path %.100s... "
                              "is too long",
                              out)
                : 0;
}

static int fail(const plugin_state *st, const char *what, pco_error *err) {
  return plugin_fail(err, PCO_EUNAVAILABLE,
                     "the directory %.300s, where sandboxes that may outlive "
                     "their program are kept: %s; the setting `state` names "
                     "another",
                     st->path, what);
}

/* What can be wrong with it before it is open. */
static const char *told(int rc) {
  return rc == -ELOOP || rc == -ENOTDIR ? "it is a link, or no directory"
                                        : uv_strerror(rc);
}

int plugin_state_open(plugin_state *st, const char *backend,
                      const char *setting, bool make, pco_error *err) {
  st->backend = backend;
  st->dir = -1;
  int rc = plugin_state_path(setting, st->path, err);
  if (rc < 0)
    return rc;
  rc = make ? plugin_make_private(AT_FDCWD, st->path) : 0;
  if (rc < 0 && rc != UV_EEXIST)
    return fail(st, uv_strerror(rc), err);
  rc = open_dir(st->path);
  if (rc == UV_ENOENT && !make)
    return rc;
  if (rc < 0)
    return fail(st, told(rc), err);
  const char *fault = fault_of(rc);
  if (fault) {
    close(rc);
    return fail(st, fault, err);
  }
  st->dir = rc;
  return 0;
}

int plugin_state_open_there(plugin_state *st, const char *backend,
                            const char *setting, pco_error *err) {
  struct stat s;
  int rc = plugin_state_open(st, backend, setting, false, err);
  if (rc != PCO_EUNAVAILABLE || setting || lstat(st->path, &s) < 0 ||
      s.st_uid == geteuid())
    return rc;
  if (err)
    err->code = UV_ENOENT;
  return UV_ENOENT;
}

void plugin_state_close(plugin_state *st) {
  if (st->dir >= 0)
    close(st->dir);
  st->dir = -1;
}
