/* SPDX-License-Identifier: MIT */
/*
 * From a SPAWN frame to a running program: argument list, environment, user
 * and stdio, and the ERROR frame if it cannot be started.
 */
#ifndef PCO_LAUNCH_H
#define PCO_LAUNCH_H

#include "channel.h"
#include "placement.h"
#include "request.h"

#include <sys/types.h>

/* Resource limits of every command; 0: none. */
typedef struct pco_rlimits {
  uint64_t memory;     /* bytes of address space of a process */
  uint64_t pids;       /* processes of the commands' user */
  uint64_t open_files; /* of a process */
} pco_rlimits;

/* Sets what holds for every command from now on, also in forks. */
void pco_launch_init(const pco_rlimits *limits);
/* Tells how many processes of the agent itself there are: they count if the
 * commands have the same user. */
void pco_launch_others(uint64_t n);

/* Starts the program of a checked SPAWN; `null` is a descriptor of /dev/null.
 * `own` is where the caller is, `command` where the command is to be: what the
 * SPAWN limits and that leaf does not becomes a resource limit.  The
 * descriptors of f stay the caller's.  The pid, or a negative errno with the
 * ERROR frame in *answer. */
pid_t pco_launch(const pco_frame *f, const pco_request *r, int null,
                 const pco_placement *own, const pco_placement *command,
                 pco_wire_buf *answer);

#endif /* PCO_LAUNCH_H */
