/* SPDX-License-Identifier: MIT */
/*
 * See rmtree.h.  Every name is removed relative to a held descriptor of its
 * directory; a directory is entered by its descriptor only, and not if that is
 * of another mount.  (openat2 could say so at once, but there is none in a
 * sandbox of bwrap.)
 */
#include "rmtree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MAX_PASSES 64 /* over one directory that others keep filling */

#ifndef SYS_fchmodat2
#  define SYS_fchmodat2 452
#endif

static void note(pco_rmtree *t, int error) {
  if (t->error == 0 && error != -ENOENT)
    t->error = error;
}

/* The head of the kernel's struct statx, of which C libraries know different
 * lengths, up to the mount. */
typedef struct mount_stat {
  uint32_t mask;
  uint32_t other[35];
  uint64_t mount;
  uint64_t rest[13];
} mount_stat;
_Static_assert(offsetof(mount_stat, mount) == 0x90, "stx_mnt_id");
_Static_assert(sizeof(mount_stat) == 256, "struct statx");
#define ASK_MOUNT 0x1000u /* STATX_MNT_ID */

static bool get_mount(int fd, uint64_t *out) {
  mount_stat m = {0};
  long rc = syscall(SYS_statx, fd, "", AT_EMPTY_PATH, ASK_MOUNT, &m);
  *out = m.mount;
  return rc == 0 && m.mask & ASK_MOUNT;
}

/* A kernel or filter without mounts in statx gets the weaker check, which does
 * not notice a bind mount of the same file system. */
static bool same_mount(int a, int b) {
  struct stat here, there;
  uint64_t mount_a, mount_b;
  if (fstat(a, &here) != 0 || fstat(b, &there) != 0 ||
      here.st_dev != there.st_dev)
    return false;
  return !get_mount(a, &mount_a) || !get_mount(b, &mount_b) ||
         mount_a == mount_b;
}

/* Opens without crossing a mount. */
static int open_inside(int dir, const char *name, int flags) {
  int fd = openat(dir, name, flags | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0)
    return -errno;
  if (same_mount(dir, fd))
    return fd;
  close(fd);
  return -EXDEV;
}

/* Gives the owner all rights to a directory that is held by O_PATH. */
static void unlock(int fd) {
  char name[40];
  if (syscall(SYS_fchmodat2, fd, "", 0700, AT_EMPTY_PATH) == 0)
    return;
  snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
  (void)!chmod(name, 0700);
}

static int open_level(const pco_rmtree *t, int dir, const char *name) {
  int fd = -EACCES;
  if (!t->force)
    return open_inside(dir, name, O_RDONLY);
  int path = open_inside(dir, name, O_PATH);
  if (path < 0)
    return path;
  struct stat st;
  if (fstat(path, &st) == 0 && (st.st_mode & 0700) != 0700)
    unlock(path);
  fd = openat(path, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0)
    fd = -errno;
  close(path);
  return fd;
}

static int level_fd(const pco_rmtree *t, int level) {
  return level < 0 ? t->parent : dirfd(t->level[level].dir);
}

static int push(pco_rmtree *t, const char *name) {
  int fd = open_level(t, level_fd(t, t->depth - 1), name);
  if (fd < 0)
    return fd;
  pco_rmtree_level *l = &t->level[t->depth];
  l->dir = fdopendir(fd);
  if (!l->dir) {
    close(fd);
    return -ENOMEM;
  }
  snprintf(l->name, sizeof l->name, "%s", name);
  l->passes = 0;
  l->progress = false;
  t->depth++;
  return 0;
}

/* Removes the directory whose entries are gone; its own name may have been
 * given to something else meanwhile, which rmdir then refuses or removes only
 * if it is an empty directory. */
static int pop(pco_rmtree *t) {
  pco_rmtree_level *l = &t->level[--t->depth];
  closedir(l->dir);
  l->dir = NULL;
  int rc = unlinkat(level_fd(t, t->depth - 1), l->name, AT_REMOVEDIR) == 0
               ? 0
               : -errno;
  if (rc == 0 && t->depth > 0)
    t->level[t->depth - 1].progress = true;
  return rc;
}

