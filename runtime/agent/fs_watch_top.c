/* SPDX-License-Identifier: MIT */
/*
 * What becomes of the top of a watch: the directory or file itself.
 *
 * The watch holds it open, so the kernel never tells that it was removed.  A
 * directory can be removed only while it is empty, so an empty one is looked
 * at now and then, and no other is.  A file loses a name with a change of its
 * attributes; if its path names another file by then, that was put in its
 * place, as an atomic write does, and is watched from now on.
 */
#include "fs_watch.h"

#include "clock.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CHECK_TIME (250 * PCO_MS)

enum { IN_USE, EMPTY, GONE };

/* "." and "..", and more if something is in it; nothing can be read of one
 * that was removed, whatever its file system counts as its links. */
static int read_directory(int fd) {
  char block[512] __attribute__((aligned(8)));
  size_t all = 0;
  long n;
  /* 24 bytes an entry with so short a name; more are of another. */
  while (all <= 48 &&
         (n = syscall(SYS_getdents64, fd, block, sizeof block)) > 0)
    all += (size_t)n;
  if (all == 0 && n < 0 && errno == ENOENT)
    return GONE;
  return all > 48 ? IN_USE : EMPTY;
}

/* One that may not be read may be empty. */
static int look_at_directory(const pco_seen *s) {
  struct stat st;
  if (fstat(s->root, &st) == 0 && st.st_nlink == 0)
    return GONE;
  int fd = openat(s->root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0)
    return errno == ENOENT ? GONE : EMPTY;
  int state = read_directory(fd);
  close(fd);
  return state;
}

static bool is_same(int a, int b) {
  struct stat x, y;
  return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev &&
         x.st_ino == y.st_ino;
}

static bool is_missing(int rc) {
  return rc == -ENOENT || rc == -ENOTDIR || rc == -ELOOP;
}

/* Looks whether the path still names the file, and follows it: whether it does
 * not. */
static bool follow(pco_seen *s) {
  struct stat st;
  int fd;
  int rc = pco_seen_find(s, &fd);
  if (rc == 0 && is_same(fd, s->root)) {
    close(fd);
    return false;
  }
  if (rc == 0 && fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)) {
    close(fd);
    rc = -ENOENT;
  }
  if (is_missing(rc)) {
    pco_seen_end(s);
    return true;
  }
  if (rc == 0)
    rc = pco_seen_replace(s, fd);
  if (rc < 0)
    s->error = -rc;
  else /* what came before it was watched is in it by now */
    pco_seen_tell(s, PCO_EVENT_MODIFY, NULL, NULL);
  s->check = rc == 0; /* it may have been replaced meanwhile, too */
  return true;
}

static void check_directory(pco_seen *s) {
  int state = look_at_directory(s);
  if (state == GONE)
    pco_seen_end(s);
  else
    s->check = state == EMPTY;
}

void pco_top_tick(pco_seen *s) {
  int64_t now = pco_now();
  if (!s->check || s->check_at > now)
    return;
  s->check_at = now + CHECK_TIME;
  s->check = false;
  if (s->is_directory)
    check_directory(s);
  else
    follow(s);
}

void pco_top_lost_name(pco_seen *s) {
  s->check = true;
}

/* Whether the file has more or fewer names than before. */
static bool links_changed(pco_seen *s) {
  struct stat st;
  if (s->is_directory || fstat(s->root, &st) != 0)
    return false;
  bool changed = st.st_nlink != s->links;
  s->links = st.st_nlink;
  return changed;
}

void pco_top_on_event(pco_seen *s, const struct inotify_event *e) {
  const uint32_t gone = IN_UNMOUNT | IN_IGNORED;
  const uint32_t moved = IN_DELETE_SELF | IN_MOVE_SELF;
  if (e->mask & gone || (e->mask & moved && s->is_directory)) {
    pco_seen_end(s);
  } else if (e->mask & moved) {
    follow(s);
  } else if (e->mask & IN_MODIFY) {
    pco_seen_tell(s, PCO_EVENT_MODIFY, NULL, NULL);
  } else if (e->mask & IN_ATTRIB && !(links_changed(s) && follow(s))) {
    pco_seen_tell(s, PCO_EVENT_ATTRIBUTE, NULL, NULL);
  }
}
