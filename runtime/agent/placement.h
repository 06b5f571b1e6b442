/* SPDX-License-Identifier: MIT */
/*
 * A supervisor's side of cgroups: the leaf it is in, the leaf of the command it
 * has now, and what the kernel counted there.
 *
 * The agent passes what the keeper made in two frames before the SPAWN that
 * needs it (supervisor.h); both hold the keeper's answer as it came.
 * Descriptors of cgroup.procs are closed once they were used; no command ever
 * has one.
 */
#ifndef PCO_PLACEMENT_H
#define PCO_PLACEMENT_H

#include "cgroup.h"
#include "channel.h"

#include <stdbool.h>
#include <stdint.h>

/* A counter of the kernel in a file of a cgroup. */
typedef struct pco_counter {
  int fd;        /* -1: there is none */
  uint64_t seen; /* its value that was told already */
  bool shared;   /* it counts for others, too */
} pco_counter;

typedef struct pco_placement {
  uint32_t limits; /* PCO_KEEPER_LIMIT_* that hold there */
  int procs[PCO_CGROUP_MAX_TREES];
  unsigned n_procs;
  pco_counter memory; /* processes killed */
  pco_counter pids;   /* forks refused */
} pco_placement;

/* Reads the keeper's answer out of a frame: 0 or -EPROTO. */
int pco_placement_answer(const pco_frame *f, pco_cgroup_answer *out);

void pco_placement_init(pco_placement *p);
/* Takes the descriptors of a PCO_SUP_LEAF or PCO_SUP_COUNTERS; the frame has
 * none afterwards. */
void pco_placement_take(pco_placement *p, const pco_cgroup_answer *a,
                        pco_frame *f);
/* Moves the caller into the leaf and closes the descriptors for it: 0 or
 * -errno. */
int pco_placement_enter(pco_placement *p);
/* Closes everything. */
void pco_placement_deinit(pco_placement *p);

/* The value of the counter's file; what was seen if it cannot be read. */
uint64_t pco_counter_read(const pco_counter *c, bool of_memory);
/* True if it rose since it was asked last. */
bool pco_counter_rose(pco_counter *c, bool of_memory);

#endif /* PCO_PLACEMENT_H */
