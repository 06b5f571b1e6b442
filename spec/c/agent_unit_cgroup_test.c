/* SPDX-License-Identifier: MIT */
/*
 * The keeper's cgroups, linked in: on trees of plain files that look like
 * cgroup v1, v2 and both, and, where this machine lets us, on the real ones.
 * usage: agent_unit_cgroup_test
 */
#include "agent_client.h"

#include "../../runtime/agent/cgroup.h"
#include "../../runtime/agent/cgroup_find.h"
#include "../../runtime/agent/cgroup_sweep.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- a tree of plain files ---------------------------------------------- */

static char root[PATH_MAX / 4]; /* of the tree */

static const char *at(const char *fmt, ...)
    __attribute__((format(printf, 1, 2)));
static const char *at(const char *fmt, ...) {
  static char path[8][PATH_MAX];
  static int turn;
  char *out = path[turn++ % 8];
  int n = snprintf(out, PATH_MAX, "%s/", root);
  va_list args;
  va_start(args, fmt);
  vsnprintf(out + n, (size_t)(PATH_MAX - n), fmt, args);
  va_end(args);
  return out;
}

static void put(const char *path, const char *text) {
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
    perror(path);
  close(fd);
}

static const char *get(const char *path) {
  static char text[4][256];
  static int turn;
  char *out = text[turn++ % 4];
  int rc = pco_cgroup_read(AT_FDCWD, path, out, sizeof text[0]);
  if (rc != 0)
    snprintf(out, sizeof text[0], "%s", strerror(-rc));
  return out;
}

#define HAS(path, want)                                                        \
  do {                                                                         \
    const char *got_ = get(path);                                              \
    OK(strcmp(got_, want) == 0, "%s is '%s' (want '%s')", path, got_, want);   \
  } while (0)

