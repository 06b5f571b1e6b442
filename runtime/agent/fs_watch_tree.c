/* SPDX-License-Identifier: MIT */
/*
 * The directories of a watch.
 *
 * inotify watches single directories, so each has a spot here.  They are opened
 * component by component from the root, never through a link.  A new one is
 * watched first and looked into then: what was made in between is found by the
 * look, or told by the kernel, or both; so names that a look told of are kept
 * until the kernel has nothing older to say.
 */
#include "fs_watch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OF_DIRECTORY                                                           \
  (IN_CREATE | IN_DELETE | IN_MODIFY | IN_ATTRIB | IN_MOVED_FROM |             \
   IN_MOVED_TO | IN_EXCL_UNLINK)
#define OF_TOP  (IN_DELETE_SELF | IN_MOVE_SELF)
#define OF_FILE (IN_MODIFY | IN_ATTRIB | OF_TOP)

/* ---- spots --------------------------------------------------------------- */

static pco_spot **bucket(pco_seen *s, int wd) {
  return &s->spots[(unsigned)wd % PCO_SPOT_BUCKETS];
}

pco_spot *pco_spot_find(const pco_seen *s, int wd) {
  pco_spot *spot = s->spots[(unsigned)wd % PCO_SPOT_BUCKETS];
  while (spot && spot->wd != wd)
    spot = spot->same;
  return spot;
}

pco_spot *pco_spot_child(const pco_spot *parent, const char *name) {
  pco_spot *c = parent->child;
  while (c && strcmp(c->name, name) != 0)
    c = c->next;
  return c;
}

static pco_spot *new_spot(pco_spot *parent, const char *name) {
  size_t size = strlen(name) + 1;
  pco_spot *spot = calloc(1, sizeof *spot + size);
  if (!spot)
    return NULL;
  spot->wd = -1;
  memcpy(spot->name, name, size);
  spot->parent = parent;
  if (parent) {
    spot->next = parent->child;
    parent->child = spot;
  }
  return spot;
}

static void forget_told(pco_spot *spot) {
  while (spot->told) {
    pco_told *next = spot->told->next;
    free(spot->told);
    spot->told = next;
  }
}

static void unlink_from_parent(pco_spot *spot) {
  pco_spot **at = spot->parent ? &spot->parent->child : NULL;
  while (at && *at != spot)
    at = &(*at)->next;
  if (at)
    *at = spot->next;
}

static void unlink_from_bucket(pco_seen *s, pco_spot *spot) {
  pco_spot **at = bucket(s, spot->wd);
  while (*at && *at != spot)
    at = &(*at)->same;
  if (*at)
    *at = spot->same;
}

static void free_leaf(pco_seen *s, pco_spot *spot) {
  unlink_from_parent(spot);
  if (spot->wd >= 0) {
    unlink_from_bucket(s, spot);
    inotify_rm_watch(s->source.fd, spot->wd);
  }
  forget_told(spot);
  free(spot);
}

/* Leaves first, without recursion: a tree may be deep. */
void pco_spot_drop(pco_seen *s, pco_spot *spot) {
  if (s->move.spot == spot)
    s->move.spot = NULL;
  while (spot->child) {
    pco_spot *leaf = spot->child;
    while (leaf->child)
      leaf = leaf->child;
    free_leaf(s, leaf);
  }
  free_leaf(s, spot);
}

pco_spot *pco_spot_move(pco_seen *s, pco_spot *spot, pco_spot *parent,
                        const char *name) {
  pco_spot *to = new_spot(parent, name);
  if (!to)
    return NULL;
  to->wd = spot->wd;
  to->child = spot->child;
  for (pco_spot *c = to->child; c; c = c->next)
    c->parent = to;
  unlink_from_parent(spot);
  unlink_from_bucket(s, spot);
  forget_told(spot);
  free(spot);
  to->same = *bucket(s, to->wd);
  *bucket(s, to->wd) = to;
  return to;
}

