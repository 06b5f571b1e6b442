/* SPDX-License-Identifier: MIT */
/*
 * What the file operations share; see fs.h.
 */
#include "fs.h"

#include "portico/plugin.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

bool pco_fs_flag(const pco_request *r, unsigned flag) {
  return (pco_request_number(r, PCO_TAG_FLAGS) & flag) != 0;
}

int pco_fs_walk_flags(const pco_request *r) {
  return (pco_fs_flag(r, PCO_FS_NOFOLLOW) ? PCO_WALK_NOFOLLOW : 0) |
         (pco_fs_flag(r, PCO_FS_PARENTS) ? PCO_WALK_PARENTS : 0);
}

bool pco_fs_path(pco_agent *a, const pco_request *r, uint16_t tag,
                 char path[PATH_MAX]) {
  pco_text t = pco_request_text(r, tag);
  if (t.len >= PATH_MAX) {
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