static void fill(int dir, const char *const *names) {
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
static bool v2;       /* what is made now */
static int fail_make; /* errno of the next one */

static int fake_make(int dir, const char *name) {
  if (fail_make) {
    int rc = -fail_make;
    fail_make = 0;
    return rc;
  }
  if (mkdirat(dir, name, 0755) != 0)
    return -errno;
  int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  fill(fd, v2 ? FILES_V2 : FILES);
  close(fd);
  return 0;
}

/* Busy as long as it lists processes, or has children. */
static int fake_remove(int dir, const char *name) {
  int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0)
    return -errno;
  char text[64] = "";
  struct stat st;
  pco_cgroup_read(fd, "cgroup.procs", text, sizeof text);
  bool busy = *text || fstat(fd, &st) != 0 || st.st_nlink > 2;
  const char *const *names = v2 ? FILES_V2 : FILES;
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

static void clear(void) {
  nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
  mkdir(root, 0755);
}

/* A cgroup that is there from the start. */
static void dir(const char *path) {
  char *copy = strdup(path);
  for (char *p = copy + strlen(root) + 1; *p; p++) {
    if (*p != '/')
      continue;
    *p = 0;
    mkdir(copy, 0755);
    *p = '/';
  }
  mkdir(copy, 0755);
  free(copy);
}

/* self and mounts are files with these lines; every "@" is the root. */
static void put_lines(const char *path, const char *text) {
  FILE *f = fopen(path, "we");
  for (; f && *text; text++) {
    if (*text == '@')
      fputs(root, f);
    else
      fputc(*text, f);
  }
  if (f)
    fclose(f);
}

static pco_cgroup g;
static uint32_t applied;
static char why[512];

static void set_up(const char *self, const char *mounts, bool ordinary) {
  static char self_path[PATH_MAX], mounts_path[PATH_MAX];
  snprintf(self_path, sizeof self_path, "%s", at("self"));
  snprintf(mounts_path, sizeof mounts_path, "%s", at("mounts"));
  put_lines(self_path, self);
  put_lines(mounts_path, mounts);
  memset(&g, 0, sizeof g);
  g.system = (pco_cgroup_system){.self = self_path,
                                 .mounts = mounts_path,
                                 .ordinary = ordinary,
                                 .make = fake_make,
                                 .remove = fake_remove};
}

static int start(const char *base, const char *name, pco_cgroup_limits want) {
  return pco_cgroup_init(&g, base, name, &want, &applied, why, sizeof why);
}

static const pco_cgroup_limits ALL = {
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

static void set_up_v1(bool ordinary) {
  clear();
  v2 = false;
  set_up(SELF_V1, MOUNTS_V1, ordinary);
  dir(at("cpu/q"));
  dir(at("mem ory/c d"));
  dir(at("pids"));
  dir(at("unified"));
  put(at("unified/cgroup.controllers"), "hugetlb\n");
}

/* ---- v1 ----------------------------------------------------------------- */

static void test_v1(void) {
  set_up_v1(false);
  IS(start("auto", "x", ALL), 0, "v1: below the own cgroups");
  IS(applied, 7, "all limits");
  HAS(at("mem ory/c d/portico-x/memory.limit_in_bytes"), "67108864");
  HAS(at("mem ory/c d/portico-x/memory.memsw.limit_in_bytes"), "67108864");
  HAS(at("pids/portico-x/pids.max"), "100");
  HAS(at("cpu/q/portico-x/cpu.cfs_period_us"), "100000");
  HAS(at("cpu/q/portico-x/cpu.cfs_quota_us"), "50000");
  IS(pco_cgroup_remove(&g), 0, "and away");
  OK(access(at("pids/portico-x"), F_OK) != 0 &&
         access(at("mem ory/c d/portico-x"), F_OK) != 0,
     "nothing is left");
  IS(pco_cgroup_remove(&g), 0, "twice is no harm");
}

static void test_v1_values(void) {
  set_up_v1(false);
  IS(start("auto", "x", (pco_cgroup_limits){.pids = 5000000, .cpus = 5}), 0,
     "odd values");
  IS(applied, 6, "only what was asked for");
  HAS(at("pids/portico-x/pids.max"), "max");
  HAS(at("cpu/q/portico-x/cpu.cfs_period_us"), "1000000");
  HAS(at("cpu/q/portico-x/cpu.cfs_quota_us"), "5000");
  OK(access(at("mem ory/c d/portico-x"), F_OK) != 0, "and no other tree");
  pco_cgroup_remove(&g);
}

static void test_v1_base(void) {
  set_up_v1(true);
  dir(at("cpu/mine"));
  dir(at("pids/mine"));
  dir(at("mem ory/mine"));
  IS(start(at("pids/mine"), "x", ALL), 0, "a directory that was delegated");
  IS(applied, 6, "is used in every tree that has it");
  HAS(at("pids/mine/portico-x/pids.max"), "100");
  HAS(at("cpu/mine/portico-x/cpu.cfs_quota_us"), "50000");
  OK(strncmp(why, "memory: ", 8) == 0, "and the reason: %s", why);
  pco_cgroup_remove(&g);
  set_up_v1(true);
  dir(at("mem ory/mine"));
  IS(start("/a:b/mine", "x", ALL), 0, "a place as the kernel writes it");
  IS(applied, 1, "only the mount that shows it");
  pco_cgroup_remove(&g);
  set_up_v1(true);
  dir(at("pids/mine"));
  pco_cgroup_limits two = ALL;
  two.other_uid = true;
  IS(start(at("pids/mine"), "x", two), 0, "two uids");
  IS(applied, 0, "cannot be had by an ordinary user");
  OK(strstr(why, "only root") != NULL, "and the reason: %s", why);
  OK(access(at("pids/mine/portico-x"), F_OK) != 0, "nothing was made");
  pco_cgroup_remove(&g);
}

static void test_v1_failures(void) {
  set_up_v1(false);
  dir(at("cpu/q/portico-x"));
  IS(start("auto", "x", ALL), -EEXIST, "a sandbox of that name");
  IS(applied, 0, "nothing applies");
  OK(access(at("pids/portico-x"), F_OK) != 0 &&
         access(at("mem ory/c d/portico-x"), F_OK) != 0 &&
         access(at("cpu/q/portico-x"), F_OK) == 0,
     "what was made is gone, what was there is not");
  set_up_v1(false);
  fail_make = ENOMEM;
  IS(start("auto", "x", ALL), -ENOMEM, "no memory");
  set_up_v1(false);
  fail_make = EROFS;
  IS(start("auto", "x", ALL), 0, "a tree that is read-only");
  IS(applied, 6, "goes without");
  pco_cgroup_remove(&g);
  static const char *const bad[] = {"", "a/b", "a\nb", NULL};
  for (int i = 0; bad[i]; i++) {
    set_up_v1(false);
    IS(start("auto", bad[i], ALL), -EINVAL, "a name that is none");
  }
  set_up_v1(false);
  IS(start("pids", "x", ALL), -EINVAL, "a base that is no path");
  char name[NAME_MAX];
  memset(name, 'n', sizeof name - 1);
  name[sizeof name - 1] = 0;
  IS(start("auto", name, ALL), -EINVAL, "a name that is too long");
  set_up("", "", false);
  IS(start("auto", "x", ALL), 0, "a machine without cgroups");
  OK(applied == 0 && strstr(why, "cpus: no cgroup"), "and why: %s", why);
  set_up_v1(false);
  g.system.self = "/nonexistent";
  IS(start("auto", "x", ALL), 0, "or without /proc");
  IS(applied, 0, "nothing applies there");
  char tiny[4];
  set_up_v1(false);
  dir(at("pids"));
  IS(pco_cgroup_init(&g, "/no", "x", &ALL, &applied, tiny, sizeof tiny), 0,
     "little room for the reason");
  OK(strlen(tiny) < sizeof tiny, "'%s'", tiny);
}

static void test_lazy(void) {
  set_up_v1(false);
  IS(start("auto", "x", (pco_cgroup_limits){0}), 0, "no limits");
  OK(applied == 0 && !g.found, "nothing is even looked for");
  IS(pco_cgroup_remove(&g), 0, "nothing to remove");
}

/* ---- v2 ----------------------------------------------------------------- */

static const char MOUNTS_V2[] =
    "41 31 0:38 / @/fs rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";

static void set_up_v2(const char *own, bool ordinary) {
  char self[256];
  clear();
  v2 = true;
  snprintf(self, sizeof self, "0::%s\n", own);
  set_up(self, MOUNTS_V2, ordinary);
  dir(at("fs"));
  int fd = open(at("fs"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  fill(fd, FILES_V2);
  close(fd);
  put(at("fs/cgroup.controllers"), "cpuset cpu io memory hugetlb pids\n");
}

/* A cgroup whose parent hands all on, and that does so too. */
static void dir_v2(const char *path) {
  dir(path);
  char file[PATH_MAX + 32];
  snprintf(file, sizeof file, "%s/cgroup.controllers", path);
  put(file, "cpu memory pids\n");
  snprintf(file, sizeof file, "%s/cgroup.procs", path);
  put(file, "");
  snprintf(file, sizeof file, "%s/cgroup.subtree_control", path);
  put(file, "");
}

static void test_v2_root(void) {
  set_up_v2("/", false);
  IS(start("auto", "x", ALL), 0, "v2: root in the root");
  IS(applied, 7, "all limits");
  HAS(at("fs/portico-x/memory.max"), "67108864");
  HAS(at("fs/portico-x/memory.swap.max"), "0");
  HAS(at("fs/portico-x/pids.max"), "100");
  HAS(at("fs/portico-x/cpu.max"), "50000 100000");
  /* plain files keep the last one that was written */
  HAS(at("fs/cgroup.subtree_control"), "+cpusry");
  HAS(at("fs/portico-x/cgroup.subtree_control"), "+cpusry");
  IS(pco_cgroup_remove(&g), 0, "and away");
  OK(access(at("fs/portico-x"), F_OK) != 0, "nothing is left");
  set_up_v2("/user.slice/a.scope", false);
  IS(start("auto", "x", ALL), 0, "root elsewhere");
  OK(applied == 0 && why[0], "a kernel that gives no controllers: %s", why);
  put(at("fs/portico/cgroup.controllers"), "cpu memory pids\n");
  set_up("0::/user.slice/a.scope\n", MOUNTS_V2, false);
  IS(start("auto", "x", ALL), 0, "again");
  IS(applied, 7, "all limits");
  HAS(at("fs/portico/portico-x/pids.max"), "100");
  pco_cgroup_remove(&g);
  OK(access(at("fs/portico/portico-x"), F_OK) != 0 &&
         access(at("fs/portico"), F_OK) == 0,
     "the directory of all sandboxes stays");
}

static void test_v2_ordinary(void) {
  set_up_v2("/u/app/me", true);
  dir_v2(at("fs/u"));
  dir_v2(at("fs/u/app"));
  dir_v2(at("fs/u/app/me"));
  put(at("fs/u/cgroup.subtree_control"), "cpu memory pids\n");
  put(at("fs/u/app/cgroup.subtree_control"), "memory pids\n");
  put(at("fs/u/app/cgroup.controllers"), "memory pids\n");
  IS(start("auto", "x", ALL), 0, "an ordinary user");
  IS(applied, 3, "has what the cgroup above hands on");
  HAS(at("fs/u/app/portico-x/pids.max"), "100");
  OK(strncmp(why, "cpus: ", 6) == 0, "and why not all: %s", why);
  pco_cgroup_remove(&g);
  set_up_v2("/u/app/me", true);
  dir_v2(at("fs/mine"));
  unlink(at("fs/cgroup.procs")); /* it is not ours to write */
  IS(start(at("fs/mine"), "x", ALL), 0, "a base that nobody can be moved to");
  OK(applied == 0 && why[0], "is of no use: %s", why);
  OK(access(at("fs/mine/portico-x"), F_OK) != 0, "nothing was made");
  pco_cgroup_remove(&g);
  set_up_v2("/u/app/me", true);
  dir_v2(at("fs/u/mine"));
  put(at("fs/u/cgroup.procs"), "");
  IS(start("/u/mine", "x", ALL), 0, "one below a cgroup that is ours");
  IS(applied, 7, "works");
  pco_cgroup_remove(&g);
}

static void test_hybrid(void) {
  clear();
  v2 = true;
  set_up("3:memory:/m\n0::/\n",
         "35 31 0:32 / @/memory rw - cgroup cgroup rw,memory\n"
         "41 31 0:38 / @/unified rw - cgroup2 cgroup2 rw\n",
         false);
  dir(at("memory/m"));
  dir(at("unified"));
  put(at("unified/cgroup.controllers"), "cpu pids memory\n");
  put(at("unified/cgroup.subtree_control"), "");
  IS(start("auto", "x", (pco_cgroup_limits){.pids = 10, .cpus = 1000}), 0,
     "v1 and v2 on one machine");
  IS(applied, 6, "each controller where it is");
  HAS(at("unified/portico-x/pids.max"), "10");
  pco_cgroup_remove(&g);
}

/* ---- leaves ------------------------------------------------------------- */

typedef struct heard {
  pco_cgroup_answer a;
  int fds[8];
  unsigned n;
} heard;

static bool hear(int fd, heard *h) {
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

static void forget(heard *h) {
  while (h->n > 0)
    close(h->fds[--h->n]);
}

static int ends[2]; /* the keeper's, the agent's */

static int ask(pco_cgroup_request q) {
  if (send(ends[1], &q, sizeof q, 0) != sizeof q)
    perror("send");
  return pco_cgroup_serve(&g, ends[0]);
}

static int make(uint32_t leaf, uint32_t flags, pco_cgroup_limits l) {
  return ask((pco_cgroup_request){.type = PCO_CGROUP_MAKE,
                                  .leaf = leaf,
                                  .serial = 1000 + leaf,
                                  .flags = flags,
                                  .memory = l.memory,
                                  .pids = l.pids,
                                  .cpus = l.cpus});
}

static int drop(uint32_t leaf) {
  return ask((pco_cgroup_request){.type = PCO_CGROUP_REMOVE, .leaf = leaf});
}

static void open_socket(void) {
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    perror("socketpair");
}

static void close_socket(void) {
  close(ends[0]);
  close(ends[1]);
}

static void test_supervisor_leaves(void) {
  heard h;
  set_up_v1(false);
  open_socket();
  start("auto", "x", ALL);
  IS(pco_cgroup_greet(&g, ends[0]), 0, "the greeting");
  OK(hear(ends[1], &h) && h.a.type == PCO_CGROUP_GREETING && h.a.limits == 7,
     "tells the limits");
  IS(make(0, PCO_CGROUP_SUPERVISOR, ALL), 0, "a leaf of a supervisor");
  OK(hear(ends[1], &h) && h.a.type == PCO_CGROUP_MADE && h.a.leaf == 0 &&
         h.a.serial == 1000 && h.a.limits == 7 && h.a.error == 0,
     "is made");
  OK(h.a.n_procs == 3 && h.a.counters == 3 && h.a.shared == 0 && h.n == 5,
     "with its descriptors");
  OK(write(h.fds[0], "0", 1) == 1 &&
         (fcntl(h.fds[3], F_GETFL) & O_ACCMODE) == O_RDONLY,
     "to write and to read");
  put(at("pids/portico-x/0/cgroup.procs"), "");
  put(at("mem ory/c d/portico-x/0/cgroup.procs"), "");
  put(at("cpu/q/portico-x/0/cgroup.procs"), "");
  forget(&h);
  HAS(at("pids/portico-x/pids.max"), "101");
  HAS(at("pids/portico-x/0/pids.max"), "");
  make(7, PCO_CGROUP_SUPERVISOR, ALL);
  OK(hear(ends[1], &h) && h.n == 5, "a second one");
  forget(&h);
  HAS(at("pids/portico-x/pids.max"), "102");
  make(7, PCO_CGROUP_SUPERVISOR, ALL);
  OK(hear(ends[1], &h) && h.n == 0 && h.a.error == EBUSY && h.a.n_procs == 0,
     "a number that is taken");
  IS(drop(0), 0, "one less");
  HAS(at("pids/portico-x/pids.max"), "101");
  OK(access(at("pids/portico-x/0"), F_OK) != 0, "its directory is gone");
  IS(drop(0), 0, "one that is not there");
  HAS(at("pids/portico-x/pids.max"), "101");
  IS(pco_cgroup_remove(&g), 0, "the rest goes with the sandbox");
  OK(access(at("pids/portico-x"), F_OK) != 0, "all of it");
  close_socket();
}

static void test_command_leaves(void) {
  heard h;
  set_up_v1(false);
  open_socket();
  start("auto", "x", (pco_cgroup_limits){.pids = 50});
  make(3, 0, (pco_cgroup_limits){.memory = 4096});
  OK(hear(ends[1], &h) && h.a.limits == 1 && h.a.n_procs == 1 && h.n == 2 &&
         h.a.counters == 1,
     "a command with a limit that the sandbox has not");
  forget(&h);
  HAS(at("mem ory/c d/portico-x/3/memory.limit_in_bytes"), "4096");
  HAS(at("mem ory/c d/portico-x/memory.limit_in_bytes"), "");
  OK(access(at("pids/portico-x/3"), F_OK) != 0, "no other tree has a leaf");
  HAS(at("pids/portico-x/pids.max"), "50");
  make(4, 0, ALL);
  OK(hear(ends[1], &h) && h.a.limits == 7 && h.n == 5, "all limits");
  forget(&h);
  HAS(at("pids/portico-x/4/pids.max"), "100");
  put(at("pids/portico-x/4/cgroup.procs"), "1\n");
  IS(drop(4), 0, "one that somebody is in");
  OK(access(at("pids/portico-x/4"), F_OK) == 0 &&
         access(at("cpu/q/portico-x/4"), F_OK) != 0,
     "stays as far as it must");
  make(4, 0, ALL);
  OK(hear(ends[1], &h) && h.a.error == EBUSY && h.n == 0, "and is not reused");
  IS(pco_cgroup_remove(&g), -EBUSY, "nor removed at the end");
  put(at("pids/portico-x/4/cgroup.procs"), "");
  IS(pco_cgroup_remove(&g), 0, "until it is empty");
  OK(access(at("pids/portico-x"), F_OK) != 0, "then all is gone");
  close_socket();
}

static void test_missing_controllers(void) {
  heard h;
  clear();
  v2 = false;
  set_up("8:pids:/\n", "39 31 0:36 / @/pids rw - cgroup cgroup rw,pids\n",
         false);
  dir(at("pids"));
  open_socket();
  start("auto", "x", (pco_cgroup_limits){0});
  make(0, 0, ALL);
  OK(hear(ends[1], &h) && h.a.limits == 2 && h.a.error == ENODEV && h.n == 2 &&
         h.a.text[0],
     "what can be had is had, the rest is named: %s", h.a.text);
  forget(&h);
  make(1, 0, (pco_cgroup_limits){.cpus = 1});
  OK(hear(ends[1], &h) && h.a.limits == 0 && h.a.n_procs == 0 &&
         h.a.error == ENODEV && h.n == 0,
     "nothing can be had");
  OK(access(at("pids/portico-x/1"), F_OK) != 0, "nothing is made");
  make(1, 0, (pco_cgroup_limits){0});
  OK(hear(ends[1], &h) && h.a.n_procs == 0, "nothing was asked for");
  IS(pco_cgroup_remove(&g), 0, "removed");
  close_socket();
}

static void test_v2_leaves(void) {
  heard h;
  set_up_v2("/", false);
  open_socket();
  start("auto", "x", (pco_cgroup_limits){.memory = 1 << 20, .pids = 100});
  put(at("fs/portico-x/cgroup.controllers"), "cpu memory pids\n");
  make(0, PCO_CGROUP_SUPERVISOR, ALL);
  OK(hear(ends[1], &h) && h.a.limits == 3 && h.a.n_procs == 1 && h.n == 3 &&
         h.a.counters == 3 && h.a.shared == 2,
     "v2: a supervisor; refused forks are counted above");
  forget(&h);
  HAS(at("fs/portico-x/pids.max"), "101");
  make(1, 0, (pco_cgroup_limits){.memory = 4096});
  OK(hear(ends[1], &h) && h.a.limits == 1 && h.a.n_procs == 1 && h.n == 3 &&
         h.a.counters == 3,
     "a command keeps the counters of what it leaves");
  forget(&h);
  HAS(at("fs/portico-x/1/memory.max"), "4096");
  HAS(at("fs/portico-x/1/pids.max"), "");
  IS(pco_cgroup_remove(&g), 0, "removed");
  HAS(at("fs/portico-x"), "No such file or directory");
  close_socket();
}

/* ---- a hostile agent ---------------------------------------------------- */

static void test_hostile(void) {
  heard h;
  set_up_v1(false);
  open_socket();
  start("auto", "x", (pco_cgroup_limits){.pids = 100});
  IS(pco_cgroup_serve(&g, ends[0]), 0, "nothing is there to read");
  IS(ask((pco_cgroup_request){.type = 7}), -EPROTO, "an unknown request");
  IS(ask((pco_cgroup_request){.type = PCO_CGROUP_MAKE,
                              .leaf = PCO_CGROUP_MAX_LEAVES}),
     -EPROTO, "a leaf out of range");
  IS(ask((pco_cgroup_request){.type = PCO_CGROUP_REMOVE, .leaf = ~0u}), -EPROTO,
     "far out");
  IS(ask((pco_cgroup_request){.type = PCO_CGROUP_MAKE, .flags = 2}), -EPROTO,
     "an unknown flag");
  IS(ask((pco_cgroup_request){.type = PCO_CGROUP_MAKE, .memory = ~0ull}),
     -EPROTO, "more memory than there is");
  IS(ask((pco_cgroup_request){.type = PCO_CGROUP_MAKE, .cpus = 1ull << 32}),
     -EPROTO, "more processors");
  char long_one[sizeof(pco_cgroup_request) + 1] = {PCO_CGROUP_MAKE};
  send(ends[1], long_one, sizeof long_one, 0);
  IS(pco_cgroup_serve(&g, ends[0]), -EPROTO, "a request that is too long");
  send(ends[1], long_one, 3, 0);
  IS(pco_cgroup_serve(&g, ends[0]), -EPROTO, "or cut");
  unsigned made = 0;
  for (uint32_t i = 0; i < PCO_CGROUP_MAX_LEAVES; i++) {
    make(i, PCO_CGROUP_SUPERVISOR, ALL);
    made += hear(ends[1], &h) && h.n == 2;
    forget(&h);
  }
  IS(made, 164, "the supervisors that 100 processes may need");
  HAS(at("pids/portico-x/pids.max"), "264");
  made = 0;
  for (uint32_t i = made; i < PCO_CGROUP_MAX_LEAVES; i++) {
    make(i, 0, (pco_cgroup_limits){.pids = 1});
    made += hear(ends[1], &h) && h.n == 2;
    forget(&h);
  }
  IS(made, 164, "and as many leaves of commands");
  for (uint32_t i = 0; i < 150; i++)
    drop(i);
  HAS(at("pids/portico-x/pids.max"), "114"); /* as many digits as before */
  for (uint32_t i = 150; i < PCO_CGROUP_MAX_LEAVES; i++)
    drop(i);
  /* descriptors of its own are dropped */
  int before = dup(0);
  union {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(int))];
  } control = {{0}};
  pco_cgroup_request q = {.type = PCO_CGROUP_REMOVE, .leaf = 1};
  struct iovec v = {&q, sizeof q};
  struct msghdr m = {.msg_iov = &v,
                     .msg_iovlen = 1,
                     .msg_control = control.bytes,
                     .msg_controllen = sizeof control.bytes};
  struct cmsghdr *c = CMSG_FIRSTHDR(&m);
  c->cmsg_level = SOL_SOCKET;
  c->cmsg_type = SCM_RIGHTS;
  c->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(c), &before, sizeof before);
  sendmsg(ends[1], &m, 0);
  IS(pco_cgroup_serve(&g, ends[0]), 0, "descriptors that come along");
  int after = dup(0);
  IS(after, before + 1, "go nowhere");
  close(after);
  close(before);
  /* it does not take its answers */
  int rc = 0;
  for (uint32_t i = 0; rc == 0 && i < 100000; i++)
    rc = make(i % 200, 0, (pco_cgroup_limits){0});
  IS(rc, -EAGAIN, "an agent that reads nothing is left alone");
  close(ends[1]);
  while ((rc = pco_cgroup_serve(&g, ends[0])) == 0 || rc == -EAGAIN)
    ;
  OK(rc == -EPIPE || rc == -ECONNRESET, "the end of the stream");
  close(ends[0]);
  IS(pco_cgroup_remove(&g), 0, "removed");
}

static uint64_t state = 20;

static uint64_t pick(uint64_t n) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (state >> 33) % n;
}

/* Whatever is asked in whatever order: answers are whole, no descriptor stays
 * here, and nothing is left. */
static void test_random(void) {
  heard h;
  set_up_v1(false);
  open_socket();
  start("auto", "x", (pco_cgroup_limits){.pids = 100, .memory = 1 << 20});
  make(0, 0, ALL); /* every tree is open from here on */
  hear(ends[1], &h);
  forget(&h);
  drop(0);
  int before = dup(0), answers = 0, asked = 0;
  bool good = true;
  close(before);
  for (int i = 0; i < 3000 && good; i++) {
    pco_cgroup_request q = {.type = 1 + (uint32_t)pick(2),
                            .leaf = (uint32_t)pick(12),
                            .serial = (uint32_t)i,
                            .flags = (uint32_t)pick(2)};
    q.memory = pick(2) ? 1 + pick(1 << 30) : 0;
    q.pids = pick(2) ? 1 + pick(1000) : 0;
    q.cpus = pick(2) ? 1 + pick(5000) : 0;
    asked += q.type == PCO_CGROUP_MAKE;
    good = ask(q) == 0;
    if (!hear(ends[1], &h))
      continue;
    answers++;
    good = good && h.a.serial == (uint32_t)i && h.a.n_procs <= h.n &&
           (h.a.n_procs > 0) == (h.a.limits != 0) && (h.a.limits & ~7u) == 0;
    forget(&h);
  }
  int after = dup(0);
  close(after);
  OK(good && answers == asked, "random requests: %d answers to %d", answers,
     asked);
  IS(after, before, "no descriptor stays");
  uint32_t supervisors = 0;
  for (uint32_t i = 0; i < PCO_CGROUP_MAX_LEAVES; i++)
    supervisors += g.leaves[i].is_supervisor;
  IS(g.n_supervisors, supervisors, "supervisors are counted");
  IS(pco_cgroup_remove(&g), 0, "removed");
  OK(access(at("pids/portico-x"), F_OK) != 0, "all of it");
  close_socket();
}

/* ---- the real thing ----------------------------------------------------- */

/* Makes a child that enters, and takes memory, or stops until it is killed. */
static pid_t enter(const heard *h, bool greedy) {
  pid_t pid = fork();
  if (pid != 0)
    return pid;
  for (uint32_t i = 0; i < h->a.n_procs; i++)
    if (write(h->fds[i], "0", 1) != 1)
      _exit(3);
  if (!greedy)
    for (;;)
      raise(SIGSTOP);
  for (int i = 0; i < 256; i++) {
    char *p = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
      _exit(4);
    memset(p, 1, 1 << 20);
  }
  _exit(0);
}

static void test_real(void) {
  heard h;
  char name[64];
  snprintf(name, sizeof name, "unit-%d", (int)getpid());
  memset(&g, 0, sizeof g);
  int rc = start("auto", name, ALL);
  if (rc != 0 || applied == 0) {
    tap_skip("real cgroups", why);
    return;
  }
  printf("# applied %u %s\n", (unsigned)applied, why);
  open_socket();
  make(0, PCO_CGROUP_SUPERVISOR, ALL);
  OK(hear(ends[1], &h) && h.a.limits == applied && h.n > 0, "a real leaf");
  pid_t pid = enter(&h, true);
  int status = 0;
  waitpid(pid, &status, 0);
  char text[128] = "";
  if (applied & PCO_KEEPER_LIMIT_MEMORY) {
    OK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "out of memory");
    int counter = h.fds[h.a.n_procs];
    OK(pread(counter, text, sizeof text - 1, 0) > 0 && strstr(text, "oom_kill"),
       "the counter can be read");
    char *at_count = strstr(text, "oom_kill ");
    OK(at_count && atoi(at_count + 9) == 1, "and says one");
  }
  pid = enter(&h, false);
  forget(&h);
  waitpid(pid, NULL, WUNTRACED); /* it is in there */
  drop(0);
  rc = pco_cgroup_remove(&g);
  for (int i = 0; rc == -EBUSY && i < 500; i++) {
    usleep(10000);
    rc = pco_cgroup_remove(&g);
  }
  IS(rc, 0, "removed with somebody inside");
  OK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) &&
         WTERMSIG(status) == SIGKILL,
     "who was killed");
  close_socket();
}

