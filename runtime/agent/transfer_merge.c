/* SPDX-License-Identifier: MIT */
/*
 * Moving what was unpacked into a directory that is there; see transfer.h.
 *
 * Only renames: what has a name in the target gets it at once and whole.  A
 * directory that the target does not have moves with all that is in it.
 */
#include "transfer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef RENAME_NOREPLACE
#  define RENAME_NOREPLACE 1
#endif

typedef struct level {
  DIR *from;
  int to;
  size_t path_len;
} level;

typedef struct merger {
  pco_transfer *t;
  uint64_t n_moved;
  int depth;
  level level[PCO_PATH_DEPTH];
} merger;

static bool is_dots(const char *s) {
  return s[0] == '.' && (!s[1] || (s[1] == '.' && !s[2]));
}

/* Renames, if nothing has the name: 0, -EEXIST or another negative errno. */
static int rename_new(int from, const char *name, int to, const char *as) {
  struct stat st;
  if (syscall(SYS_renameat2, from, name, to, as, RENAME_NOREPLACE) == 0)
    return 0;
  if (errno != EINVAL && errno != ENOSYS)
    return -errno;
  /* This file system does not know the flag: a directory still replaces
   * nothing but an empty one. */
  if (fstatat(to, as, &st, AT_SYMLINK_NOFOLLOW) == 0)
    return -EEXIST;
  return renameat(from, name, to, as) == 0 ? 0 : -errno;
}

/* Changes the mode of what a descriptor of O_PATH holds. */
static int set_mode(int fd, mode_t mode) {
  char self[32];
  snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
  return chmod(self, mode) == 0 ? 0 : -errno;
}

/* A directory that may not be written cannot be moved to another one. */
static int rename_stubborn(int from, const char *name, int to, const char *as) {
  struct stat st;
  int rc = rename_new(from, name, to, as);
  if (rc != -EACCES)
    return rc;
  int fd = openat(from, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0)
    return rc;
  if (fstat(fd, &st) == 0 && set_mode(fd, 0700) == 0) {
    rc = rename_new(from, name, to, as);
    int failed = set_mode(fd, st.st_mode & 07777);
    rc = rc == 0 ? failed : rc;
  }
  close(fd);
  return rc;
}

int pco_transfer_place(int stage, int dir, const char *name, bool replace) {
  if (replace)
    return renameat(stage, PCO_TRANSFER_ROOT, dir, name) == 0 ? 0 : -errno;
  return rename_stubborn(stage, PCO_TRANSFER_ROOT, dir, name);
}

/* ---- merging ------------------------------------------------------------ */

static int fail_here(merger *m, int rc, const char *why) {
  char text[128];
  if (rc == -EXDEV && !why)
    why = "another file system is mounted there";
  if (m->t->words->skip)
    return pco_transfer_skip(m->t, rc, why);
  snprintf(text, sizeof text, "%s; %llu entries were put in place before",
           why ? why : strerror(-rc), (unsigned long long)m->n_moved);
  return pco_transfer_fail(m->t, rc, text);
}

/* Takes both descriptors. */
static int enter(merger *m, int from, int to) {
  DIR *dir = m->depth < PCO_PATH_DEPTH ? fdopendir(from) : NULL;
  if (!dir) {
    int rc = m->depth < PCO_PATH_DEPTH ? -errno : -ENAMETOOLONG;
    close(from);
    close(to);
    return rc;
  }
  m->level[m->depth].from = dir;
  m->level[m->depth].to = to;
  m->level[m->depth].path_len = strlen(m->t->path);
  m->depth++;
  return 0;
}

static void leave(merger *m) {
  level *l = &m->level[--m->depth];
  closedir(l->from);
  close(l->to);
}

static int open_dir(int dir, const char *name) {
  int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  return fd < 0 ? -errno : fd;
}

/* Opens one of ours, which may have been given no rights for us. */
static int open_own(int dir, const char *name) {
  int fd = open_dir(dir, name);
  if (fd != -EACCES)
    return fd;
  int held = openat(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (held < 0)
    return -errno;
  int rc = set_mode(held, 0700);
  close(held);
  return rc < 0 ? rc : open_dir(dir, name);
}

/* The one that is there keeps its mode. */
static int merge_directory(merger *m, level *l, const char *name) {
  int to = open_dir(l->to, name);
  if (to < 0)
    return fail_here(m, to == -ELOOP ? -ENOTDIR : to,
                     to == -ENOTDIR || to == -ELOOP
                         ? "something else stands where a directory is to be"
                         : NULL);
  int from = open_own(dirfd(l->from), name);
  if (from < 0) {
    close(to);
    return fail_here(m, from, NULL);
  }
  int rc = enter(m, from, to);
  return rc < 0 ? fail_here(m, rc, NULL) : 0;
}

static int move(merger *m, level *l, const char *name) {
  struct stat st;
  int from = dirfd(l->from);
  if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
    return fail_here(m, -errno, NULL);
  bool directory = S_ISDIR(st.st_mode);
  int rc = rename_stubborn(from, name, l->to, name);
  if (rc == -EEXIST && directory)
    return merge_directory(m, l, name);
  if (rc == -EEXIST)
    rc = renameat(from, name, l->to, name) == 0 ? 0 : -errno;
  if (rc < 0)
    return fail_here(m, rc,
                     rc == -EISDIR ? "a directory stands where a file is to be"
                                   : NULL);
  m->n_moved++;
  return 0;
}

static int step(merger *m) {
  level *l = &m->level[m->depth - 1];
  errno = 0;
  const struct dirent *e = readdir(l->from);
  if (!e && errno)
    return fail_here(m, -errno, NULL);
  if (!e) {
    leave(m);
    return 0;
  }
  if (is_dots(e->d_name))
    return 0;
  int rc = pco_transfer_enter(m->t, l->path_len, e->d_name);
  return rc < 0 ? rc : move(m, l, e->d_name);
}

static int begin(merger *m, int stage, int target) {
  int from = open_own(stage, PCO_TRANSFER_ROOT);
  if (from < 0)
    return from;
  int to = fcntl(target, F_DUPFD_CLOEXEC, 3);
  if (to < 0) {
    int rc = -errno;
    close(from);
    return rc;
  }
  return enter(m, from, to);
}

int pco_transfer_merge(pco_transfer *t, int stage, int target) {
  merger *m = calloc(1, sizeof *m);
  if (!m)
    return pco_transfer_fail(t, -ENOMEM, NULL);
  m->t = t;
  t->path[0] = t->why[0] = 0;
  int rc = begin(m, stage, target);
  if (rc < 0)
    pco_transfer_fail(t, rc, NULL);
  while (rc == 0 && m->depth > 0) {
    rc = t->wait.fn(&t->wait, -1, 0); /* only asks */
    if (rc < 0 && m->n_moved > 0)
      fail_here(m, rc, "cancelled");
    if (rc == 0)
      rc = step(m);
  }
  while (m->depth > 0)
    leave(m);
  free(m);
  return rc;
}
