/* SPDX-License-Identifier: MIT */
/*
 * Reading, writing and steering other processes: those of the same user, and
 * PID 1.
 */
#include "attack.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int value = 1; /* in the child: the one to change */

/* A child that sleeps, and dies with us. */
static pid_t start_child(void) {
  pid_t parent = getpid();
  pid_t pid = fork();
  if (pid < 0)
    give_up("fork");
  if (pid > 0)
    return pid;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() == parent)
    poll(NULL, 0, 10000);
  _exit(0);
}

static void end_child(pid_t pid) {
  kill(pid, SIGKILL);
  waitpid(pid, NULL, 0);
}

static void by_ptrace(void) {
  pid_t pid = start_child();
  judge("PTRACE_ATTACH", ptrace(PTRACE_ATTACH, pid, NULL, NULL), EPERM, 0);
  end_child(pid);
  pid = start_child();
  judge("PTRACE_SEIZE", ptrace(PTRACE_SEIZE, pid, NULL, NULL), EPERM, 0);
  end_child(pid);
  judge("PTRACE_TRACEME", ptrace(PTRACE_TRACEME, 0, NULL, NULL), EPERM, 0);
}

/* A filter of one's own that allows all adds nothing to what is allowed. */
static void by_own_filter(void) {
  struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  struct sock_fprog program = {1, &allow};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0)
    give_up("a filter of one's own");
  by_ptrace();
}

static void by_writing(void) {
  pid_t pid = start_child();
  int two = 2, seen = 0;
  struct iovec local = {&two, sizeof two};
  struct iovec there = {(void *)(uintptr_t)&value, sizeof value};
  judge("process_vm_writev",
        syscall(SYS_process_vm_writev, pid, &local, 1, &there, 1, 0), EPERM, 0);
  local.iov_base = &seen;
  judge("process_vm_readv",
        syscall(SYS_process_vm_readv, pid, &local, 1, &there, 1, 0), EPERM, 0);
  end_child(pid);
}

static void by_pidfd(void) {
  pid_t pid = start_child();
  int fd = (int)syscall(SYS_pidfd_open, pid, 0);
  if (fd < 0)
    give_up("pidfd_open");
  judge("pidfd_getfd", syscall(SYS_pidfd_getfd, fd, 1, 0), EPERM, 0);
  end_child(pid);
}

/* ---- PID 1, and supervisors
 * -------------------------------------------------------------- */

static pid_t target; /* whose /proc/PID is looked at */

static void touch(const char *name, int flags) {
  char path[300];
  char byte;
  snprintf(path, sizeof path, "/proc/%d/%s", (int)target, name);
  int fd = open(path, flags | O_CLOEXEC);
  if (fd < 0 && errno == ENOENT)
    return; /* not every kernel has all of them */
  /* Some can be opened by anyone, and give nothing. */
  if (fd >= 0 && flags == O_RDONLY && read(fd, &byte, 1) <= 0) {
    close(fd);
    fd = -1;
    errno = EPERM;
  }
  judge2(path, fd, EPERM, EACCES, 0);
}

/* These can be opened by anyone, and ask who it is when they are written. */
static void write_to(const char *name) {
  char path[300];
  snprintf(path, sizeof path, "/proc/%d/%s", (int)target, name);
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0 && errno == ENOENT)
    return;
  ssize_t n = fd < 0 ? -1 : write(fd, "1", 1);
  if (n < 0 && errno == EINVAL) /* of security modules that are not there */
    errno = EPERM;
  judge2(path, n, EPERM, EACCES, 0);
}

static void list(const char *name) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/%s", (int)target, name);
  DIR *dir = opendir(path);
  int entries = 0;
  for (struct dirent *e; dir && (e = readdir(dir));)
    entries += e->d_name[0] != '.';
  int error = errno;
  if (dir)
    closedir(dir);
  errno = dir ? EPERM : error;
  judge2(path, entries > 0 ? 0 : -1, EPERM, EACCES, 0);
}

/* Links that the kernel follows to what they mean. */
static void follow(const char *name) {
  char path[64], link[300];
  snprintf(path, sizeof path, "/proc/%d/%s", (int)target, name);
  judge2(path, readlink(path, link, sizeof link), EPERM, EACCES, 0);
  judge2(path, open(path, O_PATH | O_CLOEXEC), EPERM, EACCES, 0);
}

