/* SPDX-License-Identifier: MIT */
/*
 * floor_spawn COUNT PROGRAM [MIB]: starts PROGRAM and waits for its end, COUNT
 * times, by vfork, exec and wait; with MIB of this process's memory touched.
 * Prints the median in microseconds.  Nothing that keeps a command's exit
 * status can be faster.
 */
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stats.h"

/* Kept out of main, whose variables a vfork might clobber. */
static __attribute__((noinline)) pid_t start(char **argv) {
  pid_t pid = vfork();
  if (pid == 0) {
    execv(argv[0], argv);
    _exit(127);
  }
  return pid;
}

int main(int argc, char **argv) {
  if (argc < 3)
    return 2;
  size_t count = strtoul(argv[1], NULL, 10);
  char *program[] = {argv[2], NULL};
  volatile char *touched = NULL;
  if (argc > 3) {
    size_t size = strtoul(argv[3], NULL, 10) << 20;
    touched = malloc(size);
    if (touched == NULL)
      return 3;
    for (size_t i = 0; i < size; i += 4096)
      touched[i] = 1;
  }
  double *samples = calloc(count, sizeof *samples);
  if (samples == NULL || count == 0)
    return 3;
  for (size_t i = 0; i < count; i++) {
    double began = now_us();
    pid_t pid = start(program);
    int status;
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
      return 4;
    samples[i] = now_us() - began;
  }
  printf("%.3f\n", median(samples, count));
  return 0;
}