/* The keeper was killed: someone else has only the name. */
static void test_stale(void) {
  heard h;
  char name[64];
  snprintf(name, sizeof name, "stale-%d", (int)getpid());
  memset(&g, 0, sizeof g);
  if (start("auto", name, ALL) != 0 || applied == 0) {
    tap_skip("what a dead keeper left", why);
    return;
  }
  open_socket();
  make(PCO_CGROUP_MAX_LEAVES - 1, PCO_CGROUP_SUPERVISOR, ALL);
  hear(ends[1], &h);
  pid_t pid = enter(&h, false);
  forget(&h);
  waitpid(pid, NULL, WUNTRACED); /* it is in there */
  signal(SIGCHLD, SIG_IGN);      /* it is nobody's zombie */
  IS(pco_cgroup_remove_stale("auto", name), 0, "what a dead keeper left");
  OK(waitpid(pid, NULL, 0) < 0, "is gone");
  signal(SIGCHLD, SIG_DFL);
  memset(&g, 0, sizeof g);
  IS(start("auto", name, ALL), 0, "the name is free again");
  IS(pco_cgroup_remove(&g), 0, "removed");
  close_socket();
}

/* One beside g's, as a killed keeper leaves it; held: as one that lives. */
static int make_other(const char *name, int age_s, bool held) {
  struct timespec times[2] = {{0, UTIME_OMIT}, {time(NULL) - age_s, 0}};
  char leaf[64];
  int base = open(at("pids"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  fake_make(base, name);
  snprintf(leaf, sizeof leaf, "%s/7", name);
  fake_make(base, leaf);
  utimensat(base, name, times, 0);
  int fd = openat(base, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  close(base);
  if (held && flock(fd, LOCK_EX | LOCK_NB) == 0)
    return fd;
  close(fd);
  return -1;
}

static bool is_there(const char *path) {
  return access(path, F_OK) == 0;
}

static void test_sweep(void) {
  set_up_v1(false);
  IS(start("auto", "x", ALL), 0, "one that sweeps");
  int held = make_other("portico-held", 1000, true);
  make_other("portico-dead", 1000, false);
  make_other("portico-young", 0, false);
  make_other("else", 1000, false);
  make_other("portico-busy", 1000, false);
  put(at("pids/portico-busy/7/cgroup.procs"), "1\n");
  pco_cgroup_sweep(&g);
  OK(!is_there(at("pids/portico-dead")), "what nobody holds is removed");
  OK(is_there(at("pids/portico-held/7")), "what a keeper holds is not");
  OK(is_there(at("pids/portico-young/7")), "what is young is not");
  OK(is_there(at("pids/portico-busy/7")), "what has a process is not");
  OK(is_there(at("pids/else/7")), "what is not ours is not");
  OK(is_there(at("pids/portico-x")), "nor its own");
  close(held);
  pco_cgroup_sweep(&g);
  OK(!is_there(at("pids/portico-held")), "and when the keeper is dead, it is");
  int own = open(at("pids/portico-x"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  OK(flock(own, LOCK_EX | LOCK_NB) != 0, "a keeper holds what it makes");
  close(own);
  IS(pco_cgroup_remove(&g), 0, "removed");
}

int main(void) {
  /* There it is fast. */
  snprintf(root, sizeof root, "/dev/shm/portico-cgroup-XXXXXX");
  if (!mkdtemp(root)) {
    snprintf(root, sizeof root, "/tmp/portico-cgroup-XXXXXX");
    if (!mkdtemp(root))
      return 1;
  }
  test_v1();
  test_v1_values();
  test_v1_base();
  test_v1_failures();
  test_lazy();
  test_v2_root();
  test_v2_ordinary();
  test_hybrid();
  test_supervisor_leaves();
  test_command_leaves();
  test_missing_controllers();
  test_v2_leaves();
  test_hostile();
  test_random();
  test_sweep();
  test_real();
  test_stale();
  IS(pco_cgroup_remove_stale("auto", "no-such-sandbox"), 0,
     "one that never was");
  nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
  return tap_done();
}
