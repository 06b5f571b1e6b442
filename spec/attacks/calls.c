/* SPDX-License-Identifier: MIT */
/*
 * The system calls and arguments that a sandbox is refused, one by one:
 *
 *   calls NAME    tries one
 *   calls list    prints "NAME WEAKEN" for each: without the protections WEAKEN
 *                 (a list) it goes through; "-" if the kernel refuses an
 *                 ordinary program of itself, so that nothing can be seen
 *
 * An entry whose WEAKEN begins with unshare gives itself the rights of a new
 * user namespace first, where it may.
 */
#include "attack.h"

#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timex.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct entry {
  const char *name;
  const char *weaken;
  long number;
  int refusal;
  int inside; /* the kernel's own answer; 0: success */
  uint64_t args[6];
} entry;

#define NOBODY   0x7ffffff0u /* a pid and a uid that is not there */
#define KEY      0x706f7274u /* of System V IPC: neither */
#define MINUS    ((uint64_t)-1)
#define HIGH     (UINT64_C(1) << 32)
#define POINT(p) ((uint64_t)(uintptr_t)(p))

static struct timex adjustment; /* none */
static char room[16], other_room[16];
static struct iovec ours = {room, sizeof room};
static struct iovec theirs = {other_room, sizeof other_room};
static int pair[2];

static const char *const nothing = "/nonexistent";

/* ---- all of them -------------------------------------------------------- */

#define CALL(name)         #name, #name, SYS_##name, EPERM
#define IN_NAMESPACE(name) #name, "unshare," #name, SYS_##name, EPERM
#define NO_CONTROL(name)   #name, "-", SYS_##name, EPERM
#define MISSING(name)      #name, #name, SYS_##name, ENOSYS
#define CLONE(name)                                                            \
  "clone-" #name, "clone", SYS_clone, EPERM, EINVAL, {                         \
    CLONE_##name | CLONE_THREAD                                                \
  }

