/* SPDX-License-Identifier: MIT */
/*
 * The keeper's child until it becomes the launcher: it makes the user and mount
 * namespaces that the launcher starts in, and puts what the sandbox is to see
 * on a tmpfs there (keeper.h).
 *
 * As root the mounts are made first, with root's own rights over the sources;
 * then comes the user namespace, with ids that mean nothing on this host.  An
 * ordinary user has rights over mounts only inside of its user namespace, but
 * then none any more over files that only it may reach: so the sources are
 * opened while it is still itself, and bound by descriptor.
 */
#ifndef PCO_KEEPER_STAGE_H
#define PCO_KEEPER_STAGE_H

#include "keeper_ids.h"
#include "keeper_words.h"

/* What goes from the child to the keeper: `stage` < 0: map me now; else it
 * failed there.  The end of the stream means that the launcher runs. */
typedef struct pco_stage_report {
  int32_t stage; /* PCO_KEEPER_STAGE_*, or -1 */
  int32_t error; /* a positive errno */
  char text[256];
} pco_stage_report;

/* Runs in the child of a fork into a new PID namespace (and user namespace, if
 * it is not root): prepares everything and executes the launcher.  `sync` is a
 * SOCK_SEQPACKET to the keeper, which answers a byte when the maps are written.
 */
_Noreturn void pco_stage_main(pco_keeper_words *w, const pco_keeper_ids *ids,
                              int sync);

#endif /* PCO_KEEPER_STAGE_H */
