/* SPDX-License-Identifier: MIT */
/* Copying what one file holds; see copy_file.h. */
#include "copy_file.h"

#include <errno.h>
#include <linux/fs.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define CHUNK (4 * 1024 * 1024) /* bytes in one step, by the kernel */
#define BLOCK (256 * 1024)      /* and by hand */

void pco_copy_file_begin(pco_copy_file *c, int in, int out,
                         const struct stat *st) {
  *c = (pco_copy_file){.in = in, .out = out, .st = *st};
  c->by_hand = st->st_size == 0;
}

void pco_copy_file_end(pco_copy_file *c) {
  if (c->in >= 0)
    close(c->in);
  if (c->out >= 0)
    close(c->out);
  c->in = c->out = -1;
}

/* Errors that say "not so": another way may do. */
static bool is_no_way(int error) {
  return error == EXDEV || error == ENOSYS || error == EINVAL ||
         error == EOPNOTSUPP || error == EPERM || error == ENOTTY ||
         error == EBADF || error == ETXTBSY;
}

static int write_all(int fd, const uint8_t *p, size_t len, off_t at) {
  while (len > 0) {
    ssize_t n = pwrite(fd, p, len, at);
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      return -errno;
    p += n;
    at += n;
    len -= (size_t)n;
  }
  return 0;
}

/* The bytes that were copied, 0 at the end of the file. */
static ssize_t copy_by_hand(pco_copy_file *c, size_t len) {
  static uint8_t block[BLOCK]; /* steps do not overlap */
  ssize_t n;
  c->failed = "reading";
  do
    n = pread(c->in, block, len < BLOCK ? len : BLOCK, c->at);
  while (n < 0 && errno == EINTR);
  if (n <= 0)
    return n < 0 ? -errno : 0;
  c->failed = "writing";
  int rc = write_all(c->out, block, (size_t)n, c->at);
  return rc < 0 ? rc : n;
}

static ssize_t copy_some(pco_copy_file *c, size_t len) {
  if (!c->by_hand) {
    off_t from = c->at, to = c->at;
    c->failed = "copying";
    ssize_t n = copy_file_range(c->in, &from, c->out, &to,
                                len < CHUNK ? len : CHUNK, 0);
    if (n > 0)
      return n;
    if (n < 0 && !is_no_way(errno))
      return -errno;
    c->by_hand = true; /* 0 too: some file systems say so, and have more */
  }
  return copy_by_hand(c, len);
}

/* Finds the next data from c->at on: 1, 0 if there is only a hole. */
static int find_data(pco_copy_file *c) {
  off_t data = lseek(c->in, c->at, SEEK_DATA);
  if (data < 0 && errno == ENXIO)
    return 0;
  off_t end = data < 0 ? -1 : lseek(c->in, data, SEEK_HOLE);
  c->at = end > data ? data : c->at;
  c->data_end = end > data && end < c->st.st_size ? end : c->st.st_size;
  return c->at < c->st.st_size;
}

int pco_copy_attributes(int fd, const struct stat *original) {
  struct stat st;
  const struct timespec times[2] = {original->st_atim, original->st_mtim};
  if (fstat(fd, &st) != 0)
    return -errno;
  bool same = st.st_uid == original->st_uid && st.st_gid == original->st_gid;
  mode_t mode = original->st_mode & (same ? 07777 : 01777);
  return fchmod(fd, mode) == 0 && futimens(fd, times) == 0 ? 0 : -errno;
}

static int finish(pco_copy_file *c) {
  struct stat st;
  c->failed = "writing";
  if (c->st.st_size > 0 &&
      (fstat(c->out, &st) != 0 ||
       (st.st_size < c->at && ftruncate(c->out, c->at) != 0)))
    return -errno;
  c->failed = "changing mode and times";
  return pco_copy_attributes(c->out, &c->st);
}

/* A file that says 0 is read to its end. */
static int step_unsized(pco_copy_file *c) {
  ssize_t n = copy_by_hand(c, BLOCK);
  if (n > 0)
    c->at += n;
  return n > 0 ? 1 : n < 0 ? (int)n : finish(c);
}

int pco_copy_file_step(pco_copy_file *c) {
  if (c->st.st_size == 0)
    return step_unsized(c);
  if (c->at == 0 && ioctl(c->out, FICLONE, c->in) == 0)
    return finish(c);
  if (c->at >= c->data_end && !find_data(c)) {
    c->at = c->st.st_size; /* it ends with a hole */
    return finish(c);
  }
  ssize_t n = copy_some(c, (size_t)(c->data_end - c->at));
  if (n < 0)
    return (int)n;
  c->at += n;
  return n > 0 && c->at < c->st.st_size ? 1 : finish(c);
}
