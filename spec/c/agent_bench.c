/* SPDX-License-Identifier: MIT */
/*
 * How long a command takes: through the agent, and by a plain
 * vfork + exec + wait of the same program, alternating so that both see the
 * same machine.  usage: agent_bench AGENT STATIC_TRUE [ROUNDS]
 */
#include "agent_client.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double at(double *v, size_t n, double share) {
  return v[(size_t)((double)(n - 1) * share)];
}

static void plain(const char *program) {
  pid_t pid = vfork();
  if (pid == 0) {
    execl(program, program, (char *)NULL);
    _exit(127);
  }
  waitpid(pid, NULL, 0);
}

int main(int argc, char **argv) {
  if (argc < 3)
    return 2;
  size_t n = argc > 3 ? (size_t)atoi(argv[3]) : 2000;
  double *a = calloc(n, sizeof *a), *b = calloc(n, sizeof *b);
  const char *const command[] = {argv[2], NULL};
  client c;
  if (!a || !b)
    return 1;
  client_start(&c, argv[1], "/", NULL);
  for (size_t i = 0; i < 50; i++)
    client_run(&c, command);
  for (size_t i = 0; i < n; i++) {
    double t0 = now_us();
    plain(argv[2]);
    double t1 = now_us();
    ending e = client_run(&c, command);
    double t2 = now_us();
    if (!e.exited || e.code != 0)
      return 1;
    a[i] = t1 - t0;
    b[i] = t2 - t1;
  }
  client_stop(&c);
  qsort(a, n, sizeof *a, compare);
  qsort(b, n, sizeof *b, compare);
  printf("plain vfork+exec+wait  median %.1f us  p95 %.1f us\n", at(a, n, .5),
         at(a, n, .95));
  printf("through the agent      median %.1f us  p95 %.1f us  ratio %.2f\n",
         at(b, n, .5), at(b, n, .95), at(b, n, .5) / at(a, n, .5));
  free(a);
  free(b);
  return 0;
}
