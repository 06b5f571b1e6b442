/* SPDX-License-Identifier: MIT */
/*
 * Unpacking a tree that somebody packed who may lie; see transfer.h.
 *
 * Everything is made anew in a directory of our own: nothing that is there is
 * opened for writing, followed or replaced.  An entry must lie in a directory
 * that is open, the one before or one above it, so the order of the tar is that
 * of a walk, and no path is ever looked up.  Set-id and sticky bits, owners and
 * extended attributes are not taken.
 */
#include "transfer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef RENAME_NOREPLACE
#  define RENAME_NOREPLACE 1
#endif

/* Headers may take this much, and this much an entry more. */
#define HEADER_BYTES       (16u * 1024 * 1024)
#define HEADER_BYTES_ENTRY (16u * 1024)

typedef struct level {
  int fd;
  unsigned mode;
  struct timespec mtime;
  size_t path_len;
} level;

typedef struct unpacker {
  pco_transfer *t;
  const pco_unpack_tree *u;
  pco_tar_in in;
  uint64_t entries, bytes; /* left */
  uint64_t n_entries;
  int depth;
  char name[NAME_MAX + 1];
  level level[PCO_PATH_DEPTH];
} unpacker;

static int fail(unpacker *k, int rc, const char *why) {
  return pco_transfer_fail(k->t, rc, why);
}

static int fail_at(unpacker *k, int rc, const char *step) {
  return fail(k, rc, pco_transfer_tried(k->t, rc, step));
}

static int skip_at(unpacker *k, int rc, const char *step) {
  return pco_transfer_skip(k->t, rc, pco_transfer_tried(k->t, rc, step));
}

static int forged(unpacker *k, const char *what) {
  char why[128];
  snprintf(why, sizeof why, "what came is no tree of Portico's: %s", what);
  return fail(k, -EBADMSG, why);
}

static unsigned kept_mode(const unpacker *k, unsigned mode) {
  return mode & 0777u & ~(unsigned)k->u->mask;
}

static struct timespec mtime_of(const pco_tar_entry *e) {
  return (struct timespec){.tv_sec = e->mtime, .tv_nsec = (long)e->mtime_ns};
}

static int set_times(int fd, struct timespec mtime) {
  const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, mtime};
  return futimens(fd, times) == 0 ? 0 : -errno;
}

/* ---- directories -------------------------------------------------------- */

/* A directory gets its mode when all is in it. */
static int leave(unpacker *k) {
  level *l = &k->level[--k->depth];
  int rc = fchmod(l->fd, l->mode) == 0 ? 0 : -errno;
  if (rc == 0)
    rc = set_times(l->fd, l->mtime);
  close(l->fd);
  return rc < 0 ? fail_at(k, rc, "giving the directory its mode and time") : 0;
}

static int parent_fd(const unpacker *k) {
  return k->depth ? k->level[k->depth - 1].fd : k->u->stage;
}

static int make_directory(unpacker *k, const pco_tar_entry *e) {
  int dir = parent_fd(k);
  if (k->depth == PCO_PATH_DEPTH)
    return fail(k, -ENAMETOOLONG, "too many directories in each other");
  if (mkdirat(dir, k->name, 0700) != 0)
    return fail_at(k, -errno, "making the directory");
  int fd =
      openat(dir, k->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0)
    return fail_at(k, -errno, "opening the new directory");
  level *l = &k->level[k->depth++];
  l->fd = fd;
  l->mode = kept_mode(k, e->mode);
  l->mtime = mtime_of(e);
  l->path_len = strlen(k->t->path);
  k->t->directories++;
  return 0;
}

/* ---- files and links ---------------------------------------------------- */

static void tell(unpacker *k) {
  if (k->t->progress)
    k->t->progress(k->t, k->t->path);
}

/* Takes a piece of the content, in parts so that it can be told how far it is.
 */
static int take_piece(unpacker *k, int fd, uint64_t size, bool *writing) {
  int rc = 0;
  while (rc == 0 && size > 0) {
    uint64_t n = size < (512u << 10) ? size : 512u << 10;
    rc = pco_tar_copy(&k->in, fd, n, writing);
    size -= n;
    k->t->bytes += rc == 0 ? n : 0;
    tell(k);
  }
  return rc;
}

