/* SPDX-License-Identifier: MIT */
/*
 * Cgroups of sandboxes whose host and keeper were killed together: nobody is
 * left who would remove them, so whoever makes one there sweeps.
 *
 * A keeper holds a lock (flock) on its directories as long as it lives; in
 * whichever PID namespace, the kernel knows whether it does.  What is not
 * locked, old enough to have been, and has no processes is removed, and nobody
 * is killed.
 */
#ifndef PCO_CGROUP_SWEEP_H
#define PCO_CGROUP_SWEEP_H

#include "cgroup.h"

/* Looks at some of the directories beside those of g; where there are many,
 * each time at others. */
void pco_cgroup_sweep(const pco_cgroup *g);

#endif /* PCO_CGROUP_SWEEP_H */
