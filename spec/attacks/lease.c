/* SPDX-License-Identifier: MIT */
/*
 * Takes a lease on a file, prints "held" and keeps it until its standard input
 * ends: whoever opens the file for writing waits meanwhile, and as long as the
 * kernel has patience (/proc/sys/fs/lease-break-time).
 *
 *   lease FILE
 */
#include "attack.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

int main(int argc, char **argv) {
  char c;
  signal(SIGIO, SIG_IGN); /* "somebody waits" */
  int fd = open(argc > 1 ? argv[1] : "", O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    give_up("open");
  judge2("lease", fcntl(fd, F_SETLEASE, F_RDLCK), EINVAL, EACCES, 0);
  puts(attack_state == ATTACK_SUCCEEDED ? "held" : "not held");
  fflush(stdout);
  while (attack_state == ATTACK_SUCCEEDED && read(0, &c, 1) > 0)
    ;
  return attack_state;
}
