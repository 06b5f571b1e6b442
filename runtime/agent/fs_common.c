/* SPDX-License-Identifier: MIT */
/*
 * What the file operations share; see fs.h.
 */
#include "fs.h"

#include "portico/plugin.h"

#include "users.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

bool pco_fs_flag(const pco_request *r, unsigned flag) {
  return (pco_request_number(r, PCO_TAG_FLAGS) & flag) != 0;
}

int pco_fs_walk_flags(const pco_request *r) {
  return (pco_fs_flag(r, PCO_FS_NOFOLLOW) ? PCO_WALK_NOFOLLOW : 0) |
         (pco_fs_flag(r, PCO_FS_PARENTS) ? PCO_WALK_PARENTS : 0);
}

bool pco_fs_path(pco_agent *a, const pco_request *r, uint16_t tag,
                 char path[PCO_PATH_TEXT]) {
  pco_text t = pco_request_text(r, tag);
  if (t.len >= PCO_PATH_TEXT) {
    pco_answer_error(a, r->op, ENAMETOOLONG, NULL, NULL);
    return false;
  }
  memcpy(path, t.s, t.len);
  path[t.len] = 0;
  return true;
}

void pco_fs_walk_error(pco_agent *a, uint64_t op, int rc, const char *path) {
  char message[PATH_MAX + 128];
  if (rc != -EXDEV) {
    pco_answer_error(a, op, -rc, path, NULL);
    return;
  }
  snprintf(message, sizeof message,
           "outside the workspace %s (open the sandbox with "
           "settings.root = \"/\" to lift this)",
           a->paths.root);
  pco_answer_error(a, op, EACCES, path, message);
}

int pco_fs_open_at(pco_agent *a, const pco_request *r, const char *path,
                   int flags, pco_fs_opener *opener, const char **message) {
  int rc = -ESTALE;
  *message = NULL;
  for (int i = 0; rc == -ESTALE && i < PCO_WALK_RETRIES; i++) {
    pco_place at;
    rc = pco_walk(&a->paths, path, flags, &at);
    if (rc != 0)
      break;
    rc = opener(&at, r, message);
    pco_place_deinit(&at);
  }
  return rc;
}

void pco_fs_open_failed(pco_agent *a, uint64_t op, int rc, const char *path,
                        const char *message) {
  if (message)
    pco_answer_error(a, op, -rc, path, message);
  else
    pco_fs_walk_error(a, op, rc, path);
}

void pco_fs_done(pco_agent *a, uint64_t op, int rc, const char *path,
                 const char *step) {
  char message[256];
  if (rc == 0) {
    pco_answer_empty(a, op);
  } else if (rc == -EXDEV || !step) {
    pco_fs_walk_error(a, op, rc, path);
  } else {
    snprintf(message, sizeof message, "%s: %s", step, strerror(-rc));
    pco_answer_error(a, op, -rc, path, message);
  }
}

bool pco_fs_owner(pco_agent *a, const pco_request *r, const char *path,
                  uid_t *uid, gid_t *gid) {
  char spec[512], message[640];
  const char *missing;
  pco_text t = pco_request_text(r, PCO_TAG_USER);
  size_t len = t.len < sizeof spec ? t.len : sizeof spec - 1;
  memcpy(spec, t.s, len);
  spec[len] = 0;
  int rc = pco_owner_find(spec, uid, gid, &missing);
  if (rc == 0)
    return true;
  bool group = missing != spec;
  snprintf(message, sizeof message,
           "there is no %s \"%s\" in the sandbox's %s (a number works always)",
           group ? "group" : "user", missing,
           group ? "/etc/group" : "/etc/passwd");
  pco_answer_error(a, r->op, EINVAL, path, message);
  return false;
}

int pco_fs_random_name(const char *pattern, char name[NAME_MAX + 1]) {
  static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
  unsigned char random[10];
  char text[sizeof random + 1];
  const char *star = strrchr(pattern, '*');
  if (getrandom(random, sizeof random, 0) != sizeof random)
    return -EIO;
  for (size_t i = 0; i < sizeof random; i++)
    text[i] = letters[random[i] % (sizeof letters - 1)];
  text[sizeof random] = 0;
  int before = star ? (int)(star - pattern) : (int)strlen(pattern);
  int n = snprintf(name, NAME_MAX + 1, "%.*s%s%s", before, pattern, text,
                   star ? star + 1 : "");
  return n <= NAME_MAX ? 0 : -ENAMETOOLONG;
}

static unsigned type_of(mode_t mode) {
  if (S_ISREG(mode))
    return PCO_FILE;
  if (S_ISDIR(mode))
    return PCO_DIRECTORY;
  return S_ISLNK(mode) ? PCO_SYMLINK : PCO_OTHER;
}

void pco_fs_put_entry(pco_wire_buf *b, const char *name, const struct stat *st,
                      const char *link) {
  int64_t mtime =
      (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
  pco_wire_nest_begin(b, PCO_TAG_ENTRY);
  if (name && *name)
    pco_wire_string(b, PCO_TAG_NAME, name);
  pco_wire_number(b, PCO_TAG_TYPE, type_of(st->st_mode));
  pco_wire_number(b, PCO_TAG_SIZE, st->st_size > 0 ? (uint64_t)st->st_size : 0);
  pco_wire_number(b, PCO_TAG_MODE, st->st_mode & 07777);
  pco_wire_number(b, PCO_TAG_UID, st->st_uid);
  pco_wire_number(b, PCO_TAG_GID, st->st_gid);
  pco_wire_number(b, PCO_TAG_MTIME, (uint64_t)mtime);
  if (link)
    pco_wire_string(b, PCO_TAG_LINK, link);
  pco_wire_nest_end(b);
}
