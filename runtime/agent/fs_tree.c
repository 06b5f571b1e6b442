/* SPDX-License-Identifier: MIT */
/*
 * MKDIR, REMOVE and RENAME: what changes directories.
 *
 * REMOVE and RENAME act on a link itself, never on what it leads to.
 */
#include "fs.h"

#include "portico/plugin.h"
#include "rmtree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define STEP_NAMES 256 /* removed in one turn */

/* ---- MKDIR -------------------------------------------------------------- */

/* Makes the directory; an asked for mode is exact, whatever the umask. */
static int make(const pco_place *at, const pco_request *r) {
  mode_t mode = (mode_t)pco_request_number(r, PCO_TAG_MODE);
  bool exact = pco_request_has(r, PCO_TAG_MODE);
  if (mkdirat(pco_place_dir(at), at->name, exact ? mode & 0700 : 0777) != 0)
    return -errno;
  if (!exact)
    return 0;
  int fd = openat(pco_place_dir(at), at->name,
                  O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  int rc = fd >= 0 && fchmod(fd, mode) == 0 ? 0 : -errno;
  if (fd >= 0)
    close(fd);
  return rc;
}

void pco_fs_mkdir(pco_agent *a, const pco_request *r) {
  char path[PCO_PATH_TEXT];
  pco_place at;
  bool parents = pco_fs_flag(r, PCO_FS_PARENTS);
  int flags = pco_fs_walk_flags(r) | (parents ? 0 : PCO_WALK_NOFOLLOW);
  if (!pco_fs_path(a, r, PCO_TAG_PATH, path))
    return;
  int rc = pco_walk(&a->paths, path, flags, &at);
  if (rc != 0) {
    pco_fs_walk_error(a, r->op, rc, path);
    return;
  }
  if (at.fd < 0)
    rc = make(&at, r);
  else
    rc = -EEXIST;
  if (rc == -EEXIST && parents && (at.fd < 0 || S_ISDIR(at.st.st_mode)))
    rc = 0; /* also if someone made it just now */
  pco_place_deinit(&at);
  if (rc == 0)
    pco_answer_empty(a, r->op);
  else
    pco_answer_error(a, r->op, -rc, path, NULL);
}

/* ---- REMOVE ------------------------------------------------------------- */

typedef struct remove_job {
  pco_job head;
  pco_rmtree tree;
} remove_job;

static void destroy(pco_job *j) {
  pco_rmtree_deinit(&((remove_job *)j)->tree);
  pco_job_free(j);
}

static bool step(pco_agent *a, pco_job *j) {
  int rc = pco_rmtree_step(&((remove_job *)j)->tree, STEP_NAMES);
  if (rc == 1)
    return true;
  if (rc == 0)
    pco_answer_empty(a, j->op);
  else
    pco_answer_error(a, j->op, -rc, j->path, NULL);
  return false;
}

static void start_tree(pco_agent *a, const pco_request *r, const char *path,
                       const pco_place *at) {
  remove_job *j = pco_job_create(a, sizeof *j, r, path);
  if (!j)
    return;
  j->head.step = step;
  j->head.destroy = destroy;
  int dir = fcntl(pco_place_dir(at), F_DUPFD_CLOEXEC, 3);
  int rc = dir < 0 ? -errno : pco_rmtree_init(&j->tree, dir, at->name, false);
  if (dir < 0)
    j->tree.parent = -1;
  if (rc == 0) {
    pco_job_start(a, &j->head);
    return;
  }
  pco_answer_error(a, r->op, -rc, path, NULL);
  destroy(&j->head);
}

static int remove_one(const pco_place *at) {
  int flags = S_ISDIR(at->st.st_mode) ? AT_REMOVEDIR : 0;
  return unlinkat(pco_place_dir(at), at->name, flags) == 0 ? 0 : -errno;
}

/* A place without a name of its own is the root, or above where the walk
 * started, and removing it would pull the ground away. */
static int removable(const pco_place *at) {
  if (!at->name[0])
    return -EBUSY;
  return at->fd < 0 ? -ENOENT : 0;
}

void pco_fs_remove(pco_agent *a, const pco_request *r) {
  char path[PCO_PATH_TEXT];
  pco_place at;
  if (!pco_fs_path(a, r, PCO_TAG_PATH, path))
    return;
  int rc = pco_walk(&a->paths, path, PCO_WALK_NOFOLLOW, &at);
  if (rc != 0) {
    pco_fs_walk_error(a, r->op, rc, path);
    return;
  }
  rc = removable(&at);
  if (rc == 0 && S_ISDIR(at.st.st_mode) && pco_fs_flag(r, PCO_FS_RECURSIVE)) {
    start_tree(a, r, path, &at);
  } else {
    if (rc == 0)
      rc = remove_one(&at);
    if (rc == 0)
      pco_answer_empty(a, r->op);
    else
      pco_answer_error(a, r->op, -rc, path, NULL);
  }
  pco_place_deinit(&at);
}

/* ---- RENAME ------------------------------------------------------------- */

static int rename_over(const pco_place *from, const pco_place *to) {
  int rc =
      renameat(pco_place_dir(from), from->name, pco_place_dir(to), to->name);
  return rc == 0 ? 0 : -errno;
}

/* Renames without replacing.  A file system that cannot do this in one step
 * (some network ones) gets a look before it, which another process can
 * outrun. */
static int rename_new(const pco_place *from, const pco_place *to) {
  if (syscall(SYS_renameat2, pco_place_dir(from), from->name, pco_place_dir(to),
              to->name, 1u /* RENAME_NOREPLACE */) == 0)
    return 0;
  if (errno != EINVAL && errno != ENOSYS)
    return -errno;
  if (to->fd >= 0)
    return -EEXIST;
  return rename_over(from, to);
}

static int rename_places(const pco_request *r, const pco_place *from,
                         const pco_place *to) {
  int rc = removable(from);
  if (rc != 0)
    return rc;
  if (!to->name[0])
    return -EEXIST;
  if (to->must_be_directory && !S_ISDIR(from->st.st_mode))
    return -ENOTDIR;
  return pco_fs_flag(r, PCO_FS_REPLACE) ? rename_over(from, to)
                                        : rename_new(from, to);
}

void pco_fs_rename(pco_agent *a, const pco_request *r) {
  char source[PCO_PATH_TEXT], target[PCO_PATH_TEXT];
  pco_place from, to;
  if (!pco_fs_path(a, r, PCO_TAG_PATH, source) ||
      !pco_fs_path(a, r, PCO_TAG_TARGET_PATH, target))
    return;
  int rc = pco_walk(&a->paths, source, PCO_WALK_NOFOLLOW, &from);
  if (rc != 0) {
    pco_fs_walk_error(a, r->op, rc, source);
    return;
  }
  rc = pco_walk(&a->paths, target, pco_fs_walk_flags(r) | PCO_WALK_NOFOLLOW,
                &to);
  if (rc != 0) {
    pco_fs_walk_error(a, r->op, rc, target);
    pco_place_deinit(&from);
    return;
  }
  rc = rename_places(r, &from, &to);
  if (rc == 0)
    pco_answer_empty(a, r->op);
  else
    pco_answer_error(a, r->op, -rc, rc == -EEXIST ? target : source, NULL);
  pco_place_deinit(&from);
  pco_place_deinit(&to);
}
