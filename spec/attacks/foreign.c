/* SPDX-License-Identifier: MIT */
/*
 * System calls in the manner of another architecture, whose numbers and
 * structures no rule speaks of: 32-bit code, and x32.  Refused is the end of
 * the process by SIGSYS.
 */
#include "attack.h"

#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __x86_64__

#  define UNSHARE_32 310 /* as i386 counts */
#  define X32        0x40000000

static long call_32(long number, long first) {
  long rc;
  __asm__ volatile("int $0x80"
                   : "=a"(rc)
                   : "a"(number), "b"(first)
                   : "memory", "r8", "r9", "r10", "r11");
  return rc;
}

/* Runs fn in a child; 0 if it was killed as it should be. */
static void in_child(const char *what, int (*fn)(void)) {
  pid_t pid = fork();
  if (pid < 0)
    give_up("fork");
  if (pid == 0)
    _exit(fn());
  int status = 0;
  waitpid(pid, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
    went_through(what);
  else if (WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV)
    attack_state = ATTACK_NOT_HERE; /* the kernel runs no 32-bit code */
  else if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGSYS)
    is_broken(what, "neither refused nor through");
}

static int unshare_32(void) {
  return call_32(UNSHARE_32, CLONE_NEWUSER) != 0;
}

/* A kernel without x32 says ENOSYS, which is as far as one gets. */
static int pid_x32(void) {
  return syscall(SYS_getpid | X32) < 0 && errno != ENOSYS;
}

static int unshare_x32(void) {
  return syscall(SYS_unshare | X32, CLONE_NEWUSER) < 0 && errno != ENOSYS;
}

static void by_int80(void) {
  in_child("int 0x80", unshare_32);
}

static void by_x32(void) {
  in_child("getpid of x32", pid_x32);
  in_child("unshare of x32", unshare_x32);
}

#else

static void by_int80(void) {
  attack_state = ATTACK_NOT_HERE;
}
static void by_x32(void) {
  attack_state = ATTACK_NOT_HERE;
}

#endif

int main(int argc, char **argv) {
  static const way ways[] = {{"int80", by_int80}, {"x32", by_x32}};
  return take_way(ways, COUNT(ways), argc > 1 ? argv[1] : NULL);
}
