/* SPDX-License-Identifier: MIT */
/* The files that a program started by a floor gets: DIR/N as descriptor N. */
#ifndef BENCH_FILES_H
#define BENCH_FILES_H

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#define FIRST_FD 7
#define LAST_FD  31

/* Opens those of `dir` that are there; between fork and exec. */
static inline int open_files(int dir) {
  for (int i = FIRST_FD; i <= LAST_FD; i++) {
    char name[16];
    snprintf(name, sizeof name, "%d", i);
    int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && fd != i && (dup2(fd, i) < 0 || close(fd) < 0))
      return -1;
    if (fd == i && fcntl(fd, F_SETFD, 0) < 0)
      return -1;
  }
  return 0;
}

/* Opens DIR above what open_files() uses; or -1. */
static inline int open_dir(const char *path) {
  int low = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  int dir = fcntl(low, F_DUPFD_CLOEXEC, LAST_FD + 1);
  close(low);
  return dir;
}

#endif /* BENCH_FILES_H */
