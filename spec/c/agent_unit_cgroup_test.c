/* SPDX-License-Identifier: MIT */
/*
 * The keeper's cgroups, linked in: where they are made, and with what, on
 * imitations of v1, v2 and both.  usage: agent_unit_cgroup_test
 */
#include "cgroup_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- v1 ------------------------------------------------------------------ */

static void test_v1(void) {
  tree_v1(false);
  IS(cgroup_start("auto", "x", cgroup_all), 0, "v1: below the own cgroups");
  IS(cgroup_applied, 7, "all limits");
  HAS(tree_at("mem ory/c d/portico-x/memory.limit_in_bytes"), "67108864");
  HAS(tree_at("mem ory/c d/portico-x/memory.memsw.limit_in_bytes"), "67108864");
  HAS(tree_at("pids/portico-x/pids.max"), "100");
  HAS(tree_at("cpu/q/portico-x/cpu.cfs_period_us"), "100000");
  HAS(tree_at("cpu/q/portico-x/cpu.cfs_quota_us"), "50000");
  IS(pco_cgroup_remove(&cgroup), 0, "and away");
  OK(access(tree_at("pids/portico-x"), F_OK) != 0 &&
         access(tree_at("mem ory/c d/portico-x"), F_OK) != 0,
     "nothing is left");
  IS(pco_cgroup_remove(&cgroup), 0, "twice is no harm");
}

static void test_v1_values(void) {
  tree_v1(false);
  IS(cgroup_start("auto", "x", (pco_cgroup_limits){.pids = 5000000, .cpus = 5}),
     0, "odd values");
  IS(cgroup_applied, 6, "only what was asked for");
  HAS(tree_at("pids/portico-x/pids.max"), "max");
  HAS(tree_at("cpu/q/portico-x/cpu.cfs_period_us"), "1000000");
  HAS(tree_at("cpu/q/portico-x/cpu.cfs_quota_us"), "5000");
  OK(access(tree_at("mem ory/c d/portico-x"), F_OK) != 0, "and no other tree");
  pco_cgroup_remove(&cgroup);
}

static void test_v1_base(void) {
  tree_v1(true);
  tree_dir(tree_at("cpu/mine"));
  tree_dir(tree_at("pids/mine"));
  tree_dir(tree_at("mem ory/mine"));
  IS(cgroup_start(tree_at("pids/mine"), "x", cgroup_all), 0,
     "a directory that was delegated");
  IS(cgroup_applied, 6, "is used in every tree that has it");
  HAS(tree_at("pids/mine/portico-x/pids.max"), "100");
  HAS(tree_at("cpu/mine/portico-x/cpu.cfs_quota_us"), "50000");
  OK(strncmp(cgroup_why, "memory: ", 8) == 0, "and the reason: %s", cgroup_why);
  pco_cgroup_remove(&cgroup);
  tree_v1(true);
  tree_dir(tree_at("mem ory/mine"));
  IS(cgroup_start("/a:b/mine", "x", cgroup_all), 0,
     "a place as the kernel writes it");
  IS(cgroup_applied, 1, "only the mount that shows it");
  pco_cgroup_remove(&cgroup);
  tree_v1(true);
  tree_dir(tree_at("pids/mine"));
  pco_cgroup_limits two = cgroup_all;
  two.other_uid = true;
  IS(cgroup_start(tree_at("pids/mine"), "x", two), 0, "two uids");
  IS(cgroup_applied, 0, "cannot be had by an ordinary user");
  OK(strstr(cgroup_why, "only root") != NULL, "and the reason: %s", cgroup_why);
  OK(access(tree_at("pids/mine/portico-x"), F_OK) != 0, "nothing was made");
  pco_cgroup_remove(&cgroup);
}

static void test_v1_failures(void) {
  tree_v1(false);
  tree_dir(tree_at("cpu/q/portico-x"));
  IS(cgroup_start("auto", "x", cgroup_all), -EEXIST, "a sandbox of that name");
  IS(cgroup_applied, 0, "nothing applies");
  OK(access(tree_at("pids/portico-x"), F_OK) != 0 &&
         access(tree_at("mem ory/c d/portico-x"), F_OK) != 0 &&
         access(tree_at("cpu/q/portico-x"), F_OK) == 0,
     "what was made is gone, what was there is not");
  tree_v1(false);
  tree_fails = ENOMEM;
  IS(cgroup_start("auto", "x", cgroup_all), -ENOMEM, "no memory");
  tree_v1(false);
  tree_fails = EROFS;
  IS(cgroup_start("auto", "x", cgroup_all), 0, "a tree that is read-only");
  IS(cgroup_applied, 6, "goes without");
  pco_cgroup_remove(&cgroup);
  static const char *const bad[] = {"", "a/b", "a\nb", NULL};
  for (int i = 0; bad[i]; i++) {
    tree_v1(false);
    IS(cgroup_start("auto", bad[i], cgroup_all), -EINVAL,
       "a name that is none");
  }
  tree_v1(false);
  IS(cgroup_start("pids", "x", cgroup_all), -EINVAL, "a base that is no path");
  char name[NAME_MAX];
  memset(name, 'n', sizeof name - 1);
  name[sizeof name - 1] = 0;
  IS(cgroup_start("auto", name, cgroup_all), -EINVAL,
     "a name that is too long");
  tree_set_up("", "", false);
  IS(cgroup_start("auto", "x", cgroup_all), 0, "a machine without cgroups");
  OK(cgroup_applied == 0 && strstr(cgroup_why, "cpus: no cgroup"),
     "and why: %s", cgroup_why);
  tree_v1(false);
  cgroup.system.self = "/nonexistent";
  IS(cgroup_start("auto", "x", cgroup_all), 0, "or without /proc");
  IS(cgroup_applied, 0, "nothing applies there");
  char tiny[4];
  tree_v1(false);
  tree_dir(tree_at("pids"));
  IS(pco_cgroup_init(&cgroup, "/no", "x", &cgroup_all, &cgroup_applied, tiny,
                     sizeof tiny),
     0, "little room for the reason");
  OK(strlen(tiny) < sizeof tiny, "'%s'", tiny);
}

