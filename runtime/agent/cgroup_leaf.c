/* SPDX-License-Identifier: MIT */
/*
 * Leaves, on the agent's request; see cgroup.h.
 *
 * States of a leaf: FREE, MADE, and DYING while a process that is just ending
 * still holds it: it is removed when its number is used again, or at the end.
 */
#include "cgroup_leaf.h"

#include "rights.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { FREE, MADE, DYING };

/* An answer with what travels along; ours until it was sent. */
typedef struct reply {
  pco_cgroup_answer a;
  int fds[PCO_CGROUP_MAX_FDS];
  unsigned n_fds;
} reply;

static void leaf_name(uint32_t leaf, char out[16]) {
  snprintf(out, 16, "%u", (unsigned)leaf);
}

/* ---- removing ----------------------------------------------------------- */

int pco_cgroup_remove_leaf(pco_cgroup *g, uint32_t tree, uint32_t leaf) {
  char name[16];
  leaf_name(leaf, name);
  int rc = g->system.remove(g->trees[tree].top, name);
  if (rc != 0 && rc != -ENOENT)
    return rc;
  g->leaves[leaf].trees &= (uint8_t) ~(1u << tree);
  return 0;
}

/* What is left of it is dying; a supervisor is not counted any more. */
static void remove_leaf(pco_cgroup *g, uint32_t leaf) {
  pco_cgroup_leaf *l = &g->leaves[leaf];
  for (uint32_t i = 0; i < g->n_trees; i++)
    if (l->trees >> i & 1)
      pco_cgroup_remove_leaf(g, i, leaf);
  l->state = l->trees ? DYING : FREE;
  if (l->is_supervisor) {
    l->is_supervisor = false;
    g->n_supervisors--;
    pco_cgroup_count_supervisors(g);
  }
}

/* ---- making ------------------------------------------------------------- */

/* Takes a descriptor into the reply: 0 or -errno. */
static int open_into(reply *r, int dir, const char *name, int flags) {
  int fd = openat(dir, name, flags | O_CLOEXEC);
  if (fd < 0)
    return -errno;
  r->fds[r->n_fds++] = fd;
  return 0;
}

