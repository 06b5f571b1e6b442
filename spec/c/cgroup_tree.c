/* SPDX-License-Identifier: MIT */
/*
 * See cgroup_tree.h.
 */
#include "cgroup_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

char tree_root[PATH_MAX / 4];
bool tree_is_v2;
int tree_fails;
pco_cgroup cgroup;
uint32_t cgroup_applied;
char cgroup_why[512];

/* ---- files --------------------------------------------------------------- */

const char *tree_at(const char *fmt, ...) {
  static char path[8][PATH_MAX];
  static int turn;
  char *out = path[turn++ % 8];
  int n = snprintf(out, PATH_MAX, "%s/", tree_root);
  va_list args;
  va_start(args, fmt);
  vsnprintf(out + n, (size_t)(PATH_MAX - n), fmt, args);
  va_end(args);
  return out;
}

void tree_put(const char *path, const char *text) {
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
    perror(path);
  close(fd);
}

const char *tree_get(const char *path) {
  static char text[4][256];
  static int turn;
  char *out = text[turn++ % 4];
  int rc = pco_cgroup_read(AT_FDCWD, path, out, sizeof text[0]);
  if (rc != 0)
    snprintf(out, sizeof text[0], "%s", strerror(-rc));
  return out;
}

static void tree_fill(int dir, const char *const *names) {
  for (; *names; names++) {
    int fd = openat(dir, *names, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (fd >= 0)
      close(fd);
  }
}

/* What the kernel puts into a new cgroup: everything, whatever the tree. */
static const char *const FILES[] = {"cgroup.procs",
                                    "memory.limit_in_bytes",
                                    "memory.memsw.limit_in_bytes",
                                    "memory.oom_control",
                                    "pids.max",
                                    "pids.events",
                                    "cpu.cfs_period_us",
                                    "cpu.cfs_quota_us",
                                    NULL};
static const char *const FILES_V2[] = {"cgroup.procs",
                                       "cgroup.controllers",
                                       "cgroup.subtree_control",
                                       "cgroup.kill",
                                       "memory.max",
                                       "memory.swap.max",
                                       "memory.events",
                                       "pids.max",
                                       "pids.events",
                                       "pids.events.local",
                                       "cpu.max",
                                       NULL};

int tree_make(int dir, const char *name) {
  if (tree_fails) {
    int rc = -tree_fails;
    tree_fails = 0;
    return rc;
  }
  if (mkdirat(dir, name, 0755) != 0)
    return -errno;
  int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  tree_fill(fd, tree_is_v2 ? FILES_V2 : FILES);
  close(fd);
  return 0;
}

/* Busy as long as it lists processes, or has children. */
static int tree_remove(int dir, const char *name) {
  int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0)
    return -errno;
  char text[64] = "";
  struct stat st;
  pco_cgroup_read(fd, "cgroup.procs", text, sizeof text);
  bool busy = *text || fstat(fd, &st) != 0 || st.st_nlink > 2;
  const char *const *names = tree_is_v2 ? FILES_V2 : FILES;
  for (; !busy && *names; names++)
    unlinkat(fd, *names, 0);
  close(fd);
  if (busy)
    return -EBUSY;
  return unlinkat(dir, name, AT_REMOVEDIR) == 0 ? 0 : -errno;
}

static int remove_one(const char *path, const struct stat *st, int type,
                      struct FTW *ftw) {
  (void)st;
  (void)type;
  (void)ftw;
  return remove(path);
}