bool pco_spot_was_told(pco_spot *spot, const char *name) {
  for (pco_told **at = &spot->told; *at; at = &(*at)->next)
    if (strcmp((*at)->name, name) == 0) {
      pco_told *t = *at;
      *at = t->next;
      free(t);
      return true;
    }
  return false;
}

void pco_seen_forget_told(pco_seen *s) {
  if (!s->any_told)
    return;
  s->any_told = false;
  for (size_t i = 0; i < PCO_SPOT_BUCKETS; i++)
    for (pco_spot *spot = s->spots[i]; spot; spot = spot->same)
      forget_told(spot);
}

/* ---- paths --------------------------------------------------------------- */

char *pco_spot_path(const pco_spot *spot, const char *name) {
  size_t len = name ? strlen(name) : 0;
  size_t size = len;
  for (const pco_spot *p = spot; p && p->name[0]; p = p->parent)
    size += strlen(p->name) + 1;
  char *path = size ? malloc(size + 1) : NULL;
  if (!path)
    return NULL;
  char *at = path + size;
  *at = 0;
  at -= len;
  memcpy(at, name ? name : "", len);
  for (const pco_spot *p = spot; p && p->name[0]; p = p->parent) {
    size_t n = strlen(p->name);
    if (at < path + size)
      *--at = '/';
    at -= n;
    memcpy(at, p->name, n);
  }
  memmove(path, at, (size_t)(path + size - at) + 1);
  return path;
}

/* Opens the directory by its names, from the root; -errno. */
static int open_spot(const pco_seen *s, const pco_spot *spot) {
  const pco_spot *way[PCO_PATH_DEPTH];
  size_t n = 0;
  int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  for (const pco_spot *p = spot; p->parent; p = p->parent) {
    if (n == PCO_PATH_DEPTH)
      return -ENAMETOOLONG;
    way[n++] = p;
  }
  int fd = openat(s->root, ".", n ? O_PATH | O_CLOEXEC : flags);
  while (fd >= 0 && n > 0) {
    n--;
    int next = openat(fd, way[n]->name, n ? flags | O_PATH : flags);
    int error = errno;
    close(fd);
    errno = error;
    fd = next;
  }
  return fd < 0 ? -errno : fd;
}

/* ---- watching ------------------------------------------------------------ */

/* 0, -EEXIST if the same directory is watched under another name, or a negative
 * errno. */
static int watch_fd(pco_seen *s, pco_spot *spot, int fd, uint32_t mask) {
  char path[48];
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  int wd = inotify_add_watch(s->source.fd, path, mask);
  if (wd < 0)
    return -errno;
  if (pco_spot_find(s, wd))
    return -EEXIST;
  spot->wd = wd;
  spot->same = *bucket(s, wd);
  *bucket(s, wd) = spot;
  return 0;
}