static int take_content(unpacker *k, int fd, const pco_tar_entry *e,
                        bool *writing) {
  int rc = 0;
  *writing = false;
  if (!e->data)
    return take_piece(k, fd, e->size, writing);
  for (size_t i = 0; rc == 0 && i < e->n_data; i++) {
    *writing = lseek(fd, (off_t)e->data[i].offset, SEEK_SET) < 0;
    rc = *writing ? -errno : take_piece(k, fd, e->data[i].size, writing);
  }
  if (rc == 0 && ftruncate(fd, (off_t)e->size) != 0) {
    *writing = true;
    rc = -errno;
  }
  return rc;
}

static int dress(unpacker *k, int fd, const pco_tar_entry *e) {
  if (fchmod(fd, kept_mode(k, e->mode)) != 0)
    return -errno;
  return set_times(fd, mtime_of(e));
}

static int broken_stream(unpacker *k, int rc) {
  if (rc == -EBADMSG)
    return forged(k, k->in.why);
  return fail(k, rc, rc == -ENODATA ? "the stream ended too early" : NULL);
}

static int make_file(unpacker *k, const pco_tar_entry *e) {
  bool writing = true;
  int dir = parent_fd(k);
  int fd = openat(dir, k->name,
                  O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0)
    return skip_at(k, -errno, "making the file");
  int rc = take_content(k, fd, e, &writing);
  if (rc == 0) {
    writing = true;
    rc = dress(k, fd, e);
  }
  close(fd);
  if (rc == 0) {
    k->t->files++;
    tell(k);
    return 0;
  }
  unlinkat(dir, k->name, 0);
  return writing ? skip_at(k, rc, "writing the file") : broken_stream(k, rc);
}

/* Why a link is not made; NULL: it is. */
static const char *refused_link(const unpacker *k, const char *text) {
  switch (k->t->words->symlinks) {
  case PCO_SYMLINKS_KEEP:
    return NULL;
  case PCO_SYMLINKS_INSIDE:
    return pco_transfer_leads_inside(k->t, text)
               ? NULL
               : "the link leads out of the tree (symlinks = \"keep\" takes it "
                 "as it is)";
  default:
    return "it is a symbolic link";
  }
}

static int make_link(unpacker *k, const pco_tar_entry *e) {
  const char *why = refused_link(k, e->link);
  int dir = parent_fd(k);
  if (why)
    return pco_transfer_skip(k->t, -ELOOP, why);
  if (!*e->link || strlen(e->link) >= PATH_MAX)
    return forged(k, "a link without a text, or with too long a one");
  if (symlinkat(e->link, dir, k->name) != 0)
    return skip_at(k, -errno, "making the link");
  const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, mtime_of(e)};
  utimensat(dir, k->name, times, AT_SYMLINK_NOFOLLOW);
  k->t->files++;
  tell(k);
  return 0;
}

/* ---- where an entry goes ------------------------------------------------ */

static bool is_name(const char *s) {
  size_t n = strlen(s);
  return n > 0 && n <= NAME_MAX && !strchr(s, '/') && strcmp(s, ".") != 0 &&
         strcmp(s, "..") != 0;
}

/* Whether `path` lies in the directory of that level. */
static bool is_in(const unpacker *k, const level *l, const char *path) {
  if (l->path_len == 0)
    return true;
  return strncmp(path, k->t->path, l->path_len) == 0 &&
         path[l->path_len] == '/';
}

/* Leaves the directories that a path is not in, and notes its name and path. */
static int find_place(unpacker *k, const char *path) {
  int rc = 0;
  while (rc == 0 && k->depth > 1 && !is_in(k, &k->level[k->depth - 1], path))
    rc = leave(k);
  if (rc < 0)
    return rc;
  const level *l = &k->level[k->depth - 1];
  const char *name = path + l->path_len + (l->path_len > 0);
  if (!is_name(name))
    return forged(k, "an entry that is in no directory of it");
  strcpy(k->name, name);
  return pco_transfer_enter(k->t, l->path_len, name) < 0 ? -ENAMETOOLONG : 0;
}

