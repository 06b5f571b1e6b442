/* SPDX-License-Identifier: MIT */
/*
 * The cgroups of a sandbox: made, served and removed by its keeper.
 *
 *   BASE/portico-NAME        the limits of the sandbox
 *   BASE/portico-NAME/N      a leaf, N < PCO_CGROUP_MAX_LEAVES: of a supervisor
 *                            (with the command that it has now), or of one
 *                            command that has limits of its own
 *
 * In cgroup v1 each controller (memory, pids, cpu) has a tree of its own, or
 * some share one; in v2 there is one tree.  A machine may have both: each
 * controller is looked for where it is.  Only trees whose controller is asked
 * for get a directory.
 *
 * The keeper, the launcher and the agent stay outside, so that no limit stops
 * what must go on.  A supervisor moves itself into its leaf once, and what it
 * starts is born there.  A command with limits of its own is moved by its child
 * before the exec.  Both do it by writing "0" to descriptors of cgroup.procs
 * that the keeper has opened: for the kernel it is the keeper who moves them.
 *
 * A supervisor has a leaf of its own because the kernel counts, in v1 for the
 * leaf alone, how many processes it killed for want of memory and how many
 * forks it refused; so it is known which command was hit.  Supervisors count as
 * processes, so pids.max is what was asked for and one for each of them.
 *
 * The agent may be hostile by the time it asks.  It names leaves by number; it
 * can make at most PCO_CGROUP_MAX_LEAVES of them, and not many more than there
 * may be processes, below the sandbox's directory, where the sandbox's limits
 * hold whatever it asks for: pids.max stays below twice what was asked for and
 * PCO_CGROUP_SPARE_LEAVES.  Nobody else makes any: the agent has descriptors of
 * cgroup.procs and of counters, from which nothing else can be reached.
 *
 * Nothing here takes memory from the heap.
 */
#ifndef PCO_CGROUP_H
#define PCO_CGROUP_H

#include "keeper.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PCO_CGROUP_MAX_LEAVES   2048u
#define PCO_CGROUP_SPARE_LEAVES 64u
#define PCO_CGROUP_MAX_TREES    3u /* memory, pids, cpu */
#define PCO_CGROUP_MAX_FDS      (PCO_CGROUP_MAX_TREES + 2) /* procs, counters */
#define PCO_CGROUP_TEXT         160

typedef struct pco_cgroup_limits {
  uint64_t memory; /* bytes; 0, here and below: no limit */
  uint64_t pids;
  uint32_t cpus; /* 1/1000 of one */
  /* The supervisors run under another uid than the keeper: v1 then lets only
   * root move them. */
  bool other_uid;
} pco_cgroup_limits;

/* What the code stands on, so that a test can have a tree of plain files.  A
 * NULL means the system's own. */
typedef struct pco_cgroup_system {
  const char *self;   /* /proc/self/cgroup */
  const char *mounts; /* /proc/self/mountinfo */
  bool ordinary;      /* not root */
  /* Like mkdirat (0755) and unlinkat of a directory, but 0 or -errno. */
  int (*make)(int dir, const char *name);
  int (*remove)(int dir, const char *name);
} pco_cgroup_system;

/* One hierarchy, and this sandbox's directory in it. */
typedef struct pco_cgroup_tree {
  bool v2;
  bool shared_events; /* v2: refused forks are counted where the limit is */
  uint32_t limits;    /* PCO_KEEPER_LIMIT_*: those whose controller is here */
  int base;           /* -1: not opened yet */
  int top;            /* BASE/portico-NAME; -1: not made */
  char dir[PATH_MAX]; /* BASE */
  /* v2: the nearest cgroup above both BASE and the caller, whose cgroup.procs
   * must be the caller's to write; "": that is known */
  char common[PATH_MAX];
} pco_cgroup_tree;

