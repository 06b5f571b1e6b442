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

#include "files.h"
#include "stats.h"

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
  int dir = open_dir(argv[3]);
  double *samples = calloc(count, sizeof *samples);
  if (samples == NULL || count == 0 || dir < 0)
    return 3;
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
