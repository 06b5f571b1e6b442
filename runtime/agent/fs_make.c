/* SPDX-License-Identifier: MIT */
/*
 * SYMLINK and MKTEMP: new names, which must not be there yet.
 */
#include "fs.h"

#include "portico/plugin.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TRIES 16 /* of random names */

void pco_fs_symlink(pco_agent *a, const pco_request *r) {
  char path[PCO_PATH_TEXT], text[PCO_PATH_TEXT];
  pco_place at;
  if (!pco_fs_path(a, r, PCO_TAG_PATH, path) ||
      !pco_fs_path(a, r, PCO_TAG_TARGET_PATH, text))
    return;
  int rc =
      pco_walk(&a->paths, path, pco_fs_walk_flags(r) | PCO_WALK_NOFOLLOW, &at);
  if (rc == 0) {
    if (at.fd >= 0 || !at.name[0])
      rc = -EEXIST;
    else if (at.must_be_directory)
      rc = -ENOENT;
    else if (symlinkat(text, pco_place_dir(&at), at.name) != 0)
      rc = -errno;
    pco_place_deinit(&at);
  }
  pco_fs_done(a, r->op, rc, path, NULL);
}

/* ---- MKTEMP -------------------------------------------------------------- */

static int make(int dir, const char *name, bool directory) {
  if (directory)
    return mkdirat(dir, name, 0700) == 0 ? 0 : -errno;
  int fd = openat(dir, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                  0600);
  if (fd < 0)
    return -errno;
  close(fd);
  return 0;
}

static int make_random(int dir, const pco_request *r, char name[NAME_MAX + 1]) {
  char pattern[NAME_MAX + 1];
  pco_text t = pco_request_text(r, PCO_TAG_NAME);
  if (t.len > NAME_MAX)
    return -ENAMETOOLONG;
  memcpy(pattern, t.s, t.len);
  pattern[t.len] = 0;
  if (!*pattern || strchr(pattern, '/'))
    return -EINVAL;
  int rc = -EEXIST;
  for (int i = 0; rc == -EEXIST && i < TRIES; i++) {
    rc = pco_fs_random_name(pattern, name);
    if (rc == 0)
      rc = make(dir, name, pco_fs_flag(r, PCO_FS_DIRECTORY));
  }
  return rc;
}

/* Opens the directory that the walk of `path` finds; the descriptor or a
 * negative errno. */
static int open_directory(pco_agent *a, const char *path) {
  pco_place at;
  int rc = pco_walk(&a->paths, path, 0, &at);
  if (rc != 0)
    return rc;
  rc = at.fd < 0 ? -ENOENT : !S_ISDIR(at.st.st_mode) ? -ENOTDIR : 0;
  if (rc == 0) {
    rc = fcntl(at.fd, F_DUPFD_CLOEXEC, 3);
    rc = rc < 0 ? -errno : rc;
  }
  pco_place_deinit(&at);
  return rc;
}

/* Where temporary files are made if the caller does not say: $TMPDIR, if that
 * is below the root, else the working directory. */
static int open_default(pco_agent *a, char path[PCO_PATH_TEXT]) {
  const char *tmpdir = getenv("TMPDIR");
  if (!tmpdir || *tmpdir != '/')
    tmpdir = "/tmp";
  snprintf(path, PCO_PATH_TEXT, "%s", tmpdir);
  int fd = open_directory(a, path);
  if (fd >= 0)
    return fd;
  snprintf(path, PCO_PATH_TEXT, ".");
  return open_directory(a, path);
}

void pco_fs_mktemp(pco_agent *a, const pco_request *r) {
  char path[PCO_PATH_TEXT], name[NAME_MAX + 1],
      full[PCO_PATH_TEXT + NAME_MAX + 2];
  bool given = pco_request_text(r, PCO_TAG_PATH).s != NULL;
  if (given && !pco_fs_path(a, r, PCO_TAG_PATH, path))
    return;
  int dir = given ? open_directory(a, path) : open_default(a, path);
  int rc = dir < 0 ? dir : make_random(dir, r, name);
  if (dir >= 0)
    close(dir);
  if (rc != 0) {
    pco_fs_done(a, r->op, rc, path, NULL);
    return;
  }
  size_t len = strlen(path);
  bool slash = len > 0 && path[len - 1] == '/';
  snprintf(full, sizeof full, "%s%s%s", path, slash ? "" : "/", name);
  pco_wire_begin(&a->buf, PCO_WIRE_REPLY, 0, r->op);
  pco_wire_string(&a->buf, PCO_TAG_PATH,
                  strncmp(full, "./", 2) == 0 ? full + 2 : full);
  pco_answer(a);
}
