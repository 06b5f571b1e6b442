/* SPDX-License-Identifier: MIT */
/*
 * floor_stream CHUNK PROGRAM ARGUMENT...: runs the program with a pipe as its
 * stdout and reads that to its end, CHUNK bytes at most at a time.  Prints
 * MB/s.
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stats.h"

int main(int argc, char **argv) {
  if (argc < 3)
    return 2;
  size_t chunk = strtoul(argv[1], NULL, 10);
  char *buffer = malloc(chunk);
  int ends[2];
  if (buffer == NULL || pipe2(ends, O_CLOEXEC) != 0)
    return 3;
  double start = now_us(), bytes = 0;
  pid_t pid = vfork();
  if (pid == 0) {
    dup2(ends[1], STDOUT_FILENO);
    execv(argv[2], argv + 2);
    _exit(127);
  }
  close(ends[1]);
  ssize_t n;
  while ((n = read(ends[0], buffer, chunk)) > 0)
    bytes += (double)n;
  int status;
  if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
    return 4;
  printf("%.3f\n", bytes / (now_us() - start));
  return 0;
}
