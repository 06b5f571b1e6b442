/* SPDX-License-Identifier: MIT */
/*
 * OPEN and what is done to a file that is open: FILE_READ, FILE_WRITE and so
 * on.
 *
 * A worker holds one open file at most, and is nobody else's as long as it does
 * (workers.h); so a file system that hangs holds up its own files only.  The
 * descriptor never leaves the process.  It never blocks: FIFOs, sockets and
 * block devices are not opened, a device without bytes is waited for as a job.
 */
#include "fs.h"

#include "portico/plugin.h"

#include "flow.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct pco_open {
  uint64_t op; /* that opened it */
  int fd;
  bool append;
  bool seekable;
  char path[]; /* as the caller gave it */
} pco_open;

/* ---- opening ------------------------------------------------------------- */

static int open_flags(const pco_request *r) {
  bool reads = pco_fs_flag(r, PCO_OPEN_READ);
  bool writes = pco_fs_flag(r, PCO_OPEN_WRITE);
  return (writes ? reads ? O_RDWR : O_WRONLY : O_RDONLY) |
         (pco_fs_flag(r, PCO_OPEN_CREATE) ? O_CREAT : 0) |
         (pco_fs_flag(r, PCO_OPEN_EXCLUSIVE) ? O_EXCL : 0) |
         (pco_fs_flag(r, PCO_FS_APPEND) ? O_APPEND : 0);
}

/* Emptied and given its mode through the descriptor, when it is known to be a
 * file. */
static int prepare(int fd, const pco_request *r, bool is_new,
                   const char **message) {
  struct stat st;
  int rc = fstat(fd, &st) == 0 ? pco_fs_readable(st.st_mode, message) : -errno;
  if (rc != 0)
    return rc;
  if (pco_fs_flag(r, PCO_OPEN_TRUNCATE) && S_ISREG(st.st_mode) &&
      st.st_size > 0 && ftruncate(fd, 0) != 0)
    return -errno;
  if (is_new && pco_request_has(r, PCO_TAG_MODE) &&
      fchmod(fd, (mode_t)pco_request_number(r, PCO_TAG_MODE)) != 0)
    return -errno;
  return 0;
}

/* The descriptor, or a negative errno. */
static int open_place(const pco_place *at, const pco_request *r,
                      const char **message) {
  bool is_new = at->fd < 0;
  int rc = 0;
  if (is_new && at->must_be_directory)
    rc = -EISDIR;
  else if (is_new && !pco_fs_flag(r, PCO_OPEN_CREATE))
    rc = -ENOENT;
  else if (!is_new && pco_fs_flag(r, PCO_OPEN_EXCLUSIVE))
    rc = -EEXIST;
  else if (!is_new)
    rc = pco_fs_readable(at->st.st_mode, message);
  if (rc != 0)
    return rc;
  int fd = pco_place_open(at, open_flags(r), 0666);
  if (fd < 0)
    return fd;
  rc = prepare(fd, r, is_new, message);
  if (rc == 0)
    return fd;
  close(fd);
  return rc;
}

static pco_open *new_open(const pco_request *r, const char *path, int fd) {
  size_t size = strlen(path) + 1;
  pco_open *o = malloc(sizeof *o + size);
  if (!o)
    return NULL;
  o->op = r->op;
  o->fd = fd;
  o->append = pco_fs_flag(r, PCO_FS_APPEND);
  o->seekable = lseek(fd, 0, SEEK_CUR) >= 0;
  memcpy(o->path, path, size);
  return o;
}

bool pco_fs_may_hold(pco_agent *a, const pco_request *r) {
  if (a->is_worker)
    return true;
  pco_answer_error(a, r->op, EAGAIN, NULL,
                   "no process can be made in the sandbox to hold it open");
  return false;
}

void pco_fs_open(pco_agent *a, const pco_request *r) {
  char path[PCO_PATH_TEXT];
  const char *message;
  if (!pco_fs_may_hold(a, r) || !pco_fs_path(a, r, PCO_TAG_PATH, path))
    return;
  int fd =
      pco_fs_open_at(a, r, path, pco_fs_walk_flags(r), open_place, &message);
  if (fd < 0) {
    pco_fs_open_failed(a, r->op, fd, path, message);
    return;
  }
  a->open = new_open(r, path, fd);
  if (a->open) {
    pco_answer_empty(a, r->op);
    return;
  }
  close(fd);
  pco_answer_error(a, r->op, ENOMEM, path, NULL);
}

/* ---- writing ------------------------------------------------------------- */

typedef struct put_job {
  pco_job head;
  const pco_open *file;
  pco_flow flow;
} put_job;

/* Where the next write would go on. */
static uint64_t end_of_write(const pco_open *o, uint64_t offset, uint64_t n) {
  struct stat st;
  if (o->append && fstat(o->fd, &st) == 0 && st.st_size >= 0)
    return (uint64_t)st.st_size;
  return offset + n;
}