static size_t all_entries(const entry **out) {
  static entry list[128];
  uint64_t self = (uint64_t)getpid();
  const entry all[] = {
      /* other processes */
      {CALL(kcmp), 0, {self, self, 1}},
      {CALL(perf_event_open), EINVAL, {0, 0, 0, MINUS, MINUS}},
      {CALL(pidfd_getfd), EBADF, {MINUS, 0, 0}},
      {CALL(process_vm_readv), 0, {self, POINT(&ours), 1, POINT(&theirs), 1}},
      {CALL(process_vm_writev), 0, {self, POINT(&ours), 1, POINT(&theirs), 1}},
      {CALL(ptrace), ESRCH, {16, NOBODY}},
      {"prlimit64-init", "-", SYS_prlimit64, EPERM, 0, {1, 7, 0, 0}},
      {"prlimit64", "prlimit64", SYS_prlimit64, EPERM, ESRCH, {NOBODY, 7}},

      /* namespaces and mounts */
      {CALL(chroot), ENOENT, {POINT(nothing)}},
      {CALL(fsconfig), EINVAL, {MINUS, 0, 0, 0, 0}},
      {IN_NAMESPACE(fsmount), EBADF, {MINUS, 0, 0}},
      {IN_NAMESPACE(fsopen), 0, {POINT("tmpfs"), 0}},
      {IN_NAMESPACE(fspick), EINVAL, {MINUS, POINT(""), MINUS}},
      {CALL(mount), EFAULT, {0}},
      {CALL(mount_setattr), EINVAL, {MINUS, POINT(""), MINUS, 0, 0}},
      {IN_NAMESPACE(move_mount),
       EINVAL,
       {MINUS, POINT(""), MINUS, POINT(""), MINUS}},
      {CALL(open_tree), 0, {(uint64_t)AT_FDCWD, POINT("/"), 0}},
      {IN_NAMESPACE(pivot_root), ENOENT, {POINT(nothing), POINT(nothing)}},
      {CALL(setns), EBADF, {MINUS, 0}},
      {CALL(umount2), EINVAL, {POINT("/"), MINUS}},
      {CALL(unshare), 0, {0}},
      /* nothing is made: the flags contradict each other */
      {CLONE(NEWCGROUP)},
      {CLONE(NEWIPC)},
      {CLONE(NEWNET)},
      {CLONE(NEWNS)},
      {CLONE(NEWPID)},
      {CLONE(NEWUSER)},
      {CLONE(NEWUTS)},
      {"clone-high",
       "clone",
       SYS_clone,
       EPERM,
       EINVAL,
       {HIGH | CLONE_NEWUSER | CLONE_THREAD}},
      {MISSING(clone3), EINVAL, {0, 0}},

      /* doors into the kernel */
      {CALL(add_key), EFAULT, {0}},
      {CALL(bpf), EFAULT, {0, 0, 16}},
      {CALL(fanotify_init), 0, {0x200, 0}},
      {CALL(fanotify_mark), EINVAL, {MINUS, 0, 0, MINUS, 0}},
      {CALL(io_uring_enter), EBADF, {MINUS, 0, 0, 0, 0}},
      {CALL(io_uring_register), EINVAL, {MINUS, 9999, 0, 0}},
      {CALL(io_uring_setup), EFAULT, {1, 0}},
      {CALL(keyctl), EOPNOTSUPP, {9999}},
      {CALL(name_to_handle_at), EINVAL, {MINUS, POINT(""), 0, 0, MINUS}},
      {CALL(open_by_handle_at), EINVAL, {MINUS, POINT(room), 0}},
      {CALL(request_key), EFAULT, {0}},
      {CALL(userfaultfd), 0, {1}},
      {MISSING(io_setup), EFAULT, {1, 0}},

      /* the machine */
      {NO_CONTROL(acct), 0, {0}},
      {CALL(adjtimex), 0, {POINT(&adjustment)}},
      {CALL(clock_adjtime), 0, {0, POINT(&adjustment)}},
      {CALL(clock_settime), EINVAL, {9999, 0}},
      {NO_CONTROL(delete_module), 0, {POINT(nothing), 0}},
      {NO_CONTROL(finit_module), 0, {MINUS, 0, 0}},
      {NO_CONTROL(init_module), 0, {0, 0, 0}},
      {NO_CONTROL(kexec_file_load), 0, {MINUS, MINUS, 0, 0, MINUS}},
      {NO_CONTROL(kexec_load), 0, {0, 0, 0, MINUS}},
      {NO_CONTROL(lookup_dcookie), 0, {MINUS, 0, 0}},
      {CALL(quotactl), EINVAL, {MINUS, 0, 0, 0}},
      {CALL(quotactl_fd), EBADF, {MINUS, 0, 0, 0}},
      {IN_NAMESPACE(reboot), EINVAL, {0, 0, 0, 0}},
      {IN_NAMESPACE(setdomainname), 0, {POINT("x"), 1}},
      {IN_NAMESPACE(sethostname), 0, {POINT("x"), 1}},
      {CALL(settimeofday), EFAULT, {1, 0}},
      {NO_CONTROL(swapoff), 0, {POINT(nothing)}},
      {CALL(swapon), EINVAL, {POINT(nothing), MINUS}},
      {NO_CONTROL(syslog), 0, {10, 0, 0}},
      {NO_CONTROL(vhangup), 0, {0}},
#ifdef __x86_64__
      {CALL(ioperm), EINVAL, {MINUS, MINUS, 1}},
      {CALL(iopl), EINVAL, {9}},
      {NO_CONTROL(create_module), 0, {0, 0}},
#endif

      /* sockets */
      {"vsock", "socket", SYS_socket, EAFNOSUPPORT, 0, {AF_VSOCK, 1, 0}},
      {"packet", "socket", SYS_socket, EAFNOSUPPORT, EPERM, {AF_PACKET, 2, 0}},
      {"packet-disguised",
       "socket",
       SYS_socket,
       EAFNOSUPPORT,
       EPERM,
       {AF_INET, SOCK_PACKET, 0}},
      {"alg", "-", SYS_socket, EAFNOSUPPORT, 0, {AF_ALG, SOCK_SEQPACKET, 0}},
      {"netfilter", "socket", SYS_socket, EAFNOSUPPORT, 0, {AF_NETLINK, 3, 12}},
      {"uevents", "socket", SYS_socket, EAFNOSUPPORT, 0, {AF_NETLINK, 3, 15}},
      {"family-0", "-", SYS_socket, EAFNOSUPPORT, 0, {0, 1, 0}},
      {"family-1000", "-", SYS_socket, EAFNOSUPPORT, 0, {1000, 1, 0}},
      {"family-high", "socket", SYS_socket, EAFNOSUPPORT, 0, {HIGH | 1, 1, 0}},
      {"protocol-255",
       "socket",
       SYS_socket,
       EPROTONOSUPPORT,
       EPERM,
       {AF_INET6, SOCK_RAW, 255}},
      {"sctp", "-", SYS_socket, EPROTONOSUPPORT, 0, {AF_INET, 1, 132}},
      {"seqpacket", "-", SYS_socket, ESOCKTNOSUPPORT, 0, {AF_INET, 5, 0}},
      {"socketpair-high",
       "socket",
       SYS_socketpair,
       EAFNOSUPPORT,
       0,
       {HIGH | 1, 1, 0, POINT(pair)}},

      /* terminals */
      {"tiocsti", "ioctl", SYS_ioctl, EPERM, EBADF, {MINUS, 0x5412}},
      {"tiocsti-high",
       "ioctl",
       SYS_ioctl,
       EPERM,
       EBADF,
       {MINUS, HIGH | 0x5412}},
      {"tioclinux", "ioctl", SYS_ioctl, EPERM, EBADF, {MINUS, 0x541c}},
      {"tioclinux-high",
       "ioctl",
       SYS_ioctl,
       EPERM,
       EBADF,
       {MINUS, HIGH | 0x541c}},
      {"tiocsetd", "ioctl", SYS_ioctl, EPERM, EBADF, {MINUS, 0x5423}},

      /* how fast PID 1 is */
      {"setpriority-user",
       "priority",
       SYS_setpriority,
       EPERM,
       ESRCH,
       {2, NOBODY, 19}},
      {"ioprio_set-user",
       "priority",
       SYS_ioprio_set,
       EPERM,
       ESRCH,
       {3, NOBODY, 0x4007}},
      {"sched_setaffinity",
       "priority",
       SYS_sched_setaffinity,
       EPERM,
       EFAULT,
       {1, 8, 0}},
      {"sched_setattr", "priority", SYS_sched_setattr, EPERM, EINVAL, {1}},
      {"sched_setparam", "priority", SYS_sched_setparam, EPERM, EINVAL, {1}},
      {"sched_setparam-high",
       "priority",
       SYS_sched_setparam,
       EPERM,
       EINVAL,
       {HIGH | 1}},
      {"sched_setscheduler",
       "priority",
       SYS_sched_setscheduler,
       EPERM,
       EINVAL,
       {1, 0, 0}},

      /* files */
      {"lease", "fcntl", SYS_fcntl, EINVAL, EBADF, {MINUS, F_SETLEASE}},
      {"lease-high",
       "fcntl",
       SYS_fcntl,
       EINVAL,
       EBADF,
       {MINUS, HIGH | F_SETLEASE}},
      {"delegation", "fcntl", SYS_fcntl, EINVAL, EBADF, {MINUS, 1040}},
      {"notify", "fcntl", SYS_fcntl, EINVAL, EBADF, {MINUS, F_NOTIFY}},
      {MISSING(openat2), EINVAL, {MINUS, POINT(nothing), 0, 0}},

      /* the rest */
      {"personality",
       "personality",
       SYS_personality,
       ENOSYS,
       0,
       {0x400000 /* READ_IMPLIES_EXEC */}},
      {"shmget", "sysvipc", SYS_shmget, ENOSPC, ENOENT, {KEY, 16385, 0}},
      {"semget", "sysvipc", SYS_semget, ENOSPC, ENOENT, {KEY, 17, 0}},
      {MISSING(msgget), ENOENT, {KEY, 0}},
  };
  _Static_assert(COUNT(all) <= COUNT(list), "too many");
  memcpy(list, all, sizeof all);
  *out = list;
  return COUNT(all);
}

