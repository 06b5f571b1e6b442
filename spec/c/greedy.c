/* SPDX-License-Identifier: MIT */
/*
 * What commands with limits do, in c/agent_unit_limits_test.c:
 *
 *   greedy hog MIB   takes so much memory; fails with 7 if it is refused
 *   greedy forks     prints how many children could be had at once, up to 200,
 *                    and why no more
 *   greedy burn      computes for a second; prints how many ms of it it ran
 *
 * Never with sanitizers, which have memory and threads of their own.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MIB (1024u * 1024)

static int hog(long mib) {
  for (long i = 0; i < mib; i++) {
    char *p = mmap(NULL, MIB, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
      return 7;
    memset(p, 1, MIB);
  }
  return 0;
}

static int count_forks(void) {
  int n = 0, error = 0;
  for (; n < 200; n++) {
    pid_t pid = fork();
    if (pid == 0)
      for (;;)
        pause();
    if (pid < 0) {
      error = errno;
      break;
    }
  }
  printf("%d %s\n", n, error == EAGAIN ? "EAGAIN" : error ? "?" : "no error");
  fflush(stdout);
  signal(SIGTERM, SIG_IGN);
  kill(0, SIGTERM);
  while (wait(NULL) > 0)
    ;
  return 0;
}

static int burn(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  double end = (double)t.tv_sec + (double)t.tv_nsec / 1e9 + 1;
  do
    clock_gettime(CLOCK_MONOTONIC, &t);
  while ((double)t.tv_sec + (double)t.tv_nsec / 1e9 < end);
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  printf("%ld\n", (long)(t.tv_sec * 1000 + t.tv_nsec / 1000000));
  return 0;
}

int main(int argc, char **argv) {
  if (argc > 2 && strcmp(argv[1], "hog") == 0)
    return hog(atol(argv[2]));
  if (argc > 1 && strcmp(argv[1], "forks") == 0)
    return count_forks();
  if (argc > 1 && strcmp(argv[1], "burn") == 0)
    return burn();
  fprintf(stderr, "usage: greedy hog MIB | forks | burn\n");
  return 2;
}
