/* SPDX-License-Identifier: MIT */
/* What killed workers leave; see litter.h. */
#include "litter.h"

#include "agent.h"
#include "fs.h"
#include "rmtree.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#define PREFIX "/.portico-" /* of every name that is made here */

/* ---- noting -------------------------------------------------------------- */

pco_litter *pco_litter_new(void) {
  void *p = mmap(NULL, sizeof(pco_litter), PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return p == MAP_FAILED ? NULL : p;
}

void pco_litter_free(pco_litter *l) {
  if (l)
    munmap(l, sizeof *l);
}

static void note(pco_litter *l, int dir, const char *name) {
  char self[32];
  if (!l)
    return;
  l->there = false;
  snprintf(self, sizeof self, "/proc/self/fd/%d", dir);
  ssize_t n = readlink(self, l->path, PATH_MAX);
  if (n <= 0 || n >= PATH_MAX)
    return; /* too deep to be named */
  snprintf(l->path + n, sizeof l->path - (size_t)n, "%s%s",
           l->path[n - 1] == '/' ? "" : "/", name);
  l->there = true;
}

int pco_litter_name(pco_litter *l, int dir, char name[NAME_MAX + 1]) {
  int rc = pco_fs_random_name(PREFIX + 1, name);
  if (rc == 0)
    note(l, dir, name);
  return rc;
}

void pco_litter_clear(pco_litter *l) {
  if (l)
    l->there = false;
}

/* ---- removing ------------------------------------------------------------ */

void pco_litter_remove(int dir, const char *name) {
  static pco_rmtree tree;
  int copy = fcntl(dir, F_DUPFD_CLOEXEC, 3);
  if (copy < 0)
    return;
  int rc = pco_rmtree_init(&tree, copy, name, true);
  if (rc == 0)
    while (pco_rmtree_step(&tree, 4096) == 1)
      ;
  pco_rmtree_deinit(&tree);
}

/* It goes by the path, since the dead held the directory; what leads out of the
 * root is not found. */
static _Noreturn void remove_path(pco_agent *a, const char *path) {
  pco_place at;
  pco_worker_close_others(a, -1);
  prctl(PR_SET_NAME, "portico-tidy");
  prctl(PR_SET_CHILD_SUBREAPER, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (pco_walk(&a->paths, path, PCO_WALK_NOFOLLOW, &at) == 0 && at.fd >= 0 &&
      strncmp(at.name, PREFIX + 1, sizeof PREFIX - 2) == 0)
    pco_litter_remove(pco_place_dir(&at), at.name);
  _exit(0);
}

static bool is_litter(pco_litter *l) {
  l->path[sizeof l->path - 1] = 0;
  const char *name = strrchr(l->path, '/');
  return l->there && name && strncmp(name, PREFIX, sizeof PREFIX - 1) == 0;
}

/* A process begins to remove it; false: there is nothing, or no process. */
static bool begin(pco_agent *a, pco_left *left) {
  pid_t pid = is_litter(left->litter) ? fork() : -1;
  if (pid == 0)
    remove_path(a, left->litter->path);
  pco_litter_free(left->litter);
  left->litter = NULL;
  left->pid = pid;
  return pid > 0;
}

/* ---- whose it is --------------------------------------------------------- */

void pco_litter_expect(pco_agent *a, pid_t pid, pco_litter *l) {
  pco_left *left = l ? malloc(sizeof *left) : NULL;
  if (!left) {
    pco_litter_free(l);
    return;
  }
  *left = (pco_left){.next = a->left, .pid = pid, .litter = l};
  a->left = left;
}

void pco_litter_reaped(pco_agent *a, pid_t pid) {
  pco_left **at = &a->left;
  while (*at && (*at)->pid != pid)
    at = &(*at)->next;
  pco_left *left = *at;
  if (!left || (left->litter && begin(a, left)))
    return;
  *at = left->next;
  free(left);
}

bool pco_litter_has(const pco_agent *a, pid_t pid) {
  const pco_left *left = a->left;
  while (left && left->pid != pid)
    left = left->next;
  return left != NULL;
}

void pco_litter_forget(pco_agent *a) {
  for (pco_left *left; (left = a->left);) {
    a->left = left->next;
    pco_litter_free(left->litter);
    free(left);
  }
}