/* ---- one ---------------------------------------------------------------- */

/* Takes all rights that a new user namespace gives, if it may, and goes on in a
 * child, since only that is in the new PID namespace.  Returns in the child. */
static void enter_namespaces(void) {
  unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWPID);
  pid_t pid = fork();
  if (pid < 0)
    give_up("fork");
  if (pid == 0)
    return;
  int status = 0;
  waitpid(pid, &status, 0);
  exit(WIFEXITED(status) ? WEXITSTATUS(status) : ATTACK_BROKEN);
}

static int try(const entry *e) {
  if (strncmp(e->weaken, "unshare,", 8) == 0)
    enter_namespaces();
  long rc = syscall(e->number, e->args[0], e->args[1], e->args[2], e->args[3],
                    e->args[4], e->args[5]);
  if (rc < 0 && errno == ENOSYS && e->refusal != ENOSYS) {
    fprintf(stderr, "%s: this kernel does not have it\n", e->name);
    return ATTACK_NOT_HERE;
  }
  judge(e->name, rc, e->refusal, e->inside);
  return attack_state;
}

int main(int argc, char **argv) {
  const entry *all;
  size_t n = all_entries(&all);
  const char *wanted = argc > 1 ? argv[1] : "";
  bool list = strcmp(wanted, "list") == 0;
  for (size_t i = 0; i < n; i++)
    if (list)
      printf("%s %s\n", all[i].name, all[i].weaken);
    else if (strcmp(all[i].name, wanted) == 0)
      return try(&all[i]);
  if (!list)
    fprintf(stderr, "broken: there is no '%s'\n", wanted);
  return list ? 0 : ATTACK_BROKEN;
}
