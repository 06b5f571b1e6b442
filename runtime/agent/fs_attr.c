/* SPDX-License-Identifier: MIT */
/*
 * CHMOD and CHOWN: on the descriptor that the walk found, never by name.
 */
#include "fs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_fchmodat2
#  define SYS_fchmodat2 452
#endif

/* Changes the mode of what an O_PATH descriptor holds, which is no link.  An
 * older kernel is asked through /proc, where the name of a descriptor leads to
 * exactly what it holds. */
static int change_mode(int fd, mode_t mode) {
  char name[40];
  if (syscall(SYS_fchmodat2, fd, "", mode, AT_EMPTY_PATH) == 0)
    return 0;
  if (errno != ENOSYS && errno != EPERM)
    return -errno;
  snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
  return chmod(name, mode) == 0 ? 0 : -errno;
}

/* Walks to what is there: 0 or a negative errno.  After 0 the caller calls
 * pco_place_deinit(). */
static int find(pco_agent *a, const pco_request *r, const char *path,
                pco_place *at) {
  int rc =
      pco_walk(&a->paths, path, pco_fs_walk_flags(r) & PCO_WALK_NOFOLLOW, at);
  if (rc != 0)
    return rc;
  rc = at->fd < 0 ? -ENOENT : S_ISLNK(at->st.st_mode) ? -ELOOP : 0;
  if (rc != 0)
    pco_place_deinit(at);
  return rc;
}

void pco_fs_chmod(pco_agent *a, const pco_request *r) {
  char path[PCO_PATH_TEXT];
  pco_place at;
  if (!pco_fs_path(a, r, PCO_TAG_PATH, path))
    return;
  int rc = find(a, r, path, &at);
  if (rc == 0) {
    rc = change_mode(at.fd, (mode_t)pco_request_number(r, PCO_TAG_MODE));
    pco_place_deinit(&at);
  }
  pco_fs_done(a, r->op, rc, path, NULL);
}

void pco_fs_chown(pco_agent *a, const pco_request *r) {
  char path[PCO_PATH_TEXT];
  uid_t uid;
  gid_t gid;
  pco_place at;
  if (!pco_fs_path(a, r, PCO_TAG_PATH, path) ||
      !pco_fs_owner(a, r, path, &uid, &gid))
    return;
  int rc = find(a, r, path, &at);
  if (rc == 0) {
    rc = fchownat(at.fd, "", uid, gid, AT_EMPTY_PATH) == 0 ? 0 : -errno;
    pco_place_deinit(&at);
  }
  pco_fs_done(a, r->op, rc, path, NULL);
}
