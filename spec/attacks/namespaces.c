/* SPDX-License-Identifier: MIT */
/*
 * Becoming the master of a new user namespace, in which one has all rights and
 * so many more ways into the kernel.
 */
#include "attack.h"

#include <linux/capability.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static bool has_rights(void) {
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct data[2] = {{0}};
  if (syscall(SYS_capget, &header, data) < 0)
    give_up("capget");
  return (data[0].effective >> CAP_SYS_ADMIN & 1) != 0;
}

static void is_denied(const char *what, int error) {
  if (has_rights())
    went_through(what);
  errno = error;
  judge2(what, -1, EPERM, ENOSYS, 0);
}

/* Judges what a call that makes a child gave; in the child there are rights. */
static void with_child(const char *what, long pid) {
  int status = 0;
  if (pid == 0)
    _exit(has_rights());
  if (pid < 0) {
    is_denied(what, errno);
    return;
  }
  waitpid((pid_t)pid, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 1)
    went_through(what);
  else
    is_broken(what, "a child without rights");
}

static void by_unshare(void) {
  if (has_rights())
    give_up("rights from the beginning");
  is_denied("unshare", syscall(SYS_unshare, CLONE_NEWUSER) < 0 ? errno : 0);
}

static void by_clone(void) {
  with_child("clone", syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0));
}

static void by_clone_high(void) {
  with_child("clone, high bits",
             syscall(SYS_clone, UINT64_C(1) << 40 | CLONE_NEWUSER | SIGCHLD, 0,
                     0, 0, 0));
}

static void by_clone3(void) {
  struct clone_args args = {.flags = CLONE_NEWUSER, .exit_signal = SIGCHLD};
  with_child("clone3", syscall(SYS_clone3, &args, sizeof args));
}

int main(int argc, char **argv) {
  static const way ways[] = {{"unshare", by_unshare},
                             {"clone", by_clone},
                             {"clone-high", by_clone_high},
                             {"clone3", by_clone3}};
  return take_way(ways, COUNT(ways), argc > 1 ? argv[1] : NULL);
}
