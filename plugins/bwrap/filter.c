/* SPDX-License-Identifier: MIT */
/*
 * The system calls that a sandbox may make; see filter.h.
 *
 * The first program decides by number: what is in `allowed` goes through, what
 * is in `refused` is EPERM, as the kernel itself answers who may not, and all
 * the rest, also what the future brings, is ENOSYS, upon which programs fall
 * back on something older.  The second program allows everything but some
 * arguments.  Names that this libseccomp or this machine does not have are
 * passed over: they stay ENOSYS.
 *
 * Arguments.  The kernel reads only the low 32 bits of an int, so a comparison
 * either looks at these alone (low_is, bits_are), or refuses all but an exact
 * value (is_not, is_above): bits in the upper half never help.
 *
 * Memory that belongs to no process would outlive what the out-of-memory
 * killer can end, so System V IPC is bounded: segments up to 16 KiB (of which a
 * namespace has 4096: 64 MiB), sets of up to 16 semaphores (32000: 45 MiB),
 * and no message queues, since 32000 of them take 1 MiB each in empty messages.
 * POSIX queues are bounded by RLIMIT_MSGQUEUE; a memfd is memory like any
 * other: it goes with its process, and only a cgroup bounds it.  The kernel's
 * asynchronous I/O (io_setup) is left out because the whole machine shares one
 * limit of it.
 *
 * `weaken`, in builds for tests, leaves out one protection for each name:
 *
 *   NAME of a system call in none of the lists below or in `refused`: that call
 *               is allowed (clone3, ptrace, io_setup, ...)
 *   default     the calls that are in no list are allowed, personality() too
 *   arch        foreign architectures are allowed
 *   ioctl       the terminal's input and line discipline
 *   socket      the families, types and protocols of sockets
 *   prlimit64   limits of other processes
 *   priority    nice, I/O priority, policy and CPUs of PID 1
 *   clone       new namespaces by clone
 *   personality odd personalities
 *   sysvipc     the sizes of System V segments and sets
 *   fcntl       leases, notices of directories, commands that are not known
 *   setid       set-id bits
 *
 * Other names are not about system calls and no business of this file.
 */
#include "filter.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "portico/plugin_lock.h"
#include "portico/plugin_util.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* ---- by number ---------------------------------------------------------- */

