/* SPDX-License-Identifier: MIT */
/*
 * COPY: a file, a link, or a tree, in steps.
 *
 * What is copied gets a random name beside the target and takes the target's
 * name at the end: until then nothing is seen of it, and when it fails all of
 * it is removed.  Only a tree that is copied into a directory that is there
 * (PCO_FS_REPLACE) goes into it entry by entry, each whole; the error then says
 * how many were copied.
 *
 * Both trees are held by descriptors of their directories.  Names are opened
 * relative to them and never followed, so what others rename or link meanwhile
 * cannot lead out of either.
 */
#include "copy_file.h"
#include "fs.h"
#include "rmtree.h"

#include "portico/plugin.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define STEP_NAMES 64 /* in one turn */

typedef struct level {
  DIR *from;
  int to;
  bool made; /* `to` is ours: it gets mode and times when all is in it */
  struct stat st;
  size_t where; /* length of copy_job.where above it */
} level;

typedef struct copy_job {
  pco_job head;
  int dir; /* that holds the target */
  char target[NAME_MAX + 1];
  char temporary[NAME_MAX + 1]; /* what is copied, until the end; "": none */
  bool replace;
  bool merges; /* into a directory that is there; no temporary */
  pco_copy_file file;
  char file_temporary[NAME_MAX + 1]; /* in a merge, beside its target */
  char file_name[NAME_MAX + 1];
  uint64_t n_copied;
  const char *failed; /* what was tried */
  const char *reason; /* a sentence that says all; or NULL */
  int error;          /* why it is being undone; 0: it is not */
  pco_rmtree undo;
  bool undoing;
  int depth;
  size_t where_len;
  char where[PATH_MAX]; /* the source's entry that is being copied */
  level level[PCO_PATH_DEPTH];
} copy_job;

/* ---- where it is --------------------------------------------------------- */

/* Notes the entry that is looked at, for errors; what is too long is cut. */
static void note_name(copy_job *c, const char *name) {
  size_t room = sizeof c->where - c->where_len;
  bool slash = c->where_len > 0 && c->where[c->where_len - 1] == '/';
  snprintf(c->where + c->where_len, room, "%s%s", slash ? "" : "/", name);
}

static int from_fd(const copy_job *c) {
  return dirfd(c->level[c->depth - 1].from);
}

static int to_fd(const copy_job *c) {
  return c->level[c->depth - 1].to;
}

static void close_level(copy_job *c) {
  level *l = &c->level[--c->depth];
  closedir(l->from);
  close(l->to);
}

/* Closes all that is open; what was begun of a file in a merge is removed. */
static void close_all(copy_job *c) {
  if (c->file_temporary[0])
    unlinkat(to_fd(c), c->file_temporary, 0);
  c->file_temporary[0] = 0;
  pco_copy_file_end(&c->file);
  while (c->depth > 0)
    close_level(c);
}

static void destroy(pco_job *j) {
  copy_job *c = (copy_job *)j;
  close_all(c);
  if (c->undoing)
    pco_rmtree_deinit(&c->undo);
  else if (c->temporary[0])
    unlinkat(c->dir, c->temporary, 0);
  pco_litter_clear(c->head.agent->litter);
  if (c->dir >= 0)
    close(c->dir);
  pco_job_free(j);
}

/* ---- one entry ----------------------------------------------------------- */

static int open_level(copy_job *c, int from, int to, bool made) {
  level *l = &c->level[c->depth];
  if (c->depth == PCO_PATH_DEPTH || fstat(from, &l->st) != 0 ||
      !(l->from = fdopendir(from))) {
    int rc = c->depth == PCO_PATH_DEPTH ? -ENAMETOOLONG : -errno;
    close(from);
    close(to);
    return rc;
  }
  l->to = to;
  l->made = made;
  l->where = c->where_len;
  c->where_len = strlen(c->where);
  c->depth++;
  return 0;
}

/* Copies a directory's own self: what is in it comes in later steps.  `name` is
 * looked up in `from`, and made as `as` in `to`. */
