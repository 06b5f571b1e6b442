/* SPDX-License-Identifier: MIT */
/*
 * See image.h.
 *
 * The directory is read here, on the loop's thread, with some system calls for
 * each entry of its top; the keeper opens the entries again (keeper.h, `entry`)
 * and refuses those that have become links since.
 */
#include "image.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <uv.h>

#include "../common/fail.h"

#define MAX_ENTRIES 256u
#define BLOCK       512 /* of a tar */

static int fail_path(pco_error *err, int code, const bwrap_image *m) {
  plugin_fail(err, code, "image %.300s: %s", m->named, uv_strerror(code));
  err->path = m->named;
  return code;
}

/* ---- a root directory --------------------------------------------------- */

/* What every sandbox has of its own. */
static bool is_own(const char *name) {
  static const char *const own[] = {".",   "..",  "proc",      "dev",
                                    "sys", "tmp", "workspace", "home"};
  for (size_t i = 0; i < sizeof own / sizeof *own; i++)
    if (pco_streq(name, own[i]))
      return true;
  return false;
}

static int add_entry(bwrap_image *m, const char *name, const char *link) {
  bwrap_image_entry *e = &m->entries[m->n_entries++];
  e->name = strdup(name);
  e->link = link ? strdup(link) : NULL;
  return e->name && (!link || e->link) ? 0 : UV_ENOMEM;
}

/* What is neither a directory nor a file nor a link is not shown, nor what has
 * gone meanwhile. */
