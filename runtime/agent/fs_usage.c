/* SPDX-License-Identifier: MIT */
/*
 * USAGE: what a tree holds, in steps.
 *
 * Goes down by held descriptors, never by a link, and stays on the file system
 * that it began on.  A name that vanishes meanwhile does not count; a directory
 * that may not be read ends it with an error, since the sum would be wrong.
 */
#include "fs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STEP_NAMES 512

typedef struct usage_job {
  pco_job head;
  dev_t device;
  uint64_t size, allocated, files, directories;
  int depth;
  DIR *level[PCO_PATH_DEPTH];
} usage_job;

static void destroy(pco_job *j) {
  usage_job *u = (usage_job *)j;
  while (u->depth > 0)
    closedir(u->level[--u->depth]);
  pco_job_free(j);
}

static void count(usage_job *u, const struct stat *st) {
  u->size +=
      S_ISREG(st->st_mode) && st->st_size > 0 ? (uint64_t)st->st_size : 0;
  u->allocated += (uint64_t)st->st_blocks * 512;
  if (S_ISDIR(st->st_mode))
    u->directories++;
  else
    u->files++;
}

/* Enters a directory, whose descriptor it takes. */
static int enter(usage_job *u, int fd) {
  if (u->depth == PCO_PATH_DEPTH) {
    close(fd);
    return -ENAMETOOLONG;
  }
  DIR *d = fdopendir(fd);
  if (!d) {
    close(fd);
    return -ENOMEM;
  }
  u->level[u->depth++] = d;
  return 0;
}

static bool has_vanished(int error) {
  return error == ENOENT || error == ENOTDIR || error == ELOOP;
}

static int look(usage_job *u, const char *name) {
  struct stat st;
  int dir = dirfd(u->level[u->depth - 1]);
  if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
    return has_vanished(errno) ? 0 : -errno;
  if (st.st_dev != u->device)
    return 0;
  count(u, &st);
  if (!S_ISDIR(st.st_mode))
    return 0;
  int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0)
    return has_vanished(errno) ? 0 : -errno;
  if (fstat(fd, &st) == 0 && st.st_dev == u->device)
    return enter(u, fd);
  close(fd);
  return 0;
}

static bool is_dots(const char *name) {
  return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* Counts about a number of names: 1 if there are more, 0 at the end. */
static int count_some(usage_job *u) {
  for (int i = 0; i < STEP_NAMES && u->depth > 0; i++) {
    errno = 0;
    const struct dirent *e = readdir(u->level[u->depth - 1]);
    if (!e && errno != 0)
      return -errno;
    if (!e) {
      closedir(u->level[--u->depth]);
      continue;
    }
    int rc = is_dots(e->d_name) ? 0 : look(u, e->d_name);
    if (rc != 0)
      return rc;
  }
  return u->depth > 0;
}

static void answer(pco_agent *a, const usage_job *u) {
  pco_wire_begin(&a->buf, PCO_WIRE_REPLY, 0, u->head.op);
  pco_wire_number(&a->buf, PCO_TAG_SIZE, u->size);
  pco_wire_number(&a->buf, PCO_TAG_ALLOCATED, u->allocated);
  pco_wire_number(&a->buf, PCO_TAG_COUNT, u->files);
  pco_wire_number(&a->buf, PCO_TAG_DIRECTORIES, u->directories);
  pco_answer(a);
}

static bool step(pco_agent *a, pco_job *j) {
  usage_job *u = (usage_job *)j;
  int rc = count_some(u);
  if (rc == 0)
    answer(a, u);
  else if (rc < 0)
    pco_fs_done(a, j->op, rc, j->path, "counting what is below");
  return rc == 1;
}

/* Counts what was walked to, and opens it if it is a directory. */
static int begin(usage_job *u, const pco_place *at) {
  if (at->fd < 0)
    return -ENOENT;
  if (S_ISLNK(at->st.st_mode))
    return -ELOOP;
  u->device = at->st.st_dev;
  count(u, &at->st);
  if (!S_ISDIR(at->st.st_mode))
    return 0;
  int fd = openat(at->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  return fd < 0 ? -errno : enter(u, fd);
}

void pco_fs_usage(pco_agent *a, const pco_request *r) {
  char path[PCO_PATH_TEXT];
  pco_place at;
  if (!pco_fs_path(a, r, PCO_TAG_PATH, path))
    return;
  usage_job *u = pco_job_create(a, sizeof *u, r, path);
  if (!u)
    return;
  u->head.step = step;
  u->head.destroy = destroy;
  int rc =
      pco_walk(&a->paths, path, pco_fs_walk_flags(r) & PCO_WALK_NOFOLLOW, &at);
  if (rc == 0) {
    rc = begin(u, &at);
    pco_place_deinit(&at);
  }
  if (rc == 0) {
    pco_job_start(a, &u->head);
    return;
  }
  pco_fs_done(a, r->op, rc, path, NULL);
  destroy(&u->head);
}