/* The directory in one tree; its descriptor or -errno. */
static int make_in(pco_cgroup *g, uint32_t tree, uint32_t leaf,
                   uint32_t limits) {
  pco_cgroup_tree *t = &g->trees[tree];
  char name[16];
  leaf_name(leaf, name);
  int rc = pco_cgroup_prepare(g, t, limits);
  if (rc == 0)
    rc = g->system.make(t->top, name);
  if (rc != 0)
    return rc;
  g->leaves[leaf].trees |= (uint8_t)(1u << tree);
  int dir = openat(t->top, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  return dir < 0 ? -errno : dir;
}

/* The limits in one tree; what holds there is marked in the answer. */
static int make_with(pco_cgroup *g, reply *r, uint32_t tree,
                     const pco_cgroup_limits *own, uint32_t limits) {
  const pco_cgroup_tree *t = &g->trees[tree];
  int dir = make_in(g, tree, r->a.leaf, limits);
  if (dir < 0)
    return dir;
  int rc = open_into(r, dir, "cgroup.procs", O_WRONLY);
  for (uint32_t bit = 1; rc == 0 && bit < 8; bit <<= 1) {
    if (!(bit & limits & t->limits))
      continue;
    if (own)
      rc = pco_cgroup_set(t, dir, own, bit);
    if (rc == 0)
      r->a.limits |= bit;
  }
  r->a.n_procs = r->n_fds;
  close(dir);
  return rc;
}

static int open_counter(const pco_cgroup *g, reply *r, uint32_t tree,
                        uint32_t bit) {
  const pco_cgroup_tree *t = &g->trees[tree];
  bool is_memory = bit == PCO_KEEPER_LIMIT_MEMORY;
  bool shared = !is_memory && t->shared_events;
  const char *file = !is_memory ? "pids.events"
                     : t->v2    ? "memory.events"
                                : "memory.oom_control";
  char name[64];
  snprintf(name, sizeof name, "%u/%s", (unsigned)r->a.leaf, file);
  int rc = open_into(r, t->top, shared ? file : name, O_RDONLY);
  if (rc == 0) {
    r->a.counters |= bit;
    r->a.shared |= shared ? bit : 0;
  }
  return rc;
}

/* v2: who moves into a leaf leaves all of another behind, so there the counters
 * of the sandbox's limits go along. */
static int open_counters(const pco_cgroup *g, reply *r) {
  static const uint32_t bits[] = {PCO_KEEPER_LIMIT_MEMORY,
                                  PCO_KEEPER_LIMIT_PIDS};
  int rc = 0;
  for (int b = 0; rc == 0 && b < 2; b++) {
    for (uint32_t i = 0; rc == 0 && i < g->n_trees; i++) {
      const pco_cgroup_tree *t = &g->trees[i];
      uint32_t here = r->a.limits | (t->v2 ? g->applied : 0);
      if (g->leaves[r->a.leaf].trees >> i & 1 && bits[b] & here & t->limits)
        rc = open_counter(g, r, i, bits[b]);
    }
  }
  return rc;
}

static void close_fds(reply *r) {
  while (r->n_fds > 0)
    close(r->fds[--r->n_fds]);
}

/* Nothing of the leaf stays. */
static void undo(pco_cgroup *g, reply *r) {
  close_fds(r);
  remove_leaf(g, r->a.leaf);
  r->a.n_procs = r->a.limits = r->a.counters = r->a.shared = 0;
}

static void say(reply *r, const pco_cgroup_tree *t, int rc) {
  if (r->a.error)
    return;
  r->a.error = (uint32_t)-rc;
  if (rc == -ENODEV)
    snprintf(r->a.text, sizeof r->a.text, "no cgroup has this controller here");
  else if (t)
    snprintf(r->a.text, sizeof r->a.text, "%.*s: %s", PCO_CGROUP_TEXT - 48,
             t->dir, strerror(-rc));
}

/* For a command each limit is worth having without the others; a supervisor
 * needs all. */
static void make_leaf(pco_cgroup *g, reply *r, const pco_cgroup_limits *own,
                      uint32_t wanted) {
  for (uint32_t bit = 1; bit < 8; bit <<= 1)
    if (bit & wanted && !pco_cgroup_tree_of(g, bit))
      say(r, NULL, -ENODEV);
  for (uint32_t i = 0; i < g->n_trees; i++) {
    pco_cgroup_tree *t = &g->trees[i];
    unsigned before = r->n_fds;
    uint32_t limits = r->a.limits;
    if (!(t->limits & wanted))
      continue;
    int rc = make_with(g, r, i, own, wanted);
    if (rc == 0)
      continue;
    while (r->n_fds > before)
      close(r->fds[--r->n_fds]);
    r->a.n_procs = before;
    r->a.limits = limits;
    pco_cgroup_remove_leaf(g, i, r->a.leaf);
    say(r, t, rc);
  }
  int rc = r->n_fds ? open_counters(g, r) : 0;
  if (rc != 0)
    say(r, NULL, rc);
  if (rc != 0 || !r->n_fds || (!own && r->a.error))
    undo(g, r);
}

/* Less than the sandbox has, or as much: v1 would refuse more. */
static void cap_cpus(const pco_cgroup *g, pco_cgroup_limits *l) {
  if (g->applied & PCO_KEEPER_LIMIT_CPUS && l->cpus > g->limits.cpus)
    l->cpus = g->limits.cpus;
}

/* A supervisor has one command, and a command is a process: an honest agent has
 * use for as many as pids.max allows, a few idle ones, and some whose command
 * is about to be refused. */
static bool may_have_another(const pco_cgroup *g, bool supervisor) {
  if (!(g->applied & PCO_KEEPER_LIMIT_PIDS) ||
      g->limits.pids >= PCO_CGROUP_MAX_LEAVES)
    return true;
  uint64_t most = g->limits.pids + PCO_CGROUP_SPARE_LEAVES, n = 0;
  if (supervisor)
    return g->n_supervisors < most;
  for (uint32_t i = 0; i < PCO_CGROUP_MAX_LEAVES; i++)
    n += g->leaves[i].state != FREE;
  return n < 2 * most;
}

static void make(pco_cgroup *g, const pco_cgroup_request *q, reply *r) {
  pco_cgroup_leaf *l = &g->leaves[q->leaf];
  bool is_supervisor = q->flags & PCO_CGROUP_SUPERVISOR;
  pco_cgroup_limits own = {
      .memory = q->memory, .pids = q->pids, .cpus = (uint32_t)q->cpus};
  if (l->state == DYING)
    remove_leaf(g, q->leaf);
  if (l->state != FREE) {
    say(r, NULL, -EBUSY);
    return;
  }
  if (!may_have_another(g, is_supervisor)) {
    say(r, NULL, -EAGAIN);
    return;
  }
  if (!is_supervisor)
    pco_cgroup_search(g); /* without trees the answer says why */
  l->state = MADE;
  cap_cpus(g, &own);
  make_leaf(g, r, is_supervisor ? NULL : &own,
            is_supervisor ? g->applied : pco_cgroup_wanted(&own));
  if (is_supervisor && l->state == MADE) {
    l->is_supervisor = true;
    g->n_supervisors++;
    pco_cgroup_count_supervisors(g);
  }
}

/* ---- the connection ----------------------------------------------------- */

/* An agent that does not take its answers gets no more. */
static int send_reply(int fd, reply *r) {
  struct iovec v = {&r->a, sizeof r->a};
  struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
  pco_rights room;
  pco_rights_put(&m, &room, r->fds, r->n_fds);
  ssize_t n = sendmsg(fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
  return n < 0 ? -errno : 0;
}

static bool is_good(const pco_cgroup_request *q) {
  if (q->leaf >= PCO_CGROUP_MAX_LEAVES || q->flags > PCO_CGROUP_SUPERVISOR)
    return false;
  if (q->type == PCO_CGROUP_REMOVE)
    return true;
  return q->type == PCO_CGROUP_MAKE && q->memory <= INT64_MAX &&
         q->pids <= INT64_MAX && q->cpus <= UINT32_MAX;
}

int pco_cgroup_serve(pco_cgroup *g, int fd) {
  pco_cgroup_request q;
  /* Without room for them, descriptors that come along are dropped. */
  ssize_t n = recv(fd, &q, sizeof q, MSG_DONTWAIT | MSG_TRUNC);
  if (n < 0)
    return errno == EAGAIN || errno == EINTR ? 0 : -errno;
  if (n == 0)
    return -EPIPE;
  if (n != sizeof q || !is_good(&q))
    return -EPROTO;
  if (q.type == PCO_CGROUP_REMOVE) {
    if (g->leaves[q.leaf].state != FREE)
      remove_leaf(g, q.leaf);
    return 0;
  }
  reply r = {
      .a = {.type = PCO_CGROUP_MADE, .leaf = q.leaf, .serial = q.serial}};
  make(g, &q, &r);
  int rc = send_reply(fd, &r);
  if (rc != 0)
    undo(g, &r);
  close_fds(&r);
  return rc;
}