static int take_entry(bwrap_image *m, int dir, const char *name,
                      pco_error *err) {
  struct stat st;
  char link[PATH_MAX];
  if (is_own(name) || fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
    return 0;
  if (m->n_entries == MAX_ENTRIES)
    return plugin_fail(
        err, UV_EINVAL,
        "image %.300s is not a root directory: there are more than %u "
        "entries at its top",
        m->named, MAX_ENTRIES);
  if (S_ISDIR(st.st_mode) || S_ISREG(st.st_mode))
    return add_entry(m, name, NULL);
  ssize_t n =
      S_ISLNK(st.st_mode) ? readlinkat(dir, name, link, sizeof link - 1) : -1;
  if (n <= 0)
    return 0;
  link[n] = '\0';
  return add_entry(m, name, link);
}

static int read_entries(bwrap_image *m, pco_error *err) {
  int fd = open(m->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  DIR *dir = fd < 0 ? NULL : fdopendir(fd);
  int rc = 0;
  if (!dir) {
    rc = -errno;
    if (fd >= 0)
      close(fd);
    return fail_path(err, rc, m);
  }
  for (struct dirent *e; rc == 0 && (e = readdir(dir)) != NULL;)
    rc = take_entry(m, fd, e->d_name, err);
  closedir(dir);
  return rc;
}

static bool has_entry(const bwrap_image *m, const char *name, size_t len) {
  for (size_t i = 0; i < m->n_entries; i++)
    if (strlen(m->entries[i].name) == len &&
        memcmp(m->entries[i].name, name, len) == 0)
      return true;
  return false;
}

int bwrap_image_read(bwrap_image *m, const char *path, pco_error *err) {
  m->path = strdup(path);
  m->entries = calloc(MAX_ENTRIES, sizeof *m->entries);
  int rc = m->path && m->entries ? read_entries(m, err) : UV_ENOMEM;
  if (rc < 0 || has_entry(m, "usr", 3) || has_entry(m, "bin", 3))
    return rc;
  return plugin_fail(
      err, UV_EINVAL,
      "image %.300s is not a root directory%s: it has neither usr nor "
      "bin at its top, where a system has them",
      m->named, m->is_tar ? " in a tar" : "");
}

bool bwrap_image_has_place(const bwrap_image *m, const char *target,
                           pco_error *err) {
  const char *name = target + strspn(target, "/");
  struct open_how how = {.flags = O_PATH | O_CLOEXEC,
                         .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH};
  if (!m->path || !has_entry(m, name, strcspn(name, "/")))
    return true;
  int dir = open(m->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
  int fd = (int)syscall(SYS_openat2, dir, name, &how, sizeof how);
  bool is_link = fd < 0 && errno == ELOOP;
  if (fd >= 0)
    close(fd);
  if (dir >= 0)
    close(dir);
  if (is_link)
    plugin_fail(
        err, UV_EINVAL,
        "mounts: the target '%.300s' is, or goes through, a link in the image",
        target);
  return !is_link;
}

/* ---- a tar -------------------------------------------------------------- */

static const struct {
  const char *program;
  size_t len;
  const char *magic;
} compressions[] = {{"gzip", 2, "\x1f\x8b"},
                    {"bzip2", 3, "BZh"},
                    {"zstd", 4, "\x28\xb5\x2f\xfd"},
                    {"xz", 6, "\xfd\x37zXZ\0"}};

/* The first header of a tar has the sum of its own bytes in it, with blanks in
 * place of the sum; a tar of nothing begins with zeros. */
static bool is_header(const unsigned char block[BLOCK]) {
  unsigned long sum = 0;
  char text[9] = "";
  for (int i = 0; i < BLOCK; i++)
    sum += i >= 148 && i < 156 ? ' ' : block[i];
  memcpy(text, block + 148, 8);
  return sum == ' ' * 8 || strtoul(text, NULL, 8) == sum;
}

static int find_program(bwrap_image *m, pco_error *err) {
  unsigned char block[BLOCK];
  ssize_t n = pread(m->tar, block, sizeof block, 0);
  if (n < 0)
    return fail_path(err, -errno, m);
  m->program = NULL;
  for (size_t i = 0; i < sizeof compressions / sizeof *compressions; i++)
    if ((size_t)n >= compressions[i].len &&
        memcmp(block, compressions[i].magic, compressions[i].len) == 0)
      m->program = compressions[i].program;
  if (!m->program && n == BLOCK && is_header(block))
    m->program = "none";
  if (m->program)
    return 0;
  return plugin_fail(
      err, UV_EINVAL,
      "image %.300s is neither a directory nor a tar (which may be "
      "compressed by gzip, bzip2, xz or zstd)",
      m->named);
}

/* ---- either ------------------------------------------------------------- */

static int open_tar(bwrap_image *m, int fd, pco_error *err) {
  char name[32];
  snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
  m->tar = open(name, O_RDONLY | O_CLOEXEC);
  if (m->tar < 0)
    return fail_path(err, -errno, m);
  m->is_tar = true;
  return find_program(m, err);
}

static int open_dir(bwrap_image *m, pco_error *err) {
  char real[PATH_MAX];
  if (!realpath(m->named, real))
    return fail_path(err, -errno, m);
  return bwrap_image_read(m, real, err);
}

int bwrap_image_open(bwrap_image *m, const char *named, pco_error *err) {
  struct stat st;
  memset(m, 0, sizeof *m);
  m->named = strdup(named);
  if (!m->named)
    return UV_ENOMEM;
  if (*named != '/')
    return plugin_fail(err, UV_EINVAL, "image '%.300s' is not an absolute path",
                       named);
  int fd = open(named, O_PATH | O_CLOEXEC);
  int rc = 0;
  if (fd < 0 || fstat(fd, &st) < 0)
    rc = fail_path(err, -errno, m);
  else if (S_ISDIR(st.st_mode))
    rc = open_dir(m, err);
  else if (S_ISREG(st.st_mode))
    rc = open_tar(m, fd, err);
  else
    rc = plugin_fail(err, UV_EINVAL,
                     "image %.300s is neither a directory nor a file", named);
  if (fd >= 0)
    close(fd);
  if (err->path == m->named)
    err->path = named;
  return rc;
}

void bwrap_image_deinit(bwrap_image *m) {
  for (size_t i = 0; i < m->n_entries; i++) {
    free(m->entries[i].name);
    free(m->entries[i].link);
  }
  free(m->entries);
  free(m->path);
  free(m->named);
  if (m->is_tar && m->tar >= 0)
    close(m->tar);
  memset(m, 0, sizeof *m);
}
