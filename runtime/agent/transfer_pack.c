/* SPDX-License-Identifier: MIT */
/*
 * Packing a tree; see transfer.h.
 *
 * A directory that is only on the way to what is wanted is written when the
 * first of that comes.  Names are sorted, so that what the other side has
 * (`known`) can be read along, in the same order, and nothing of it be kept.
 */
#include "sha256.h"
#include "transfer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MAX_NAMES  (256u * 1024 * 1024) /* bytes of one directory's */
#define CHUNK      (512u * 1024)        /* of content, between two looks */
#define CHANGED    "it became another while it was read"
#define SHORTER    "it became shorter while it was read; the rest is zeros"
#define LEADS_OUT  "the link leads out of the tree"
#define IS_SPECIAL "it is no file, directory or link"
#define IS_LINK    "it is a symbolic link"
#define OPEN_FLAGS (O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)
#define OPEN_DIR   (OPEN_FLAGS | O_DIRECTORY)
#define OPEN_TRIES 1000

typedef struct level {
  int fd;
  char *names;   /* owned, one behind the other */
  char **sorted; /* owned */
  size_t n, next;
  size_t path_len;
  struct stat st;
  bool sent;
  bool wanted; /* by itself: all that is in it is, too */
} level;

typedef struct packer {
  pco_transfer *t;
  const pco_pack *p;
  int depth;
  int known; /* 1: `have` is what the other side has next; 0: it has no more */
  pco_tar_entry have;
  char name[PCO_TAR_MAX_PATH]; /* in the tar */
  char link[PATH_MAX];
  pco_tar_piece *data; /* owned; room for PCO_TAR_MAX_DATA */
  level level[PCO_PATH_DEPTH];
} packer;

static int fail(packer *k, int rc, const char *why) {
  return pco_transfer_fail(k->t, rc, why);
}

static level *top(packer *k) {
  return &k->level[k->depth - 1];
}

/* ---- names -------------------------------------------------------------- */