static int make(unpacker *k, const pco_tar_entry *e) {
  switch (e->type) {
  case PCO_TAR_DIRECTORY:
    return make_directory(k, e);
  case PCO_TAR_LINK:
    return make_link(k, e);
  default:
    return make_file(k, e);
  }
}

/* ---- bounds ------------------------------------------------------------- */

static int check_bounds(unpacker *k, const pco_tar_entry *e) {
  char why[128];
  k->n_entries++;
  if (k->in.header_bytes >
      HEADER_BYTES + k->n_entries * (uint64_t)HEADER_BYTES_ENTRY)
    return forged(k, "too many bytes of headers");
  if (k->entries-- == 0) {
    snprintf(why, sizeof why, "there are more than max_entries = %llu entries",
             (unsigned long long)k->t->words->entries);
    return fail(k, -EOVERFLOW, why);
  }
  if (e->size > k->bytes || e->size > INT64_MAX) {
    snprintf(why, sizeof why, "there are more than max_bytes = %llu bytes",
             (unsigned long long)k->t->words->bytes);
    return fail(k, -EMSGSIZE, why);
  }
  k->bytes -= e->size;
  return 0;
}

/* ---- the whole ---------------------------------------------------------- */

/* Strips the slash that some write behind a directory. */
static void strip(const pco_tar_entry *e) {
  size_t n = strlen(e->path);
  if (e->type == PCO_TAR_DIRECTORY && n > 1 && e->path[n - 1] == '/')
    ((char *)(uintptr_t)e->path)[n - 1] = 0;
}

static int take_root(unpacker *k, const pco_tar_entry *e) {
  if (strcmp(e->path, PCO_TRANSFER_ROOT) != 0)
    return forged(k, "it begins with something else");
  if (e->type == PCO_TAR_DIRECTORY && k->u->want_file)
    return fail(k, -ENOTDIR,
                "a directory cannot replace the file that is "
                "there");
  if (e->type != PCO_TAR_DIRECTORY && k->u->want_dir)
    return fail(k, -EISDIR,
                "the target is a directory: name the file that is "
                "to be made in it");
  strcpy(k->name, PCO_TRANSFER_ROOT);
  return make(k, e);
}

static int take_entry(unpacker *k, const pco_tar_entry *e) {
  const size_t n = sizeof PCO_TRANSFER_ROOT - 1;
  strip(e);
  int rc = check_bounds(k, e);
  if (rc < 0)
    return rc;
  if (k->n_entries == 1)
    return take_root(k, e);
  if (strncmp(e->path, PCO_TRANSFER_ROOT "/", n + 1) != 0 || k->depth == 0)
    return forged(k, "an entry beside the tree");
  rc = find_place(k, e->path + n + 1);
  return rc < 0 ? rc : make(k, e);
}

static int run(unpacker *k) {
  pco_tar_entry e;
  int rc = pco_tar_in_init(&k->in);
  if (rc < 0)
    return fail(k, rc, NULL);
  for (;;) {
    rc = pco_tar_next(&k->in, &e);
    if (rc <= 0)
      break;
    rc = take_entry(k, &e);
    if (rc < 0)
      return rc;
  }
  if (rc < 0)
    return broken_stream(k, rc);
  k->t->empty = k->n_entries == 0;
  if (k->t->empty && !k->t->words->changed)
    return forged(k, "there is nothing");
  while (rc == 0 && k->depth > 0)
    rc = leave(k);
  return rc;
}

int pco_transfer_unpack(pco_transfer *t, const pco_unpack_tree *u) {
  unpacker *k = calloc(1, sizeof *k);
  if (!k)
    return pco_transfer_fail(t, -ENOMEM, NULL);
  k->t = t;
  k->u = u;
  k->in.fd = u->in;
  k->in.wait = &t->wait;
  k->entries = t->words->entries;
  k->bytes = t->words->bytes;
  t->path[0] = t->why[0] = 0;
  t->files = t->directories = t->bytes = 0;
  int rc = run(k);
  while (k->depth > 0)
    close(k->level[--k->depth].fd);
  pco_tar_in_deinit(&k->in);
  free(k);
  return rc;
}
