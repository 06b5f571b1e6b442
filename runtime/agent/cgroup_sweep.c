/* SPDX-License-Identifier: MIT */
/*
 * See cgroup_sweep.h.  As in all of the keeper's cgroups, nothing here takes
 * memory from the heap.
 */
#include "cgroup_sweep.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define YOUNG_S   60 /* its keeper may be between making and locking it */
#define MOST_SEEN 64 /* directories, a sweep */

/* The kernel's struct linux_dirent64. */
typedef struct entry {
  uint64_t ino;
  int64_t off;
  uint16_t len;
  uint8_t type;
  char name[];
} entry;

static bool is_old(int base, const char *name) {
  struct stat st;
  return fstatat(base, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
         S_ISDIR(st.st_mode) && time(NULL) - st.st_mtime > YOUNG_S;
}

/* What has a process in it stays: the kernel does not remove that. */
static void remove_all(const pco_cgroup *g, int base, int dir,
                       const char *name) {
  char leaf[16];
  for (uint32_t i = 0; i < PCO_CGROUP_MAX_LEAVES; i++) {
    snprintf(leaf, sizeof leaf, "%u", (unsigned)i);
    if (g->system.remove(dir, leaf) == -EBUSY)
      return;
  }
  g->system.remove(base, name);
}

static void look_at(const pco_cgroup *g, int base, const char *name) {
  if (strcmp(name, g->name) == 0 || !is_old(base, name))
    return;
  int dir = openat(base, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (dir < 0)
    return;
  if (flock(dir, LOCK_EX | LOCK_NB) == 0)
    remove_all(g, base, dir, name);
  close(dir);
}

/* How many to pass over, so that all have their turn some time. */
static uint32_t start_of(int base) {
  struct stat st;
  uint32_t random;
  if (fstat(base, &st) != 0 || st.st_nlink <= MOST_SEEN ||
      getrandom(&random, sizeof random, GRND_NONBLOCK) !=
          (ssize_t)sizeof random)
    return 0;
  return random % (uint32_t)st.st_nlink;
}

static void sweep_base(const pco_cgroup *g, int base) {
  _Alignas(entry) char buf[4096];
  uint32_t n = 0, first = start_of(base);
  int fd = openat(base, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  long len;
  while (fd >= 0 && n < first + MOST_SEEN &&
         (len = syscall(SYS_getdents64, fd, buf, sizeof buf)) > 0) {
    for (const char *at = buf; at < buf + len; at += ((const entry *)at)->len) {
      const char *name = ((const entry *)at)->name;
      if (strncmp(name, "portico-", 8) == 0 && n++ >= first)
        look_at(g, base, name);
    }
  }
  if (fd >= 0)
    close(fd);
}

void pco_cgroup_sweep(const pco_cgroup *g) {
  for (uint32_t i = 0; i < g->n_trees; i++)
    if (g->trees[i].top >= 0)
      sweep_base(g, g->trees[i].base);
}