static void test_lazy(void) {
  tree_v1(false);
  IS(cgroup_start("auto", "x", (pco_cgroup_limits){0}), 0, "no limits");
  OK(cgroup_applied == 0 && !cgroup.found, "nothing is even looked for");
  IS(pco_cgroup_remove(&cgroup), 0, "nothing to remove");
}

/* ---- v2 ------------------------------------------------------------------ */

static void test_v2_root(void) {
  tree_v2("/", false);
  IS(cgroup_start("auto", "x", cgroup_all), 0, "v2: root in the root");
  IS(cgroup_applied, 7, "all limits");
  HAS(tree_at("fs/portico-x/memory.max"), "67108864");
  HAS(tree_at("fs/portico-x/memory.swap.max"), "0");
  HAS(tree_at("fs/portico-x/pids.max"), "100");
  HAS(tree_at("fs/portico-x/cpu.max"), "50000 100000");
  /* plain files keep the last one that was written */
  HAS(tree_at("fs/cgroup.subtree_control"), "+cpusry");
  HAS(tree_at("fs/portico-x/cgroup.subtree_control"), "+cpusry");
  IS(pco_cgroup_remove(&cgroup), 0, "and away");
  OK(access(tree_at("fs/portico-x"), F_OK) != 0, "nothing is left");
  tree_v2("/user.slice/a.scope", false);
  IS(cgroup_start("auto", "x", cgroup_all), 0, "root elsewhere");
  OK(cgroup_applied == 0 && cgroup_why[0],
     "a kernel that gives no controllers: %s", cgroup_why);
  tree_put(tree_at("fs/portico/cgroup.controllers"), "cpu memory pids\n");
  tree_set_up("0::/user.slice/a.scope\n", tree_mounts_v2, false);
  IS(cgroup_start("auto", "x", cgroup_all), 0, "again");
  IS(cgroup_applied, 7, "all limits");
  HAS(tree_at("fs/portico/portico-x/pids.max"), "100");
  pco_cgroup_remove(&cgroup);
  OK(access(tree_at("fs/portico/portico-x"), F_OK) != 0 &&
         access(tree_at("fs/portico"), F_OK) == 0,
     "the directory of all sandboxes stays");
}

static void test_v2_ordinary(void) {
  tree_v2("/u/app/me", true);
  tree_dir_v2(tree_at("fs/u"));
  tree_dir_v2(tree_at("fs/u/app"));
  tree_dir_v2(tree_at("fs/u/app/me"));
  tree_put(tree_at("fs/u/cgroup.subtree_control"), "cpu memory pids\n");
  tree_put(tree_at("fs/u/app/cgroup.subtree_control"), "memory pids\n");
  tree_put(tree_at("fs/u/app/cgroup.controllers"), "memory pids\n");
  IS(cgroup_start("auto", "x", cgroup_all), 0, "an ordinary user");
  IS(cgroup_applied, 3, "has what the cgroup above hands on");
  HAS(tree_at("fs/u/app/portico-x/pids.max"), "100");
  OK(strncmp(cgroup_why, "cpus: ", 6) == 0, "and why not all: %s", cgroup_why);
  pco_cgroup_remove(&cgroup);
  tree_v2("/u/app/me", true);
  tree_dir_v2(tree_at("fs/mine"));
  unlink(tree_at("fs/cgroup.procs")); /* it is not ours to write */
  IS(cgroup_start(tree_at("fs/mine"), "x", cgroup_all), 0,
     "a base that nobody can be moved to");
  OK(cgroup_applied == 0 && cgroup_why[0], "is of no use: %s", cgroup_why);
  OK(access(tree_at("fs/mine/portico-x"), F_OK) != 0, "nothing was made");
  pco_cgroup_remove(&cgroup);
  tree_v2("/u/app/me", true);
  tree_dir_v2(tree_at("fs/u/mine"));
  tree_put(tree_at("fs/u/cgroup.procs"), "");
  IS(cgroup_start("/u/mine", "x", cgroup_all), 0,
     "one below a cgroup that is ours");
  IS(cgroup_applied, 7, "works");
  pco_cgroup_remove(&cgroup);
}

static void test_hybrid(void) {
  tree_clear();
  tree_is_v2 = true;
  tree_set_up("3:memory:/m\n0::/\n",
              "35 31 0:32 / @/memory rw - cgroup cgroup rw,memory\n"
              "41 31 0:38 / @/unified rw - cgroup2 cgroup2 rw\n",
              false);
  tree_dir(tree_at("memory/m"));
  tree_dir(tree_at("unified"));
  tree_put(tree_at("unified/cgroup.controllers"), "cpu pids memory\n");
  tree_put(tree_at("unified/cgroup.subtree_control"), "");
  IS(cgroup_start("auto", "x", (pco_cgroup_limits){.pids = 10, .cpus = 1000}),
     0, "v1 and v2 on one machine");
  IS(cgroup_applied, 6, "each controller where it is");
  HAS(tree_at("unified/portico-x/pids.max"), "10");
  pco_cgroup_remove(&cgroup);
}

int main(void) {
  if (!tree_open())
    return 1;
  test_v1();
  test_v1_values();
  test_v1_base();
  test_v1_failures();
  test_lazy();
  test_v2_root();
  test_v2_ordinary();
  test_hybrid();
  tree_close();
  return tap_done();
}