static const char *const allowed[] = {
    /* files */
    "access", "chdir", "chmod", "chown", "close", "close_range",
    "copy_file_range", "creat", "dup", "dup2", "dup3", "faccessat",
    "faccessat2", "fadvise64", "fallocate", "fchdir", "fchmod", "fchmodat",
    "fchmodat2", "fchown", "fchownat", "fcntl", "fdatasync", "fgetxattr",
    "file_getattr", "flistxattr", "flock", "fremovexattr", "fsetxattr", "fstat",
    "fstatfs", "fsync", "ftruncate", "futimesat", "getcwd", "getdents",
    "getdents64", "getxattr", "getxattrat", "inotify_add_watch", "inotify_init",
    "inotify_init1", "inotify_rm_watch", "ioctl", "lchown", "lgetxattr", "link",
    "linkat", "listxattr", "listxattrat", "llistxattr", "lremovexattr", "lseek",
    "lsetxattr", "lstat", "mkdir", "mkdirat", "mknod", "mknodat", "newfstatat",
    "open", "openat", "pread64", "preadv", "preadv2", "pwrite64", "pwritev",
    "pwritev2", "read", "readahead", "readlink", "readlinkat", "readv",
    "removexattr", "removexattrat", "rename", "renameat", "renameat2", "rmdir",
    "sendfile", "setxattr", "setxattrat", "splice", "stat", "statfs", "statx",
    "symlink", "symlinkat", "sync", "sync_file_range", "syncfs", "tee",
    "truncate", "umask", "unlink", "unlinkat", "utime", "utimensat", "utimes",
    "vmsplice", "write", "writev",
    /* waiting, pipes and sockets */
    "accept", "accept4", "bind", "connect", "epoll_create", "epoll_create1",
    "epoll_ctl", "epoll_pwait", "epoll_pwait2", "epoll_wait", "eventfd",
    "eventfd2", "getpeername", "getsockname", "getsockopt", "listen", "pipe",
    "pipe2", "poll", "ppoll", "pselect6", "recvfrom", "recvmmsg", "recvmsg",
    "select", "sendmmsg", "sendmsg", "sendto", "setsockopt", "shutdown",
    "signalfd", "signalfd4", "socket", "socketpair", "timerfd_create",
    "timerfd_gettime", "timerfd_settime",
    /* memory */
    "brk", "madvise", "map_shadow_stack", "membarrier", "memfd_create",
    "mincore", "mlock", "mlock2", "mlockall", "mmap", "mprotect", "mremap",
    "mseal", "msync", "munlock", "munlockall", "munmap", "pkey_alloc",
    "pkey_free", "pkey_mprotect",
    /* processes, threads and signals */
    "alarm", "arch_prctl", "clone", "execve", "execveat", "exit", "exit_group",
    "fork", "futex", "futex_requeue", "futex_wait", "futex_waitv", "futex_wake",
    "get_robust_list", "getcpu", "getitimer", "getpgid", "getpgrp", "getpid",
    "getppid", "getpriority", "getrlimit", "getrusage", "getsid", "gettid",
    "ioprio_get", "ioprio_set", "kill", "pause", "pidfd_open",
    "pidfd_send_signal", "prctl", "prlimit64", "restart_syscall",
    "riscv_flush_icache", "riscv_hwprobe", "rseq", "rt_sigaction",
    "rt_sigpending", "rt_sigprocmask", "rt_sigqueueinfo", "rt_sigreturn",
    "rt_sigsuspend", "rt_sigtimedwait", "rt_tgsigqueueinfo",
    "sched_get_priority_max", "sched_get_priority_min", "sched_getaffinity",
    "sched_getattr", "sched_getparam", "sched_getscheduler",
    "sched_rr_get_interval", "sched_setaffinity", "sched_setattr",
    "sched_setparam", "sched_setscheduler", "sched_yield", "set_robust_list",
    "set_tid_address", "setitimer", "setpgid", "setpriority", "setrlimit",
    "setsid", "sigaltstack", "tgkill", "timer_create", "timer_delete",
    "timer_getoverrun", "timer_gettime", "timer_settime", "tkill", "uretprobe",
    "vfork", "wait4", "waitid",
    /* who one is, and giving that up */
    "capget", "capset", "getegid", "geteuid", "getgid", "getgroups",
    "getresgid", "getresuid", "getuid", "landlock_add_rule",
    "landlock_create_ruleset", "landlock_restrict_self", "seccomp", "setfsgid",
    "setfsuid", "setgid", "setgroups", "setregid", "setresgid", "setresuid",
    "setreuid", "setuid",
    /* IPC with a bound */
    "mq_getsetattr", "mq_notify", "mq_open", "mq_timedreceive", "mq_timedsend",
    "mq_unlink", "semctl", "semget", "semop", "semtimedop", "shmat", "shmctl",
    "shmdt", "shmget",
    /* time and the system */
    "clock_getres", "clock_gettime", "clock_nanosleep", "getrandom",
    "gettimeofday", "nanosleep", "sysinfo", "time", "times", "uname"};

/* What the kernel refuses to an ordinary user, or to one without the right to
 * the other process; a program that hears ENOSYS here would draw wrong
 * conclusions. */
static const char *const refused[] = {
    /* other processes */
    "kcmp", "perf_event_open", "pidfd_getfd", "process_vm_readv",
    "process_vm_writev", "ptrace",
    /* namespaces and mounts */
    "chroot", "fsconfig", "fsmount", "fsopen", "fspick", "mount",
    "mount_setattr", "move_mount", "open_tree", "open_tree_attr", "pivot_root",
    "setns", "umount", "umount2", "unshare",
    /* doors into the kernel with a history */
    "add_key", "bpf", "fanotify_init", "fanotify_mark", "io_uring_enter",
    "io_uring_register", "io_uring_setup", "keyctl", "name_to_handle_at",
    "open_by_handle_at", "request_key", "userfaultfd",
    /* the machine */
    "acct", "adjtimex", "clock_adjtime", "clock_settime", "create_module",
    "delete_module", "finit_module", "init_module", "ioperm", "iopl",
    "kexec_file_load", "kexec_load", "lookup_dcookie", "quotactl",
    "quotactl_fd", "reboot", "setdomainname", "sethostname", "settimeofday",
    "stime", "swapoff", "swapon", "syslog", "vhangup"};

/* ---- a program in the making -------------------------------------------- */

typedef struct maker {
  scmp_filter_ctx ctx;
  const char *weaken; /* never NULL */
  uint32_t otherwise; /* the action if no rule fits */
  int rc;             /* the first error; nothing is done after it */
} maker;

/* Whether a protection is to be left out. */
static bool is_weakened(const maker *m, const char *name) {
  size_t len = strlen(name);
  for (const char *p = m->weaken; *p; p += strcspn(p, ","), p += *p == ',')
    if (strcspn(p, ",") == len && memcmp(p, name, len) == 0)
      return true;
  return false;
}