typedef struct pco_cgroup_leaf {
  uint8_t state;      /* 0: free */
  uint8_t trees;      /* in which it is, by bit */
  bool is_supervisor; /* it counts in pids.max */
} pco_cgroup_leaf;

typedef struct pco_cgroup {
  pco_cgroup_system system;
  char name[NAME_MAX + 1]; /* portico-NAME */
  char base[PATH_MAX];     /* as given */
  bool found;              /* trees are known */
  pco_cgroup_limits limits;
  uint32_t applied;
  uint32_t n_trees;
  uint32_t n_supervisors;
  pco_cgroup_tree trees[PCO_CGROUP_MAX_TREES];
  pco_cgroup_leaf leaves[PCO_CGROUP_MAX_LEAVES];
} pco_cgroup;

/* ---- for the keeper ----------------------------------------------------- */

/* Makes the directories of a sandbox.  `base` is where: "auto", a directory of
 * a mounted hierarchy (the same place is then used in the others), or a place
 * as /proc/self/cgroup writes it.  "auto" is the caller's own cgroup; in v2,
 * which wants no processes where there are limits below, it is /portico for
 * root (or the root itself for who is there), and for others the first cgroup
 * above its own that is theirs and hands the controllers on.
 *
 * *applied tells which limits hold; `why` the reason for each that does not.
 * Without any limit nothing is made before the first request for a leaf.
 * Returns 0; or, with nothing left behind, -EEXIST if there is a sandbox of
 * that name, -EINVAL for a name that is none, or what the system was short of.
 * Called once, with g zeroed but for g->system. */
int pco_cgroup_init(pco_cgroup *g, const char *base, const char *name,
                    const pco_cgroup_limits *want, uint32_t *applied, char *why,
                    size_t why_size);
/* Tells the agent, over the keeper's end of its socket, which limits its
 * supervisors need leaves for; once, before it can have been started. */
int pco_cgroup_greet(const pco_cgroup *g, int fd);
/* Handles one request of the agent, when fd is readable: 0, or a negative
 * errno if the connection is to be closed. */
int pco_cgroup_serve(pco_cgroup *g, int fd);
/* Kills what is left inside and removes all: 0, or -EBUSY, to be called again
 * a little later. */
int pco_cgroup_remove(pco_cgroup *g);
/* Does so for a sandbox whose keeper was killed, waiting up to five seconds; 0
 * if there is none. */
int pco_cgroup_remove_stale(const char *base, const char *name);

/* ---- for the agent, over a SOCK_SEQPACKET ------------------------------- */

enum {
  PCO_CGROUP_MAKE = 1, /* answered by PCO_CGROUP_MADE */
  PCO_CGROUP_REMOVE    /* not answered */
};
enum { PCO_CGROUP_SUPERVISOR = 1 /* flags: the sandbox's limits, no others */ };

typedef struct pco_cgroup_request {
  uint32_t type;
  uint32_t leaf;
  uint32_t serial; /* comes back */
  uint32_t flags;
  uint64_t memory, pids; /* of a command: those it has, as above */
  uint64_t cpus;
} pco_cgroup_request;

enum { PCO_CGROUP_GREETING = 1, PCO_CGROUP_MADE };

/* With MADE come descriptors: n_procs of cgroup.procs, then the counters, of
 * memory first. */
typedef struct pco_cgroup_answer {
  uint32_t type;
  uint32_t leaf;
  uint32_t serial;
  uint32_t limits;   /* GREETING: of the sandbox; MADE: that hold in the leaf */
  uint32_t error;    /* MADE: why not all that were asked for; or 0 */
  uint32_t n_procs;  /* 0: there is no leaf */
  uint32_t counters; /* PCO_KEEPER_LIMIT_MEMORY, _PIDS */
  uint32_t shared;   /* those of them that count for other leaves, too */
  char text[PCO_CGROUP_TEXT]; /* with error: about what */
} pco_cgroup_answer;

#endif /* PCO_CGROUP_H */
