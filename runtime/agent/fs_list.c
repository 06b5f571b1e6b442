/* SPDX-License-Identifier: MIT */
/*
 * LIST: a directory's entries, in any order, a frame a step.
 *
 * Each entry is looked at through the directory's descriptor, without
 * following it; one that vanished meanwhile is left out.
 */
#include "fs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define FRAME_BYTES   (192u * 1024) /* then the frame is sent */
#define FRAME_ENTRIES 512

typedef struct list_job {
  pco_job head;
  DIR *dir;
} list_job;

static void destroy(pco_job *j) {
  list_job *l = (list_job *)j;
  if (l->dir)
    closedir(l->dir);
  pco_job_free(j);
}

static void put(pco_agent *a, int dir, const char *name) {
  struct stat st;
  char link[PATH_MAX];
  if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
    return;
  ssize_t n = -1;
  if (S_ISLNK(st.st_mode))
    n = readlinkat(dir, name, link, sizeof link - 1);
  link[n < 0 ? 0 : n] = 0;
  pco_fs_put_entry(&a->buf, name, &st, n < 0 ? NULL : link);
}

static bool is_dots(const char *name) {
  return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static bool step(pco_agent *a, pco_job *j) {
  list_job *l = (list_job *)j;
  struct dirent *e = NULL;
  pco_wire_begin(&a->buf, PCO_WIRE_REPLY, PCO_WIRE_MORE, j->op);
  errno = 0;
  for (int i = 0; i < FRAME_ENTRIES && a->buf.len < FRAME_BYTES; i++) {
    errno = 0; /* what put() met does not count */
    e = readdir(l->dir);
    if (!e)
      break;
    if (!is_dots(e->d_name))
      put(a, dirfd(l->dir), e->d_name);
  }
  if (!e && errno != 0) {
    pco_answer_error(a, j->op, errno, j->path, NULL);
    return false;
  }
  if (!e && a->buf.error == 0)
    a->buf.data[7] = 0; /* the flags: it is the last frame */
  pco_answer(a);
  return e != NULL;
}

static int open_directory(const pco_place *at, const pco_request *r,
                          const char **message) {
  (void)r;
  (void)message;
  return pco_place_open(at, O_RDONLY | O_DIRECTORY, 0);
}

void pco_fs_list(pco_agent *a, const pco_request *r) {
  char path[PCO_PATH_TEXT];
  const char *message;
  if (!pco_fs_path(a, r, PCO_TAG_PATH, path))
    return;
  int fd = pco_fs_open_at(a, r, path, pco_fs_walk_flags(r) & PCO_WALK_NOFOLLOW,
                          open_directory, &message);
  if (fd < 0) {
    pco_fs_open_failed(a, r->op, fd, path, message);
    return;
  }
  list_job *l = pco_job_create(a, sizeof *l, r, path);
  if (!l) {
    close(fd);
    return;
  }
  l->head.step = step;
  l->head.destroy = destroy;
  l->dir = fdopendir(fd);
  if (!l->dir) {
    pco_answer_error(a, r->op, errno, path, NULL);
    close(fd);
    destroy(&l->head);
    return;
  }
  pco_job_start(a, &l->head);
}
