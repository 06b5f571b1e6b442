/* SPDX-License-Identifier: MIT */
/*
 * Where cgroups can be made: which hierarchy has which controller, where it is
 * mounted, and which directory in it is meant.  Nothing is changed here.
 */
#ifndef PCO_CGROUP_FIND_H
#define PCO_CGROUP_FIND_H

#include "cgroup.h"

/* The names of the controllers, by the bit of their limit. */
extern const char *const pco_cgroup_controllers[3];

/* Reads a small file below a directory as text: 0 or -errno. */
int pco_cgroup_read(int dir, const char *name, char *out, size_t size);
/* The limits whose controllers are words of a text. */
uint32_t pco_cgroup_words(const char *text);

/* Fills trees[].limits, .v2, .dir and n_trees for g->base; `want` matters to
 * "auto" in v2.  0 or -errno (the files in /proc cannot be read). */
int pco_cgroup_find(pco_cgroup *g, uint32_t want);

#endif /* PCO_CGROUP_FIND_H */
