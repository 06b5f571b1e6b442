/* SPDX-License-Identifier: MIT */
/*
 * See cgroup.h: the directories of a sandbox, and their end.
 *
 * Everything goes through descriptors of directories that are held, so what is
 * removed at the end is what was made.  A rmdir is only refused as long as a
 * process is inside; those are killed, and the caller comes again.
 */
#include "cgroup.h"

#include "cgroup_find.h"
#include "cgroup_leaf.h"
#include "clock.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PERIOD_US    100000u /* of the processor's limit */
#define LONG_US      1000000u
#define LEAST_US     1000u    /* of a period, for the kernel */
#define MOST_PIDS    4000000u /* more is no limit for the kernel */
#define REMOVE_TIME  (5 * PCO_S)
#define REMOVE_PAUSE (10 * PCO_MS)
#define MOST_KILLED  64 /* of one leaf, a call */

/* ---- the system --------------------------------------------------------- */

static int make_dir(int dir, const char *name) {
  return mkdirat(dir, name, 0755) == 0 ? 0 : -errno;
}

static int remove_dir(int dir, const char *name) {
  return unlinkat(dir, name, AT_REMOVEDIR) == 0 ? 0 : -errno;
}

static void complete_system(pco_cgroup_system *s) {
  if (!s->self)
    s->ordinary = geteuid() != 0;
  s->self = s->self ? s->self : "/proc/self/cgroup";
  s->mounts = s->mounts ? s->mounts : "/proc/self/mountinfo";
  s->make = s->make ? s->make : make_dir;
  s->remove = s->remove ? s->remove : remove_dir;
}

static int open_dir(int at, const char *name) {
  int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  return fd < 0 ? -errno : fd;
}

static int write_text(int dir, const char *name, const char *text) {
  int fd = openat(dir, name, O_WRONLY | O_CLOEXEC);
  if (fd < 0)
    return -errno;
  ssize_t n = write(fd, text, strlen(text));
  int rc = n < 0 ? -errno : 0;
  close(fd);
  return rc;
}

static int write_number(int dir, const char *name, uint64_t value) {
  char text[32];
  snprintf(text, sizeof text, "%llu", (unsigned long long)value);
  return write_text(dir, name, text);
}

/* ---- limits ------------------------------------------------------------- */

/* What cannot be swapped out counts; a machine without swap has no file. */
static int set_memory(const pco_cgroup_tree *t, int dir, uint64_t bytes) {
  int rc =
      write_number(dir, t->v2 ? "memory.max" : "memory.limit_in_bytes", bytes);
  if (rc != 0)
    return rc;
  rc = t->v2 ? write_number(dir, "memory.swap.max", 0)
             : write_number(dir, "memory.memsw.limit_in_bytes", bytes);
  return rc == -ENOENT ? 0 : rc;
}

static int set_pids(int dir, uint64_t n) {
  return n > MOST_PIDS ? write_text(dir, "pids.max", "max")
                       : write_number(dir, "pids.max", n);
}

/* v1 refuses (EINVAL) what is more than a cgroup above allows: then that is the
 * limit. */
static int set_cpus(const pco_cgroup_tree *t, int dir, uint64_t millis) {
  uint64_t period = millis * PERIOD_US / 1000 < LEAST_US ? LONG_US : PERIOD_US;
  uint64_t quota = millis * period / 1000;
  char text[64];
  if (t->v2) {
    snprintf(text, sizeof text, "%llu %llu", (unsigned long long)quota,
             (unsigned long long)period);
    return write_text(dir, "cpu.max", text);
  }
  int rc = write_number(dir, "cpu.cfs_period_us", period);
  if (rc == 0)
    rc = write_number(dir, "cpu.cfs_quota_us", quota);
  return rc == -EINVAL ? 0 : rc;
}

uint32_t pco_cgroup_wanted(const pco_cgroup_limits *l) {
  return (l->memory ? PCO_KEEPER_LIMIT_MEMORY : 0) |
         (l->pids ? PCO_KEEPER_LIMIT_PIDS : 0) |
         (l->cpus ? PCO_KEEPER_LIMIT_CPUS : 0);
}

int pco_cgroup_set(const pco_cgroup_tree *t, int dir,
                   const pco_cgroup_limits *l, uint32_t which) {
  switch (which) {
  case PCO_KEEPER_LIMIT_MEMORY:
    return set_memory(t, dir, l->memory);
  case PCO_KEEPER_LIMIT_PIDS:
    return set_pids(dir, l->pids);
  default:
    return set_cpus(t, dir, l->cpus);
  }
}

