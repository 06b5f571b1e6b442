/* SPDX-License-Identifier: MIT */
/*
 * floor_launch COUNT UID DIR PROGRAM WORD...: starts PROGRAM and waits for its
 * end, COUNT times, by vfork, exec and wait; as user and group UID (0: as it
 * is), and with a file DIR/N as descriptor N for each number N from 7 on that
 * is there.  Prints the median in microseconds.
 *
 * With bubblewrap as PROGRAM, and the words and files that the plugin gives to
 * it, this is the least that a sandbox and its first command can cost.
 */
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stats.h"

#define FIRST_FD 7
#define LAST_FD  31

static int open_files(int dir) {
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

/* Kept out of main, whose variables a vfork might clobber. */
static __attribute__((noinline)) pid_t start(int dir, uid_t id, char **argv) {
  pid_t pid = vfork();
  if (pid == 0) {
    if (open_files(dir) == 0 &&
        (id == 0 || (setgroups(0, NULL) == 0 && setresgid(id, id, id) == 0 &&
                     setresuid(id, id, id) == 0)))
      execv(argv[0], argv);
    _exit(127);
  }
  return pid;
}

int main(int argc, char **argv) {
  if (argc < 5)
    return 2;
  size_t count = strtoul(argv[1], NULL, 10);
  uid_t id = (uid_t)strtoul(argv[2], NULL, 10);
  /* Above what open_files() uses. */
  int low = open(argv[3], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  int dir = fcntl(low, F_DUPFD_CLOEXEC, LAST_FD + 1);
  double *samples = calloc(count, sizeof *samples);
  if (samples == NULL || count == 0 || dir < 0)
    return 3;
  close(low);
  for (size_t i = 0; i < count; i++) {
    double began = now_us();
    pid_t pid = start(dir, id, argv + 4);
    int status;
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
      return 4;
    samples[i] = now_us() - began;
  }
  printf("%.3f\n", median(samples, count));
  return 0;
}