static void by_proc_of(pid_t pid) {
  target = pid;
  static const char *const read_only[] = {
      "auxv",  "environ", "io",      "maps", "numa_maps",  "pagemap",
      "smaps", "stack",   "syscall", "mem",  "personality"};
  static const char *const written[] = {
      "mem",        "oom_score_adj",   "oom_adj",    "autogroup",
      "clear_refs", "coredump_filter", "sched",      "uid_map",
      "gid_map",    "setgroups",       "projid_map", "loginuid"};
  static const char *const guarded[] = {"timerslack_ns", "comm",
                                        "attr/current"};
  static const char *const lists[] = {"fd", "fdinfo", "map_files"};
  static const char *const links[] = {"cwd",    "exe",    "root",
                                      "fd/0",   "fd/3",   "ns/user",
                                      "ns/mnt", "ns/pid", "ns/net"};
  for (size_t i = 0; i < COUNT(read_only); i++)
    touch(read_only[i], O_RDONLY);
  for (size_t i = 0; i < COUNT(written); i++)
    touch(written[i], O_WRONLY);
  for (size_t i = 0; i < COUNT(guarded); i++)
    write_to(guarded[i]);
  for (size_t i = 0; i < COUNT(lists); i++)
    list(lists[i]);
  for (size_t i = 0; i < COUNT(links); i++)
    follow(links[i]);
}

static void by_proc_of_init(void) {
  by_proc_of(1);
}

/* It runs for the agent, and may be of our own user. */
static void by_proc_of_supervisor(void) {
  if (getppid() <= 1)
    give_up("no supervisor");
  by_proc_of(getppid());
}

/* What is not protected: the control. */
static void by_proc_of_child(void) {
  pid_t pid = start_child();
  by_proc_of(pid);
  end_child(pid);
}

static void by_calls_on_init(void) {
  char room[8];
  struct iovec local = {room, sizeof room};
  struct iovec there = {&local, sizeof room};
  judge("ptrace", ptrace(PTRACE_SEIZE, 1, NULL, NULL), EPERM, 0);
  judge("process_vm_readv",
        syscall(SYS_process_vm_readv, 1, &local, 1, &there, 1, 0), EPERM,
        EFAULT);
  judge("kcmp", syscall(SYS_kcmp, getpid(), 1, 1, 0, 0), EPERM, 0);
  int fd = (int)syscall(SYS_pidfd_open, 1, 0);
  if (fd < 0)
    give_up("pidfd_open");
  judge("pidfd_getfd", syscall(SYS_pidfd_getfd, fd, 0, 0), EPERM, 0);
  judge("setns", syscall(SYS_setns, fd, 0x10000000 /* user */), EPERM, EINVAL);
}

/* Leaves PID 1 next to nothing; with two uids the kernel refuses that too. */
static void by_limits_of_init(void) {
  struct rlimit few = {3, 3}, now;
  judge("prlimit64", syscall(SYS_prlimit64, 1, RLIMIT_NOFILE, &few, NULL),
        EPERM, 0);
  judge("prlimit64, reading",
        syscall(SYS_prlimit64, 1, RLIMIT_NOFILE, NULL, &now), EPERM, 0);
}

/* 0x4007 is the last of the best effort; so is nice 19. */
static void by_priority_of_init(void) {
  cpu_set_t one;
  struct sched_param none = {0};
  CPU_ZERO(&one);
  CPU_SET(0, &one);
  judge("nice", setpriority(PRIO_PROCESS, 1, 19), EPERM, 0);
  judge("nice of the group", setpriority(PRIO_PGRP, 1, 19), EPERM, 0);
  judge("nice of the user", setpriority(PRIO_USER, 0, 19), EPERM, 0);
  judge("ioprio_set", syscall(SYS_ioprio_set, 1, 1, 0x4007), EPERM, 0);
  judge("ioprio_set of the group", syscall(SYS_ioprio_set, 2, 1, 0x4007), EPERM,
        0);
  judge("ioprio_set of the user", syscall(SYS_ioprio_set, 3, 0, 0x4007), EPERM,
        0);
  judge("policy", sched_setscheduler(1, SCHED_IDLE, &none), EPERM, 0);
  judge("CPUs", sched_setaffinity(1, sizeof one, &one), EPERM, 0);
}

int main(int argc, char **argv) {
  static const way ways[] = {{"ptrace", by_ptrace},
                             {"own-filter", by_own_filter},
                             {"memory", by_writing},
                             {"descriptor", by_pidfd},
                             {"init-proc", by_proc_of_init},
                             {"supervisor-proc", by_proc_of_supervisor},
                             {"child-proc", by_proc_of_child},
                             {"init-calls", by_calls_on_init},
                             {"init-limits", by_limits_of_init},
                             {"init-priority", by_priority_of_init}};
  return take_way(ways, COUNT(ways), argc > 1 ? argv[1] : NULL);
}