void pco_cgroup_count_supervisors(const pco_cgroup *g) {
  if (!(g->applied & PCO_KEEPER_LIMIT_PIDS))
    return;
  for (uint32_t i = 0; i < g->n_trees; i++)
    if (g->trees[i].limits & PCO_KEEPER_LIMIT_PIDS)
      set_pids(g->trees[i].top, g->limits.pids + g->n_supervisors);
}

/* ---- directories -------------------------------------------------------- */

/* v2: has a cgroup hand controllers on to those below it. */
static int hand_on(int dir, uint32_t limits) {
  char text[256];
  int rc = pco_cgroup_read(dir, "cgroup.subtree_control", text, sizeof text);
  uint32_t missing = rc == 0 ? limits & ~pco_cgroup_words(text) : 0;
  for (int i = 0; rc == 0 && i < 3; i++) {
    if (!(missing >> i & 1))
      continue;
    snprintf(text, sizeof text, "+%s", pco_cgroup_controllers[i]);
    rc = write_text(dir, "cgroup.subtree_control", text);
  }
  return rc;
}

/* v2: the directory "portico" of root is shared by all, and stays.  (What is
 * above it hands its controllers on first.) */
static int make_shared_base(pco_cgroup *g, pco_cgroup_tree *t) {
  char parent[PATH_MAX];
  snprintf(parent, sizeof parent, "%s", t->dir);
  char *name = strrchr(parent, '/');
  if (strcmp(g->base, "auto") != 0 || !name)
    return -ENOENT;
  *name++ = 0;
  int dir = open_dir(AT_FDCWD, *parent ? parent : "/");
  if (dir < 0)
    return dir;
  char text[256] = "";
  pco_cgroup_read(dir, "cgroup.controllers", text, sizeof text);
  int rc = hand_on(dir, t->limits & pco_cgroup_words(text));
  if (rc == 0)
    rc = g->system.make(dir, name);
  close(dir);
  return rc == 0 || rc == -EEXIST ? open_dir(AT_FDCWD, t->dir) : rc;
}

/* v2: learns what the base has. */
static int look_at_v2(const pco_cgroup *g, pco_cgroup_tree *t) {
  char text[PATH_MAX + 32];
  int rc = pco_cgroup_read(t->base, "cgroup.controllers", text, sizeof text);
  if (rc != 0)
    return rc;
  t->limits &= pco_cgroup_words(text);
  snprintf(text, sizeof text, "%s/cgroup.procs", t->common);
  if (g->system.ordinary && t->common[0] &&
      faccessat(AT_FDCWD, text, W_OK, AT_EACCESS) != 0)
    return -errno;
  return 0;
}

static int open_base(pco_cgroup *g, pco_cgroup_tree *t) {
  if (t->base >= 0)
    return 0;
  int fd = open_dir(AT_FDCWD, t->dir);
  if (fd == -ENOENT && t->v2)
    fd = make_shared_base(g, t);
  if (fd < 0)
    return fd;
  t->base = fd;
  int rc = t->v2 ? look_at_v2(g, t) : 0;
  if (rc != 0) {
    close(fd);
    t->base = -1;
  }
  return rc;
}

static int open_top(pco_cgroup *g, pco_cgroup_tree *t) {
  if (t->top >= 0)
    return 0;
  int rc = g->system.make(t->base, g->name);
  if (rc != 0)
    return rc;
  t->top = open_dir(t->base, g->name);
  if (t->top >= 0) {
    flock(t->top, LOCK_EX | LOCK_NB); /* see cgroup_sweep.h */
    t->shared_events =
        t->v2 && faccessat(t->top, "pids.events.local", F_OK, 0) == 0;
    return 0;
  }
  rc = t->top;
  t->top = -1;
  g->system.remove(t->base, g->name);
  return rc;
}

int pco_cgroup_prepare(pco_cgroup *g, pco_cgroup_tree *t, uint32_t limits) {
  int rc = open_base(g, t);
  if (rc == 0 && !(t->limits & limits))
    return -ENODEV;
  if (rc == 0 && !t->v2 && g->limits.other_uid && g->system.ordinary)
    return -EPERM;
  limits &= t->limits;
  if (rc == 0 && t->v2)
    rc = hand_on(t->base, limits);
  if (rc == 0)
    rc = open_top(g, t);
  if (rc == 0 && t->v2)
    rc = hand_on(t->top, limits);
  return rc;
}

