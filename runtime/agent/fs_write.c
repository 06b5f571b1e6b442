/* SPDX-License-Identifier: MIT */
/*
 * WRITE: atomic replacement of a file, or appending to one or writing into it.
 *
 * The new content goes to a file with a random name beside the target, which
 * takes the target's name once the last DATA came: a reader sees the old or the
 * new content, never a part.  The directory is held by its descriptor from the
 * walk on.  Invariant: unless it was renamed, the temporary file is removed
 * when the job is destroyed, however that comes.
 */
#include "fs.h"

#include "portico/plugin.h"

#include "flow.h"
#include "write_all.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define NOT_REGULAR "only regular files can be written"

typedef struct write_job {
  pco_job head;
  int fd;        /* of the temporary file, or of the target itself */
  int dir;       /* that holds both */
  size_t taken;  /* bytes that the host was not told of yet */
  pco_flow flow; /* of a pipe, if the content comes by one */
  bool sync;
  uid_t uid; /* whom it is to belong to; -1: nothing asked */
  gid_t gid;
  const char *failed; /* what was tried when it failed; NULL: nothing to say */
  char target[NAME_MAX + 1];
  char temporary[NAME_MAX + 1]; /* "" if there is none to be removed */
} write_job;

static void destroy(pco_job *j) {
  write_job *w = (write_job *)j;
  if (w->temporary[0])
    unlinkat(w->dir, w->temporary, 0);
  pco_litter_clear(w->head.agent->litter);
  if (w->fd >= 0)
    close(w->fd);
  if (w->dir >= 0)
    close(w->dir);
  pco_flow_deinit(&w->flow);
  pco_job_free(j);
}

static int take_name(write_job *w) {
  if (!w->temporary[0])
    return 0;
  if (renameat(w->dir, w->temporary, w->dir, w->target) != 0)
    return -errno;
  w->temporary[0] = 0;
  return 0;
}

/* The name is on the disk once its directory is; one that may not be read
 * cannot be asked to. */
static int sync_directory(const write_job *w) {
  int fd = openat(w->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0)
    return errno == EACCES ? 0 : -errno;
  int rc = fsync(fd) == 0 || errno == EINVAL ? 0 : -errno;
  close(fd);
  return rc;
}

static int commit(write_job *w) {
  w->failed = "writing to the disk";
  if (w->sync && fsync(w->fd) != 0)
    return -errno;
  w->failed = "giving it its name";
  int rc = take_name(w);
  if (rc != 0 || !w->sync)
    return rc;
  w->failed = "writing its directory to the disk";
  return sync_directory(w);
}

/* Tells the host now and then how far it is, so that it goes on sending. */
static void acknowledge(pco_agent *a, write_job *w, size_t len) {
  w->taken += len;
  if (w->taken < PCO_WIRE_WRITE_WINDOW / 2)
    return;
  pco_wire_begin(&a->buf, PCO_WIRE_REPLY, PCO_WIRE_MORE, w->head.op);
  pco_wire_number(&a->buf, PCO_TAG_LENGTH, w->taken);
  pco_answer(a);
  w->taken = 0;
}

static bool on_data(pco_agent *a, pco_job *j, const pco_request *r) {
  write_job *w = (write_job *)j;
  w->failed = "writing";
  int rc = pco_write_all(w->fd, (const uint8_t *)r->data.s, r->data.len);
  if (rc == 0 && r->more) {
    acknowledge(a, w, r->data.len);
    return true;
  }
  if (rc == 0)
    rc = commit(w);
  pco_fs_done(a, j->op, rc, j->path, w->failed);
  return false;
}

static bool pipe_step(pco_agent *a, pco_job *j) {
  write_job *w = (write_job *)j;
  w->failed = "writing";
  int rc = pco_flow_in(&w->flow);
  if (rc == -EAGAIN)
    rc = pco_flow_wait(a, j, &w->flow, EPOLLIN) == 0 ? 1 : -EAGAIN;
  if (rc > 0)
    return true;
  if (rc == 0)
    rc = commit(w);
  pco_fs_done(a, j->op, rc, j->path, w->failed);
  return false;
}

/* The umask, which a program can only read by setting it; there is no other
 * thread that could notice. */
static mode_t current_umask(void) {
  mode_t mask = umask(077);
  umask(mask);
  return mask;
}

/* Gives the file to whom it is to belong. */
static int give(write_job *w) {
  if (w->uid == (uid_t)-1 && w->gid == (gid_t)-1)
    return 0;
  w->failed = "changing the owner";
  return fchown(w->fd, w->uid, w->gid) == 0 ? 0 : -errno;
}

/* Mode and owner of the new file: as asked for, else as the old file's, else as
 * any new file's.  A set-id bit does not go over to another owner. */
static int dress(write_job *w, const pco_request *r, const pco_place *at) {
  mode_t mode = 0666 & ~current_umask();
  if (at->fd >= 0) {
    mode = at->st.st_mode & 07777;
    if (fchown(w->fd, at->st.st_uid, at->st.st_gid) != 0)
      mode &= ~(mode_t)06000;
  }
  int rc = give(w);
  if (rc != 0)
    return rc;
  if (pco_request_has(r, PCO_TAG_MODE))
    mode = (mode_t)pco_request_number(r, PCO_TAG_MODE);
  w->failed = "changing the mode";
  return fchmod(w->fd, mode) == 0 ? 0 : -errno;
}

