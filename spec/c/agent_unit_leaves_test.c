/* SPDX-License-Identifier: MIT */
/*
 * The keeper's cgroups, linked in: leaves for supervisors and commands, as an
 * agent asks for them, an honest one and others.
 * usage: agent_unit_leaves_test
 */
#include "cgroup_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- leaves -------------------------------------------------------------- */

static void test_supervisor_leaves(void) {
  heard h;
  tree_v1(false);
  cgroup_open_socket();
  cgroup_start("auto", "x", cgroup_all);
  IS(pco_cgroup_greet(&cgroup, cgroup_ends[0]), 0, "the greeting");
  OK(cgroup_hear(cgroup_ends[1], &h) && h.a.type == PCO_CGROUP_GREETING &&
         h.a.limits == 7,
     "tells the limits");
  IS(cgroup_make(0, PCO_CGROUP_SUPERVISOR, cgroup_all), 0,
     "a leaf of a supervisor");
  OK(cgroup_hear(cgroup_ends[1], &h) && h.a.type == PCO_CGROUP_MADE &&
         h.a.leaf == 0 && h.a.serial == 1000 && h.a.limits == 7 &&
         h.a.error == 0,
     "is made");
  OK(h.a.n_procs == 3 && h.a.counters == 3 && h.a.shared == 0 && h.n == 5,
     "with its descriptors");
  OK(write(h.fds[0], "0", 1) == 1 &&
         (fcntl(h.fds[3], F_GETFL) & O_ACCMODE) == O_RDONLY,
     "to write and to read");
  tree_put(tree_at("pids/portico-x/0/cgroup.procs"), "");
  tree_put(tree_at("mem ory/c d/portico-x/0/cgroup.procs"), "");
  tree_put(tree_at("cpu/q/portico-x/0/cgroup.procs"), "");
  cgroup_forget(&h);
  HAS(tree_at("pids/portico-x/pids.max"), "101");
  HAS(tree_at("pids/portico-x/0/pids.max"), "");
  cgroup_make(7, PCO_CGROUP_SUPERVISOR, cgroup_all);
  OK(cgroup_hear(cgroup_ends[1], &h) && h.n == 5, "a second one");
  cgroup_forget(&h);
  HAS(tree_at("pids/portico-x/pids.max"), "102");
  cgroup_make(7, PCO_CGROUP_SUPERVISOR, cgroup_all);
  OK(cgroup_hear(cgroup_ends[1], &h) && h.n == 0 && h.a.error == EBUSY &&
         h.a.n_procs == 0,
     "a number that is taken");
  IS(cgroup_drop(0), 0, "one less");
  HAS(tree_at("pids/portico-x/pids.max"), "101");
  OK(access(tree_at("pids/portico-x/0"), F_OK) != 0, "its directory is gone");
  IS(cgroup_drop(0), 0, "one that is not there");
  HAS(tree_at("pids/portico-x/pids.max"), "101");
  IS(pco_cgroup_remove(&cgroup), 0, "the rest goes with the sandbox");
  OK(access(tree_at("pids/portico-x"), F_OK) != 0, "all of it");
  cgroup_close_socket();
}

static void test_command_leaves(void) {
  heard h;
  tree_v1(false);
  cgroup_open_socket();
  cgroup_start("auto", "x", (pco_cgroup_limits){.pids = 50});
  cgroup_make(3, 0, (pco_cgroup_limits){.memory = 4096});
  OK(cgroup_hear(cgroup_ends[1], &h) && h.a.limits == 1 && h.a.n_procs == 1 &&
         h.n == 2 && h.a.counters == 1,
     "a command with a limit that the sandbox has not");
  cgroup_forget(&h);
  HAS(tree_at("mem ory/c d/portico-x/3/memory.limit_in_bytes"), "4096");
  HAS(tree_at("mem ory/c d/portico-x/memory.limit_in_bytes"), "");
  OK(access(tree_at("pids/portico-x/3"), F_OK) != 0,
     "no other tree has a leaf");
  HAS(tree_at("pids/portico-x/pids.max"), "50");
  cgroup_make(4, 0, cgroup_all);
  OK(cgroup_hear(cgroup_ends[1], &h) && h.a.limits == 7 && h.n == 5,
     "all limits");
  cgroup_forget(&h);
  HAS(tree_at("pids/portico-x/4/pids.max"), "100");
  tree_put(tree_at("pids/portico-x/4/cgroup.procs"), "1\n");
  IS(cgroup_drop(4), 0, "one that somebody is in");
  OK(access(tree_at("pids/portico-x/4"), F_OK) == 0 &&
         access(tree_at("cpu/q/portico-x/4"), F_OK) != 0,
     "stays as far as it must");
  cgroup_make(4, 0, cgroup_all);
  OK(cgroup_hear(cgroup_ends[1], &h) && h.a.error == EBUSY && h.n == 0,
     "and is not reused");
  IS(pco_cgroup_remove(&cgroup), -EBUSY, "nor removed at the end");
  tree_put(tree_at("pids/portico-x/4/cgroup.procs"), "");
  IS(pco_cgroup_remove(&cgroup), 0, "until it is empty");
  OK(access(tree_at("pids/portico-x"), F_OK) != 0, "then all is gone");
  cgroup_close_socket();
}