/* ---- the beginning ------------------------------------------------------ */

typedef struct reasons {
  char *text;
  size_t size;
} reasons;

static void add_reason(const reasons *r, int limit, const pco_cgroup_tree *t,
                       int rc) {
  size_t len = strlen(r->text);
  if (len + 1 < r->size)
    snprintf(r->text + len, r->size - len, "%s%s: ", len ? "; " : "",
             limit == 2 ? "cpus" : pco_cgroup_controllers[limit]);
  len = strlen(r->text);
  if (len + 1 >= r->size)
    return;
  char *at = r->text + len;
  size_t left = r->size - len;
  if (!t || rc == -ENODEV)
    snprintf(at, left, "no cgroup has this controller here");
  else if (rc == -EPERM && !t->v2)
    snprintf(at, left, "%s: only root can put processes of another user there",
             t->dir);
  else
    snprintf(at, left, "%s: %s", t->dir, strerror(-rc));
}

/* What is no property of this machine. */
static bool is_failure(int rc) {
  return rc == -EEXIST || rc == -ENOMEM || rc == -EMFILE || rc == -ENFILE;
}

pco_cgroup_tree *pco_cgroup_tree_of(pco_cgroup *g, uint32_t limit) {
  for (uint32_t i = 0; i < g->n_trees; i++)
    if (g->trees[i].limits & limit)
      return &g->trees[i];
  return NULL;
}

static int apply(pco_cgroup *g, const reasons *r, int limit) {
  uint32_t bit = 1u << limit;
  pco_cgroup_tree *t = pco_cgroup_tree_of(g, bit);
  int rc = t ? pco_cgroup_prepare(g, t, bit) : -ENODEV;
  if (rc == 0)
    rc = pco_cgroup_set(t, t->top, &g->limits, bit);
  if (rc == 0)
    g->applied |= bit;
  else
    add_reason(r, limit, t, rc);
  return is_failure(rc) ? rc : 0;
}

/* A directory in which no limit could be set is of no use. */
static void drop_unused(pco_cgroup *g) {
  for (uint32_t i = 0; i < g->n_trees; i++) {
    pco_cgroup_tree *t = &g->trees[i];
    if (t->top < 0 || t->limits & g->applied)
      continue;
    close(t->top);
    t->top = -1;
    g->system.remove(t->base, g->name);
  }
}

static int take_name(pco_cgroup *g, const char *base, const char *name) {
  size_t len = strlen(name);
  if (len == 0 || strchr(name, '/') || strchr(name, '\n') ||
      snprintf(g->name, sizeof g->name, "portico-%s", name) >=
          (int)sizeof g->name ||
      snprintf(g->base, sizeof g->base, "%s", base) >= (int)sizeof g->base)
    return -EINVAL;
  return strcmp(base, "auto") == 0 || *base == '/' ? 0 : -EINVAL;
}

#define ALL_LIMITS                                                             \
  (PCO_KEEPER_LIMIT_MEMORY | PCO_KEEPER_LIMIT_PIDS | PCO_KEEPER_LIMIT_CPUS)

int pco_cgroup_search(pco_cgroup *g) {
  if (g->found)
    return 0;
  g->found = true;
  /* Without limits of the sandbox, those of a command may be any. */
  uint32_t wanted = pco_cgroup_wanted(&g->limits);
  return pco_cgroup_find(g, wanted ? wanted : ALL_LIMITS);
}

int pco_cgroup_init(pco_cgroup *g, const char *base, const char *name,
                    const pco_cgroup_limits *want, uint32_t *applied, char *why,
                    size_t why_size) {
  reasons r = {why, why_size};
  uint32_t wanted = pco_cgroup_wanted(want);
  *applied = 0;
  if (why_size)
    *why = 0;
  complete_system(&g->system);
  g->limits = *want;
  int rc = take_name(g, base, name);
  if (rc != 0 || !wanted)
    return rc;
  pco_cgroup_search(g); /* if it fails there are no trees, which is said */
  for (int i = 0; rc == 0 && i < 3; i++)
    if (wanted >> i & 1)
      rc = apply(g, &r, i);
  if (rc != 0)
    g->applied = 0;
  drop_unused(g);
  *applied = g->applied;
  return rc;
}

int pco_cgroup_greet(const pco_cgroup *g, int fd) {
  pco_cgroup_answer a = {.type = PCO_CGROUP_GREETING, .limits = g->applied};
  ssize_t n = send(fd, &a, sizeof a, MSG_DONTWAIT | MSG_NOSIGNAL);
  return n < 0 ? -errno : 0;
}

