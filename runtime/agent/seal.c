/* SPDX-License-Identifier: MIT */
/*
 * See seal.h.  Two walks, with a descriptor for each level: the first looks at
 * everything, the second changes it.  A directory is entered with all rights
 * for its owner and gets its final mode on the way out.
 */
#include "seal.h"

#include "options.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define KEPT_BITS 0755u

typedef struct seal_options {
  const char *dir;
  uint64_t first_id, last_id;
  uint64_t bytes, entries;
} seal_options;

typedef struct seal {
  const seal_options *o;
  uid_t uid; /* the new owner */
  gid_t gid;
  dev_t dev;
  pid_t parent;            /* without which nobody waits for this */
  bool changing;           /* the second walk */
  uint64_t bytes, entries; /* left */
  int depth;
  struct {
    DIR *dir;
    mode_t mode; /* that it is to have */
  } level[PCO_SEAL_DEPTH];
} seal;

static int complain(const char *name) {
  fprintf(stderr, "%s: %s\n", name, strerror(errno));
  return 1;
}

/* ---- entries ------------------------------------------------------------ */

/* A mount is not entered; of files the device says nothing, since some layered
 * file systems give them another one. */
static bool is_foreign(const seal *s, const struct stat *st) {
  return st->st_uid < s->o->first_id || st->st_uid > s->o->last_id ||
         (S_ISDIR(st->st_mode) && st->st_dev != s->dev);
}

static int check(seal *s, const char *name, const struct stat *st) {
  if (is_foreign(s, st)) {
    fprintf(stderr, "%s\n", name);
    return PCO_SEAL_FOREIGN;
  }
  if (s->entries-- == 0)
    return PCO_SEAL_ENTRIES;
  uint64_t size =
      S_ISREG(st->st_mode) ? (uint64_t)st->st_size / (uint64_t)st->st_nlink : 0;
  if (size > s->bytes)
    return PCO_SEAL_BYTES;
  s->bytes -= size;
  return 0;
}

/* The owner first: a change of that takes set-id bits. */
static int change(const seal *s, int parent, const char *name, mode_t mode) {
  if (!S_ISREG(mode) && !S_ISLNK(mode))
    return unlinkat(parent, name, 0) == 0 ? 0 : complain(name);
  if (fchownat(parent, name, s->uid, s->gid, AT_SYMLINK_NOFOLLOW) != 0 ||
      (S_ISREG(mode) && fchmodat(parent, name, mode & KEPT_BITS, 0) != 0))
    return complain(name);
  return 0;
}

static int enter(seal *s, int fd, mode_t mode) {
  if (s->depth == PCO_SEAL_DEPTH) {
    close(fd);
    return PCO_SEAL_DEEP;
  }
  DIR *dir = fdopendir(fd);
  if (!dir) {
    close(fd);
    return complain("directory");
  }
  s->level[s->depth].dir = dir;
  s->level[s->depth].mode = (mode & KEPT_BITS) | 0700;
  s->depth++;
  return 0;
}

static int take_dir(seal *s, int parent, const char *name, mode_t mode) {
  if ((mode & 0700) != 0700 &&
      fchmodat(parent, name, (mode & KEPT_BITS) | 0700, 0) != 0)
    return complain(name);
  int fd =
      openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  return fd < 0 ? complain(name) : enter(s, fd, mode);
}

static int take(seal *s, int parent, const char *name) {
  struct stat st;
  if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
    return complain(name);
  int rc = s->changing ? 0 : check(s, name, &st);
  if (rc == 0 && S_ISDIR(st.st_mode))
    return take_dir(s, parent, name, st.st_mode);
  if (rc == 0 && s->changing)
    return change(s, parent, name, st.st_mode);
  return rc;
}

/* ---- the walk ----------------------------------------------------------- */

static int leave(seal *s) {
  int rc = 0;
  DIR *dir = s->level[--s->depth].dir;
  if (s->changing && (fchown(dirfd(dir), s->uid, s->gid) != 0 ||
                      fchmod(dirfd(dir), s->level[s->depth].mode) != 0))
    rc = complain("directory");
  closedir(dir);
  return rc;
}

static bool is_dots(const char *s) {
  return s[0] == '.' && (!s[1] || (s[1] == '.' && !s[2]));
}

static int step(seal *s) {
  DIR *dir = s->level[s->depth - 1].dir;
  errno = 0;
  struct dirent *e = readdir(dir);
  if (!e)
    return errno ? complain("directory") : leave(s);
  return is_dots(e->d_name) ? 0 : take(s, dirfd(dir), e->d_name);
}

static int walk(seal *s) {
  struct stat st;
  int rc = 0;
  int fd = open(s->o->dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0 || fstat(fd, &st) != 0)
    return complain(s->o->dir);
  s->dev = st.st_dev;
  rc = enter(s, fd, 0755);
  while (rc == 0 && s->depth > 0)
    rc = getppid() == s->parent ? step(s) : 1;
  return rc;
}

/* After a loss of power it shall be whole, or not be there. */
static int save(const seal *s) {
  int fd = open(s->o->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  return fd < 0 || syncfs(fd) != 0 ? complain(s->o->dir) : 0;
}

static int run(const seal_options *o) {
  static seal s;
  s.o = o;
  s.uid = geteuid();
  s.gid = getegid();
  s.parent = getppid();
  s.bytes = o->bytes;
  s.entries = o->entries;
  int rc = walk(&s);
  s.changing = true;
  if (rc == 0)
    rc = walk(&s);
  return rc == 0 ? save(&s) : rc;
}

int pco_seal_main(char *const words[PCO_SEAL_WORDS]) {
  seal_options o = {.dir = words[0]};
  if (*o.dir != '/' || !pco_parse_number(words[1], &o.first_id) ||
      !pco_parse_number(words[2], &o.last_id) ||
      !pco_parse_number(words[3], &o.bytes) ||
      !pco_parse_number(words[4], &o.entries))
    return 2;
  return run(&o);
}