static void test_missing_controllers(void) {
  heard h;
  tree_clear();
  tree_is_v2 = false;
  tree_set_up("8:pids:/\n", "39 31 0:36 / @/pids rw - cgroup cgroup rw,pids\n",
              false);
  tree_dir(tree_at("pids"));
  cgroup_open_socket();
  cgroup_start("auto", "x", (pco_cgroup_limits){0});
  cgroup_make(0, 0, cgroup_all);
  OK(cgroup_hear(cgroup_ends[1], &h) && h.a.limits == 2 &&
         h.a.error == ENODEV && h.n == 2 && h.a.text[0],
     "what can be had is had, the rest is named: %s", h.a.text);
  cgroup_forget(&h);
  cgroup_make(1, 0, (pco_cgroup_limits){.cpus = 1});
  OK(cgroup_hear(cgroup_ends[1], &h) && h.a.limits == 0 && h.a.n_procs == 0 &&
         h.a.error == ENODEV && h.n == 0,
     "nothing can be had");
  OK(access(tree_at("pids/portico-x/1"), F_OK) != 0, "nothing is made");
  cgroup_make(1, 0, (pco_cgroup_limits){0});
  OK(cgroup_hear(cgroup_ends[1], &h) && h.a.n_procs == 0,
     "nothing was asked for");
  IS(pco_cgroup_remove(&cgroup), 0, "removed");
  cgroup_close_socket();
}

static void test_v2_leaves(void) {
  heard h;
  tree_v2("/", false);
  cgroup_open_socket();
  cgroup_start("auto", "x",
               (pco_cgroup_limits){.memory = 1 << 20, .pids = 100});
  tree_put(tree_at("fs/portico-x/cgroup.controllers"), "cpu memory pids\n");
  cgroup_make(0, PCO_CGROUP_SUPERVISOR, cgroup_all);
  OK(cgroup_hear(cgroup_ends[1], &h) && h.a.limits == 3 && h.a.n_procs == 1 &&
         h.n == 3 && h.a.counters == 3 && h.a.shared == 2,
     "v2: a supervisor; refused forks are counted above");
  cgroup_forget(&h);
  HAS(tree_at("fs/portico-x/pids.max"), "101");
  cgroup_make(1, 0, (pco_cgroup_limits){.memory = 4096});
  OK(cgroup_hear(cgroup_ends[1], &h) && h.a.limits == 1 && h.a.n_procs == 1 &&
         h.n == 3 && h.a.counters == 3,
     "a command keeps the counters of what it leaves");
  cgroup_forget(&h);
  HAS(tree_at("fs/portico-x/1/memory.max"), "4096");
  HAS(tree_at("fs/portico-x/1/pids.max"), "");
  IS(pco_cgroup_remove(&cgroup), 0, "removed");
  HAS(tree_at("fs/portico-x"), "No such file or directory");
  cgroup_close_socket();
}

/* ---- a hostile agent ----------------------------------------------------- */

