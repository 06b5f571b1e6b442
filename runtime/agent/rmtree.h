/* SPDX-License-Identifier: MIT */
/*
 * Removing a tree, in steps.
 *
 * Never follows a link, never enters another mount (bind mounts included), and
 * holds a bounded number of descriptors however deep the tree is: below
 * PCO_RMTREE_DEPTH a directory is first moved up beside the top one.  Names
 * that cannot be removed are left, the rest goes on, and the first error is the
 * result.
 */
#ifndef PCO_RMTREE_H
#define PCO_RMTREE_H

#include <dirent.h>
#include <limits.h>
#include <stdbool.h>

#define PCO_RMTREE_DEPTH 24

typedef struct pco_rmtree_level {
  DIR *dir;
  char name[NAME_MAX + 1]; /* in the level above, or in `parent` */
  int passes;
  bool progress; /* something was removed in this pass */
} pco_rmtree_level;

typedef struct pco_rmtree {
  int parent; /* directory that holds the tree; owned */
  bool force; /* gives itself the rights to read and change directories */
  int error;  /* the first one, negative */
  int depth;  /* levels in use */
  pco_rmtree_level level[PCO_RMTREE_DEPTH];
} pco_rmtree;

/* Starts removing `name` in the directory `parent`, which the rmtree owns from
 * now on.  0, also if it was one file and is gone; or a negative errno. */
int pco_rmtree_init(pco_rmtree *t, int parent, const char *name, bool force);
/* Removes about `budget` names.  1: there is more; 0: done; else the first
 * error, when done. */
int pco_rmtree_step(pco_rmtree *t, int budget);
void pco_rmtree_deinit(pco_rmtree *t);

/* The directory that holds `path` (which is absolute and not "/"), opened, and
 * the last component in name.  The descriptor or a negative errno. */
int pco_rmtree_open_parent(const char *path, char name[NAME_MAX + 1]);

#endif /* PCO_RMTREE_H */