static bool is_in(const char *const *list, size_t n, const char *name) {
  for (size_t i = 0; i < n; i++)
    if (strcmp(list[i], name) == 0)
      return true;
  return false;
}

static void add(maker *m, uint32_t action, const char *call, unsigned n_args,
                const struct scmp_arg_cmp *args) {
  /* Below 0: unknown, or of another architecture. */
  int number = seccomp_syscall_resolve_name(call);
  if (m->rc == 0 && number >= 0 && action != m->otherwise)
    m->rc = seccomp_rule_add_array(m->ctx, action, number, n_args, args);
}

static void begin(maker *m, uint32_t otherwise) {
  m->otherwise = otherwise;
  m->ctx = seccomp_init(otherwise);
  if (!m->ctx) {
    m->rc = -ENOMEM;
    return;
  }
  /* The numbers of x32 count as a foreign architecture. */
  m->rc = seccomp_attr_set(m->ctx, SCMP_FLTATR_ACT_BADARCH,
                           is_weakened(m, "arch") ? SCMP_ACT_ALLOW
                                                  : SCMP_ACT_KILL_PROCESS);
  /* A tree instead of a chain: calls that are looked at each time pay for few
   * comparisons, and so does the kernel, which runs the program once for each
   * number when it is loaded. */
  if (m->rc == 0)
    m->rc = seccomp_attr_set(m->ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2);
}

/* Writes the program to a memfd of its own; takes the context. */
static int finish(maker *m) {
  const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL;
  int fd = -1;
  if (m->rc == 0) {
    fd = memfd_create(*m->weaken ? "portico-seccomp-weak" : "portico-seccomp",
                      MFD_CLOEXEC | MFD_ALLOW_SEALING);
    m->rc = fd < 0 ? -errno : seccomp_export_bpf(m->ctx, fd);
  }
  if (m->rc == 0 && fcntl(fd, F_ADD_SEALS, seals) < 0)
    m->rc = -errno;
  seccomp_release(m->ctx);
  if (m->rc < 0 && fd >= 0)
    close(fd);
  return m->rc < 0 ? m->rc : fd;
}

/* ---- arguments ---------------------------------------------------------- */

typedef struct scmp_arg_cmp condition;

static condition low_is(unsigned arg, uint64_t value) {
  return (condition){arg, SCMP_CMP_MASKED_EQ, UINT32_MAX, value};
}

static condition bits_are(unsigned arg, uint64_t bits, uint64_t value) {
  return (condition){arg, SCMP_CMP_MASKED_EQ, bits, value};
}

static condition is(unsigned arg, uint64_t value) {
  return (condition){arg, SCMP_CMP_EQ, value, 0};
}

static condition is_not(unsigned arg, uint64_t value) {
  return (condition){arg, SCMP_CMP_NE, value, 0};
}

static condition is_above(unsigned arg, uint64_t value) {
  return (condition){arg, SCMP_CMP_GT, value, 0};
}

static void refuse(maker *m, const char *call, int error, condition c) {
  add(m, SCMP_ACT_ERRNO((uint16_t)error), call, 1, &c);
}

static void refuse_both(maker *m, const char *call, int error, condition a,
                        condition b) {
  add(m, SCMP_ACT_ERRNO((uint16_t)error), call, 2, (condition[]){a, b});
}

/* ---- the first program -------------------------------------------------- */

/* Exceptions to what is refused; they cannot be written the other way round.
 * 0xffffffff asks which one it is; 0x40000 (ADDR_NO_RANDOMIZE) is what
 * sanitizers of threads want. */
static void allow_personalities(maker *m) {
  static const uint32_t harmless[] = {0,       0x8,     0x20000,
                                      0x20008, 0x40000, 0xffffffff};
  for (size_t i = 0; i < COUNT(harmless); i++) {
    condition c = low_is(0, harmless[i]);
    add(m, SCMP_ACT_ALLOW, "personality", 1, &c);
  }
}

/* What `weaken` names and no list allows. */
static void allow_weakened(maker *m) {
  char *names = strdup(m->weaken);
  if (!names)
    m->rc = -ENOMEM;
  char *rest = names;
  for (char *name; (name = strsep(&rest, ",")) != NULL;)
    if (!is_in(allowed, COUNT(allowed), name))
      add(m, SCMP_ACT_ALLOW, name, 0, NULL);
  free(names);
}