static bool is_directory(int fd, const struct dirent *d) {
  struct stat st;
  if (d->d_type != DT_UNKNOWN)
    return d->d_type == DT_DIR;
  return fstatat(fd, d->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
         S_ISDIR(st.st_mode);
}

/* Tells of a name that was found in a new directory. */
static void tell_found(pco_seen *s, pco_spot *spot, const char *name) {
  size_t size = strlen(name) + 1;
  pco_told *t = malloc(sizeof *t + size);
  if (!t) {
    s->error = ENOMEM;
    return;
  }
  memcpy(t->name, name, size);
  t->next = spot->told;
  spot->told = t;
  s->any_told = true;
  pco_seen_tell(s, PCO_EVENT_CREATE, pco_spot_path(spot, name), NULL);
}

static void add_todo(pco_seen *s, pco_spot *spot) {
  if (!spot) {
    s->error = ENOMEM;
    return;
  }
  spot->todo = s->todo;
  s->todo = spot;
}

/* Looks into a directory, and makes a spot for each one in it. */
static void look(pco_seen *s, pco_spot *spot, int fd, bool tells) {
  DIR *dir = fdopendir(fd);
  if (!dir) {
    close(fd);
    return;
  }
  for (struct dirent *d; (d = readdir(dir));) {
    const char *name = d->d_name;
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
      continue;
    bool directory = is_directory(dirfd(dir), d);
    char *path = pco_spot_path(spot, name);
    bool excluded = !path || pco_seen_excludes(s, path, directory);
    free(path);
    if (excluded)
      continue;
    if (tells)
      tell_found(s, spot, name);
    if (directory)
      add_todo(s, new_spot(spot, name));
  }
  closedir(dir);
}

/* What ends a watch of a directory; others vanished, or may not be read. */
static bool is_serious(int rc) {
  return rc == -ENOSPC || rc == -ENOMEM || rc == -EMFILE || rc == -ENFILE;
}

/* Watches one directory: 0 or a negative errno, and then there is no spot. */
static int watch_one(pco_seen *s, pco_spot *spot, bool tells) {
  uint32_t mask = OF_DIRECTORY | IN_ONLYDIR | (spot->parent ? 0 : OF_TOP);
  int fd = open_spot(s, spot);
  int rc = fd < 0 ? fd : watch_fd(s, spot, fd, mask);
  if (rc == 0 && s->recursive) {
    look(s, spot, fd, tells);
    return 0;
  }
  if (fd >= 0)
    close(fd);
  if (rc < 0 && is_serious(rc))
    s->error = -rc;
  if (rc < 0 && spot->parent)
    pco_spot_drop(s, spot);
  return rc;
}

/* Watches `top` and all below: a look into one adds to what is to be done. */
static int watch_all(pco_seen *s, pco_spot *top, bool tells) {
  int rc = watch_one(s, top, tells);
  for (pco_spot *spot; (spot = s->todo);) {
    s->todo = spot->todo;
    watch_one(s, spot, tells);
  }
  return rc;
}

void pco_spot_add(pco_seen *s, pco_spot *parent, const char *name) {
  if (!s->recursive || pco_spot_child(parent, name))
    return;
  pco_spot *spot = new_spot(parent, name);
  if (spot)
    watch_all(s, spot, true);
  else
    s->error = ENOMEM;
}

/* ---- the whole ----------------------------------------------------------- */

int pco_seen_find(const pco_seen *s, int *fd) {
  pco_place at;
  *fd = -1;
  int rc = pco_walk(&s->agent->paths, s->path, s->walk_flags, &at);
  if (rc != 0)
    return rc;
  if (at.fd < 0)
    rc = -ENOENT;
  else if (S_ISLNK(at.st.st_mode))
    rc = -ELOOP;
  else if ((*fd = fcntl(at.fd, F_DUPFD_CLOEXEC, 3)) < 0)
    rc = -errno;
  pco_place_deinit(&at);
  return rc;
}

/* It may go or be replaced before it is watched, so it is checked once more. */
static int start_root(pco_seen *s) {
  struct stat st;
  if (fstat(s->root, &st) != 0)
    return -errno;
  s->top = new_spot(NULL, "");
  if (!s->top)
    return -ENOMEM;
  s->check = true;
  s->is_directory = S_ISDIR(st.st_mode);
  s->links = st.st_nlink;
  if (s->is_directory)
    return watch_all(s, s->top, false);
  s->recursive = false;
  return watch_fd(s, s->top, s->root, OF_FILE);
}

int pco_seen_replace(pco_seen *s, int fd) {
  if (s->top)
    pco_spot_drop(s, s->top);
  s->top = NULL;
  close(s->root);
  s->root = fd;
  return start_root(s);
}

int pco_seen_start(pco_seen *s) {
  s->source.fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  if (s->source.fd < 0)
    return -errno;
  int rc = start_root(s);
  return rc < 0 ? rc : -s->error;
}

void pco_seen_stop(pco_seen *s) {
  if (s->top)
    pco_spot_drop(s, s->top);
  s->top = NULL;
  s->any_told = false;
  if (s->source.fd >= 0)
    close(s->source.fd);
  s->source.fd = -1;
}
