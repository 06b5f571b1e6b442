/* SPDX-License-Identifier: MIT */
/*
 * See image_cache.h.
 */
#include "image_cache.h"

#include "../common/private_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/file.h>
#include <unistd.h>
#include <uv.h>

#define HERE_ONLY (O_NOFOLLOW | O_CLOEXEC)

void bwrap_cache_default(char *out, size_t size) {
  if (geteuid() == 0)
    snprintf(out, size, "/var/cache/portico");
  else
    snprintf(out, size, "/var/tmp/portico-%u", (unsigned)geteuid());
}

/* ---- whose it is -------------------------------------------------------- */

/* Why a directory above the cache is not to be trusted, or NULL. */
static const char *distrust_parent(const struct stat *st) {
  if (S_ISLNK(st->st_mode))
    return "is a link";
  if (!S_ISDIR(st->st_mode))
    return "is not a directory";
  if (st->st_uid != 0 && st->st_uid != geteuid())
    return "belongs to another user";
  if ((st->st_mode & 022) && !(st->st_mode & S_ISVTX))
    return "can be written by others (chmod go-w)";
  return NULL;
}

/* The same for the cache itself. */
static const char *distrust(const struct stat *st) {
  const char *why = distrust_parent(st);
  if (why)
    return why;
  if (st->st_uid != geteuid())
    return "belongs to another user";
  if (st->st_mode & 077)
    return "is open to others (chmod 700)";
  return NULL;
}

static int refuse(pco_error *err, const char *path, size_t len,
                  const char *why) {
  pco_error_set(err, UV_EACCES, PCO_SOURCE_PLUGIN,
                "images cannot be kept in %.200s, since %.*s %s; the setting "
                "'cache' names another directory",
                path, (int)len, path, why);
  return UV_EACCES;
}

static int fail(pco_error *err, const char *path, int code) {
  return pco_error_set(err, code, PCO_SOURCE_PLUGIN,
                       "images cannot be kept in %.300s: %s; the setting "
                       "'cache' names another directory",
                       path, uv_strerror(code));
}

/* ---- the way to it ------------------------------------------------------ */

/* One step down, from the directory `from`, which is closed, to a component of
 * the path that ends at `end`.  The last one is made if it is not there. */
static int step(int from, const char *path, const char *name, const char *end,
                pco_error *err) {
  char one[NAME_MAX + 1];
  struct stat st;
  bool last = !end[strspn(end, "/")];
  snprintf(one, sizeof one, "%.*s", (int)(end - name), name);
  bool made = last && mkdirat(from, one, 0700) == 0;
  int fd = openat(from, one, O_PATH | HERE_ONLY);
  int rc = fd < 0 || fstat(fd, &st) < 0 ? fail(err, path, -errno) : 0;
  if (rc == 0 && made && (st.st_mode & 0777) != 0700)
    st.st_mode = fchmodat(from, one, 0700, 0) == 0 ? S_IFDIR | 0700 : 0;
  const char *why = NULL;
  if (rc == 0)
    why = last ? distrust(&st) : distrust_parent(&st);
  if (why)
    rc = refuse(err, path, (size_t)(end - path), why);
  close(from);
  if (rc < 0 && fd >= 0)
    close(fd);
  return rc < 0 ? rc : fd;
}

static bool is_dots(const char *name, size_t len) {
  return (len == 1 && name[0] == '.') ||
         (len == 2 && name[0] == '.' && name[1] == '.');
}

static int walk(const char *path, pco_error *err) {
  int fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0)
    return fail(err, path, -errno);
  const char *name = path + strspn(path, "/");
  while (fd >= 0 && *name) {
    const char *end = name + strcspn(name, "/");
    if (end - name > NAME_MAX || is_dots(name, (size_t)(end - name))) {
      close(fd);
      return pco_error_set(err, UV_EINVAL, PCO_SOURCE_PLUGIN,
                           "cache '%.300s' has '.' or '..' in it", path);
    }
    fd = step(fd, path, name, end, err);
    name = end + strspn(end, "/");
  }
  return fd;
}

static int open_part(int top, const char *name) {
  int rc = plugin_make_private(top, name);
  if (rc < 0 && rc != -EEXIST)
    return rc;
  int fd = openat(top, name, O_RDONLY | O_DIRECTORY | HERE_ONLY);
  return fd < 0 ? -errno : fd;
}

int bwrap_cache_open(bwrap_cache *c, const char *path, pco_error *err) {
  *c = (bwrap_cache){.path = path, .images = -1, .index = -1, .making = -1};
  int top = walk(path, err);
  if (top < 0)
    return top;
  int rc = c->images = open_part(top, "images");
  if (rc >= 0)
    rc = c->index = open_part(top, "index");
  if (rc >= 0)
    rc = c->making = open_part(top, BWRAP_CACHE_MAKING);
  close(top);
  return rc < 0 ? fail(err, path, rc) : 0;
}

void bwrap_cache_close(bwrap_cache *c) {
  int *const all[] = {&c->images, &c->index, &c->making};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    if (*all[i] >= 0)
      close(*all[i]);
    *all[i] = -1;
  }
}