static int by_number(const char *weaken) {
  maker m = {.weaken = weaken ? weaken : ""};
  begin(&m,
        is_weakened(&m, "default") ? SCMP_ACT_ALLOW : SCMP_ACT_ERRNO(ENOSYS));
  for (size_t i = 0; i < COUNT(refused); i++)
    if (!is_weakened(&m, refused[i]))
      add(&m, SCMP_ACT_ERRNO(EPERM), refused[i], 0, NULL);
  for (size_t i = 0; i < COUNT(allowed); i++)
    add(&m, SCMP_ACT_ALLOW, allowed[i], 0, NULL);
  if (!is_weakened(&m, "personality"))
    allow_personalities(&m);
  allow_weakened(&m);
  return finish(&m);
}

/* ---- the second program ------------------------------------------------- */

/* Typing for whoever shares the terminal, and modules of line disciplines. */
static void refuse_terminal(maker *m) {
  refuse(m, "ioctl", EPERM, low_is(1, 0x5412)); /* TIOCSTI */
  refuse(m, "ioctl", EPERM, low_is(1, 0x541c)); /* TIOCLINUX */
  refuse(m, "ioctl", EPERM, low_is(1, 0x5423)); /* TIOCSETD */
}

/* Everything that would slow down PID 1: as a process, as a group of which it
 * is the leader, as a process of the same user. */
static void refuse_priorities(maker *m) {
  static const char *const by_pid[] = {"sched_setaffinity", "sched_setattr",
                                       "sched_setparam", "sched_setscheduler"};
  for (size_t i = 0; i < COUNT(by_pid); i++)
    refuse(m, by_pid[i], EPERM, low_is(0, 1));
  for (uint64_t which = 0; which < 2; which++) { /* process, group */
    refuse_both(m, "setpriority", EPERM, low_is(0, which), low_is(1, 1));
    refuse_both(m, "ioprio_set", EPERM, low_is(0, which + 1), low_is(1, 1));
  }
  refuse(m, "setpriority", EPERM, low_is(0, 2)); /* user */
  refuse(m, "ioprio_set", EPERM, low_is(0, 3));
}

static void refuse_namespaces(maker *m) {
  static const uint32_t flags[] = {CLONE_NEWCGROUP, CLONE_NEWIPC, CLONE_NEWNET,
                                   CLONE_NEWNS,     CLONE_NEWPID, CLONE_NEWUSER,
                                   CLONE_NEWUTS};
  for (size_t i = 0; i < COUNT(flags); i++)
    refuse(m, "clone", EPERM, bits_are(0, flags[i], flags[i]));
}

static void refuse_families(maker *m, const char *call) {
  for (uint64_t family = 0; family < AF_NETLINK; family++)
    if (family != AF_UNIX && family != AF_INET && family != AF_INET6)
      refuse(m, call, EAFNOSUPPORT, is(0, family));
  refuse(m, call, EAFNOSUPPORT, is_above(0, AF_NETLINK));
  /* Only NETLINK_ROUTE, which is 0. */
  refuse_both(m, call, EAFNOSUPPORT, is(0, AF_NETLINK), is_not(2, 0));
}

/* SOCK_PACKET is the family PACKET in disguise.  The other types and the
 * protocols above ICMPv6 (SCTP, UDP-Lite, MPTCP, SMC) would load modules. */
static void refuse_protocols(maker *m, uint64_t family) {
  const uint64_t types = 0xf;
  refuse_both(m, "socket", EAFNOSUPPORT, is(0, family),
              bits_are(1, types, SOCK_PACKET));
  refuse_both(m, "socket", ESOCKTNOSUPPORT, is(0, family),
              bits_are(1, types, SOCK_SEQPACKET));
  refuse_both(m, "socket", ESOCKTNOSUPPORT, is(0, family),
              bits_are(1, types, SOCK_DCCP));
  refuse_both(m, "socket", EPROTONOSUPPORT, is(0, family), is(2, IPPROTO_DCCP));
  refuse_both(m, "socket", EPROTONOSUPPORT, is(0, family),
              is_above(2, IPPROTO_ICMPV6));
}

/* Who holds a lease makes everybody wait who opens the file, programs of the
 * host too, and for that it need only be readable.  A delegation is the same
 * under another number, above the last that is known (F_SET_FILE_RW_HINT). */
static void refuse_leases(maker *m) {
  const uint64_t last_known = 1038;
  refuse(m, "fcntl", EINVAL, low_is(1, F_SETLEASE));
  refuse(m, "fcntl", EINVAL, low_is(1, F_NOTIFY));
  refuse(m, "fcntl", EINVAL, is_above(1, last_known));
}

