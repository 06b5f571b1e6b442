/* SPDX-License-Identifier: MIT */
/*
 * See exec.h.  Everything named child_* runs in the child, on its own stack
 * but in the supervisor's memory, while the supervisor is suspended.  It may
 * write to the pco_exec and call whatever leaves memory in order; it must not
 * return from child_main and must not use glibc's set*id, which is meant for
 * all threads of a process.
 */
#include "exec.h"

#include "clock.h"
#include "env.h"
#include "interp.h"
#include "procfs.h"
#include "wire.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/keyctl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define STACK_SIZE   (64u * 1024)
#define DEFAULT_PATH "/usr/local/bin:/usr/bin:/bin"
#define BUSY_TRIES   25 /* of 2 ms */

static char *stack; /* of the child; below it is a page that faults */

int pco_exec_init(void) {
  long page = sysconf(_SC_PAGESIZE);
  char *p = mmap(NULL, STACK_SIZE + (size_t)page, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (p == MAP_FAILED || mprotect(p, (size_t)page, PROT_NONE) != 0)
    return -ENOMEM;
  stack = p + page;
  return 0;
}

static void child_fail(pco_exec *x, int stage, int error) {
  x->stage = stage;
  x->error = error;
}

/* ---- the search --------------------------------------------------------- */

/* Execs x->path; returns the errno.  A file that is still open for writing in
 * another process (often just between its fork and exec) gets a moment. */
static int child_try(pco_exec *x) {
  struct timespec pause = {0, 2 * PCO_MS};
  for (int i = 0;; i++) {
    execve(x->path, x->argv, x->env);
    if (errno != ETXTBSY || i == BUSY_TRIES)
      return errno;
    nanosleep(&pause, NULL);
  }
}

/* Explains ENOENT of a file that exists. */
static void child_explain_missing(pco_exec *x) {
  char name[256];
  x->stage = PCO_STAGE_INTERPRETER;
  if (pco_interp_of(x->path, name, sizeof name) == 0)
    snprintf(x->message, sizeof x->message,
             "the program is there, but its loader or #! program %s is missing",
             name);
  else
    snprintf(x->message, sizeof x->message,
             "the program is there, but its loader or #! program is missing");
}

/* argv[0] names a file: there is one candidate. */
static void child_exec_path(pco_exec *x) {
  snprintf(x->path, sizeof x->path, "%s", x->argv[0]);
  child_fail(x, PCO_STAGE_EXEC, child_try(x));
  struct stat st;
  if (stat(x->path, &st) != 0)
    return;
  if (x->error == EACCES && S_ISDIR(st.st_mode))
    snprintf(x->message, sizeof x->message, "it is a directory");
  else if (x->error == ENOENT && S_ISREG(st.st_mode))
    child_explain_missing(x);
}

/* Writes the next candidate of a PATH to x->path and moves on; an entry that
 * is empty means the working directory.  False at the end. */
static bool child_candidate(pco_exec *x, const char **list) {
  const char *entry = *list;
  if (!entry)
    return false;
  size_t len = strcspn(entry, ":");
  *list = entry[len] ? entry + len + 1 : NULL;
  int n = len > 0 && len < PATH_MAX
              ? snprintf(x->path, sizeof x->path, "%.*s/%s", (int)len, entry,
                         x->argv[0])
              : snprintf(x->path, sizeof x->path, "./%s", x->argv[0]);
  if (len >= PATH_MAX || n < 0 || (size_t)n >= sizeof x->path)
    x->path[0] = 0; /* too long to be a path: execve says ENOENT */
  return true;
}

/* Why nothing was found: a candidate that is there but may not be executed, or
 * one whose interpreter is missing, says more than "not found".  This looks
 * again so that a search that succeeds costs nothing more. */
static void child_explain_search(pco_exec *x, const char *list) {
  while (child_candidate(x, &list)) {
    struct stat st;
    if (stat(x->path, &st) != 0 || !S_ISREG(st.st_mode))
      continue;
    x->error = child_try(x);
    if (x->error == ENOENT)
      child_explain_missing(x);
    return;
  }
  snprintf(x->path, sizeof x->path, "%s", x->argv[0]);
}

static void child_search(pco_exec *x) {
  const char *list = pco_env_get(x->env, "PATH");
  if (!list)
    list = DEFAULT_PATH;
  for (const char *at = list; child_candidate(x, &at);) {
    int error = child_try(x);
    if (error != ENOENT && error != ENOTDIR && error != EACCES) {
      child_fail(x, PCO_STAGE_EXEC, error);
      return;
    }
  }
  child_fail(x, PCO_STAGE_EXEC, ENOENT);
  child_explain_search(x, list);
}

/* ---- the child ---------------------------------------------------------- */

/* Its terminal becomes that of the new session, and its user's. */
static bool child_terminal(pco_exec *x) {
  struct stat st;
  const pco_user *u = x->user;
  if (ioctl(0, TIOCSCTTY, 0) != 0) {
    child_fail(x, PCO_STAGE_FORK, errno);
    snprintf(x->message, sizeof x->message,
             "the terminal cannot become the session's");
    return false;
  }
  if (u && fstat(0, &st) == 0 && st.st_uid != u->uid &&
      fchown(0, u->uid, (gid_t)-1) != 0)
    x->message[0] = 0; /* it works without, but for opening it by name */
  return true;
}

static bool child_stdio(pco_exec *x) {
  for (int i = 0; i < 3; i++) {
    if (dup2(x->stdio[i], i) < 0) {
      child_fail(x, PCO_STAGE_FORK, errno);
      return false;
    }
  }
  syscall(SYS_close_range, 3u, ~0u, 0u);
  return !x->terminal || child_terminal(x);
}

/* As the user, since what lies there may be for others only. */
static bool child_cwd(pco_exec *x) {
  if (!x->cwd || chdir(x->cwd) == 0)
    return true;
  child_fail(x, PCO_STAGE_CWD, errno);
  snprintf(x->path, sizeof x->path, "%s", x->cwd);
  return false;
}

/* For want of memory the kernel looks for the largest process, and a supervisor
 * may be larger than what it watches. */
static void child_offer(void) {
  int fd = openat(pco_procfs_fd(), "self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  ssize_t n = fd >= 0 ? write(fd, "500", 3) : 0;
  (void)n; /* it was worth a try */
}

/* Into its cgroups, while the descriptors for that are open. */
static bool child_place(pco_exec *x) {
  for (unsigned i = 0; i < x->n_procs; i++) {
    if (write(x->procs[i], "0", 1) != 1) {
      child_fail(x, PCO_STAGE_LIMIT, errno);
      snprintf(x->message, sizeof x->message,
               "the command cannot enter its cgroup");
      return false;
    }
  }
  if (x->first_victim)
    child_offer();
  return true;
}

/* A limit is never more than the one that is there already. */
static bool child_limit(pco_exec *x, int resource, uint64_t most) {
  struct rlimit r;
  if (most == 0)
    return true;
  if (getrlimit(resource, &r) == 0) {
    r.rlim_max = most < r.rlim_max ? most : r.rlim_max;
    r.rlim_cur = r.rlim_max;
    if (setrlimit(resource, &r) == 0)
      return true;
  }
  child_fail(x, PCO_STAGE_LIMIT, errno);
  return false;
}

/* Before the user changes: the kernel then refuses an exec that is one process
 * too many. */
static bool child_limits(pco_exec *x) {
  return child_limit(x, RLIMIT_AS, x->max_memory) &&
         child_limit(x, RLIMIT_NPROC, x->max_pids) &&
         child_limit(x, RLIMIT_NOFILE, x->max_files);
}

/* What the session of the agent's user has in its keyring is for that user.
 * Where keyrings are out of reach, they are so for the command, too. */
static bool child_leave_keyring(void) {
  return syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) >= 0 ||
         errno == ENOSYS || errno == EPERM || errno == EOPNOTSUPP;
}

/* The kernel takes root's capabilities away with its id, but not those of
 * another user, nor all of them under each of the securebits. */
static bool child_drop(const pco_user *u) {
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct none[2];
  memset(none, 0, sizeof none);
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  return u->uid == 0 || syscall(SYS_capset, &header, none) == 0;
}

/* Groups first, the user last: afterwards there is no right to change any. */
static bool child_become(const pco_exec *x, const pco_user *u) {
  return (!x->other_user || child_leave_keyring()) &&
         syscall(SYS_setgroups, u->n_groups, u->groups) == 0 &&
         syscall(SYS_setresgid, u->gid, u->gid, u->gid) == 0 &&
         syscall(SYS_setresuid, u->uid, u->uid, u->uid) == 0 &&
         (!x->other_user || child_drop(u));
}

static bool child_user(pco_exec *x) {
  const pco_user *u = x->user;
  bool same = u && !x->other_user && u->uid == geteuid() && u->gid == getegid();
  if (!u || (same && geteuid() != 0) || child_become(x, u))
    return true; /* who may not change any is itself, with its groups */
  if (same && errno == EPERM)
    return true; /* a root without rights */
  child_fail(x, PCO_STAGE_USER, errno);
  snprintf(x->path, sizeof x->path, "%s", u->name);
  snprintf(x->message, sizeof x->message,
           "the rights of user '%.64s' (%u:%u) cannot be taken: %s%s", u->name,
           (unsigned)u->uid, (unsigned)u->gid, strerror(x->error),
           x->error == EPERM ? "; that needs root (CAP_SETUID and CAP_SETGID)"
                             : "");
  return false;
}

static int child_main(void *arg) {
  pco_exec *x = arg;
  setsid();
  if (child_place(x) && child_stdio(x) && child_limits(x) && child_user(x) &&
      child_cwd(x)) {
    /* After the user, since a change of it takes this back. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (strchr(x->argv[0], '/'))
      child_exec_path(x);
    else if (*x->argv[0])
      child_search(x);
    else
      child_fail(x, PCO_STAGE_EXEC, ENOENT);
  }
  _exit(1);
}

pid_t pco_exec_start(pco_exec *x) {
  x->error = 0;
  x->stage = PCO_STAGE_NONE;
  x->path[0] = 0;
  x->message[0] = 0;
  pid_t pid = clone(child_main, stack + STACK_SIZE,
                    CLONE_VM | CLONE_VFORK | SIGCHLD, x);
  if (pid < 0) {
    child_fail(x, PCO_STAGE_FORK, errno);
    return -x->error;
  }
  if (x->error == 0)
    return pid;
  waitpid(pid, NULL, 0);
  return -x->error;
}
