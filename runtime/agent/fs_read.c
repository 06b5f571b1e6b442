/* SPDX-License-Identifier: MIT */
/*
 * READ and FILE_READ: regular files (those of /proc too, whose size says
 * nothing) and character devices, a DATA frame a step, or through a pipe.
 *
 * Other kinds could make the agent wait for someone and are refused.  What was
 * walked to is looked at before it is opened, since opening a device can do
 * things, and again after it.
 */
#include "fs.h"

#include "flow.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

typedef struct read_job {
  pco_job head;
  int fd;
  off_t at;
  uint64_t left;
  bool seekable;
  bool borrowed; /* the descriptor is that of an open file */
  pco_flow flow; /* of a pipe, if there is one */
} read_job;

static void destroy(pco_job *j) {
  read_job *l = (read_job *)j;
  if (l->fd >= 0 && !l->borrowed)
    close(l->fd);
  pco_flow_deinit(&l->flow);
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
    if (!l->seekable && l->borrowed)
      l->left = 0; /* of a device: what is there */
  }
  *end = n == 0 || l->left == 0;
  return n < 0 && len == 0 ? n : (ssize_t)len;
}

static bool step(pco_agent *a, pco_job *j) {
  static uint8_t block[PCO_WIRE_MAX_DATA]; /* steps do not overlap */
  bool end;
  read_job *l = (read_job *)j;
  ssize_t n = fill(l, block, &end);
  if (n == -EAGAIN && l->borrowed && pco_job_wait(a, j, l->fd, EPOLLIN) == 0)
    return true;
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

static bool pipe_step(pco_agent *a, pco_job *j) {
  read_job *l = (read_job *)j;
  int rc = pco_flow_out(&l->flow);
  if (rc == -EAGAIN)
    rc = pco_flow_wait(a, j, &l->flow, EPOLLOUT) == 0 ? 1 : -EAGAIN;
  if (rc > 0)
    return true;
  if (rc < 0) {
    pco_answer_error(a, j->op, -rc, j->path, NULL);
    return false;
  }
  pco_wire_begin(&a->buf, PCO_WIRE_REPLY, 0, j->op);
  pco_wire_number(&a->buf, PCO_TAG_LENGTH, l->flow.done);
  pco_answer(a);
  return false;
}

int pco_fs_readable(mode_t mode, const char **message) {
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
static int open_place(const pco_place *at, const pco_request *r,
                      const char **message) {
  (void)r;
  struct stat st;
  int rc = at->fd < 0 ? -ENOENT : pco_fs_readable(at->st.st_mode, message);
  if (rc != 0)
    return rc;
  int fd = pco_place_open(at, O_RDONLY, 0);
  if (fd < 0)
    return fd;
  rc = fstat(fd, &st) == 0 ? pco_fs_readable(st.st_mode, message) : -errno;
  if (rc == 0)
    return fd;
  close(fd);
  return rc;
}

/* What is known to be small goes by a frame. */
static bool is_small(int fd, off_t at, uint64_t length) {
  struct stat st;
  if (length < PCO_WIRE_MAX_DATA)
    return true;
  return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0 &&
         st.st_size - at < (off_t)PCO_WIRE_MAX_DATA;
}

/* Tells the host that the bytes come by its pipe. */
static void announce(pco_agent *a, uint64_t op) {
  pco_wire_begin(&a->buf, PCO_WIRE_REPLY, PCO_WIRE_MORE, op);
  pco_wire_number(&a->buf, PCO_TAG_LENGTH, 0);
  pco_answer(a);
}

void pco_fs_read_from(pco_agent *a, const pco_request *r, const char *path,
                      int fd, bool borrowed) {
  read_job *l = pco_job_create(a, sizeof *l, r, path);
  if (!l) {
    if (!borrowed)
      close(fd);
    return;
  }
  l->head.destroy = destroy;
  l->fd = fd;
  l->borrowed = borrowed;
  l->flow.pipe = -1;
  l->at = (off_t)pco_request_number(r, PCO_TAG_OFFSET);
  l->seekable = lseek(fd, 0, SEEK_CUR) >= 0;
  l->left = pco_request_has(r, PCO_TAG_LENGTH)
                ? pco_request_number(r, PCO_TAG_LENGTH)
                : UINT64_MAX;
  bool piped = r->pipe >= 0 && !is_small(fd, l->at, l->left);
  l->head.step = piped ? pipe_step : step;
  int rc = piped ? pco_flow_init(&l->flow, r->pipe, fd, l->at, l->left) : 0;
  if (rc == 0) {
    if (piped)
      announce(a, r->op);
    pco_job_start(a, &l->head);
    return;
  }
  pco_answer_error(a, r->op, -rc, path, NULL);
  destroy(&l->head);
}

void pco_fs_read(pco_agent *a, const pco_request *r) {
  char path[PCO_PATH_TEXT];
  const char *message;
  if (!pco_fs_path(a, r, PCO_TAG_PATH, path))
    return;
  int fd = pco_fs_open_at(a, r, path, pco_fs_walk_flags(r) & PCO_WALK_NOFOLLOW,
                          open_place, &message);
  if (fd < 0) {
    pco_fs_open_failed(a, r->op, fd, path, message);
    return;
  }
  pco_fs_read_from(a, r, path, fd, false);
}