static void answer_written(pco_agent *a, const pco_open *o, uint64_t op, int rc,
                           uint64_t offset, uint64_t n) {
  if (rc < 0) {
    pco_wire_begin(&a->buf, PCO_WIRE_ERROR, 0, op);
    pco_wire_number(&a->buf, PCO_TAG_ERRNO, (uint64_t)-rc);
    pco_wire_string(&a->buf, PCO_TAG_PATH, o->path);
  } else {
    pco_wire_begin(&a->buf, PCO_WIRE_REPLY, 0, op);
    pco_wire_number(&a->buf, PCO_TAG_OFFSET, end_of_write(o, offset, n));
  }
  pco_wire_number(&a->buf, PCO_TAG_LENGTH, n);
  pco_answer(a);
}

static void write_data(pco_agent *a, const pco_open *o, const pco_request *r) {
  uint64_t offset = pco_request_number(r, PCO_TAG_OFFSET);
  size_t done = 0;
  int rc = 0;
  while (rc == 0 && done < r->data.len) {
    const char *p = r->data.s + done;
    size_t len = r->data.len - done;
    ssize_t n = o->seekable ? pwrite(o->fd, p, len, (off_t)(offset + done))
                            : write(o->fd, p, len);
    if (n >= 0)
      done += (size_t)n;
    else if (errno != EINTR)
      rc = -errno;
  }
  answer_written(a, o, r->op, rc, offset, done);
}

static void put_destroy(pco_job *j) {
  pco_flow_deinit(&((put_job *)j)->flow);
  pco_job_free(j);
}

static bool put_step(pco_agent *a, pco_job *j) {
  put_job *p = (put_job *)j;
  int rc = pco_flow_in(&p->flow);
  if (rc == -EAGAIN)
    rc = pco_flow_wait(a, j, &p->flow, EPOLLIN) == 0 ? 1 : -EAGAIN;
  if (rc > 0)
    return true;
  answer_written(a, p->file, j->op, rc, (uint64_t)p->flow.at - p->flow.done,
                 p->flow.done);
  return false;
}

static void write_pipe(pco_agent *a, const pco_open *o, const pco_request *r) {
  put_job *p = pco_job_create(a, sizeof *p, r, o->path);
  if (!p)
    return;
  p->head.step = put_step;
  p->head.destroy = put_destroy;
  p->file = o;
  p->flow.pipe = -1;
  int rc = pco_flow_init(&p->flow, r->pipe, o->fd,
                         (off_t)pco_request_number(r, PCO_TAG_OFFSET),
                         pco_request_number(r, PCO_TAG_LENGTH));
  if (rc == 0) {
    pco_job_start(a, &p->head);
    return;
  }
  pco_answer_error(a, r->op, -rc, o->path, NULL);
  put_destroy(&p->head);
}

/* ---- the rest ------------------------------------------------------------ */

static void answer_stat(pco_agent *a, const pco_open *o, uint64_t op) {
  struct stat st;
  if (fstat(o->fd, &st) != 0) {
    pco_answer_error(a, op, errno, o->path, NULL);
    return;
  }
  pco_wire_begin(&a->buf, PCO_WIRE_REPLY, 0, op);
  pco_fs_put_entry(&a->buf, NULL, &st, NULL);
  pco_answer(a);
}

static int sync_file(int fd) {
  return fsync(fd) == 0 || errno == EINVAL ? 0 : -errno;
}

static int truncate_file(int fd, uint64_t size) {
  return ftruncate(fd, (off_t)size) == 0 ? 0 : -errno;
}

static void close_file(pco_agent *a) {
  while (a->jobs.first)
    pco_jobs_cancel(a, a->jobs.first->op);
  close(a->open->fd);
  free(a->open);
  a->open = NULL;
}

static void on_file(pco_agent *a, pco_open *o, const pco_request *r) {
  switch (r->type) {
  case PCO_WIRE_FILE_READ:
    pco_fs_read_from(a, r, o->path, o->fd, true);
    break;
  case PCO_WIRE_FILE_WRITE:
    if (r->pipe >= 0)
      write_pipe(a, o, r);
    else
      write_data(a, o, r);
    break;
  case PCO_WIRE_FILE_TRUNCATE:
    pco_fs_done(a, r->op,
                truncate_file(o->fd, pco_request_number(r, PCO_TAG_SIZE)),
                o->path, NULL);
    break;
  case PCO_WIRE_FILE_SYNC:
    pco_fs_done(a, r->op, sync_file(o->fd), o->path, NULL);
    break;
  case PCO_WIRE_FILE_STAT:
    answer_stat(a, o, r->op);
    break;
  default:
    pco_answer_error(a, r->op, EINVAL, o->path, "this is a file, no watch");
  }
}

void pco_fs_opened(pco_agent *a, const pco_request *r) {
  uint64_t target = pco_request_number(r, PCO_TAG_TARGET);
  if (r->type == PCO_WIRE_FILE_CLOSE) {
    if (a->open && a->open->op == target)
      close_file(a);
    pco_watch_close(a, target);
    pco_answer_empty(a, r->op);
  } else if (pco_watch_opened(a, r)) {
    return;
  } else if (a->open && a->open->op == target) {
    on_file(a, a->open, r);
  } else {
    pco_answer_error(a, r->op, EBADF, NULL, PCO_NOT_OPEN);
  }
}