/* Set-id bits in the argument `mode`. */
static void refuse_mode(maker *m, const char *call, unsigned mode) {
  refuse(m, call, EPERM, bits_are(mode, S_ISUID, S_ISUID));
  refuse(m, call, EPERM, bits_are(mode, S_ISGID, S_ISGID));
}

/* The same where the mode counts only if a file is to be made: else anything
 * may stand there. */
static void refuse_open_mode(maker *m, const char *call, unsigned flags) {
  static const uint64_t making[] = {O_CREAT, O_TMPFILE & ~O_DIRECTORY};
  static const uint64_t bits[] = {S_ISUID, S_ISGID};
  for (size_t i = 0; i < COUNT(making); i++)
    for (size_t j = 0; j < COUNT(bits); j++)
      refuse_both(m, call, EPERM, bits_are(flags, making[i], making[i]),
                  bits_are(flags + 1, bits[j], bits[j]));
}

static void refuse_set_ids(maker *m) {
  refuse_mode(m, "chmod", 1);
  refuse_mode(m, "fchmod", 1);
  refuse_mode(m, "fchmodat", 2);
  refuse_mode(m, "fchmodat2", 2);
  refuse_mode(m, "creat", 1);
  refuse_mode(m, "mknod", 1);
  refuse_mode(m, "mknodat", 2);
  refuse_open_mode(m, "open", 1);
  refuse_open_mode(m, "openat", 2);
}

static int by_argument(const char *weaken) {
  maker m = {.weaken = weaken ? weaken : ""};
  begin(&m, SCMP_ACT_ALLOW);
  if (!is_weakened(&m, "ioctl"))
    refuse_terminal(&m);
  if (!is_weakened(&m, "priority"))
    refuse_priorities(&m);
  if (!is_weakened(&m, "clone"))
    refuse_namespaces(&m);
  if (!is_weakened(&m, "prlimit64"))
    refuse(&m, "prlimit64", EPERM, is_not(0, 0));
  if (!is_weakened(&m, "fcntl"))
    refuse_leases(&m);
  if (!is_weakened(&m, "setid"))
    refuse_set_ids(&m);
  if (!is_weakened(&m, "sysvipc")) {
    refuse(&m, "shmget", ENOSPC, is_above(1, 16384));
    refuse(&m, "semget", ENOSPC, is_above(1, 16));
  }
  if (!is_weakened(&m, "socket")) {
    refuse_families(&m, "socket");
    refuse_families(&m, "socketpair");
    refuse_protocols(&m, AF_INET);
    refuse_protocols(&m, AF_INET6);
  }
  return finish(&m);
}

/* ---- one of each kind --------------------------------------------------- */

/* Kept until the process ends: sandboxes are made from them at any time, and
 * of weakened ones there are as many as a test names. */
typedef struct programs {
  struct programs *next;
  char *weaken; /* owned; NULL: nothing is */
  int fds[BWRAP_N_FILTERS];
} programs;

static pco_lock lock = PCO_LOCK_INIT;
static programs *made; /* under the lock */

static bool same(const char *a, const char *b) {
  return a && b ? strcmp(a, b) == 0 : a == b;
}

static programs *find(const char *weaken) {
  programs *p = made;
  while (p && !same(p->weaken, weaken))
    p = p->next;
  return p;
}

static int make(const char *weaken, programs **out) {
  programs *p = (programs *)calloc(1, sizeof *p);
  if (!p)
    return -ENOMEM;
  int rc = weaken && !(p->weaken = strdup(weaken)) ? -ENOMEM : 0;
  p->fds[0] = rc < 0 ? rc : by_number(weaken);
  p->fds[1] = p->fds[0] < 0 ? p->fds[0] : by_argument(weaken);
  rc = p->fds[1];
  if (rc >= 0) {
    p->next = made;
    *out = made = p;
    return 0;
  }
  if (p->fds[0] >= 0)
    close(p->fds[0]);
  free(p->weaken);
  free(p);
  return rc;
}

int bwrap_filters(const char *weaken, int out[BWRAP_N_FILTERS],
                  pco_error *err) {
#ifndef PCO_BWRAP_WEAK
  if (weaken)
    return pco_error_set(err, UV_EINVAL, PCO_SOURCE_PLUGIN,
                         "only a build for tests can be weakened");
#endif
  pco_lock_take(&lock);
  programs *p = find(weaken);
  int rc = p ? 0 : make(weaken, &p);
  if (rc == 0)
    memcpy(out, p->fds, sizeof p->fds);
  pco_lock_give(&lock);
  if (rc < 0)
    pco_error_set(err, rc, PCO_SOURCE_PLUGIN,
                  "making the filter of system calls: %s", uv_strerror(rc));
  return rc;
}
