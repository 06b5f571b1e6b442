/* SPDX-License-Identifier: MIT */
/*
 * Trees of plain files that look like cgroup v1, v2 and both, a cgroup of the
 * keeper's on them, and the two ends of the keeper's socket.
 */
#ifndef CGROUP_TREE_H
#define CGROUP_TREE_H

#include "agent_client.h"

#include "../../runtime/agent/cgroup.h"
#include "../../runtime/agent/cgroup_find.h"

#include <limits.h>

/* ---- files --------------------------------------------------------------- */

extern char tree_root[PATH_MAX / 4];
extern bool tree_is_v2; /* what is made now */
extern int tree_fails;  /* errno of the next that is made */

bool tree_open(void);
void tree_close(void);

/* A path in it; one of eight that take turns. */
const char *tree_at(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void tree_put(const char *path, const char *text);
/* One of four that take turns; if it cannot be read, why. */
const char *tree_get(const char *path);
#define HAS(path, want)                                                        \
  do {                                                                         \
    const char *got_ = tree_get(path);                                         \
    OK(strcmp(got_, want) == 0, "%s is '%s' (want '%s')", path, got_, want);   \
  } while (0)

/* A cgroup that is there from the start. */
void tree_dir(const char *path);
/* One whose parent hands all on, and that does so too. */
void tree_dir_v2(const char *path);
/* As the kernel makes one. */
int tree_make(int dir, const char *name);

/* ---- systems ------------------------------------------------------------- */

extern pco_cgroup cgroup;
extern uint32_t cgroup_applied;
extern char cgroup_why[512];
extern const pco_cgroup_limits cgroup_all; /* something of each */

extern const char tree_mounts_v2[]; /* for tree_set_up */

void tree_clear(void);
/* self and mounts are the lines of these files; every "@" is the root. */
void tree_set_up(const char *self, const char *mounts, bool ordinary);
/* An empty tree of v1, or v2, and `cgroup` for it, to be started. */
void tree_v1(bool ordinary);
void tree_v2(const char *own, bool ordinary);
int cgroup_start(const char *base, const char *name, pco_cgroup_limits want);

/* ---- a keeper's socket --------------------------------------------------- */

typedef struct heard {
  pco_cgroup_answer a;
  int fds[8];
  unsigned n;
} heard;

extern int cgroup_ends[2]; /* the keeper's, the agent's */

void cgroup_open_socket(void);
void cgroup_close_socket(void);
/* Takes an answer with its descriptors; false: there is none. */
bool cgroup_hear(int fd, heard *h);
void cgroup_forget(heard *h);
/* Sends a request, and lets the keeper serve it. */
int cgroup_ask(pco_cgroup_request q);
int cgroup_make(uint32_t leaf, uint32_t flags, pco_cgroup_limits l);
int cgroup_drop(uint32_t leaf);

#endif /* CGROUP_TREE_H */
