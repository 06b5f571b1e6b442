/* SPDX-License-Identifier: MIT */
/*
 * What a command gets for descriptors, and what can be made of them.
 */
#include "attack.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* None but 0, 1 and 2. */
static void by_counting(void) {
  DIR *dir = opendir("/proc/self/fd");
  if (!dir)
    give_up("/proc/self/fd");
  for (struct dirent *e; (e = readdir(dir));) {
    int fd = atoi(e->d_name);
    if (fd > 2 && fd != dirfd(dir))
      went_through(e->d_name);
  }
  closedir(dir);
}

/* A memfd that nobody can write any more may be input. */
static bool is_sealed(int fd) {
  int seals = fcntl(fd, F_GET_SEALS);
  return seals >= 0 && (seals & F_SEAL_WRITE) && (seals & F_SEAL_SEAL);
}

static bool is_null(const struct stat *st) {
  return S_ISCHR(st->st_mode) && st->st_rdev == makedev(1, 3);
}

static void look_at(int fd) {
  char what[64], link[64], target[300];
  struct stat st;
  snprintf(what, sizeof what, "descriptor %d", fd);
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  if (fstat(fd, &st) < 0)
    give_up(what);
  if (!S_ISFIFO(st.st_mode) && !S_ISSOCK(st.st_mode) && !is_null(&st) &&
      !is_sealed(fd))
    went_through(what);
  judge(what, openat(fd, "..", O_PATH | O_CLOEXEC), ENOTDIR, 0);
  judge(what, openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), ENOTDIR, 0);
  judge(what, fchdir(fd), ENOTDIR, 0);
  ssize_t n = readlink(link, target, sizeof target - 1);
  if (n < 0)
    give_up(link);
  target[n] = '\0';
  /* "pipe:[123]", "socket:[123]", "/memfd:name (deleted)" */
  if (target[0] == '/' && !is_null(&st) && strncmp(target, "/memfd:", 7) != 0)
    went_through(target);
  int again = open(link, O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (again >= 0 && S_ISREG(st.st_mode) && write(again, "x", 1) > 0)
    went_through(link);
  snprintf(link, sizeof link, "/proc/self/fd/%d/..", fd);
  judge(link, open(link, O_PATH | O_CLOEXEC), ENOTDIR, 0);
}

static void by_reopening(void) {
  for (int fd = 0; fd < 3; fd++)
    look_at(fd);
}

/* One terminal, of the sandbox's own /dev/pts; its other end cannot be had. */
static void of_a_terminal(void) {
  struct stat own, st;
  unsigned number;
  char path[64];
  for (int fd = 0; fd < 3; fd++) {
    snprintf(path, sizeof path, "descriptor %d", fd);
    if (fstat(fd, &st) < 0)
      give_up(path);
    if (!S_ISCHR(st.st_mode) || major(st.st_rdev) != 136 ||
        stat(ttyname(fd) ? ttyname(fd) : "", &own) < 0 ||
        own.st_ino != st.st_ino || own.st_dev != st.st_dev)
      went_through(path);
    judge(path, ioctl(fd, TIOCGPTN, &number), ENOTTY, 0);
    judge2(path, ioctl(fd, TIOCGPTPEER, O_RDWR | O_NOCTTY), EIO, ENOTTY, 0);
  }
}

int main(int argc, char **argv) {
  static const way ways[] = {{"count", by_counting},
                             {"reopen", by_reopening},
                             {"terminal", of_a_terminal}};
  return take_way(ways, COUNT(ways), argc > 1 ? argv[1] : NULL);
}
