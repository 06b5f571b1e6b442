/* SPDX-License-Identifier: MIT */
/*
 * See transfer_confine.h.  Landlock's numbers stand here, since the headers of
 * the machine that it is built on may be older than its kernel.
 */
#include "transfer_confine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CREATE_RULESET    444
#define ADD_RULE          445
#define RESTRICT_SELF     446
#define ASK_VERSION       1u
#define RULE_PATH_BENEATH 1
#define WRITE_FILE        (UINT64_C(1) << 1)
#define READ_DIR          (UINT64_C(1) << 3)
#define REMOVE_FILE       (UINT64_C(1) << 5)
#define MAKE_DIR          (UINT64_C(1) << 7)
#define MAKE_REG          (UINT64_C(1) << 8)
#define MAKE_SYM          (UINT64_C(1) << 12)
#define TRUNCATE          (UINT64_C(1) << 14)
#define ALL_FS_1          ((UINT64_C(1) << 13) - 1)
#define ALL_NET           UINT64_C(3) /* bind and connect */
#define ALL_SCOPES        UINT64_C(3) /* abstract sockets, signals */

typedef struct ruleset {
  uint64_t fs, net, scoped;
} ruleset;

/* The kernel's struct is packed. */
typedef struct __attribute__((packed)) path_rule {
  uint64_t allowed;
  int32_t dir;
} path_rule;

/* Everything that this kernel's Landlock can forbid. */
static ruleset all_of(long version) {
  ruleset r = {.fs = ALL_FS_1};
  if (version >= 2)
    r.fs |= UINT64_C(1) << 13; /* moving to another directory */
  if (version >= 3)
    r.fs |= TRUNCATE;
  if (version >= 4)
    r.net = ALL_NET;
  if (version >= 5)
    r.fs |= UINT64_C(1) << 15; /* ioctl of devices */
  if (version >= 6)
    r.scoped = ALL_SCOPES;
  return r;
}

static int restrict_files(int dir) {
  long version = syscall(CREATE_RULESET, NULL, 0, ASK_VERSION);
  if (version < 1)
    return -ENOSYS;
  ruleset all = all_of(version);
  path_rule rule = {.allowed = (WRITE_FILE | READ_DIR | REMOVE_FILE | MAKE_DIR |
                                MAKE_REG | MAKE_SYM | TRUNCATE) &
                               all.fs,
                    .dir = dir};
  size_t size = version >= 6   ? sizeof all
                : version >= 4 ? offsetof(ruleset, scoped)
                               : offsetof(ruleset, net);
  long fd = syscall(CREATE_RULESET, &all, size, 0u);
  if (fd < 0)
    return -errno;
  int rc = syscall(ADD_RULE, fd, RULE_PATH_BENEATH, &rule, 0u) == 0 &&
                   syscall(RESTRICT_SELF, fd, 0u) == 0
               ? 0
               : -errno;
  close((int)fd);
  return rc;
}

/* ---- another root ------------------------------------------------------- */

static int write_text(const char *path, const char *text) {
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0)
    return -errno;
  int rc = write(fd, text, strlen(text)) < 0 ? -errno : 0;
  close(fd);
  return rc;
}

/* A user namespace with this user alone: in it everybody may change his root.
 */
static int enter_namespace(void) {
  char text[48];
  unsigned uid = geteuid(), gid = getegid();
  if (unshare(CLONE_NEWUSER) != 0)
    return -errno;
  snprintf(text, sizeof text, "%u %u 1", uid, uid);
  int rc = write_text("/proc/self/uid_map", text);
  write_text("/proc/self/setgroups", "deny");
  snprintf(text, sizeof text, "%u %u 1", gid, gid);
  int failed = write_text("/proc/self/gid_map", text);
  return rc < 0 ? rc : failed;
}

static int change_root(int dir, bool in_namespace) {
  if (fchdir(dir) != 0)
    return -errno;
  if (chroot(".") == 0)
    return 0;
  if (!in_namespace)
    return -EPERM;
  if (enter_namespace() < 0)
    return -EUSERS;
  return chroot(".") == 0 ? 0 : -EUSERS;
}

static void drop_capabilities(void) {
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct none[2];
  memset(none, 0, sizeof none);
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  syscall(SYS_capset, &header, none);
}

/* ---- the rest ----------------------------------------------------------- */

static void close_range_of(unsigned first, unsigned last) {
  if (first <= last)
    syscall(SYS_close_range, first, last, 0u);
}

static int compare(const int *a, const int *b) {
  return (*a > *b) - (*a < *b);
}

static void close_others(int fds[3]) {
  unsigned from = 0;
  for (int i = 0; i < 2; i++) /* three of them: sorted by hand */
    for (int j = 0; j < 2 - i; j++)
      if (compare(&fds[j], &fds[j + 1]) > 0) {
        int other = fds[j];
        fds[j] = fds[j + 1];
        fds[j + 1] = other;
      }
  for (int i = 0; i < 3; i++) {
    unsigned fd = (unsigned)fds[i];
    if (fd > from)
      close_range_of(from, fd - 1);
    from = fd + 1;
  }
  close_range_of(from, ~0u);
}

int pco_transfer_confine(int dir, int in, int tell, bool in_namespace) {
  const struct rlimit none = {0, 0};
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  prctl(PR_SET_NAME, "portico-unpack");
  setrlimit(RLIMIT_CORE, &none);
  close_others((int[]){dir, in, tell});
  int rooted = change_root(dir, in_namespace);
  if (rooted == -EUSERS)
    return rooted;
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
    return -errno;
  int restricted = restrict_files(dir);
  drop_capabilities();
  setrlimit(RLIMIT_NPROC, &none);
  return rooted < 0 && restricted < 0 ? -EPERM : 0;
}
