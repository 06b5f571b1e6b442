/* SPDX-License-Identifier: MIT */
/*
 * Starting a program of the host on Linux; see spawn.h.
 *
 * posix_spawn of glibc is clone(CLONE_VM | CLONE_VFORK): its cost does not
 * grow with the host's memory, it blocks all signals in the window, and TSan
 * and valgrind know it.  What it lacks: a pidfd (taken by pidfd_open right
 * after; only a host that reaps every child could be faster, then ESRCH), and
 * the start of a descriptor (done through /proc/self/fd, so the descriptor must
 * still be open at the exec: it is moved to the first number behind fds, which
 * the new program finds open and closes).
 */
#include "spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_FDS 32

/* Copies the wanted descriptors to numbers above every target, so that no dup2
 * overwrites a source that is still needed.  Fills at[]; -errno on failure,
 * with what was made closed. */
static int lift(const int32_t *fds, size_t n, int at[]) {
  for (size_t i = 0; i < n; i++) {
    at[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, (int)n);
    if (at[i] < 0) {
      /* EINVAL: so many descriptors are not allowed at all. */
      int rc = errno == EINVAL ? -EMFILE : -errno;
      while (i-- > 0)
        close(at[i]);
      return rc;
    }
  }
  return 0;
}

static int add_actions(posix_spawn_file_actions_t *actions, const int at[],
                       size_t n, const char *cwd) {
  int rc = 0;
  for (size_t i = 0; rc == 0 && i < n; i++)
    rc = posix_spawn_file_actions_adddup2(actions, at[i], (int)i);
  if (rc == 0)
    rc = posix_spawn_file_actions_addclosefrom_np(actions, (int)n);
  if (rc == 0 && cwd)
    rc = posix_spawn_file_actions_addchdir_np(actions, cwd);
  return rc;
}

static int set_attributes(posix_spawnattr_t *attr) {
  sigset_t set;
  sigfillset(&set);
  posix_spawnattr_setsigdefault(attr, &set);
  sigemptyset(&set);
  posix_spawnattr_setsigmask(attr, &set);
  return posix_spawnattr_setflags(attr, POSIX_SPAWN_SETSIGDEF |
                                            POSIX_SPAWN_SETSIGMASK |
                                            POSIX_SPAWN_SETSID);
}

/* A pidfd of our child; if there can be none, the child is ended. */
static int open_pidfd(pid_t pid, int *pidfd) {
  *pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
  if (*pidfd >= 0)
    return 0;
  int rc = -errno;
  if (kill(pid, SIGKILL) == 0)
    waitpid(pid, NULL, 0);
  return rc;
}

int pco__spawn(const char *path, int exec_fd, char *const argv[],
               char *const env[], const char *cwd, const int32_t *fds,
               size_t n_fds, int *pidfd) {
  int32_t all[MAX_FDS];
  int at[MAX_FDS];
  char self[32];
  *pidfd = -1;
  if (n_fds + 1 > MAX_FDS)
    return -EINVAL;
  for (size_t i = 0; i < n_fds; i++)
    all[i] = fds[i];
  size_t n = n_fds;
  if (exec_fd >= 0) {
    snprintf(self, sizeof self, "/proc/self/fd/%zu", n);
    path = self;
    all[n++] = exec_fd;
  }
  int rc = lift(all, n, at);
  if (rc < 0)
    return rc;
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attr;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attr);
  rc = -add_actions(&actions, at, n, cwd);
  if (rc == 0)
    rc = -set_attributes(&attr);
  pid_t pid;
  if (rc == 0)
    rc = -posix_spawn(&pid, path, &actions, &attr, argv, env);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attr);
  for (size_t i = 0; i < n; i++)
    close(at[i]);
  return rc < 0 ? rc : open_pidfd(pid, pidfd);
}
