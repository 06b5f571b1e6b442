/* SPDX-License-Identifier: MIT */
/*
 * floor_chain COUNT UID DIR SELF PROGRAM WORD... -- AGENT COMMAND: the
 * processes that a sandbox and its first command are made of, each with nothing
 * to do but to start the next one: a keeper that starts PROGRAM with the WORDs,
 * which runs AGENT inside (this program again, as it is seen there), which
 * forks a supervisor, which starts COMMAND.  SELF is this program out here; UID
 * and DIR are as of floor_launch.  Prints the median in microseconds from the
 * start until COMMAND's end is known.
 *
 * So it says how much of the time of a creation lies in there being those
 * processes, whatever they do.  Static, as the agent is.
 */
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "files.h"
#include "stats.h"

#define CHANNEL_FD 6 /* to the host, all the way */

static int ended_well(pid_t pid) {
  int status;
  return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

/* ---- inside ------------------------------------------------------------- */

static int supervise(const char *command) {
  pid_t pid = vfork();
  if (pid == 0) {
    execl(command, command, (char *)NULL);
    _exit(127);
  }
  return ended_well(pid) ? 0 : 1;
}

static int be_agent(const char *command) {
  char byte = 0;
  int pair[2];
  if (write(CHANNEL_FD, &byte, 1) != 1 || read(CHANNEL_FD, &byte, 1) != 1 ||
      socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
    return 1;
  pid_t pid = fork();
  if (pid == 0) {
    byte = (char)supervise(command);
    _exit(write(pair[1], &byte, 1) == 1 && read(pair[1], &byte, 1) >= 0);
  }
  if (pid < 0 || close(pair[1]) != 0 || read(pair[0], &byte, 1) != 1 ||
      byte != 0 || write(CHANNEL_FD, &byte, 1) != 1)
    return 1;
  return read(CHANNEL_FD, &byte, 1) != 0; /* the host's end */
}

/* ---- outside ------------------------------------------------------------ */

static int keep(char **argv) {
  pid_t pid = fork();
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    execv(argv[0], argv);
    _exit(127);
  }
  close(CHANNEL_FD);
  return ended_well(pid) ? 0 : 1;
}

/* Kept out of main, whose variables a vfork might clobber. */
static __attribute__((noinline)) pid_t start(int dir, uid_t id, int channel,
                                             char **argv) {
  pid_t pid = vfork();
  if (pid == 0) {
    const char *self = argv[0];
    argv[0] = "keep";
    if (dup2(channel, CHANNEL_FD) == CHANNEL_FD && open_files(dir) == 0 &&
        (id == 0 || (setgroups(0, NULL) == 0 && setresgid(id, id, id) == 0 &&
                     setresuid(id, id, id) == 0)))
      execv(self, argv);
    _exit(127);
  }
  return pid;
}

static int once(int dir, uid_t id, char **argv, double *took) {
  int pair[2];
  char byte = 0;
  double began = now_us();
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
    return -1;
  char *self = argv[0];
  pid_t pid = start(dir, id, pair[1], argv);
  argv[0] = self; /* the child had it changed */
  close(pair[1]);
  int rc = pid > 0 && read(pair[0], &byte, 1) == 1 &&
                   write(pair[0], &byte, 1) == 1 &&
                   read(pair[0], &byte, 1) == 1 && byte == 0
               ? 0
               : -1;
  *took = now_us() - began;
  close(pair[0]);
  return ended_well(pid) ? rc : -1;
}

int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[0], "keep") == 0)
    return keep(argv + 1);
  if (argc == 2)
    return be_agent(argv[1]);
  if (argc < 6)
    return 2;
  size_t count = strtoul(argv[1], NULL, 10);
  uid_t id = (uid_t)strtoul(argv[2], NULL, 10);
  int dir = open_dir(argv[3]);
  double *samples = calloc(count, sizeof *samples);
  if (samples == NULL || count == 0 || dir < 0)
    return 3;
  for (size_t i = 0; i < count; i++)
    if (once(dir, id, argv + 4, &samples[i]) != 0)
      return 4;
  printf("%.3f\n", median(samples, count));
  return 0;
}