static void test_hostile(void) {
  heard h;
  tree_v1(false);
  cgroup_open_socket();
  cgroup_start("auto", "x", (pco_cgroup_limits){.pids = 100});
  IS(pco_cgroup_serve(&cgroup, cgroup_ends[0]), 0, "nothing is there to read");
  IS(cgroup_ask((pco_cgroup_request){.type = 7}), -EPROTO,
     "an unknown request");
  IS(cgroup_ask((pco_cgroup_request){.type = PCO_CGROUP_MAKE,
                                     .leaf = PCO_CGROUP_MAX_LEAVES}),
     -EPROTO, "a leaf out of range");
  IS(cgroup_ask((pco_cgroup_request){.type = PCO_CGROUP_REMOVE, .leaf = ~0u}),
     -EPROTO, "far out");
  IS(cgroup_ask((pco_cgroup_request){.type = PCO_CGROUP_MAKE, .flags = 2}),
     -EPROTO, "an unknown flag");
  IS(cgroup_ask((pco_cgroup_request){.type = PCO_CGROUP_MAKE, .memory = ~0ull}),
     -EPROTO, "more memory than there is");
  IS(cgroup_ask(
         (pco_cgroup_request){.type = PCO_CGROUP_MAKE, .cpus = 1ull << 32}),
     -EPROTO, "more processors");
  char long_one[sizeof(pco_cgroup_request) + 1] = {PCO_CGROUP_MAKE};
  send(cgroup_ends[1], long_one, sizeof long_one, 0);
  IS(pco_cgroup_serve(&cgroup, cgroup_ends[0]), -EPROTO,
     "a request that is too long");
  send(cgroup_ends[1], long_one, 3, 0);
  IS(pco_cgroup_serve(&cgroup, cgroup_ends[0]), -EPROTO, "or cut");
  unsigned made = 0;
  for (uint32_t i = 0; i < PCO_CGROUP_MAX_LEAVES; i++) {
    cgroup_make(i, PCO_CGROUP_SUPERVISOR, cgroup_all);
    made += cgroup_hear(cgroup_ends[1], &h) && h.n == 2;
    cgroup_forget(&h);
  }
  IS(made, 164, "the supervisors that 100 processes may need");
  HAS(tree_at("pids/portico-x/pids.max"), "264");
  made = 0;
  for (uint32_t i = made; i < PCO_CGROUP_MAX_LEAVES; i++) {
    cgroup_make(i, 0, (pco_cgroup_limits){.pids = 1});
    made += cgroup_hear(cgroup_ends[1], &h) && h.n == 2;
    cgroup_forget(&h);
  }
  IS(made, 164, "and as many leaves of commands");
  for (uint32_t i = 0; i < 150; i++)
    cgroup_drop(i);
  HAS(tree_at("pids/portico-x/pids.max"), "114"); /* as many digits as before */
  for (uint32_t i = 150; i < PCO_CGROUP_MAX_LEAVES; i++)
    cgroup_drop(i);
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
  sendmsg(cgroup_ends[1], &m, 0);
  IS(pco_cgroup_serve(&cgroup, cgroup_ends[0]), 0,
     "descriptors that come along");
  int after = dup(0);
  IS(after, before + 1, "go nowhere");
  close(after);
  close(before);
  /* it does not take its answers */
  int rc = 0;
  for (uint32_t i = 0; rc == 0 && i < 100000; i++)
    rc = cgroup_make(i % 200, 0, (pco_cgroup_limits){0});
  IS(rc, -EAGAIN, "an agent that reads nothing is left alone");
  close(cgroup_ends[1]);
  while ((rc = pco_cgroup_serve(&cgroup, cgroup_ends[0])) == 0 || rc == -EAGAIN)
    ;
  OK(rc == -EPIPE || rc == -ECONNRESET, "the end of the stream");
  close(cgroup_ends[0]);
  IS(pco_cgroup_remove(&cgroup), 0, "removed");
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
  tree_v1(false);
  cgroup_open_socket();
  cgroup_start("auto", "x",
               (pco_cgroup_limits){.pids = 100, .memory = 1 << 20});
  cgroup_make(0, 0, cgroup_all); /* every tree is open from here on */
  cgroup_hear(cgroup_ends[1], &h);
  cgroup_forget(&h);
  cgroup_drop(0);
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
    good = cgroup_ask(q) == 0;
    if (!cgroup_hear(cgroup_ends[1], &h))
      continue;
    answers++;
    good = good && h.a.serial == (uint32_t)i && h.a.n_procs <= h.n &&
           (h.a.n_procs > 0) == (h.a.limits != 0) && (h.a.limits & ~7u) == 0;
    cgroup_forget(&h);
  }
  int after = dup(0);
  close(after);
  OK(good && answers == asked, "random requests: %d answers to %d", answers,
     asked);
  IS(after, before, "no descriptor stays");
  uint32_t supervisors = 0;
  for (uint32_t i = 0; i < PCO_CGROUP_MAX_LEAVES; i++)
    supervisors += cgroup.leaves[i].is_supervisor;
  IS(cgroup.n_supervisors, supervisors, "supervisors are counted");
  IS(pco_cgroup_remove(&cgroup), 0, "removed");
  OK(access(tree_at("pids/portico-x"), F_OK) != 0, "all of it");
  cgroup_close_socket();
}

int main(void) {
  if (!tree_open())
    return 1;
  test_supervisor_leaves();
  test_command_leaves();
  test_missing_controllers();
  test_v2_leaves();
  test_hostile();
  test_random();
  tree_close();
  return tap_done();
}