/* ---- marks and keys ----------------------------------------------------- */

void bwrap_cache_mark(const struct stat *st, char out[BWRAP_MARK_SIZE]) {
  snprintf(out, BWRAP_MARK_SIZE, "%llx-%llx-%llx-%llx.%lx-%llx.%lx",
           (unsigned long long)st->st_dev, (unsigned long long)st->st_ino,
           (unsigned long long)st->st_size,
           (unsigned long long)st->st_mtim.tv_sec,
           (unsigned long)st->st_mtim.tv_nsec,
           (unsigned long long)st->st_ctim.tv_sec,
           (unsigned long)st->st_ctim.tv_nsec);
}

bool bwrap_cache_is_key(const char *text) {
  return strlen(text) == BWRAP_KEY_SIZE - 1 &&
         strspn(text, "0123456789abcdef") == BWRAP_KEY_SIZE - 1;
}

bool bwrap_cache_use(const bwrap_cache *c, const char *key) {
  struct stat st;
  if (fstatat(c->images, key, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
      !S_ISDIR(st.st_mode))
    return false;
  utimensat(c->images, key, NULL, AT_SYMLINK_NOFOLLOW);
  return true;
}

bool bwrap_cache_find(const bwrap_cache *c, const char *mark,
                      char key[BWRAP_KEY_SIZE]) {
  ssize_t n = readlinkat(c->index, mark, key, BWRAP_KEY_SIZE - 1);
  key[n < 0 ? 0 : n] = '\0';
  return bwrap_cache_is_key(key) && bwrap_cache_use(c, key);
}

/* The lengths of what a mark begins with: device and number of the file. */
static size_t file_part(const char *mark) {
  size_t len = strcspn(mark, "-");
  return mark[len] ? len + 1 + strcspn(mark + len + 1, "-") + 1 : len;
}

/* A listing of its own, with an offset of its own; or NULL. */
static DIR *list(int dir) {
  int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *d = fd < 0 ? NULL : fdopendir(fd);
  if (!d && fd >= 0)
    close(fd);
  return d;
}

void bwrap_cache_remember(const bwrap_cache *c, const char *mark,
                          const char *key) {
  size_t len = file_part(mark);
  DIR *dir = list(c->index);
  for (struct dirent *e; dir && (e = readdir(dir)) != NULL;)
    if (strncmp(e->d_name, mark, len) == 0)
      unlinkat(c->index, e->d_name, 0);
  if (dir)
    closedir(dir);
  (void)!symlinkat(key, c->index, mark);
}

/* ---- making ------------------------------------------------------------- */

/* Opens and locks; UV_EBUSY also if it was removed meanwhile. */
static int lock(const bwrap_cache *c, const char *mark) {
  struct stat held, named;
  int fd = openat(c->making, mark, O_RDONLY | O_DIRECTORY | HERE_ONLY);
  if (fd < 0)
    return errno == ENOENT ? UV_EBUSY : -errno;
  int rc = flock(fd, LOCK_EX | LOCK_NB) < 0 ? -errno : 0;
  if (rc == 0 && (fstat(fd, &held) < 0 ||
                  fstatat(c->making, mark, &named, AT_SYMLINK_NOFOLLOW) < 0 ||
                  held.st_ino != named.st_ino))
    rc = UV_EBUSY;
  if (rc == 0)
    return fd;
  close(fd);
  return rc == UV_EAGAIN ? UV_EBUSY : rc;
}

int bwrap_cache_claim(const bwrap_cache *c, const char *mark, int *fd) {
  int rc = plugin_make_private(c->making, mark);
  bool made = rc == 0;
  if (!made && rc != -EEXIST)
    return rc;
  rc = *fd = lock(c, mark);
  if (rc < 0 || made)
    return rc < 0 ? rc : 0;
  bwrap_cache_release(fd);
  return UV_EBUSY;
}

/* A program that the host has forked meanwhile may hold a copy of it. */
void bwrap_cache_release(int *fd) {
  if (*fd >= 0) {
    flock(*fd, LOCK_UN);
    close(*fd);
  }
  *fd = -1;
}

bool bwrap_cache_claim_dead(const bwrap_cache *c, char mark[BWRAP_MARK_SIZE],
                            int *fd) {
  DIR *dir = list(c->making);
  *fd = -1;
  for (struct dirent *e; dir && *fd < 0 && (e = readdir(dir)) != NULL;) {
    size_t len = strlen(e->d_name);
    if (is_dots(e->d_name, len) || len >= BWRAP_MARK_SIZE)
      continue; /* no name of ours */
    memcpy(mark, e->d_name, len + 1);
    *fd = lock(c, mark);
  }
  if (dir)
    closedir(dir);
  return *fd >= 0;
}

/* A directory does not replace another that has something in it. */
int bwrap_cache_add(const bwrap_cache *c, int dir, const char *tree,
                    const char *key) {
  if (renameat(dir, tree, c->images, key) == 0 || errno == EEXIST ||
      errno == ENOTEMPTY)
    return 0;
  return -errno;
}