/* Moves a deep directory beside the entries of the top one, where a later pass
 * finds it. */
static int move_up(pco_rmtree *t, const char *name) {
  char to[48];
  uint64_t random;
  if (getrandom(&random, sizeof random, 0) != sizeof random)
    return -EIO;
  snprintf(to, sizeof to, ".portico-rm-%016llx", (unsigned long long)random);
  int dir = level_fd(t, t->depth - 1);
  int path = t->force ? open_inside(dir, name, O_PATH) : -1;
  if (path >= 0) {
    unlock(path); /* moving a directory changes its ".." */
    close(path);
  }
  if (renameat(dir, name, level_fd(t, 0), to) != 0)
    return -errno;
  t->level[t->depth - 1].progress = true;
  t->level[0].progress = true;
  return 0;
}

/* Removes one entry of the deepest level, or goes down into it. */
static void take(pco_rmtree *t, const char *name) {
  pco_rmtree_level *l = &t->level[t->depth - 1];
  if (unlinkat(dirfd(l->dir), name, 0) == 0) {
    l->progress = true;
    return;
  }
  if (errno != EISDIR && errno != EPERM) {
    note(t, -errno);
    return;
  }
  int unlink_error = -errno;
  int rc = t->depth == PCO_RMTREE_DEPTH ? move_up(t, name) : push(t, name);
  if (rc == -ENOTDIR || rc == -ELOOP)
    rc = unlink_error; /* EPERM was about a file */
  if (rc != 0)
    note(t, rc);
}

/* At the end of a pass over the deepest level: looks again if something moved,
 * else leaves it. */
static void end_pass(pco_rmtree *t) {
  pco_rmtree_level *l = &t->level[t->depth - 1];
  if (l->progress && ++l->passes < MAX_PASSES) {
    l->progress = false;
    rewinddir(l->dir);
    return;
  }
  int rc = pop(t);
  if (rc != 0)
    note(t, rc);
}

static bool is_dots(const char *s) {
  return s[0] == '.' && (!s[1] || (s[1] == '.' && !s[2]));
}

int pco_rmtree_step(pco_rmtree *t, int budget) {
  while (t->depth > 0 && budget-- > 0) {
    struct dirent *e = readdir(t->level[t->depth - 1].dir);
    if (!e)
      end_pass(t);
    else if (!is_dots(e->d_name))
      take(t, e->d_name);
  }
  return t->depth > 0 ? 1 : t->error;
}

int pco_rmtree_init(pco_rmtree *t, int parent, const char *name, bool force) {
  t->parent = parent;
  t->force = force;
  t->error = 0;
  t->depth = 0;
  if (unlinkat(parent, name, 0) == 0)
    return 0;
  if (errno != EISDIR && errno != EPERM)
    return -errno;
  int unlink_error = -errno;
  int rc = push(t, name);
  return rc == -ENOTDIR || rc == -ELOOP ? unlink_error : rc;
}

void pco_rmtree_deinit(pco_rmtree *t) {
  while (t->depth > 0)
    closedir(t->level[--t->depth].dir);
  if (t->parent >= 0)
    close(t->parent);
  t->parent = -1;
}

int pco_rmtree_open_parent(const char *path, char name[NAME_MAX + 1]) {
  char dir[PATH_MAX];
  size_t end = strlen(path);
  while (end > 0 && path[end - 1] == '/')
    end--;
  size_t start = end;
  while (start > 0 && path[start - 1] != '/')
    start--;
  if (*path != '/' || start == end || end - start > NAME_MAX ||
      start >= sizeof dir)
    return -EINVAL;
  memcpy(name, path + start, end - start);
  name[end - start] = 0;
  if (is_dots(name))
    return -EINVAL;
  memcpy(dir, path, start);
  dir[start] = 0;
  int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
  return fd >= 0 ? fd : -errno;
}
