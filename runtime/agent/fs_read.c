/* SPDX-License-Identifier: MIT */
/*
 * READ: regular files (those of /proc too, whose size says nothing) and
 * character devices, a DATA frame a step.
 *
 * Other kinds could make the agent wait for someone and are refused.  What was
 * walked to is looked at before it is opened, since opening a device can do
 * things, and again after it.
 */
#include "fs.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

typedef struct read_job {
  pco_job head;
  int fd;
  off_t at;
  uint64_t left;
  bool seekable;
} read_job;

static void destroy(pco_job *j) {
  read_job *l = (read_job *)j;
  if (l->fd >= 0)
    close(l->fd);
  pco_job_free(j);
}

static ssize_t read_some(read_job *l, uint8_t *to, size_t size) {
  ssize_t n;
  do
    n = l->seekable ? pread(l->fd, to, size, l->at) : read(l->fd, to, size);
  while (n < 0 && errno == EINTR);
  if (n > 0) {
    l->at += n;
    l->left -= (uint64_t)n;
  }
  return n < 0 ? -errno : n;
}

/* Fills the block as far as possible, so that a small file is one frame.  The
 * bytes, or a negative errno; *end tells that there is no more. */
static ssize_t fill(read_job *l, uint8_t *block, bool *end) {
  size_t len = 0;
  ssize_t n = 0;
  while (len < PCO_WIRE_MAX_DATA && l->left > 0) {
    size_t want = PCO_WIRE_MAX_DATA - len;
    n = read_some(l, block + len, want < l->left ? want : (size_t)l->left);
    if (n <= 0)
      break;
    len += (size_t)n;
  }
  *end = n == 0 || l->left == 0;
  return n < 0 && len == 0 ? n : (ssize_t)len;
}

static bool step(pco_agent *a, pco_job *j) {
  static uint8_t block[PCO_WIRE_MAX_DATA]; /* steps do not overlap */
  bool end;
  ssize_t n = fill((read_job *)j, block, &end);
  if (n < 0) {
    pco_answer_error(a, j->op, (int)-n, j->path, NULL);
    return false;
  }
  uint8_t flags = end ? 0 : (uint8_t)PCO_WIRE_MORE;
  pco_wire_begin(&a->buf, PCO_WIRE_DATA, flags, j->op);
  pco_wire_bytes(&a->buf, PCO_TAG_DATA, block, (size_t)n);
  pco_answer(a);
  return !end;
}

/* 0 or a negative errno, with a sentence if that says too little. */
static int readable(mode_t mode, const char **message) {
  *message = NULL;
  if (S_ISREG(mode) || S_ISCHR(mode))
    return 0;
  if (S_ISDIR(mode))
    return -EISDIR;
  if (S_ISLNK(mode))
    return -ELOOP;
  *message = "only regular files and character devices can be read";
  return -EINVAL;
}

/* Opens what was found, if it may be read. */
static int open_place(const pco_place *at, const char **message) {
  struct stat st;
  int rc = at->fd < 0 ? -ENOENT : readable(at->st.st_mode, message);
  if (rc != 0)
    return rc;
  int fd = pco_place_open(at, O_RDONLY, 0);
  if (fd < 0)
    return fd;
  rc = fstat(fd, &st) == 0 ? readable(st.st_mode, message) : -errno;
  if (rc == 0)
    return fd;
  close(fd);
  return rc;
}

static int open_file(pco_agent *a, const pco_request *r, const char *path,
                     const char **message) {
  int rc = -ESTALE;
  *message = NULL;
  for (int i = 0; rc == -ESTALE && i < PCO_WALK_RETRIES; i++) {
    pco_place at;
    rc = pco_walk(&a->paths, path, pco_fs_walk_flags(r) & PCO_WALK_NOFOLLOW,
                  &at);
    if (rc != 0)
      break;
    rc = open_place(&at, message);
    pco_place_deinit(&at);
  }
  return rc;
}

void pco_fs_read(pco_agent *a, const pco_request *r) {
  char path[PCO_PATH_TEXT];
  const char *message;
  if (!pco_fs_path(a, r, PCO_TAG_PATH, path))
    return;
  int fd = open_file(a, r, path, &message);
  if (fd < 0 && message)
    pco_answer_error(a, r->op, -fd, path, message);
  else if (fd < 0)
    pco_fs_walk_error(a, r->op, fd, path);
  if (fd < 0)
    return;
  read_job *l = pco_job_create(a, sizeof *l, r, path);
  if (!l) {
    close(fd);
    return;
  }
  l->head.step = step;
  l->head.destroy = destroy;
  l->fd = fd;
  l->at = (off_t)pco_request_number(r, PCO_TAG_OFFSET);
  l->seekable = lseek(fd, 0, SEEK_CUR) >= 0;
  l->left = pco_request_has(r, PCO_TAG_LENGTH)
                ? pco_request_number(r, PCO_TAG_LENGTH)
                : UINT64_MAX;
  pco_job_start(a, &l->head);
}
