/* SPDX-License-Identifier: MIT */
/*
 * What the two halves of the keeper's cgroups (cgroup.c: the sandbox's
 * directory; cgroup_leaf.c: the leaves below it) have in common.
 */
#ifndef PCO_CGROUP_LEAF_H
#define PCO_CGROUP_LEAF_H

#include "cgroup.h"

/* Finds the trees, once: 0 or -errno. */
int pco_cgroup_search(pco_cgroup *g);
/* The tree that has the controller of a limit, or NULL. */
pco_cgroup_tree *pco_cgroup_tree_of(pco_cgroup *g, uint32_t limit);
/* Makes the sandbox's directory in a tree, if it is not there, with the
 * controllers of `limits`: 0, or -errno (-ENODEV: the tree has none of them;
 * -EPERM in v1: nobody could be moved there). */
int pco_cgroup_prepare(pco_cgroup *g, pco_cgroup_tree *t, uint32_t limits);
/* The limits that l has, as PCO_KEEPER_LIMIT_*. */
uint32_t pco_cgroup_wanted(const pco_cgroup_limits *l);
/* Sets one of them in a directory: 0 or -errno. */
int pco_cgroup_set(const pco_cgroup_tree *t, int dir,
                   const pco_cgroup_limits *l, uint32_t which);
/* Brings pids.max up to date. */
void pco_cgroup_count_supervisors(const pco_cgroup *g);
/* Removes a leaf from a tree: 0, also if it was not there, or -EBUSY. */
int pco_cgroup_remove_leaf(pco_cgroup *g, uint32_t tree, uint32_t leaf);

#endif /* PCO_CGROUP_LEAF_H */
