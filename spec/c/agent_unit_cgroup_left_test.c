/* SPDX-License-Identifier: MIT */
/*
 * The keeper's cgroups, linked in: what is left of them.  Swept on an
 * imitation, removed with somebody inside on the real ones, where this machine
 * lets us. usage: agent_unit_cgroup_left_test
 */
#include "cgroup_tree.h"

#include "../../runtime/agent/cgroup_sweep.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- an imitation -------------------------------------------------------- */

/* One beside g's, as a killed keeper leaves it; held: as one that lives. */
static int make_other(const char *name, int age_s, bool held) {
  struct timespec times[2] = {{0, UTIME_OMIT}, {time(NULL) - age_s, 0}};
  char leaf[64];
  int base = open(tree_at("pids"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  tree_make(base, name);
  snprintf(leaf, sizeof leaf, "%s/7", name);
  tree_make(base, leaf);
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
  tree_v1(false);
  IS(cgroup_start("auto", "x", cgroup_all), 0, "one that sweeps");
  int held = make_other("portico-held", 1000, true);
  make_other("portico-dead", 1000, false);
  make_other("portico-young", 0, false);
  make_other("else", 1000, false);
  make_other("portico-busy", 1000, false);
  tree_put(tree_at("pids/portico-busy/7/cgroup.procs"), "1\n");
  pco_cgroup_sweep(&cgroup);
  OK(!is_there(tree_at("pids/portico-dead")), "what nobody holds is removed");
  OK(is_there(tree_at("pids/portico-held/7")), "what a keeper holds is not");
  OK(is_there(tree_at("pids/portico-young/7")), "what is young is not");
  OK(is_there(tree_at("pids/portico-busy/7")), "what has a process is not");
  OK(is_there(tree_at("pids/else/7")), "what is not ours is not");
  OK(is_there(tree_at("pids/portico-x")), "nor its own");
  close(held);
  pco_cgroup_sweep(&cgroup);
  OK(!is_there(tree_at("pids/portico-held")),
     "and when the keeper is dead, it is");
  int own = open(tree_at("pids/portico-x"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  OK(flock(own, LOCK_EX | LOCK_NB) != 0, "a keeper holds what it makes");
  close(own);
  IS(pco_cgroup_remove(&cgroup), 0, "removed");
}

/* ---- the real thing ------------------------------------------------------ */

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
  memset(&cgroup, 0, sizeof cgroup);
  int rc = cgroup_start("auto", name, cgroup_all);
  if (rc != 0 || cgroup_applied == 0) {
    tap_skip("real cgroups", cgroup_why);
    return;
  }
  printf("# applied %u %s\n", (unsigned)cgroup_applied, cgroup_why);
  cgroup_open_socket();
  cgroup_make(0, PCO_CGROUP_SUPERVISOR, cgroup_all);
  OK(cgroup_hear(cgroup_ends[1], &h) && h.a.limits == cgroup_applied && h.n > 0,
     "a real leaf");
  pid_t pid = enter(&h, true);
  int status = 0;
  waitpid(pid, &status, 0);
  char text[128] = "";
  if (cgroup_applied & PCO_KEEPER_LIMIT_MEMORY) {
    OK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "out of memory");
    int counter = h.fds[h.a.n_procs];
    OK(pread(counter, text, sizeof text - 1, 0) > 0 && strstr(text, "oom_kill"),
       "the counter can be read");
    char *at_count = strstr(text, "oom_kill ");
    OK(at_count && atoi(at_count + 9) == 1, "and says one");
  }
  pid = enter(&h, false);
  cgroup_forget(&h);
  waitpid(pid, NULL, WUNTRACED); /* it is in there */
  cgroup_drop(0);
  rc = pco_cgroup_remove(&cgroup);
  for (int i = 0; rc == -EBUSY && i < 500; i++) {
    usleep(10000);
    rc = pco_cgroup_remove(&cgroup);
  }
  IS(rc, 0, "removed with somebody inside");
  OK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) &&
         WTERMSIG(status) == SIGKILL,
     "who was killed");
  cgroup_close_socket();
}

/* The keeper was killed: someone else has only the name. */
static void test_stale(void) {
  heard h;
  char name[64];
  snprintf(name, sizeof name, "stale-%d", (int)getpid());
  memset(&cgroup, 0, sizeof cgroup);
  if (cgroup_start("auto", name, cgroup_all) != 0 || cgroup_applied == 0) {
    tap_skip("what a dead keeper left", cgroup_why);
    return;
  }
  cgroup_open_socket();
  cgroup_make(PCO_CGROUP_MAX_LEAVES - 1, PCO_CGROUP_SUPERVISOR, cgroup_all);
  cgroup_hear(cgroup_ends[1], &h);
  pid_t pid = enter(&h, false);
  cgroup_forget(&h);
  waitpid(pid, NULL, WUNTRACED); /* it is in there */
  signal(SIGCHLD, SIG_IGN);      /* it is nobody's zombie */
  IS(pco_cgroup_remove_stale("auto", name), 0, "what a dead keeper left");
  OK(waitpid(pid, NULL, 0) < 0, "is gone");
  signal(SIGCHLD, SIG_DFL);
  memset(&cgroup, 0, sizeof cgroup);
  IS(cgroup_start("auto", name, cgroup_all), 0, "the name is free again");
  IS(pco_cgroup_remove(&cgroup), 0, "removed");
  cgroup_close_socket();
}

int main(void) {
  if (!tree_open())
    return 1;
  test_sweep();
  test_real();
  test_stale();
  IS(pco_cgroup_remove_stale("auto", "no-such-sandbox"), 0,
     "one that never was");
  tree_close();
  return tap_done();
}
