/* SPDX-License-Identifier: MIT */
/*
 * See harden.h.
 */
#include "harden.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* By the kernel's own call: the libc refuses those that it keeps for itself,
 * and a host that starts us by posix_spawn leaves them ignored. */
void pco_harden_signals(void) {
  static const unsigned char standard[64]; /* struct sigaction: SIG_DFL is 0 */
  sigset_t all;
  for (int i = 1; i <= 64; i++) /* refused for KILL and STOP */
    syscall(SYS_rt_sigaction, i, standard, NULL, 8ul);
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, NULL);
}

/* Closes first .. last, which may be none. */
static void close_from_to(unsigned first, unsigned last) {
  if (first <= last)
    syscall(SYS_close_range, first, last, 0u);
}

int pco_harden_check_stream(int fd) {
  int type = 0;
  socklen_t size = sizeof type;
  if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) != 0)
    return -errno;
  return type == SOCK_STREAM ? 0 : -EPROTOTYPE;
}

static int compare_fds(const void *a, const void *b) {
  const int *x = a, *y = b;
  return (*x > *y) - (*x < *y);
}

int pco_harden_fds(const int *fds, size_t n) {
  int keep[PCO_HARDEN_FDS];
  size_t kept = 0;
  for (size_t i = 0; i < n; i++) {
    if (fds[i] < 0)
      continue;
    if (fds[i] < 3 || kept == PCO_HARDEN_FDS ||
        fcntl(fds[i], F_SETFD, FD_CLOEXEC) != 0)
      return -EBADF;
    keep[kept++] = fds[i];
  }
  qsort(keep, kept, sizeof *keep, compare_fds);
  unsigned from = 3;
  for (size_t i = 0; i < kept; i++) {
    close_from_to(from, (unsigned)keep[i] - 1);
    from = (unsigned)keep[i] + 1;
  }
  close_from_to(from, ~0u);
  int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0)
    return -errno;
  for (int i = 0; i < 3; i++)
    if (i != null && (fcntl(i, F_GETFD) < 0 || isatty(i)))
      dup2(null, i);
  if (null > 2)
    close(null);
  else
    fcntl(null, F_SETFD, 0);
  return 0;
}

/* struct sched_attr of sched_setattr(2), version 0, which no libc header of
 * all that are to be had declares. */
typedef struct sched_words {
  uint32_t size, policy;
  uint64_t flags;
  int32_t nice;
  uint32_t priority;
  uint64_t runtime, deadline, period;
} sched_words;

void pco_harden_turns(void) {
  sched_words w = {
      .size = sizeof w,
      .flags = 1, /* SCHED_FLAG_RESET_ON_FORK */
      .nice = getpriority(PRIO_PROCESS, 0),
      .runtime = 1000000, /* ns; others have 3 ms (Documentation/scheduler) */
  };
  syscall(SYS_sched_setattr, 0, &w, 0u);
}

void pco_harden_process(void) {
  /* The leader of a process group cannot start a session; it can leave the
   * group for its parent's first. */
  if (setsid() < 0 && errno == EPERM && setpgid(0, getpgid(getppid())) == 0)
    setsid();
#ifndef PCO_AGENT_WEAK /* for a test that shows what this keeps out */
  prctl(PR_SET_DUMPABLE, 0);
#endif
  prctl(PR_SET_NAME, "portico-agent");
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  pco_harden_turns();
}