/* ---- the end ------------------------------------------------------------ */

static bool lists(int dir, const char *procs, pid_t pid) {
  char text[4096];
  if (pco_cgroup_read(dir, procs, text, sizeof text) != 0)
    return false;
  for (char *at = text, *end; *at; at = end) {
    if (strtol(at, &end, 10) == pid)
      return true;
    if (end == at)
      return false;
  }
  return false;
}

/* The pidfd pins a process; that the number is listed after it was opened says
 * that it is one of those inside, or dead. */
static void kill_listed(int dir, const char *procs, pid_t pid) {
  int fd =
      pid > 1 && pid != getpid() ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
  if (fd < 0)
    return;
  if (lists(dir, procs, pid))
    syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
  close(fd);
}

/* Kills the first page of processes of a cgroup. */
static void kill_procs(int dir, const char *procs) {
  char text[4096];
  if (pco_cgroup_read(dir, procs, text, sizeof text) != 0)
    return;
  int n = 0;
  for (char *at = text, *end; *at && n++ < MOST_KILLED; at = end) {
    pid_t pid = (pid_t)strtol(at, &end, 10);
    if (end == at)
      return;
    kill_listed(dir, procs, pid);
  }
}

static void kill_leaf(const pco_cgroup_tree *t, uint32_t leaf) {
  char name[32];
  snprintf(name, sizeof name, "%u/cgroup.procs", (unsigned)leaf);
  kill_procs(t->top, name);
}

static int remove_leaves(pco_cgroup *g, uint32_t tree) {
  pco_cgroup_tree *t = &g->trees[tree];
  int rc = 0;
  for (uint32_t i = 0; i < PCO_CGROUP_MAX_LEAVES; i++) {
    if (!(g->leaves[i].trees >> tree & 1))
      continue;
    int one = pco_cgroup_remove_leaf(g, tree, i);
    if (one == -EBUSY)
      kill_leaf(t, i);
    rc = rc ? rc : one;
  }
  return rc;
}

static int remove_tree(pco_cgroup *g, uint32_t tree) {
  pco_cgroup_tree *t = &g->trees[tree];
  if (t->top < 0)
    return 0;
  if (t->v2)
    write_text(t->top, "cgroup.kill", "1");
  int rc = remove_leaves(g, tree);
  if (rc == 0)
    rc = g->system.remove(t->base, g->name);
  if (rc == -EBUSY)
    kill_procs(t->top, "cgroup.procs");
  if (rc != 0 && rc != -ENOENT)
    return rc;
  close(t->top);
  t->top = -1;
  return 0;
}

int pco_cgroup_remove(pco_cgroup *g) {
  int rc = 0;
  for (uint32_t i = 0; i < g->n_trees; i++) {
    int one = remove_tree(g, i);
    rc = rc ? rc : one;
  }
  if (rc != 0)
    return rc;
  for (uint32_t i = 0; i < g->n_trees; i++)
    if (g->trees[i].base >= 0)
      close(g->trees[i].base);
  g->n_trees = 0;
  g->applied = 0;
  return 0;
}

/* Opens what is there of a sandbox, as if it were ours. */
static void adopt(pco_cgroup *g) {
  for (uint32_t i = 0; i < g->n_trees; i++) {
    pco_cgroup_tree *t = &g->trees[i];
    t->base = open_dir(AT_FDCWD, t->dir);
    t->top = t->base < 0 ? -1 : open_dir(t->base, g->name);
    t->top = t->top < 0 ? -1 : t->top;
    t->base = t->base < 0 ? -1 : t->base;
  }
  for (uint32_t i = 0; i < PCO_CGROUP_MAX_LEAVES; i++)
    g->leaves[i].trees = 7;
}

int pco_cgroup_remove_stale(const char *base, const char *name) {
  static pco_cgroup g;
  int64_t until = pco_now() + REMOVE_TIME;
  struct timespec pause = {0, REMOVE_PAUSE};
  complete_system(&g.system);
  int rc = take_name(&g, base, name);
  if (rc == 0)
    rc = pco_cgroup_search(&g);
  if (rc != 0)
    return rc;
  adopt(&g);
  while ((rc = pco_cgroup_remove(&g)) == -EBUSY && pco_now() < until)
    nanosleep(&pause, NULL);
  return rc;
}
