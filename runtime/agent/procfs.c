/* SPDX-License-Identifier: MIT */
/*
 * Reading /proc with plain system calls; see procfs.h.
 *
 * What is read here was partly written by hostile programs (a process chooses
 * its own name), so the line of /proc/PID/stat is parsed from its last ')'.
 */
#include "procfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int proc_fd = -1; /* lives as long as the process */

static ssize_t read_file(const char *name, char *buf, size_t size) {
  int fd = openat(proc_fd, name, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return -errno;
  ssize_t n = read(fd, buf, size);
  int error = errno;
  close(fd);
  return n < 0 ? -error : n;
}

int pco_procfs_open(void) {
  char self[16], pid[16];
  proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (proc_fd < 0)
    return -errno;
  ssize_t n = readlinkat(proc_fd, "self", self, sizeof self - 1);
  if (n < 0)
    return -errno;
  self[n] = 0;
  snprintf(pid, sizeof pid, "%d", (int)getpid());
  return strcmp(self, pid) == 0 ? 0 : -ESRCH;
}

int pco_procfs_fd(void) {
  return proc_fd;
}

/* Gives the numbers of "pid (name) S ppid ...", by their place in proc(5). */
static int parse_stat(char *line, pco_proc *out) {
  char *p = strrchr(line, ')');
  if (!p || p[1] != ' ')
    return -ESRCH;
  out->state = p[2];
  p += 3;
  for (int field = 4; field <= 22; field++) {
    char *end;
    unsigned long long v = strtoull(p, &end, 10);
    if (end == p)
      return -ESRCH;
    p = end;
    if (field == 4)
      out->parent = (pid_t)v;
    else if (field == 20)
      out->threads = (uint32_t)v;
    else if (field == 22)
      out->start = v;
  }
  return 0;
}

int pco_procfs_stat(pid_t pid, pco_proc *out) {
  char name[32], line[1024];
  memset(out, 0, sizeof *out);
  snprintf(name, sizeof name, "%d/stat", (int)pid);
  ssize_t n = read_file(name, line, sizeof line - 1);
  if (n <= 0)
    return n < 0 ? (int)n : -ESRCH;
  line[n] = 0;
  out->pid = pid;
  return parse_stat(line, out);
}

/* Reads a list of pids, however long, in pieces. */
static int each_pid(int fd, pco_pid_fn *fn, void *arg) {
  char buf[4096];
  pid_t pid = 0;
  ssize_t n;
  while ((n = read(fd, buf, sizeof buf)) > 0) {
    for (ssize_t i = 0; i < n; i++) {
      if (buf[i] >= '0' && buf[i] <= '9') {
        pid = pid * 10 + (buf[i] - '0');
      } else if (pid > 0) {
        fn(arg, pid);
        pid = 0;
      }
    }
  }
  return n < 0 ? -errno : 0;
}

static int thread_children(pid_t pid, pid_t tid, pco_pid_fn *fn, void *arg) {
  char name[64];
  snprintf(name, sizeof name, "%d/task/%d/children", (int)pid, (int)tid);
  int fd = openat(proc_fd, name, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return errno == ENOENT ? -ESRCH : -errno;
  int rc = each_pid(fd, fn, arg);
  close(fd);
  return rc;
}

/* The numeric names of a directory. */
static int each_number(const char *dir, pco_pid_fn *fn, void *arg) {
  int fd = openat(proc_fd, dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *d = fd < 0 ? NULL : fdopendir(fd);
  if (!d) {
    int error = errno;
    if (fd >= 0)
      close(fd);
    return -error;
  }
  for (struct dirent *e; (e = readdir(d));) {
    char *end;
    long v = strtol(e->d_name, &end, 10);
    if (v > 0 && *end == 0)
      fn(arg, (pid_t)v);
  }
  closedir(d);
  return 0;
}

typedef struct threads {
  pid_t pid;
  pco_pid_fn *fn;
  void *arg;
} threads;

static void visit_thread(void *arg, pid_t tid) {
  const threads *t = arg;
  thread_children(t->pid, tid, t->fn, t->arg);
}

/* Whether this kernel was built with the lists at all. */
static bool has_children_lists(void) {
  char name[64];
  int self = (int)getpid();
  snprintf(name, sizeof name, "%d/task/%d/children", self, self);
  return faccessat(proc_fd, name, R_OK, 0) == 0;
}

int pco_procfs_children(const pco_proc *p, pco_pid_fn *fn, void *arg) {
  if (p->threads > 1) {
    char dir[32];
    threads t = {p->pid, fn, arg};
    snprintf(dir, sizeof dir, "%d/task", (int)p->pid);
    int rc = each_number(dir, visit_thread, &t);
    return rc == 0 && !has_children_lists() ? -ENOSYS : rc;
  }
  int rc = thread_children(p->pid, p->pid, fn, arg);
  return rc == -ESRCH && !has_children_lists() ? -ENOSYS : rc;
}

int pco_procfs_all(pco_pid_fn *fn, void *arg) {
  return each_number(".", fn, arg);
}

/* The pidfd pins the process; if it is not the one meant, its start time (or
 * that of a later owner of the number) differs. */
int pco_procfs_signal(const pco_proc *p, int signo) {
  if (p->pid <= 1 || p->pid == getpid())
    return -EINVAL;
  int fd = (int)syscall(SYS_pidfd_open, p->pid, 0);
  if (fd < 0)
    return -errno;
  pco_proc now;
  int rc = pco_procfs_stat(p->pid, &now);
  if (rc == 0 && now.start != p->start)
    rc = -ESRCH;
  if (rc == 0 && syscall(SYS_pidfd_send_signal, fd, signo, NULL, 0) != 0)
    rc = -errno;
  close(fd);
  return rc;
}