static int open_temporary(write_job *w) {
  int rc = pco_litter_name(w->head.agent->litter, w->dir, w->temporary);
  if (rc < 0) {
    w->temporary[0] = 0;
    return rc;
  }
  w->fd = openat(w->dir, w->temporary,
                 O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (w->fd >= 0)
    return 0;
  w->temporary[0] = 0;
  return -errno;
}

/* What may be written to: a regular file, or nothing yet. */
static int writable(const pco_place *at, const char **message) {
  *message = NULL;
  if (at->must_be_directory || !at->name[0] || S_ISDIR(at->st.st_mode))
    return -EISDIR;
  if (at->fd < 0 || S_ISREG(at->st.st_mode))
    return 0;
  if (S_ISLNK(at->st.st_mode))
    return -ELOOP;
  *message = NOT_REGULAR;
  return -EINVAL;
}

static int start_replace(write_job *w, const pco_request *r,
                         const pco_place *at) {
  memcpy(w->target, at->name, sizeof w->target);
  int rc = open_temporary(w);
  return rc == 0 ? dress(w, r, at) : rc;
}

/* Opens the file itself, to append to it or to write it anew. */
static int start_in_place(write_job *w, const pco_request *r,
                          const pco_place *at, const char **message) {
  struct stat st;
  int how = pco_fs_flag(r, PCO_FS_APPEND) ? O_APPEND : 0;
  w->fd = pco_place_open(at, O_WRONLY | O_CREAT | how, 0666);
  if (w->fd < 0)
    return w->fd;
  if (fstat(w->fd, &st) != 0)
    return -errno;
  if (!S_ISREG(st.st_mode)) {
    *message = NOT_REGULAR;
    return -EINVAL;
  }
  int rc = give(w);
  if (rc != 0)
    return rc;
  mode_t mode = (mode_t)pco_request_number(r, PCO_TAG_MODE);
  w->failed = "changing the mode";
  if (pco_request_has(r, PCO_TAG_MODE) && fchmod(w->fd, mode) != 0)
    return -errno;
  w->failed = "emptying it";
  return how || ftruncate(w->fd, 0) == 0 ? 0 : -errno;
}

/* Begins at the place that the walk found, whose directory is kept. */
static int start_at(write_job *w, const pco_request *r, const pco_place *at,
                    const char **message) {
  w->dir = fcntl(pco_place_dir(at), F_DUPFD_CLOEXEC, 3);
  if (w->dir < 0)
    return -errno;
  int rc = pco_fs_flag(r, PCO_FS_APPEND | PCO_FS_IN_PLACE)
               ? start_in_place(w, r, at, message)
               : start_replace(w, r, at);
  if (rc == -ESTALE) { /* to be tried again */
    close(w->dir);
    w->dir = -1;
  }
  return rc;
}

static int start(pco_agent *a, write_job *w, const pco_request *r,
                 const char **message) {
  int rc = -ESTALE;
  *message = NULL;
  for (int i = 0; rc == -ESTALE && i < PCO_WALK_RETRIES; i++) {
    pco_place at;
    rc = pco_walk(&a->paths, w->head.path, pco_fs_walk_flags(r), &at);
    if (rc != 0)
      break;
    rc = writable(&at, message);
    if (rc == 0)
      rc = start_at(w, r, &at, message);
    pco_place_deinit(&at);
  }
  return rc;
}

void pco_fs_write(pco_agent *a, const pco_request *r) {
  char path[PCO_PATH_TEXT];
  const char *message;
  uid_t uid = (uid_t)-1;
  gid_t gid = (gid_t)-1;
  if (!pco_fs_path(a, r, PCO_TAG_PATH, path) ||
      (pco_request_text(r, PCO_TAG_USER).s &&
       !pco_fs_owner(a, r, path, &uid, &gid)))
    return;
  write_job *w = pco_job_create(a, sizeof *w, r, path);
  if (!w)
    return;
  w->head.data = r->pipe < 0 ? on_data : NULL;
  w->head.step = r->pipe < 0 ? NULL : pipe_step;
  w->head.destroy = destroy;
  w->flow.pipe = -1;
  w->fd = -1;
  w->dir = -1;
  w->uid = uid;
  w->gid = gid;
  w->sync = pco_fs_flag(r, PCO_FS_SYNC);
  int rc = start(a, w, r, &message);
  if (rc == 0 && r->pipe >= 0)
    rc = pco_flow_init(&w->flow, r->pipe, w->fd, 0,
                       pco_request_number(r, PCO_TAG_LENGTH));
  if (rc == 0) {
    pco_job_start(a, &w->head);
    return;
  }
  if (message)
    pco_answer_error(a, r->op, -rc, path, message);
  else
    pco_fs_done(a, r->op, rc, path, w->failed);
  destroy(&w->head);
}
