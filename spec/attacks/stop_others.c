/* SPDX-License-Identifier: MIT */
/*
 * Stops every process that may be signalled, without an end and from several
 * processes: with one id also the supervisors of other commands, just as they
 * start.  Only in a PID namespace of one's own.
 */
#include "attack.h"

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

/* The first process of the host's namespace is no agent. */
static bool is_inside(void) {
  char name[32] = "";
  FILE *f = fopen("/proc/1/comm", "re");
  bool inside =
      f && fgets(name, sizeof name, f) && strncmp(name, "portico", 7) == 0;
  if (f)
    fclose(f);
  return inside;
}

int main(void) {
  if (!is_inside())
    give_up("not without a PID namespace");
  printf("begins\n");
  fflush(stdout);
  for (int i = 0; i < 4; i++)
    if (fork() == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      break;
    }
  for (;;)
    kill(-1, SIGSTOP);
}