void tree_clear(void) {
  nftw(tree_root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
  mkdir(tree_root, 0755);
}

/* A cgroup that is there from the start. */
void tree_dir(const char *path) {
  char *copy = strdup(path);
  for (char *p = copy + strlen(tree_root) + 1; *p; p++) {
    if (*p != '/')
      continue;
    *p = 0;
    mkdir(copy, 0755);
    *p = '/';
  }
  mkdir(copy, 0755);
  free(copy);
}

bool tree_open(void) {
  /* There it is fast. */
  snprintf(tree_root, sizeof tree_root, "/dev/shm/portico-cgroup-XXXXXX");
  if (mkdtemp(tree_root))
    return true;
  snprintf(tree_root, sizeof tree_root, "/tmp/portico-cgroup-XXXXXX");
  return mkdtemp(tree_root) != NULL;
}

void tree_close(void) {
  nftw(tree_root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* ---- systems ------------------------------------------------------------- */

/* self and mounts are files with these lines; every "@" is the root. */
static void put_lines(const char *path, const char *text) {
  FILE *f = fopen(path, "we");
  for (; f && *text; text++) {
    if (*text == '@')
      fputs(tree_root, f);
    else
      fputc(*text, f);
  }
  if (f)
    fclose(f);
}

void tree_set_up(const char *self, const char *mounts, bool ordinary) {
  static char self_path[PATH_MAX], mounts_path[PATH_MAX];
  snprintf(self_path, sizeof self_path, "%s", tree_at("self"));
  snprintf(mounts_path, sizeof mounts_path, "%s", tree_at("mounts"));
  put_lines(self_path, self);
  put_lines(mounts_path, mounts);
  memset(&cgroup, 0, sizeof cgroup);
  cgroup.system = (pco_cgroup_system){.self = self_path,
                                      .mounts = mounts_path,
                                      .ordinary = ordinary,
                                      .make = tree_make,
                                      .remove = tree_remove};
}

int cgroup_start(const char *base, const char *name, pco_cgroup_limits want) {
  return pco_cgroup_init(&cgroup, base, name, &want, &cgroup_applied,
                         cgroup_why, sizeof cgroup_why);
}

const pco_cgroup_limits cgroup_all = {
    .memory = 64 << 20, .pids = 100, .cpus = 500};

/* As on the machine that this was written on: each controller of v1 has a
 * mount, and one of v2 has none that matters. */
static const char SELF_V1[] = "9:name=systemd:/\n"
                              "8:pids:/\n"
                              "5:devices:/\n"
                              "4:memory:/a:b/c d\n"
                              "3:cpuset:/\n"
                              "1:cpu,cpuacct:/q\n"
                              "0::/\n";
static const char MOUNTS_V1[] =
    "23 1 0:1 / / rw - ext4 /dev/vda rw\n"
    "31 23 0:28 / @ rw,relatime - tmpfs tmpfs rw,mode=755\n"
    "32 31 0:29 / @/cpu rw,relatime - cgroup cgroup rw,cpuacct,cpu\n"
    "34 31 0:31 / @/cpuset rw,relatime shared:3 - cgroup cgroup rw,cpuset\n"
    "35 31 0:32 /a:b @/mem\\040ory rw - cgroup cgroup rw,memory\n"
    "39 31 0:36 / @/pids rw,relatime - cgroup cgroup rw,pids\n"
    "41 31 0:38 / @/unified rw,relatime - cgroup2 cgroup2 rw\n"
    "broken\n\n36 31 0:3 / - \n";

void tree_v1(bool ordinary) {
  tree_clear();
  tree_is_v2 = false;
  tree_set_up(SELF_V1, MOUNTS_V1, ordinary);
  tree_dir(tree_at("cpu/q"));
  tree_dir(tree_at("mem ory/c d"));
  tree_dir(tree_at("pids"));
  tree_dir(tree_at("unified"));
  tree_put(tree_at("unified/cgroup.controllers"), "hugetlb\n");
}

const char tree_mounts_v2[] =
    "41 31 0:38 / @/fs rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";

void tree_v2(const char *own, bool ordinary) {
  char self[256];
  tree_clear();
  tree_is_v2 = true;
  snprintf(self, sizeof self, "0::%s\n", own);
  tree_set_up(self, tree_mounts_v2, ordinary);
  tree_dir(tree_at("fs"));
  int fd = open(tree_at("fs"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  tree_fill(fd, FILES_V2);
  close(fd);
  tree_put(tree_at("fs/cgroup.controllers"),
           "cpuset cpu io memory hugetlb pids\n");
}

/* A cgroup whose parent hands all on, and that does so too. */
void tree_dir_v2(const char *path) {
  tree_dir(path);
  char file[PATH_MAX + 32];
  snprintf(file, sizeof file, "%s/cgroup.controllers", path);
  tree_put(file, "cpu memory pids\n");
  snprintf(file, sizeof file, "%s/cgroup.procs", path);
  tree_put(file, "");
  snprintf(file, sizeof file, "%s/cgroup.subtree_control", path);
  tree_put(file, "");
}

/* ---- a keeper's socket --------------------------------------------------- */

int cgroup_ends[2];

bool cgroup_hear(int fd, heard *h) {
  struct iovec v = {&h->a, sizeof h->a};
  char control[CMSG_SPACE(8 * sizeof(int))];
  struct msghdr m = {.msg_iov = &v,
                     .msg_iovlen = 1,
                     .msg_control = control,
                     .msg_controllen = sizeof control};
  memset(h, 0, sizeof *h);
  if (recvmsg(fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) != sizeof h->a)
    return false;
  struct cmsghdr *c = CMSG_FIRSTHDR(&m);
  if (c) {
    h->n = (unsigned)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    memcpy(h->fds, CMSG_DATA(c), h->n * sizeof(int));
  }
  return true;
}

void cgroup_forget(heard *h) {
  while (h->n > 0)
    close(h->fds[--h->n]);
}

int cgroup_ask(pco_cgroup_request q) {
  if (send(cgroup_ends[1], &q, sizeof q, 0) != sizeof q)
    perror("send");
  return pco_cgroup_serve(&cgroup, cgroup_ends[0]);
}

int cgroup_make(uint32_t leaf, uint32_t flags, pco_cgroup_limits l) {
  return cgroup_ask((pco_cgroup_request){.type = PCO_CGROUP_MAKE,
                                         .leaf = leaf,
                                         .serial = 1000 + leaf,
                                         .flags = flags,
                                         .memory = l.memory,
                                         .pids = l.pids,
                                         .cpus = l.cpus});
}

int cgroup_drop(uint32_t leaf) {
  return cgroup_ask(
      (pco_cgroup_request){.type = PCO_CGROUP_REMOVE, .leaf = leaf});
}

void cgroup_open_socket(void) {
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, cgroup_ends) != 0)
    perror("socketpair");
}

void cgroup_close_socket(void) {
  close(cgroup_ends[0]);
  close(cgroup_ends[1]);
}