static int by_bytes(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool is_dots(const char *s) {
  return s[0] == '.' && (!s[1] || (s[1] == '.' && !s[2]));
}

static int add_name(level *l, size_t *len, size_t *cap, const char *name) {
  size_t n = strlen(name) + 1;
  if (*len + n > MAX_NAMES)
    return -ENOMEM;
  if (*len + n > *cap) {
    size_t bigger = *cap ? *cap * 2 : 4096;
    char *p = realloc(l->names, bigger);
    if (!p)
      return -ENOMEM;
    l->names = p;
    *cap = bigger;
  }
  memcpy(l->names + *len, name, n);
  *len += n;
  l->n++;
  return 0;
}

static int sort_names(level *l) {
  l->sorted = malloc((l->n + 1) * sizeof *l->sorted);
  if (!l->sorted)
    return -ENOMEM;
  char *name = l->names;
  for (size_t i = 0; i < l->n; i++, name += strlen(name) + 1)
    l->sorted[i] = name;
  qsort(l->sorted, l->n, sizeof *l->sorted, by_bytes);
  return 0;
}

static int read_names(level *l) {
  size_t len = 0, cap = 0;
  int copy = fcntl(l->fd, F_DUPFD_CLOEXEC, 3);
  DIR *dir = copy < 0 ? NULL : fdopendir(copy);
  int rc = dir ? 0 : -errno;
  while (rc == 0) {
    errno = 0;
    const struct dirent *e = readdir(dir);
    if (!e) {
      rc = -errno;
      break;
    }
    if (!is_dots(e->d_name))
      rc = add_name(l, &len, &cap, e->d_name);
  }
  if (dir)
    closedir(dir);
  else if (copy >= 0)
    close(copy);
  return rc < 0 ? rc : sort_names(l);
}

/* ---- levels ------------------------------------------------------------- */

static void leave(packer *k) {
  level *l = top(k);
  close(l->fd);
  free(l->names);
  free(l->sorted);
  k->depth--;
}

/* Takes fd, a directory. */
static int enter(packer *k, int fd, const struct stat *st, bool wanted) {
  if (k->depth == PCO_PATH_DEPTH) {
    close(fd);
    return -ENAMETOOLONG;
  }
  level *l = &k->level[k->depth++];
  memset(l, 0, sizeof *l);
  l->fd = fd;
  l->st = *st;
  l->wanted = wanted;
  l->path_len = strlen(k->t->path);
  int rc = read_names(l);
  if (rc < 0)
    leave(k);
  return rc;
}

/* A link that is followed may lead to where it lies in. */
static bool is_above(const packer *k, const struct stat *st) {
  for (int i = 0; i < k->depth; i++)
    if (k->level[i].st.st_dev == st->st_dev &&
        k->level[i].st.st_ino == st->st_ino)
      return true;
  return false;
}

/* ---- headers ------------------------------------------------------------ */

static void name_entry(packer *k, size_t path_len) {
  size_t n = sizeof PCO_TRANSFER_ROOT - 1;
  memcpy(k->name, PCO_TRANSFER_ROOT, n);
  if (path_len > 0)
    k->name[n++] = '/';
  memcpy(k->name + n, k->t->path, path_len);
  k->name[n + path_len] = 0;
}

static pco_tar_entry describe(const packer *k, pco_tar_type type,
                              const struct stat *st) {
  pco_tar_entry e = {.type = type,
                     .mode = st->st_mode & 07777,
                     .mtime = st->st_mtim.tv_sec,
                     .mtime_ns = (uint32_t)st->st_mtim.tv_nsec,
                     .path = k->name};
  return e;
}

static int send_directory(packer *k, level *l) {
  l->sent = true;
  k->t->directories++;
  if (!k->p->out)
    return 0;
  name_entry(k, l->path_len);
  pco_tar_entry e = describe(k, PCO_TAR_DIRECTORY, &l->st);
  return pco_tar_header(k->p->out, &e);
}

/* The directories on the way. */
static int send_way(packer *k) {
  int rc = 0;
  for (int i = 0; rc == 0 && i < k->depth; i++)
    if (!k->level[i].sent)
      rc = send_directory(k, &k->level[i]);
  return rc;
}

static void tell(packer *k) {
  if (k->t->progress && k->p->out)
    k->t->progress(k->t, k->t->path);
}

/* ---- what the other side has -------------------------------------------- */

static int step_known(packer *k) {
  k->known = pco_tar_next(k->p->known, &k->have);
  return k->known < 0 ? fail(k, k->known,
                             "what the other side has cannot be "
                             "read")
                      : 0;
}

/* As the walk goes: a slash is before every other byte. */
static int compare_paths(const char *a, const char *b) {
  while (*a && *a == *b) {
    a++;
    b++;
  }
  int x = *a == '/' ? 1 : *a ? (unsigned char)*a + 1 : 0;
  int y = *b == '/' ? 1 : *b ? (unsigned char)*b + 1 : 0;
  return x - y;
}

/* Whether the other side has something at k->name; then it is k->have. */
static int find_known(packer *k, bool *found) {
  int rc = 0;
  *found = false;
  if (!k->p->known)
    return 0;
  while (rc == 0 && k->known == 1 && compare_paths(k->have.path, k->name) < 0)
    rc = step_known(k);
  *found = rc == 0 && k->known == 1 && strcmp(k->have.path, k->name) == 0;
  return rc;
}

static bool same_mode(const packer *k, const pco_tar_entry *e) {
  unsigned bits = 0777u & ~(unsigned)k->t->words->mask;
  return (k->have.mode & bits) == (e->mode & bits);
}

/* The digest of a file as hexadecimal digits. */
static int digest_file(packer *k, int fd, char hex[PCO_SHA256_HEX]) {
  static uint8_t block[64 * 1024];
  pco_sha256 s;
  ssize_t n;
  off_t at = 0;
  pco_sha256_begin(&s);
  while ((n = pread(fd, block, sizeof block, at)) != 0) {
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      return -errno;
    pco_sha256_add(&s, block, (size_t)n);
    at += n;
    if (at % CHUNK == 0)
      tell(k);
  }
  pco_sha256_end(&s, hex);
  return 0;
}

/* Whether the other side's file is the same. */
static int is_known(packer *k, int fd, const pco_tar_entry *e, bool *same) {
  char hex[PCO_SHA256_HEX];
  int rc = find_known(k, same);
  if (rc < 0 || !*same)
    return rc;
  *same = k->have.type == PCO_TAR_FILE && k->have.size == e->size &&
          same_mode(k, e);
  if (!*same || !k->t->words->checksum) {
    *same =
        *same && k->have.mtime == e->mtime && k->have.mtime_ns == e->mtime_ns;
    return 0;
  }
  rc = digest_file(k, fd, hex);
  *same = rc == 0 && k->have.digest && strcmp(k->have.digest, hex) == 0;
  return rc;
}

/* ---- files -------------------------------------------------------------- */

/* Finds where the data of a file with holes are.  What is in too many pieces,
 * and what the file system cannot tell, is one. */
static size_t find_pieces(packer *k, int fd, uint64_t size) {
  size_t n = 0;
  off_t at = 0;
  while ((uint64_t)at < size) {
    off_t from = lseek(fd, at, SEEK_DATA);
    if (from < 0 && errno == ENXIO)
      break;
    off_t to = from < 0 ? -1 : lseek(fd, from, SEEK_HOLE);
    if (to <= from || n == PCO_TAR_MAX_DATA) {
      k->data[0] = (pco_tar_piece){0, size};
      return 1;
    }
    at = (uint64_t)to < size ? to : (off_t)size;
    if (from < at)
      k->data[n++] = (pco_tar_piece){(uint64_t)from, (uint64_t)(at - from)};
  }
  return n;
}

static uint64_t sum_of(const pco_tar_piece *data, size_t n) {
  uint64_t sum = 0;
  for (size_t i = 0; i < n; i++)
    sum += data[i].size;
  return sum;
}

/* Puts a piece of a file; *is_short if it is not there any more. */
static int put_piece(packer *k, int fd, const pco_tar_piece *d,
                     bool *is_short) {
  uint64_t left = d->size, done;
  int rc = lseek(fd, (off_t)d->offset, SEEK_SET) < 0 ? -errno : 0;
  while (rc == 0 && left > 0) {
    uint64_t n = left < CHUNK ? left : CHUNK;
    rc = pco_tar_put_file(k->p->out, fd, n, k->p->splice, &done);
    left -= done;
    k->t->bytes += done;
    if (rc == 0 && done < n) {
      *is_short = true;
      return pco_tar_zeros(k->p->out, left);
    }
    tell(k);
  }
  return rc;
}

static int put_content(packer *k, int fd, const pco_tar_entry *e) {
  const pco_tar_piece all = {0, e->size};
  const pco_tar_piece *data = e->data ? e->data : &all;
  size_t n = e->data ? e->n_data : 1;
  bool is_short = false;
  int rc = 0;
  for (size_t i = 0; rc == 0 && i < n; i++)
    rc = put_piece(k, fd, &data[i], &is_short);
  if (rc == 0)
    rc = pco_tar_pad(k->p->out, e->stored);
  if (rc < 0)
    return fail(k, rc, NULL);
  return is_short ? pco_transfer_skip(k->t, -ESTALE, SHORTER) : 0;
}

/* A survey's entry: the size, and what it is a digest of, but no content. */
static int list_file(packer *k, int fd, pco_tar_entry *e) {
  char hex[PCO_SHA256_HEX];
  e->data = k->data;
  e->n_data = 0;
  e->stored = 0;
  if (k->t->words->checksum) {
    int rc = digest_file(k, fd, hex);
    if (rc < 0)
      return fail(k, rc, NULL);
    e->digest = hex;
  }
  return pco_tar_header(k->p->out, e);
}

static int send_file(packer *k, int fd, const struct stat *st) {
  pco_tar_entry e = describe(k, PCO_TAR_FILE, st);
  bool same;
  e.size = e.stored = st->st_size > 0 ? (uint64_t)st->st_size : 0;
  name_entry(k, strlen(k->t->path));
  int rc = is_known(k, fd, &e, &same);
  if (rc < 0 || same)
    return rc;
  rc = send_way(k);
  if (rc < 0)
    return fail(k, rc, NULL);
  name_entry(k, strlen(k->t->path));
  k->t->files++;
  if (k->p->listing)
    return list_file(k, fd, &e);
  if ((uint64_t)st->st_blocks * 512 < e.size) {
    e.n_data = find_pieces(k, fd, e.size);
    e.data = k->data;
    e.stored = sum_of(e.data, e.n_data);
  }
  if (!k->p->out) {
    k->t->bytes += e.stored;
    return 0;
  }
  rc = pco_tar_header(k->p->out, &e);
  if (rc < 0)
    return fail(k, rc, NULL);
  rc = put_content(k, fd, &e);
  tell(k);
  return rc;
}

/* Takes fd. */
static int pack_file(packer *k, int fd) {
  struct stat st;
  int rc = fstat(fd, &st) == 0 ? 0 : -errno;
  if (rc == 0 && !S_ISREG(st.st_mode))
    rc = pco_transfer_skip(k->t, -ESTALE, CHANGED);
  else
    rc = rc < 0 ? pco_transfer_skip(k->t, rc, NULL) : send_file(k, fd, &st);
  close(fd);
  return rc;
}

/* ---- links -------------------------------------------------------------- */

static int send_link(packer *k, const struct stat *st) {
  pco_tar_entry e = describe(k, PCO_TAR_LINK, st);
  bool found;
  e.link = k->link;
  e.mode = 0777;
  name_entry(k, strlen(k->t->path));
  int rc = find_known(k, &found);
  if (rc < 0 || (found && k->have.type == PCO_TAR_LINK &&
                 strcmp(k->have.link, k->link) == 0))
    return rc;
  rc = send_way(k);
  name_entry(k, strlen(k->t->path));
  k->t->files++;
  if (rc == 0 && k->p->out)
    rc = pco_tar_header(k->p->out, &e);
  return rc < 0 ? fail(k, rc, NULL) : 0;
}

static int pack_link(packer *k, int dir, const char *name,
                     const struct stat *st) {
  pco_symlinks how = k->t->words->symlinks;
  if (k->p->listing)
    how = PCO_SYMLINKS_KEEP;
  if (how == PCO_SYMLINKS_REFUSE)
    return pco_transfer_skip(k->t, -ELOOP, IS_LINK);
  ssize_t n = readlinkat(dir, name, k->link, sizeof k->link);
  if (n < 0 || n == sizeof k->link)
    return pco_transfer_skip(k->t, n < 0 ? -errno : -ENAMETOOLONG, CHANGED);
  k->link[n] = 0;
  if (how == PCO_SYMLINKS_INSIDE && !pco_transfer_leads_inside(k->t, k->link))
    return pco_transfer_skip(k->t, -ELOOP, LEADS_OUT);
  return send_link(k, st);
}

/* Opens what the link at t->path leads to, within the tree. */
static int open_beneath(const packer *k, uint64_t flags) {
  struct open_how how = {.flags = flags | O_CLOEXEC,
                         .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
  for (int i = 0; i < OPEN_TRIES; i++) {
    long fd =
        syscall(SYS_openat2, k->level[0].fd, k->t->path, &how, sizeof how);
    if (fd >= 0)
      return (int)fd;
    /* Something was renamed or mounted somewhere, and the kernel cannot say
     * whether ".." still led to where it should. */
    if (errno != EAGAIN)
      return -errno;
  }
  return -EAGAIN;
}

static const char *why_not(int rc) {
  return rc == -EXDEV    ? LEADS_OUT
         : rc == -ENOSYS ? "this kernel cannot follow links safely (openat2)"
                         : NULL;
}

/* ---- entries ------------------------------------------------------------ */

static int pack_dir(packer *k, int fd, bool wanted) {
  struct stat st;
  int rc = fstat(fd, &st) == 0 ? 0 : -errno;
  if (rc < 0) {
    close(fd);
    return pco_transfer_skip(k->t, rc, NULL);
  }
  if (is_above(k, &st)) {
    close(fd);
    return pco_transfer_skip(k->t, -ELOOP,
                             "the link leads to a directory that "
                             "it is in");
  }
  rc = enter(k, fd, &st, wanted);
  if (rc < 0)
    return pco_transfer_skip(k->t, rc, NULL);
  return wanted ? send_way(k) : 0;
}

/* Opens a name and packs what is found, of the type that was seen. */
static int pack_open(packer *k, int fd, mode_t type, bool wanted) {
  if (fd < 0) {
    bool changed = fd == -ELOOP || fd == -ENOTDIR || fd == -ENXIO;
    return pco_transfer_skip(k->t, fd, changed ? CHANGED : why_not(fd));
  }
  return S_ISDIR(type) ? pack_dir(k, fd, wanted) : pack_file(k, fd);
}

static int open_name(int dir, const char *name, mode_t type) {
  int flags = S_ISDIR(type) ? OPEN_DIR : OPEN_FLAGS;
  int fd = openat(dir, name, flags | O_NOFOLLOW);
  return fd < 0 ? -errno : fd;
}

/* In the place of a link, what it leads to. */
static int pack_followed(packer *k, bool wanted) {
  struct stat st;
  int fd = open_beneath(k, O_PATH);
  int rc = fd < 0 ? fd : fstat(fd, &st) == 0 ? 0 : -errno;
  if (fd >= 0)
    close(fd);
  if (rc < 0)
    return pco_transfer_skip(k->t, rc, why_not(rc));
  bool directory = S_ISDIR(st.st_mode);
  if (pco_transfer_excluded(k->t->words, k->t->path, directory))
    return 0;
  if (!directory && !S_ISREG(st.st_mode))
    return pco_transfer_skip(k->t, -EINVAL, IS_SPECIAL);
  if (!directory && !wanted)
    return 0;
  fd = open_beneath(k, directory ? OPEN_DIR : OPEN_FLAGS);
  return pack_open(k, fd, st.st_mode, wanted);
}

static int pack_found(packer *k, int dir, const char *name,
                      const struct stat *st, bool in_wanted) {
  const pco_transfer_words *w = k->t->words;
  bool directory = S_ISDIR(st->st_mode);
  if (!k->p->listing && pco_transfer_excluded(w, k->t->path, directory))
    return 0;
  bool wanted = in_wanted || k->p->listing ||
                pco_transfer_included(w, k->t->path, directory);
  if (S_ISLNK(st->st_mode) && w->symlinks == PCO_SYMLINKS_FOLLOW &&
      !k->p->listing)
    return pack_followed(k, wanted);
  if (!directory && !wanted)
    return 0;
  if (S_ISLNK(st->st_mode))
    return pack_link(k, dir, name, st);
  if (!directory && !S_ISREG(st->st_mode))
    return k->p->listing ? 0 : pco_transfer_skip(k->t, -EINVAL, IS_SPECIAL);
  if (directory && k->p->forbidden && k->p->forbidden(dir, name))
    return pco_transfer_skip(k->t, -EACCES, NULL);
  return pack_open(k, open_name(dir, name, st->st_mode), st->st_mode, wanted);
}

/* The next name of the directory, or back. */
static int step(packer *k) {
  level *l = top(k);
  if (l->next == l->n) {
    leave(k);
    return 0;
  }
  struct stat st;
  const char *name = l->sorted[l->next++];
  int rc = pco_transfer_enter(k->t, l->path_len, name);
  if (rc < 0)
    return rc;
  if (fstatat(l->fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
    /* What vanished meanwhile was never there. */
    return errno == ENOENT ? 0 : pco_transfer_skip(k->t, -errno, NULL);
  }
  return pack_found(k, l->fd, name, &st, l->wanted);
}

/* The tree itself is always wanted, if it is no directory; of a directory only
 * what is included. */
static int pack_root(packer *k) {
  struct stat st;
  const char *name = k->p->name;
  if (fstatat(k->p->dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
    return fail(k, -errno, NULL);
  if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
    return fail(k, -EINVAL, IS_SPECIAL);
  if (S_ISDIR(st.st_mode) && k->p->forbidden &&
      k->p->forbidden(k->p->dir, name))
    return fail(k, -EACCES, NULL);
  int fd = open_name(k->p->dir, name, st.st_mode);
  if (fd < 0)
    return fail(k, fd, NULL);
  if (!S_ISDIR(st.st_mode))
    return pack_file(k, fd);
  int rc = enter(k, fd, &st, k->t->words->n_include == 0 || k->p->listing);
  if (rc == 0)
    rc = send_way(k); /* what is left of a tree may be nothing but itself */
  return rc < 0 ? fail(k, rc, NULL) : 0;
}

static int run(packer *k) {
  int rc = k->p->known ? step_known(k) : 0;
  k->t->path[0] = 0;
  if (rc == 0)
    rc = pack_root(k);
  while (rc == 0 && k->depth > 0)
    rc = step(k);
  while (k->depth > 0)
    leave(k);
  if (rc == 0 && k->p->out) {
    k->t->path[0] = 0;
    rc = pco_tar_finish(k->p->out);
  }
  return rc;
}

int pco_transfer_pack(pco_transfer *t, const pco_pack *p) {
  packer *k = calloc(1, sizeof *k);
  pco_tar_piece *data = malloc(PCO_TAR_MAX_DATA * sizeof *data);
  int rc = -ENOMEM;
  if (k && data) {
    k->t = t;
    k->p = p;
    k->data = data;
    t->why[0] = 0;
    t->files = t->directories = t->bytes = 0;
    rc = run(k);
  }
  free(k);
  free(data);
  return rc;
}