static int copy_directory(copy_job *c, int from, const char *name, int to,
                          const char *as) {
  c->failed = "opening the directory";
  int source =
      openat(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (source < 0)
    return -errno;
  c->failed = "making the directory";
  bool made = mkdirat(to, as, 0700) == 0;
  int target =
      made || (errno == EEXIST && c->merges)
          ? openat(to, as, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
          : -1;
  if (target >= 0)
    return open_level(c, source, target, made);
  int rc = -errno;
  close(source);
  return rc;
}

static int temporary_name(const copy_job *c, int dir, char name[NAME_MAX + 1]) {
  return pco_litter_name(c->head.agent->litter, dir, name);
}

/* Makes the name that an entry has until it is whole: in a merge a random one,
 * else its own. */
static int working_name(copy_job *c, int to, const char *as,
                        char name[NAME_MAX + 1]) {
  if (c->merges && c->depth > 0)
    return temporary_name(c, to, name);
  snprintf(name, NAME_MAX + 1, "%s", as);
  return 0;
}

static int copy_link(copy_job *c, int from, const char *name, int to,
                     const char *as, const struct stat *st) {
  char text[PATH_MAX], working[NAME_MAX + 1];
  const struct timespec times[2] = {st->st_atim, st->st_mtim};
  c->failed = "copying the link";
  ssize_t n = readlinkat(from, name, text, sizeof text - 1);
  if (n < 0)
    return -errno;
  text[n] = 0;
  int rc = working_name(c, to, as, working);
  if (rc != 0)
    return rc;
  if (symlinkat(text, to, working) != 0)
    return -errno;
  if (utimensat(to, working, times, AT_SYMLINK_NOFOLLOW) != 0)
    rc = -errno;
  if (rc == 0 && strcmp(working, as) != 0 && renameat(to, working, to, as) != 0)
    rc = -errno;
  if (rc != 0)
    unlinkat(to, working, 0);
  return rc;
}

/* Begins with a regular file, which c->file goes on with. */
static int copy_regular(copy_job *c, int from, const char *name, int to,
                        const char *as) {
  struct stat st;
  c->failed = "opening";
  int in = openat(from, name,
                  O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (in < 0)
    return -errno;
  int rc = fstat(in, &st) != 0 ? -errno : S_ISREG(st.st_mode) ? 0 : -ESTALE;
  char working[NAME_MAX + 1];
  if (rc == 0)
    rc = working_name(c, to, as, working);
  c->failed = "making the copy";
  int out =
      rc != 0
          ? -1
          : openat(to, working,
                   O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (out < 0) {
    rc = rc != 0 ? rc : -errno;
    close(in);
    return rc;
  }
  if (strcmp(working, as) != 0)
    snprintf(c->file_temporary, sizeof c->file_temporary, "%s", working);
  snprintf(c->file_name, sizeof c->file_name, "%s", as);
  pco_copy_file_begin(&c->file, in, out, &st);
  return 0;
}

static int copy_entry(copy_job *c, int from, const char *name, int to,
                      const char *as) {
  struct stat st;
  c->failed = "looking at it";
  if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
    return -errno;
  if (S_ISREG(st.st_mode))
    return copy_regular(c, from, name, to, as);
  if (S_ISDIR(st.st_mode))
    return copy_directory(c, from, name, to, as);
  if (S_ISLNK(st.st_mode))
    return copy_link(c, from, name, to, as, &st);
  c->reason = "only files, directories and links can be copied";
  return -EINVAL;
}

/* ---- steps --------------------------------------------------------------- */

static int step_file(copy_job *c) {
  int rc = pco_copy_file_step(&c->file);
  if (rc == 1)
    return 1;
  c->failed = c->file.failed;
  pco_copy_file_end(&c->file);
  if (rc != 0)
    return rc;
  c->n_copied++;
  c->failed = "giving the copy its name";
  if (c->file_temporary[0] &&
      renameat(to_fd(c), c->file_temporary, to_fd(c), c->file_name) != 0)
    return -errno;
  c->file_temporary[0] = 0;
  return 1;
}

/* All is in a directory: it gets what the original has. */
static int leave_directory(copy_job *c) {
  const level *l = &c->level[c->depth - 1];
  c->failed = "changing mode and times";
  int rc = l->made ? pco_copy_attributes(l->to, &l->st) : 0;
  if (rc != 0)
    return rc;
  close_level(c);
  c->where_len = l->where;
  c->n_copied++;
  return 1;
}

static bool is_dots(const char *name) {
  return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static bool has_vanished(int rc) {
  return rc == -ENOENT || rc == -ESTALE;
}

/* Takes the next names of the deepest directory, until one of them is a file
 * or a directory to go on with. */
static int step_names(copy_job *c) {
  int depth = c->depth;
  for (int i = 0; i < STEP_NAMES; i++) {
    errno = 0;
    c->failed = "reading the directory";
    c->where[c->where_len] = 0;
    const struct dirent *e = readdir(c->level[c->depth - 1].from);
    if (!e)
      return errno != 0 ? -errno : leave_directory(c);
    if (is_dots(e->d_name))
      continue;
    note_name(c, e->d_name);
    int rc = copy_entry(c, from_fd(c), e->d_name, to_fd(c), e->d_name);
    if (rc != 0 && !has_vanished(rc))
      return rc;
    if (c->file.in >= 0 || c->depth != depth)
      break;
    c->n_copied += rc == 0; /* a link */
  }
  return 1;
}

/* Renames without replacing; see fs_tree.c. */
static int take_name(copy_job *c) {
  c->failed = "giving the copy its name";
  if (c->replace)
    return renameat(c->dir, c->temporary, c->dir, c->target) == 0 ? 0 : -errno;
  if (syscall(SYS_renameat2, c->dir, c->temporary, c->dir, c->target,
              1u /* RENAME_NOREPLACE */) == 0)
    return 0;
  if (errno != EINVAL && errno != ENOSYS)
    return -errno;
  struct stat st;
  if (fstatat(c->dir, c->target, &st, AT_SYMLINK_NOFOLLOW) == 0)
    return -EEXIST;
  return renameat(c->dir, c->temporary, c->dir, c->target) == 0 ? 0 : -errno;
}

/* 1: there is more; 0: all is copied. */
static int advance(copy_job *c) {
  if (c->file.in >= 0)
    return step_file(c);
  if (c->depth > 0)
    return step_names(c);
  int rc = c->merges ? 0 : take_name(c);
  if (rc == 0)
    c->temporary[0] = 0;
  return rc;
}

/* ---- the end ------------------------------------------------------------- */

static void answer(pco_agent *a, copy_job *c) {
  char message[512], before[64] = "";
  if (c->head.answered)
    return;
  if (c->merges && c->n_copied > 0)
    snprintf(before, sizeof before, " (%llu entries were copied before)",
             (unsigned long long)c->n_copied);
  snprintf(message, sizeof message, "%s%s%s%s",
           c->reason ? c->reason : c->failed, c->reason ? "" : ": ",
           c->reason ? "" : strerror(c->error), before);
  pco_answer_error(a, c->head.op, c->error, c->where, message);
}

/* Stops copying, and begins to remove what was made.  True if that takes steps
 * of its own. */
static bool begin_undo(copy_job *c, int error) {
  close_all(c);
  c->error = error;
  if (!c->temporary[0])
    return false;
  int dir = fcntl(c->dir, F_DUPFD_CLOEXEC, 3);
  if (dir < 0)
    return false;
  c->undoing = true;
  return pco_rmtree_init(&c->undo, dir, c->temporary, true) == 0;
}

static bool cancel(pco_job *j) {
  copy_job *c = (copy_job *)j;
  return c->undoing || begin_undo(c, ECANCELED);
}

static bool step(pco_agent *a, pco_job *j) {
  copy_job *c = (copy_job *)j;
  if (c->undoing) {
    if (pco_rmtree_step(&c->undo, STEP_NAMES) == 1)
      return true;
    answer(a, c);
    return false;
  }
  int rc = advance(c);
  if (rc == 1)
    return true;
  if (rc == 0) {
    pco_answer_empty(a, j->op);
    return false;
  }
  if (begin_undo(c, -rc))
    return true;
  answer(a, c);
  return false;
}

/* ---- the beginning ------------------------------------------------------- */

/* True if the directory `st` is one of those that the place lies in. */
static bool lies_in(const pco_place *at, const struct stat *st) {
  struct stat above;
  for (int i = 0; i < at->n_stack; i++)
    if (fstat(at->stack[i], &above) == 0 && above.st_dev == st->st_dev &&
        above.st_ino == st->st_ino)
      return true;
  return false;
}

static int refuse(copy_job *c, int error, const char *reason) {
  c->reason = reason;
  return error;
}

static int check(copy_job *c, const pco_request *r, const pco_place *from,
                 const pco_place *to) {
  bool tree = S_ISDIR(from->st.st_mode);
  c->failed = NULL;
  if (from->fd < 0)
    return -ENOENT;
  if (tree && !pco_fs_flag(r, PCO_FS_RECURSIVE))
    return refuse(c, -EISDIR, "copying a directory needs recursive = true");
  if (tree && lies_in(to, &from->st))
    return refuse(c, -EINVAL, "cannot copy a directory into itself");
  if (to->fd >= 0 && (!c->replace || !to->name[0]))
    return -EEXIST;
  if (to->fd >= 0 && to->st.st_dev == from->st.st_dev &&
      to->st.st_ino == from->st.st_ino)
    return refuse(c, -EINVAL, "source and target are the same");
  return to->must_be_directory && !tree ? -ENOTDIR : 0;
}

/* Begins at what both walks found: 0 or a negative errno. */
static int begin(copy_job *c, const pco_request *r, const pco_place *from,
                 const pco_place *to) {
  int rc = check(c, r, from, to);
  if (rc != 0)
    return rc;
  c->failed = "opening the target's directory";
  c->dir = fcntl(pco_place_dir(to), F_DUPFD_CLOEXEC, 3);
  if (c->dir < 0)
    return -errno;
  snprintf(c->target, sizeof c->target, "%s", to->name);
  c->merges =
      to->fd >= 0 && S_ISDIR(from->st.st_mode) && S_ISDIR(to->st.st_mode);
  if (!c->merges)
    rc = temporary_name(c, c->dir, c->temporary);
  if (rc != 0)
    return rc;
  return copy_entry(c, pco_place_dir(from), from->name[0] ? from->name : ".",
                    c->dir, c->merges ? c->target : c->temporary);
}

/* Walks to both ends and begins.  0; or a negative errno, with the path that it
 * is about in *path. */
static int walk_both(pco_agent *a, copy_job *c, const pco_request *r,
                     const char *target, const char **path) {
  pco_place from, to;
  int flags = pco_fs_walk_flags(r);
  *path = c->head.path;
  int rc = pco_walk(&a->paths, c->head.path, flags & PCO_WALK_NOFOLLOW, &from);
  if (rc != 0)
    return rc;
  rc = pco_walk(&a->paths, target, flags | PCO_WALK_NOFOLLOW, &to);
  if (rc == 0) {
    rc = begin(c, r, &from, &to);
    *path = rc == -EEXIST || rc == -ENOTDIR ? target : c->head.path;
    pco_place_deinit(&to);
  } else {
    *path = target;
  }
  pco_place_deinit(&from);
  return rc;
}

void pco_fs_copy(pco_agent *a, const pco_request *r) {
  char source[PCO_PATH_TEXT], target[PCO_PATH_TEXT];
  const char *path;
  if (!pco_fs_path(a, r, PCO_TAG_PATH, source) ||
      !pco_fs_path(a, r, PCO_TAG_TARGET_PATH, target))
    return;
  copy_job *c = pco_job_create(a, sizeof *c, r, source);
  if (!c)
    return;
  c->head.step = step;
  c->head.cancel = cancel;
  c->head.destroy = destroy;
  c->dir = -1;
  c->file.in = c->file.out = -1;
  c->replace = pco_fs_flag(r, PCO_FS_REPLACE);
  snprintf(c->where, sizeof c->where, "%.*s", PATH_MAX - 1, source);
  int rc = walk_both(a, c, r, target, &path);
  if (rc == 0) {
    pco_job_start(a, &c->head);
    return;
  }
  if (c->reason)
    pco_answer_error(a, r->op, -rc, path, c->reason);
  else
    pco_fs_done(a, r->op, rc, path, c->failed);
  begin_undo(c, -rc);
  destroy(&c->head);
}
